"""Calls of functions whose parameters leave types open: without annotation, with a generic one, with a star.

To TorchScript a parameter without annotation is a Tensor, and so it is here where one is given. Where the call gives
something else, torch.jit refuses; here the function is compiled for the types of the call, once for each combination:

    def scale(x, factor=2, dims=None): ...      scale(x, 3)    scale(x: Tensor, factor: int), dims is None

A parameter that is left to its default, or given True or False, is a constant of what is compiled, so conditions on it
are decided. Functions among the arguments, `*args` and `**kwargs` have no type: such a call is emitted in place, as
calls of nested functions are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jitlite.base.errors.names import NOT_A_VALUE
from jitlite.base.records import Record, replace
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.annotations import parse_parameter_type
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Definition, FunctionCompiler
from jitlite.frontend.emit.meanings import plain_constant
from jitlite.frontend.emit.open_types import inherits, is_open
from jitlite.frontend.emit.values import Args, ConstantValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import first_assignment
from jitlite.frontend.syntax.tree_base import HIDDEN, part
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import constant_of, is_constant
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.operators.overloads import NamedValue


class GivenTypes(Record, eq=True):
    """A function as one call needs it.

    Attributes:
        key: the same for calls that need the same.
        definition: what is compiled.
        arguments: those of the call, by keyword.
        shown: the function with the types, for errors.
    """

    key: object
    definition: Definition
    arguments: Sequence[NamedValue]
    shown: str


class InPlace(tree.Expr):
    """A call whose callee is emitted where the call stands."""

    kind = "in-place call"
    definition: Definition = part(HIDDEN)
    args: Args = part(HIDDEN)
    kwargs: Args = part(HIDDEN)


class GeneratorCall(tree.Expr):
    """A call of a Python function that yields."""

    kind = "generator call"
    function: Callable[..., object] = part(HIDDEN)
    args: Args = part(HIDDEN)
    kwargs: Args = part(HIDDEN)


def has_open_parameters(definition: Definition) -> bool:
    """Is there a parameter whose type each call tells?"""
    if definition.signature is not None:
        return False
    params = definition.tree.decl.params
    return any(_is_open(definition, p) for p in (params if definition.self_type is None else params[1:]))


def _is_open(definition: Definition, param: tree.Param) -> bool:
    return bool(param.stars) or param.type is None or is_open(param.type, definition.resolver)


def needs_place(definition: Definition, args: Args, kwargs: Args) -> bool:
    """Has the call arguments that no graph has, or the function parameters that none has?"""
    return gives_functions(args, kwargs) or any(p.stars for p in definition.tree.decl.params)


def gives_functions(args: Args, kwargs: Args) -> bool:
    """Are there functions among the arguments of a call?"""
    return any(isinstance(a.constant, SugaredValue) for a in (*args, *kwargs))


def emit_here(b: Builder, range: SourceRange, definition: Definition, args: Args, kwargs: Args) -> SugaredValue:
    """Emit the function, or method, where it is called."""
    found: SugaredValue = b.emit_sugared(InPlace(definition, args, kwargs, range=range))
    return found


def gives_no_value(error: CompileError) -> bool:
    """May a function that does not compile be emitted in place, as what it gives has no value in a graph?"""
    return error.code == NOT_A_VALUE.code and len(error.called_from) == 1


def is_compiled(program: FunctionCompiler, method: Function, range: SourceRange, shown: str | None = None) -> bool:
    """Compile a method; says whether it gives a value, as one that does not is emitted where it is called.

    Raises:
        CompileError: where it does not compile for another reason.
    """
    try:
        program.ready(method, range, shown)
    except CompileError as error:
        if gives_no_value(error):
            return False
        raise
    return True


def as_python_calls(definition: Definition, args: Args, kwargs: Args) -> Definition:
    """The definition as a call needs it that gives a function where the annotation says something else.

    Python heeds no annotation, and TorchScript has no such call: what is written for TorchScript is not meant.
    """
    bound = by_parameter(definition.tree.decl.params, args, kwargs) or {}
    declared = [p for p in definition.tree.decl.params if not _is_open(definition, p)]
    is_function = any(p.ident.name in bound and gives_functions([bound[p.ident.name]], []) for p in declared)
    return replace(definition, is_for_python=True) if is_function else definition


def as_given(definition: Definition, args: Args, kwargs: Args) -> GivenTypes | None:
    """What a call without such arguments needs.

    None where that is the function as it is compiled for any call, or the arguments do not fit the parameters.
    """
    params = definition.tree.decl.params
    bound = by_parameter(params, args, kwargs)
    if bound is None:
        return None
    inferred: dict[str, Type] = {}
    fixed: dict[str, object] = {}
    to_settle = params if definition.self_type is None else params[1:]
    if not all(_settle(definition, p, bound, inferred, fixed) for p in to_settle if _is_open(definition, p)):
        return None
    if not fixed and _are_plain_tensors(params, inferred):
        return None
    made = _with_settled(definition, bound, inferred, fixed)
    key = (*bound, None, *inferred.items(), None, *((name, type(value), value) for name, value in fixed.items()))
    arguments = [replaced_name(value, name) for name, value in bound.items() if name not in fixed]
    return GivenTypes(key, made, arguments, _shown(definition, inferred, fixed))


def with_open_sizes(definition: Definition, args: Args, kwargs: Args) -> Definition | None:
    """The definition with the types of the call for sizes among which None is; None where the call gives no such sizes.

    torch.nn says `(None, 7)` of a size that stays as it is, to functions that are annotated to take ints.
    """
    params = definition.tree.decl.params
    bound = by_parameter(params, args, kwargs) or {}
    lacking = {name for name, given in bound.items() if may_lack_sizes(given)}
    opened = tuple(
        tree.replaced(p, type=None) if p.ident.name in lacking and _takes_sizes(definition, p) else p for p in params
    )
    if all(a is b for a, b in zip(opened, params, strict=True)):
        return None
    decl = tree.replaced(definition.tree.decl, params=opened)
    return replace(definition, tree=tree.replaced(definition.tree, decl=decl))


def with_subclasses(definition: Definition, args: Args, kwargs: Args) -> Definition | None:
    """The definition with the classes of the call for parameters that are annotated with what these inherit from; None
    where the call gives no object of such a class."""
    params = definition.tree.decl.params
    bound = by_parameter(params, args, kwargs) or {}
    derived = {name: given.type for name, given in bound.items() if is_of_subclass(given)}
    opened = tuple(
        tree.replaced(p, type=None)
        if p.ident.name in derived and inherits(derived[p.ident.name], _annotated(definition, p))
        else p
        for p in params
    )
    if all(a is b for a, b in zip(opened, params, strict=True)):
        return None
    decl = tree.replaced(definition.tree.decl, params=opened)
    return replace(definition, tree=tree.replaced(definition.tree, decl=decl))


def is_of_subclass(given: NamedValue) -> bool:
    """Is an argument an object of a class that inherits from another one of the program?"""
    t = None if given.value is None else given.value.type
    cls = t.python_class if isinstance(t, T.ClassType) and not t.is_module else None
    return isinstance(cls, type) and cls.__base__ not in (object, None)


def _annotated(definition: Definition, param: tree.Param) -> Type | None:
    """The type that a parameter is annotated with; None where there is none, or it is of no use."""
    resolver = definition.resolver
    if param.type is None:
        return None
    try:
        return parse_parameter_type(param.type, resolver.resolve_type, class_types=resolver.class_types).type
    except CompileError:
        return None


def may_lack_sizes(given: NamedValue) -> bool:
    """Is an argument a list or tuple of ints with None among them?"""
    if given.value is None:
        return False
    t = given.value.type
    if isinstance(t, T.TupleType):
        return T.NONE in t.elements and all(e in (T.INT, T.NONE) for e in t.elements)
    return t is T.ListType.of(T.OptionalType.of(T.INT))


def _takes_sizes(definition: Definition, param: tree.Param) -> bool:
    if param.type is None:
        return False
    resolver = definition.resolver
    try:
        found = parse_parameter_type(param.type, resolver.resolve_type, class_types=resolver.class_types)
    except CompileError:
        return False
    return found.broadcast is not None and T.without_none(found.type) is T.ListType.of(T.INT)


def _are_plain_tensors(params: Sequence[tree.Param], inferred: Mapping[str, Type]) -> bool:
    """Are the types that were found those of parameters without annotation?"""
    return all(t is T.TENSOR for t in inferred.values()) and all(
        p.type is None for p in params if p.ident.name in inferred
    )


def _with_settled(
    definition: Definition,
    bound: Mapping[str, NamedValue],
    inferred: Mapping[str, Type],
    fixed: Mapping[str, object],
) -> Definition:
    """The definition with the types that were found, and with constants instead of the parameters that have a value."""
    decl = definition.tree.decl
    kept = [p for p in decl.params if p.ident.name not in fixed]
    typed = tuple(p if p.ident.name not in inferred else tree.replaced(p, type=None) for p in kept)
    return replace(
        definition,
        tree=tree.replaced(definition.tree, decl=tree.replaced(decl, params=typed)),
        defaults={name: v for name, v in definition.defaults.items() if name not in fixed and name not in bound},
        inferred={**definition.inferred, **inferred},
        variables={**definition.variables, **{name: ConstantValue(value) for name, value in fixed.items()}},
    )


def replaced_name(value: NamedValue, name: str) -> NamedValue:
    """The argument as one that is given by keyword."""
    return value._replace(name=name)


def by_parameter(params: Sequence[tree.Param], args: Args, kwargs: Args) -> dict[str, NamedValue] | None:
    """The arguments by parameter, in the order of the parameters; None where they do not fit."""
    positional = [p.ident.name for p in params if not p.kwarg_only]
    names = {p.ident.name for p in params}
    if len(args) > len(positional):
        return None
    found = dict(zip(positional, args, strict=False))
    for keyword in kwargs:
        name = keyword.name or ""
        if name in found or name not in names:
            return None
        found[name] = keyword
    return {p.ident.name: found[p.ident.name] for p in params if p.ident.name in found}


def _settle(
    definition: Definition,
    param: tree.Param,
    bound: Mapping[str, NamedValue],
    inferred: dict[str, Type],
    fixed: dict[str, object],
) -> bool:
    """Find the type or the value of an open parameter; says whether it has one."""
    name = param.ident.name
    given = bound.get(name)
    is_assigned = first_assignment(definition.tree, name) is not None
    if given is None:
        if name not in definition.defaults:
            return False
        is_plain, value = plain_constant(definition.defaults[name])
        if not is_plain:
            return False
        if is_assigned:
            inferred[name] = _type_of(value)
        else:
            fixed[name] = value
        return True
    known = constant_of(given.value) if given.value is not None and is_constant(given.value) else None
    if isinstance(known, bool) and not is_assigned:
        fixed[name] = known
        return True
    found = T.unshaped(given.type)
    inferred[name] = T.TENSOR if T.is_subtype(found, T.TENSOR) else found
    return True


def _type_of(value: object) -> Type:
    found = type_of_constant(value)
    assert found is not None, "a plain constant has a type"
    return found


def _shown(definition: Definition, inferred: Mapping[str, Type], fixed: Mapping[str, object]) -> str:
    parts = [f"{name}: {t.annotation}" for name, t in inferred.items()]
    parts += [f"{name}={value!r}" for name, value in fixed.items()]
    return f"{definition.name}({', '.join(parts)})"


def type_of_default(value: object) -> Type | None:
    """The type of a parameter without annotation by its default, None where that tells nothing.

    A Tensor may be given where the default is None.
    """
    if value is None:
        return T.OptionalType.of(T.TENSOR)
    is_plain, plain = plain_constant(value)
    return type_of_constant(plain) if is_plain else None
