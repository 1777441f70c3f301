"""What TorchScript's types are called, in source text and by Python's objects, and what to write in place of others."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from jitlite.base import torch_internals
from jitlite.base.errors.type_names import UNKNOWN_TYPE
from jitlite.base.errors.types import NO_KEY
from jitlite.base.source import AnnotationError, SourceRange, did_you_mean
from jitlite.ir.awaits import Await
from jitlite.ir.constants import attribute_or_none, module_name
from jitlite.ir.types import (
    ANY,
    ANY_DICT,
    ANY_FROZENSET,
    ANY_LIST,
    ANY_SET,
    ANY_TUPLE,
    BOOL,
    CAPSULE,
    COMPLEX,
    DEVICE,
    DTYPE_NAMES,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STREAM,
    STRING,
    TENSOR,
    AwaitType,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    RRefType,
    SetType,
    TupleType,
    Type,
    UnionType,
    may_be_in_set,
    may_be_key,
)

T = TypeVar("T")

_LEGACY_DTYPES = [
    *[torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool],
    *[torch.float16, torch.float32, torch.float64, torch.bfloat16],
]


LEGACY_TENSOR = type(torch.FloatTensor)


NAMES: dict[str, Type] = {
    "Tensor": TENSOR,
    **{f"{DTYPE_NAMES[dtype]}Tensor": TENSOR for dtype in _LEGACY_DTYPES},
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STRING,
    "complex": COMPLEX,
    "number": NUMBER,
    "None": NONE,
    "NoneType": NONE,
    "Any": ANY,
    "object": ANY,
    "Device": DEVICE,
    "device": DEVICE,
    "dtype": INT,
    "layout": INT,
    "memory_format": INT,
    "qscheme": INT,
    "Stream": STREAM,
    "Generator": GENERATOR,
    "Capsule": CAPSULE,
}


OBJECTS: dict[object, Type] = {
    None: NONE,
    type(None): NONE,
    int: INT,
    torch.SymInt: INT,
    float: FLOAT,
    bool: BOOL,
    str: STRING,
    complex: COMPLEX,
    Any: ANY,
    object: ANY,
    torch.device: DEVICE,
    torch.dtype: INT,
    torch.layout: INT,
    torch.memory_format: INT,
    torch.qscheme: INT,
    torch.Generator: GENERATOR,
    torch.Stream: STREAM,
    torch.cuda.Stream: STREAM,
    torch.Size: ListType.of(INT),
}


_CONSTRUCTORS: dict[object, str] = {
    list: "List",
    typing.List: "List",  # noqa: UP006 - the alias itself is meant
    dict: "Dict",
    typing.Dict: "Dict",  # noqa: UP006
    typing.OrderedDict: "Dict",  # a dict keeps its order
    collections.OrderedDict: "Dict",
    set: "Set",
    typing.Set: "Set",  # noqa: UP006
    typing.AbstractSet: "Set",
    collections.abc.Set: "Set",
    collections.abc.MutableSet: "Set",
    frozenset: "FrozenSet",
    typing.FrozenSet: "FrozenSet",  # noqa: UP006
    tuple: "Tuple",
    typing.Tuple: "Tuple",  # noqa: UP006
    typing.Optional: "Optional",
    typing.Union: "Union",
    types.UnionType: "Union",
    typing.Final: "Final",
    torch.futures.Future: "Future",
    torch._C.Future: "Future",
    torch_internals.await_class: "Await",
    Await: "Await",
}


CONSTRUCTOR_NAMES = {
    "list": "List",
    "dict": "Dict",
    "set": "Set",
    "frozenset": "FrozenSet",
    "tuple": "Tuple",
    "_Await": "Await",
    **{
        name: name
        for name in (
            "List",
            "Dict",
            "Set",
            "FrozenSet",
            "Tuple",
            "Optional",
            "Union",
            "Final",
            "Future",
            "Await",
            "RRef",
        )
    },
}


ARITY = {"List": 1, "Set": 1, "FrozenSet": 1, "Dict": 2, "Optional": 1, "Future": 1, "Await": 1, "RRef": 1, "Final": 1}


_CONSTRUCTED: dict[str, Callable[[Sequence[Type]], Type]] = {
    "List": lambda contained: ListType.of(contained[0]),
    "Tuple": TupleType.of,
    "Optional": lambda contained: OptionalType.of(contained[0]),
    "Union": UnionType.of,
    "Future": lambda contained: FutureType.of(contained[0]),
    "Await": lambda contained: AwaitType.of(contained[0]),
    "RRef": lambda contained: RRefType.of(contained[0]),
    "Final": lambda contained: contained[0],
}
"""The type that a generic type is with these arguments; Dict has keys to check."""


BARE = {"List": ANY_LIST, "Dict": ANY_DICT, "Tuple": ANY_TUPLE, "Set": ANY_SET, "FrozenSet": ANY_FROZENSET}


_INSTEAD = {  # common annotations that are not TorchScript, by name
    "Sequence": "List[T]",
    "Iterable": "List[T]",
    "Iterator": "List[T]",
    "Collection": "List[T]",
    "MutableSequence": "List[T]",
    "Mapping": "Dict[K, V]",
    "MutableMapping": "Dict[K, V]",
    "defaultdict": "Dict[K, V]",
    "bytes": "str, or a tensor of torch.uint8",
    "ndarray": "torch.Tensor",
    "Number": "Union[int, float, complex]",
    "Callable": "the function itself, called by name",
}


def find(table: dict[object, T], key: object) -> T | None:
    try:
        return table.get(key)
    except Exception:  # unhashable in whatever way, so not there
        return None


def _dict_type(key: Type, value: Type, place: SourceRange | None) -> Type:
    if not may_be_key(key) and key is not ANY:
        raise NO_KEY(
            f"Cannot create dict for key type '{key.annotation}', only int, float, complex, Tensor, device and "
            "string keys, members of enums, and tuples of these are supported",
            place,
        )
    return DictType.of(key, value)


def _set_type(element: Type, frozen: bool, place: SourceRange | None) -> Type:
    if not may_be_in_set(element) and element is not ANY:
        raise NO_KEY(
            f"a set cannot hold values of type '{element.annotation}': only numbers, strings, members of enums, and "
            "tuples of these",
            place,
        )
    return SetType.of(element, frozen)


def constructor_of(denoted: object) -> str | None:
    """The name under which TorchScript knows a generic type."""
    found = find(_CONSTRUCTORS, denoted)
    if found is None and isinstance(denoted, type) and module_name(denoted).startswith("torch.distributed.rpc"):
        return "RRef" if denoted.__name__ in ("RRef", "PyRRef") else None
    return found


_NEAREST = {
    **dict.fromkeys(("Sequence", "MutableSequence", "Collection", "Iterable"), "List"),
    **dict.fromkeys(("Mapping", "MutableMapping"), "Dict"),
}


def nearest_constructor(denoted: object) -> str | None:
    """The generic type that is most like one of `collections.abc`, of which TorchScript has none."""
    found = typing.get_origin(denoted) or denoted
    is_abstract = getattr(found, "__module__", "") in ("collections.abc", "typing")
    return _NEAREST.get(getattr(found, "__name__", "")) if is_abstract else None


def suggestion(name: str) -> str | None:
    last = name.rpartition(".")[2]
    if last in _INSTEAD:
        return f"use {_INSTEAD[last]}"
    return did_you_mean(last, [*NAMES, *CONSTRUCTOR_NAMES])


def unknown_object(annotation: object, place: SourceRange | None, name: str | None) -> AnnotationError:
    origin = typing.get_origin(annotation) or annotation
    bare_name = attribute_or_none(origin, "__name__") or attribute_or_none(origin, "_name") or ""
    if isinstance(annotation, types.ModuleType):
        shown, hint = f"module {annotation.__name__}", "name a type in the module"
    else:
        shown = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
        hint = f"use {_INSTEAD[bare_name]}" if bare_name in _INSTEAD else "TorchScript has no such type"
    called = f"'{name}' is {shown}, which is" if name is not None and name != shown else f"'{shown}' is"
    return UNKNOWN_TYPE(f"Unknown type annotation: {called} not a TorchScript type", place, hint=hint)


def construct(name: str, contained: Sequence[Type], place: SourceRange | None) -> Type:
    """The generic type of this name, of these types."""
    if name in ("Set", "FrozenSet"):
        return _set_type(contained[0], name == "FrozenSet", place)
    return _dict_type(contained[0], contained[1], place) if name == "Dict" else _CONSTRUCTED[name](contained)
