"""Unions, and which types may stand for which. See `types.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from jitlite.ir.named_types import ClassType, EnumType, InterfaceType
from jitlite.ir.type_kinds import (
    ANY,
    ANY_CLASS,
    ANY_DICT,
    ANY_ENUM,
    ANY_FROZENSET,
    ANY_LIST,
    ANY_SET,
    ANY_TUPLE,
    BOOL,
    CAPSULE,
    COMPLEX,
    DEVICE,
    DICT_KEYS,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    PY_OBJECT,
    STORAGE,
    STREAM,
    STRING,
    TENSOR,
    AwaitType,
    DictType,
    FutureType,
    ListType,
    RRefType,
    SetType,
    SimpleType,
    TensorType,
    TupleType,
    Type,
    VarType,
)

_NUMBERS = frozenset({INT, FLOAT, COMPLEX})

_COMPARED: ContextVar[frozenset[tuple[Type, Type]]] = ContextVar("compared", default=frozenset())
"""Classes and interfaces that are being compared. Signatures that mention the same two again do not decide."""


class UnionType(Type):
    """One of several types, none of which includes another. Optional[T] is the union of T and None."""

    __slots__ = ("members",)
    members: tuple[Type, ...]

    @classmethod
    def of(cls, members: Iterable[Type]) -> Type:
        """The union of `members`, flattened and without members that another one includes.

        A single remaining member is returned itself; a union with None of one other type is an OptionalType.
        """
        flat: list[Type] = []
        for member in members:
            flat += member.members if isinstance(member, UnionType) else [member]
        distinct = _without_included(flat)
        if len(distinct) == 1:
            return distinct[0]
        if len(distinct) == 3 and {INT, FLOAT, COMPLEX} == set(distinct):
            return NUMBER
        without_none = [member for member in distinct if member is not NONE]
        if len(without_none) == 1:
            return OptionalType.of(without_none[0])
        # in torch's order, so that one union has one spelling in whatever order it is named
        ordered = tuple(sorted(distinct, key=_place_in_union))
        return cls._intern((ordered,), members=ordered)

    def _spell(self) -> tuple[str, str]:
        return (
            f"Union({', '.join(map(str, self.members))})",
            f"Union[{', '.join(m.annotation for m in self.members)}]",
        )

    @property
    def contained(self) -> tuple[Type, ...]:
        return self.members

    def with_contained(self, types: Sequence[Type]) -> Type:
        return UnionType.of(types)


_UNION_ORDER = (
    "AnyType", "EnumType", "AnyEnumType", "TensorType", "Storage", "TupleType", "ListType", "DictType", "Scalar",
    "float", "complex", "FutureType", "AwaitType", "RRefType", "int", "NoneType", "str", "Generator", "Quantizer",
    "bool", "VarType", "Device", "Stream", "Function", "ClassType", "PyObject", "Capsule", "InterfaceType",
)  # fmt: skip
"""The order of c10::TypeKind, in which torch lists the members of a union: class names, or names of simple types."""


def _place_in_union(member: Type) -> tuple[int, str]:
    kind = member.name if isinstance(member, SimpleType) else type(member).__name__
    return (_UNION_ORDER.index(kind) if kind in _UNION_ORDER else len(_UNION_ORDER), str(member))


class OptionalType(UnionType):
    """A value of type `element`, or None."""

    __slots__ = ("element",)
    element: Type

    @classmethod
    def of(cls, element: Type) -> Type:  # type: ignore[override]
        if element is ANY or element is NONE or isinstance(element, OptionalType):
            return element
        if isinstance(element, UnionType):
            return element if NONE in element.members else UnionType.of([*element.members, NONE])
        return cls._intern((element,), element=element, members=(element, NONE))

    def _spell(self) -> tuple[str, str]:
        return f"{self.element}?", f"Optional[{self.element.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return OptionalType.of(types[0])


def is_subtype(sub: Type, sup: Type) -> bool:
    """May a value of type `sub` stand where `sup` is wanted, without conversion?"""
    if sub is sup or sup is ANY:
        return True
    if isinstance(sup, UnionType):
        return all(any(is_subtype(m, s) for s in sup.members) for m in members_of(sub))
    if isinstance(sub, UnionType):
        return all(is_subtype(m, sup) for m in sub.members)
    if sup is NUMBER:
        return sub in _NUMBERS
    rule = _SUBTYPE_RULES.get(type(sub))
    return rule is not None and rule(sub, sup)


def _class_is_subtype(sub: ClassType | InterfaceType, sup: Type) -> bool:
    if not isinstance(sup, InterfaceType):
        return isinstance(sub, ClassType) and sup is ANY_CLASS
    compared = _COMPARED.get()
    if (sub, sup) in compared:
        return True
    token = _COMPARED.set(compared | {(sub, sup)})
    try:
        return why_not_interface(sub, sup) is None
    finally:
        _COMPARED.reset(token)


def why_not_interface(sub: ClassType | InterfaceType, sup: InterfaceType) -> str | None:
    """Why a class is not of the interface `sup`; None where it is.

    Signatures decide. A method whose result is not annotated has one once its body is compiled.
    """
    if sup.is_module and not sub.is_module:
        return (
            f"'{sub.annotation}' is no module: only a ScriptModule class can be subtype of module interface "
            f"'{sup.annotation}'"
        )
    for name, wanted in sup.methods.items():
        method = sub.methods.get(name)
        if method is None and isinstance(sub, ClassType) and sub.definition is not None:
            method = sub.definition.declared(name)
        if method is None:
            return (
                f"Class '{sub.annotation}' is not compatible with interface {sup.annotation}: it does not have "
                f"method '{name}'"
            )
        if not getattr(method, "has_schema", True):
            return f"the type that method '{name}' of class '{sub.annotation}' returns is not known: annotate it"
        found = getattr(method, "schema", method)
        if not may_replace(found, wanted):
            return (
                f"Method '{name}' on class '{sub.annotation}' is not compatible with interface {sup.annotation}: it "
                f"is {found}, and {wanted} is wanted"
            )
    return None


def may_replace(found: Any, wanted: Any) -> bool:
    """May a method of schema `found` be called as one of schema `wanted`? The first parameter, self, does not count."""
    given, formals = wanted.arguments[1:], found.arguments[1:]
    if len(formals) < len(given) or not all(extra.has_default for extra in formals[len(given) :]):
        return False
    takes = all(f.name == g.name and is_subtype(g.type, f.type) for f, g in zip(formals, given, strict=False))
    results = zip(found.returns, wanted.returns, strict=True)
    return takes and len(found.returns) == len(wanted.returns) and all(is_subtype(f.type, w.type) for f, w in results)


def _tensor_refines(sub: TensorType, sup: Type) -> bool:
    if not isinstance(sup, TensorType):
        return False
    whole = all(
        getattr(sup, name) is None or getattr(sup, name) == getattr(sub, name)
        for name in ("dtype", "device", "requires_grad")
    )
    return whole and _refine_each(sub.sizes, sup.sizes) and _refine_each(sub.strides, sup.strides)


def _refine_each(sub: tuple[int | None, ...] | None, sup: tuple[int | None, ...] | None) -> bool:
    """Does `sub` say all that `sup` says of each dimension? Symbols mean something in one graph: they do not count."""
    if sup is None:
        return True
    return sub is not None and len(sub) == len(sup) and all(b is None or a == b for a, b in zip(sub, sup, strict=True))


def _tuple_is_subtype(sub: TupleType, sup: Type) -> bool:
    if not isinstance(sup, TupleType):
        return sup is ANY_TUPLE
    if len(sub.elements) != len(sup.elements) or (sup.names is not None and sup.names != sub.names):
        return False
    return all(is_subtype(a, b) for a, b in zip(sub.elements, sup.elements, strict=True))


def _wrapper_is_subtype(sub: FutureType | AwaitType | RRefType, sup: Type) -> bool:
    return type(sub) is type(sup) and is_subtype(sub.contained[0], sup.contained[0])


_SUBTYPE_RULES: dict[type[Type], Callable[[Any, Type], bool]] = {
    TensorType: _tensor_refines,
    TupleType: _tuple_is_subtype,
    ListType: lambda sub, sup: sup is ANY_LIST or (isinstance(sup, ListType) and unshaped(sub) is unshaped(sup)),
    DictType: lambda sub, sup: sup is ANY_DICT or (isinstance(sup, DictType) and unshaped(sub) is unshaped(sup)),
    SetType: lambda sub, sup: sup is (ANY_FROZENSET if sub.frozen else ANY_SET),
    FutureType: _wrapper_is_subtype,
    AwaitType: _wrapper_is_subtype,
    RRefType: _wrapper_is_subtype,
    EnumType: lambda sub, sup: sup is ANY_ENUM,
    ClassType: _class_is_subtype,
    InterfaceType: _class_is_subtype,
}
"""Which other types a type is a subtype of, unions apart, by its class."""


def members_of(t: Type) -> tuple[Type, ...]:
    """The members of a union; a type that is none is its own only member. Scalar is its three numbers."""
    if t is NUMBER:
        return INT, FLOAT, COMPLEX
    return t.members if isinstance(t, UnionType) else (t,)


def may_be_in_set(t: Type) -> bool:
    """Can values of the type be in a set: do they have a hash and equality that no code of the program defines?"""
    if isinstance(t, UnionType):
        return all(map(may_be_in_set, t.members))
    if isinstance(t, TupleType):
        return t.names is None and all(map(may_be_in_set, t.elements))
    return t in _HASHED or isinstance(t, EnumType)


def may_be_key(t: Type) -> bool:
    """Can values of the type be the keys of a dict: those of TorchScript's dicts, and what may be in sets."""
    return t in DICT_KEYS or may_be_in_set(t)


_HASHED = frozenset({INT, FLOAT, BOOL, COMPLEX, STRING, NONE, NUMBER, DEVICE})


def may_be_none(t: Type) -> bool:
    """Can a value of this type be None?"""
    return t is NONE or t is ANY or (isinstance(t, UnionType) and NONE in t.members)


def without_none(t: Type) -> Type:
    """The type of a value of type `t` known not to be None."""
    if isinstance(t, OptionalType):
        return t.element
    if isinstance(t, UnionType):
        return UnionType.of(m for m in t.members if m is not NONE)
    return t


def unshaped(t: Type) -> Type:
    """The type with nothing said about tensors in it."""
    if isinstance(t, TensorType):
        return TENSOR
    parts = t.contained
    if not parts:
        return t
    bare = tuple(unshaped(p) for p in parts)
    return t if bare == parts else t.with_contained(bare)


def is_mutable(t: Type) -> bool:
    """May a value of the type be changed in place, itself or something in it?"""
    if isinstance(t, TensorType | ListType | DictType | SetType | ClassType | InterfaceType):
        return True
    if isinstance(t, FutureType | AwaitType | RRefType):
        return True
    if t in (ANY, ANY_LIST, ANY_TUPLE, ANY_DICT, ANY_SET, ANY_CLASS, GENERATOR, STORAGE, CAPSULE, PY_OBJECT, STREAM):
        return True
    return isinstance(t, VarType) or any(is_mutable(p) for p in t.contained)


def _without_included(members: Iterable[Type]) -> list[Type]:
    """The members that no other one includes."""
    distinct: list[Type] = []
    for member in members:
        if not any(is_subtype(member, other) for other in distinct):
            distinct = [*(other for other in distinct if not is_subtype(other, member)), member]
    return distinct
