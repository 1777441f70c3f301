"""Types by PyTorch's names: what tests and tools written for `torch._C.TensorType` and the like ask of types.

A view holds one of jitlite's objects. Two views of one object are equal.
"""

from __future__ import annotations

import builtins
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
    """A view of one object. It equals the object and every other view of it.

    A subclass says with `of` which objects it is the view of.
    """

    _views: ClassVar[dict[type, type[View]]] = {}

    def __init_subclass__(cls, of: type | None = None) -> None:
        if of is not None:
            View._views[of] = cls

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return bool(self.inner == unwrap(other))

    def __hash__(self) -> int:
        return hash(self.inner)

    def __str__(self) -> str:
        return str(self.inner)

    def __repr__(self) -> str:
        return str(self)

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def unwrap(seen: object) -> Any:
    """The object behind a view; anything else itself."""
    return seen.inner if isinstance(seen, View) else seen


def wrap(found: Any) -> Any:
    """The view of an object; a list or tuple of views; anything else itself."""
    if type(found) in (list, tuple):
        return type(found)(map(wrap, found))
    view = next((View._views[kind] for kind in type(found).__mro__ if kind in View._views), None)
    return found if view is None else view(found)


# -- types


class TypeView(View, of=Type):
    """A type. It prints as an annotation, `List[int]`; `str()` gives the form of graph text, `int[]`."""

    inner: Type

    def __str__(self) -> builtins.str:
        return self.inner.annotation

    def kind(self) -> builtins.str:
        return _KINDS.get(self.inner) or type(self.inner).__name__

    @property
    def annotation_str(self) -> builtins.str:
        return self.inner.annotation

    def str(self) -> builtins.str:
        return str(self.inner)

    def isSubtypeOf(self, other: object) -> bool:
        return T.is_subtype(self.inner, unwrap(other))

    def is_interface_type(self) -> bool:
        return isinstance(self.inner, T.InterfaceType)

    def containedTypes(self) -> list[TypeView]:
        return [view_type(t) for t in self.inner.contained]

    def elements(self) -> list[TypeView]:
        return self.containedTypes()

    def getElementType(self) -> TypeView:
        return view_type(self.inner.contained[0])

    def getKeyType(self) -> TypeView:
        return view_type(self.inner.contained[0])

    def getValueType(self) -> TypeView:
        return view_type(self.inner.contained[1])

    def name(self) -> builtins.str:
        """The last part of the name of a class, interface or enum."""
        return self.qualified_name().rpartition(".")[2]

    def qualified_name(self) -> builtins.str:
        """The name of a class, interface or enum."""
        found: builtins.str = self.inner.qualified_name  # type: ignore[attr-defined]
        return found

    def method_names(self) -> list[builtins.str]:
        """The compiled methods of a class."""
        return list(self.inner.methods)  # type: ignore[attr-defined]

    def getMethodNames(self) -> list[builtins.str]:
        """The methods of an interface."""
        return list(self.inner.methods)  # type: ignore[attr-defined]

    def getMethod(self, name: builtins.str) -> Any:
        """The schema of a method of an interface."""
        return wrap(self.inner.methods[name])  # type: ignore[attr-defined]


class TensorTypeView(TypeView, of=T.TensorType):
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

    def contiguous(self) -> TensorTypeView:
        """The type with the strides of a contiguous tensor of its sizes."""
        sizes = self.sizes()
        strides = None if sizes is None else torch.empty(sizes, device="meta").stride()
        return self._with(strides=strides)

    def undefined(self) -> bool:
        """False: no type says that a tensor is undefined."""
        return False

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

    def _with(self, **changes: object) -> TensorTypeView:
        names = ("dtype", "sizes", "strides", "device", "requires_grad", "symbols")
        return TensorTypeView(T.TensorType.of(**{n: getattr(self.inner, n) for n in names} | changes))


def _complete(numbers: tuple[int | None, ...] | None) -> list[int] | None:
    known = [n for n in numbers or () if n is not None]
    return None if numbers is None or len(known) != len(numbers) else known


class _OfSimple(type):
    """The class of the views of one type."""

    simple: ClassVar[Type]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(unwrap(instance), Type) and unwrap(instance) is cls.simple

    def get(cls) -> TypeView:
        return view_type(cls.simple)


class _OfMade(type):
    """The class of the views of types made with one constructor."""

    made: ClassVar[type]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(unwrap(instance), cls.made)

    def __call__(cls, *parts: object) -> TypeView:
        given = [list(map(unwrap, p)) if isinstance(p, list | tuple) else unwrap(p) for p in parts]
        for part in (t for p in given for t in (p if isinstance(p, list) else [p])):
            if not isinstance(part, Type | str):
                raise RuntimeError(f"Can not create {cls.__name__} with {part} type")
        return view_type(cls.made.of(*given))  # type: ignore[attr-defined]


class _OfLists(_OfMade):
    """`ListType`, with what makes lists of simple types."""

    def ofInts(cls) -> TypeView:
        return cls(T.INT)

    def ofFloats(cls) -> TypeView:
        return cls(T.FLOAT)

    def ofBools(cls) -> TypeView:
        return cls(T.BOOL)

    def ofComplexDoubles(cls) -> TypeView:
        return cls(T.COMPLEX)

    def ofStrings(cls) -> TypeView:
        return cls(T.STRING)

    def ofTensors(cls) -> TypeView:
        return cls(T.TENSOR)


class _OfOptionals(_OfMade):
    """`OptionalType`, with what makes optional tensors."""

    def ofTensor(cls) -> TypeView:
        return cls(T.TENSOR)


class _OfAll(type):
    """`Type`, of which every type is an instance."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(unwrap(instance), Type)


class InferredType:
    """A type that was inferred from a value, or why there is none."""

    def __init__(self, found: object) -> None:
        self._found = found

    def type(self) -> TypeView:
        """The type.

        Raises:
            RuntimeError: none was inferred.
        """
        if not self.success():
            raise RuntimeError(
                f"Tried to get the type from an InferredType but the type is null. Reason: {self._found}"
            )
        return view_type(self._found)

    def success(self) -> bool:
        return not isinstance(self._found, str)

    def reason(self) -> str:
        """Why there is no type."""
        return "" if self.success() else str(self._found)


_SIMPLE = {
    "IntType": T.INT, "FloatType": T.FLOAT, "BoolType": T.BOOL, "StringType": T.STRING, "NoneType": T.NONE,
    "ComplexType": T.COMPLEX, "NumberType": T.NUMBER, "AnyType": T.ANY, "DeviceObjType": T.DEVICE,
    "StreamObjType": T.STREAM, "PyObjectType": T.PY_OBJECT, "SymIntType": T.SYM_INT, "SymBoolType": T.SYM_BOOL,
    "_GeneratorType": T.GENERATOR,
}  # fmt: skip
_MADE = {
    "DictType": T.DictType, "TupleType": T.TupleType,
    "UnionType": T.UnionType, "ClassType": T.ClassType, "InterfaceType": T.InterfaceType, "EnumType": T.EnumType,
    "FutureType": T.FutureType, "AwaitType": T.AwaitType, "RRefType": T.RRefType,
}  # fmt: skip
_KINDS: dict[Type, str] = {
    **{t: name.lstrip("_") for name, t in _SIMPLE.items()},
    T.ANY_LIST: "AnyListType", T.ANY_TUPLE: "AnyTupleType", T.ANY_ENUM: "AnyEnumType", T.ANY_CLASS: "AnyClassType",
    T.SCALAR_TYPE: "ScalarTypeType", T.LAYOUT: "LayoutType", T.MEMORY_FORMAT: "MemoryFormatType",
    T.STORAGE: "StorageType", T.QUANTIZER: "QuantizerType", T.CAPSULE: "CapsuleType", T.FUNCTION: "FunctionType",
    T.SYM_FLOAT: "SymFloatType",
}  # fmt: skip

TYPES: dict[str, type] = {
    "Type": _OfAll("Type", (), {}),
    "TensorType": TensorTypeView,
    "InferredType": InferredType,
    **{name: _OfSimple(name, (), {"simple": t}) for name, t in _SIMPLE.items()},
    **{name: _OfMade(name, (), {"made": t}) for name, t in _MADE.items()},
    "ListType": _OfLists("ListType", (), {"made": T.ListType}),
    "OptionalType": _OfOptionals("OptionalType", (), {"made": T.OptionalType}),
}
"""Classes of types by their names in `torch._C`."""


def view_type(t: object) -> TypeView:
    return TensorTypeView(unwrap(t)) if isinstance(unwrap(t), T.TensorType) else TypeView(unwrap(t))
