"""Traces below autograd: what is recorded, what is refused, and whether it does what eager does."""

from __future__ import annotations

import copy
import io
import math
import time
from collections import OrderedDict, namedtuple

import pytest
import torch
import traced_models
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import jitlite
from jitlite.api.trace import TracingCheckError
from jitlite.base.source import CompileError
from jitlite.debug.equality import difference

Pair = namedtuple("Pair", "a b")


def trace(function, *examples, **options):
    options.setdefault("check_trace", False)
    return jitlite.trace(function, examples, level="dispatcher", **options)


def kinds(traced):
    graph = traced.__jitlite_function__.graph if hasattr(traced, "__jitlite_function__") else traced.forward.graph
    return [node.kind for node in graph.nodes]


def recorded(traced):
    """The operators, without the checks of arguments."""
    found = kinds(traced)
    last = max((i for i, kind in enumerate(found) if kind == "prim::If"), default=-1)
    return [kind for kind in found[last + 1 :] if kind.startswith("aten::")]


def clone(value):
    return pytree.tree_map(
        lambda t: t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t, value
    )


def agree(traced, function, *inputs):
    ours, theirs = clone(inputs), clone(inputs)
    assert difference(function(*theirs), traced(*ours)) is None
    assert difference(theirs, ours) is None


# -- inputs and results: (function, example, what a later call may not have)

T1, T2 = torch.arange(6.0).reshape(2, 3), torch.ones(3)
INPUTS = {
    "one": (lambda x: x * 2, (T1,), (T2,)),
    "two": (lambda x, y: x + y, (T1, T2), (T2, T1)),
    "the same twice": (lambda x, y: x * y, (T1, T1), (T1, T2)),
    "none": (lambda x, n: x if n is None else x + n, (T1, None), (T1, T1)),
    "int": (lambda x, n: x * n, (T1, 3), (T1, 4)),
    "float": (lambda x, n: x * n, (T1, 0.5), (T1, 0.25)),
    "nan": (lambda x, n: x * n, (T1, math.nan), (T1, 1.0)),
    "bool": (lambda x, n: x * 2 if n else x, (T1, True), (T1, False)),
    "str": (lambda x, n: x * len(n), (T1, "abc"), (T1, "abd")),
    "dtype": (lambda x, d: x.to(d), (T1, torch.int64), (T1, torch.int32)),
    "device": (lambda x, d: x.to(d), (T1, torch.device("cpu")), (T1, torch.device("meta"))),
    "tuple": (lambda p: p[0] + p[1], ((T1, T2),), ((T1, T1, T1),)),
    "tuple with a number": (lambda p: p[0] * p[1], ((T1, 2),), ((T1, 3),)),
    "empty tuple": (lambda x, p: x * (len(p) + 1), (T1, ()), (T1, (T1,))),
    "nested tuple": (lambda p: p[0][1] * p[1], (((T1, T2), T2),), (((T1, T1), T1),)),
    "named tuple": (lambda p: p.a - p.b, (Pair(T1, T2),), ((T1, T2, T1),)),
    "list": (lambda xs: torch.cat(xs), ([T1, T1],), ([T1, T1, T1],)),
    "list of one": (lambda xs: xs[0] * 1, ([T1],), ([],)),
    "list of numbers": (lambda x, n: x.reshape(n), (T1, [3, 2]), (T1, [2, 3])),
    "mixed list": (lambda p: p[0] * p[1], ([T1, 2],), ([T1, 3],)),
    "list of lists": (lambda p: p[0][0] + p[1][0], ([[T1], [T2]],), ([[T1], []],)),
    "list of tuples": (lambda p: sum(a * b for a, b in p), ([(T1, T2), (T1, T1)],), ([(T1, T2)],)),
    "dict": (lambda d: d["a"] + d["b"], ({"a": T1, "b": T2},), ({"a": T1},)),
    "order of a dict": (lambda d: torch.cat([*d.values()]), ({"a": T1, "b": T1},), ({"b": T1, "a": T1},)),
    "ordered dict": (lambda d: d["a"] * 1, (OrderedDict(a=T1),), (OrderedDict(b=T1),)),
    "mixed dict": (lambda d: d["x"] * d["n"], ({"x": T1, "n": 2},), ({"x": T1, "n": 3},)),
    "dict of lists": (lambda d: d["a"][0] + d["b"][1], ({"a": [T1], "b": [T1, T2]},), ({"a": [T1], "b": [T1]},)),
    "dict with numbers as keys": (lambda d: d[1] + d[2], ({1: T1, 2: T1},), ({1: T1},)),
    "no dimensions": (lambda x: x + 1, (torch.tensor(2.0),), (T2,)),
    "nothing in it": (lambda x: x.sum(), (torch.zeros(0, 3),), (torch.zeros(1, 3),)),
    "integers": (lambda x: x // 2, (torch.arange(4),), (torch.arange(4.0),)),
    "complex": (lambda x: x.abs(), (torch.ones(2, dtype=torch.complex64),), (torch.ones(2),)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs(name):
    function, examples, others = INPUTS[name]
    traced = trace(function, *examples)
    agree(traced, function, *examples)
    with pytest.raises((ValueError, RuntimeError, TypeError, KeyError)) as refused:
        traced(*others)
    assert "INTERNAL" not in str(refused.value)
    restored = jitlite.load(io.BytesIO(traced.save_to_buffer())) if name not in ("named tuple", "dtype") else None
    if restored is not None:
        assert difference(function(*clone(examples)), restored(*clone(examples))) is None


def test_refused_calls_say_what_the_trace_was_made_for():
    traced = trace(lambda x, n: x * n, T1, 3)
    with pytest.raises(ValueError, match=r"x: the trace was made for a tensor of size \[2, 3\], torch.float32, cpu"):
        traced(T2, 3)
    with pytest.raises(ValueError, match="n: the trace was made for 3; trace it again for others"):
        traced(T1, 4)
    with pytest.raises(ValueError, match="was made for a tensor of size"):
        traced(T1.double(), 3)


def test_arguments_by_keyword_and_the_rest():
    def function(x, *rest, scale=1, **more):
        return x * scale + sum(rest) + more["bias"]

    traced = jitlite.trace(
        function, (T1, T2), example_kwarg_inputs={"scale": 2, "bias": T2}, level="dispatcher", check_trace=False
    )
    assert difference(function(T1, T2, scale=2, bias=T2), traced(T1, T2, scale=2, bias=T2)) is None
    with pytest.raises(ValueError, match="scale: the trace was made for 2"):
        traced(T1, T2, scale=3, bias=T2)
    with pytest.raises(TypeError, match="missing a required argument"):
        trace(lambda x, y: x, T1)


def test_what_can_be_no_argument():
    with pytest.raises(CompileError, match=r"p\[1\]: a object can be no argument of a traced function"):
        trace(lambda p: p[0], (T1, object()))


RESULTS = {
    "input": lambda x: x, "none": lambda x: None, "number": lambda x: x.dim(), "twice": lambda x: (x * 2,) * 2,
    "list": lambda x: [x, x + 1], "dict": lambda x: {"a": x, "b": [x + 1]}, "mixed": lambda x: {"a": x, "n": 3},
    "named": lambda x: Pair(x, x + 1), "nested": lambda x: (x, [(x + 1, None)], {"k": (x,)}),
    "empty": lambda x: ((), x),
    "view": lambda x: x.t()[1:], "parts": lambda x: x.unbind(0), "constant": lambda x: torch.tensor([1.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results(name):
    agree(trace(RESULTS[name], T1), RESULTS[name], T1)


def test_results_have_the_identity_that_they_have_in_eager():
    traced = trace(lambda x: (x, x[0], torch.tensor([1.0])), T1)
    given = T1.clone()
    same, row, one = traced(given)
    assert same.data_ptr() == row.data_ptr() == given.data_ptr()
    one.add_(1)
    assert traced(given)[2].item() == 1


def test_what_can_be_no_result():
    with pytest.raises(CompileError, match="gives a object, which can be no result"):
        trace(lambda x: object(), T1)


# -- what is recorded


def test_operators_arrive_below_autograd_with_all_arguments():
    traced = trace(lambda x: F.softmax(x * 0.5, -1), T1)
    assert recorded(traced) == ["aten::mul", "aten::_softmax"]
    text = traced.graph.to_text(ranges=False)
    assert "aten::_softmax(%3, %" in text


def test_composite_operators_are_kept_on_request():
    def function(x):
        return F.layer_norm(F.linear(x, w), (2,)).matmul(w)

    w = torch.ones(2, 3)
    assert recorded(trace(function, T1)) == ["aten::t", "aten::mm", "aten::native_layer_norm", "aten::mm"]
    assert recorded(trace(function, T1, keep=["aten::linear"]))[:2] == ["aten::linear", "aten::native_layer_norm"]
    everything = trace(function, T1, keep="all")
    assert recorded(everything) == ["aten::linear", "aten::layer_norm", "aten::matmul"]
    agree(everything, function, T1)
    with pytest.raises(ValueError, match="aten::relu: it is not composed of others"):
        trace(function, T1, keep=["aten::relu"])
    with pytest.raises(ValueError, match="there is no such operator"):
        trace(function, T1, keep=["aten::lineer"])


def test_statistics_of_kept_operators_are_mutations():
    traced = trace(nn.BatchNorm1d(3), T1, keep=["aten::batch_norm"])
    assert [m.name for m in traced.mutations] == ["num_batches_tracked", "running_mean", "running_var"]


def helper(x):
    return F.gelu(x)


def test_places_are_the_users_lines():
    def function(x):
        y = helper(x)
        return nn.Linear.forward(layer, y)

    layer = nn.Linear(3, 2).requires_grad_(False)
    graph = trace(function, T1).graph
    nodes = {node.kind: node for node in graph.nodes}
    first = test_places_are_the_users_lines.__code__.co_firstlineno
    assert nodes["aten::gelu"].range.line == helper.__code__.co_firstlineno + 1
    assert [(name, place.line) for name, place in nodes["aten::gelu"].call_stack] == [("helper", first + 2)]
    assert nodes["aten::addmm"].range.line == first + 3
    everywhere = {n.kind: n for n in trace(function, T1, exclude=[]).graph.nodes}
    assert everywhere["aten::addmm"].range.filename.endswith("linear.py")
    nowhere = {n.kind: n for n in trace(function, T1, exclude=["/torch/", "test_trace_dispatch"]).graph.nodes}
    assert nowhere["aten::addmm"].range is None or "test_trace_dispatch" not in nowhere["aten::addmm"].range.filename


def test_the_backward_pass_has_the_places_of_the_forward_pass():
    def function(x):
        y = x.exp()
        return y.sum()

    nodes = trace(function, T1.clone().requires_grad_(), backward=True).graph.nodes
    first = function.__code__.co_firstlineno
    assert [n.range.line for n in nodes if n.kind == "aten::mul"] == [first + 1]


def test_errors_of_a_call_show_the_users_lines():
    def function(x, i):
        return helper(x)[i]

    traced = trace(function, T1, torch.tensor([0, 1]))
    with pytest.raises(IndexError) as raised:
        traced(T1, torch.tensor([0, 7]))
    assert any("return helper(x)[i]" in note for note in getattr(raised.value, "__notes__", ["return helper(x)[i]"]))


def test_modes_are_recorded():
    def function(x):
        with torch.no_grad():
            scale = x.norm()
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x.t()
        return y / scale

    x = T1.clone().requires_grad_()
    traced = trace(function, x)
    assert "aten::_to_copy" in recorded(traced)
    for f in (traced, function):
        given = x.detach().clone().requires_grad_()
        f(given).float().sum().backward()
        x.grad = given.grad if x.grad is None else x.grad
        torch.testing.assert_close(given.grad, x.grad)


def test_random_draws_are_those_of_eager():
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    traced = trace(lambda x: F.dropout(x) + torch.randn(3), T1)
    torch.manual_seed(3)
    expected = F.dropout(T1) + torch.randn(3)
    torch.manual_seed(3)
    assert difference(expected, traced(T1)) is None
    traced = trace(model, T1)
    torch.manual_seed(4)
    expected = model(T1)
    torch.manual_seed(4)
    assert difference(expected, traced(T1)) is None


def test_scripted_functions_stay_calls():
    @jitlite.script
    def choose(x):
        if x.sum() > 0:
            return x * 2
        return -x

    def function(x):
        return choose(x + 1) * 3

    traced = trace(function, T1)
    assert "prim::CallFunction" in kinds(traced)
    agree(traced, function, -T1)
    with pytest.raises(CompileError, match="'choose' is a compiled function with control flow"):
        trace(function, T1.clone().requires_grad_(), backward=True)


@jitlite.script_if_tracing
def at_most(x, n: int):
    if bool(x.max() > n):
        return x / x.max() * n
    return x


def test_script_if_tracing_is_a_way_out():
    traced = trace(lambda x: at_most(x, 3) + 1, T1)
    agree(traced, lambda x: at_most(x, 3) + 1, T1 / 5)


def test_scripted_submodules_stay_calls():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x):
            if x.sum() > 0:
                return x * self.w
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = jitlite.script(Inner())

        def forward(self, x):
            return self.inner(x) + 1

    model = Outer()
    traced = trace(model, T1)
    assert "prim::CallMethod" in kinds(traced)
    agree(traced, model, -T1)


class Doubled(torch.autograd.Function):
    """Its derivative is not the one of its operators."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 10 * ctx.saved_tensors[0]


def test_autograd_functions():
    x = T1.clone().requires_grad_()
    traced = trace(lambda x: Doubled.apply(x) + 1, x)
    assert "prim::PythonOp" in kinds(traced)
    agree(traced, lambda x: Doubled.apply(x) + 1, x)
    (grad,) = torch.autograd.grad(traced(x).sum(), x)
    assert torch.equal(grad, 10 * x)
    inference = trace(lambda x: Doubled.apply(x) + 1, T1)
    assert "prim::PythonOp" not in kinds(inference)
    agree(inference, lambda x: Doubled.apply(x) + 1, T1)
    with pytest.raises(ValueError, match="the trace was made for inputs that do not"):
        inference(x)
    with torch.no_grad():
        inference(x)


# -- what is refused

ASKING = {
    "bool": lambda x: x if x.sum() > 0 else -x, "item": lambda x: x * x.sum().item(), "int": lambda x: x * int(x[0, 0]),
    "float": lambda x: x * float(x.sum()), "tolist": lambda x: x * x[0].tolist()[0],
    "while": lambda x: [x for _ in x if _.sum() > 0],
    "numpy": lambda x: torch.from_numpy(x.numpy() * 2) + x, "index": lambda x: x[x.argmax()] * [1, 2][x[0, 1].long()],
    "equal": lambda x: x if torch.equal(x, x + 0) else -x,
}  # fmt: skip


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("name", ASKING)
def test_contents_that_python_asks_for_are_refused(name, fake):
    with pytest.raises(CompileError) as refused:
        trace(ASKING[name], T1, fake=fake)
    text = str(refused.value)
    assert "test_trace_dispatch.py" in text and "jitlite.script_if_tracing" in text, text


def test_contents_that_are_the_same_in_each_call_are_given():
    def function(x):
        rates = [r.item() for r in torch.linspace(0, 1, 3)]
        return x * sum(rates) + int(torch.tensor(3))

    agree(trace(function, T1), function, T1 + 1)


def test_results_whose_size_depends_on_data():
    def function(x):
        return x[x > 2].sum() / x.shape[0], x.nonzero()

    traced = trace(function, T1)
    agree(traced, function, T1)
    agree(traced, function, T1.flip(0))
    with pytest.raises(ValueError, match="the size of this tensor depends on data"):
        traced(T1 * 0)
    with pytest.raises(CompileError, match="on a fake tensor cannot go on"):
        trace(function, T1, fake=True)


def test_gradients_left_in_attributes_are_refused():
    def function(x):
        (x * 2).sum().backward()
        return x

    x = T1.clone().requires_grad_()
    with pytest.raises(CompileError, match="sets the .grad of x"):
        trace(function, x)
    assert x.grad is None


def test_tensors_from_outside():
    weight = torch.ones(3)
    traced = trace(lambda x: x * weight, T1)
    weight.fill_(2)
    assert torch.equal(traced(T1), T1 * 2)
    needs = torch.ones(3, requires_grad=True)
    with pytest.raises(CompileError, match="requires grad and is neither an argument nor part of the traced module"):
        trace(lambda x: x * needs, T1)


def test_options_are_checked():
    with pytest.raises(ValueError, match="level is"):
        jitlite.trace(lambda x: x, T1, level="aten")
    with pytest.raises(TypeError, match="fake is an option of traces with level='dispatcher'"):
        jitlite.trace(lambda x: x, T1, fake=True)
    with pytest.raises(TypeError, match="unexpected keyword"):
        trace(lambda x: x, T1, fakes=True)
    with pytest.raises(ValueError, match="have no backward pass"):
        trace(lambda x: x, T1, keep="all", backward=True)


def test_the_trace_is_checked():
    with pytest.raises(TracingCheckError, match="baked in|Graphs differed"):
        trace(lambda x: x + time.perf_counter(), T1, check_trace=True)


# -- memory


def test_storages_are_exchanged():
    def by_set(x, y):
        z = x * 1
        old = z.view(-1)
        z.set_(y)
        z.add_(1)
        return z * 2, old * 1

    def by_data(x, y):
        z = x * 1
        old = z.detach()
        z.data = y
        z.mul_(3)
        return z, old

    for function in (by_set, by_data):
        agree(trace(function, T1, T1 + 1), function, T1.clone(), T1 + 5)


def test_an_argument_that_gets_other_memory():
    def function(x, y):
        x.data = y * 2
        return x + 1

    traced = trace(function, T1.clone(), T1)
    assert [(m.kind, m.name, m.operators) for m in traced.mutations] == [("input", "x", ("aten::set_",))]
    agree(traced, function, T1.clone(), T1)


def test_arguments_that_overlap():
    def function(x, y):
        x.add_(1)
        return y * 2

    traced = trace(function, T1.clone(), T1.clone())
    given = T1.clone()
    assert torch.equal(traced(given, given), (T1 + 1) * 2)
    functional = trace(function, T1.clone(), T1.clone(), functional=True)
    agree(functional, function, T1, T1.clone())
    same = T1.clone()
    with pytest.raises(CompileError, match="two of the arguments"):
        trace(function, same, same, functional=True)


def test_copies_that_other_strides_would_not_need():
    def function(x):
        x.reshape(-1).add_(1)
        return x * 1

    traced = trace(function, T1.t().contiguous().t())
    with pytest.raises(ValueError, match="and strides"):
        traced(T1.clone())


def test_mutations_name_the_operators_and_the_line():
    def function(x, y):
        x.mul_(2)
        x[0].add_(y)
        return x

    (found,) = trace(function, T1.clone(), T2).mutations
    assert found[:3] == ("input", "x", ("aten::mul_", "aten::add_"))
    assert found.location.range.line == function.__code__.co_firstlineno + 1


def test_functional_traces_have_no_writes_but_the_last():
    def function(x, y):
        x.t()[0].mul_(2)
        y.fill_(3)
        return x + y

    traced = trace(function, T1.clone(), T1.clone(), functional=True)
    written = [kind for kind in recorded(traced) if kind.endswith("_")]
    assert written == ["aten::copy_", "aten::copy_"]
    agree(traced, function, T1, T1)


# -- fake tensors and sizes


def test_huge_shapes_take_no_memory():
    start = time.perf_counter()
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU())
    huge = FakeTensorMode().from_tensor(torch.empty(1, 4096)).expand(10**7, 4096)
    with torch.no_grad():
        traced = trace(model, huge)
    assert "aten::addmm" in recorded(traced)
    assert time.perf_counter() - start < 20


def test_fake_traces_leave_the_state_alone_and_run_on_real_tensors():
    model = nn.BatchNorm1d(3)
    traced = trace(model, T1, fake=True)
    assert model.num_batches_tracked == 0 and isinstance(model.weight, nn.Parameter)
    other = copy.deepcopy(model)
    assert difference(other(T1), traced(T1)) is None
    assert difference(other.running_mean, model.running_mean) is None


def test_sizes_may_differ():
    def function(x, y):
        n, m = x.shape
        z = torch.cat([x.reshape(n * m), y]).view(-1, 1)
        return z / (n + 2 * m) + torch.arange(x.shape[0] * m + y.numel()).unsqueeze(1), x.mean() * (1 / n)

    traced = trace(function, torch.randn(4, 6), torch.randn(5), dynamic_shapes=True)
    for n, m, k in ((4, 6, 5), (2, 3, 7), (9, 2, 2)):
        agree(traced, function, torch.randn(n, m), torch.randn(k))
    with pytest.raises(ValueError, match=r"the trace was made for sizes with x.size\(\)\[0\] >= 2"):
        traced(torch.randn(1, 3), torch.randn(4))
    with pytest.raises(ValueError, match="of 2 dimensions"):
        traced(torch.randn(3), torch.randn(4))


def test_what_is_decided_about_sizes_is_checked():
    def function(x, y):
        if x.shape[0] > 5:
            return x + y
        return x - y

    traced = trace(function, torch.randn(8, 3), torch.randn(8, 3), dynamic_shapes={"x": [0], "y": [0]})
    agree(traced, function, torch.randn(6, 3), torch.randn(6, 3))
    for sizes in (((5, 3), (5, 3)), ((6, 3), (7, 3)), ((6, 4), (6, 4))):
        with pytest.raises(ValueError, match="was made for"):
            traced(*map(torch.randn, sizes))


CONVOLUTIONS = {
    "1d": (nn.Conv1d(2, 4, 3), (9,)),
    "2d": (nn.Conv2d(2, 4, 3, stride=2, padding=1), (7, 6)),
    "3d": (nn.Conv3d(2, 4, 2), (4, 3, 3)),
    "groups": (nn.Conv2d(2, 4, 3, groups=2, bias=False), (7, 6)),
    "transposed": (nn.ConvTranspose2d(2, 4, 3, output_padding=1, stride=2), (4, 3)),
    "one by one": (nn.Conv2d(2, 4, 1), (3, 3)),
}


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions_hold_for_all_numbers_of_images(kind):
    model, image = CONVOLUTIONS[kind]
    traced = trace(model, torch.randn(3, 2, *image), dynamic_shapes={"input": [0]})
    for n in (2, 15, 16, 17, 40):
        agree(traced, model, torch.randn(n, 2, *image))


def test_convolutions_hold_for_images_that_have_a_result():
    model = nn.Conv2d(2, 4, 3)
    traced = trace(model, torch.randn(3, 2, 8, 9), dynamic_shapes={"input": [0, 2, 3]})
    for sizes in ((2, 2, 3, 3), (20, 2, 40, 3), (3, 2, 150, 140)):
        agree(traced, model, torch.randn(sizes))
    with pytest.raises(ValueError, match="the trace was made for sizes with"):
        traced(torch.randn(3, 2, 2, 5))


def test_sizes_and_gradients():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    traced = trace(model, torch.randn(5, 3), backward=True, dynamic_shapes={"input": [0]})
    for n in (5, 2, 9):
        x = torch.randn(n, 3)
        result, gradients = traced(x, torch.ones(n, 1))
        expected = model(x)
        wanted = torch.autograd.grad(expected.sum(), list(model.parameters()))
        torch.testing.assert_close((result, gradients), (expected.detach(), wanted))


# -- gradients


def test_forward_and_backward():
    def loss(x, w, b):
        return F.mse_loss(torch.tanh(x @ w + b), x.new_zeros(2, 2))

    x, w, b = T1 / 5, torch.randn(3, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
    traced = trace(loss, x, w, b, backward=True)
    assert traced.gradient_names == ["w", "b"]
    result, gradients = traced(x, w, b)
    expected = loss(x, w, b)
    torch.testing.assert_close((result, gradients), (expected.detach(), torch.autograd.grad(expected, (w, b))))
    assert not result.requires_grad
    chosen = trace(loss, x, w, b, backward=["b"])
    torch.testing.assert_close(chosen(x, w, b)[1], gradients[1:])
    with pytest.raises(ValueError, match="x is no argument or parameter that requires grad"):
        trace(loss, x, w, b, backward=["x"])
    with pytest.raises(CompileError, match="no result of the traced function requires grad"):
        trace(lambda x: x * 2, T1, backward=True)


def test_gradients_of_several_results():
    def function(x, y):
        return x * y, {"s": (x.exp(), 3), "n": x.detach()}

    x, y = T1.clone().requires_grad_(), T2.clone().requires_grad_()
    traced = trace(function, x, y, backward=True)
    seeds = torch.randn(2, 3), torch.randn(2, 3)
    result, gradients = traced(x, y, *seeds)
    expected = function(x, y)
    wanted = torch.autograd.grad([expected[0], expected[1]["s"][0]], (x, y), seeds)
    torch.testing.assert_close(gradients, wanted)
    assert result[1]["s"][1] == 3


def test_the_backward_pass_of_autograd_functions_writes_and_unused_inputs():
    def function(x, y, z):
        h = Doubled.apply(x)
        h[0].mul_(y)
        return h.sum() + h.prod()

    x, y, z = (t.clone().requires_grad_() for t in (T1 + 1, T2, T2))
    traced = trace(function, x, y, z, backward=True)
    result, gradients = traced(x, y, z)
    expected = function(x, y, z)
    wanted = torch.autograd.grad(expected, (x, y, z), allow_unused=True)
    torch.testing.assert_close((result, gradients[:2]), (expected.detach(), wanted[:2]))
    assert gradients[2] is None and wanted[2] is None
    functional = trace(function, x, y, z, backward=True, functional=True)
    torch.testing.assert_close(functional(x, y, z)[1][:2], wanted[:2])


def test_gradients_inside_of_the_function():
    def penalty(x, w):
        y = torch.sigmoid(x @ w).sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        return grad.pow(2).sum()

    x, w = (T1 / 9).requires_grad_(), torch.randn(3, 2, requires_grad=True)
    traced = trace(penalty, x, w)
    ours, theirs = (torch.autograd.grad(f(x, w), w) for f in (traced, penalty))
    torch.testing.assert_close(ours, theirs)


def test_the_same_argument_twice_has_a_gradient_for_each():
    x = T1.clone().requires_grad_()
    traced = trace(lambda a, b: (a * b.exp()).sum(), x, x, backward=True)
    a, b = (T1 + 1).requires_grad_(), (T1 / 7).requires_grad_()
    wanted = torch.autograd.grad((a * b.exp()).sum(), (a, b))
    torch.testing.assert_close(traced(a, b)[1], wanted)


# -- modules


def test_the_module_shares_state_and_has_several_methods():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.other = self.layer
            self.register_buffer("count", torch.zeros(()))
            self.plain = torch.ones(3)

        def forward(self, x):
            self.count += 1
            return self.other(x * self.plain)

        def encode(self, x, scale):
            return self.layer.weight * scale

    model = Model()
    traced = jitlite.trace_module(model, {"forward": (T1,), "encode": (T1, 2.0)}, level="dispatcher")
    assert traced.layer.weight is model.layer.weight
    model.count.zero_()
    assert torch.equal(traced(T1), model.layer(T1)) and model.count == 1
    assert torch.equal(traced.encode(T1, 2.0), model.layer.weight * 2)
    assert [(m.kind, m.name) for m in traced.mutations] == [("buffer", "count")]
    model.layer.weight.data.fill_(3)
    assert torch.equal(traced(T1), model.layer(T1))


def test_hooks_are_part_of_the_trace():
    model = nn.Linear(3, 2)
    model.register_forward_hook(lambda m, given, result: result * 2)
    agree(trace(model, T1), model, T1)


def test_traces_can_be_frozen_and_called_from_scripts():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).eval()
    traced = trace(model, T1)
    frozen = jitlite.freeze(traced)
    torch.testing.assert_close(frozen(T1), model(T1))

    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) + 1

    torch.testing.assert_close(jitlite.script(Outer(traced))(T1), model(T1) + 1)


# -- models

QUICK = ["mlp", "conv2d", "batch_norm1d", "lstm", "encoder_layer", "residual", "tied", "own_attention"]


def gradients(module, result, inputs):
    outputs = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [*(p for p in module.parameters() if p.requires_grad), *(i for i in inputs if i.requires_grad)]
    seeds = [torch.linspace(0.5, 1.5, max(o.numel(), 1))[: o.numel()].reshape(o.shape) for o in outputs]
    return torch.autograd.grad(outputs, leaves, seeds, allow_unused=True) if outputs and leaves else ()


def outcome(module, inputs):
    """What one call gives, with gradients and the buffers that it leaves."""
    torch.manual_seed(3)
    given = [i.clone().requires_grad_() if i.is_floating_point() else i for i in inputs]
    result = module(*given)
    return result, gradients(module, result, given), dict(module.named_buffers())


def check_model(name, training, **options):
    model, inputs = traced_models.build(name)
    eager, source = copy.deepcopy(model).train(training), copy.deepcopy(model).train(training)
    expected = outcome(eager, inputs)
    traced = jitlite.trace(source, inputs, level="dispatcher", check_trace=False, fake=True, **options)
    restored = jitlite.load(io.BytesIO(traced.save_to_buffer())) if not options else None
    assert difference(expected, outcome(traced, inputs)) is None
    if restored is not None:
        found = outcome(restored, inputs)
        assert difference(pytree.tree_leaves(expected[0]), pytree.tree_leaves(found[0])) is None
        assert difference(list(expected[2].values()), list(found[2].values())) is None


def check_backward(name):
    """Forward and backward in one graph."""
    model, inputs = traced_models.build(name)
    eager, source = copy.deepcopy(model).train(), copy.deepcopy(model).train()
    torch.manual_seed(3)
    result = eager(*inputs)
    outputs = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    parameters = [p for p in eager.parameters() if p.requires_grad]
    if not outputs or not parameters:
        return
    traced = jitlite.trace(source, inputs, level="dispatcher", backward=True)
    source.load_state_dict(model.state_dict())
    single = len(outputs) == 1 and outputs[0].numel() == 1
    seeds = [] if single else [torch.linspace(0.5, 1.5, o.numel()).reshape(o.shape) for o in outputs]
    wanted = torch.autograd.grad(outputs, parameters, seeds or None, allow_unused=True)
    torch.manual_seed(3)
    found = traced(*inputs, *seeds)
    detached = pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, result)
    assert difference((detached, tuple(wanted)), found) is None
    assert difference(dict(eager.named_buffers()), dict(source.named_buffers())) is None


@pytest.mark.parametrize("name", QUICK)
def test_models(name):
    check_model(name, True)
    check_model(name, False)


@pytest.mark.parametrize("name", ["mlp", "residual", "lstm"])
def test_models_with_their_backward_pass(name):
    check_backward(name)


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("name", traced_models.names())
def test_all_models(name, training):
    check_model(name, training)


@pytest.mark.slow
@pytest.mark.parametrize("name", traced_models.names())
def test_all_models_with_their_backward_pass(name):
    check_backward(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", traced_models.names())
def test_all_models_with_composites_kept(name):
    check_model(name, False, keep="all")


def test_there_are_enough_models():
    assert len(traced_models.names()) >= 40
