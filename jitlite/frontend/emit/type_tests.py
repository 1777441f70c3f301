"""Questions about the types of values: `isinstance`, `hasattr`, and `type(x) is C`, with what they say of variables."""

from __future__ import annotations

import builtins
import itertools
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jitlite.base.errors.calls import KNOWN_WHEN_COMPILED
from jitlite.frontend.emit.attribute_refinement import path_of
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.exception_values import exception_classes, is_one_of
from jitlite.frontend.emit.interfaces import infer_results
from jitlite.frontend.emit.open_types import inherits
from jitlite.frontend.emit.plain_methods import is_size
from jitlite.frontend.emit.scope import Condition, Path, RefinementSet
from jitlite.frontend.emit.sequences import ListAsTuple
from jitlite.frontend.emit.values import SpecialForm
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import display_name
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type


def path_tested(subject: tree.Expr, value: Value) -> Path | None:
    """What a condition about an expression says something of: a variable, or what is reached from one."""
    if isinstance(subject, tree.NamedExpr):
        subject = subject.target
    if isinstance(subject, tree.Var):
        return (subject.name.name,)
    return path_of(value) if isinstance(subject, tree.Select | tree.Subscript) else None


def emit_hasattr(em: Emitter, subject: tree.Expr, name: tree.Expr) -> Condition:
    if not isinstance(name, tree.StringLiteral):
        raise KNOWN_WHEN_COMPILED("hasattr's second argument must be a string literal", name.range)
    has = em.emit_sugared(subject).has_attr(em, subject.range, name.value)
    return Condition(em.constant(has, subject.range), static=has)


def emit_isinstance(em: Emitter, subject: tree.Expr, classes: tree.Expr) -> Condition:
    """isinstance with refinement of the subject, decided at compile time where its type allows."""
    denoted = em.emit_sugared(subject)
    if denoted.is_function or isinstance(denoted, ListAsTuple):  # a function is of no class that scripts know
        is_one = isinstance(denoted, ListAsTuple) and any(_of_tuple(em, e) for e in _class_expressions(classes))
        return Condition(em.constant(is_one, subject.range), static=is_one)
    value = denoted.as_value(em, subject.range)
    if isinstance(value.type, T.ClassType) and value.type.is_module:
        is_one = any(_is_python_class(em, value.type, expr) for expr in _class_expressions(classes))
        return Condition(em.constant(is_one, subject.range), static=is_one)
    if value.type is T.EXCEPTION:
        return Condition(is_one_of(em, value, exception_classes(em, classes), subject.range))
    wanted = _standard_members([t for expr in _class_expressions(classes) for t in _class_types(em, expr, value.type)])
    if T.ANY_TUPLE in wanted and is_size(value):
        return Condition(em.constant(True, subject.range), static=True)  # a torch.Size, which is a tuple
    holding: list[Type] = []
    failing: list[Type] = []
    always = True
    for actual in _standard_members([value.type]):
        if actual is T.ANY:
            holding += wanted
            failing.append(T.ANY)
            always = wanted == [T.ANY]
            break
        found = _narrowest(actual, wanted)
        if found is None:
            failing.append(actual)
        else:
            holding.append(found)
        always = always and found is actual
    refinements = _isinstance_refinements(path_tested(subject, value), holding, failing)
    if always or not holding:
        return Condition(em.constant(always, subject.range), refinements, always)
    node = em.node("prim::isinstance", [value], [T.BOOL], subject.range)
    node.attributes["types"] = [*wanted, *(t for t in holding if t not in wanted)]
    return Condition(node.output, refinements)


def _of_tuple(em: Emitter, expr: tree.Expr) -> bool:
    """Are tuples of the class that an expression names?"""
    return T.ANY_TUPLE in _class_types(em, expr, T.TupleType.of([]))


def _is_python_class(em: Emitter, module: T.ClassType, expr: tree.Expr) -> bool:
    """Is a module of this type one of the Python class, or one of the tuple of classes, that the expression names?"""
    wanted: Any = python_object(em, expr)
    is_known = isinstance(wanted, type | tuple) and module.python_class is not None
    return is_known and issubclass(module.python_class, wanted)


def python_object(em: Emitter, expr: tree.Expr) -> object:
    """What a name, or an attribute of one, is in Python; None for anything else."""
    if isinstance(expr, tree.Select):
        return getattr(python_object(em, expr.value), expr.name.name, None)
    if not isinstance(expr, tree.Var) or em.frame.is_defined(expr.name.name):
        return None
    try:
        return em.resolver.lookup(display_name(expr.name.name))
    except LookupError:
        return None


def _class_expressions(expr: tree.Expr) -> list[tree.Expr]:
    if isinstance(expr, tree.TupleLiteral):
        return [inner for element in expr.elements for inner in _class_expressions(element)]
    if isinstance(expr, tree.BinOp) and expr.op == "|":
        return [*_class_expressions(expr.left), *_class_expressions(expr.right)]
    return [expr]


_BARE_CONTAINERS: dict[str, Type] = {
    "list": T.ANY_LIST, "tuple": T.ANY_TUPLE, "dict": T.ANY_DICT,
    "set": T.ANY_SET, "frozenset": T.ANY_FROZENSET,
}  # fmt: skip


_PYTHON_CLASSES: dict[Type, type] = {
    T.INT: int, T.FLOAT: float, T.BOOL: bool, T.STRING: str, T.COMPLEX: complex, T.NONE: type(None),
}  # fmt: skip


def _python_class(t: Type) -> type | None:
    """The class in Python of the values of a type, None where it may be one of several."""
    if isinstance(t, T.ListType | T.DictType):
        return list if isinstance(t, T.ListType) else dict
    if isinstance(t, T.TupleType):
        return t.python_class or tuple
    return torch.Tensor if T.is_subtype(t, T.TENSOR) else _PYTHON_CLASSES.get(t)


def _class_types(em: Emitter, expr: tree.Expr, actual: Type) -> list[Type]:
    """The types that a class stands for; for an abstract one of Python's library, those of a value that are of it."""
    found = python_object(em, expr)
    abstract = typing.get_origin(found) or found
    members = _standard_members([actual])
    classes = [_python_class(m) for m in members]
    if not isinstance(abstract, type) or abstract.__module__ not in ("collections.abc", "numbers") or None in classes:
        return [_class_type(em, expr)]
    return [m for m, cls in zip(members, classes, strict=True) if cls is not None and issubclass(cls, abstract)]


def _class_type(em: Emitter, expr: tree.Expr) -> Type:
    if isinstance(expr, tree.Var) and not em.frame.is_defined(expr.name.name):
        bare = _BARE_CONTAINERS.get(display_name(expr.name.name))
        if bare is not None:
            return bare
    return em.parse_type(expr)


def _standard_members(types: list[Type]) -> list[Type]:
    """The members of all the unions among `types`, without repetition."""
    members: list[Type] = []
    for t in types:
        members += [m for m in T.members_of(t) if m not in members]
    return members


def _narrowest(actual: Type, wanted: list[Type]) -> Type | None:
    found: Type | None = None
    infer_results([actual], wanted)
    for t in wanted:
        if T.is_subtype(actual, t) or inherits(actual, t):
            found = actual
        elif T.is_subtype(t, actual):
            found = t if found is None else T.unify(found, t, default_to_union=True)
    return found


def _isinstance_refinements(path: Path | None, holding: list[Type], failing: list[Type]) -> RefinementSet:
    if path is None:
        return RefinementSet()
    both = []
    for types in (holding, failing):
        merged = T.unify_all(types, default_to_union=True)
        both.append({} if merged is None else {path: merged})
    return RefinementSet(both[0], both[1])


# -- type(x) is C
def emit_class_test(em: Emitter, expr: tree.Expr) -> Condition | None:
    """`type(x) is C`, `type(x) == C`, `type(x) in (A, B)`, and the first two negated; None for another expression.

    A number that is declared a float counts as one, as for `isinstance`.
    """
    if not isinstance(expr, tree.BinOp) or expr.op not in ("is", "is not", "eq", "ne", "in"):
        return None
    subject = _subject_of_type(em, expr.left)
    wanted = None if subject is None else _exact_classes(em, expr.right)
    value = None if subject is None else _plain_value(em, subject)
    if subject is None or wanted is None or value is None:
        return None
    condition = _of_classes(em, expr, path_tested(subject, value), value, wanted)
    return condition if condition is None or expr.op not in ("is not", "ne") else _opposite(em, expr, condition)


def _plain_value(em: Emitter, expr: tree.Expr) -> Value | None:
    found = em.emit_sugared(expr)
    return None if found.is_function or isinstance(found, ListAsTuple) else found.as_value(em, expr.range)


def _opposite(em: Emitter, expr: tree.BinOp, condition: Condition) -> Condition:
    static = None if condition.static is None else not condition.static
    negated = em.op("aten::__not__", [condition.value], range=expr.range)
    return Condition(negated, condition.refinements.negation(), static)


def _of_classes(em: Emitter, expr: tree.BinOp, path: Path | None, value: Value, wanted: list[type]) -> Condition | None:
    """Is a value of one of the classes? None where that is not known of a value of its type."""
    if value.type is T.ANY:
        return _of_plain_classes(em, expr, path, value, wanted)
    classes = {m: _class_of(m, value) for m in _standard_members([value.type])}
    if None in classes.values():
        return None
    holding, failing = _parted(classes, wanted)
    if any(T.is_subtype(m, T.TENSOR) for m in holding):
        return _of_tensor(em, expr, value)
    refinements = _isinstance_refinements(path, holding, failing)
    if not failing or not holding:
        return Condition(em.constant(not failing, expr.range), refinements, not failing)
    node = em.node("prim::isinstance", [value], [T.BOOL], expr.range)
    node.attributes["types"] = holding
    return Condition(node.output, refinements)


def _parted(classes: Mapping[Type, type | None], wanted: Sequence[type]) -> tuple[list[Type], list[Type]]:
    """The types whose class is wanted, and the others."""
    holding = [t for t, cls in classes.items() if cls in wanted]
    return holding, [t for t in classes if t not in holding]


def _of_tensor(em: Emitter, expr: tree.BinOp, value: Value) -> Condition | None:
    """Is a tensor of the class of most? Others inherit from it, so that is asked; None for a union."""
    if not T.is_subtype(value.type, T.TENSOR):
        return None
    return Condition(em.op("python::is_plain_tensor", [value], range=expr.range))


def _of_plain_classes(
    em: Emitter, expr: tree.BinOp, path: Path | None, value: Value, wanted: list[type]
) -> Condition | None:
    """Is a value of any type a number, a text or None? None where other classes are asked for."""
    types = [t for cls in wanted for t, plain in _PYTHON_CLASSES.items() if plain is cls]
    if len(types) != len(wanted):
        return None
    node = em.node("prim::isinstance", [value], [T.BOOL], expr.range)
    node.attributes["types"] = types
    return Condition(node.output, _isinstance_refinements(path, types, [T.ANY]))


_PLAIN = tree.Var, tree.Select, tree.Subscript
"""What may be evaluated twice, where the question is left to others."""


def _subject_of_type(em: Emitter, expr: tree.Expr, plain: type | tuple[type, ...] = _PLAIN) -> tree.Expr | None:
    """The argument of `type(x)`; None for another expression."""
    if not isinstance(expr, tree.Apply) or len(expr.args) != 1 or expr.keywords:
        return None
    if not isinstance(expr.callee, tree.Var) or em.frame.is_defined(expr.callee.name.name):
        return None
    if not isinstance(expr.args[0], plain):
        return None
    found = em.emit_sugared(expr.callee)
    return expr.args[0] if isinstance(found, SpecialForm) and found.form == "type" else None


def _exact_classes(em: Emitter, expr: tree.Expr) -> list[type] | None:
    """The classes that an expression names, one or several; None where it names something else."""
    if isinstance(expr, tree.TupleLiteral | tree.ListLiteral):
        return _together([_exact_classes(em, element) for element in expr.elements])
    if isinstance(expr, tree.Apply):
        return _class_of_another(em, expr)
    found = _named_in_python(em, expr)
    listed = found if isinstance(found, tuple) else (found,)
    return _together([[cls] if isinstance(cls, type) else None for cls in listed])


def _together(several: Sequence[list[type] | None]) -> list[type] | None:
    known = [classes for classes in several if classes is not None]
    return list(itertools.chain(*known)) if len(known) == len(several) else None


def _named_in_python(em: Emitter, expr: tree.Expr) -> object:
    """What a name is in Python, also one of its builtins."""
    found = python_object(em, expr)
    if found is None and isinstance(expr, tree.Var) and not em.frame.is_defined(expr.name.name):
        return getattr(builtins, display_name(expr.name.name), None)
    return found


def _class_of_another(em: Emitter, expr: tree.Apply) -> list[type] | None:
    """The class that `type(y)` is; None where it is not known, or the expression is another one."""
    if _subject_of_type(em, expr, plain=tree.NoneLiteral) is not None:
        return [type(None)]
    other = _subject_of_type(em, expr)
    if other is None:
        return None
    value = em.emit(other)
    cls = _class_of(value.type, value)
    return None if cls is None or isinstance(value.type, T.TensorType) else [cls]


def _class_of(t: Type, value: Value) -> type | None:
    """The class in Python of a value that is of a type; None where it may be of several. Of a tensor, that of most."""
    if isinstance(t, T.ClassType | T.EnumType):
        cls: type | None = t.python_class
        return cls
    if t is T.DEVICE:
        return torch.device
    if isinstance(t, T.ListType) and is_size(value):
        return torch.Size
    return _python_class(t)
