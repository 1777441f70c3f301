"""Tensors, arguments and examples as the tracer looks at them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from jitlite.base.dataclass_values import fields_of
from jitlite.base.tracing_state import Listener
from jitlite.frontend.tracing.places_in_memory import Place, place_in_memory
from jitlite.frontend.tracing.traced_numbers import node_of, plain
from jitlite.ir import types as T
from jitlite.ir.constants import qualified_name, type_of_constant
from jitlite.ir.types import Type
from jitlite.ir.values import class_type_of

_UNTRACEABLE = (
    "Type '{}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors can be traced"
)


def plain_number(argument: object) -> object:
    """The argument as the operator is to get it now."""
    number = getattr(argument, "_wrapped_number", None) if isinstance(argument, torch.Tensor) else None
    return plain(argument if number is None else number)


def wrapped_number(argument: object) -> Any:
    """The number that stands in place of a tensor; None where there is a tensor."""
    if isinstance(argument, torch.Tensor):
        return getattr(argument, "_wrapped_number", None)
    return argument if isinstance(argument, int | float | complex) or node_of(argument) is not None else None


def in_schema_order(overload: Any, args: Sequence[Any], kwargs: Mapping[str, object]) -> list[object]:
    given = list(args)
    for formal in overload._schema.arguments[len(args) :]:
        given.append(kwargs.get(formal.name, formal.default_value))
    return given


def is_written(formal: Any) -> bool:
    """Does an operator write the argument?"""
    return formal.alias_info is not None and formal.alias_info.is_write


def written(overload: Any, args: Sequence[Any]) -> list[Any]:
    """The positional arguments that the operator writes and gives back."""
    return [argument for formal, argument in zip(overload._schema.arguments, args, strict=False) if is_written(formal)]


def place_of(tensor: torch.Tensor) -> Place | None:
    """What two tensor objects of torch's own classes that are the same tensor have in common."""
    return place_in_memory(tensor) if type(tensor) in (torch.Tensor, torch.nn.Parameter) else None


def another_object(tensor: torch.Tensor) -> torch.Tensor:
    """A view of all of a tensor; the tensor itself, where it is of a kind that has no views."""
    try:
        alias: torch.Tensor = torch.ops.aten.alias.default(tensor)
        return alias
    except (RuntimeError, NotImplementedError):
        return tensor


def tensors(result: object) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    fields = fields_of(result)
    parts = list(result.values()) if isinstance(result, Mapping) else result if fields is None else [*fields.values()]
    return [t for part in parts for t in tensors(part)] if isinstance(parts, list | tuple) else []


class Paused:
    """Within the `with`, a tracer records nothing: operators just run."""

    def __init__(self, tracer: Listener) -> None:
        self.tracer = tracer

    def __enter__(self) -> None:
        if not self.tracer.paused:
            self.tracer.generator.check()
        self.tracer.paused += 1

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        self.tracer.paused -= 1
        if not self.tracer.paused:
            self.tracer.generator.note()


def tuple_type(example: tuple[object, ...], types: Sequence[Type]) -> Type:
    names = getattr(type(example), "_fields", None)
    if names is None:
        return T.TupleType.of(types)
    return T.TupleType.of(types, names, qualified_name(type(example)), type(example))


def rebuilt(example: object, parts: Mapping[Any, object]) -> Any:
    """A container like the example, of other parts by index or key."""
    if isinstance(example, dict):
        return type(example)(parts)
    if isinstance(example, list):
        return list(parts.values())
    return type(example)(*parts.values()) if hasattr(example, "_fields") else tuple(parts.values())


# -- types of inputs


def input_type(example: object) -> Type | None:
    """The type of a graph input; None for what cannot be traced."""
    if isinstance(example, torch.Tensor):
        return None if has_own_operators(example) else T.TENSOR
    if type(example) in (int, float):
        return type_of_constant(example)
    if isinstance(example, tuple):
        parts = list(map(input_type, example))
        known = [p for p in parts if p is not None]
        return tuple_type(example, known) if len(known) == len(parts) else None
    if isinstance(example, list):
        element = _common_type(example)
        return None if element is None else T.ListType.of(element)
    return _dict_type(example) if isinstance(example, dict) else _class_of(example)


def is_fixed(field: object) -> bool:
    """Is a field of an object one for whose value the trace is made?"""
    return field is None or type(field) in (bool, str)


def _class_of(example: object) -> Type | None:
    """The class type of an object of a dataclass; None where it is none, or one of its fields cannot be an input."""
    fields = fields_of(example)
    found = None if fields is None else class_type_of(example)
    if fields is None or found is None or not set(fields) <= set(found.attributes):
        return None
    return found if all(is_fixed(v) or input_type(v) is not None for v in fields.values()) else None


def _dict_type(example: Mapping[object, object]) -> Type | None:
    element = _common_type(example.values())
    key = type_of_constant(next(iter(example))) if example else None
    return None if element is None or key is None else T.DictType.of(key, element)


def _common_type(elements: Collection[object]) -> Type | None:
    """The type of the elements of a list or dict; None where there are none, or none can be an input."""
    found = T.unify_all([input_type(e) or T.NONE for e in elements]) if elements else None
    return None if found is T.NONE else found


def has_own_operators(tensor: torch.Tensor) -> bool:
    """Is the tensor of a class that says in Python what operators do, by `__torch_dispatch__`?"""
    return type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


OWN_OPERATORS = "A {}, whose class has a __torch_dispatch__, cannot be traced: use the tensors that it is made of"


def why_not(example: object) -> str:
    """Why something can be no input."""
    if isinstance(example, torch.Tensor):
        return OWN_OPERATORS.format(type(example).__name__)
    if isinstance(example, tuple):
        return next((why_not(e) for e in example if input_type(e) is None), "")
    if isinstance(example, list | dict):
        name = type(example).__name__.capitalize()
        return _why_not_of(name, list(example.values()) if isinstance(example, dict) else example)
    for name, field in (fields_of(example) or {}).items():
        if not is_fixed(field) and input_type(field) is None:
            return f"{type(example).__name__}.{name}: {why_not(field)}"
    found = type_of_constant(example)
    return _UNTRACEABLE.format(type(example).__name__ if found is None else found.annotation)


def _why_not_of(name: str, elements: Sequence[object]) -> str:
    refused = [e for e in elements if input_type(e) is None]
    if refused:
        return why_not(refused[0])
    if not elements:
        return f"{name} trace inputs must have elements"
    return f"{name} inputs to traced functions must have consistent element type"


def bound_object_path(argument: object, objects: Sequence[tuple[object, tuple[str, ...]]]) -> tuple[str, ...] | None:
    """The path to an object of a class written in C++, for which Python has a new object each time; None if unknown."""
    is_same: Any = torch._C._is_alias_of  # type: ignore[attr-defined]
    return next((path for known, path in objects if is_same(known, argument)), None)
