"""Running one node on constants."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitlite.analysis.effects import effect_of
from jitlite.analysis.memory_kinds import TENSOR, reachable_kinds
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.costs import result_size
from jitlite.ir.graph import Node, Value, constant_of
from jitlite.ir.int_codes import dict_display, holds_object
from jitlite.ir.ops import Effect, fn_with_objects
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.ir.values import named_tuple_class, value_has_type

LARGEST_RESULT = 100_000
"""Size in bytes, or elements, beyond which a result is not kept as a constant."""

_LARGEST_TRIED = 16 * LARGEST_RESULT
"""Size in bytes beyond which a result is not even computed."""

_LARGEST_COUNT = 10_000
"""Ints beyond this are not tried as exponents, shifts, repetitions and widths: the result could be huge."""


def _may_be_folded(node: Node) -> bool:
    if node.has(Trait.NOT_FOLDED) or not node.outputs or node.blocks:
        return False
    return effect_of(node) is Effect.PURE and not _handles_tensors(node)


def fold(node: Node) -> list[tuple[object, Type]] | None:
    """The results of the node, whose inputs are constants, with their types; None where it has to run later."""
    if not _may_be_folded(node):
        return None
    args = [constant_of(v) for v in node.inputs]
    if any("name" in v.node.attributes for v in node.inputs) or _could_be_huge(node, args):
        return None
    results = _run(node, args)
    if results is None or len(results) != len(node.outputs):
        return None
    typed = [t for t in map(_typed, results, node.outputs) if t is not None]
    return typed if len(typed) == len(results) else None


def _handles_tensors(node: Node) -> bool:
    return any(reachable_kinds(v.type) & TENSOR and _has_tensor(v) for v in (*node.inputs, *node.outputs))


def _has_tensor(value: Value) -> bool:
    """Might it be or hold a tensor? An empty list of tensors does not."""
    found = constant_of(value, ...)
    return found is ... or size_of(found) is None


def _could_be_huge(node: Node, args: Sequence[object]) -> bool:
    if result_size(node.kind, args) > _LARGEST_TRIED:
        return True
    if not node.has(Trait.GROWING):
        return False
    if node.kind == "aten::mul" and all(isinstance(a, int | float | complex) for a in args):
        return False
    return any(isinstance(a, int) and abs(a) > _LARGEST_COUNT for a in args)


def _called(node: Node, args: list[Any]) -> Any:
    """What the function that an operator is gives."""
    resolved = node.op
    assert resolved is not None
    fn = fn_with_objects(resolved) if any(map(holds_object, args)) else resolved.fn
    assert fn is not None
    result = fn(*args, **{name: node.attributes[name] for name in resolved.attributes})
    return (result,) if len(node.outputs) == 1 else result


def _run(node: Node, args: list[Any]) -> Sequence[Any] | None:
    structural = _STRUCTURAL.get(node.kind)
    resolved = node.op
    if structural is None and (resolved is None or resolved.fn is None or resolved.schema.is_vararg):
        return None
    try:
        if structural is not None:  # these call nothing of torch, and never warn
            return structural(node, args)
        with torch._C.DisableTorchFunction(), warnings.catch_warnings(record=True) as caught, torch.no_grad():
            warnings.simplefilter("always")
            results = _called(node, args)
    except Exception:  # whatever it is, it is to be raised when the program runs
        return None
    return None if caught else results


def _typed(value: object, output: Value) -> tuple[object, Type] | None:
    """The value with the type its constant has, if it can be one and is of the type of `output`."""
    size = size_of(value)
    if size is None or size > LARGEST_RESULT:
        return None
    if value is None:
        return None, output.type
    if isinstance(value, list | dict | set | frozenset):
        return (value, output.type) if value_has_type(value, output.type) else None
    found = type_of_constant(value)
    return None if found is None or not T.is_subtype(found, output.type) else (value, found)


def size_of(value: object) -> int | None:
    """About how many bytes a constant takes; None for what is no constant that can be folded, such as a tensor."""
    if isinstance(value, int):
        return value.bit_length() // 8
    if isinstance(value, str):
        return len(value)
    if isinstance(value, tuple | list | set | frozenset):
        return _sum_of_sizes(list(value))
    if isinstance(value, dict):
        return _sum_of_sizes([*value, *value.values()])
    if isinstance(value, torch.Tensor | torch.Generator | torch.Stream) or type_of_constant(value) is None:
        return None
    return 1


def _sum_of_sizes(values: Sequence[object]) -> int | None:
    total = len(values)
    for value in values:
        size = size_of(value)
        if size is None:
            return None
        total += size
    return total


def _tuple(node: Node, args: list[Any]) -> Sequence[Any]:
    t = node.output.type
    if isinstance(t, T.TupleType) and t.names is not None:
        return (named_tuple_class(t)(*args),)
    return (tuple(args),)


def _isinstance(node: Node, args: list[Any]) -> Sequence[Any]:
    return (any(value_has_type(args[0], t) for t in node.attributes["types"]),)


_STRUCTURAL: dict[str, Callable[[Node, list[Any]], Sequence[Any]]] = {
    "prim::TupleConstruct": _tuple,
    "prim::TupleUnpack": lambda node, args: args[0],
    "prim::TupleSlice": lambda node, args: (args[0][node.attributes["beg"] : node.attributes["end"]],),
    "prim::ListConstruct": lambda node, args: (list(args),),
    "prim::ListUnpack": lambda node, args: args[0],
    "prim::DictConstruct": lambda node, args: (dict_display(*args),),
    "prim::isinstance": _isinstance,
}
"""Meanings of the kinds that have no function of their own."""
