"""`torch.compile(backend="jitlite")`: what it gives is what eager gives, for models as a whole and for each promise."""

from __future__ import annotations

import copy
import gc
import math
import os
import re
import subprocess
import sys
import textwrap
import threading
import weakref
from configparser import ConfigParser
from pathlib import Path
from typing import Any, List, Sequence

import pytest
import torch
from compiled_models import MODELS, example
from torch import Tensor, nn

import jitlite.api.torch_compile
from jitlite.api.torch_compile import Options, Report, backend, last_report
from jitlite.debug.equality import difference

ROOT = Path(__file__).parents[2]
FAST = ("mlp", "transformer block", "counting", "graph break", "views", "in place")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """Nothing is left to, or by, other tests."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    torch.set_grad_enabled(True)


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=backend, **options)


class Counted:
    """The backend, with a count of the graphs it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, gm: Any, inputs: Any) -> Any:
        self.graphs += 1
        return backend(gm, inputs)


# -- models ------------------------------------------------------------------------------------------------------------


def tensors_of(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for part in value for t in tensors_of(part)] if isinstance(value, list | tuple) else []


def trained(module: nn.Module, run: Any, batches: list[Any]) -> list[Any]:
    """What some steps of training give and leave behind."""
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1) if parameters else None
    seen: list[Any] = []
    torch.manual_seed(5)
    for batch in batches:
        result = run(*batch)
        loss = sum((t.float() * t.float().detach().cos()).sum() for t in tensors_of(result) if t.requires_grad)
        loss.backward()
        leaves = [t for t in tensors_of(list(batch)) if t.requires_grad]
        seen += [result, [p.grad.clone() for p in parameters if p.grad is not None], [t.grad for t in leaves]]
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
    return [*seen, {name: t.clone() for name, t in module.state_dict().items()}]


def close(expected: Any, got: Any) -> str | None:
    """Where the two differ by more than rounding, which is relative to the largest element: sums may cancel out."""
    ours, theirs = tensors_of(got), tensors_of(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} tensors, expected {len(theirs)}"
    for number, (o, t) in enumerate(zip(ours, theirs, strict=True)):
        if (o.shape, o.dtype, o.requires_grad) != (t.shape, t.dtype, t.requires_grad):
            return f"tensor {number}: {o.shape} {o.dtype}, expected {t.shape} {t.dtype}"
        scale = max(1.0, t.abs().max().item()) if t.is_floating_point() and t.numel() else 1.0
        if not torch.allclose(o, t, rtol=1e-4, atol=1e-5 * scale, equal_nan=True):
            return f"tensor {number}: {(o - t).abs().max()} apart"
    return None


def check_model(name: str) -> None:
    model = MODELS[name]
    torch.manual_seed(0)
    eager = model.build()
    ours = copy.deepcopy(eager)
    sizes = (3, 2, 5) if model.is_dynamic else (3, 3, 3)
    batches = [model.inputs(n) for n in sizes]
    copies = [[_copied(a) for a in batch] for batch in batches]

    run = compiled(ours, dynamic=model.is_dynamic)
    expected, got = trained(eager.train(), eager, batches), trained(ours.train(), run, copies)
    assert close(expected, got) is None, (name, close(expected, got))

    eager.eval(), ours.eval()
    for context in (torch.no_grad, torch.inference_mode) if name == "mlp" else (torch.no_grad,):
        with context():
            torch.manual_seed(6)
            wanted = [eager(*[_copied(a) for a in batch]) for batch in batches]
            torch.manual_seed(6)
            found = [run(*[_copied(a) for a in batch]) for batch in batches]
        assert close(wanted, found) is None, (name, context, close(wanted, found))
    assert close(eager.state_dict(), ours.state_dict()) is None, name


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_models_train_and_infer_as_in_eager(name):
    check_model(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in MODELS if n not in FAST])
def test_other_models_train_and_infer_as_in_eager(name):
    check_model(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["detector", "language_model", "mobilenet", "resnet", "transformer"])
def test_the_example_models_train_as_in_eager(name):
    found = example(name)
    training = example("training")
    adam = name in ("language_model", "transformer")
    losses = [
        training.losses(module, found.batches(), found.loss_of, adam)
        for module in (found.build(), compiled(found.build()))
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


# -- how torch finds it ------------------------------------------------------------------------------------------------


def test_torch_finds_it_by_name_without_importing_jitlite(tmp_path):
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    entries = setup["options.entry_points"]["torch_dynamo_backends"]
    installed = tmp_path / "jitlite-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: jitlite\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{entries.strip()}\n")
    program = """
        import sys, torch
        assert "jitlite" in torch._dynamo.list_backends()
        assert "jitlite" not in sys.modules
        run = torch.compile(lambda x: x.sin() + 1, backend="jitlite", options={"partitioner": "min_cut"})
        x = torch.ones(3, requires_grad=True)
        y = run(x)
        y.sum().backward()
        assert torch.equal(y, x.sin() + 1) and torch.equal(x.grad, x.cos())
        reports = sys.modules["jitlite.backend"].last_report()
        assert [r.kind for r in reports] == ["forward", "backward"], reports
    """
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=True,
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"decomposition": {}}, "no option 'decomposition'; did you mean 'decompositions'"),
        ({"colour": 1}, "there are decompositions, lowerings"),
        ({"partitioner": "best"}, "expected one of default, min_cut"),
        ({"decompositions": "all"}, "expected a table, or 'core_aten'"),
        ({"decompositions": [torch.sin]}, "expected a dict of functions by OpOverload"),
        ({"decompositions": {"aten::sin": torch.sin}}, "'aten::sin' is not an operator"),
        ({"lowerings": {"aten::sin": torch.sin}}, "'aten::sin' is not an operator"),
        ({"lowerings": {torch.ops.aten.sin: 3}}, "lowerings[aten.sin]=3: expected a function"),
        ({"report": 3}, "report=3: expected a function of a Report"),
        ({"optimize": "no"}, "optimize='no': expected True or False"),
        ({3: 4}, "no option 3; there are"),
        (["optimize"], "expected a dict"),
    ],
)
def test_options_that_are_none_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        jitlite.backend.Options.of(options)


def test_options_that_are_left_open():
    assert jitlite.backend.Options.of(dict.fromkeys(("lowerings", "report", "decompositions"))) == Options()


def test_what_is_no_graph_is_refused():
    with pytest.raises(TypeError, match="takes a graph module, not a function; compile functions and modules with"):
        backend(lambda x: x, [torch.ones(1)])


def test_modes_are_refused():
    with pytest.raises(Exception, match="no mode 'reduce-overhead'; leave it out"):
        torch.compile(lambda x: x + 1, backend=backend, mode="reduce-overhead")(torch.ones(1))


# -- nothing is copied -------------------------------------------------------------------------------------------------


def allocations(run: Any, *args: Any) -> int:
    """How often a call asks for memory."""
    run(*args)
    with torch.profiler.profile(profile_memory=True) as profile:
        run(*args)
    found = 0
    for event in profile.profiler.kineto_results.events():
        found += event.name() == "[memory]" and event.nbytes() > 0
    return found


def test_results_are_the_memory_of_arguments_and_parameters():
    linear = nn.Linear(4, 4)

    def f(x, w):
        return x.view(2, 2), x, w.t(), x[1:3], linear.weight, linear(x)

    run = compiled(f)
    x, w = torch.ones(4), torch.ones(2, 3)
    with torch.no_grad():
        view, same, transposed, part, weight, y = run(x, w)
    assert view.data_ptr() == same.data_ptr() == x.data_ptr() and transposed.data_ptr() == w.data_ptr()
    assert part.data_ptr() == x[1:].data_ptr()
    assert same is x and weight is linear.weight
    assert torch.equal(y, linear(x))
    view[0, 0] = 7
    assert x[0] == 7


def test_kernels_get_the_very_tensors():
    seen: list[int] = []

    def probe(x: Tensor, y: Tensor) -> Tensor:
        seen.extend((x.data_ptr(), y.data_ptr()))
        return x + y

    parameter = nn.Parameter(torch.ones(3))
    run = compiled(lambda x: torch.atan2(x, parameter), options={"lowerings": {torch.ops.aten.atan2: probe}})
    x = torch.ones(3)
    run(x).sum()
    assert seen == [x.data_ptr(), parameter.data_ptr()]


def test_a_call_allocates_no_more_than_eager_does():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.Softmax(-1))
    x = torch.randn(4, 8)
    with torch.no_grad():
        assert 0 < allocations(compiled(module), x) <= allocations(module, x)

    def step(run: Any) -> Any:
        def call(x: Tensor) -> None:
            run(x).square().sum().backward()
            module.zero_grad()

        return call

    assert 0 < allocations(step(compiled(module)), x) <= allocations(step(module), x)


def test_arguments_are_forgotten_after_their_last_use():
    gone: list[bool] = []

    def probe(x: Tensor) -> Tensor:
        gone.append(first() is None)
        return x * 2

    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x, y: (x + y).sin() * y)(torch.ones(2), torch.ones(2))
    options = jitlite.backend.Options(lowerings={torch.ops.aten.sin.default: probe})
    run = jitlite.backend.compile_graph(gm, "inference", options)
    arguments = [torch.ones(2), torch.ones(2)]
    first = weakref.ref(arguments[0])
    assert torch.equal(run(arguments)[0], torch.full((2,), 4.0))
    assert gone == [True] and arguments == []


def test_compiled_code_goes_with_the_function():
    run = compiled(lambda x: x.cos() + 1)
    run(torch.ones(2))
    (report,) = last_report()
    assert "cos" in report.source
    del run
    torch._dynamo.reset()
    gc.collect()
    assert report.source == ""


# -- mutation, outputs, sizes ------------------------------------------------------------------------------------------


def alike(function: Any, make: Any, **options: Any) -> list[Report]:
    """Check that a function gives, and does to its arguments, what it does in eager; gives the reports."""
    reports: list[Report] = []
    torch.manual_seed(1)
    ours, theirs = make(), make_again(make)
    torch.manual_seed(2)
    got = compiled(function, options={"report": reports.append}, **options)(*ours)
    torch.manual_seed(2)
    expected = function(*theirs)
    assert difference(expected, got) is None
    assert difference(theirs, ours, "arguments") is None
    return reports


def make_again(make: Any) -> Any:
    torch.manual_seed(1)
    return make()


def test_arguments_that_are_written():
    def f(x, y, z):
        x.add_(1)
        y[:2].mul_(x[0])
        z.t_().zero_()
        return x * 2, y

    alike(f, lambda: (torch.randn(3), torch.randn(4), torch.randn(2, 3)))


def test_arguments_that_share_memory_and_are_written():
    def f(x, y):
        x.mul_(2)
        return x + y

    base = torch.ones(4)
    assert torch.equal(compiled(f)(base[:3], base[1:]), torch.tensor([4.0, 4.0, 3.0]))
    assert torch.equal(base, torch.tensor([2.0, 2.0, 2.0, 1.0]))


def test_results_of_every_kind():
    def f(x, n, none):
        y = x + n
        return y, y, x, none, 3, (y, [x, "a"]), {"k": y.sum()}, torch.ones(2), torch.float32, x.shape, y.view(-1)[0]

    run = compiled(f)
    x = torch.ones(2, 2)
    got = run(x, 2.5, None)
    assert difference(f(x, 2.5, None), got) is None
    assert got[0] is got[1] and got[2] is x
    assert compiled(lambda x: None)(x) is None and compiled(lambda: 5)() == 5


@pytest.mark.parametrize("mark", [False, True])
def test_one_graph_for_all_sizes(mark):
    def f(x):
        n = x.shape[0] * 2 + x.shape[0] // 3
        return x.new_zeros(n) + math.sqrt(n), x.view(3, -1), x.repeat(2, 1)[: x.shape[0]], n, n / 2, x * x.shape[0]

    run = compiled(f, dynamic=None if mark else True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n in (4, 5, 7, 11):
            x = torch.randn(n, 3)
            if mark:
                torch._dynamo.mark_dynamic(x, 0)
            assert difference(f(x), run(x)) is None


def test_kinds_of_numbers_modes_and_empty_tensors():
    def f(x, i, m, e):
        z = torch.view_as_complex(x.unflatten(0, (-1, 2))) * 2j
        with torch.no_grad():
            frozen = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = x.view(2, 2) @ x.view(2, 2)
        numbers = i // 4, i % 4, i << 2, m & (i > 2), ~m, i.float() / 3, i.masked_fill(m, 0)
        random = torch.rand(2), torch.randint(0, 5, (3,)), torch.nn.functional.dropout(x, 0.5), torch.randperm(4)
        return z, frozen, low, numbers, random, e.sum(0), torch.cat([e, e]), e @ e.t()

    alike(f, lambda: (torch.randn(4), torch.arange(6), torch.tensor([True, False] * 3), torch.randn(0, 3)))


# -- regions -----------------------------------------------------------------------------------------------------------


def test_cond_is_an_if():
    def f(p, x, y):
        return torch.cond(p, lambda x, y: (x.sin() + y, x * 1), lambda x, y: (x - y, y.cos()), (x, y))

    reports: list[Report] = []
    run = compiled(f, options={"report": reports.append})
    for p in (True, False):
        arguments = torch.tensor(p), torch.randn(3), torch.randn(3)
        assert difference(f(*arguments), run(*arguments)) is None
    (report,) = reports
    assert "if bool(" in report.source and "else:" in report.source and not report.eager


def test_cond_has_gradients():
    def f(p, x):
        return torch.cond(p, lambda x: x.sin(), lambda x: x * x, (x,))

    for p in (True, False):
        x = torch.randn(3, requires_grad=True)
        (expected,) = torch.autograd.grad(f(torch.tensor(p), x).sum(), x)
        (got,) = torch.autograd.grad(compiled(f)(torch.tensor(p), x).sum(), x)
        assert torch.allclose(expected, got)


def test_while_loop_is_a_loop():
    while_loop = torch._higher_order_ops.while_loop

    def f(i, x, y):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2 + y), (i, x))

    reports: list[Report] = []
    run = compiled(f, options={"report": reports.append})
    for start in (0, 4, 9):
        arguments = torch.tensor(start), torch.ones(2), torch.ones(2)
        i, x = run(*arguments)
        rounds = max(0, 5 - start)
        assert i == max(5, start) and torch.equal(x, torch.full((2,), 2.0 ** (rounds + 1) - 1))
        assert x is not arguments[1] and x.data_ptr() != arguments[1].data_ptr()
    assert "while" in reports[0].source and not reports[0].eager


# -- how operators are found -------------------------------------------------------------------------------------------


@torch.library.custom_op("jitlite_test::scaled", mutates_args=())
def scaled(x: Tensor, factors: Sequence[float], how: str = "up") -> List[Tensor]:
    return [x * f for f in factors]


@scaled.register_fake
def _(x, factors, how="up"):
    return [torch.empty_like(x) for _ in factors]


@torch.library.custom_op("jitlite_test::bump", mutates_args=("x",))
def bump(x: Tensor) -> None:
    x.add_(1)


def found_in(reports: list[Report], target: str) -> set[str]:
    return {lookup.how for report in reports for lookup in report.lookups if lookup.target == target}


def test_custom_operators():
    def f(x):
        y = x * 2
        bump(x)
        bump(y)
        return scaled(y, [1.0, 2.5])[1], y

    reports = alike(f, lambda: (torch.randn(3),))
    assert found_in(reports, "jitlite_test.scaled.default") == {"exact"}
    (eager,) = reports[0].eager
    assert eager.target.startswith("auto_functionalized") and "higher order" in eager.why


def test_the_order_in_which_operators_are_found():
    aten = torch.ops.aten

    def f(x):
        return torch.logit(x), x.sinc(), x + 1, x.erf()

    def sinc(x):
        return torch.where(x == 0, 1.0, (torch.pi * x).sin() / (torch.pi * x))

    seen: list[str] = []

    def lowering(name: str, function: Any) -> Any:
        def call(*args: Any) -> Any:
            seen.append(name)
            return function(*args)

        return call

    reports: list[Report] = []
    options = {
        "decompositions": {aten.sinc: sinc},
        "lowerings": {
            aten.erf: lowering("packet", torch.erf),
            aten.logit.default: lowering("overload", torch.logit),
            aten.logit: lowering("never", torch.logit),
        },
        "report": reports.append,
    }
    x = torch.rand(3)
    got = compiled(f, options=options)(x)
    assert seen == ["overload", "packet"]
    assert all(torch.allclose(a, b) for a, b in zip(f(x), got, strict=True))
    ways = {"aten.logit.default": {"exact"}, "aten.erf.default": {"packet"}, "aten.add.Tensor": {"packet"}}
    assert {name: found_in(reports, name) for name in ways} == ways
    assert found_in(reports, "aten.sinc.default") == {"decomposition"}
    assert "aten.sinc.default" in str(reports[0]) and "calls:" in str(reports[0])


def test_decompositions_of_the_core():
    run = compiled(torch.nn.functional.hardswish, options={"decompositions": "core_aten"})
    x = torch.randn(5)
    assert torch.allclose(run(x), torch.nn.functional.hardswish(x))
    assert not any("hardswish" in lookup.target for lookup in last_report()[0].lookups)


# -- other users -------------------------------------------------------------------------------------------------------


def test_errors_are_those_of_eager_and_name_the_line():
    def f(i, w):
        return torch.nn.functional.embedding(i, w) + 1

    run = compiled(f)
    run(torch.tensor([0]), torch.ones(3, 2))
    with pytest.raises(IndexError) as caught:
        run(torch.tensor([7]), torch.ones(3, 2))
    assert Path(__file__).name in last_report()[0].source
    frames = [entry.path for entry in caught.traceback]
    assert any("inference" in str(path) for path in frames)


def test_threads():
    run = compiled(lambda x: (x @ x).relu().sum())
    found: list[Any] = [None] * 4

    def work(number: int) -> None:
        x = torch.full((3, 3), float(number))
        found[number] = [run(x).item() for _ in range(3)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[27.0 * n * n] * 3 for n in range(4)]


def test_the_stack_machine_runs_graphs_too():
    with jitlite.options.override(tier="stack", verify=True):
        reports = alike(lambda x: (x.sin(), x.split(2)), lambda: (torch.randn(6),))
    assert reports[0].source == ""


def test_long_graphs():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    for _ in range(1000):
        x = graph.call_function(torch.ops.aten.mul.Tensor, (x, 0.5))
        x = graph.call_function(torch.ops.aten.add.Tensor, (x, 0.5))
    graph.output((x,))
    run = jitlite.backend.compile_graph(torch.fx.GraphModule({}, graph))
    assert torch.allclose(run([torch.zeros(2)])[0], torch.ones(2))


def test_graph_breaks_and_python_between_them():
    def f(x):
        y = x.sin()
        if y.sum() > 0:
            y = y + 1
        return y.tolist(), y * 2

    counted = Counted()
    run = torch.compile(f, backend=counted)
    for x in (torch.ones(2), -torch.ones(2)):
        assert difference(f(x), run(x)) is None
    assert counted.graphs > 1
