"""Types: the base class, simple types, tensors, containers; what each is made of and how it is spelled.

How to read: simple types first, then tensors and containers. See `types.py`; `named_types.py` has enums and classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakValueDictionary

import torch

from jitlite.base.errors.type_names import LARGE_TYPE
from jitlite.base.locks import Lock

_T = TypeVar("_T", bound="Type")
_V = TypeVar("_V")
_interned: WeakValueDictionary[tuple[object, ...], Type] = WeakValueDictionary()
"""Types in use by what they are made of; a type that nobody holds is forgotten, and with it the classes it names."""
_intern_lock = Lock("types")


LONGEST_TEXT = 100_000
"""Characters of the texts of the types that one is made of. A pair of pairs of pairs has twice as many at each level,
and a program or an archive of some lines can ask for any number."""


class Type:
    """A TorchScript type. Never build one with its constructor: use the singletons and the `of` class methods."""

    __slots__ = ("__weakref__", "_annotation", "_cache", "_text")
    _text: str
    _annotation: str
    _cache: dict[str, Any]

    @classmethod
    def _intern(cls: type[_T], parts: tuple[object, ...], /, **fields: object) -> _T:
        full_key = (cls, *parts)
        found = _interned.get(full_key)
        if found is None:
            with _intern_lock:
                found = _interned.get(full_key)
                if found is None:
                    found = cls()
                    for name, value in fields.items():
                        setattr(found, name, value)
                    if sum(len(t._text) for t in found.contained) > LONGEST_TEXT:
                        raise LARGE_TYPE(f"a type is made of others whose texts have over {LONGEST_TEXT:,} characters")
                    found._text, found._annotation = found._spell()
                    _interned[full_key] = found
        return cast(_T, found)

    def _spell(self) -> tuple[str, str]:
        """The graph text and the annotation text."""
        raise NotImplementedError

    @property
    def annotation(self) -> str:
        """The type as a Python annotation."""
        return self._annotation

    @property
    def contained(self) -> tuple[Type, ...]:
        """The types this one is made of, in order."""
        return ()

    def with_contained(self, types: Sequence[Type]) -> Type:
        """The same constructor over other contained types."""
        return self

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{self._annotation}>"

    def __reduce__(self) -> Any:
        """None where it is read again: who keeps a type on a class or object makes it anew."""
        return type(None), ()

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Type:
        return self

    @property
    def kind(self) -> str:
        """The class name without `Type`, e.g. `List`."""
        return type(self).__name__.removesuffix("Type")


def cached_on(t: Type, key: str, compute: Callable[[Any], _V]) -> _V:
    """What `compute(t)` gave the first time. The type itself keeps it, so it is forgotten together with the type."""
    try:
        found: _V = t._cache[key]
    except AttributeError:
        t._cache = {}
    except KeyError:
        pass
    else:
        return found
    first: _V = t._cache.setdefault(key, compute(t))
    return first


class SimpleType(Type):
    """A type without parts: int, str, Device, Any ..."""

    __slots__ = ("name", "spelling")
    name: str
    spelling: str

    @classmethod
    def of(cls, name: str, annotation: str | None = None) -> SimpleType:
        return cls._intern((name,), name=name, spelling=annotation or name)

    def _spell(self) -> tuple[str, str]:
        return self.name, self.spelling


ANY = SimpleType.of("Any")
NONE = SimpleType.of("NoneType")
INT = SimpleType.of("int")
FLOAT = SimpleType.of("float")
BOOL = SimpleType.of("bool")
COMPLEX = SimpleType.of("complex")
STRING = SimpleType.of("str")
NUMBER = SimpleType.of("Scalar", "number")
DEVICE = SimpleType.of("Device")
GENERATOR = SimpleType.of("Generator")
STREAM = SimpleType.of("Stream")
STORAGE = SimpleType.of("Storage")
QUANTIZER = SimpleType.of("Quantizer")
CAPSULE = SimpleType.of("Capsule")
FUNCTION = SimpleType.of("Function")
PY_OBJECT = SimpleType.of("PyObject")
EXCEPTION = SimpleType.of("Exception")
"""A caught exception, whatever its class. TorchScript has no such type."""
ANY_LIST = SimpleType.of("list")
"""A list of anything: only in isinstance."""
ANY_TUPLE = SimpleType.of("tuple")
"""A tuple of anything: only in isinstance."""
ANY_DICT = SimpleType.of("dict")
"""A dict of anything: only in isinstance."""
ANY_SET = SimpleType.of("set")
"""A set of anything: only in isinstance."""
ANY_FROZENSET = SimpleType.of("frozenset")
"""A frozenset of anything: only in isinstance."""
ANY_ENUM = SimpleType.of("AnyEnumType")
ANY_CLASS = SimpleType.of("AnyClassType")
# The dispatcher's schemas distinguish these; to TorchScript they are all ints (see `schema.Argument.type`).
SCALAR_TYPE = SimpleType.of("ScalarType")
LAYOUT = SimpleType.of("Layout")
MEMORY_FORMAT = SimpleType.of("MemoryFormat")
DIMNAME = SimpleType.of("Dimname")
SYM_INT = SimpleType.of("SymInt", "int")
SYM_FLOAT = SimpleType.of("SymFloat", "float")
SYM_BOOL = SimpleType.of("SymBool", "bool")

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.float16: "Half", torch.float32: "Float", torch.float64: "Double", torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble", torch.bool: "Bool", torch.qint8: "QInt8",
    torch.quint8: "QUInt8", torch.qint32: "QInt32", torch.bfloat16: "BFloat16", torch.quint4x2: "QUInt4x2",
    torch.quint2x4: "QUInt2x4", torch.float8_e5m2: "Float8_e5m2", torch.float8_e4m3fn: "Float8_e4m3fn",
    torch.float8_e5m2fnuz: "Float8_e5m2fnuz", torch.float8_e4m3fnuz: "Float8_e4m3fnuz", torch.uint16: "UInt16",
    torch.uint32: "UInt32", torch.uint64: "UInt64",
}  # fmt: skip
"""Names of dtypes in graph text."""


class TensorType(Type):
    """A tensor, with what is known about it.

    `sizes` is None when the rank is unknown, else one entry a dimension, None where unknown. `strides` likewise.
    `symbols` has an entry for each dimension too: dimensions of one graph that have the same number there have the same
    size in every run (a number above 0, written `SS(-number)`); None where nothing is said, or where the size is known.
    """

    __slots__ = ("device", "dtype", "requires_grad", "sizes", "strides", "symbols")
    dtype: torch.dtype | None
    device: torch.device | None
    requires_grad: bool | None
    sizes: tuple[int | None, ...] | None
    strides: tuple[int | None, ...] | None
    symbols: tuple[int | None, ...] | None

    @classmethod
    def of(
        cls,
        dtype: torch.dtype | None = None,
        sizes: Iterable[int | None] | None = None,
        strides: Iterable[int | None] | None = None,
        device: torch.device | None = None,
        requires_grad: bool | None = None,
        symbols: Iterable[int | None] | None = None,
    ) -> TensorType:
        sizes = None if sizes is None else tuple(sizes)
        strides = None if strides is None else tuple(strides)
        named = () if symbols is None else tuple(symbols)
        symbols = named if any(named) else None
        key = (dtype, sizes, strides, device, requires_grad, symbols)
        return cls._intern(
            key, dtype=dtype, sizes=sizes, strides=strides, device=device, requires_grad=requires_grad, symbols=symbols
        )

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> TensorType:
        """The complete type of a given tensor."""
        dense = tensor.layout is torch.strided
        strides = tensor.stride() if dense else None
        return cls.of(tensor.dtype, tensor.shape, strides, tensor.device, tensor.requires_grad)

    def _spelled_sizes(self, sizes: Sequence[int | None]) -> str:
        symbols = self.symbols or (None,) * len(sizes)
        return ", ".join(_size_text(size, n) for size, n in zip(sizes, symbols, strict=True))

    def _spell(self) -> tuple[str, str]:
        name = "Tensor" if self.dtype is None else DTYPE_NAMES[self.dtype]
        details = [] if self.sizes is None else [self._spelled_sizes(self.sizes)]
        if self.strides is not None and self.sizes:
            details.append(f"strides=[{', '.join(map(_size_text, self.strides))}]")
        if self.requires_grad is not None:
            details.append(f"requires_grad={int(self.requires_grad)}")
        if self.device is not None:
            details.append(f"device={self.device}")
        shown = ", ".join(d for d in details if d)
        return (f"{name}({shown})" if details else name), "Tensor"


def _size_text(size: int | None, symbol: int | None = None) -> str:
    return f"SS(-{symbol})" if symbol else "*" if size is None else str(size)


TENSOR = TensorType.of()


class ListType(Type):
    __slots__ = ("element",)
    element: Type

    @classmethod
    def of(cls, element: Type) -> ListType:
        return cls._intern((element,), element=element)

    def _spell(self) -> tuple[str, str]:
        return f"{self.element}[]", f"List[{self.element.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return ListType.of(types[0])


class DictType(Type):
    __slots__ = ("key", "value")
    key: Type
    value: Type

    @classmethod
    def of(cls, key: Type, value: Type) -> DictType:
        return cls._intern((key, value), key=key, value=value)

    def _spell(self) -> tuple[str, str]:
        return f"Dict({self.key}, {_in_dict(self.value)})", f"Dict[{self.key.annotation}, {self.value.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return self.key, self.value

    def with_contained(self, types: Sequence[Type]) -> Type:
        return DictType.of(*types)


def _in_dict(t: Type) -> str:
    """The text of a dict's values: torch writes futures there as schemas have them, `Future(int)`."""
    if isinstance(t, FutureType | RRefType):
        return f"{t.kind}({_in_dict(t.element)})"
    if t.kind in ("List", "Optional"):
        return f"{_in_dict(t.contained[0])}{'?' if t.kind == 'Optional' else '[]'}"
    return str(t)


DICT_KEYS = (STRING, INT, FLOAT, BOOL, COMPLEX, DEVICE, TENSOR)
"""What keys the dicts of TorchScript. `may_be_key` has what keys dicts of jitlite's as well."""


class SetType(Type):
    """A set, which TorchScript does not have. A `frozen` one cannot be changed: Python's frozenset."""

    __slots__ = ("element", "frozen")
    element: Type
    frozen: bool

    @classmethod
    def of(cls, element: Type, frozen: bool = False) -> SetType:
        return cls._intern((element, frozen), element=element, frozen=frozen)

    def _spell(self) -> tuple[str, str]:
        return f"{self.kind}({self.element})", f"{self.kind}[{self.element.annotation}]"

    @property
    def kind(self) -> str:
        return "FrozenSet" if self.frozen else "Set"

    @property
    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return SetType.of(types[0], self.frozen)


class TupleType(Type):
    """A tuple; with `names` and `qualified_name` a NamedTuple, whose Python class is `python_class` if known.

    `defaults` are the texts of the fields' defaults, None for a field without. They are there to be read.
    """

    __slots__ = ("defaults", "elements", "names", "python_class", "qualified_name")
    elements: tuple[Type, ...]
    names: tuple[str, ...] | None
    qualified_name: str | None
    python_class: type | None
    defaults: tuple[str | None, ...]

    @classmethod
    def of(
        cls,
        elements: Iterable[Type],
        names: Iterable[str] | None = None,
        qualified_name: str | None = None,
        python_class: type | None = None,
        defaults: Iterable[str | None] = (),
    ) -> TupleType:
        elements = tuple(elements)
        names = None if names is None else tuple(names)
        given = getattr(python_class, "_field_defaults", None)
        if given and names is not None:
            defaults = [_default_text(given[name]) if name in given else None for name in names]
        defaults = tuple(defaults)
        return cls._intern(
            (elements, names, qualified_name, python_class, defaults),
            elements=elements, names=names, qualified_name=qualified_name, python_class=python_class, defaults=defaults,
        )  # fmt: skip

    def _spell(self) -> tuple[str, str]:
        inside = ", ".join(e.annotation for e in self.elements)
        annotation = self.qualified_name or f"Tuple[{inside or '()'}]"
        if self.names is None:
            return f"({', '.join(map(str, self.elements))})", annotation
        fields = [f"{n} : {e}" for n, e in zip(self.names, self.elements, strict=True)]
        if any(self.defaults):
            fields = [f if d is None else f"{f} = {d}" for f, d in zip(fields, self.defaults, strict=True)]
        return f"NamedTuple({', '.join(fields)})", annotation

    @property
    def contained(self) -> tuple[Type, ...]:
        return self.elements

    def with_contained(self, types: Sequence[Type]) -> Type:
        return TupleType.of(types, self.names, self.qualified_name, self.python_class, self.defaults)


_DEEPEST_DEFAULT = 8
"""Containers within containers whose contents are shown in the default of a field."""


def _default_text(value: object, depth: int = 0) -> str:
    """The default of a field, in the text of a type. Brackets pair up in it; strings that are no words are quoted."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**64):
        return repr(value)
    if isinstance(value, str):
        return value if value.isidentifier() else json.dumps(value)
    if isinstance(value, list | tuple | dict) and depth < _DEEPEST_DEFAULT:
        return _container_text(value, depth + 1)
    return f"<{type(value).__name__}>"


def _container_text(value: list[object] | tuple[object, ...] | dict[object, object], depth: int) -> str:
    start, end = "{}" if isinstance(value, dict) else "[]" if isinstance(value, list) else "()"
    items = [_default_text(v, depth) for v in value]
    if isinstance(value, dict):
        items = [f"{k}: {_default_text(v, depth)}" for k, v in zip(items, value.values(), strict=True)]
    return f"{start}{', '.join(items)}{end}"


class _WrapperType(Type):
    """A named constructor over one type."""

    __slots__ = ("element",)
    element: Type
    brackets: ClassVar[str] = "[]"

    @classmethod
    def of(cls: type[_T], element: Type) -> _T:
        return cls._intern((element,), element=element)

    def _spell(self) -> tuple[str, str]:
        opening, closing = self.brackets[0], self.brackets[1]
        return f"{self.kind}{opening}{self.element}{closing}", f"{self.kind}[{self.element.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return type(self).of(types[0])


class FutureType(_WrapperType):
    """The pending result of `fork`."""

    __slots__ = ()


class AwaitType(_WrapperType):
    """The lazily computed result of `awaitable`."""

    __slots__ = ()
    brackets = "()"


class RRefType(_WrapperType):
    """A reference to a value of another process."""

    __slots__ = ()


class VarType(Type):
    """A type variable of a schema: lower-case `t`, `t1`, `tVal`."""

    __slots__ = ("name",)
    name: str

    @classmethod
    def of(cls, name: str) -> VarType:
        return cls._intern((name,), name=name)

    def _spell(self) -> tuple[str, str]:
        return self.name, self.name


INT_LIKE = frozenset({SCALAR_TYPE, LAYOUT, MEMORY_FORMAT, SYM_INT})
"""Types of dispatcher schemas that TorchScript sees as int."""
