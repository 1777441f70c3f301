"""Scripts as FX modules: they do what the script does, however they are run, or the refusal names what cannot leave."""

import copy
import itertools
import pickle
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import pytest
import torch
from specimens import MODELS, copied
from strategies import THEMES, compile_source, random_program
from torch import Tensor, fx, nn

import jitlite
from jitlite.base.source import NotSupportedError
from jitlite.debug.equality import difference
from jitlite.debug.outcome import observe
from jitlite.export.to_fx import control_flow

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from oracle.corpus import EXAMPLES  # noqa: E402


def plain(value):
    """Lists and dicts that are literals are immutable when an Interpreter runs the graph."""
    if isinstance(value, (list, tuple)) and type(value).__name__ in ("list", "tuple", "immutable_list"):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def ways(made):
    """The module, and what is made of it in the ways that FX modules are handled."""
    yield "called", made
    yield "copied", copy.deepcopy(made)
    yield "pickled", pickle.loads(pickle.dumps(made))
    made.graph.lint()


def hold(script, made, inputs):
    """Hold an FX module, and what is made of it, to what the script does."""
    for arguments in inputs:
        wanted = observe(script, arguments)
        for way, run in ways(made):
            found = difference(wanted.told, observe(run, arguments).told)
            assert not found, f"{way}, {arguments}: {found}\n{made.code}"
        got = observe(lambda *a: fx.Interpreter(made).run(*a), arguments)
        if wanted.raised != "KeyError":  # of which the Interpreter makes a RuntimeError
            found = difference(plain(wanted.told[:4]), plain(got.told[:4]))
            assert not found, f"interpreted, {arguments}: {found}\n{made.code}"


def convert(function, *inputs):
    script = jitlite.script(function)
    made = script.to_fx()
    hold(script, made, inputs)
    return made


def targets(made):
    return [n.target for n in made.graph.nodes if n.op in ("call_function", "call_method")]


# -- what the graph looks like


def arithmetic(x: Tensor, n: int = 3) -> Tensor:
    return (x + n * 2).relu() - x.size(0)


def test_operators_are_overloads_and_python():
    made = convert(arithmetic, [torch.randn(3), 2], [torch.randn(0), -1])
    names = [str(t) for t in targets(made)]
    assert "aten.relu.default" in names and "size" in names and "aten.add.Scalar" in names
    assert "jitlite" not in made.code
    assert difference(made(torch.ones(2)), arithmetic(torch.ones(2))) is None  # the default


def test_nodes_know_their_line():
    node = next(n for n in convert(arithmetic, [torch.ones(1), 1]).graph.nodes if "relu" in str(n.target))
    assert __file__ in node.meta["stack_trace"] and "in arithmetic" in node.meta["stack_trace"]
    assert "return (x + n * 2)" in node.meta["stack_trace"]


def test_print_readable(capsys):
    jitlite.script(arithmetic).to_fx().print_readable()
    assert "code: return (x + n * 2).relu()" in capsys.readouterr().out


def test_constant_loops_are_unrolled():
    def rounds(x: Tensor) -> Tensor:
        for i in range(3):
            x = x * i + 1
        return x

    made = convert(rounds, [torch.ones(2)])
    assert len(targets(made)) == 6 and "jitlite" not in made.code


def test_loops_of_many_rounds_stay():
    def rounds(x: Tensor) -> Tensor:
        for i in range(500):
            x = x + i
        return x

    made = convert(rounds, [torch.ones(2)])
    assert control_flow.run_loop in targets(made)


def branches(x: Tensor, n: int, flag: bool) -> Tuple[Tensor, int]:
    if n > 3 and flag:
        n = n * 2
        x = x + n
    elif x.sum() > 0:
        x = x - 1
    while n > 0:
        if n == 7:
            break
        x = x * 2
        n -= 2
    return x, n


def test_branches_and_loops():
    inputs = [[torch.ones(2), n, flag] for n in (0, 4, 9) for flag in (False, True)]
    made = convert(branches, *inputs, [-torch.ones(2), 1, False])
    assert control_flow.run_if in targets(made) and control_flow.run_loop in targets(made)


def test_it_can_be_traced_again():
    again = fx.symbolic_trace(jitlite.script(branches).to_fx())
    hold(jitlite.script(branches), again, [[torch.ones(2), 9, True], [torch.ones(2), 4, False]])


def test_assertions():
    def careful(x: Tensor, n: int) -> Tensor:
        assert n > 0, "positive"
        assert n < 9, f"{n} is too much"
        if n == 5:
            raise ValueError("five")
        return x + n

    made = convert(careful, [torch.ones(1), 2], [torch.ones(1), 0], [torch.ones(1), 9], [torch.ones(1), 5])
    assert torch._assert in targets(made)
    made.graph.eliminate_dead_code()
    made.recompile()
    for n, text in ((0, "positive"), (10, "10 is too much"), (5, "five")):
        with pytest.raises((AssertionError, ValueError), match=text):
            made(torch.ones(1), n)


def test_dead_code_elimination_keeps_effects():
    def effects(x: Tensor, words: List[str], counts: Dict[str, int]) -> int:
        x.add_(1)
        words.append("a")
        counts["a"] = len(words)
        print(len(words))
        words.pop(0)
        del counts["b"]
        return 3

    made = convert(effects, [torch.ones(1), ["c"], {"b": 1}])
    made.graph.eliminate_dead_code()
    made.recompile()
    hold(jitlite.script(effects), made, [[torch.ones(1), ["c"], {"b": 1}], [torch.ones(1), ["c"], {}]])


def test_try_and_with():
    def both(x: Tensor, n: int) -> Tuple[Tensor, bool]:
        try:
            y = x[n]
        except IndexError:
            y = x[0] * 2
        with torch.no_grad():
            z = y * 2
        return y + z, torch.is_grad_enabled()

    convert(both, [torch.ones(2), 1], [torch.ones(2), 7])
    x = torch.ones(2, requires_grad=True)
    y, _ = jitlite.script(both).to_fx()(x, 0)
    assert torch.autograd.grad(y, x)[0].tolist() == [1, 0]


class Point(NamedTuple):
    x: Tensor
    y: int


class Counter:
    def __init__(self, n: int):
        self.n = n

    def up(self, by: int) -> int:
        self.n += by
        return self.n


def test_tuples_and_objects():
    def objects(x: Tensor, n: int) -> Tuple[Point, int, Optional[int]]:
        c = Counter(n)
        for _ in range(n):
            c.up(2)
        return Point(x, c.n), c.up(1), None if n > 2 else n

    convert(objects, [torch.ones(1), 2], [torch.ones(1), 3])


# -- modules


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("kept", torch.zeros(4), persistent=False)
        self.unused = nn.Parameter(torch.ones(2))
        self.count = 0
        self.seen: List[int] = []

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        self.calls += 1
        y = self.layers(x)
        if self.training:
            y = y * 2
        self.kept = y.sum(0).detach()
        self.count += 1
        self.seen.append(self.count)
        return y + self.kept, self.count


@pytest.mark.parametrize("training", [False, True])
def test_module_state(training):
    torch.manual_seed(0)
    first = jitlite.script(Net()).train(training)
    second = copy.deepcopy(first)
    made = second.to_fx()
    assert isinstance(made, fx.GraphModule) and made.training is training
    assert list(made.state_dict()) == list(second.state_dict())
    assert all(a is b for a, b in zip(made.parameters(), second.parameters(), strict=True))
    made = [copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made]
    for other in made:
        assert list(other.state_dict()) == list(second.state_dict())
    for _ in range(3):
        x = torch.randn(5, 3)
        wanted = first(x)
        for other in made:
            assert difference(wanted, other(x)) is None
            assert difference(dict(first.named_buffers()), dict(other.named_buffers())) is None
    assert second.count == 0  # numbers and the like are taken over, tensors are shared


def test_gradients_are_those_of_the_script():
    script = jitlite.script(Net())
    made = script.to_fx()
    x = torch.randn(5, 3)
    made(x)[0].sum().backward()
    grads = [p.grad for p in script.layers.parameters()]
    assert all(g is not None for g in grads) and script.unused.grad is None


def test_kept_submodules_are_calls():
    script = jitlite.script(Net()).eval()
    made = script.to_fx(keep=("layers",))
    call = next(n for n in made.graph.nodes if n.op == "call_module")
    assert call.target == "layers" and made.layers is script.layers


def test_loaded_archives(tmp_path):
    script = jitlite.script(Net()).eval()
    script.save(tmp_path / "net.pt")
    loaded = jitlite.load(tmp_path / "net.pt")
    x = torch.randn(2, 3)
    made = loaded.to_fx()
    for _ in range(2):
        assert difference(script(x), made(x)) is None


# -- what cannot leave


def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)


def forks(x: Tensor) -> List[torch.jit.Future[Tensor]]:
    return [torch.jit.fork(torch.relu, x)]


def test_refusals_name_the_construct_and_the_line():
    with pytest.raises(NotSupportedError, match="'factorial' calls itself") as told:
        jitlite.script(factorial).to_fx()
    assert f"test_to_fx.py:{factorial.__code__.co_firstlineno + 1}" in str(told.value)
    with pytest.raises(NotSupportedError, match="no script"):
        jitlite.to_fx(factorial)


def test_what_is_made_in_each_call_is_not_traced_once():
    def makes(x: Tensor) -> Tensor:
        found: List[Tensor] = []
        for i in range(int(x.sum())):
            found.append(x + i)
        return torch.stack(found)

    made = convert(makes, [torch.ones(2)])
    with pytest.raises(NotSupportedError, match="makes a list in each call"):
        fx.symbolic_trace(made)


def test_operators_with_names_that_are_keywords():
    def draws(x: Tensor) -> Tensor:
        return torch.ops.aten.random_(x, 2, 9)

    convert(draws, [torch.ones(3)])


def with_hooks():
    def before(self, given: tuple[Tensor, int]) -> tuple[Tensor, int]:
        return given[0] + 1, given[1] + 1

    def behind(self, given: tuple[Tensor, int], output: Tensor) -> Tensor:
        return output * given[1]

    class Hooked(torch.nn.Module):
        def forward(self, x: Tensor, k: int) -> Tensor:
            return x * k

    module = Hooked()
    module.register_forward_pre_hook(before)
    module.register_forward_hook(behind)
    return jitlite.script(module)


def test_hooks_of_the_module_itself():
    script, x = with_hooks(), torch.arange(3.0)
    assert torch.equal(script(x, 2), (x + 1) * 9)
    assert torch.equal(script.to_fx()(x, 2), (x + 1) * 9)
    assert torch.equal(jitlite.to_fx(script.forward)(x, 2), x * 2)  # a call of the method runs none


def test_submodules_with_names_that_are_keywords():
    class Gates(torch.nn.Module):
        def __init__(self):
            super().__init__()
            inner = torch.nn.ModuleDict({"is": torch.nn.Linear(2, 2)})
            self.gates = torch.nn.ModuleDict({"in": torch.nn.Linear(2, 2), "class": inner})

        def forward(self, x: Tensor) -> Tensor:
            return self.gates["class"]["is"](self.gates["in"](x))

    script, x = jitlite.script(Gates()), torch.ones(1, 2)
    made = script.to_fx()
    kept = script.to_fx(keep=("gates.in",))
    for module in (made, kept, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(module(x), script(x)) and list(module.state_dict()) == list(script.state_dict())


def test_parameters_with_names_of_the_generated_code():
    def moved(torch: Tensor, device: int, inf: float) -> Tensor:
        return torch.to("cpu") * device + min(inf, float("inf"))

    script, x = jitlite.script(moved), torch.ones(2)
    made = script.to_fx()
    for module in (made, pickle.loads(pickle.dumps(made))):
        assert torch.equal(module(x, 2, 3.0), script(x, 2, 3.0))


# -- at large


def sweep(programs):
    """Hold programs to the law; gives how many were equal and how many refused."""
    equal, refused = 0, 0
    for function, inputs in programs:
        script = jitlite.script(function)
        try:
            made = script.to_fx()
        except NotSupportedError:
            refused += 1
            continue
        hold(script, made, inputs)
        equal += 1
    return equal, refused


def generated(start, count):
    for number in range(start, start + count):
        for theme in THEMES:
            program = random_program(number, theme)
            yield compile_source(program.source)["f"], program.inputs


def corpus(step=1):
    return ((item.function, [list(a) for a in item.arguments()]) for item in EXAMPLES[::step])


def test_some_of_the_corpus():
    equal, refused = sweep(corpus(30))
    assert equal >= 10 and refused == 0


def test_some_generated_programs():
    equal, refused = sweep(itertools.islice(generated(0, 1), 2))
    assert equal + refused == 2 and equal >= 1


@pytest.mark.slow
def test_the_corpus():
    equal, refused = sweep(corpus())
    assert equal >= 200 and refused == 0


@pytest.mark.slow
def test_generated_programs():
    equal, refused = sweep(itertools.islice(generated(1000, 20), 20))
    assert equal + refused == 20 and refused <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in MODELS.glob("*.py") if p.stem != "training"))
def test_example_models(name):
    sys.path.insert(0, str(MODELS))
    example = __import__(name)
    torch.manual_seed(0)
    model, batch = example.build().eval(), example.batches(1)[0]
    whole = batch if name == "transformer" else (batch,) if name == "language_model" else batch[:1]
    script = jitlite.script(model)
    made = script.to_fx()
    assert difference(script(*copied(whole)), made(*copied(whole))) is None
    assert list(made.state_dict()) == list(script.state_dict())
