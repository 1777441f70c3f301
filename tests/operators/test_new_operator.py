"""An operator is declared in one place, with its traits: analyses, passes, the front end and the writers know it."""

from __future__ import annotations

import pytest
import torch
from declarations import restored

import jitlite
from jitlite.analysis.alias import AliasDb
from jitlite.ir.ops import Effect, op
from jitlite.ir.parser import parse
from jitlite.ir.traits import Link, Spelling, Trait
from jitlite.ir.types import TENSOR, TensorType
from jitlite.passes.registry import run
from jitlite.passes.shapes import propagate


@pytest.fixture(autouse=True)
def declarations():
    with restored():
        yield


def declare(*traits):
    """`aten::doubled`, which torch does not have."""

    @op("aten::doubled(Tensor x) -> Tensor", Effect.PURE, doc="`2 * x`.", traits=traits)
    def doubled(x):
        return 2 * x


GRAPH = """graph(%x : Tensor):
  %y : Tensor = aten::doubled(%x)
  return (%y)"""


@pytest.mark.parametrize("fresh", [True, False])
def test_alias_analysis(fresh):
    declare(*((Trait.FRESH,) if fresh else ()))
    graph = parse(GRAPH)
    assert AliasDb(graph).may_alias(graph.inputs[0], graph.outputs[0]) is not fresh


@pytest.mark.parametrize("like", [True, False])
def test_shape_rules(like):
    declare(Trait.FRESH, *((Trait.DTYPE_OF_FIRST,) if like else ()))
    graph = parse(GRAPH)
    propagate(graph, [TensorType.of(torch.float64, [2, 3])])
    found = graph.outputs[0].type
    assert isinstance(found, TensorType)
    assert (found.dtype is torch.float64) is like


@pytest.mark.parametrize("folded", [True, False])
def test_folding(folded):
    traits = () if folded else (Trait.NOT_FOLDED,)
    op("aten::successor(int n) -> int", total=True, doc="`n + 1`.", traits=traits)(lambda n: n + 1)
    graph = parse("""graph():
  %n : int = prim::Constant[value=2]()
  %m : int = aten::successor(%n)
  return (%m)""")
    run(graph, "constant_propagation")
    assert (graph.outputs[0].node.kind == "prim::Constant") is folded


def test_growing_results_are_not_folded():
    op("aten::zeros_of(int n) -> int[]", doc="`[0] * n`.", traits=(Trait.GROWING,))(lambda n: [0] * (n % 2))
    graph = parse("""graph():
  %n : int = prim::Constant[value=100000000]()
  %m : int[] = aten::zeros_of(%n)
  return (%m)""")
    run(graph, "constant_propagation")
    assert graph.outputs[0].node.kind == "aten::zeros_of"


def test_peephole_knows_the_opposite():
    for kind, opposite in (("aten::above", "aten::not_above"), ("aten::not_above", "aten::above")):
        op(f"{kind}(int a, int b) -> bool", total=True, doc="Compare.", traits=(Link.OPPOSITE(opposite),))(int.__gt__)
    graph = parse("""graph(%a : int, %b : int):
  %c : bool = aten::above(%a, %b)
  %d : bool = aten::__not__(%c)
  return (%d)""")
    run(graph, "peephole,dce")
    assert [node.kind for node in graph.nodes] == ["aten::not_above"]


def test_the_front_end_finds_the_attribute():
    declare(Spelling.TENSOR_PROPERTY("two_times"))

    def f(x):
        y = x.two_times
        return y + y

    scripted = jitlite.script(f)
    assert [n.kind for n in scripted.graph.nodes if n.output.type is TENSOR][:1] == ["aten::doubled"]
    x = torch.ones(2)
    assert torch.equal(scripted(x), torch.full((2,), 4.0))
