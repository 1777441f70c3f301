"""Arguments of a trace at the dispatcher and of its operators: their types, and numbers among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from jitlite.base.dataclass_values import fields_of
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.frontend.tracing.trace_backend import Traced
from jitlite.frontend.tracing.trace_values import tensors, tuple_type
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.types import Type
from jitlite.ir.values import class_type_of


def _element_type(types: Sequence[Type]) -> Type:
    return (T.unify_all(types) or T.ANY) if types else T.TENSOR


def _key_type(example: Mapping[object, object]) -> Type | None:
    """The type of the keys of a dict; None where they have none in common."""
    types = [type_of_constant(key) for key in example]
    known = [t for t in types if t is not None]
    return None if len(known) < len(types) else T.unify_all(known) if known else T.STRING


def argument_type(example: object, name: str) -> Type:
    """The type of an argument.

    Raises:
        CompileError: where a graph can have none such.
    """
    if isinstance(example, torch.Tensor):
        return T.TENSOR
    if isinstance(example, tuple):
        return tuple_type(example, _types_of_elements(example, name))
    if isinstance(example, list):
        return T.ListType.of(_element_type(_types_of_elements(example, name)))
    if isinstance(example, dict):
        element = _element_type([argument_type(e, f"{name}[{k!r}]") for k, e in example.items()])
        key = _key_type(example)
        if key is not None:
            return T.DictType.of(key, element)
    found = _class_of(example) or type_of_constant(example)
    if found is None or (tensors(example) and not isinstance(found, T.ClassType)):
        raise NO_TRACE(
            f"{name}: a {type(example).__name__} can be no argument of a traced function",
            hint="take it apart: tensors, numbers, strings and None, and tuples, lists and dicts of these can",
        )
    return found


def _class_of(example: object) -> Type | None:
    """The class type of an object of a dataclass; None for anything else."""
    fields = fields_of(example)
    owner = None if fields is None else class_type_of(example)
    return owner if fields is not None and owner is not None and set(fields) <= set(owner.attributes) else None


def _types_of_elements(example: Sequence[object], name: str) -> list[Type]:
    return [argument_type(e, f"{name}[{i}]") for i, e in enumerate(example)]


def computed(name: str, operands: Sequence[object]) -> object:
    """What an operator gives for numbers of Python's."""
    found = next((o for o in ops.lookup(name) if o.fn is not None and len(o.schema.arguments) == len(operands)), None)
    if found is None or found.fn is None:
        raise NO_TRACE(f"there is no operator {name} for numbers")
    return found.fn(*operands)


def number_for_tensor(argument: object) -> object:
    """The number in place of a tensor; None for a tensor."""
    if isinstance(argument, Traced):
        return None if isinstance(argument.example, torch.Tensor) else argument
    return argument if isinstance(argument, int | float | complex) else None
