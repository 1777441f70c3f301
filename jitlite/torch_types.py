"""Types by PyTorch's names: what tests and tools written for `torch._C.TensorType` and the like ask of types.

A view holds one of jitlite's objects. Two views of one object are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from jitlite.ir import types as T
from jitlite.ir.types import Type

_new_symbols = itertools.count(1_000_000)
"""Symbols are numbered from here on, so that they are none that a graph has already."""


def new_symbol() -> int:
    """A size that equals no other: a negative number, as PyTorch has it."""
    return -next(_new_symbols)


class View:
    """A view of one object."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(self.inner)

    def __str__(self) -> str:
        return str(self.inner)

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def inner(seen: Any) -> Any:
    """What a view is of; anything else itself."""
    return seen.inner if isinstance(seen, View) else seen


# -- types


class TypeView(View):
    """A type."""

    inner: Type

    def kind(self) -> str:
        found = type(self.inner).__name__
        name: str = getattr(self.inner, "name", "") if isinstance(self.inner, T.SimpleType) else found
        return f"{name[:1].upper()}{name[1:]}{'' if name.endswith('Type') else 'Type'}"

    @property
    def annotation_str(self) -> str:
        return self.inner.annotation

    def str(self) -> str:
        return str(self.inner)

    def isSubtypeOf(self, other: Any) -> bool:
        return T.is_subtype(self.inner, inner(other))

    def containedTypes(self) -> list[TypeView]:
        return [view_type(t) for t in self.inner.contained]

    def elements(self) -> list[TypeView]:
        return self.containedTypes()

    def getElementType(self) -> TypeView:
        return view_type(self.inner.contained[0])


class TensorTypeView(TypeView):
    """A tensor type. Sizes that are not known are None, or negative numbers where they are symbols."""

    inner: T.TensorType

    @staticmethod
    def get() -> TensorTypeView:
        return TensorTypeView(T.TENSOR)

    @staticmethod
    def getInferred() -> TensorTypeView:
        """The type of a parameter without annotation."""
        return TensorTypeView(T.TENSOR)

    @staticmethod
    def create_from_tensor(tensor: torch.Tensor) -> TensorTypeView:
        return TensorTypeView(T.TensorType.from_tensor(tensor))

    def dim(self) -> int | None:
        return None if self.inner.sizes is None else len(self.inner.sizes)

    def dtype(self) -> torch.dtype | None:
        return self.inner.dtype

    def scalarType(self) -> str | None:
        return None if self.inner.dtype is None else T.DTYPE_NAMES[self.inner.dtype]

    def device(self) -> torch.device | None:
        return self.inner.device

    def requires_grad(self) -> bool:
        return self.inner.requires_grad is not False

    def requiresGrad(self) -> bool | None:
        return self.inner.requires_grad

    def sizes(self) -> list[int] | None:
        """The sizes, if all are known."""
        return _complete(self.inner.sizes)

    def strides(self) -> list[int] | None:
        return _complete(self.inner.strides)

    def varyingSizes(self) -> list[int | None] | None:
        return None if self.inner.sizes is None else list(self.inner.sizes)

    def symbolic_sizes(self) -> list[int] | None:
        sizes = self.inner.sizes
        if sizes is None:
            return None
        symbols = self.inner.symbols or (None,) * len(sizes)
        return [s if s is not None else -n if n else new_symbol() for s, n in zip(sizes, symbols, strict=True)]

    def with_sizes(self, sizes: Sequence[int | None] | None) -> TensorTypeView:
        if sizes is None:
            return self._with(sizes=None, strides=None, symbols=None)
        numbers = [new_symbol() if s is None else s for s in sizes]
        known = [n if n >= 0 else None for n in numbers]
        return self._with(sizes=known, strides=None, symbols=[-n if n < 0 else None for n in numbers])

    def with_device(self, device: torch.device | None) -> TensorTypeView:
        return self._with(device=device)

    def with_dtype(self, dtype: torch.dtype | None) -> TensorTypeView:
        return self._with(dtype=dtype)

    def _with(self, **changes: Any) -> TensorTypeView:
        names = ("dtype", "sizes", "strides", "device", "requires_grad", "symbols")
        return TensorTypeView(T.TensorType.of(**{n: getattr(self.inner, n) for n in names} | changes))


def _complete(numbers: tuple[int | None, ...] | None) -> list[int] | None:
    known = [n for n in numbers or () if n is not None]
    return None if numbers is None or len(known) != len(numbers) else known


class _OfSimple(type):
    """The class of the views of one type."""

    simple: ClassVar[Type]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(inner(instance), Type) and inner(instance) is cls.simple

    def get(cls) -> TypeView:
        return view_type(cls.simple)


class _OfMade(type):
    """The class of the views of types made with one constructor."""

    made: ClassVar[type]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(inner(instance), cls.made)

    def __call__(cls, *parts: Any) -> TypeView:
        given = [list(map(inner, p)) if isinstance(p, list | tuple) else inner(p) for p in parts]
        return view_type(cls.made.of(*given))  # type: ignore[attr-defined]


_SIMPLE = {
    "IntType": T.INT, "FloatType": T.FLOAT, "BoolType": T.BOOL, "StringType": T.STRING, "NoneType": T.NONE,
    "ComplexType": T.COMPLEX, "NumberType": T.NUMBER, "AnyType": T.ANY, "DeviceObjType": T.DEVICE,
    "StreamObjType": T.STREAM, "PyObjectType": T.PY_OBJECT,
}  # fmt: skip
_MADE = {
    "ListType": T.ListType, "DictType": T.DictType, "TupleType": T.TupleType, "OptionalType": T.OptionalType,
    "UnionType": T.UnionType, "ClassType": T.ClassType, "InterfaceType": T.InterfaceType, "EnumType": T.EnumType,
    "FutureType": T.FutureType, "AwaitType": T.AwaitType, "RRefType": T.RRefType,
}  # fmt: skip

TYPES: dict[str, type] = {
    "TensorType": TensorTypeView,
    **{name: _OfSimple(name, (), {"simple": t}) for name, t in _SIMPLE.items()},
    **{name: _OfMade(name, (), {"made": t}) for name, t in _MADE.items()},
}
"""Classes of types by their names in `torch._C`."""


def view_type(t: Any) -> TypeView:
    return TensorTypeView(inner(t)) if isinstance(inner(t), T.TensorType) else TypeView(inner(t))
