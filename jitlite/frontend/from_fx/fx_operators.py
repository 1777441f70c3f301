"""Operators of the dispatcher in FX graphs.

A call has the operator's very overload for its target, so none has to be chosen: its arguments are put in the order of
the schema, with defaults. Two things need more: a number in place of a tensor, which below Python's bindings is a
tensor that counts as a number (the overload for numbers does the same); and operators on sizes (`aten.sym_size.int`),
which have names of their own there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
import torch.fx

from jitlite.base import torch_internals
from jitlite.frontend.from_fx.fx_converter import Converter
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.ir.ops import Op
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.type_parser import SchemaError


def convert(c: Converter, node: torch.fx.Node) -> None:
    """Bind a call of an overload."""
    overload: object = node.target
    op = operator_of(overload)
    if op is None:
        why = "graphs have no types for its schema"
    else:
        call, why = _call(c, op, node)
        if call is not None:
            is_exact = call.op is op
            found = call.op.schema.qualified if call.op is not None else ""
            c.made.note(overload, "exact" if is_exact else "packet", "" if is_exact else f"as {found}")
            _bind_outputs(c, node, call)
            return
    if not _decompose(c, node):
        c.eager(node, why)


@cache
def operator_of(overload: object) -> Op | None:
    """The operator of a graph that an overload of torch's is; None where there is none."""
    named: Any = overload
    if type(overload) is not torch._ops.OpOverload:  # those that take script objects are another class
        return None
    name, _, overload_name = named.name().partition(".")
    try:
        candidates = ops.lookup(_without_symbols(name))
    except SchemaError:
        return None
    return next((op for op in candidates if op.schema.overload == overload_name and _is_usable(op.schema)), None)


def _is_usable(schema: Schema) -> bool:
    return not (schema.is_vararg or schema.is_varret or any(T.has_variables(a.type) for a in schema.arguments))


def _call(c: Converter, op: Op, node: torch.fx.Node) -> tuple[Node | None, str]:
    """The node of the call, or why there can be none."""
    formals = op.schema.arguments
    inputs = []
    for position, formal in enumerate(formals):
        given = _given(formal, position, node.args, node.kwargs)
        value = c.argument(given, formal.type)
        if value is None:
            return None, f"its argument '{formal.name}' is {_described(given)}"
        inputs.append(value)
    call = c.graph.create(op.name, inputs)
    misfit = next((f for f, v in zip(formals, inputs, strict=True) if not T.is_subtype(v.type, f.type)), None)
    if misfit is None:
        call.set_op(op)
    elif not _is_same(call.op, op.schema):
        call.remove_all_inputs()
        found = inputs[formals.index(misfit)].type
        return None, f"its argument '{misfit.name}' is of type {found.annotation}"
    assert call.op is not None
    for returned in call.op.schema.returns:
        call.add_output(returned.type)
    return call.insert_before(c.graph.insert_point), ""


def _given(formal: Argument, position: int, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    if position < len(args):
        given = args[position]
    else:
        given = kwargs.get(formal.name, formal.default if formal.has_default else None)
    is_number = type(given) in (int, float, bool)
    return [given] * formal.size if formal.size and is_number else given  # `int[2] padding=0`


def _is_same(found: Op | None, schema: Schema) -> bool:
    """Is what takes these arguments another overload of the dispatcher with the same parameters?"""
    if found is None or found.overload is None:
        return False
    formals = [[(a.name, a.is_write) for a in s.arguments] for s in (found.schema, schema)]
    return formals[0] == formals[1] and len(found.schema.returns) == len(schema.returns)


def _bind_outputs(c: Converter, node: torch.fx.Node, call: Node) -> None:
    outputs = tuple(call.outputs)
    if not outputs:
        c.bind(node, c.constants.of(None))
    elif len(outputs) == 1:
        c.bind_result(node, outputs[0])
    else:
        for output in outputs:
            output.set_name(node.name)
        c.bind(node, outputs)


def _described(argument: object) -> str:
    return (
        "an object that graphs do not have" if isinstance(argument, torch.fx.Node) else f"a {type(argument).__name__}"
    )


def _decompose(c: Converter, node: torch.fx.Node) -> bool:
    """Look into the function that computes the operator, if one was given."""
    overload: object = node.target
    found = c.decompositions.get(overload) or c.decompositions.get(getattr(overload, "overloadpacket", None))
    examples = [a.meta.get("val") if isinstance(a, torch.fx.Node) else a for a in node.args]
    tensor = next((e for e in examples if isinstance(e, torch.Tensor)), None)
    if found is None or node.kwargs or tensor is None or any(e is None for e in examples):
        return False
    mode = "real" if hasattr(tensor, "fake_mode") else "fake"
    traced = torch_internals.make_fx(found, tracing_mode=mode)(*examples)
    values = [c.value(a) for a in node.args]
    parts = c.inline(traced, values)
    c.made.note(overload, "decomposition")
    c.bind(node, parts[0] if len(parts) == 1 else tuple(parts))
    return True


_OF_TENSORS = {
    "sym_size": "size", "sym_stride": "stride", "sym_numel": "numel", "sym_storage_offset": "storage_offset",
}  # fmt: skip


def _without_symbols(name: str) -> str:
    """`aten::size` of `aten::sym_size`: in graphs that run, sizes are ints."""
    return f"aten::{_OF_TENSORS.get(name.removeprefix('aten::'), '')}" if name.startswith("aten::sym_") else name
