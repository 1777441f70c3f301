"""Is exercise 2 solved?"""

import pytest
from ch1_tree import smooth
from ch3_ssa import compile_graph
from ch4_passes import area, optimize
from ex2_verify import verify
from graphs import Node, Value, all_nodes


def find(graph, kind):
    return next(node for node in all_nodes(graph) if node.kind == kind)


def refused(graph):
    with pytest.raises(ValueError):
        verify(graph)


def test_good_graphs():
    for function in (smooth, area):
        verify(compile_graph(function))
        verify(optimize(compile_graph(function)))


def test_nodes_in_the_wrong_order():
    graph = compile_graph(area)
    graph.nodes.reverse()
    refused(graph)


def test_a_value_that_nobody_defines():
    graph = compile_graph(smooth)
    find(graph, "aten::div").inputs[0] = Value("x", "Tensor")  # the same name, but another value
    refused(graph)
    graph = compile_graph(smooth)
    graph.returns = [Value("y", "Tensor")]
    refused(graph)


def test_a_value_of_a_block_used_outside():
    graph = compile_graph(smooth)
    graph.returns = [find(graph, "aten::mean").outputs[0]]
    refused(graph)
    graph = compile_graph(smooth)
    then, orelse = find(graph, "prim::If").blocks
    orelse.returns = list(then.returns)
    refused(graph)
    graph = compile_graph(smooth)
    graph.nodes.append(Node("aten::neg", [find(graph, "prim::Loop").blocks[0].params[0]], 1))
    refused(graph)


def test_a_value_defined_twice():
    graph = compile_graph(smooth)
    find(graph, "aten::abs").outputs = [graph.params[0]]
    refused(graph)
    graph = compile_graph(area)
    graph.nodes.append(Node("aten::neg", [], 1, None, [graph.nodes[0].outputs[0]]))
    refused(graph)
    graph = compile_graph(smooth)
    find(graph, "prim::Loop").blocks[0].params[0] = graph.params[1]
    refused(graph)
