"""What a trace leaves to Python under `on_cpu()`: programs in all kinds of traces beside eager, and what is refused."""

import numpy as np
import pytest
import torch

import jitlite
from jitlite import on_cpu

HALF = 0.5


def sums_what_is_large(x):
    y = torch.tanh(x)
    with on_cpu():
        total = 0.0
        for value in y.numpy().ravel():
            if value > 0:
                total += float(value)
        scale = torch.tensor(total)
    return y * scale


def sorts_rows(x):
    with on_cpu():
        rows = np.sort(x.numpy(), axis=1)
        rows = torch.from_numpy(rows.copy())
    return rows - x


def sets_one_anew(x):
    x = x * 2
    with on_cpu():
        x = x + float(x.numpy().max())
    return x.relu()


def carries_through_a_loop(x):
    total = torch.zeros(())
    for i in range(3):
        with on_cpu():
            step = float(x.numpy()[0, i])
            total = total + step
    return x + total


def is_read_in_a_later_pass(x):
    y = x
    out = []
    for _ in range(3):
        with on_cpu():
            y = torch.from_numpy(np.cumsum(y.numpy(), axis=0))
            last = y[-1].clone()
        out.append(last * x)
    return torch.stack(out)


def gives_several(x):
    with on_cpu():
        pair = torch.tensor(float(x.sum())), {"n": torch.tensor(float(x.numpy().max()))}
        a, (b, *_) = x + 1, [x * 2]
    return pair[0] * a + pair[1]["n"] * b


def reads_containers(x):
    parts = {"x": x.sin(), "more": [x.cos(), 2]}
    with on_cpu():
        y = torch.from_numpy(parts["x"].numpy() + parts["more"][0].numpy() * parts["more"][1])
    return y * x


def gives_nothing(x):
    with on_cpu():
        assert not float(x.numpy()[0, 0]) < -100
    return x + 1


def within_a_branch(x):
    y = x + 1
    if x.dim() == 2:
        with on_cpu():
            y = torch.tensor(y.tolist()) * 2
    return y - x


def has_names_of_its_own(x):
    with on_cpu():
        import math as m

        def double(v):
            return v * m.floor(2.5)

        kept = [double(v) for row in x.tolist() for v in row if (w := v) > 0]
        count = torch.tensor(float(len(kept)) + m.ceil(HALF) + 0 * w)
    return x * count


def under_other_managers(x):
    with on_cpu(), torch.no_grad():
        y = torch.from_numpy(x.numpy() ** 2)
    return y + x


def within_a_closure(x):
    scale = x.mean()

    def inner(y):
        with on_cpu():
            z = torch.from_numpy(y.numpy() * float(scale))
        return z + y

    return inner(x * 3)


@on_cpu()
def smallest(values, k: int = 1, *, sign: float = 1.0):
    """The smallest values of each row."""
    return torch.from_numpy(np.sort(values.numpy(), axis=1)[:, :k] * sign)


def calls_a_function(x):
    return smallest(x * 2, k=2, sign=-1.0) + smallest(x)


@on_cpu()
def both(values):
    return values.clone(), [torch.tensor(float(values.numpy().sum()))]


def calls_one_for_containers(x):
    copied, (total,) = both(x)
    return copied * total


PROGRAMS = [
    sums_what_is_large, sorts_rows, sets_one_anew, carries_through_a_loop, is_read_in_a_later_pass, gives_several,
    reads_containers, gives_nothing, within_a_branch, has_names_of_its_own, under_other_managers, within_a_closure,
    calls_a_function, calls_one_for_containers,
]  # fmt: skip


def _optimized(f, x):
    made = jitlite.optimize(f, (x,), "reference")
    assert made._dispatcher.not_prepared == ""
    return made


KINDS = {
    "python": jitlite.trace,
    "dispatcher": lambda f, x: jitlite.trace(f, (x,), level="dispatcher"),
    "functional": lambda f, x: jitlite.trace(f, (x,), level="dispatcher", functional=True),
    "fake": lambda f, x: jitlite.trace(f, (x,), level="dispatcher", fake=True),
    "rows": lambda f, x: jitlite.trace(f, (x,), level="dispatcher", dynamic_shapes={"x": [0]}),
    "optimized": _optimized,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_trace_runs_the_block_in_each_call(f, kind):
    x = torch.randn(4, 3)
    traced = KINDS[kind](f, x)
    for other in (x, torch.randn(4, 3), torch.full((4, 3), float("nan")), -x):
        torch.testing.assert_close(traced(other), f(other), equal_nan=True)
    if kind == "rows":
        longer = torch.randn(7, 3)
        torch.testing.assert_close(traced(longer), f(longer))
    if kind == "optimized":
        assert not traced._dispatcher.reasons


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.count = 2

    def forward(self, x):
        y = self.layer(x)
        with on_cpu():
            __best = np.argsort(y.detach().numpy(), axis=1)[:, : self.count]
            best = torch.from_numpy(__best.copy())
            bias = self.layer.bias.detach() + 1
        return y.gather(1, best).tanh() + bias[: self.count]


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_is_read_as_it_is_at_each_call(kind):
    net = Scaled().eval()
    x = torch.randn(4, 3)
    with torch.no_grad():
        traced = KINDS[kind](net, x)
        net.layer.bias.add_(3)
        torch.testing.assert_close(traced(x), net(x))


@pytest.mark.parametrize("kind", ["python", "dispatcher", "fake"])
def test_gradients_flow_around_and_through(kind):
    def f(x):
        y = x * 2
        with on_cpu():
            limit = float(y.detach().numpy().mean())
            z = y**2 if limit > 0 else y**3
        return (z + x).sum()

    traced = KINDS[kind](f, torch.ones(2, 2, requires_grad=True))
    for value in (1.5, -1.5):
        x, y = (torch.full((2, 2), value, requires_grad=True) for _ in range(2))
        (given,) = torch.autograd.grad(traced(x), x)
        (wanted,) = torch.autograd.grad(f(y), y)
        torch.testing.assert_close(given, wanted)


def test_a_trace_with_its_gradients_takes_what_needs_none():
    def f(x):
        with on_cpu():
            scale = torch.tensor(float(x.detach().numpy().max()))
        return (x * scale).sum()

    step = jitlite.trace(f, (torch.ones(3, requires_grad=True),), level="dispatcher", backward=True)
    result, (gradient,) = step(torch.tensor([1.0, 2.0, 5.0], requires_grad=True))
    assert result.item() == 40
    assert gradient.tolist() == [5, 5, 5]


def _returns(x):
    with on_cpu():
        return x + 1


def _breaks(x):
    for _ in range(2):
        with on_cpu():
            break
    return x


def _sets_an_attribute(x):
    with on_cpu():
        x.grad = x * 1
    return x


def _gives_a_number(x):
    with on_cpu():
        n = int(x.sum())
    return x * n


def _gives_a_view(x):
    with on_cpu():
        y = x[0]
    return y + x


def _gives_memory_of_numpy(x):
    with on_cpu():
        y = torch.from_numpy(x.numpy()[::2])
    return y + 1


def _gives_one_twice(x):
    with on_cpu():
        y = x + 1
        z = y[0]
    return y * z


def _writes(x):
    with on_cpu():
        x[0] = 1
    return x


def _writes_through_numpy(x):
    with on_cpu():
        x.numpy()[0] = 7
    return x


def _appends(x):
    found = []
    with on_cpu():
        found.append(x + 1)
    return found[0]


def _writes_a_global(x):
    global HALF
    with on_cpu():
        HALF = 0.5
    return x


def _carries_a_number(x):
    for i in range(3):
        with on_cpu():
            n = 1 if i == 0 else n + 1  # noqa: F821
            y = x * n
    return y


def _sets_a_mode(x):
    with on_cpu():
        torch.set_grad_enabled(False)
        y = x + 1
    return y


@pytest.fixture(autouse=True)
def _grad_mode_stays():
    with torch.enable_grad():
        yield


REFUSED = {
    _sets_a_mode: "sets the grad mode",
    _returns: "'return' leaves a block", _breaks: "'break' leaves a block",
    _sets_an_attribute: "sets the attribute grad",
    _gives_a_number: "leaves n to Python, a int", _gives_a_view: "y, which .* shares memory with what the block reads",
    _gives_memory_of_numpy: "shares memory with what the block reads", _gives_one_twice: "y, z, .* share memory",
    _writes: "writes what it is given", _writes_through_numpy: "writes what it is given",
    _appends: "writes what it is given", _carries_a_number: "leaves n to Python, a int",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["python", "dispatcher", "fake"])
@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__[1:])
def test_what_cannot_be_left_to_python_is_refused_with_its_line(f, kind):
    line = f.__code__.co_firstlineno
    with pytest.raises(jitlite.CompileError, match=REFUSED[f]) as info:
        KINDS[kind](f, torch.ones(4, 3))
    assert info.value.range is not None
    assert line < info.value.range.line <= line + 3
    assert info.value.hint
    assert jitlite.script(lambda x: x + 1)(torch.ones(1)) == 2  # and nothing is left behind


def test_a_block_that_needs_values_is_refused_on_fake_tensors():
    def f(x):
        with on_cpu():
            y = torch.tensor(float(np.linalg.inv(x.numpy()).sum()))
        return y * x

    with pytest.raises(jitlite.CompileError, match=r"does not run on tensors of ones: LinAlgError") as info:
        KINDS["fake"](f, torch.eye(2))
    assert "real tensors" in str(info.value)
    torch.testing.assert_close(KINDS["dispatcher"](f, torch.eye(2))(torch.eye(2) * 2), f(torch.eye(2) * 2))


def nonzero(x):
    with on_cpu():
        found = torch.from_numpy(np.flatnonzero(x.numpy() > 0))
    return x.flatten()[found]


def test_calls_check_sizes_and_dtypes():
    traced = KINDS["dispatcher"](nonzero, torch.ones(2, 2))
    with pytest.raises(ValueError, match="another size 0 than when traced, 4"):
        traced(torch.zeros(2, 2))

    def kinds(x):
        with on_cpu():
            y = torch.tensor(x.tolist() if x.numpy()[0] > 0 else [int(v) for v in x])
        return y * 2

    traced = KINDS["dispatcher"](kinds, torch.ones(2))
    with pytest.raises(ValueError, match="when traced"):
        traced(-torch.ones(2))
    traced = KINDS["python"](kinds, torch.ones(2))  # at Python's level operators take any dtype
    assert traced(-torch.ones(2)).dtype == torch.int64


def test_an_optimized_function_runs_as_it_was_for_other_sizes():
    fast = jitlite.optimize(nonzero, (torch.ones(2, 2),))
    for x in (torch.ones(2, 2), torch.zeros(2, 2), torch.eye(2)):
        torch.testing.assert_close(fast(x), nonzero(x))
    assert fast._dispatcher.reasons == {"the variant raised an error": 2}


def test_a_traced_block_is_refused_by_save_with_its_line(tmp_path):
    traced = jitlite.trace(sorts_rows, (torch.ones(4, 3),))
    with pytest.raises(jitlite.CompileError, match="test_on_cpu.py.*\n?.*'on_cpu'"):
        traced.save(str(tmp_path / "a.pt"))


def test_nothing_changes_outside_of_traces():
    x = torch.randn(4, 3)
    with on_cpu() as given:
        y = x[0]
    assert given is None
    assert y.data_ptr() == x.data_ptr()
    assert smallest.__name__ == "smallest"
    assert smallest.__doc__ == "The smallest values of each row."
    with pytest.raises(ZeroDivisionError), on_cpu():
        1 / 0  # noqa: B018


class Between(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        y = torch.relu(self.first(x)) * 2
        with on_cpu():
            z = torch.from_numpy(np.sort(y.numpy(), axis=1).copy())
        return torch.softmax(self.last(y + z), -1)


@pytest.mark.parametrize("engine", ["reference", "onnxruntime"])
def test_an_engine_runs_what_stands_before_and_behind(engine):
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    net = Between().eval()
    with torch.no_grad():
        fast = jitlite.optimize(net, torch.randn(5, 8), engine=engine, dynamic_shapes={"x": [0]})
        for n in (5, 3):
            x = torch.randn(n, 8)
            torch.testing.assert_close(fast(x), net(x))
    assert "2 calls: 8 of 9 operators on tensors" in fast.explain()


def test_a_block_within_another_is_part_of_it():
    def f(x):
        with on_cpu():
            y = x + 1
            with on_cpu():
                y = torch.from_numpy(y.numpy() * 2)
        return smallest(y) + both(x)[1][0]

    traced = KINDS["dispatcher"](f, torch.randn(4, 3))
    x = torch.randn(4, 3)
    torch.testing.assert_close(traced(x), f(x))
    assert [n.attributes["name"] for n in traced.graph.all_nodes() if n.kind == "prim::PythonOp"] == [
        "on_cpu", "smallest", "both",
    ]  # fmt: skip


def test_scripts_compile_the_block_and_call_the_function():
    @jitlite.script
    def f(x: torch.Tensor):
        with jitlite.on_cpu():
            y = x + 1
        return y * 2

    assert f(torch.ones(2)).tolist() == [4, 4]

    @on_cpu()
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)

    @jitlite.script
    def g(x: torch.Tensor):
        return doubled(x) + 1

    assert g(torch.ones(2)).tolist() == [3, 3]


def test_an_error_in_the_block_is_the_users():
    def f(x):
        with on_cpu():
            y = {"a": x}["b"] + 1
        return y

    with pytest.raises(KeyError):
        KINDS["dispatcher"](f, torch.ones(2))

    def g(x):
        with on_cpu():
            y = x + [1.0, 2.0][int(x.numpy()[0])]
        return y * 1

    traced = KINDS["dispatcher"](g, torch.ones(2))
    with pytest.raises(IndexError):
        traced(torch.full((2,), 5.0))


def test_a_back_end_without_calls_of_python_refuses_it():
    from jitlite.frontend.tracing.trace_backend import TraceBackend

    class Counting(TraceBackend):
        def add_input(self, name, example):
            return name

        def add_parameter(self, name, tensor, kind):
            return name

        def add_constant(self, tensor):
            return "constant"

        def add_output(self, value):
            pass

        def fallback(self, op, args, results):
            return [str(op)] * len(results)

        def finalize(self):
            return 1

    with pytest.raises(jitlite.CompileError, match="Counting has no calls of Python"):
        jitlite.trace(sorts_rows, (torch.ones(4, 3),), level="dispatcher", backend=Counting(), check_trace=False)
