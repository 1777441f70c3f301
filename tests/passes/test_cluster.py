"""Groups for engines: that they are as few and as large as dependencies allow, and that graphs do what they did."""

from __future__ import annotations

import random
from collections.abc import Iterator

import networkx as nx
import pytest
import torch

from jitlite.analysis.alias import AliasDb
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.regions import ENGINE_GROUP
from jitlite.ir.verify import verify
from jitlite.objects.function import function_of_graph
from jitlite.passes.cluster import cluster, inline_engine_groups, may_cross


def random_graph(numbers: random.Random) -> Graph:
    """Operators on tensors, lists of tensors, ints that count, writes and branches."""
    graph = Graph()
    tensors = [graph.add_input(T.TENSOR, "x"), graph.add_input(T.TENSOR, "y")]
    lists: list[Value] = []
    ints: list[Value] = []
    one = graph.insert_constant(1)

    def grow(steps: int, depth: int) -> None:
        for _ in range(steps):
            choice = numbers.random()
            if choice < 0.15:
                parts = numbers.choices(tensors, k=2)
                lists.append(graph.insert("prim::ListConstruct", parts, [T.ListType.of(T.TENSOR)]).output)
            elif choice < 0.3 and lists:
                tensors.append(graph.insert("aten::stack", [numbers.choice(lists), zero], [T.TENSOR]).output)
                tensors.append(graph.insert("aten::sum", [tensors.pop(), only, no, none], [T.TENSOR]).output)
            elif choice < 0.35:
                ints.append(graph.insert("aten::dim", [numbers.choice(tensors)], [T.INT]).output)
            elif choice < 0.42 and ints:
                tensors.append(
                    graph.insert("aten::add", [numbers.choice(tensors), numbers.choice(ints), one], [T.TENSOR]).output
                )
            elif choice < 0.5:
                target = graph.insert("aten::clone", [numbers.choice(tensors), none], [T.TENSOR]).output
                tensors.append(target)
                graph.insert("aten::add_", [target, numbers.choice(tensors), one], [T.TENSOR])
            elif choice < 0.55 and depth < 2:
                flag = graph.insert(
                    "aten::gt", [graph.insert("aten::dim", [tensors[0]], [T.INT]).output, one], [T.BOOL]
                )
                node = graph.insert("prim::If", [flag.output], [T.TENSOR])
                outside = (list(tensors), list(lists), list(ints))
                for _ in range(2):
                    with graph.inserting_at_end(node.add_block()):
                        grow(numbers.randrange(4), depth + 1)
                        node.blocks[-1].add_output(tensors[-1])
                    tensors[:], lists[:], ints[:] = (list(kept) for kept in outside)
                tensors.append(node.output)
            else:
                kind = numbers.choice(["aten::mul", "aten::maximum", "aten::minimum"])
                tensors.append(graph.insert(kind, numbers.choices(tensors, k=2), [T.TENSOR]).output)

    zero, none, no = graph.insert_constant(0), graph.insert_constant(None), graph.insert_constant(False)
    only = graph.insert_constant([0])
    grow(numbers.randrange(3, 30), 0)
    for value in numbers.sample(tensors, min(3, len(tensors))):
        graph.add_output(value)
    return graph


def tag(graph: Graph) -> dict[str, Node]:
    """Give each node a name that clones keep."""
    named = {}
    for i, node in enumerate(graph.all_nodes()):
        node.scope = f"n{i}"
        named[node.scope] = node
    return named


def grouped_tags(graph: Graph) -> list[set[str]]:
    groups = [node for node in graph.all_nodes() if node.kind == ENGINE_GROUP]
    return [{n.scope for n in g.attributes["Subgraph"].all_nodes() if n.kind != "prim::Constant"} for g in groups]


def order_of(graph: Graph, block_of: Node) -> nx.DiGraph:
    """All that orders the nodes of the block which holds this one, found pair by pair."""
    block, db = block_of.block, AliasDb(graph)
    nodes = list(block.computations)
    order = nx.DiGraph()
    order.add_nodes_from(n.scope for n in nodes)
    for i, first in enumerate(nodes):
        for second in nodes[i + 1 :]:
            if db.must_precede(first, second, errors_may_swap=True):
                order.add_edge(first.scope, second.scope)
    return order


def joinable(graph: Graph, named: dict[str, Node], groups: list[set[str]]) -> Iterator[tuple[set[str], set[str]]]:
    """Pairs of groups that no path through a third connects."""
    of = {name: f"g{i}" for i, group in enumerate(groups) for name in group}
    for i, a in enumerate(groups):
        for j, b in enumerate(groups[:i]):
            first, second = named[min(a)], named[min(b)]
            if first.block is not second.block:
                continue
            order = order_of(graph, first)
            joined = nx.DiGraph((of.get(u, u), of.get(v, v)) for u, v in order.edges if of.get(u, u) != of.get(v, v))
            joined.add_nodes_from((f"g{i}", f"g{j}"))
            joined.remove_edges_from([(f"g{i}", f"g{j}"), (f"g{j}", f"g{i}")])
            if not nx.has_path(joined, f"g{i}", f"g{j}") and not nx.has_path(joined, f"g{j}", f"g{i}"):
                yield a, b


def hold_to_the_laws(seed: int) -> None:
    numbers = random.Random(seed)
    graph = random_graph(numbers)
    verify(graph)
    named = tag(graph)
    denied = {name for name, node in named.items() if numbers.random() < 0.25 or node.blocks}

    def supported(node: Node) -> str | None:
        return "denied" if node.scope in denied else None

    changed, again = graph.copy(), graph.copy()
    cluster(changed, supported, least=1, errors_may_swap=True)
    cluster(again, supported, least=1, errors_may_swap=True)
    verify(changed)
    assert str(changed) == str(again)
    groups = grouped_tags(changed)
    assert not {name for group in groups for name in group} & denied
    for node in changed.all_nodes():
        if node.kind == ENGINE_GROUP:
            assert all(may_cross(v.type) for v in [*node.inputs, *node.outputs])
    assert list(joinable(graph, named, groups)) == []
    inlined = changed.copy()
    inline_engine_groups(inlined)
    verify(inlined)
    x, y = torch.rand(3, generator=torch.Generator().manual_seed(seed)), torch.ones(3)
    expected, *found = (function_of_graph("f", g.copy())(x, y) for g in (graph, changed, inlined))
    for result in found:
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part):
    for seed in range(part * 25, part * 25 + 25):
        hold_to_the_laws(seed)


@pytest.mark.slow
def test_more_random_graphs():
    for seed in range(200, 500):
        hold_to_the_laws(seed)


@pytest.mark.sweep
def test_many_random_graphs():
    for seed in range(1000, 6000):
        hold_to_the_laws(seed)
