"""Traced functions and modules: they do with other inputs what the Python functions do."""

from __future__ import annotations

import copy
import importlib
import io
import math
import re
import sys
import threading
import types
import warnings
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jitlite
from jitlite.api.trace import trace_graph
from jitlite.base import torch_internals
from jitlite.export.to_python import python_spelling
from jitlite.frontend.emit import builtin_names
from jitlite.frontend.tracing import traced_functions

MODELS = Path(__file__).parents[2] / "examples" / "models"
sys.path.insert(0, str(MODELS))

Pair = namedtuple("Pair", "a b")


def kinds(traced):
    return [node.kind for node in traced.__jitlite_function__.graph.nodes]


def text(traced):
    return traced.__jitlite_function__.graph.to_text(ranges=False)


def traced_quietly(function, *examples, **options):
    """A trace that warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return jitlite.trace(function, examples, **options)


def clones(values):
    return [v.clone() if isinstance(v, torch.Tensor) else copy.deepcopy(v) for v in values]


def same(traced, function, *inputs):
    """Do both give the same, and leave the same in their arguments?"""
    ours, theirs = clones(inputs), clones(inputs)
    found, wanted = traced(*ours), function(*theirs)
    torch.testing.assert_close([found, ours], [wanted, theirs], equal_nan=True)


# -- functions: (function, shapes of the example, shapes of other inputs)


def in_place(x):
    y = x * 2
    y.add_(x)
    y[0] = 7.0
    y[:, 1:].mul_(3)
    return y


def views(x):
    rows = x.view(-1)
    rows += 1
    return x, rows[::2]


def sizes(x):
    n, m = x.shape
    return x.reshape(m, n), torch.zeros(n * 2, m + 1), x.new_ones(x.numel()), torch.arange(x.size(0) - 1)


def slices(x):
    return x[:3], x[1 : x.size(0)], x[..., : x.shape[-1] // 2], x[x.size(0) - 1], x[None, :, 0], x[:, -2:]


def put(x):
    y = x.clone()
    y[: x.size(0) - 1] = 0
    y[x.size(0) - 1, 0:2] = x[0, 0:2] * 2
    y[y > 1] = 1
    return y


def index(x):
    return x[torch.arange(x.size(0))], x[[0, 1]], x[x > 0], x[torch.tensor(1)]


def constants(x):
    return x + torch.tensor([1.0, 2.0, 3.0]), torch.ones(3) * 2, torch.tensor(4)


def changed_constant(x):
    total = torch.tensor([0.0])
    total += x.sum()
    return total


def numbers(x):
    n = x.shape[0]
    return x * n, x / (n / 2), x.sum() + n**2, torch.full((n,), float(n)) if False else x - -n, x + math.pi


def dims(x):
    last = x.dim() - 1
    return x.sum(last), x.sum(x.size(0) * 0), F.softmax(x, -1), torch.cat([x, x], 0).size(0) * x


def lists(x):
    a, b = x.split([1, x.size(0) - 1])
    return torch.stack([a[0], b[0]]), torch.cat(x[:2].unbind(0)), max([x.mean(), x.mean() + 1], key=lambda _: 0)


def library(x):
    y = F.interpolate(x[None, None], scale_factor=2.0, mode="nearest")
    z = F.interpolate(x[None], scale_factor=2.0, mode="linear", recompute_scale_factor=True)
    return y, z, F.layer_norm(x, x.shape[1:]), F.pad(x, (1, 1)), torch.einsum("ij,kj->ik", x, x), F.gelu(x).norm()


def same_object(x):
    y = x.contiguous()
    z = x.float()
    y = y + 1
    z = z * 2
    return y, z


def dtypes(x):
    return x.to(torch.float64), x.int() // 2, x.bool(), x.type(torch.int64), x.half().float(), (x > 0) & (x < 1)


def unused(x):
    x.sin()
    x.view(-1)
    return x.cos()


def out_argument(x):
    result = torch.empty(3)
    torch.add(x[0], x[1], out=result)
    return result


def no_result(x):
    x.zero_()


FUNCTIONS = [in_place, views, sizes, slices, put, index, constants, changed_constant, numbers, dims, lists, library,
             same_object, dtypes, unused, out_argument, no_result]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(function):
    traced = traced_quietly(function, torch.randn(5, 3), check_trace=False)
    for rows in (5, 7, 4):
        same(traced, function, torch.randn(rows, 3))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_checks_of_good_traces_say_nothing(function):
    traced_quietly(function, torch.randn(5, 3), check_inputs=[torch.randn(5, 3)])


def test_contiguous_input_does_not_stand_for_others():
    def function(x):
        y = x.contiguous()
        y.add_(1)
        return x

    traced = traced_quietly(function, torch.ones(2, 3), check_trace=False)
    same(traced, function, torch.ones(3, 2).t())


def test_constants_are_new_in_each_run():
    traced = traced_quietly(changed_constant, torch.ones(2), check_trace=False)
    assert [traced(torch.ones(2)).item() for _ in range(3)] == [2.0, 2.0, 2.0]
    made = traced_quietly(lambda x: torch.tensor([1.0]), torch.ones(1))
    assert made(torch.ones(1)) is not made(torch.ones(1))


def test_outside_tensors_are_shared():
    counter = torch.zeros(1)

    def count(x):
        counter.add_(1)
        return x + counter

    traced = traced_quietly(count, torch.zeros(1), check_trace=False)
    traced(torch.zeros(1))
    assert counter.item() == 2.0


def test_gradients():
    def function(x, y):
        with torch.enable_grad():
            return (x.detach() * y + x[0] * y.data).sum()

    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    traced = traced_quietly(function, x, y)
    for inputs in ((x, y), (torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True))):
        found = torch.autograd.grad(traced(*inputs), inputs)
        wanted = torch.autograd.grad(function(*inputs), inputs)
        torch.testing.assert_close(found, wanted)


def test_a_tensor_given_twice():
    x = torch.randn(2)
    traced = traced_quietly(lambda a, b: a - 2 * b, x, x)
    same(traced, lambda a, b: a - 2 * b, torch.randn(2), torch.randn(2))


def test_structures():
    def function(pair, listed, named):
        a, (b, c) = pair
        return Pair(a + listed[0], b * listed[1]), (c, [named["x"], named["y"]]), {"n": named["x"] * a.size(0)}

    def inputs(n):
        return (torch.randn(n), (torch.randn(n), torch.randn(n))), [torch.randn(n), torch.randn(n)], {
            "x": torch.randn(n), "y": torch.randn(n),
        }  # fmt: skip

    traced = jitlite.trace(function, inputs(2), strict=False)
    same(traced, function, *inputs(3))
    assert type(traced(*inputs(3))[0]) is Pair
    assert [a.name for a in traced.schema.arguments] == ["pair", "listed", "named"]


def test_numbers_as_inputs():
    def function(x, n, f):
        return x.repeat(n) * f, n + 1

    traced = traced_quietly(function, torch.ones(2), 3, 0.5)
    same(traced, function, torch.ones(4), 2, 1.5)


def test_keyword_inputs():
    traced = jitlite.trace(lambda x, y: x - y, example_kwarg_inputs={"y": torch.ones(1), "x": torch.zeros(1)})
    assert traced(torch.ones(1), torch.zeros(1)).item() == 1.0
    with pytest.raises(NameError, match="'z' is not in forward"):
        jitlite.trace(nn.ReLU(), example_kwarg_inputs={"z": torch.ones(1)})


def test_an_int_tensor_as_argument():
    def function(x, k):
        return x.topk(k)[0], x.view(k, -1)

    traced = traced_quietly(function, torch.randn(4), torch.tensor(2))
    same(traced, function, torch.randn(6), torch.tensor(3))


def test_an_argument_that_is_a_literal_stays_one():
    def function(x, k):
        n = int(k)  # noqa: F841 (warns)
        return x.topk(2)[0]

    with pytest.warns(jitlite.TracerWarning, match="a Python integer"):
        traced = jitlite.trace(function, (torch.randn(4), torch.tensor(2)), check_trace=False)
    same(traced, function, torch.randn(6), torch.tensor(3))


def test_randomness():
    def function(x):
        return F.dropout(x, 0.5) + torch.rand(x.size(0)) + torch.randn_like(x)

    traced = traced_quietly(function, torch.ones(8), check_trace=False)
    torch.manual_seed(3)
    wanted = function(torch.ones(9))
    torch.manual_seed(3)
    torch.testing.assert_close(traced(torch.ones(9)), wanted)


def test_backward_inside():
    def function(x):
        y = x.detach().requires_grad_()
        with torch.enable_grad():
            loss = (y * y * y).sum()
        return torch.autograd.grad(loss, y)[0]

    traced = traced_quietly(function, torch.ones(3), check_trace=False)
    same(traced, function, torch.randn(3))


def test_grad_mode_is_followed():
    weight = nn.Parameter(torch.ones(2))

    class Moving(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            with torch.no_grad():
                self.weight.mul_(2)
                scale = x * 2
            return x * scale * self.weight

    traced = traced_quietly(Moving(), torch.ones(2), check_trace=False)
    x = torch.ones(2, requires_grad=True)
    traced(x).sum().backward()
    assert weight.tolist() == [4.0, 4.0]
    assert x.grad.tolist() == [8.0, 8.0]
    with pytest.raises(RuntimeError):
        traced(torch.ones(3))
    assert torch.is_grad_enabled()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor, x + 1

    @staticmethod
    def backward(ctx, first, second):
        return first * 10, None


def test_autograd_functions_keep_their_backward():
    def function(x):
        first, second = Doubled.apply(x, 2)
        return first + second.detach()

    traced = traced_quietly(function, torch.ones(2), check_trace=False)
    x = torch.ones(3, requires_grad=True)
    result = traced(x)
    result.sum().backward()
    assert result.tolist() == [4.0] * 3
    assert x.grad.tolist() == [10.0] * 3


def test_autocast_is_recorded():
    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x
            with torch.autocast("cpu", enabled=False), torch.no_grad():
                z = x @ x
        return y, z, x @ x

    traced = jitlite.trace(function, torch.ones(2, 2))
    results = traced(torch.ones(2, 2, requires_grad=True))
    assert [r.dtype for r in results] == [torch.bfloat16, torch.float32, torch.float32]
    assert [r.requires_grad for r in results] == [True, False, True]


def test_autocast_of_the_caller_is_the_callers():
    traced = jitlite.trace(lambda x: x @ x, torch.ones(2, 2))
    with torch.autocast("cpu", torch.bfloat16):
        assert traced(torch.ones(2, 2)).dtype is torch.bfloat16
    assert traced(torch.ones(2, 2)).dtype is torch.float32


def test_ranges_are_the_users_lines():
    def function(x):
        y = F.softmax(x, 0)
        return y + 1

    node = next(n for n in jitlite.trace(function, torch.ones(2)).graph.nodes if n.kind == "aten::softmax")
    assert node.range.filename == __file__
    assert node.range.text == "y = F.softmax(x, 0)"


# -- warnings and errors


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "a Python boolean"),
        (lambda x: x * int(x[0]), "a Python integer"),
        (lambda x: x * float(x[0]), "a Python float"),
        (lambda x: x * x[0].item(), "a Python number"),
        (lambda x: x * x.tolist()[0], "a Python list"),
        (lambda x: x * x.numpy()[0], "a NumPy array"),
        (lambda x: x * len(x), "Using len"),
        (lambda x: sum(part for part in x), "Iterating over a tensor"),
        (lambda x: x if x.shape[0] > 1 else -x, "a Python boolean"),
        (lambda x: x * [1, 2, 3][x.shape[0]], "a Python index"),
        (lambda x: x * torch.LongTensor([x.shape[0]]), "registered as constants"),
        (lambda x: [x], "a list at the output"),
    ],
)
def test_warnings(function, message):
    with pytest.warns(jitlite.TracerWarning, match=message) as caught:
        jitlite.trace(function, torch.ones(2), check_trace=False)
    assert len({str(w.message) for w in caught if w.category is jitlite.TracerWarning}) == 1
    if "output" not in message:
        assert {w.filename for w in caught} == {__file__}


def test_code_in_torch_is_not_warned_of():
    traced_quietly(nn.BatchNorm1d(3), torch.randn(4, 3), check_trace=False)
    traced_quietly(nn.MultiheadAttention(4, 2), *[torch.randn(3, 2, 4)] * 3, check_trace=False)


@pytest.mark.parametrize(
    ("function", "examples", "message"),
    [
        (lambda x: {"a": x}, (torch.ones(1),), "Encountering a dict at the output"),
        (lambda x: (x, 1), (torch.ones(1),), "Only tensors, lists, tuples of tensors"),
        (lambda x: x, ("a",), re.escape("Type 'str' cannot be traced")),
        (lambda x: x, ([],), "List trace inputs must have elements"),
        (lambda x: x, ([torch.ones(1), (torch.ones(1),)],), "consistent"),
    ],
)
def test_errors(function, examples, message):
    with pytest.raises(RuntimeError, match=message):
        jitlite.trace(function, examples)


def test_constants_that_require_grad():
    weight = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        jitlite.trace(lambda x: x * weight, torch.ones(1))


def test_what_the_function_raises():
    with pytest.raises(ZeroDivisionError):
        jitlite.trace(lambda x: x * (1 / 0), torch.ones(1))
    assert torch._C._get_tracing_state() is None
    assert "shape" not in vars(torch.Tensor)


# -- checks


def test_check_finds_changing_graphs():
    calls = []

    def function(x):
        calls.append(1)
        return x + 1 if len(calls) == 1 else x * 2

    with pytest.raises(jitlite.TracingCheckError, match="Graphs differed across invocations"):
        jitlite.trace(function, torch.ones(3))


def test_check_finds_changing_constants():
    calls = []

    def function(x):
        calls.append(1)
        return x + torch.tensor(float(len(calls)))

    with pytest.raises(jitlite.TracingCheckError, match="Tensor-valued Constant nodes differed"):
        with pytest.warns(jitlite.TracerWarning):
            jitlite.trace(function, torch.ones(3))


def test_check_finds_randomness():
    with pytest.warns(jitlite.TracerWarning) as caught:
        jitlite.trace(lambda x: F.dropout(x, 0.5), torch.ones(100))
    messages = [str(w.message) for w in caught]
    assert any("nondeterministic nodes" in m for m in messages)
    assert any("does not match the corresponding output of the Python function" in m for m in messages)


def test_check_inputs():
    def function(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(jitlite.TracingCheckError):
        with pytest.warns(jitlite.TracerWarning):
            jitlite.trace(function, torch.ones(2), check_inputs=[(-torch.ones(2),)])


# -- modules


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.register_buffer("count", torch.zeros(1))
        self.plain = torch.ones(3)
        self.missing = None

    def forward(self, x, y=None):
        self.count += 1
        return x * self.weight + self.plain

    def shifted(self, x):
        return x + self.weight.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4))
        self.tied = self.body[0]
        self.nothing = None

    def forward(self, x):
        return self.body(self.scale(self.scale(x))) + self.tied(x)


def test_modules():
    net = Net()
    eager = copy.deepcopy(net)
    traced = traced_quietly(net, torch.randn(5, 3), check_trace=False)
    eager(torch.randn(5, 3))  # statistics as the trace has left them
    eager.load_state_dict(net.state_dict())
    for rows in (5, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(traced(x), eager(x))
        torch.testing.assert_close(dict(traced.state_dict()), dict(eager.state_dict()))
    assert traced.scale.weight is net.scale.weight
    assert list(traced.state_dict()) == list(net.state_dict())
    assert isinstance(traced, jitlite.TopLevelTracedModule)
    assert "prim::GetAttr" in kinds(traced.forward)
    assert not hasattr(traced, "nothing")
    with pytest.raises(RuntimeError, match="Trace submodules cannot be called"):
        traced.scale(torch.ones(3))


def test_modules_learn():
    net = nn.Linear(3, 1)
    traced = jitlite.trace(net, torch.randn(2, 3))
    traced(torch.randn(4, 3)).sum().backward()
    assert net.weight.grad is not None


def test_training_mode_is_fixed():
    net = nn.Sequential(nn.Dropout(0.5)).eval()
    traced = jitlite.trace(net, torch.ones(4))
    traced.train()
    assert traced(torch.ones(4)).equal(torch.ones(4))


def test_several_methods():
    scale = Scale()
    traced = jitlite.trace_module(scale, {"forward": torch.ones(3), "shifted": torch.ones(2)})
    same(traced.shifted, scale.shifted, torch.randn(5))
    assert traced(torch.ones(3)).shape == (3,)


def test_hooks_are_recorded():
    net = nn.Linear(2, 2)
    net.register_forward_hook(lambda module, args, result: result + 1)
    net.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    traced = jitlite.trace(net, torch.ones(1, 2))
    same(traced, net, torch.randn(3, 2))
    net.register_full_backward_hook(lambda *args: None)
    with pytest.raises(ValueError, match="backward hooks"):
        jitlite.trace(net, torch.ones(1, 2))


def test_a_parameter_as_input():
    scale = Scale()
    traced = jitlite.trace(scale, scale.weight, check_trace=False)
    same(traced, scale, torch.randn(3))


def test_copies_of_traced_modules():
    traced = jitlite.trace(nn.Linear(2, 2), torch.ones(1, 2))
    copied = copy.deepcopy(traced)
    with torch.no_grad():
        copied.weight.zero_()
    assert not traced.weight.eq(0).any()
    assert copied(torch.ones(1, 2)).equal(copied.bias[None])


def test_bound_methods():
    scale = Scale()
    assert isinstance(jitlite.trace(scale.forward, torch.ones(3)), jitlite.TopLevelTracedModule)
    with pytest.raises(AttributeError, match="trace_module"):
        jitlite.trace(scale.shifted, torch.ones(3))
    with pytest.raises(AttributeError, match="expected torch.nn.Module"):
        jitlite.trace_module(torch.relu, {"forward": torch.ones(1)})


@pytest.mark.parametrize("name", ["resnet", "mobilenet", "transformer"])
def test_example_models(name):
    example = importlib.import_module(name)
    model = example.build().eval()
    batches = example.batches(2)
    first, second = (b if name == "transformer" else b[:1] for b in batches)
    traced = jitlite.trace(model, tuple(first), check_trace=False)
    with torch.no_grad():
        torch.testing.assert_close(traced(*second), model(*second))


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.LSTM(3, 4, num_layers=2, bidirectional=True), (5, 2, 3)),
        (nn.GRU(3, 4, batch_first=True), (5, 2, 3)),
        (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (5, 2, 8)),
        (nn.Embedding(7, 3), None),
        (nn.Conv2d(3, 4, 3, padding="same"), (2, 3, 8, 8)),
    ],
)
def test_modules_of_torch(module, shape):
    def example(n):
        return torch.randint(0, 7, (n,)) if shape is None else torch.randn(*(s + n if i < 2 and len(shape) == 3 else s
                                                                           for i, s in enumerate(shape)))  # fmt: skip

    traced = jitlite.trace(module.eval(), example(0), check_trace=False)
    for n in (0, 2):
        same(traced, module, example(n))


# -- scripts in traces, and traces in scripts


@jitlite.script
def absolute(x: torch.Tensor, n: int = 1):
    if bool(x.sum() > 0):
        return x * n
    return -x


def test_scripts_are_called():
    traced = traced_quietly(lambda x: absolute(x, x.size(0)) + 1, torch.ones(2))
    assert "prim::CallFunction" in kinds(traced)
    same(traced, lambda x: absolute(x, x.size(0)) + 1, -torch.ones(3))
    same(traced, lambda x: absolute(x, x.size(0)) + 1, torch.ones(3))


def test_script_modules_are_called():
    class Decides(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.ones(1))

        def forward(self, x):
            if bool(x.sum() > 0):
                return x + self.bias
            return [x, x][0]

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = jitlite.script(Decides())

        def forward(self, x):
            return self.inner(x) * 2

    outer = Outer()
    traced = traced_quietly(outer, torch.ones(2))
    same(traced, outer, -torch.ones(2))
    same(traced, outer, torch.ones(2))


def test_script_if_tracing():
    @jitlite.script_if_tracing
    def count(x):
        for i in range(x.size(0)):
            x = x + i
        return x

    traced = traced_quietly(count, torch.ones(2))
    same(traced, count, torch.ones(5))


TRACED = jitlite.trace(lambda x: x * x.size(0), torch.ones(2))


@jitlite.script
def calls_traced(x: torch.Tensor):
    return TRACED(x) + 1


def test_traces_are_called_by_scripts():
    assert calls_traced(torch.ones(3)).tolist() == [4.0, 4.0, 4.0]


# -- the state of the process


def test_is_tracing():
    seen = []

    def function(x):
        seen.append((jitlite.is_tracing(), bool(torch._C._get_tracing_state()), torch._C._is_tracing()))
        worker = threading.Thread(target=lambda: seen.append((torch._C._get_tracing_state(), type(x.shape[0]))))
        worker.start()
        worker.join()
        return x + 1

    traced = jitlite.trace(function, torch.ones(1), check_trace=False)
    assert seen == [(True, True, True), (None, int)]
    assert not jitlite.is_tracing()
    traced(torch.ones(1))
    assert len(seen) == 2


def test_traces_within_traces():
    def function(x):
        inner = jitlite.trace(lambda y: y * y.size(0), torch.ones(2), check_trace=False)
        return inner(x) + 1

    traced = traced_quietly(function, torch.ones(3), check_trace=False)
    same(traced, function, torch.ones(4))


def test_out_of_place():
    def function(x):
        y = x + 1
        y.mul_(2)
        y.zero_()
        return y.fill_(3).clamp_(max=x.size(0))

    traced = jitlite.trace(function, torch.ones(2), _force_outplace=True)
    assert not any(kind.endswith("_") for kind in kinds(traced))
    same(traced, function, torch.ones(2))
    with pytest.warns(jitlite.TracerWarning, match="live references"):
        jitlite.trace(lambda x: x.view(-1).add_(1), torch.ones(2, 2), _force_outplace=True, check_trace=False)


def test_trace_graph():
    linear = nn.Linear(2, 2)
    graph, result = trace_graph(linear, torch.ones(1, 2))
    assert len(graph.inputs) == 3
    assert result.equal(linear(torch.ones(1, 2)))


def test_traced_functions_as_objects():
    traced = jitlite.trace(lambda x: x + 1, torch.ones(1))
    assert "aten::add" in traced.code
    assert set(traced.stages) == {"graph", "optimized", "bytecode"}
    assert jitlite.trace(jitlite.script(nn.ReLU()), torch.ones(1)) is not None


def test_ordered_dicts_keep_their_class():
    traced = jitlite.trace(lambda d: d["a"] + d["b"], (OrderedDict(a=torch.ones(1), b=torch.ones(1)),))
    assert traced({"b": torch.ones(1), "a": torch.zeros(1)}).item() == 1.0


# -- scripts made anew in each run, and scripts of torch.jit

TORCH_JIT: Any = vars(torch)["jit"]


def warns_by_rank(x):
    if x.dim() > 3:
        warnings.warn("many axes", stacklevel=1)
    if x.dim() == 1:
        return x * 2
    return x + 5


def counts_down(x, n: int) -> torch.Tensor:
    warnings.warn("counting", stacklevel=1)
    if n == 0:
        return x
    return counts_down(x + 1, n - 1)


class WarningModule(nn.Module):
    def forward(self, x):
        warnings.warn("module", stacklevel=1)
        return x - 1


@pytest.mark.filterwarnings("ignore")
def test_helpers_scripted_anew_in_each_run_are_the_same():
    def f(x):
        future = jitlite.fork(jitlite.script(warns_by_rank), x)
        y = jitlite.script(warns_by_rank)(x) * 3 + jitlite.script(counts_down)(x, 2)
        return y + jitlite.script(WarningModule())(x) + jitlite.wait(future)

    traced = jitlite.trace(f, torch.ones(3))
    for x in (torch.ones(2, 2), torch.ones(4)):
        torch.testing.assert_close(traced(x), f(x))


def test_other_helpers_in_another_run_are_still_found():
    def more(x):
        return x + 1

    def less(x):
        return x - 1

    made = [more, less]

    def f(x):
        return jitlite.script(made.pop())(x)

    with pytest.raises(jitlite.TracingCheckError, match="aten::sub|aten::add"):
        jitlite.trace(f, torch.ones(2))


class HoldsForeignScripts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = TORCH_JIT.script(ByRank())
        self.again = nn.Sequential(self.part, nn.ReLU())
        self.linear = TORCH_JIT.trace(nn.Linear(2, 2), torch.ones(2, 2))

    def forward(self, x):
        return self.again(self.part(x)) + self.linear(x)


class ByRank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x):
        if x.dim() == 1:
            return x + self.w
        return x - self.w * 2


@pytest.mark.filterwarnings("ignore")
def test_control_flow_of_torchs_scripts_stays():
    theirs = TORCH_JIT.script(warns_by_rank)
    traced = jitlite.trace(lambda x: theirs(x) * 2, torch.ones(3))
    module = HoldsForeignScripts()
    traced_module = jitlite.trace(module, torch.ones(2))
    assert isinstance(module.part, TORCH_JIT.ScriptModule)
    assert all(a is b for a, b in zip(traced_module.parameters(), module.parameters(), strict=True))
    for x in (torch.ones(3, 2), torch.ones(2)):
        torch.testing.assert_close(traced(x), theirs(x) * 2)
        torch.testing.assert_close(traced_module(x), module(x))
    assert isinstance(jitlite.trace(TORCH_JIT.script(ByRank()), torch.ones(2)), jitlite.ScriptModule)


# -- sizes that are used as tensors, at both levels

SIZES = [(2, 3), (4, 5), (5, 2), (3, 8)]


def traced_at(level, function, example):
    options = {"dynamic_shapes": {"x": [0, 1]}} if level == "dispatcher" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", jitlite.TracerWarning)
        return jitlite.trace(function, (example,), check_trace=False, level=level, **options)


def if_tracing(traced, eager):
    return traced() if torch.jit.is_tracing() else eager()


@pytest.mark.parametrize("level", ["python", "dispatcher"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tensor([x.shape[0], x.shape[1]]) * 2,
        lambda x: torch.tensor(x.shape[0]) * 2.0,
        lambda x: torch.tensor([[x.shape[0], 1], [2, x.shape[1]]], dtype=torch.float32),
        lambda x: torch.tensor([x.shape[0] / 2, 1]),
        lambda x: torch.tensor(x.shape).prod() * 1.0,
        lambda x: torch.tensor(x.shape, dtype=torch.float64),
        lambda x: torch.as_tensor(x.shape) + torch.as_tensor(x.size(0)),
        lambda x: torch.where(torch.tensor(x.size(0) > 2), x + 1, x - 1),
        lambda x: x + torch.tensor(3),
        lambda x: torch.tensor([x.sum(), x.mean()]),
        lambda x: x.new_tensor([x.shape[0], 2]) + x.new_tensor(x.shape, dtype=torch.int64),
        lambda x: x.new_zeros(math.ceil(x.shape[0] / 2) * 2, math.floor(x.size(1) / 2) + 1),
        lambda x: x.new_zeros(-(-x.size(1) // 2), x.size(0) % 2 + 1),
        lambda x: if_tracing(
            lambda: torch.stack([x.shape[0], x.shape[1]]), lambda: torch.tensor([x.shape[0], x.shape[1]])
        ),
        lambda x: if_tracing(
            lambda: torch.cat([x.shape[0].unsqueeze(0), x.shape[1].view(1)]), lambda: torch.tensor(x.shape)
        ),
        lambda x: if_tracing(
            lambda: torch.min(x.size(0), torch.tensor(3)), lambda: torch.min(torch.tensor(x.size(0)), torch.tensor(3))
        ),
        lambda x: if_tracing(
            lambda: torch.clamp(x.size(0), max=3) * 2, lambda: torch.clamp(torch.tensor(x.size(0)), max=3) * 2
        ),
        lambda x: if_tracing(
            lambda: x.size(0).clamp(max=3) * x.size(1).float(),
            lambda: torch.tensor(min(x.size(0), 3) * float(x.size(1))),
        ),
        lambda x: if_tracing(lambda: torch.floor(x.size(0) / 2).long(), lambda: torch.tensor(x.size(0) // 2)),
    ],
)
def test_sizes_that_are_used_as_tensors(level, function):
    traced = traced_at(level, function, torch.randn(2, 3))
    for size in SIZES:
        x = torch.randn(size)
        found, expected = traced(x), function(x)
        assert type(found) is torch.Tensor
        torch.testing.assert_close(found, expected)


def test_divmod_of_sizes():
    traced = traced_at(
        "python", lambda x: x.new_zeros(divmod(x.size(0), 2)[0], divmod(9, x.size(1))[1]), torch.ones(4, 5)
    )
    assert traced(torch.ones(7, 4)).shape == (3, 1)


def test_scripts_that_are_compiled_within_a_trace_mean_torchs_own_functions():
    def helper(x):
        return torch.stack([torch.tensor([1.0, 2.0]), torch.min(x, torch.as_tensor(5.0))])

    def f(x):
        return jitlite.script(helper)(x)

    traced = jitlite.trace(f, torch.ones(2))
    assert torch.equal(traced(torch.full((2,), 7.0)), helper(torch.full((2,), 7.0)))
    assert isinstance(torch.tensor, types.BuiltinFunctionType)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("within", ["script_if_tracing", "script"])
def test_what_torch_jit_compiles_within_a_trace_means_torchs_own_functions(within):
    def helper(x):
        n = torch.tensor(0.0)
        for i in range(int(x.sum())):
            n = n + i
        return torch.stack([n, torch.min(torch.max(x), torch.as_tensor(5.0))])

    late = {"script_if_tracing": TORCH_JIT.script_if_tracing(helper), "script": lambda x: TORCH_JIT.script(helper)(x)}
    traced = jitlite.trace(lambda x: late[within](x) * 2, torch.ones(2), check_trace=False)
    x = torch.full((2,), 3.0)
    assert torch.equal(traced(x), helper(x) * 2)


def test_torch_jit_finds_each_function_within_a_trace():
    builtins = torch_internals.builtins_of_scripts
    asked = [*traced_functions.FUNCTIONS, "sin"]

    def found():
        state = torch._C._get_tracing_state
        return [builtins._find_builtin(f) for f in (state, len, [], *(getattr(torch, name) for name in asked))]

    before, within = found(), []
    jitlite.trace(lambda x: (within.append(found()), x + 1)[1], torch.ones(1), check_trace=False)
    assert within == [before] and before == found()
    assert sum(name is not None for name in before) > len(asked) / 2


# -- quantized modules, meta tensors


class Quantized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.conv, self.linear = nn.Conv2d(1, 2, 3), nn.Linear(3, 3)
        self.functional = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x):
        y = self.linear(torch.relu(self.conv(self.quant(x))))
        return self.dequant(self.functional.add(y, y))


def quantized_models():
    torch.manual_seed(0)
    static, image = Quantized().eval(), torch.randn(1, 1, 5, 5)
    static.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")
    torch.ao.quantization.prepare(static, inplace=True)
    static(image)
    torch.ao.quantization.convert(static, inplace=True)
    quantize = torch.ao.quantization.quantize_dynamic
    dynamic = quantize(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), {nn.Linear}, torch.qint8)
    recurrent = quantize(nn.LSTM(5, 4), {nn.LSTM}, torch.qint8)
    return {
        "static": (static, image),
        "dynamic": (dynamic, torch.randn(2, 5)),
        "recurrent": (recurrent, torch.randn(2, 1, 5)),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "level"),
    [("static", "python"), ("dynamic", "python"), ("recurrent", "python"), ("dynamic", "dispatcher")]
    + [("recurrent", "dispatcher")],
)
def test_quantized_modules(name, level):
    module, x = quantized_models()[name]
    traced = jitlite.trace(module, (x,), level=level)
    buffer = io.BytesIO()
    jitlite.save(traced, buffer)
    for one in (traced, jitlite.load(io.BytesIO(buffer.getvalue()))):
        torch.testing.assert_close(one(x), module(x))
        torch.testing.assert_close(one(x * 0.5), module(x * 0.5))


@pytest.mark.filterwarnings("ignore")
def test_packed_weights_from_elsewhere_are_refused():
    module, x = quantized_models()["dynamic"]
    with pytest.raises(RuntimeError, match="LinearPackedParamsBase can be no constant of a trace"):
        jitlite.trace(lambda x: module(x), (x,), check_trace=False)


def products(a, b):
    h = torch.mm(a, b).relu()
    h = torch.where(h < 0, h + a.size(0), h)
    h = torch.cat([h, h], 0)[: a.size(0)] * a.numel()
    return torch.einsum("ij,kj->ik", h, h).reshape(h.shape[0], -1).softmax(-1)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.conv = nn.Linear(3, 4), nn.LayerNorm(4), nn.Conv1d(1, 1, 1)

    def forward(self, x):
        return self.conv(self.norm(self.linear(x)).unsqueeze(1)).flatten(1)


@pytest.mark.parametrize(("level", "rows"), [("python", 5), ("dispatcher", 2)])
def test_traces_on_meta_tensors_run_on_real_ones(level, rows):
    examples = torch.ones(2, 3, device="meta"), torch.ones(3, 4, device="meta")
    traced = jitlite.trace(products, examples, check_trace=False, level=level)
    a, b = torch.randn(rows, 3), torch.randn(3, 4)
    torch.testing.assert_close(traced(a, b), products(a, b))


def test_modules_on_the_meta_device():
    traced = jitlite.trace(Layers().to("meta"), torch.ones(2, 3, device="meta"), check_trace=False)
    assert traced(torch.ones(7, 3, device="meta")).shape == (7, 4)


def test_tensors_are_after_a_trace_what_they_were_before():
    jitlite.trace(lambda x: x[0] + x[:1], torch.ones(2))
    assert not {"__getitem__", "__setitem__", "shape"} & vars(torch.Tensor).keys()
    x = torch.tensor([torch.tensor(1.0), torch.tensor(2.0)])  # raises where tensors are sequences to C code
    assert torch.equal(x, torch.tensor([1.0, 2.0]))


def test_tensors_without_dimensions_make_a_tensor_within_a_trace():
    outside = torch.tensor(1.0), torch.tensor(2.0)
    traced = jitlite.trace(lambda x: x + torch.tensor([outside[0], outside[1]]), torch.ones(2))
    assert torch.equal(traced(torch.zeros(2)), torch.tensor([1.0, 2.0]))


# -- modes, seeds, shapes


class InTraining(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("module", "named"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.BatchNorm1d(2)), r"'1' \(Dropout\), '2' \(BatchNorm1d\)"),
        (InTraining(), r"\(InTraining\)"),
        (nn.GRU(2, 2, dropout=0.5, num_layers=2), r"\(GRU\)"),
    ],
)
def test_changing_the_mode_of_a_traced_module_warns(module, named, training):
    module.train(training)
    traced = jitlite.trace(module, torch.randn(4, 2), check_trace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced.train(training)
    with pytest.warns(jitlite.TracerWarning, match=named):
        traced.train(not training)
    assert traced.training is not training


def test_modules_that_do_the_same_in_both_modes_do_not_warn():
    traced = jitlite.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.LayerNorm(2)), torch.randn(4, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert traced.eval() is traced and traced.train() is traced


def test_shapes_of_values_on_request():
    traced = jitlite.trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.ones(2, 3))
    assert "Float" not in traced.graph.to_text()
    shaped = traced.forward.graph_with_shapes(torch.ones(5, 3))
    assert [o.type.sizes for o in shaped.outputs] == [(5, 4)]
    assert traced.forward.graph_with_shapes(torch.ones(7, 3)).outputs[0].type.sizes == (7, 4)

    def f(x, y):
        return torch.relu(x @ y).sum(-1)

    (output,) = jitlite.script(f).graph_with_shapes(torch.ones(5, 3), torch.ones(3, 4)).outputs
    assert (output.type.sizes, output.type.dtype) == ((5,), torch.float32)


def test_tables_of_functions_made_while_a_trace_is_going_on():
    """Functions that a trace has others stand in for are found by scripts during the trace and after it."""

    def stacked(x: torch.Tensor):
        return torch.stack([x, torch.where(x > 0, x, torch.zeros(2))]).sum()

    def traced(x):
        builtin_names._table.cache_clear()
        python_spelling._public_names.cache_clear()
        script = jitlite.script(stacked)
        assert "torch.stack(" in jitlite.to_python(script).source
        return script(x)

    x = torch.tensor([1.0, -1.0])
    assert jitlite.trace(traced, x)(x) == stacked(x)
    assert jitlite.script(stacked)(x) == stacked(x)
    assert "torch.stack(" in jitlite.to_python(jitlite.script(stacked)).source
