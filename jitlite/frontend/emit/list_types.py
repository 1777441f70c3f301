"""What `x.tolist()` gives, where the expression `x` tells its dtype and its number of dimensions.

torch.arange(n).tolist()                List[int]
torch.zeros(2, n).tolist()              List[List[float]]
x.flatten().long().tolist()             List[int]
"""

from __future__ import annotations

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.types import Type


def listed_type(value: Value) -> Type | None:
    """The type of the list, None where the expression does not tell."""
    rank, element = _rank(value), _element(value)
    if rank is None or element is None:
        return None
    result = element
    for _ in range(rank):
        result = T.ListType.of(result)
    return result


def _input(value: Value, name: str) -> Value | None:
    """The argument of the operator that makes the value; None where there is none of this name."""
    op = value.node.op
    position = None if op is None else op.schema.argument_index(name)
    return None if position is None or position >= len(value.node.inputs) else value.node.inputs[position]


def _constant(value: Value, name: str) -> object:
    """The constant that the operator is given; None where it is none."""
    given = _input(value, name)
    return constant_of(given, None) if given is not None and is_constant(given) else None


def _rank(value: Value) -> int | None:
    node = value.node
    match node.kind:
        case "aten::zeros" | "aten::ones" | "aten::full" | "aten::empty" | "aten::rand" | "aten::randn":
            return _count(node.inputs[0])
        case "aten::reshape" | "aten::view":
            return _count(node.inputs[1])
        case "aten::tensor":
            return _nesting(node.inputs[0].type)[0]
        case "aten::arange" | "aten::randperm" | "aten::linspace":
            return 1
        case "aten::nonzero":
            return 2
        case "aten::flatten":
            return 1 if _constant(value, "start_dim") == 0 and _constant(value, "end_dim") == -1 else None
        case "aten::to" | "aten::argsort" | "aten::cpu" | "aten::clone" | "aten::detach" | "aten::contiguous":
            return _rank(node.inputs[0])
    return None


def _count(sizes: Value) -> int | None:
    """How many sizes a list has that is written out."""
    return len(sizes.node.inputs) if sizes.node.kind == "prim::ListConstruct" else None


def _nesting(data: Type) -> tuple[int, Type]:
    """How many lists are in one another, and of what."""
    depth = 0
    while isinstance(data, T.ListType):
        data, depth = data.element, depth + 1
    return depth, data


def _element(value: Value) -> Type | None:
    node = value.node
    match node.kind:
        case "aten::argsort" | "aten::argmax" | "aten::argmin" | "aten::randperm" | "aten::nonzero":
            return T.INT
        case "aten::reshape" | "aten::view" | "aten::flatten" | "aten::cpu" | "aten::clone" | "aten::detach":
            return _element(node.inputs[0])
        case "aten::contiguous":
            return _element(node.inputs[0])
    given, dtype = _input(value, "dtype"), _constant(value, "dtype")
    if isinstance(dtype, torch.dtype):
        return _of_dtype(dtype)
    return _element_by_default(node) if given is not None and given.type is T.NONE else None


def _element_by_default(node: Node) -> Type | None:
    """Of a tensor that is made without a dtype."""
    match node.kind:
        case "aten::tensor":
            found = _nesting(node.inputs[0].type)[1]
            return found if found in (T.INT, T.BOOL, T.FLOAT) else None
        case "aten::arange":
            return T.FLOAT if any(v.type is T.FLOAT for v in node.inputs) else T.INT
        case "aten::zeros" | "aten::ones" | "aten::empty" | "aten::rand" | "aten::randn" | "aten::linspace":
            return T.FLOAT
    return None


def _of_dtype(dtype: torch.dtype) -> Type:
    if dtype is torch.bool:
        return T.BOOL
    if dtype.is_complex:
        return T.COMPLEX
    return T.FLOAT if dtype.is_floating_point else T.INT
