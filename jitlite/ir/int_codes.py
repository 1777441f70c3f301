"""Objects of torch that are ints to TorchScript: dtypes, layouts, memory formats and quantization schemes.

In types and in text they are ints; at run time they are torch's objects, so that programs return and print what eager
Python does. A program read from an archive or from graph text has numbers where the program it was written from had
objects (`x.dtype == 6`), so a number and the object of that number are one value to every operator: they are equal, one
finds the other in lists and dicts, they are put in order by their numbers, and where arithmetic is done an object is
its number. Two objects are equal where Python says so; `torch.uint8` is not `torch.strided`, though both are 0.

`WITH_OBJECTS` gives, for the functions that operators are declared with, those that know of this. They take longer, so
they run only where `object_flow.py` finds that an operand may be such an object.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch

from jitlite.base.source import Error
from jitlite.ir import types as T

INT_OBJECTS = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)
"""Classes of torch objects that are ints to TorchScript."""

_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32"
    " bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz"
    " float8_e4m3fnuz uint16 uint32 uint64 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6"
    " int7 float8_e8m0fnu float4_e2m1fn_x2 bcomplex32"
)
_LAYOUTS = "strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc jagged"
_MEMORY_FORMATS = "contiguous_format preserve_format channels_last channels_last_3d"
_QSCHEMES = (
    "per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric per_channel_affine_float_qparams"
)


def _named(names: str) -> tuple[Any, ...]:
    """Objects by their numbers; None for those that this version of torch does not have."""
    return tuple(getattr(torch, name, None) for name in names.split())


BY_TYPE: dict[T.Type, tuple[Any, ...]] = {
    T.SCALAR_TYPE: _named(_DTYPES),
    T.LAYOUT: _named(_LAYOUTS),
    T.MEMORY_FORMAT: _named(_MEMORY_FORMATS),
}
"""The objects that numbers mean where a schema wants a dtype, layout or memory format (`c10::ScalarType` etc.)."""

_ALL = (*BY_TYPE.values(), _named(_QSCHEMES))

INT_CODES: dict[object, int] = {
    value: code for values in _ALL for code, value in enumerate(values) if value is not None
}
"""The number under which such an object is written."""

_OBJECTS: dict[int, tuple[Any, ...]] = {
    code: tuple(values[code] for values in _ALL if code < len(values) and values[code] is not None)
    for code in range(max(map(len, _ALL)))
}
"""The objects that have a number, of all classes."""


def is_int_coded(declared_type: T.Type) -> bool:
    """Is it a type whose values are ints in graph text and torch's objects at run time, or the optional of one?"""
    return (declared_type.element if isinstance(declared_type, T.OptionalType) else declared_type) in BY_TYPE


def int_coded(declared_type: T.Type, value: object) -> object:
    """The torch object an int stands for where a ScalarType, Layout or MemoryFormat is wanted.

    Raises:
        Error: there is none of this number.
    """
    if type(value) is not int:
        return value
    if isinstance(declared_type, T.OptionalType):
        declared_type = declared_type.element
    values = BY_TYPE.get(declared_type)
    if values is None:
        return value
    if not 0 <= value < len(values) or values[value] is None:
        raise Error(f"no {declared_type} has the number {value}")
    return values[value]


def number_of(value: object) -> Any:
    """The number of such an object, or a list with all such objects as numbers; other values as they are."""
    if isinstance(value, INT_OBJECTS):
        return INT_CODES[value]
    if isinstance(value, list) and any(isinstance(v, INT_OBJECTS) for v in value):
        return [number_of(v) for v in value]
    return value


def holds_object(value: object) -> bool:
    """Is the value such an object, or a list, tuple, set or dict that has one in it?"""
    if isinstance(value, INT_OBJECTS):
        return True
    if isinstance(value, list | tuple):
        return not PLAIN.issuperset(map(type, value)) and any(map(holds_object, value))
    if isinstance(value, set | frozenset):
        return any(map(holds_object, value))
    return isinstance(value, dict) and (holds_object(tuple(value)) or holds_object(tuple(value.values())))


PLAIN = frozenset({int, bool, float, complex, str, type(None), torch.Tensor, torch.nn.Parameter})
"""Classes of values that hold nothing; a list of nothing else is seen at once."""


# -- what operators mean where an operand may be such an object


def same_number(a: object, b: object) -> bool:
    """Is one of them an object and the other its number?"""
    if isinstance(a, INT_OBJECTS):
        return isinstance(b, int | float | complex) and INT_CODES[a] == b
    return isinstance(b, INT_OBJECTS) and isinstance(a, int | float | complex) and INT_CODES[b] == a


def equal(a: object, b: object) -> bool:
    """`a == b`, also for lists."""
    if a == b:
        return True
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a.__class__ is not b.__class__ and same_number(a, b)


def unequal(a: object, b: object) -> bool:
    """`a != b`, also for lists."""
    return not equal(a, b)


def identical(a: object, b: object) -> bool:
    """`a is b`"""
    return a is b or same_number(a, b)


def not_identical(a: object, b: object) -> bool:
    """`a is not b`"""
    return not identical(a, b)


def _spellings(value: object) -> tuple[Any, ...]:
    """What else the value is equal to."""
    if isinstance(value, INT_OBJECTS):
        return (INT_CODES[value],)
    return _OBJECTS.get(value, ()) if type(value) is int else ()


def key_in(container: Any, value: Any) -> Any:
    """The value as it stands in a list or among the keys of a dict; as it is where it does not stand there."""
    if value in container:
        return value
    return next((other for other in _spellings(value) if other in container), value)


def contains(container: Any, item: Any) -> bool:
    """`item in container`"""
    return item in container or any(other in container for other in _spellings(item))


def index(values: list[Any], item: object) -> int:
    """`values.index(item)`"""
    for position, value in enumerate(values):
        if equal(value, item):
            return position
    return values.index(item)  # raises


def count(values: list[Any], item: object) -> int:
    """`values.count(item)`"""
    return sum(equal(value, item) for value in values)


def remove(values: list[Any], item: object) -> None:
    """`values.remove(item)`"""
    at = next((position for position, value in enumerate(values) if equal(value, item)), None)
    if at is None:
        values.remove(item)  # raises
    else:
        del values[at]


def _by_number(function: Callable[..., Any]) -> Callable[..., Any]:
    """`min`, `max` or the like, of one list or of several values, which are compared by their numbers."""

    @functools.wraps(function)
    def call(*args: object) -> Any:
        return function(*args, key=number_of)

    return call


def with_key_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a dict, a key and more, given the key as it stands in the dict."""

    @functools.wraps(function)
    def call(mapping: object, key: object, *more: object) -> Any:
        return function(mapping, key_in(mapping, key), *more)

    return call


def new_dict(pairs: Iterable[tuple[object, object]] = ()) -> dict[Any, Any]:
    """A dict of the pairs; of those with equal keys, the first key and the last value."""
    made: dict[Any, Any] = {}
    update(made, pairs)
    return made


def update(mapping: dict[Any, Any], added: Any) -> None:
    """`mapping.update(added)`"""
    for key, value in added.items() if isinstance(added, dict) else added:
        mapping[key_in(mapping, key)] = value


def dict_display(*keys_and_values: object) -> dict[Any, Any]:
    """A dict of keys and values, which alternate."""
    return new_dict(zip(keys_and_values[::2], keys_and_values[1::2], strict=True))


WITH_OBJECTS: dict[Any, Callable[..., Any]] = {
    operator.eq: equal,
    operator.ne: unequal,
    operator.is_: identical,
    operator.is_not: not_identical,
    operator.contains: contains,
    operator.getitem: with_key_in(operator.getitem),
    operator.delitem: with_key_in(operator.delitem),
    list.index: index,
    list.count: count,
    list.remove: remove,
    dict.get: with_key_in(dict.get),
    min: _by_number(min),
    max: _by_number(max),
    sum: lambda values: sum(number_of(values)),
    hash: lambda value: hash(number_of(value)),
    **{function: function for function in (bool, all, any)},  # an object is true, whatever its number
}
"""Functions of Python that operators are declared with, and what they are where an operand may be such an object.

Operators with functions of their own declare it (`ops.op`)."""


def on_numbers(function: Callable[..., Any], positions: tuple[int, ...]) -> Callable[..., Any]:
    """The function, given the numbers of such objects at these positions."""

    def call(*args: object) -> Any:
        converted = list(args)
        for position in positions:
            if position < len(converted):
                converted[position] = number_of(converted[position])
        return function(*converted)

    return call
