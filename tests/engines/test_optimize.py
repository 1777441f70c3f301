"""`jitlite.optimize`: what an engine runs, what runs as it was, and that nobody can tell but by rounding."""

from __future__ import annotations

import copy
import io
import pickle
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import List  # noqa: UP035

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.base import options
from jitlite.engines.engine import CompiledGroup, Engine, EngineRefusal, Operand, OperatorSet
from jitlite.engines.running import EngineWarning
from jitlite.ir.graph import Graph, Node
from jitlite.ir.types import TensorType
from jitlite.objects.function import function_of_graph


class Recording(Engine):
    """Runs groups as functions; fails when it is told to."""

    name = "recording"
    least = 1

    def __init__(self, fail_at: int | None = None, fail_compile: bool = False, refuse: bool = False) -> None:
        self.fail_at, self.fail_compile, self.refuse = fail_at, fail_compile, refuse
        self.graphs: list[Graph] = []
        self.calls = 0

    def supports(self, node: Node) -> str | None:
        if node.kind in ("prim::ListConstruct", "aten::size"):
            return None
        makes = any(isinstance(v.type, TensorType) for v in node.outputs)
        if not makes or node.op is None or node.op.fn is None or node.op.schema.is_mutable:
            return "it computes no tensor"
        return None

    def compile(self, graph: Graph) -> CompiledGroup:
        if self.refuse:
            raise EngineRefusal("it refuses everything")
        if self.fail_compile:
            raise RuntimeError("the compiler broke")
        self.graphs.append(graph)
        run = function_of_graph("group", graph.copy())

        def call(inputs: Sequence[Operand]) -> Sequence[Operand]:
            self.calls += 1
            if self.calls == self.fail_at:
                raise RuntimeError("the engine broke")
            found = run(*inputs)
            return list(found) if isinstance(found, tuple) else [found]

        return call


class PlainEngine(Engine):
    name = "plain"

    def supports(self, node: Node) -> str | None:
        return "it knows nothing"


class Scripts(Recording):
    """The same for the operators of the script."""

    operators = OperatorSet.ANY


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.conv(x)))
        x = self.pool(x).mean([2, 3])
        return self.head(self.drop(x))


def inputs(batch: int) -> Tensor:
    return torch.randn(batch, 3, 12, 12)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def check(fast: Callable[..., object], model: Callable[..., object], *args: object) -> None:
    torch.testing.assert_close(fast(*args), model(*args))


@pytest.mark.parametrize("kind", ["plain", "script", "trace", "loaded"])
def test_all_kinds_of_modules(net, kind):
    def loaded() -> object:
        buffer = io.BytesIO()
        jitlite.save(jitlite.script(net), buffer)
        buffer.seek(0)
        return jitlite.load(buffer).eval()

    made = {
        "plain": lambda: net, "script": lambda: jitlite.script(net), "trace": lambda: jitlite.trace(net, inputs(2)),
        "loaded": loaded,
    }  # fmt: skip
    engine = Recording()
    fast = jitlite.optimize(made[kind](), inputs(2), engine=engine, dynamic_shapes={"x": [0]})
    with torch.no_grad():
        for batch in (2, 3, 5):
            check(fast, net, inputs(batch))
    told = fast.explain()
    assert engine.calls >= 3 and "raised an error" not in told and "the model as it was" not in told
    kinds = [n.kind for g in engine.graphs for n in g.all_nodes()]
    assert {"aten::convolution", "aten::relu", "aten::addmm"} <= set(kinds) and "aten::relu_" not in kinds


def test_a_script_is_grouped_as_its_module_is(net):
    def share(model: nn.Module) -> str:
        fast = jitlite.optimize(model, inputs(2), engine=Recording(), dynamic_shapes={"x": [0]})
        return next(line.partition(": ")[2] for line in fast.explain().splitlines() if "operators on tensors" in line)

    assert share(jitlite.script(net)) == share(net)


def test_one_compilation_for_all_batch_sizes(net):
    engine = Recording()
    fast = jitlite.optimize(net, inputs(2), engine=engine, dynamic_shapes={"x": [0]})
    with torch.no_grad():
        check(fast, net, inputs(2))
        compiled = len(engine.graphs)
        for batch in (2, 3, 4, 5, 9):
            check(fast, net, inputs(batch))
        assert fast.counters.compiled == len(engine.graphs) == compiled
        check(fast, net, inputs(1))  # a size of 1 is a case of its own
        compiled = len(engine.graphs)
        check(fast, net, inputs(1))
    assert len(engine.graphs) == compiled


def test_sizes_that_are_not_said_to_vary_make_another_variant(net):
    fast = jitlite.optimize(net, inputs(2), engine=Recording())
    with torch.no_grad():
        check(fast, net, inputs(2))
        check(fast, net, inputs(3))
    assert fast.explain().count("a variant") == 2


@pytest.mark.without_engine
def test_gradients_training_and_modes_run_the_model_as_it_was(net):
    engine = Recording()
    fast = jitlite.optimize(net, inputs(2), engine=engine)
    x = inputs(2)
    fast(x).sum().backward()
    assert net.head.weight.grad is not None and engine.calls == 0
    with torch.no_grad(), torch.autocast("cpu"):
        assert fast(x).dtype is net(x).dtype
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(fast)(x[None]), torch.vmap(net)(x[None]))
        fast.train()
        assert net.training and net.drop.training
        torch.manual_seed(1)
        found = fast(x)
        torch.manual_seed(1)
        fast.eval()
        net.train()
        torch.testing.assert_close(found, net(x), rtol=1e-3, atol=1e-3)
        net.eval()
    assert engine.calls == 0
    told = fast.explain()
    assert all(text in told for text in ("gradients are recorded", "autocast", "training mode"))


def test_it_is_told_why_the_examples_have_no_variant():
    with torch.autocast("cpu"):
        fast = jitlite.optimize(nn.Linear(4, 3).eval(), (torch.ones(2, 4),), engine="reference")
    assert "the examples have no variant: it was called under autocast" in fast.explain()
    assert (
        "the examples" not in jitlite.optimize(nn.Linear(4, 3).eval(), torch.ones(2, 4), engine="reference").explain()
    )


def test_parameters_are_those_of_the_model(net):
    engine = Recording()
    fast = jitlite.optimize(net, inputs(2), engine=engine)
    assert list(fast.state_dict()) == list(net.state_dict())
    assert fast.head.weight is net.head.weight
    with torch.no_grad():
        net.head.weight.add_(1)
        check(fast, net, inputs(2))
        net.head.weight = nn.Parameter(torch.zeros(4, 8))
        check(fast, net, inputs(2))
        net.double()
        check(fast, net, inputs(2).double())


def test_copies_and_pickles(net):
    fast = jitlite.optimize(net, inputs(2), engine="reference")
    copied = copy.deepcopy(fast)
    with torch.no_grad():
        net.head.bias.add_(1)
        assert not torch.equal(copied(x := inputs(2)), fast(x))
        check(fast, net, x)
    linear = nn.Linear(2, 2).requires_grad_(False).eval()
    plain = jitlite.optimize(linear, torch.ones(1, 2), engine=PlainEngine())
    read = pickle.loads(pickle.dumps(plain))
    check(read, linear, torch.ones(1, 2))
    assert "a variant" in read.explain()


def test_archives_hold_the_model_as_it_was(net, tmp_path):
    fast = jitlite.optimize(jitlite.script(net), inputs(2), engine="reference")
    fast.save(str(tmp_path / "net.pt"))
    x = inputs(2)
    torch.testing.assert_close(jitlite.load(str(tmp_path / "net.pt"))(x), net(x))


class Odd(nn.Module):
    """What one of its ways does can be seen."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.calls = 0
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> object:
        self.calls += 1
        y = torch.tanh(x * 2) + 1
        if self.way == "writes":
            x.add_(1)
        if self.way == "counts":
            self.count.add_(1)
        if self.way == "draws":
            y = y + torch.rand(3)
        if self.way == "prints":
            print("called")
        if self.way == "view":
            return y, x.view(-1)
        if self.way == "two":
            return y, y.view(-1)
        return y.max(0) if self.way == "named" else y * 2


@pytest.mark.without_engine
@pytest.mark.parametrize("way", "writes counts draws prints view two named".split())
def test_what_can_be_seen_is_left_to_the_model(way, capsys):
    engine = Recording()
    ours, theirs = Odd(way).eval(), Odd(way).eval()
    x = torch.ones(3)
    torch.manual_seed(0)
    fast = jitlite.optimize(ours, x, engine=engine)
    assert torch.equal(x, torch.ones(3)) and ours.calls == 0 and torch.equal(ours.count, theirs.count)
    capsys.readouterr()
    with torch.no_grad():
        results, given = [], []
        for call in (fast, theirs):
            torch.manual_seed(1)
            given.append(torch.ones(3))
            results.append((call(given[-1]), capsys.readouterr().out))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert type(results[0][0]) is type(results[1][0]) and torch.equal(*given) and torch.equal(ours.count, theirs.count)
    assert engine.calls == 0 and "no variant" in fast.explain()


@pytest.mark.without_engine
def test_hooks_lists_and_layouts():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).eval().requires_grad_(False)
    fast = jitlite.optimize(net, torch.ones(2, 3), engine=Recording())
    net[0].register_forward_hook(lambda module, given, result: result * 2)
    check(fast, net, torch.ones(2, 3))

    class Layouts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scale = 2 if x.is_contiguous() else 3
            return x * (scale if torch.is_grad_enabled() else scale + 10)

    model = Layouts().eval()
    fast = jitlite.optimize(model, torch.ones(3, 3), engine=Recording(), dynamic_shapes=True)
    for x in (torch.ones(3, 3), torch.ones(4, 3).t()):
        check(fast, model, x)
        with torch.no_grad():
            check(fast, model, x)


def test_threads_may_call_the_model_while_variants_are_made(net):
    fast = jitlite.optimize(net, inputs(2), engine=Recording(), dynamic_shapes={"x": [0, 2, 3]})
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            with torch.no_grad():
                for batch in (1, 2, 3):
                    x = torch.randn(batch, 3, 8 + seed, 8)
                    check(fast, net, x)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and all(type(p) is nn.Parameter for p in net.parameters())


@pytest.mark.parametrize("told", [
    {"dynamic_shapes": {"y": [0]}}, {"dynamic_shapes": {"x": [7]}}, {"deny": ["conv2d"]}, {"allow": ["aten::conv2d@x"]},
], ids=["name", "dimension", "kind", "number"])  # fmt: skip
def test_what_is_said_has_to_fit(net, told):
    with pytest.raises(ValueError, match="parameter|dimensions|kind of node"):
        jitlite.optimize(net, inputs(2), engine="reference", **told)


# -- engines that fail


def chain(x: Tensor, y: Tensor) -> Tensor:
    z = torch.tanh(x * y) + x
    if z.dim() > 5:
        z = z * 2
    return torch.relu(z) - y


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(Recording(fail_at=1), id="first call"),
        pytest.param(Recording(fail_at=3), id="third call"),
        pytest.param(Recording(fail_compile=True), id="compiling", marks=pytest.mark.without_engine),
    ],
)
def test_a_failure_runs_the_graph_and_warns_once(engine):
    fast = jitlite.optimize(chain, (torch.ones(2), torch.ones(2)), engine=engine, dynamic_shapes=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(5):
            x, y = torch.randn(3), torch.randn(3)
            check(fast, chain, x, y)
    assert [w.category for w in told] == [EngineWarning] * fast.counters.fallbacks
    assert "broke" in str(told[0].message) and "recording" in str(told[0].message)
    assert fast.counters.fallbacks == fast.explain().count("run as a graph")
    assert "run as a graph" in fast.explain()


@pytest.mark.without_engine
def test_a_refusal_is_no_warning():
    fast = jitlite.optimize(chain, (torch.ones(2), torch.ones(2)), engine=Recording(refuse=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(fast, chain, torch.randn(2), torch.randn(2))
    assert "it refuses everything" in fast.explain()


@pytest.mark.without_engine
def test_errors_of_engines_can_be_raised():
    fast = jitlite.optimize(chain, (torch.ones(2), torch.ones(2)), engine=Scripts(fail_at=1))
    with options.override(engine_errors="raise"):
        check(fast, chain, torch.ones(2), torch.ones(2))  # the model as it was takes over, as for any error
    assert "raised an error" in fast.explain()


@pytest.mark.filterwarnings("error::jitlite.engines.running.EngineWarning")
def test_errors_are_those_of_eager():
    fast = jitlite.optimize(chain, (torch.ones(2), torch.ones(2)), engine=Recording(), dynamic_shapes=True)
    with pytest.raises(RuntimeError, match=r"must match the size"):
        fast(torch.ones(2), torch.ones(3))
    check(fast, chain, torch.ones(3), torch.ones(3))
    assert fast.counters.runs and "run as a graph" not in fast.explain()


def test_arguments_that_raise_decide_nothing_about_others(net):
    """No variant can be made for them; one is made for the next arguments of the kind."""
    fast = jitlite.optimize(net, inputs(2), engine=Recording(), dynamic_shapes={"x": [0, 1]})
    with torch.no_grad():
        net.head.register_buffer("unused", torch.ones(1))  # what was made for the examples is gone
        with pytest.raises(RuntimeError, match="channels"):
            fast(torch.randn(2, 5, 12, 12))
        check(fast, net, inputs(3))
    assert fast.counters.runs and fast.explain().count("no variant") == 0, fast.explain()


# -- what may be in groups


def test_allow_and_deny():
    x = torch.ones(2)
    engine = Recording()
    fast = jitlite.optimize(chain, (x, x), engine=engine, deny=["aten::tanh"])
    check(fast, chain, x, x)
    assert not any(n.kind == "aten::tanh" for g in engine.graphs for n in g.all_nodes())
    assert "aten::tanh, 1 time: it is denied" in fast.explain()
    engine = Recording()
    fast = jitlite.optimize(chain, (x, x), engine=engine, allow=["aten::mul@1"])
    check(fast, chain, x, x)
    assert [n.kind for g in engine.graphs for n in g.all_nodes() if n.kind != "prim::Constant"] == ["aten::mul"]


def test_names_of_engines():
    with pytest.raises(ValueError, match="did you mean 'reference'"):
        jitlite.optimize(chain, (torch.ones(2), torch.ones(2)), engine="referense")


# -- programs of scripts, whose order of effects is kept


def prints(x: Tensor, n: int) -> Tensor:
    y = x * 2
    print(y.sum())
    for i in range(n):
        y = torch.sin(y) + i
        if bool(y.sum() > 3):
            print("large")
            y = y / 2
    return y - x


def writes(x: Tensor, y: Tensor) -> Tensor:
    z = x + y
    z[0] = 7
    x.add_(z)
    w = torch.relu(x) * z
    z.mul_(2)
    return w + z


def lists(x: Tensor) -> List[Tensor]:
    parts = [x * i for i in range(3)]
    parts.append(torch.cat(parts))
    return [torch.tanh(p) + 1 for p in parts]


def raises(x: Tensor) -> Tensor:
    y = x * 2 + 1
    assert y.sum() < 100, "too large"
    return torch.log(y) + y


@pytest.mark.parametrize("engine", [lambda: "reference", Scripts], ids=["reference", "functions"])
@pytest.mark.parametrize(
    ("f", "args"),
    [
        (prints, lambda: (torch.ones(2), 4)), (writes, lambda: (torch.ones(3), torch.arange(3.0))),
        (lists, lambda: (torch.ones(2),)), (raises, lambda: (torch.ones(2),)), (raises, lambda: (torch.ones(200),)),
    ],
    ids=["prints", "writes", "lists", "passes", "raises"],
)  # fmt: skip
def test_effects_keep_their_order(engine, f, args, capsys):
    fast = jitlite.optimize(f, args(), engine=engine())
    capsys.readouterr()

    def observed(call: Callable[..., object]) -> tuple[object, ...]:
        given = args()
        try:
            result: object = call(*given)
        except Exception as error:
            result = type(error), str(error).splitlines()[-1]
        return result, given, capsys.readouterr().out

    expected, found = observed(f), observed(fast)
    torch.testing.assert_close(found[:2], expected[:2]) if not isinstance(expected[0][0], type) else None
    assert found[2].replace("tensor", "") == expected[2].replace("tensor", "")


@pytest.mark.without_engine
@pytest.mark.parametrize("given", [None, [], 3], ids=["none", "too few", "no sequence"])
def test_an_engine_that_gives_what_it_must_not_is_done_without(net, given):
    class Wrong(Recording):
        def compile(self, graph: Graph) -> CompiledGroup:
            return lambda inputs: given

    x = inputs(2)
    fast = jitlite.optimize(net, x, engine=Wrong())
    with torch.no_grad(), pytest.warns(EngineWarning, match="the engine gave"):
        torch.testing.assert_close(fast(x), net(x))


class RefusesLong(Engine):
    """Runs graphs, but none that is given a long tensor."""

    name = "refuses long"
    least = 1

    def supports(self, node):
        return None if node.kind == "aten::neg" else "it knows aten::neg only"

    def compile(self, graph):
        def run(inputs):
            if inputs[0].numel() > 3:
                raise EngineRefusal(f"in this call there are {inputs[0].numel()} elements")
            return [torch.neg(x) for x in inputs]

        return run


def test_explain_tells_why_single_calls_were_refused():
    def f(x: Tensor) -> Tensor:
        return torch.neg(x)

    fast = jitlite.optimize(f, torch.ones(3), engine=RefusesLong(), dynamic_shapes={"x": [0]})
    for n in (2, 5, 3, 5, *range(10, 30)):
        assert torch.equal(fast(torch.ones(n)), -torch.ones(n))
    told = fast.explain()
    assert "2 runs" in told, told
    assert "refused 2 calls, which ran as a graph: in this call there are 5 elements" in told
    assert "refused 1 call, which ran as a graph: in this call there are 10 elements" in told
    assert told.count("refused") == 8 and fast.counters.fallbacks == 22, told


# -- parameters with defaults, and arguments by keyword


class WithDefaults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor, y: Tensor | None = None, scale: float = 2.0, turned: bool = False) -> Tensor:
        x = torch.tanh(self.layer(x)) * scale
        if y is not None:
            x = x + torch.sigmoid(y) * 2
        return torch.relu(x).t() if turned else torch.relu(x)


def with_defaults(x: Tensor, scale: float = 2.0, y: Tensor | None = None) -> Tensor:
    x = torch.tanh(x) * scale
    return torch.relu(x if y is None else x + y)


def only_by_keyword(x: Tensor, *, scale: float = 2.0) -> Tensor:
    return torch.relu(torch.tanh(x) * scale)


@pytest.mark.parametrize("engine", ["reference", Recording()], ids=["reference", "recording"])
@pytest.mark.parametrize(
    "make", [lambda: WithDefaults().eval(), lambda: with_defaults, lambda: jitlite.script(with_defaults)]
)
@pytest.mark.parametrize("given", [{}, {"scale": 3.0}, {"y": torch.ones(3, 3)}, {"y": None, "scale": 0.5}])
def test_defaults_and_keywords(engine, make, given):
    model = make()
    with torch.no_grad():
        fast = jitlite.optimize(model, (torch.ones(3, 3),), engine=engine)
        for x in (torch.ones(3, 3), torch.linspace(-1, 1, 9).reshape(3, 3)):
            torch.testing.assert_close(fast(x, **given), model(x, **given))
            torch.testing.assert_close(fast(x=x, **given), model(x=x, **given))
    assert "ran the model as it was" not in fast.explain()


@pytest.mark.without_engine("keyword-only parameters")
def test_what_cannot_be_given_by_position_runs_as_it_was():
    fast = jitlite.optimize(only_by_keyword, (torch.ones(3),), engine=Recording())
    x = torch.linspace(-1, 1, 3)
    torch.testing.assert_close(fast(x, scale=3.0), only_by_keyword(x, scale=3.0))
    assert "it was called with keywords" in fast.explain()


@pytest.mark.without_engine("the calls raise")
def test_wrong_keywords_raise_as_the_model_does():
    fast = jitlite.optimize(with_defaults, (torch.ones(3),), engine=Recording())
    for wrong in ({"z": 1}, {"x": torch.ones(3)}):
        with pytest.raises((TypeError, RuntimeError)):
            fast(torch.ones(3), **wrong)
