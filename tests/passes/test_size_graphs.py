"""Graphs that compute sizes; tests/test_shapes.py compares what they compute with the sizes there are."""

import pytest
import torch
from computed_sizes import hold_computed_sizes
from fact_law import Untrue

import jitlite
from jitlite.analysis.output_sizes import output_sizes
from jitlite.compat import testing
from jitlite.ir import types as T
from jitlite.passes import size_graphs
from jitlite.passes.size_graphs import build_size_graph


def of_ranks(function, *ranks):
    graph = jitlite.script(function).inlined_graph
    for value, rank in zip(graph.inputs, ranks, strict=True):
        if rank is not None:
            value.type = T.TensorType.of(None, [None] * rank)
    return graph


def halves(x: torch.Tensor, y: torch.Tensor, n: int):
    z = torch.cat([x, y])
    return z.view(-1, n), z + x[:1], torch.nn.functional.avg_pool2d(x.unsqueeze(0), 2)


def test_the_arithmetic_is_written_as_a_graph():
    def f(x, y):
        return torch.cat([x, y]) + y

    made = build_size_graph(of_ranks(f, 1, 1))
    assert (
        str(made.graph)
        == """graph(%x.1 : int[],
      %y.1 : int[]):
  %1 : int = prim::Constant[value=0]()
  %2 : int = aten::__getitem__(%x.1, %1)
  %4 : int = aten::__getitem__(%y.1, %1)
  %5 : int = aten::add(%2, %4)
  %6 : int = prim::Constant[value=1]()
  %7 : bool = aten::eq(%4, %6)
  %8 : int = prim::If(%7)
    block0():
      -> (%5)
    block1():
      -> (%4)
  return (%2, %4, %5, %8)
"""
    )
    assert list(made.symbols.values()) == [1, 2, 3, 4] and made.parameters == [0, 1]


@pytest.mark.parametrize("sizes", [((4, 6), (2, 6), 3), ((2, 2), (0, 2), 4), ((8, 4), (1, 4), 9)])
def test_the_sizes_are_those_of_a_run(sizes):
    *shapes, n = sizes
    graph = of_ranks(halves, 2, 2, None)
    assert hold_computed_sizes(graph, [*(torch.ones(s) for s in shapes), n]) > 20


def test_a_wrong_formula_is_found(monkeypatch):
    def f(x, y):
        return x + y

    graph = of_ranks(f, 1, 1)
    assert hold_computed_sizes(graph, [torch.ones(1), torch.ones(3)]) > 3
    monkeypatch.setattr(size_graphs._Builder, "_broadcast", lambda self, a, b: self._node("aten::sub", a, b))
    with pytest.raises(Untrue):
        hold_computed_sizes(graph, [torch.ones(1), torch.ones(3)])


def test_what_depends_on_elements_is_no_result():
    def f(x: torch.Tensor, n: int):
        for i in range(n):
            x = torch.cat([x, x])
        return x.nonzero(), x + 1

    made = build_size_graph(of_ranks(f, 1, None))
    assert list(made.symbols.values()) == [1] and made.parameters == [0, 1]


def test_under_the_names_of_torch():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.MaxPool2d(2))

        def forward(self, x):
            return self.layers(x)

    names = testing.TORCH_NAMES
    model = Model().eval()
    frozen = names["torch.jit.freeze"](names["torch.jit.script"](model))
    given = list(frozen.graph.inputs())[1]
    given.setType(given.type().with_sizes([None] * 4))
    mapping = names["torch._C._jit_pass_propagate_shapes_on_graph_and_build_compute"](frozen.graph)
    graph = mapping.partial_eval_shape_graph()
    symbols = mapping.graph_output_to_symbolic_shape_dim()
    order = [symbols[v] for v in graph.outputs()]
    graph.makeMultiOutputIntoTuple()
    computed = dict(zip(order, testing.create_function_from_graph("sizes", graph.inner)([2, 3, 9, 11]), strict=True))
    output = next(frozen.graph.outputs()).type().symbolic_sizes()
    assert [computed.get(s, s) for s in output] == list(model(torch.ones(2, 3, 9, 11)).shape)


def test_sizes_of_one_operator():
    assert output_sizes("aten::conv2d", [1, 16, 5, 10], [33, 16, 3, 3], None, [2, 2]) == [1, 33, 2, 4]
    assert output_sizes("aten::cat", [[2, 3], [5, 3]], dim=0) == [7, 3]
    assert output_sizes("aten::max_pool2d_with_indices", [1, 2, 8, 8], [2, 2]) == ([1, 2, 4, 4], [1, 2, 4, 4])
    assert testing.TORCH_NAMES["torch.jit._shapes.matmul"]([10, 20], [20, 10]) == [10, 10]
    for arguments in ([[1]], [[2, 3], [4, 5]], [[2, 3], [3, 5], 1, 1]):
        with pytest.raises(ValueError, match="not known"):
            output_sizes("aten::mm", *arguments)
