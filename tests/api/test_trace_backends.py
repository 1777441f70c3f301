"""Back ends of traces below autograd: a small one, of its own operators, that is plugged in."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import jitlite
from jitlite.base.source import CompileError
from jitlite.frontend.tracing.trace_backend import TraceBackend, Traced, builder_of

Pair = namedtuple("Pair", "a b")

# -- a machine of its own: registers that are written once, six instructions


@dataclass
class Program:
    """What the back end makes: instructions (what, registers, numbers, result), run on flat lists of tensors."""

    signature: object
    state: dict[int, torch.Tensor]
    inputs: list[int]
    code: list[tuple[str, list[int], dict[str, object], int]] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, *args, **kwargs):
        registers = dict(self.state)
        given = self.signature.flatten(*args, **kwargs)
        registers.update(zip(self.inputs, given, strict=True))
        for what, operands, numbers, result in self.code:
            registers[result] = MEANING[what](*(registers[o] for o in operands), **numbers)
        results = [registers[o] for o in self.outputs]
        with torch.no_grad():
            for destination, source in self.written:
                registers[destination].copy_(registers[source])
        return self.signature.unflatten(results)


MEANING = {
    "mul": torch.mul,
    "matmul": torch.matmul,
    "linear": lambda x, y, scale, offset: x + y * scale + offset,
    "map": lambda x, function: getattr(torch, function)(x),
    "sum": lambda x, dims, keep: x.sum(dims, keep),
    "arrange": lambda x, order, sizes: x.permute(order).reshape(sizes),
}

# -- the tables: operators of torch to instructions


def add(b, args, result):
    x, y, alpha = args
    return b.linear(x, y, alpha, result)


def sub(b, args, result):
    x, y, alpha = args
    return b.linear(x, y, -alpha, result)


def mul(b, args, result):
    x, y = args
    return b.emit("mul", [x, y]) if isinstance(y, Traced) else b.emit("linear", [x, x], scale=y - 1, offset=0)


def addmm(b, args, result):
    bias, x, y, beta, alpha = args
    assert beta == alpha == 1
    return b.linear(Traced(b.emit("matmul", [x, y]), result), bias, 1, result)


def transposed(b, args, result):
    order = list(range(result.dim()))
    if len(args) == 3:
        order[args[1]], order[args[2]] = order[args[2]], order[args[1]]
    else:
        order.reverse()
    return b.emit("arrange", [args[0]], order=order, sizes=list(result.shape))


def reshaped(b, args, result):
    order = list(range(args[0].example.dim()))
    return b.emit("arrange", [args[0]], order=order, sizes=list(result.shape))


def summed(b, args, result):
    dims = list(args[1] or range(args[0].example.dim())) if len(args) > 2 else list(range(args[0].example.dim()))
    return b.emit("sum", [args[0]], dims=dims, keep=args[2] if len(args) > 3 else False)


def mapped(function):
    return lambda b, args, result: b.emit("map", [args[0]], function=function)


def backward_of_tanh(b, args, result):
    grad, y = args
    squared = Traced(b.emit("mul", [y, y]), result)
    return b.linear(grad, Traced(b.emit("mul", [grad, squared]), result), -1, result)


DIRECT = {
    "aten::add.Tensor": add, "aten::sub.Tensor": sub, "aten::mul.Tensor": mul, "aten::addmm": addmm,
    "aten::mm": lambda b, args, result: b.emit("matmul", args), "aten::t": transposed,
    "aten::transpose.int": transposed,
    "aten::view": reshaped, "aten::reshape": reshaped, "aten::unsqueeze": reshaped, "aten::sum": summed,
    "aten::tanh": mapped("tanh"), "aten::relu": mapped("relu"), "aten::exp": mapped("exp"), "aten::clone": reshaped,
    "aten::ones_like": lambda b, args, result: b.constant(torch.ones(result.shape)),
    "aten::expand": lambda b, args, result: b.linear(b.zeros(result), args[0], 1, result),
}  # fmt: skip
TRAINING = {"aten::tanh_backward": backward_of_tanh}


class MachineBackend(TraceBackend):
    """Makes a `Program`."""

    def __init__(self, *tables):
        self.tables = tables or (DIRECT,)
        self.state, self.inputs, self.code, self.outputs, self.written = {}, [], [], [], []
        self.names, self.places, self.count = [], [], 0

    def register(self):
        self.count += 1
        return self.count

    def emit(self, what, operands, **numbers):
        result = self.register()
        self.code.append((what, [o.value for o in operands], numbers, result))
        self.places.append(self.location)
        return result

    def linear(self, x, y, scale, result):
        if not isinstance(y, Traced):
            return self.emit("linear", [x, x], scale=0, offset=y * scale)
        return self.emit("linear", [x, y], scale=scale, offset=0)

    def zeros(self, result):
        return Traced(self.constant(torch.zeros(result.shape)), result)

    def constant(self, tensor):
        self.state[result := self.register()] = tensor
        return result

    def add_input(self, name, example):
        self.names.append(name)
        self.inputs.append(self.register())
        return self.inputs[-1]

    def add_parameter(self, name, tensor, kind):
        self.names.append(f"{kind} {name}")
        return self.constant(tensor)

    add_constant = constant

    def add_output(self, value):
        self.outputs.append(value)

    def copy_(self, destination, source):
        self.written.append((destination.value, source.value))
        return source.value

    def fallback(self, op, args, results):
        return [builder_of(op, self.tables, self.location)(self, args, results[0])]

    def finalize(self):
        return Program(self.signature, self.state, self.inputs, self.code, self.outputs, self.written)


def program(function, *examples, tables=(), **options):
    backend = MachineBackend(*tables)
    return jitlite.trace(function, examples, level="dispatcher", backend=backend, functional=True, **options), backend


def test_a_program_does_what_the_function_does():
    def function(x, y):
        return torch.tanh(x * 3 + y).sum(0) - y

    made, backend = program(function, torch.randn(2, 3), torch.randn(3))
    x, y = torch.randn(2, 3), torch.randn(3)
    torch.testing.assert_close(made(x, y), function(x, y))
    assert backend.names == ["x", "y"]
    assert {what for what, *_ in made.code} == {"linear", "map", "sum"}
    assert {p.range.line for p in backend.places} == {function.__code__.co_firstlineno + 1}


def test_modules_parameters_and_structures():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    made, backend = program(model, torch.randn(5, 3))
    x = torch.randn(5, 3)
    torch.testing.assert_close(made(x), model(x))
    assert backend.names == [
        "input",
        "parameter 0.weight",
        "parameter 0.bias",
        "parameter 2.weight",
        "parameter 2.bias",
    ]
    with torch.no_grad():
        model[0].weight.mul_(2)
    torch.testing.assert_close(made(x), model(x))

    def nested(pair, options, n):
        return {"sum": pair.a + options["w"][0] * n, "same": (pair.b, None, n)}

    given = Pair(torch.ones(2), torch.zeros(1)), {"w": [torch.ones(2), None]}, 3
    made, backend = program(nested, *given)
    assert backend.names == ["pair.a", "pair.b", "options['w'][0]"]
    found = made(*given)
    assert torch.equal(found["sum"], torch.full((2,), 4.0)) and found["same"][1:] == (None, 3)
    with pytest.raises(ValueError, match="n: the trace was made for 3, not 4"):
        made(*given[:2], 4)
    with pytest.raises(ValueError, match=r"pair\.a: the trace was made for a tensor of size \[2\]"):
        made(Pair(torch.ones(3), torch.zeros(1)), *given[1:])
    with pytest.raises(ValueError, match="options: the trace was made for arguments built in another way"):
        made(given[0], {"w": [torch.ones(2)]}, 3)


def test_writes_are_returned_as_mutations():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.total.add_(x.sum(0))
            x.view(-1).mul_(2)
            return x * self.total

    eager, module = Counter(), Counter()
    made, backend = program(module, torch.ones(2, 3))
    module.total.zero_()
    assert [(m.kind, m.name) for m in made.signature.mutations] == [("input", "x"), ("buffer", "total")]
    for _ in range(2):
        ours, theirs = torch.ones(2, 3), torch.ones(2, 3)
        assert torch.equal(made(ours), eager(theirs)) and torch.equal(ours, theirs)
        assert torch.equal(module.total, eager.total)


def test_training():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    loss = Loss(model)
    made, _ = program(loss, torch.ones(5, 3), tables=(DIRECT, TRAINING), backward=True)
    x = torch.randn(5, 3)
    result, gradients = made(x)
    expected = loss(x)
    torch.testing.assert_close((result, gradients), (expected, torch.autograd.grad(expected, list(model.parameters()))))
    assert made.signature.gradient_names[0] == "model.0.weight"


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).sum()


def test_operators_in_no_table():
    def function(x):
        return F.gelu(x)

    with pytest.raises(CompileError) as refused:
        program(function, torch.ones(2))
    text = str(refused.value)
    assert "the back end has no builder for aten::gelu" in text and "add one to its table" in text
    assert f"test_trace_backends.py:{function.__code__.co_firstlineno + 1}" in text


def test_composites_that_the_back_end_wants_whole():
    def linear(b, args, result):
        x, weight, bias = args
        turned = Traced(transposed(b, [weight], weight.example.t()), None)
        return b.linear(Traced(b.emit("matmul", [x, turned]), result), bias, 1, result)

    wanted = {**DIRECT, "aten::linear": linear}
    model = nn.Linear(3, 4)
    made, _ = program(model, torch.ones(2, 3), tables=(wanted,), keep=["aten::linear"])
    torch.testing.assert_close(made(torch.ones(2, 3)), model(torch.ones(2, 3)))


def test_fake_examples_and_what_this_back_end_has_not():
    made, _ = program(lambda x: x * 2 + 1, torch.ones(1).expand(10**9), fake=True)
    assert len(made.code) == 2
    with pytest.raises(CompileError, match="MachineBackend has no symbolic sizes"):
        program(lambda x: x.view(-1), torch.ones(2, 3), dynamic_shapes=True)

    @jitlite.script
    def choose(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(CompileError, match="'choose' is a compiled function with control flow"):
        program(choose.__call__, torch.ones(2))


# -- objects among arguments and results


@dataclass
class Sides:
    x: Tensor
    y: Tensor
    scale: float = 2.0


class Held:
    """A class of a user's own."""

    def __init__(self, x, y):
        self.x, self.y = x, y


class Named(Held):
    pass


pytree.register_pytree_node(Held, lambda held: ([held.x, held.y], None), lambda parts, _: Held(*parts))
pytree.register_pytree_node(
    Named, lambda held: ([held.x, held.y], None), lambda parts, _: Named(*parts),
    flatten_with_keys_fn=lambda held: ([(pytree.GetAttrKey(n), getattr(held, n)) for n in "xy"], None),
)  # fmt: skip


@pytest.mark.parametrize("kind", [Sides, Held, Named])
def test_objects_are_taken_apart_and_put_together(kind):
    def function(p, many):
        return {"swapped": kind(p.y + many[0].x, p.x), "sum": p.x + p.y}

    def objects(start):
        return kind(torch.full((2,), start), torch.ones(2)), [kind(torch.ones(2) * start, torch.ones(2))]

    made, _ = program(function, *objects(1.0))
    in_p, in_many = (["p<0>", "p<1>"], ["many<0>", "many<1>"]) if kind is Held else (
        ["p.x", "p.y"], ["many[0].x", "many[0].y"]
    )  # fmt: skip
    assert [argument.name for argument in made.signature.arguments] == in_p + in_many
    found, expected = made(*objects(3.0)), function(*objects(3.0))
    assert type(found["swapped"]) is kind and torch.equal(found["sum"], expected["sum"])
    for name in ("x", "y"):
        assert torch.equal(getattr(found["swapped"], name), getattr(expected["swapped"], name))


def test_objects_of_another_class_or_with_other_fields_are_refused():
    made, _ = program(lambda p: p.x + p.y, Sides(torch.ones(2), torch.ones(2)))
    with pytest.raises(ValueError, match="built in another way"):
        made(Held(torch.ones(2), torch.ones(2)))
    with pytest.raises(ValueError, match=r"made for 2\.0, not 3\.0"):
        made(Sides(torch.ones(2), torch.ones(2), 3.0))


# -- a back end that runs operators itself


class Counting(TraceBackend):
    """Tells the names of operators, and runs some of them."""

    def __init__(self, own):
        self.own, self.names = own, []

    def execute(self, op, args, kwargs):
        run = self.own.get(op.name())
        return NotImplemented if run is None else run(*args, **kwargs)

    def add_input(self, name, example):
        return name

    def add_parameter(self, name, tensor, kind):
        return name

    def add_constant(self, tensor):
        return "constant"

    def add_output(self, value):
        self.names.append(value)

    def copy_(self, destination, source):
        return destination.value

    def fallback(self, op, args, results):
        self.names.append(op.name())
        return [f"r{len(self.names)}"] * len(results)

    def finalize(self):
        return self.names


def _seen(f, x, own, **options):
    seen = []

    def g(x):
        seen.append(f(x))
        return seen[-1]

    names = jitlite.trace(g, (x,), level="dispatcher", backend=Counting(own), check_trace=False, **options)
    return names, seen[0]


def test_a_back_end_may_run_operators_itself():
    names, result = _seen(lambda x: (x + 1).relu(), torch.tensor([-3.0, 1.0]), {"aten::relu": lambda x: x * 100})
    assert names == ["aten::add.Tensor", "aten::relu", "r2"]
    assert result.tolist() == [-200.0, 200.0]  # what it gave is what the trace went on with


def test_what_it_runs_may_write_and_give_several():
    def halve(x, other):
        with torch.no_grad():
            return x.copy_(x / 2)

    own = {"aten::mul_.Tensor": halve, "aten::max.dim": lambda x, dim, keep=False: (x.sum(dim), x.argmin(dim))}
    names, result = _seen(lambda x: (x.clone().mul_(4)).max(0), torch.tensor([2.0, 6.0]), own)
    assert [r.item() for r in result] == [4.0, 0]
    assert "aten::max.dim" in names


def test_operators_that_are_kept_whole_come_as_one():
    own = {"aten::linear": lambda x, w, b=None: x @ w.t() + 1}
    net = nn.Linear(2, 2).requires_grad_(False)
    _, result = _seen(net, torch.zeros(1, 2), own, keep=["aten::linear"])
    assert result.tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"aten::add.Tensor": lambda *a, **k: 3}, r"Counting.execute\(aten::add.Tensor, ...\) gave int"),
        ({"aten::add.Tensor": lambda *a, **k: None}, "gave None, and the operator gives a tensor"),
        ({"aten::mul_.Tensor": lambda x, y: x * y}, "gave another tensor than the one that the operator writes"),
        ({"aten::max.dim": lambda x, dim, keep=False: x}, "gave Tensor, and the operator gives a tuple of 2"),
    ],
)
def test_what_does_not_fit_the_schema_is_the_back_ends_fault(own, says):
    def f(x):
        y = (x + 1).clone()
        y.mul_(2)
        return y.max(0)

    with pytest.raises(CompileError, match=says):
        _seen(f, torch.ones(2), own)
