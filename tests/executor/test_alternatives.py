"""Trials of other graphs: what they decide, of what they keep their hands, and that nobody sees them."""

from __future__ import annotations

import threading

import pytest
import torch

import jitlite
from jitlite.analysis.repeatable import why_not_repeatable
from jitlite.base import options
from jitlite.executor.alternatives import AGAIN, MOST_CHOICES, Alternatives
from jitlite.executor.executor import Executor
from jitlite.executor.trial import RUNS, Trial
from jitlite.ir.parser import parse

TEXT = """
graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  return (%y)"""

PASSES = ("dce", "cse")
"""They stand for passes that make other graphs; what these do is told by `Machine`."""


class Machine:
    """A clock, and ways to run a graph that each take a time of their own."""

    def __init__(self, **seconds: float) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.ran: list[str] = []
        self.results: dict[str, object] = {}
        self.errors: dict[str, Exception] = {}

    def clock(self) -> float:
        return self.now

    def way(self, name: str):
        def run(*arguments: object) -> object:
            self.ran.append(name)
            self.now += self.seconds[name]
            if name in self.errors:
                raise self.errors[name]
            return self.results.get(name, arguments[0].relu())

        return run


class Runner:
    def __init__(self, run) -> None:
        self.way = [run]


def trials(machine: Machine, monkeypatch, text: str = TEXT) -> Alternatives:
    """Alternatives whose graphs are run by the machine."""
    asked: list[str] = []

    def run_passes(graph: object, name: str) -> bool:
        asked.append(name)
        return True

    monkeypatch.setattr("jitlite.executor.alternatives.run_passes", run_passes)
    make = lambda graph: Runner(machine.way(asked[-1]))  # noqa: E731
    return Alternatives(parse(text), PASSES, make, machine.way("usual"), machine.clock)


@pytest.fixture(autouse=True)
def _at_once():
    with options.override(background=False), torch.no_grad():
        yield


def decide(made: Alternatives, *arguments: object) -> None:
    for _ in range(2 * RUNS):
        made.run(*arguments)


@pytest.mark.parametrize(
    ("usual", "dce", "cse", "winner"),
    [(1.0, 0.5, 0.7, "dce"), (1.0, 0.7, 0.5, "cse"), (1.0, 1.2, 2.0, "usual"), (1.0, 0.99, 0.98, "usual")],
)
def test_the_fastest_graph_runs(usual, dce, cse, winner, monkeypatch):
    machine = Machine(usual=usual, dce=dce, cse=cse)
    made, x = trials(machine, monkeypatch), torch.ones(2, 3)
    decide(made, x)
    assert machine.ran.count("dce") <= RUNS and machine.ran.count("usual") == 2 * RUNS
    machine.ran.clear()
    assert torch.equal(made.run(x), x)
    assert machine.ran == [winner]
    assert (made.chosen([x]) is None) == (winner == "usual")
    assert ("as it is (" if winner == "usual" else f"{winner} (") in made.told([x])[0]


def test_what_is_slow_is_tried_thrice(monkeypatch):
    machine = Machine(usual=1.0, dce=10.0, cse=0.5)
    decide(trials(machine, monkeypatch), torch.ones(2))
    assert machine.ran.count("dce") == 3 and machine.ran.count("cse") >= RUNS


def test_the_first_run_of_each_is_not_counted():
    trial = Trial(["other"])
    for seconds in (9.0, 1.0):
        trial.note_usual(seconds)
    for seconds in (9.0, 0.5):
        trial.note("other", seconds)
    assert (trial.usual_seconds, trial.seconds("other"), trial.winner) == (1.0, 0.5, "other")


def test_results_of_a_trial_are_the_usual_ones(monkeypatch):
    machine = Machine(usual=1.0, dce=0.1, cse=0.1)
    made, x = trials(machine, monkeypatch), torch.ones(2)
    for name in PASSES:
        machine.results[name] = x.clone()
    expected = machine.results["usual"] = x.clone()
    assert all(made.run(x) is expected for _ in range(2 * RUNS))


WRONG = {
    "a size": torch.ones(1, 3), "a dtype": torch.ones(2, 3, dtype=torch.float64),
    "strides": torch.ones(3, 2).t(), "numbers": torch.full((2, 3), 2.0), "a tuple": (torch.ones(2, 3),),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_graph_that_gives_something_else_is_out(wrong, monkeypatch):
    machine = Machine(usual=1.0, dce=0.1, cse=0.5)
    machine.results["dce"] = WRONG[wrong]
    made, x = trials(machine, monkeypatch), torch.ones(2, 3)
    decide(made, x)
    assert machine.ran.count("dce") == 1 and "dce gave something else" in made.told([x])[0]
    assert "such arguments: cse" in made.told([x])[0]


def test_a_graph_that_raises_is_out_and_a_winner_that_raises_leaves_it_to_the_usual_way(monkeypatch):
    machine = Machine(usual=1.0, dce=0.1, cse=0.5)
    machine.errors["dce"] = RuntimeError("no")
    made, x = trials(machine, monkeypatch), torch.ones(2, 3)
    decide(made, x)
    assert "dce raised RuntimeError" in made.told([x])[0]
    machine.errors["cse"] = RuntimeError("no")
    machine.ran.clear()
    assert torch.equal(made.run(x), x) and machine.ran == ["cse", "usual"]
    machine.errors["usual"] = ValueError("eager's own")
    with pytest.raises(ValueError, match="eager's own"):
        made.run(x)


@pytest.mark.parametrize(("before", "after"), [("usual", "dce"), ("dce", "usual"), ("dce", "cse"), ("usual", "usual")])
def test_there_is_a_second_trial_and_no_third(before, after, monkeypatch):
    machine = Machine(usual=1.0, dce=1.2, cse=1.3)
    made, x = trials(machine, monkeypatch), torch.ones(2)
    machine.seconds[before] = 0.9
    decide(made, x)
    machine.seconds[after] = 0.1  # what is hot has been compiled
    for _ in range(AGAIN + 2 * RUNS):
        made.run(x)
    for winner in (after, before):
        machine.ran.clear()
        made.run(x)
        assert machine.ran == [after] and set(made._made) == {after} - {"usual"}
        machine.seconds[winner] = 10.0
        for _ in range(2 * AGAIN):
            made.run(x)


def test_each_size_has_a_choice_and_there_are_not_many(monkeypatch):
    machine = Machine(usual=1.0, dce=0.5, cse=0.7)
    made = trials(machine, monkeypatch)
    for power in range(MOST_CHOICES + 2):
        x = torch.ones(2**power)
        decide(made, x)
        assert (made.chosen([x]) is not None) == (power < MOST_CHOICES)
    machine.ran.clear()
    made.run(torch.ones(5))  # about as many as 4
    assert machine.ran == ["dce"]


class Seeing(torch.overrides.TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def twice(run) -> None:
    for _ in range(2):
        run()


def test_what_is_left_to_the_usual_way(monkeypatch):
    machine = Machine(usual=1.0, dce=0.5, cse=0.7)
    made, x = trials(machine, monkeypatch), torch.ones(2, 3)
    decide(made, x)
    assert made.chosen([x]) is not None
    machine.ran.clear()
    with torch.enable_grad():
        made.run(x.clone().requires_grad_())
    with torch.autocast("cpu"):
        made.run(x)
    with Seeing() as seeing:
        made.run(x)
    assert seeing.seen == ["relu"]  # and nothing that trials ask
    with torch.autograd.forward_ad.dual_level():
        made.run(x)
    torch.func.vmap(made.run)(torch.ones(4, 2, 3))
    torch.use_deterministic_algorithms(True)
    try:
        made.run(x)
    finally:
        torch.use_deterministic_algorithms(False)
    twice(lambda: made.run(torch.ones(3, 2).t()))
    twice(lambda: made.run(torch.ones(2, 3).to_sparse()))
    twice(lambda: made.run(torch.ones(2, 3, device="meta")))
    twice(lambda: made.run(torch.ones(2, 3).as_subclass(type("Own", (torch.Tensor,), {}))))
    assert set(machine.ran) == {"usual"}
    with torch.inference_mode():
        made.run(x)
    assert machine.ran[-1] == "dce"


IMPURE = {
    "aten::bernoulli(%x, %none)": "draws random numbers",
    "aten::add_(%x, %one, %one)": "writes what was there before the call",
    "aten::clone(%x, %none)": None,
}


@pytest.mark.parametrize("call", IMPURE)
def test_only_what_can_run_twice_is_tried(call, monkeypatch):
    text = f"""
graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %y : Tensor = {call}
  %z : Tensor = aten::relu_(%y)
  return (%z)"""
    why = why_not_repeatable(parse(text))
    assert (why is None) == (IMPURE[call] is None) and (why is None or IMPURE[call] in why)
    machine = Machine(usual=1.0, dce=0.5, cse=0.7)
    made = trials(machine, monkeypatch, text)
    decide(made, torch.ones(2))
    assert (set(machine.ran) == {"usual"}) == (why is not None)


def test_attributes_prints_and_calls_are_left_alone():
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def forward(self, x):
            self.count += 1
            return x * self.count

    class Printing(torch.nn.Module):
        def forward(self, x):
            print("hello")
            return x

    for module, why in ((Counting(), "SetAttr"), (Printing(), "Print")):
        found = why_not_repeatable(jitlite.freeze(jitlite.script(module.eval())).graph)
        assert found is not None and why in found


def test_threads_that_come_meanwhile_take_the_usual_way(monkeypatch):
    machine = Machine(usual=1.0, dce=0.5, cse=0.7)
    made, x = trials(machine, monkeypatch), torch.ones(2)
    inside, leave = threading.Event(), threading.Event()
    usual = made._usual

    def slow(*arguments: object) -> object:
        inside.set()
        assert leave.wait(60)
        return usual(*arguments)

    made._usual = slow
    thread = threading.Thread(target=lambda: torch.no_grad()(made.run)(x))
    thread.start()
    assert inside.wait(60)
    made._usual = usual
    made.run(x)
    assert machine.ran == ["usual"]
    leave.set()
    thread.join()


def test_an_executor_with_alternatives():
    scripted = jitlite.script(plus_two)
    executor = Executor(scripted.graph, scripted.name)
    executor.add_alternatives(("convert_to_channels_last",))
    x = torch.ones(2)
    for _ in range(3):
        assert torch.equal(executor.way[0](x), x + 2)
    assert executor.chosen([x]) is executor  # the pass finds nothing to do
    with options.override(executor="off"):
        assert torch.equal(executor.way[0](x), x + 2)


def plus_two(x):
    return x + 2
