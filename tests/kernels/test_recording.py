"""Regions that record a gradient: two kernels and one node, held to what autograd does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from gradient_cases import CASES
from gradients import assert_same, gradients_of, graph_of, leaves, outcome, runner, same, tensors_of
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.ir.graph import Graph
from jitlite.kernels import torch_abi
from jitlite.kernels.backend import KernelPart
from jitlite.kernels.recording import RecordingFactory
from jitlite.native.code import NotNative

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def at_once():
    """Kernels are made by the first call, and verified."""
    with options.override(native="now", verify=True):
        yield


# -- every formula

LEFT_TO_PYTHON = set(
    """
    _autocast_to_full_precision _autocast_to_reduced_precision _slow_conv2d_forward acosh adaptive_avg_pool3d addcmul
    asinh batch_norm clamp.Tensor conv1d conv2d conv3d convolution index.Tensor_hacked_twin lgamma
    native_batch_norm pow.Scalar pow.Tensor_Tensor prim::AutogradAdd prim::ConstantChunk to.device
    """.split()
)
"""Operators with a formula that have no kernel, or whose gradients have none."""

_SAMPLES = [(name, number) for name, cases in CASES.items() for number in range(len(cases))]
_ALONE_OR_WITHIN = [
    pytest.param(name, number, within, marks=() if number % 4 == 2 * within else pytest.mark.slow)
    for name, number in _SAMPLES
    for within in (False, True)
]
"""Each sample alone and between products. `make test` takes the first one of an operator alone, the third one between
products, and so on."""


def between_products(graph: Graph, tensors: Sequence[Tensor]) -> Graph:
    """The graph with a product before and after, so that what it takes and gives is memory of its own."""
    found = graph.copy()
    for value, tensor in zip(found.inputs, tensors, strict=True):
        if not tensor.is_floating_point():
            continue
        with found.inserting_before(next(found.nodes)):
            one = found.insert_constant(1)
            made = found.insert("aten::mul", (value, one), (value.type,))
            value.replace_all_uses_with(made.output)
            made.replace_input(0, value)
    for index, value in enumerate(list(found.outputs)):
        with found.inserting_at_end(found.block):
            two = found.insert_constant(2)
            found.block.replace_output(index, found.insert("aten::mul", (value, two), (value.type,)).output)
    return found


def recorded(name: str, number: int, *, within: bool) -> tuple[Function, Function, list[Tensor]] | None:
    """An operator as kernels record it and as autograd does, and its arguments; None where there are no kernels.

    Args:
        name: of the operator.
        number: of the case.
        within: put products in front of it and behind it?
    """
    graph, tensors = graph_of(name, CASES[name][number])
    if within:
        graph = between_products(graph, tensors)
    inputs = leaves(tensors)
    try:
        factory = RecordingFactory(graph, KernelPart, lambda g, _: runner(g))
        made = factory.record(inputs, trial=False).run
    except NotNative:
        return None
    return made, runner(graph), inputs


@pytest.mark.slow
@pytest.mark.parametrize("name, number, within", _ALONE_OR_WITHIN)
def test_gradients_of_operators(name: str, number: int, within: bool) -> None:
    found = recorded(name, number, within=within)
    if found is None:
        return  # Python does it: `test_most_operators_with_a_formula_have_kernels`
    ours, theirs, inputs = found
    results = []
    for run in (ours, theirs):
        given = leaves(inputs)
        for mark, value in zip(inputs, given, strict=True):
            value.requires_grad_(mark.requires_grad)
        results.append(gradients_of(run, given))
    for mine, other in zip(*results, strict=True):
        assert_same(mine, other)


@pytest.mark.slow
def test_most_operators_with_a_formula_have_kernels() -> None:
    """Which have none is said, so that one that loses its kernels is noticed."""
    found = {name for name in CASES if any(recorded(name, i, within=True) for i in range(len(CASES[name])))}
    assert set(CASES) - found == LEFT_TO_PYTHON


# -- programs


def recurrence(x: Tensor, h: Tensor, w: Tensor):
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + h @ w.t())
    return h


def first_steps(x: Tensor, h: Tensor, w: Tensor, steps: int):
    for t in range(steps):
        h = torch.tanh(x[t] @ w.t() + h)
    return h


def stacked(x: Tensor, w: Tensor):
    found = []
    h = x[0]
    for t in range(x.size(0)):
        h = torch.sigmoid(h * w + x[t])
        found.append(h)
    return torch.stack(found), h


def concatenated(x: Tensor, w: Tensor):
    found = []
    for t in range(x.size(0)):
        found.append(torch.exp(x[t] * w))
    return torch.cat(found, 1)


def while_loop(x: Tensor):
    i = 0
    while i < 7:
        x = x * 1.1 + torch.sin(x)
        i += 2
    return x * 2


def nested(x: Tensor, w: Tensor):
    for i in range(3):
        for j in range(2):
            x = torch.tanh(x * w + float(i))
        w = w * 1.5
    return x


def swapped(x: Tensor, y: Tensor):
    for i in range(3):
        x, y = y * 2, torch.sin(x)
    return x, y


def broadcast(x: Tensor, w: Tensor, b: Tensor):
    for i in range(3):
        x = torch.relu(x * w + b)
    return x.sum(0)


def gated(x: Tensor, w: Tensor, b: Tensor):
    a, c = (x @ w + b).chunk(2, 1)
    return torch.sigmoid(a) * torch.tanh(c)


def perceptron(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor):
    return torch.addmm(c, torch.relu(torch.addmm(b, x, w)), v)


def unused(x: Tensor, y: Tensor):
    a = torch.sin(x) * 2
    b = torch.cos(y) * 3
    return a, b


def same_twice(x: Tensor, y: Tensor):
    return (x + y) * 2


def attention(q: Tensor, k: Tensor, v: Tensor):
    return torch.softmax(q @ k.transpose(-2, -1) / 4.0, -1) @ v


def mixed(x: Tensor, n: int, s: float):
    return (x * s + n).tanh() * x.size(0)


def whole_numbers(x: Tensor, y: Tensor):
    a = torch.sin(x) * 2
    return a, (y * 2 + 1).argmax(-1)


def classified(x: Tensor, w: Tensor, y: Tensor):
    return torch.nn.functional.cross_entropy(torch.tanh(x @ w), y, ignore_index=1)


def log_likelihood(x: Tensor, w: Tensor, y: Tensor):
    return torch.nn.functional.nll_loss(torch.log_softmax(x @ w, -1), y, reduction="none") * 2


def regressed(x: Tensor, w: Tensor, y: Tensor):
    nn = torch._C._nn
    z = torch.tanh(x @ w)
    return nn.mse_loss(z, y, 1), nn.smooth_l1_loss(z, y, 2, 0.5), nn.huber_loss(z, y, 1, 0.3), nn.l1_loss(z, y, 0)


def judged(x: Tensor, w: Tensor, y: Tensor):
    return torch.binary_cross_entropy_with_logits(torch.tanh(x @ w) * 3, y, None, None, 1)


def looked_up(table: Tensor, w: Tensor, i: Tensor):
    return torch.tanh(torch.nn.functional.embedding(i, table, 1) @ w)


def chosen(x: Tensor, i: Tensor):
    return torch.tanh(x.index_select(0, i)).gather(1, i.unsqueeze(1)) * 2, x.amax(-1) * 3


def halves(x: Tensor):
    return torch.nn.functional.glu(x * 2), torch.nn.functional.logsigmoid(x).cumsum(1)


def number_read(y: Tensor, x: Tensor, w: Tensor):
    k = y[0, 0].item()
    return (x * k + w).sum()


def r(*size: int) -> Tensor:
    torch.manual_seed(len(size) + sum(size))
    return torch.randn(size, requires_grad=True)


def doubled(x: Tensor) -> Tensor:
    return x.detach().double().requires_grad_()


PROGRAMS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "recurrence": (recurrence, (r(5, 2, 3), r(2, 3), r(3, 3))),
    "recurrence_of_one_row": (recurrence, (r(5, 1, 3), r(1, 3), r(3, 3))),
    "recurrence_of_weights": (recurrence, (r(5, 2, 3).detach(), r(2, 3).detach(), r(3, 3))),
    "recurrence_of_doubles": (recurrence, tuple(map(doubled, (r(4, 2, 3), r(2, 3), r(3, 3))))),
    "first_steps": (first_steps, (r(5, 2, 3), r(2, 3), r(3, 3), 3)),
    "stacked": (stacked, (r(4, 2, 3), r(3))),
    "concatenated": (concatenated, (r(4, 2, 3), r(3))),
    "while": (while_loop, (r(3, 2),)),
    "nested": (nested, (r(3), r(3))),
    "swapped": (swapped, (r(3), r(3))),
    "broadcast": (broadcast, (r(2, 3), r(3), r(2, 1))),
    "gated": (gated, (r(4, 3), r(3, 10), r(10))),
    "gated_nothing": (gated, (r(0, 3), r(3, 10), r(10))),
    "perceptron": (perceptron, (r(4, 3), r(3, 5), r(5), r(5, 2), r(2))),
    "perceptron_of_one_row": (perceptron, (r(1, 3), r(3, 5), r(5), r(5, 2), r(2))),
    "unused": (unused, (r(3), r(3))),
    "same_twice": (same_twice, (r(3), r(3))),
    "same_twice_of_numbers": (same_twice, (r(), r(2, 3))),
    "attention": (attention, (r(2, 5, 4), r(2, 5, 4), r(2, 5, 4))),
    "mixed": (mixed, (r(3, 2), 3, 0.5)),
    "classified": (classified, (r(5, 3), r(3, 4), torch.tensor([0, 3, 1, 2, 1]))),
    "log_likelihood": (log_likelihood, (r(5, 3), r(3, 4), torch.tensor([0, 3, 1, 2, 1]))),
    "regressed": (regressed, (r(5, 3), r(3, 4), r(5, 4))),
    "judged": (judged, (r(5, 3), r(3, 4), torch.rand(5, 4))),
    "looked_up": (looked_up, (r(4, 3), r(3, 2), torch.tensor([[0, 1, 3], [3, 0, 1]]))),
    "chosen": (chosen, (r(4, 5), torch.tensor([0, 3, 3, 1]))),
    "halves": (halves, (r(3, 4),)),
    "whole_numbers": (whole_numbers, (r(3), torch.arange(6).reshape(2, 3))),
}  # fmt: skip


def recordings_of(scripted: Any) -> int:
    return sum(len(state.recordings or ()) for _, state in tensor_regions(scripted.executor))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_programs(name: str) -> None:
    """Results, gradients, and gradients of those."""
    function, arguments = PROGRAMS[name]
    scripted = jitlite.script(function)
    for _ in range(2):
        assert same(outcome(scripted, arguments), outcome(function, arguments))
    assert recordings_of(scripted) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_some_arguments(name: str) -> None:
    """Each tensor of real numbers alone requires a gradient."""
    function, arguments = PROGRAMS[name]
    scripted = jitlite.script(function)
    for chosen, value in enumerate(arguments):
        if isinstance(value, Tensor) and value.is_floating_point():
            given = tuple(
                v.detach().requires_grad_(i == chosen and v.is_floating_point()) if isinstance(v, Tensor) else v
                for i, v in enumerate(arguments)
            )
            assert same(outcome(scripted, given), outcome(function, given)), chosen


def test_an_output_without_a_use_has_no_part_in_gradients() -> None:
    """A gradient that is zero everywhere is None, as autograd has it: optimizers tell the two apart."""
    scripted = jitlite.script(unused)
    x, y = r(3), r(3)
    first, _ = scripted(x, y)
    first.sum().backward()
    assert x.grad is not None and y.grad is None


def test_gradients_in_any_layout() -> None:
    """What `sum` hands back has strides of 0, and a transposed result a gradient in another order."""
    scripted = jitlite.script(gated)
    for weigh in (lambda out: out.sum(), lambda out: (out.t() @ out).sum(), lambda out: out[::2].mean()):
        arguments = PROGRAMS["gated"][1]
        ours = torch.autograd.grad(weigh(scripted(*arguments)), arguments)
        theirs = torch.autograd.grad(weigh(gated(*arguments)), arguments)
        assert same(ours, theirs)
    assert recordings_of(scripted) == 1


# -- what autograd promises


def test_what_is_written_before_the_backward_pass_is_noticed() -> None:
    def f(x: Tensor, w: Tensor):
        return (x * w).tanh() * 2

    scripted = jitlite.script(f)
    x, w = r(3).detach().clone(), r(3)
    out = scripted(x, w)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_what_no_gradient_needs_may_be_written() -> None:
    def f(x: Tensor, w: Tensor):
        return (x + w).tanh() * 2

    scripted = jitlite.script(f)
    x, w = r(3).detach().clone(), r(3)
    expected = torch.autograd.grad(f(x, w).sum(), w)
    out = scripted(x, w)
    x.add_(1)
    assert same(torch.autograd.grad(out.sum(), w), expected)


def test_a_second_backward_pass_needs_the_graph() -> None:
    scripted = jitlite.script(recurrence)
    arguments = PROGRAMS["recurrence"][1]
    out = scripted(*arguments).sum()
    first = torch.autograd.grad(out, arguments, retain_graph=True)
    assert same(torch.autograd.grad(out, arguments), first)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(out, arguments)


def test_what_is_saved_for_hooks_is_what_python_saves() -> None:
    """A checkpoint compares what is saved when a part runs again: by then it may have become hot."""
    seen: list[int] = []
    scripted = jitlite.script(gated)
    arguments = PROGRAMS["gated"][1]
    scripted(*arguments)
    assert recordings_of(scripted) == 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
        ours = scripted(*arguments)
        count, seen[:] = len(seen), []
        theirs = gated(*arguments)
    assert count == len(seen)
    assert same(torch.autograd.grad(ours.sum(), arguments), torch.autograd.grad(theirs.sum(), arguments))
    again = torch.utils.checkpoint.checkpoint(scripted, *arguments, use_reentrant=False)
    assert same(torch.autograd.grad(again.sum(), arguments), torch.autograd.grad(gated(*arguments).sum(), arguments))


@pytest.mark.parametrize("read", [0.5, 3, True], ids=["float", "int", "bool"])
def test_a_number_of_any_type_is_kept_for_the_backward_pass(read: float) -> None:
    """The graph says of such a number only that it is one."""
    scripted, arguments = jitlite.script(number_read), (torch.tensor([[read]]), r(2, 3), r(2, 3))
    for _ in range(2):
        assert same(outcome(scripted, arguments), outcome(number_read, arguments))


def test_a_loop_that_does_not_run() -> None:
    scripted = jitlite.script(recurrence)
    x, h, w = r(0, 2, 3), r(2, 3), r(3, 3)
    scripted(*PROGRAMS["recurrence"][1])
    out = scripted(x, h, w)
    grads = torch.autograd.grad(out.sum(), (x, h, w), allow_unused=True)
    assert grads[0] is None and grads[2] is None and bool((grads[1] == 1).all())


def test_sizes_that_change_in_a_loop_are_left_to_python() -> None:
    def prefixes(x: Tensor):
        y = x[0]
        for t in range(1, x.size(0)):
            y = y + torch.tanh(x[:t]).sum(0) * y
        return y

    def triangle(x: Tensor, w: Tensor):
        for i in range(3):
            for j in range(i + 1, 4):
                x = torch.tanh(x * w + float(i))
        return x

    for function, arguments in ((prefixes, (r(5, 2),)), (triangle, (r(3), r(3)))):
        scripted = jitlite.script(function)
        assert same(outcome(scripted, arguments), outcome(function, arguments))


def test_an_optional_argument_keeps_its_gradient() -> None:
    def f(x: Tensor, b: Tensor | None):
        y = x * 2
        if b is not None:
            y = torch.tanh(y + b)
        return y * 3

    scripted = jitlite.script(f)
    for arguments in ((r(3), r(3)), (r(3), None), (r(3).detach(), r(3))):
        assert same(outcome(scripted, arguments), outcome(f, arguments))


def test_a_constant_keeps_its_gradient() -> None:
    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return (x * self.w).tanh() * 2

    module = Weighted()
    scripted = jitlite.script(module)
    x = r(3)
    for run in (scripted, module):
        run(x).sum().backward()
    assert same((module.w.grad,), (2 * torch.autograd.grad(module(x).sum(), module.w)[0],))


def test_modes_that_watch_see_operators() -> None:
    scripted = jitlite.script(gated)
    arguments = PROGRAMS["gated"][1]
    scripted(*arguments)
    with torch.autocast("cpu", torch.bfloat16):
        assert same(tensors_of(scripted(*arguments)), tensors_of(gated(*arguments)))
    with torch.no_grad():
        assert not scripted(*arguments).requires_grad
    jacobians = torch.func.jacrev(scripted)(*arguments), torch.func.jacrev(gated)(*arguments)
    assert same(*jacobians)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(arguments[0].detach(), torch.ones_like(arguments[0]))
        ours, theirs = scripted(dual, *arguments[1:]), gated(dual, *arguments[1:])
        assert same(
            torch.autograd.forward_ad.unpack_dual(ours).tangent, torch.autograd.forward_ad.unpack_dual(theirs).tangent
        )


def test_threads_record_at_once() -> None:
    scripted = jitlite.script(recurrence)
    arguments = PROGRAMS["recurrence"][1]
    expected = torch.autograd.grad(recurrence(*arguments).sum(), arguments)
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            found = torch.autograd.grad(scripted(*arguments).sum(), arguments)
            wrong.extend([] if same(found, expected) else [found])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_table_that_is_read_both_ways() -> None:
    """Its gradient is a sum of two that lie in memory in different orders."""

    def tied(indices: Tensor, table: Tensor):
        return (torch.nn.functional.embedding(indices, table * 2) @ table.t()).tanh()

    indices, table = torch.tensor([1, 0, 1]), torch.randn(4, 3, requires_grad=True)
    scripted = jitlite.script(tied)
    for _ in range(2):
        (found,) = torch.autograd.grad(scripted(indices, table).sum(), table)
        (expected,) = torch.autograd.grad(tied(indices, table).sum(), table)
        torch.testing.assert_close(found, expected)
    ((_, state),) = tensor_regions(scripted.executor)
    assert len(state.recordings) == 1


def test_a_loop_that_does_not_run_at_first() -> None:
    """Its first call says nothing about later ones."""

    def repeated(x: Tensor, w: Tensor, count: int):
        y = x * 2
        for _ in range(count):
            y = torch.tanh(y * w)
        return y * 3

    scripted = jitlite.script(repeated)
    x, w = torch.randn(2, 3), torch.rand(3, requires_grad=True)
    scripted(x.requires_grad_(), w, 0)
    ((_, state),) = tensor_regions(scripted.executor)
    assert not state.recordings and "may find it different" in "".join(state.recordings.refused.values())
    for count in (2, 0, 3):
        found = torch.autograd.grad(scripted(x, w, count).sum(), (x, w), allow_unused=True)
        expected = torch.autograd.grad(repeated(x, w, count).sum(), (x, w), allow_unused=True)
        assert_same(found, expected)
    assert len(state.recordings) == 1 and not state.recordings.refused
