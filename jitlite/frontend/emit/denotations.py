"""What a name denotes: builtins of the language, and Python objects as sugared values."""

from __future__ import annotations

import cmath
import inspect
import math
import types
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from jitlite.base.errors.calls import KNOWN_WHEN_COMPILED
from jitlite.base.errors.names import NO_ATTRIBUTE, PYTHON_ONLY, UNKNOWN_OPERATOR
from jitlite.base.errors.statements import VARIABLE_ARGUMENTS
from jitlite.base.errors.type_names import ENUM_VALUES
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.annotations import parse_type, type_from_python
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import (
    ContextClass,
    ExceptionClass,
    FunctionValue,
    NamedTupleConstructor,
    OverloadedFunction,
    PythonCall,
)
from jitlite.frontend.emit.constant_arguments import by_constants
from jitlite.frontend.emit.definition import Definition, Maker, Scope
from jitlite.frontend.emit.enum_members import EnumClass
from jitlite.frontend.emit.language_values import BreakpointValue, Cast, FormatValue, PrintValue, standard_stream
from jitlite.frontend.emit.meanings import BooleanDispatch, Kind, Meaning, meaning_of, module_attribute, plain_constant
from jitlite.frontend.emit.open_calls import (
    GeneratorCall,
    as_given,
    emit_here,
    gives_functions,
    gives_no_value,
    is_of_subclass,
    may_lack_sizes,
    needs_place,
    with_open_sizes,
    with_subclasses,
)
from jitlite.frontend.emit.python_library import library_of, list_with_default
from jitlite.frontend.emit.resolver import FunctionResolver, Resolver
from jitlite.frontend.emit.special_functions import OperatorPacket, UnusedFunction
from jitlite.frontend.emit.special_methods import MagicFunction, UnionLength
from jitlite.frontend.emit.values import Args, BuiltinFunction, ConstantValue, SimpleValue, SpecialForm, SugaredValue
from jitlite.frontend.emit.ways_out import instead_of
from jitlite.frontend.syntax.python_ast import declaration_of
from jitlite.frontend.syntax.tree import Expr
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.constants import enum_type, module_name, qualified_name
from jitlite.ir.graph import constant_of
from jitlite.ir.schema import Argument
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue


def _builtin(name: str) -> BuiltinFunction:
    return BuiltinFunction(name)


_ATEN_BUILTINS = (
    "hex", "oct", "round", "hash", "all", "any", "divmod", "sum", "ord", "chr", "bin", "pow", "sorted",
)  # fmt: skip
_MAGIC_BUILTINS = ("round", "hash", "divmod")
_FORMS = (
    "tuple", "getattr", "setattr", "hasattr", "isinstance", "list", "dict", "range", "zip", "enumerate", "slice",
    "super",
)  # fmt: skip


BUILTINS: dict[str, SugaredValue] = {
    "print": PrintValue(),
    "breakpoint": BreakpointValue(),
    "repr": FormatValue("repr"),
    "format": FormatValue("format"),
    "int": MagicFunction("__int__", Cast(T.INT, "aten::Int")),
    "float": MagicFunction("__float__", Cast(T.FLOAT, "aten::Float")),
    "bool": MagicFunction("__bool__", Cast(T.BOOL, "aten::Bool")),
    "str": MagicFunction("__str__", Cast(T.STRING, "aten::str")),
    "complex": MagicFunction("__complex__", Cast(T.COMPLEX, "aten::Complex")),
    **{n: _builtin(f"aten::{n}") for n in _ATEN_BUILTINS if n not in _MAGIC_BUILTINS},
    **{n: MagicFunction(f"__{n}__", _builtin(f"aten::{n}")) for n in _MAGIC_BUILTINS},
    **{n: _builtin(f"prim::{n}") for n in ("id", "min", "max", "rangelist")},
    "len": MagicFunction("__len__", UnionLength()),
    "abs": MagicFunction("__abs__", _builtin("prim::abs")),
    **{n: SpecialForm(n) for n in _FORMS},
    # only AssertionError is known without Python, so that `assert` works everywhere
    "AssertionError": ExceptionClass(AssertionError, None),
}
"""Names that every function knows, unless it has a variable of that name."""


class ModuleValue(SugaredValue):
    """A Python module."""

    def __init__(self, scope: Scope, module: types.ModuleType) -> None:
        self.scope = scope
        self.module = module
        self.kind = f"the module {module.__name__}"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        try:
            meaning = module_attribute(self.module, name)
        except LookupError as error:
            kind = UNKNOWN_OPERATOR if self.module.__name__.startswith("torch.ops.") else NO_ATTRIBUTE
            raise kind(str(error.args[0]), range) from None
        return _sugared(self.scope, meaning, name, range)

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        return hasattr(self.module, name)


class PythonFunction(SugaredValue):
    """A Python function, compiled when it is called."""

    is_function = True
    takes_functions = True

    def __init__(self, scope: Scope, function: Callable[..., Any], signature: Callable[..., Any] | None = None) -> None:
        self.scope = scope
        self.function = function
        self.signature = signature
        self.kind = f"the function {getattr(function, '__name__', function)}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if inspect.isgeneratorfunction(self.function):
            found: SugaredValue = b.emit_sugared(GeneratorCall(self.function, args, kwargs, range=range))
            return found
        program = self.scope.program
        definition = None if self.signature is not None else program.open_definition(self.function)
        if definition is None and self.signature is None:
            definition = self._reopened(args, kwargs)
        if definition is not None and needs_place(definition, args, kwargs):
            return emit_here(b, range, definition, args, kwargs)
        given = None if definition is None else as_given(definition, args, kwargs)
        try:
            compiled = program.function_for(self.function, range, self.signature, given)
        except CompileError as error:
            if gives_no_value(error) and self.signature is None:
                with suppress(CompileError):
                    return emit_here(b, range, program.definition_for(self.function), args, kwargs)
            return self._by_type(b, range, args, kwargs, error)
        return FunctionValue(compiled).call(b, range, *((args, kwargs) if given is None else ([], given.arguments)))

    def _by_type(self, b: Builder, range: SourceRange, args: Args, kwargs: Args, error: CompileError) -> SugaredValue:
        """A call for each type of an argument of a Union, where the function compiles for these only.

        Raises:
            CompileError: the `error`, where there is no such argument or it does not compile then either.
        """
        values = [a.value for a in (*args, *kwargs) if a.value is not None]
        of_union = next((v for v in values if isinstance(v.type, T.UnionType)), None)
        if of_union is None or len(error.called_from) > 1:  # what is wrong is in another function
            raise error

        try:
            return SimpleValue(b.call_by_type(of_union, range, args, kwargs, partial(self.call, b, range)))
        except CompileError:
            raise error from None

    def _reopened(self, args: Args, kwargs: Args) -> Definition | None:
        """The definition for a call that gives what the annotations do not say; None for other calls."""
        if gives_functions(args, kwargs):
            return self.scope.program.definition_for(self.function)
        if any(may_lack_sizes(a) for a in (*args, *kwargs)):
            return with_open_sizes(self.scope.program.definition_for(self.function), args, kwargs)
        if any(is_of_subclass(a) for a in (*args, *kwargs)):
            return with_subclasses(self.scope.program.definition_for(self.function), args, kwargs)
        return None


class LibraryFunction(PythonFunction):
    """A function of Python's library, which goes through its arguments once; `original` is Python's."""

    takes_iterables = True

    def __init__(self, scope: Scope, function: Callable[..., object], original: object = None) -> None:
        super().__init__(scope, function)
        self.original = original

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        try:
            function, args, kwargs = by_constants(self.function, range, args, kwargs)
            if function is not self.function:
                return LibraryFunction(self.scope, function, self.original).call(b, range, args, kwargs)
            return super().call(b, range, args, kwargs)
        except CompileError as error:
            error.tell_at_call(getattr(self.original or self.function, "__name__", "a function"), range)
            raise

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        found = getattr(self.original, name, None)
        return super().attr(b, range, name) if found is None else sugared_from_python(self.scope, found, name, range)


class DispatchedFunction(SugaredValue):
    """One of two functions, chosen at compile time by a bool argument."""

    is_function = True

    def __init__(self, scope: Scope, name: str, dispatch: BooleanDispatch) -> None:
        self.scope = scope
        self.dispatch = dispatch
        self.kind = f"the function {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        dispatch = self.dispatch
        flag = dispatch.default
        given = [k.in_graph(b.graph) for k in kwargs if k.name == dispatch.name]
        if not given and dispatch.index < len(args):
            given = [args[dispatch.index].in_graph(b.graph)]
        if given:
            constant = constant_of(given[0], None)
            if not isinstance(constant, bool):
                raise KNOWN_WHEN_COMPILED(
                    f"'{dispatch.name}' has to be True or False where the program is compiled", range
                )
            flag = constant
        chosen = dispatch.if_true if flag else dispatch.if_false
        return sugared_from_python(self.scope, chosen, chosen.__name__, range).call(b, range, args, kwargs)


def sugared_from_python(scope: Scope, found: object, name: str, range: SourceRange) -> SugaredValue:
    """The sugared value of a Python object; of one that is sugared already, itself.

    Raises:
        CompileError: where a script cannot use the object.
    """
    if isinstance(found, SugaredValue):
        return found
    return _sugared(scope, meaning_of(found), name, range)


def _sugared(scope: Scope, meaning: Meaning, name: str, range: SourceRange) -> SugaredValue:
    make, stream = scope.program.makers.get(meaning.kind), standard_stream(meaning.object)
    if stream is not None:
        return stream
    if make is None:
        reason = (
            meaning.reason
            or f"'{name}' is {meaning.kind.value.partition(':')[0]}, which a script cannot use as a value"
        )
        raise PYTHON_ONLY(reason, range, hint=instead_of(meaning.object, name))
    return make(scope, meaning, range)


def _form(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    return BUILTINS.get(meaning.name) or SpecialForm(meaning.name)


def _overloaded(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    def candidates(called_at: SourceRange) -> list[FunctionValue]:
        declare = scope.program.function_for
        return [FunctionValue(declare(meaning.object, called_at, signature)) for signature in meaning.overloads]

    return OverloadedFunction(meaning.name, candidates)


class NumberFunction(BuiltinFunction):
    """A function of `math` or `cmath`: a tensor is made a number for it, as Python does.

    Args:
        is_complex: the numbers are complex.
        ints: the position from which on the parameters are ints.
    """

    def __init__(self, name: str, is_complex: bool, ints: int | None) -> None:
        super().__init__(name)
        self.is_complex = is_complex
        self.ints = ints

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if self.name == "aten::gcd" and len(args) != 2 and not kwargs:
            result = b.constant(0, range)
            for argument in args:
                result = b.op("aten::gcd", [result, self._number(b, range, argument, 0)], range=range)
            return SimpleValue(result)
        return super().call(b, range, [self._number(b, range, a, i) for i, a in enumerate(args)], kwargs)

    def _number(self, b: Builder, range: SourceRange, argument: NamedValue, position: int) -> NamedValue:
        is_tensor = T.is_subtype(argument.type, T.TENSOR)
        if self.is_complex and (is_tensor or argument.type in (T.FLOAT, T.INT, T.BOOL)):
            number = b.op("aten::item", [argument], range=range) if is_tensor else argument.in_graph(b.graph)
            made = b.op("aten::Complex", [number], range=range)
        elif not is_tensor:
            return argument
        elif self.ints is not None and position >= self.ints:
            made = b.convert(T.INT, argument.in_graph(b.graph), range)
        else:
            made = b.op("aten::Float", [argument], range=range)
        return NamedValue(argument.name, made, range=argument.range)


_INTS: dict[object, int] = {math.factorial: 0, math.gcd: 0, math.ldexp: 1}


def _operator(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    if meaning.object is None or isinstance(meaning.object, torch._ops.OpOverloadPacket):
        return OperatorPacket(meaning.name)
    if isinstance(meaning.object, torch._ops.OpOverload):
        overload = meaning.object._schema.overload_name
        only = [found for found in ops.lookup(meaning.name) if found.schema.overload == overload]
        return BuiltinFunction(meaning.name, candidates=only)
    if meaning.name == "aten::list_with_default":
        return SizesWithDefaults(scope, meaning.name)
    home = module_name(meaning.object)
    if home in ("math", "cmath"):
        is_complex = home == "cmath" and meaning.object is not cmath.rect  # which takes two floats
        return NumberFunction(meaning.name, is_complex, _INTS.get(meaning.object))
    return BuiltinFunction(meaning.name)


class SizesWithDefaults(BuiltinFunction):
    """torch.nn's `_list_with_default`; with None among the sizes, the function that takes them."""

    def __init__(self, scope: Scope, name: str) -> None:
        super().__init__(name)
        self.scope = scope

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if any(may_lack_sizes(a) for a in args):
            return LibraryFunction(self.scope, list_with_default).call(b, range, args, kwargs)
        return super().call(b, range, args, kwargs)


class NamedTupleClass(NamedTupleConstructor):
    """A NamedTuple class with the static methods, the methods and the constants that its body defines."""

    def __init__(self, scope: Scope, type: T.TupleType, defaults: dict[str, object]) -> None:
        super().__init__(type, defaults)
        self.scope = scope

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        found = inspect.getattr_static(self.type.python_class, name, None)
        function = found.__func__ if isinstance(found, staticmethod) else found
        is_own = inspect.isfunction(function) and function.__module__ != "collections"
        is_field, is_constant = name in (self.type.names or ()), found is not None and plain_constant(found)[0]
        if name.startswith("_") or is_field or not (is_own or is_constant):
            return super().attr(b, range, name)
        return sugared_from_python(self.scope, function, name, range)


def _named_tuple(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    t = type_from_python(meaning.object, range, scope.resolver.resolve_type, class_types=scope.program.type_of_class)
    assert isinstance(t, T.TupleType)
    return NamedTupleClass(scope, t, dict(meaning.object._field_defaults))


def _enum(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    t = enum_type(meaning.object)
    if not isinstance(t, T.EnumType):
        raise ENUM_VALUES(
            f"Could not unify type list: the members of enum '{meaning.object.__name__}' have values of several types",
            range, hint="give all members values of one type",
        )  # fmt: skip
    return EnumClass(t)


def _exception(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    cls = meaning.object
    name = f"builtins.{cls.__name__}" if cls.__module__ == "builtins" else qualified_name(cls)
    return ExceptionClass(cls, name)


def _amp_arguments(dtype: torch.dtype) -> list[Argument]:
    return [
        Argument("enabled", T.BOOL, default=True, default_text="True"),
        Argument("dtype", T.INT, default=dtype, default_text=str(dtype)),
        Argument("cache_enabled", T.BOOL, default=True, default_text="True"),
    ]


CONTEXT_ARGUMENTS: dict[Any, list[Argument]] = {
    torch.inference_mode: [Argument("mode", T.BOOL, default=True, default_text="True")],
    torch.set_grad_enabled: [Argument("mode", T.BOOL)],
    torch.cpu.amp.autocast_mode.autocast: _amp_arguments(torch.bfloat16),
    torch.cuda.amp.autocast_mode.autocast: _amp_arguments(torch.float16),
    torch.autocast: [
        Argument("device_type", T.STRING),
        Argument("dtype", T.OptionalType.of(T.INT), default=None, default_text="None"),
        Argument("enabled", T.BOOL, default=True, default_text="True"),
        Argument("cache_enabled", T.OptionalType.of(T.BOOL), default=None, default_text="None"),
    ],
    torch.autograd.profiler.record_function: [
        Argument("name", T.STRING),
        Argument("args", T.OptionalType.of(T.STRING), default=None, default_text="None"),
    ],
}
"""Parameters of the context managers of torch that have some."""


def _context(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    return ContextClass(meaning.object, CONTEXT_ARGUMENTS.get(meaning.object, []))


def _ignored(scope: Scope, meaning: Meaning, range: SourceRange) -> PythonCall:
    """An ignored function has the signature that its annotations give; what is not annotated is a Tensor."""
    function = meaning.object
    resolver = FunctionResolver(function, class_types=scope.program.type_of_class)
    signature = inspect.signature(function)
    comments, commented_result = _comment_types(function, resolver)
    arguments, rest = [], None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            raise VARIABLE_ARGUMENTS(f"an ignored function cannot take '**{parameter.name}'", range)
        t = comments.get(parameter.name) or _annotated(parameter.annotation, inspect.Parameter.empty, range, resolver)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = Argument(parameter.name, t)
            continue
        default: dict[str, Any] = {}
        if parameter.default is not parameter.empty:
            default = {"default": parameter.default, "default_text": repr(parameter.default)}
        kwarg_only = parameter.kind is parameter.KEYWORD_ONLY
        arguments.append(Argument(parameter.name, t, kwarg_only=kwarg_only, **default))
    result = commented_result or _annotated(signature.return_annotation, inspect.Signature.empty, range, resolver)
    return PythonCall(function, arguments, result, rest)


def _comment_types(function: Callable[..., object], resolver: Resolver) -> tuple[dict[str, Type], Type | None]:
    """The types that comments give to the parameters and the result of a function without annotations."""
    if getattr(function, "__annotations__", None):
        return {}, None
    decl = declaration_of(function)
    if decl is None:
        return {}, None
    types = {p.ident.name: _parsed(p.type, resolver) for p in decl.params if p.type is not None}
    return types, None if decl.return_type is None else _parsed(decl.return_type, resolver)


def _parsed(expr: Expr, resolver: Resolver) -> Type:
    return parse_type(expr, resolver.resolve_type, class_types=resolver.class_types)


def _unused(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """Of an unused function the result's type counts alone, and that only as far as scripts have such a type."""
    function = meaning.object
    resolver = FunctionResolver(function, class_types=scope.program.type_of_class)
    try:
        _, result = _comment_types(function, resolver)
        annotation = inspect.signature(function).return_annotation
        result = result or _annotated(annotation, inspect.Signature.empty, range, resolver)
    except CompileError:
        result = T.ANY
    return UnusedFunction(function, result)


def _annotated(annotation: object, empty: object, range: SourceRange, resolver: Resolver) -> Type:
    if annotation is empty:
        return T.TENSOR
    return type_from_python(annotation, range, resolver.resolve_type, class_types=resolver.class_types)


MAKERS: dict[Kind, Maker] = {
    Kind.CONSTANT: lambda scope, m, range: ConstantValue(m.object),
    Kind.FORM: _form,
    Kind.OPERATOR: _operator,
    Kind.SCRIPT_FUNCTION: lambda scope, m, range: FunctionValue(m.object),
    Kind.LIBRARY: lambda scope, m, range: LibraryFunction(scope, library_of(m.object) or m.object, m.object),
    Kind.IGNORED: _ignored,
    Kind.UNUSED: _unused,
    Kind.OVERLOADED: _overloaded,
    Kind.BOOLEAN_DISPATCH: lambda scope, m, range: DispatchedFunction(scope, m.name, _dispatch(m)),
    Kind.LEGACY_TENSOR: lambda scope, m, range: SpecialForm("legacy_tensor", ConstantValue(m.object)),
    Kind.CONTEXT: _context,
    Kind.MODULE: lambda scope, m, range: ModuleValue(scope, m.object),
    Kind.NAMED_TUPLE: _named_tuple,
    Kind.ENUM: _enum,
    Kind.EXCEPTION: _exception,
}
"""How kinds of Python objects become sugared values. `classes/denoted.py` has the whole table."""


def _dispatch(meaning: Meaning) -> BooleanDispatch:
    assert meaning.dispatch is not None
    return meaning.dispatch
