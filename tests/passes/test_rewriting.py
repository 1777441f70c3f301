"""Patterns written as graphs: where they are found, and what replaces them."""

from __future__ import annotations

import pytest

from jitlite.base.source import CompileError
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify
from jitlite.passes import find_matches, rewrite

MUL_ADD = """
graph(%a, %b, %c, %d):
  %p = aten::mul(%a, %b)
  %r = aten::add(%p, %c, %d)
  return (%r)"""
FUSED = """
graph(%a, %b, %c, %d):
  %r = my::mul_add(%a, %b, %c, %d)
  return (%r)"""


def graph_of(body: str, results: str, inputs: str = "%x : Tensor, %y : Tensor") -> Graph:
    lines = "\n".join("  " + line.strip() for line in body.strip().splitlines())
    return parse(f"graph({inputs}):\n  %1 : int = prim::Constant[value=1]()\n{lines}\n  return ({results})")


def kinds(graph: Graph) -> list[str]:
    return [node.kind.split("::")[1] for node in graph.all_nodes() if node.kind != "prim::Constant"]


CHAIN = "%a : Tensor = aten::mul(%x, %y)\n%b : Tensor = aten::add(%a, %x, %1)"


def test_a_match_is_replaced():
    graph = graph_of(CHAIN, "%b")
    assert rewrite(MUL_ADD, FUSED, graph)
    assert kinds(graph) == ["mul_add"]
    (node,) = (n for n in graph.nodes if n.kind == "my::mul_add")
    assert [v.name for v in node.inputs] == ["x", "y", "x", "1"] and node.output.name == "b"
    assert not rewrite(MUL_ADD, FUSED, graph)


def test_matches_in_blocks_count_but_not_across_them():
    inside = f"%c : bool = aten::Bool(%x)\n%r : Tensor = prim::If(%c)\nblock0():\n{CHAIN}\n-> (%b)\nblock1():\n-> (%x)"
    graph = graph_of(inside, "%r")
    assert rewrite(MUL_ADD, FUSED, graph) and "mul_add" in kinds(graph)
    across = (
        "%a : Tensor = aten::mul(%x, %y)\n%c : bool = aten::Bool(%x)\n%r : Tensor = prim::If(%c)\nblock0():\n"
        "%b : Tensor = aten::add(%a, %x, %1)\n-> (%b)\nblock1():\n-> (%x)"
    )
    assert not rewrite(MUL_ADD, FUSED, graph_of(across, "%r"))


def test_overlapping_matches_are_taken_in_order():
    graph = graph_of(
        "%a : Tensor = aten::mul(%x, %y)\n%b : Tensor = aten::mul(%a, %x)\n%c : Tensor = aten::mul(%b, %y)", "%c"
    )
    pattern = "graph(%a, %b, %c):\n  %p = aten::mul(%a, %b)\n  %r = aten::mul(%p, %c)\n  return (%r)"
    assert rewrite(pattern, "graph(%a, %b, %c):\n  %r = my::mul3(%a, %b, %c)\n  return (%r)", graph)
    assert kinds(graph) == ["mul3", "mul"]


def test_an_inner_value_must_not_be_used_outside():
    assert not rewrite(MUL_ADD, FUSED, graph_of(CHAIN, "%b, %a"))


def test_a_parameter_is_one_value_wherever_it_stands():
    pattern = "graph(%a):\n  %r = aten::mul(%a, %a)\n  return (%r)"
    assert not find_matches(pattern, graph_of(CHAIN, "%b"))
    assert find_matches(pattern, graph_of("%a : Tensor = aten::mul(%x, %x)", "%a"))


def test_constants_are_compared_by_value_and_type():
    pattern = "graph(%a):\n  %c : {} = prim::Constant[value={}]()\n  %r = aten::add(%a, %a, %c)\n  return (%r)"
    graph = graph_of("%a : Tensor = aten::add(%x, %x, %1)", "%a")
    assert find_matches(pattern.format("int", "1"), graph)
    assert not find_matches(pattern.format("int", "2"), graph)
    assert not find_matches(pattern.format("float", "1."), graph)


def test_attributes_count():
    pattern = "graph(%a):\n  %r = prim::isinstance[types=[{}]](%a)\n  return (%r)"
    graph = graph_of("%r : bool = prim::isinstance[types=[int]](%x)", "%r", "%x : Any")
    assert find_matches(pattern.format("int"), graph) and not find_matches(pattern.format("str"), graph)


def test_several_results_are_found_by_what_they_share():
    pattern = "graph(%a):\n  %p = aten::sin(%a)\n  %q = aten::cos(%a)\n  return (%p, %q)"
    graph = graph_of("%s : Tensor = aten::sin(%x)\n%n : Tensor = aten::neg(%y)\n%c : Tensor = aten::cos(%x)", "%s, %c")
    replacement = "graph(%a):\n  %p, %q = my::sincos(%a)\n  return (%p, %q)"
    assert rewrite(pattern, replacement, graph, checked=False)
    assert kinds(graph) == ["neg", "sincos"]


def test_a_result_used_before_the_last_node_stays():
    pattern = "graph(%a):\n  %p = aten::sin(%a)\n  %q = aten::cos(%a)\n  return (%p, %q)"
    graph = graph_of("%s : Tensor = aten::sin(%x)\n%n : Tensor = aten::neg(%s)\n%c : Tensor = aten::cos(%x)", "%n, %c")
    assert not rewrite(pattern, "graph(%a):\n  %p, %q = my::s(%a)\n  return (%p, %q)", graph, checked=False)


@pytest.mark.parametrize(
    "between", ["%w : Tensor = aten::zero_(%x)", " = prim::Print(%1)", "%n : Tensor = aten::relu(%y)"]
)
def test_what_may_not_be_crossed_keeps_a_pattern_apart(between):
    first, second = CHAIN.splitlines()
    graph = graph_of(f"{first}\n{between}\n{second}", "%b")
    assert not rewrite(MUL_ADD, FUSED, graph)
    assert rewrite(MUL_ADD, FUSED, graph, checked=False)
    assert "mul_add" in kinds(graph)


def test_what_is_harmless_may_be_crossed():
    first, second = CHAIN.splitlines()
    assert rewrite(MUL_ADD, FUSED, graph_of(f"{first}\n%n : int = aten::dim(%y)\n{second}", "%b, %n"))


def test_a_matched_write_has_to_stay_in_the_match():
    pattern = MUL_ADD.replace("aten::add(", "aten::add_(")
    assert rewrite(pattern, FUSED, graph_of(CHAIN.replace("aten::add(", "aten::add_("), "%b"))
    outside = "graph(%a, %d):\n  %r = aten::add_(%a, %a, %d)\n  return (%r)"
    made = "graph(%a, %d):\n  %r = aten::add(%a, %a, %d)\n  return (%r)"
    assert not rewrite(outside, made, graph_of("%b : Tensor = aten::add_(%x, %x, %1)", "%b"))


def test_a_parameter_as_result_only_where_nobody_can_tell():
    pattern = "graph(%a):\n  %r = aten::clone(%a, %n)\n  return (%r)".replace("%a)", "%a, %n)", 1)
    identity = "graph(%a, %n):\n  return (%a)"
    copied = "%n : NoneType = prim::Constant()\n%c : Tensor = aten::clone(%x, %n)\n%d : Tensor = aten::neg(%c)"
    assert rewrite(pattern, identity, graph_of(copied, "%d"))
    assert not rewrite(pattern, identity, graph_of(copied, "%c"))
    assert not rewrite(pattern, identity, graph_of(copied + "\n%w : Tensor = aten::zero_(%x)", "%d"))


def test_the_filter_sees_values_by_name():
    seen = []

    def where(match):
        seen.append((match["a"].name, match["p"].name))
        return False

    graph = graph_of(CHAIN, "%b")
    assert not rewrite(MUL_ADD, FUSED, graph, where=where)
    assert seen == [("x", "a")]
    with pytest.raises(KeyError, match="%nothing"):
        rewrite(MUL_ADD, FUSED, graph, where=lambda match: match["nothing"])


def test_places_in_the_program():
    graph = graph_of(CHAIN, "%b")
    mul, add = (n.range for n in graph.nodes if n.kind in ("aten::mul", "aten::add"))
    for places, expected in ((None, add), ({"r": "p"}, mul), ({}, None)):
        copy = graph.copy()
        assert rewrite(MUL_ADD, FUSED, copy, places=places)
        assert [n.range for n in copy.nodes if n.kind == "my::mul_add"] == [expected]


def test_many_matches_one_after_the_other():
    lines = ["%v0 : Tensor = aten::neg(%x)"]
    for i in range(50):
        lines += [f"%m{i} : Tensor = aten::mul(%v{i}, %y)", f"%v{i + 1} : Tensor = aten::add(%m{i}, %x, %1)"]
    graph = graph_of("\n".join(lines), "%v50")
    assert rewrite(MUL_ADD, FUSED, graph)
    assert kinds(graph) == ["neg"] + ["mul_add"] * 50


@pytest.mark.parametrize(
    "pattern, message",
    [
        ("graph(%a):\n  return (%a)", "at least one node"),
        ("graph(%a):\n  %r = aten::neg(%a)\n  return (%a)", "returns what it computes"),
        ("graph(%a, %b):\n  %r = aten::neg(%a)\n  %s = aten::neg(%b)\n  return (%r, %s)", "connected"),
        ("graph(%a, %c : bool):\n  %r = prim::If(%c)\n    block0():\n      -> (%a)\n    block1():\n      -> (%a)\n"
         "  return (%r)", "blocks"),
        ("graph(%a):\n  %r = aten::neg(%b)\n  return (%r)", "undefined value %b"),
    ],
)  # fmt: skip
def test_patterns_that_cannot_be_looked_for(pattern, message):
    with pytest.raises(CompileError, match=message):
        find_matches(pattern, graph_of(CHAIN, "%b"))


def test_pattern_and_replacement_have_to_fit():
    with pytest.raises(CompileError, match="4 parameters, the replacement 1"):
        rewrite(MUL_ADD, "graph(%a):\n  %r = my::f(%a)\n  return (%r)", graph_of(CHAIN, "%b"))


def test_the_graph_is_well_formed_afterwards():
    graph = graph_of(CHAIN, "%b")
    swapped = "graph(%a, %b, %c, %d):\n  %p = aten::add(%a, %b, %d)\n  %r = aten::sub(%p, %c, %d)\n  return (%r)"
    assert rewrite(MUL_ADD, swapped, graph)
    verify(graph)
    assert kinds(graph) == ["add", "sub"]
