"""Dominance, liveness, loops, networkx views, DOT, and comparing graphs."""

import math

import networkx as nx
import pytest
import torch

from jitlite.ir import types as T
from jitlite.ir.analysis import (
    ancestor_in,
    captured_values,
    common_block,
    control_tree,
    dominates,
    dot_quote,
    enclosing_blocks,
    last_user,
    last_uses,
    live_after,
    loops,
    may_use,
    to_dot,
    to_networkx,
)
from jitlite.ir.compare import canonical_text, constant_key, isomorphic, renumbered
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse

TEXT = """graph(%x : Tensor, %n : int, %k : int):
  %t : bool = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %l : Tensor = prim::Loop(%n, %t, %a)
    block0(%i : int, %p : Tensor):
      %b : bool = aten::gt(%i, %k)
      %y : Tensor = prim::If(%b)
        block0():
          %d : Tensor = aten::mul(%p, %x)
          -> (%d)
        block1():
          %e : Tensor = aten::relu(%p)
          -> (%e)
      %m : Tensor = prim::Loop(%i, %t, %y)
        block0(%j : int, %q : Tensor):
          -> (%t, %q)
      -> (%t, %m)
  %z : Tensor = aten::relu(%l)
  return (%z)
"""


@pytest.fixture
def graph():
    return parse(TEXT)


def named(graph, name):
    return graph._names[name]


def names(values):
    return {v.name for v in values}


def test_dominance(graph):
    a, l, b, y, d, e, z = (named(graph, name).node for name in "albydez")
    assert dominates(a, z) and dominates(a, d) and dominates(b, d) and dominates(l, z)
    assert not dominates(d, e) and not dominates(e, d) and not dominates(d, z) and not dominates(z, a)
    assert not dominates(l, b) and not dominates(y, d) and not dominates(a, a)
    assert may_use(d, named(graph, "p")) and may_use(e, named(graph, "x")) and not may_use(z, named(graph, "p"))
    assert may_use(graph.block.return_node, named(graph, "z"))


def test_dominance_is_about_all_paths(graph):
    """`a` dominates `b` if `b` cannot be reached without `a`; a node with blocks runs when they have run."""
    flow = nx.DiGraph()

    def run(block, entries):
        flow.add_edges_from((entry, block.param_node) for entry in entries)
        last = [block.param_node]
        for node in block.nodes:
            ends = [end for inner in node.blocks for end in run(inner, last)]
            skips = last if node.kind != "prim::If" else []
            flow.add_edges_from((end, node) for end in [*ends, *skips])
            last = [node]
        flow.add_edges_from((end, block.return_node) for end in last)
        return [block.return_node]

    flow.add_node("start")
    run(graph.block, ["start"])
    nodes = list(graph.all_nodes())
    for a in nodes:
        without = flow.copy()
        without.remove_node(a)
        for b in nodes:
            expected = a is not b and not nx.has_path(without, "start", b)
            assert dominates(a, b) == expected, (a.kind, b.kind)


def test_blocks(graph):
    d, e, z = (named(graph, name).node for name in "dez")
    loop = named(graph, "l").node
    assert common_block(d, e) is loop.blocks[0] and common_block(d, z) is graph.block
    assert ancestor_in(d, graph.block) is loop and ancestor_in(z, loop.blocks[0]) is None
    assert [b.owner and b.owner.kind for b in enclosing_blocks(d)] == ["prim::If", "prim::Loop", None]
    with pytest.raises(ValueError, match="different graphs"):
        common_block(d, named(parse(TEXT), "d").node)


def test_captured_values(graph):
    assert [v.name for v in captured_values(named(graph, "l").node)] == ["k", "x", "t"]
    assert names(captured_values(named(graph, "y").node)) == {"p", "x"}
    assert captured_values(named(graph, "z").node) == []


def test_last_uses(graph):
    uses = last_uses(graph)
    assert names(uses[named(graph, "l").node]) == {"n", "k", "x", "t", "a"}
    assert names(uses[named(graph, "y").node]) == {"b", "p"}
    assert names(uses[named(graph, "z").node]) == {"l"} and names(uses[graph.block.return_node]) == {"z"}
    assert last_user(named(graph, "x")) is named(graph, "l").node and last_user(named(graph, "j")) is None
    assert names(uses[named(graph, "j").node]) == {"j"}
    assert sum(map(len, uses.values())) == len(graph._names)


def test_liveness(graph):
    live = live_after(graph)
    assert names(live[named(graph, "a").node]) == {"a", "x", "n", "k", "t"}
    assert names(live[named(graph, "l").node]) == {"l"}
    assert names(live[graph.block.return_node]) == set()
    # in the loop, what the next round needs stays alive
    assert names(live[named(graph, "b").node]) == {"b", "p", "i", "x", "k", "t"}
    assert names(live[named(graph, "d").node]) == {"d", "i", "x", "k", "t"}
    assert names(live[named(graph, "m").node]) == {"m", "t", "x", "k"}


def test_values_live_at_a_use(graph):
    """Whatever a node uses was live after every node before it in its block, from its definition on."""
    live = live_after(graph)
    for node in graph.all_nodes():
        if node.prev is not None:
            assert {v for v in node.inputs if v.node.block is node.block} <= live[node.prev]


def test_loops(graph):
    outer, inner = loops(graph)
    assert (outer.depth, inner.depth, inner.parent) == (1, 2, outer)
    assert outer.node is named(graph, "l").node and outer.body is outer.node.blocks[0]
    assert not outer.has_condition and outer.most_iterations is None
    assert outer.is_invariant(named(graph, "x")) and not outer.is_invariant(named(graph, "p"))
    assert outer.holds(inner.node) and inner.is_invariant(named(graph, "y"))
    while_loop = parse("graph(%c : bool):\n %5 : int = prim::Constant[value=5]()\n = prim::Loop(%5, %c)\n"
                       " block0(%i : int):\n -> (%c)\n return ()")  # fmt: skip
    (found,) = loops(while_loop)
    assert found.has_condition and found.most_iterations == 5


def test_data_flow_as_networkx(graph):
    flow = to_networkx(graph)
    assert flow.number_of_nodes() == 9 + 2 * 5
    assert flow.number_of_edges() == sum(len(n.inputs) for n in flow)
    mul = named(graph, "d").node
    edges = sorted((data["input"], data["value"].name) for _, _, data in flow.in_edges(mul, data=True))
    assert edges == [(0, "p"), (1, "x")]
    assert nx.is_directed_acyclic_graph(flow)
    assert nx.has_path(flow, graph.block.param_node, graph.block.return_node)


def test_control_tree(graph):
    tree = control_tree(graph)
    assert nx.is_arborescence(tree)
    loop = named(graph, "l").node
    assert list(tree.successors(graph.block)) == list(graph.nodes)
    assert list(tree.successors(loop)) == list(loop.blocks)
    assert nx.shortest_path_length(tree, graph.block, named(graph, "d").node) == 5


def test_dot(graph):
    text = to_dot(graph, 'a "name"')
    assert text.startswith('digraph "a \\"name\\"" {') and text.rstrip().endswith("}")
    assert text.count("{") == text.count("}") == 1 + 4
    assert text.count("subgraph cluster_") == 4 and text.count(" -> ") == to_networkx(graph).number_of_edges()
    assert '[label="prim::Constant[value=1]"]' in text and '[label="%x : Tensor"]' in text


def test_dot_is_escaped():
    graph = Graph()
    graph.add_output(graph.insert_constant('a\\ "b"\n'))
    assert r'[label="prim::Constant[value=\"a\\\\ \\\"b\\\"\\n\"]"]' in to_dot(graph)
    assert dot_quote('\\n"') == r'"\\n\""' and dot_quote("a\nb") == r'"a\nb"'


# -- comparing
def test_canonical_text_forgets_names_and_numbers():
    a = parse("graph(%x : int):\n %7 : int = prim::Constant[value=1]()\n %y : int = aten::add(%x, %7)\n return (%y)")
    b = parse(
        "graph(%in.3 : int):\n %o : int = prim::Constant[value=1]()\n %5 : int = aten::add(%in.3, %o)\n return (%5)"
    )
    text = "graph(%0 : int):\n  %1 : int = prim::Constant[value=1]()\n  %2 : int = aten::add(%0, %1)\n  return (%2)\n"
    assert canonical_text(a) == canonical_text(b) == text
    assert str(renumbered(a)) == text.replace("%0", "%x").replace("%2", "%y")
    assert str(a).count("%7") == 2, "the graph itself is left alone"


def test_canonical_text_of_groups():
    text = (
        "graph(%x):\n %f : Future[Tensor] = prim::fork_0(%x)\n return (%f)\n"
        "with prim::fork_0 = graph(%y):\n return (%y)"
    )
    assert canonical_text(parse(text)) == canonical_text(parse(text.replace("%y", "%q").replace("%f", "%g")))
    assert "%y" not in canonical_text(parse(text))


SAME = (
    "graph(%x : Tensor, %c : bool):\n %a = aten::relu(%x)\n %b = aten::sin(%x)\n %y = aten::mul(%a, %b)\n return (%y)"
)


def test_isomorphic_up_to_the_order_of_pure_nodes():
    swapped = SAME.replace("%a = aten::relu(%x)\n %b = aten::sin(%x)", "%b = aten::sin(%x)\n %a = aten::relu(%x)")
    assert isomorphic(parse(SAME), parse(swapped))
    assert not isomorphic(parse(SAME), parse(SAME.replace("mul(%a, %b)", "mul(%b, %a)")))
    assert not isomorphic(parse(SAME), parse(SAME.replace("sin", "cos")))
    assert not isomorphic(parse(SAME), parse(SAME.replace("return (%y)", "return (%a)")))


def test_effects_keep_their_order():
    text = "graph(%a : int, %b : int):\n = prim::Print(%a)\n = prim::Print(%b)\n return ()"
    assert isomorphic(parse(text), parse(text))
    other = text.replace("Print(%a)", "Print(%c)").replace("Print(%b)", "Print(%a)").replace("Print(%c)", "Print(%b)")
    assert not isomorphic(parse(text), parse(other))


def test_isomorphic_looks_at_blocks():
    text = (
        "graph(%c : bool, %x : Tensor):\n %y = prim::If(%c)\n block0():\n {}-> (%x)\n block1():\n {}-> (%x)\n"
        " return (%y)"
    )
    left, right = parse(text.format("= prim::Print(%c)\n", "")), parse(text.format("", "= prim::Print(%c)\n"))
    assert isomorphic(left, left.copy()) and not isomorphic(left, right)


def test_isomorphic_compares_constants_by_value():
    def constant(value):
        graph = Graph()
        graph.add_output(graph.insert_constant(value, T.TENSOR if isinstance(value, torch.Tensor) else None))
        return graph

    assert isomorphic(constant(torch.ones(20)), constant(torch.ones(20)))
    assert not isomorphic(constant(torch.ones(20)), constant(torch.zeros(20)))
    assert not isomorphic(constant(1.0), constant(2.0))


def test_constant_keys():
    values = [1, 1.0, True, "1", 0.0, -0.0, math.nan, 1j, None, (1,), [1], (1.0,), torch.float32, torch.tensor(1),
              torch.tensor(1.0), torch.tensor([1]), {"a": 1}, {"a": 1.0}, torch.device("cpu"), T.INT]  # fmt: skip
    assert len({constant_key(v) for v in values}) == len(values)
    assert constant_key(math.nan) == constant_key(float("nan"))
    assert constant_key(torch.ones(2, 3)) == constant_key(torch.ones(2, 3))
    assert constant_key(torch.ones(2, 2)) != constant_key(torch.ones(2, 2).t().contiguous().t())
