"""Graphs and the gradients of what they compute: run by autograd, and run as one node of autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from gradient_cases import Case

from jitlite.interpreter import bytecode, vm
from jitlite.interpreter.autograd import differentiable, differentiable_on_demand
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.ops import lookup
from jitlite.ir.regions import Implementation, regions_in
from jitlite.ir.schema import Argument
from jitlite.ir.verify import verify
from jitlite.operators.gradient import Gradient
from jitlite.passes.autodiff import differentiate, requiring
from jitlite.passes.create_autodiff import create_autodiff_subgraphs
from jitlite.passes.specialize_autogradzero import usual_gradients

Run = Callable[..., Any]


def runner(graph: Graph) -> Run:
    """The graph as a function; its groups are recorded as one node each."""
    regions = [Implementation(as_one_node_on_demand(region.graph())) for region in regions_in(graph.block)]
    code = bytecode.lower(graph, regions=regions)
    return lambda *arguments: vm.run(code, arguments)


def as_one_node(graph: Graph) -> Run:
    """The graph as a function that autograd records as one node."""
    gradient = checked(differentiate(graph))
    usual = usual_gradients(gradient)
    verify(usual)
    return differentiable(runner(gradient.f), runner(gradient.df), gradient, runner(graph), runner(usual))


def as_one_node_on_demand(graph: Graph) -> Run:
    """The same, made for the inputs that require a gradient when it is called."""
    return differentiable_on_demand(lambda needs: as_one_node(requiring(graph, needs)), runner(graph), graph)


def checked(gradient: Gradient) -> Gradient:
    """The gradient, whose graphs are well-formed and take what they say."""
    verify(gradient.f)
    verify(gradient.df)
    taken = (gradient.df_input_vjps, gradient.df_input_captured_inputs, gradient.df_input_captured_outputs)
    assert len(gradient.df.inputs) == sum(map(len, taken))
    assert len(gradient.df.outputs[0].type.contained) == len(gradient.df_output_vjps)
    assert len(gradient.f_output_sources) == len(gradient.f.outputs)
    return gradient


_TYPED = ("aten::type_as", "aten::to", "aten::cross_entropy_loss", "aten::nll_loss_nd", "prim::TensorItem")
"""Operators that are differentiated if the dtypes and ranks of their arguments are known only."""


def graph_of(name: str, case: Case) -> tuple[Graph, list[torch.Tensor]]:
    """A graph of one node, and its inputs: the tensors among the arguments."""
    kind, _, overload = (name if "::" in name else f"aten::{name}").partition(".")
    op = next(op for op in lookup(kind) if op.schema.overload == overload)
    graph, tensors = Graph(), []

    def given(value: Any, type: T.Type | None) -> Value:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return graph.add_input(T.TensorType.of(value.dtype, [None] * value.dim()) if kind in _TYPED else T.TENSOR)
        if isinstance(value, list) and any(isinstance(v, torch.Tensor) for v in value):
            elements = [given(v, None) for v in value]
            wanted = type if isinstance(type, T.ListType) else T.ListType.of(T.TENSOR)
            return graph.insert("prim::ListConstruct", elements, (wanted,)).output
        return graph.insert_constant(value, type if value == [] else None)

    if kind == "prim::ConstantChunk":
        node = graph.insert(kind, [given(case[0], None)], [T.TENSOR] * case[1], {"chunks": case[1], "dim": case[2]})
    elif kind == "prim::TensorItem":
        node = graph.insert(kind, [given(v, None) for v in case[1:]], [T.TENSOR], {"index": case[0]})
    else:
        filled = [*case, *map(_default, op.schema.arguments[len(case) :])]
        values = [given(v, a.type) for v, a in zip(filled, op.schema.arguments, strict=True)]
        node = graph.insert(kind, values, [r.type if r.type is not T.ANY else T.TENSOR for r in op.schema.returns])
        node.set_op(op)
    if isinstance(node.outputs[0].type, T.ListType):
        count = len(op.fn(*filled))
        node = graph.insert("prim::ListUnpack", node.outputs, [T.TENSOR] * count)
    for output in node.outputs:
        graph.add_output(output)
    verify(graph)
    return graph, tensors


def _default(argument: Argument) -> Any:
    default = argument.default
    return [default] * argument.size if argument.size and isinstance(default, int | float) else default


def leaves(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of the tensors; real ones require a gradient, unless they are marked."""
    copies = [t.detach().clone(memory_format=torch.preserve_format) for t in tensors]
    return [
        copy.requires_grad_(t.is_floating_point() and not hasattr(t, "is_fixed"))
        for copy, t in zip(copies, tensors, strict=True)
    ]


def tensors_of(result: Any) -> list[torch.Tensor]:
    """The tensors of a result."""
    return list(result) if isinstance(result, tuple) else [result]


def gradients_of(run: Run, tensors: Sequence[torch.Tensor], **options: Any) -> tuple[list[Any], list[Any]]:
    """The results of `run`, and the gradients of some weighted sum of them for the tensors that require one."""
    results = tensors_of(run(*tensors))
    targets = [r for r in results if r.requires_grad]
    wanted = [t for t in tensors if t.requires_grad]
    if not targets or not wanted:
        return results, []
    weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).reshape(r.shape) for r in targets]
    return results, list(torch.autograd.grad(targets, wanted, weights, allow_unused=True, **options))


def assert_same(ours: Sequence[torch.Tensor | None], theirs: Sequence[torch.Tensor | None]) -> None:
    """Equal up to rounding, of the same dtype and shape, and not there in the same places."""
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None), (ours, theirs)
        if mine is not None:
            torch.testing.assert_close(mine, other, equal_nan=True)
            assert mine.requires_grad == other.requires_grad


def with_groups(graph: Graph, **options: Any) -> tuple[Graph, int]:
    """A copy of the graph with groups that `runner` has autograd record as one node each, and how many."""
    grouped = graph.copy()
    nodes = create_autodiff_subgraphs(grouped, **options)
    verify(grouped)
    return grouped, len(nodes)


def outcome(run: Run, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """What comes of a call and of the backward pass: results, gradients, and gradients of those; or the exception."""
    given = [
        a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in arguments
    ]
    try:
        results = tensors_of(run(*given))
    except Exception as error:
        return (type(error).__name__,)
    wanted = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad]
    shown = [(r.detach().clone(), r.requires_grad, any(r is a for a in given), r.dtype) for r in results]
    targets = [r for r in dict.fromkeys(results) if r.requires_grad]
    if not targets or not wanted:
        return shown, None, None
    weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).reshape(r.shape) for r in targets]
    try:
        first = torch.autograd.grad(targets, wanted, weights, allow_unused=True, create_graph=True)
    except RuntimeError as error:
        return shown, str(error).partition(":")[0], None
    total = sum(g.double().sin().sum() for g in first if g is not None and g.requires_grad)
    if not isinstance(total, torch.Tensor):
        return shown, first, None
    try:
        return shown, first, torch.autograd.grad(total, wanted, allow_unused=True)
    except RuntimeError as error:
        return shown, first, str(error).partition(":")[0]


def same(first: object, second: object, tolerance: float = 1e-4) -> bool:
    """Equal up to rounding, for some of it is in float32; a gradient of zeros may be there or not."""
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(same(a, b, tolerance) for a, b in zip(first, second, strict=True))
    if not isinstance(first, torch.Tensor) and not isinstance(second, torch.Tensor):
        return first == second
    if first is None or second is None:
        there = second if first is None else first
        return isinstance(there, torch.Tensor) and not there.any()
    close = first.dtype is second.dtype and first.shape == second.shape
    return close and torch.allclose(first, second, equal_nan=True, rtol=tolerance, atol=tolerance / 10)
