"""Flags of modules, `training` above all: plans for one setting of them, and what becomes of calls with another one."""

from __future__ import annotations

import copy
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.analysis.module_flags import flag_reads
from jitlite.base import background, options
from jitlite.executor.executor import executor_of
from jitlite.ir import types as T
from jitlite.kernels.backend import KIND as TENSORS_KIND


@pytest.fixture(autouse=True)
def hot():
    """The second call is profiled, and the third one may be specialized, all of it at once."""
    before = options.current()
    options.set_globally(background=False, specialize_after=2)
    yield
    options.set_globally(background=before.background, specialize_after=before.specialize_after)


class Layers(nn.Module):
    """Dropout and norms between layers, in a container, in a branch and in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU(), nn.BatchNorm1d(4))
        self.second = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.25, inplace=True)
        self.noisy = nn.AlphaDropout(0.5)

    def forward(self, x: Tensor, n: int) -> Tensor:
        x = self.first(x)
        for _ in range(n):
            x = torch.relu(self.drop(self.second(x)))
        if self.training:
            x = x + torch.rand_like(x)
        elif n > 1:
            x = self.noisy(x) * 2
        return x


class Norms(nn.Module):
    """Norms that count, that have no statistics, and that take them from the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 1)
        self.norms = nn.ModuleList(
            [nn.BatchNorm2d(2), nn.BatchNorm2d(2, momentum=None), nn.InstanceNorm2d(2, track_running_stats=True)]
        )
        self.plain = nn.BatchNorm2d(2, track_running_stats=False)

    def forward(self, x: Tensor, n: int) -> Tensor:
        x = self.conv(x)
        for norm in self.norms:
            x = torch.relu(norm(x)) + n
        return self.plain(x)


def arguments_for(module: nn.Module, n: int) -> tuple[Tensor, int]:
    shape = (3, 4) if isinstance(module, Layers) else (2, 1, 3, 3)
    return torch.rand(shape, generator=torch.Generator().manual_seed(n)), n


def gradients_of(result: Tensor, module: nn.Module) -> list[Tensor]:
    parameters = list(module.parameters())
    return list(torch.autograd.grad(result.sum(), parameters, allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("native", ["off", "auto", "now"])
@pytest.mark.parametrize("mode", ["profiling", "legacy", "simple", "off"])
@pytest.mark.parametrize("make", [Layers, Norms])
def test_modules_that_change_their_mode_between_calls_do_what_eager_does(make, mode, native):
    torch.manual_seed(0)
    eager = make()
    chance = random.Random(f"{make.__name__} {mode} {native}")
    with options.override(executor=mode, native=native):
        scripted = jitlite.script(copy.deepcopy(eager))
        for call in range(24):
            pairs = list(zip(eager.modules(), scripted.modules(), strict=True))
            if call % 5 == 4:
                position, on = chance.randrange(len(pairs)), chance.random() < 0.5
                for module in pairs[position]:
                    module.train(on)
            recorded = chance.random() < 0.5
            results, states = [], []
            for module in (eager, scripted):
                torch.manual_seed(call)
                with torch.set_grad_enabled(recorded):
                    result = module(*arguments_for(eager, call % 3))
                gradients = gradients_of(result, module) if recorded else []
                results.append([result, *gradients])
                states.append([*module.state_dict().values(), torch.get_rng_state()])
            torch.testing.assert_close(results[1], results[0])
            torch.testing.assert_close(states[1], states[0])


def specialized_flags(scripted: nn.Module) -> dict[str, bool]:
    """What the plan of `forward` asks of flags."""
    executor = executor_of(scripted.forward.__jitlite_function__)
    found = executor.specialized
    return {} if found is None else {flag.told(executor.graph.inputs): on for flag, on in found.flags.items()}


def test_what_stood_between_the_layers_of_a_net_is_gone_for_one_setting():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 4), nn.ReLU(), nn.Dropout()).eval()
    scripted = jitlite.script(net)
    for _ in range(4):
        scripted(torch.ones(2, 4))
    assert specialized_flags(scripted) == {"self.2.training": False, "self.5.training": False}
    executor = executor_of(scripted.forward.__jitlite_function__)
    plans = executor.state().execution_plans.values()
    assert [region.kind for plan in plans for region in plan.regions] == [TENSORS_KIND]
    assert len([r for r in executor.general.regions if r.kind == TENSORS_KIND]) != 1
    told = scripted.forward.explain()
    assert "self.2.training = False" in str(told)
    scripted.train()
    scripted(torch.ones(2, 4))
    assert "'self.2.training' was True, and the plan is for False" in str(scripted.forward.explain())


def test_many_flags_are_counted():
    scripted = jitlite.script(nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Dropout()) for _ in range(6))).eval())
    for _ in range(4):
        scripted(torch.ones(2, 4))
    assert len(specialized_flags(scripted)) == 6
    assert "self.0.1.training = False, self.1.1.training = False, self.2.1.training = False, and 3 more flags" in str(
        scripted.forward.explain()
    )


class SetsItsMode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.flag = True
        self.other = 1
        self.drop = nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(x)
        if self.flag:
            x = x + 1
        self.flag = not self.flag
        return x * 2 if self.flag else x


class CallsPython(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout()

    @jitlite.ignore
    def switch(self) -> None:
        self.drop.train(not self.drop.training)

    def forward(self, x: Tensor) -> Tensor:
        first = self.drop(x)
        self.switch()
        return first + self.drop(x)


@pytest.mark.parametrize(("make", "left"), [(SetsItsMode, {"self.drop.training"}), (CallsPython, set())])
def test_a_flag_that_the_call_may_change_is_none(make, left):
    eager = make().eval()
    scripted = jitlite.script(copy.deepcopy(eager))
    for call in range(8):
        results = []
        for module in (eager, scripted):
            torch.manual_seed(call)
            results.append(module(torch.ones(4)))
        assert torch.equal(*results)
    executor = executor_of(scripted.forward.__jitlite_function__)
    graph = executor.general.base
    assert {flag.told(graph.inputs) for flag in flag_reads(graph)} == left


class Chooses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.ReLU())

    def forward(self, x: Tensor, asked: bool) -> Tensor:
        return self.layer(x) if asked else x * 2


def test_what_is_not_read_need_not_be_there():
    scripted = jitlite.script(Chooses().eval())
    x = torch.ones(2)
    for _ in range(4):
        scripted(x, True)
    assert specialized_flags(scripted)
    del scripted.layer._modules["1"]
    assert torch.equal(scripted(x, False), x * 2)
    with pytest.raises(AttributeError):
        scripted(x, True)


def test_flags_that_calls_set_differently_are_left_open():
    scripted = jitlite.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4), nn.Dropout()).eval())
    with options.override(profiled_runs=2):
        for call in range(6):
            scripted.get_submodule("1").train(call % 2 == 0)
            scripted(torch.ones(2, 4))
    assert specialized_flags(scripted) == {"self.3.training": False}


# -- the plan of the first calls


def test_the_first_call_makes_a_plan_for_flags_as_they_are():
    scripted = jitlite.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4)).eval())
    executor = executor_of(scripted.forward.__jitlite_function__)
    with options.override(specialize_after=4):
        x = torch.ones(2, 4)
        for _ in range(3):
            scripted(x)
        assert executor.state().fallback is None, "nobody needs the general plan"
        assert "training" not in executor.graph_for([scripted, x]).to_text(ranges=False)
        told = str(scripted.forward.explain())
        assert "a plan for self.1.training = False, self.2.training = False, from the first call on" in told
        assert "3 calls ran the plan for self.1.training = False" in told
        for _ in range(2):
            scripted(x)
        assert specialized_flags(scripted) == {"self.1.training": False, "self.2.training": False}
        assert executor.state().fallback is None


def test_a_call_with_other_flags_gets_the_general_plan():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(1.0), nn.ReLU()).eval()
    scripted = jitlite.script(net)
    executor = executor_of(scripted.forward.__jitlite_function__)
    with options.override(specialize_after=8):
        x = torch.ones(2, 4)
        torch.testing.assert_close(scripted(x), net(x))
        scripted.train()
        assert torch.equal(scripted(x), torch.zeros(2, 4))
        assert executor.state().fallback is not None
        assert "general plan" in executor.decision
        scripted.eval()
        torch.testing.assert_close(scripted(x), net(x))


def test_types_of_arguments_are_known_beside_the_flags_of_the_first_calls():
    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout())

        def forward(self, x: Tensor) -> Tensor:
            if x.dim() == 2 and x.size(1) == 4 and x.dtype == torch.float32:
                x = self.layers(x)
            return x

    scripted = jitlite.script(Asks().eval())
    for _ in range(5):
        scripted(torch.ones(2, 4))
    executor = executor_of(scripted.forward.__jitlite_function__)
    assert specialized_flags(scripted) == {"self.layers.1.training": False}
    assert executor.specialized is not None and executor.specialized.types[1] is not T.TENSOR
    assert scripted(torch.ones(3)).shape == (3,)
    scripted.train()
    assert scripted(torch.ones(2, 4)).shape == (2, 4)
    assert executor.counters.guard_failures.value == 2


def test_a_flag_that_is_no_truth_value_or_missing_is_left_open():
    class Counts(nn.Module):
        wide: bool

        def __init__(self) -> None:
            super().__init__()
            self.wide = True
            self.drop = nn.Dropout(1.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop(x) if self.wide else x

    scripted = jitlite.script(Counts().eval())
    del scripted._modules["drop"]
    with pytest.raises(AttributeError):
        scripted(torch.ones(2))
    scripted.wide = False
    assert torch.equal(scripted(torch.ones(2)), torch.ones(2))


def test_threads_that_call_first_at_once_have_one_plan():
    scripted = jitlite.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4)).eval())
    executor = executor_of(scripted.forward.__jitlite_function__)
    x = torch.ones(2, 4)
    options.set_globally(specialize_after=100)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: scripted(x), range(12)))
    assert all(torch.equal(r, results[0]) for r in results)
    assert executor.state().fallback is None


def test_the_general_plan_is_made_before_a_call_waits_for_it():
    scripted = jitlite.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(1.0)).eval())
    executor = executor_of(scripted.forward.__jitlite_function__)
    options.set_globally(specialize_after=100, background=True)
    x = torch.ones(2, 4)
    for _ in range(8):
        expected = scripted(x)
    assert background.wait_for_compilation(60)
    assert executor.state().fallback is not None
    assert "a plan for self.1.training = False" in executor.decision
    assert torch.equal(scripted(x), expected)
    assert torch.equal(scripted.train()(x), torch.zeros(2, 4))


def test_looking_at_the_graph_of_other_flags_changes_nothing():
    scripted = jitlite.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(1.0)).eval())
    executor = executor_of(scripted.forward.__jitlite_function__)
    with options.override(specialize_after=8):
        x = torch.ones(2, 4)
        scripted(x)
        scripted.train()
        assert "training" in executor.graph_for([scripted, x]).to_text(ranges=False)
        scripted.eval()
        assert "a plan for self.1.training = False" in executor.decision


@pytest.mark.parametrize("beside", [{"before": "inline"}, {"after": "inline"}])
def test_passes_of_users_run_once_and_meet_the_graph_that_they_expect(beside):
    seen = []

    def look(graph):
        seen.append(any(node.kind == "prim::CallMethod" for node in graph.all_nodes()))
        return False

    scripted = jitlite.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4)).eval())
    with jitlite.passes.insert(look, **beside), options.override(specialize_after=100):
        scripted(torch.ones(2, 4))
    assert seen == ["before" in beside]
