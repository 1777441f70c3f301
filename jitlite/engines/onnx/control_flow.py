"""Branches and loops, and what they depend on: bools and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from jitlite.engines.converters import Blocks, NeverRead, Ref
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.onnx.builder import CONVERTERS, OnnxBuilder, OnnxGraph
from jitlite.ir.graph import Block
from jitlite.ir.structure import UNBOUNDED, If, Loop

_of = CONVERTERS.of


@CONVERTERS.of_blocks("prim::If")
def branch(out: OnnxBuilder, blocks: Blocks) -> Sequence[Ref]:
    """What both branches give is of one dtype and rank; the sizes may differ."""
    parts = If(blocks.node)
    then, other = (_branch(out, blocks, block) for block in (parts.then, parts.orelse))
    if not blocks.results:
        return []
    condition = out.operand(blocks.arguments[0], torch.bool)
    results = [(r.dtype, r.rank) for r in blocks.results]
    return out.nodes_of("If", [condition], results, then_branch=then, else_branch=other)


def _branch(out: OnnxBuilder, blocks: Blocks, block: Block) -> OnnxGraph:
    with out.nested() as nodes:
        found = blocks.write(block, [])
        outputs = [_carried(out, value, wanted) for value, wanted in zip(found, blocks.results, strict=True)]
    return OnnxGraph([], nodes, outputs)


def _carried(out: OnnxBuilder, value: object, wanted: Ref) -> Ref:
    """What a block gives, under a name of its own.

    Raises:
        EngineRefusal: it is of another dtype or rank.
    """
    if isinstance(value, NeverRead):
        return out.same(out.tensor(torch.zeros([0] * wanted.rank, dtype=wanted.dtype)))
    given = out.operand(value, wanted.dtype) if wanted.is_number else out.given(value)
    if (given.dtype, given.rank) != (wanted.dtype, wanted.rank):
        raise EngineRefusal("what is carried through it changes its dtype or the number of its dimensions")
    return out.same(given)


@CONVERTERS.of_blocks("prim::Loop")
def loop(out: OnnxBuilder, blocks: Blocks) -> Sequence[Ref]:
    """What is carried keeps dtype and rank; its sizes may change."""
    count, start, *carried = blocks.arguments
    body = Loop(blocks.node).body
    most = None if count == UNBOUNDED else out.operand(count, torch.int64)
    known = [Ref("", torch.int64, 0, True), *blocks.results]
    first = [_carried(out, value, wanted) for value, wanted in zip(carried, blocks.results, strict=True)]
    with out.nested() as nodes:
        parameters = [Ref(out.new_name(), r.dtype, r.rank, r.is_number) for r in known]
        goes_on = Ref(out.new_name(), torch.bool, 0, True)
        found = blocks.write(body, parameters)
        wanted = [goes_on, *blocks.results]
        outputs = [_carried(out, value, ref) for value, ref in zip(found, wanted, strict=True)]
    made = OnnxGraph([parameters[0], goes_on, *parameters[1:]], nodes, outputs)
    results = [(r.dtype, r.rank) for r in blocks.results]
    if not results:
        raise EngineRefusal("it carries nothing")
    return out.nodes_of("Loop", [most, out.operand(start, torch.bool), *first], results, body=made)


# -- numbers


def _of_one_element(out: OnnxBuilder, x: object) -> Ref:
    """The element of a tensor; a call in which there are more or fewer fails."""
    given = out.given(x)
    if given.rank == 0:
        return given
    return out.node("Reshape", [given, out.ints([])], given.dtype, 0)


@_of("aten::Bool")
def to_bool(out: OnnxBuilder, x: object) -> Ref:
    given = _of_one_element(out, x)
    if given.dtype is torch.bool:
        return given
    return out.like("Not", out.node("Equal", [given, out.operand(0, given.dtype)], torch.bool, 0))


@_of("aten::Int", "aten::IntImplicit")
def to_int(out: OnnxBuilder, x: object) -> Ref:
    return out.cast(_of_ints(out, x), torch.int64)


def _of_ints(out: OnnxBuilder, x: object) -> Ref:
    given = _of_one_element(out, x)
    if given.dtype.is_floating_point:
        raise EngineRefusal("it makes an int of a float, which may be nan or too large")
    return given


@_of("aten::FloatImplicit")
def to_float(out: OnnxBuilder, x: object) -> Ref:
    return out.cast(_of_one_element(out, x), torch.float64)


@_of("aten::item")
def item(out: OnnxBuilder, x: object) -> Ref:
    """A number of the type that the dtype has."""
    return out.cast(_of_one_element(out, x), out.results[0].dtype)


@_of("aten::__not__")
def negated(out: OnnxBuilder, x: object) -> Ref:
    return out.node("Not", [out.operand(x, torch.bool)], torch.bool, 0)


def _joined(op: str, out: OnnxBuilder, a: object, b: object) -> Ref:
    """Of two bools, or of two tensors."""
    dtype = out.results[0].dtype
    name = op if dtype is torch.bool else f"Bitwise{op}"
    return out.result(name, [out.operand(a, dtype), out.operand(b, dtype)])


_of("aten::__and__")(partial(_joined, "And"))
_of("aten::__or__")(partial(_joined, "Or"))
_of("aten::__xor__")(partial(_joined, "Xor"))
