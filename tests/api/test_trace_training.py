"""Steps of training in functional form: what a call leaves of parameters and of an optimizer's state is right."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import jitlite


@pytest.fixture(autouse=True)
def quiet():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Step(nn.Module):
    """A step with loss scaling, momentum, a counter and an average of the parameters, by torch.autograd.grad."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
        self.register_buffer("scale", torch.tensor(8.0))
        self.register_buffer("count", torch.tensor(0))
        for i, p in enumerate(self.net.parameters()):
            self.register_buffer(f"momentum{i}", torch.zeros_like(p))
            self.register_buffer(f"average{i}", p.detach().clone())

    def forward(self, x: Any, y: Any) -> Any:
        parameters = list(self.net.parameters())
        loss = nn.functional.mse_loss(self.net(x), y)
        gradients = torch.autograd.grad(loss * self.scale, parameters)
        with torch.no_grad():
            for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
                momentum = getattr(self, f"momentum{i}")
                momentum.mul_(0.9).add_(g / self.scale)
                p.sub_(momentum, alpha=0.1)
                getattr(self, f"average{i}").lerp_(p, 0.01)
            self.count.add_(1)
            self.scale.mul_(torch.where(self.count % 2 == 0, 2.0, 1.0))
        return loss.detach()


class ThroughData(Step):
    """The same, written through `.data` and `detach`, while gradients are recorded."""

    def forward(self, x: Any, y: Any) -> Any:
        parameters = list(self.net.parameters())
        loss = nn.functional.mse_loss(self.net(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
            p.data.add_(g, alpha=-0.1) if i % 2 else p.detach().sub_(g * 0.1)
        return loss.detach()


class Rows(Step):
    """Parts of a parameter are written."""

    def forward(self, x: Any, y: Any) -> Any:
        weight = self.net[0].weight
        loss = (self.net(x) - y).pow(2).mean()
        (g,) = torch.autograd.grad(loss, [weight])
        with torch.no_grad():
            weight[1:].sub_(g[1:])
            weight[0] = 0
        return loss.detach(), weight.detach().sum()


class Optimized(nn.Module):
    """An optimizer of torch; its state is there before the trace."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.optimizer = make(self.net.parameters())
        for p in self.net.parameters():
            p.grad = torch.zeros_like(p)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def forward(self, x: Any, y: Any) -> Any:
        loss = nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


STEPS: dict[str, Any] = {
    "scaling": Step, "data": ThroughData, "rows": Rows,
    "sgd": lambda: Optimized(lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": lambda: Optimized(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01)),
    "nesterov": lambda: Optimized(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True)),
    "each": lambda: Optimized(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True)),
}  # fmt: skip


def batches() -> list[tuple[Any, Any]]:
    return [(torch.randn(5, 3), torch.randn(5, 1)) for _ in range(4)]


@pytest.mark.parametrize("options", [{"functional": True}, {}], ids=["functional", "writes"])
@pytest.mark.parametrize("name", list(STEPS))
def test_steps_stay_right_over_calls(name, options):
    eager = STEPS[name]()
    ours = copy.deepcopy(eager)
    (x, y), *others = batches()
    expected = [eager(x, y)]
    with jitlite.options.override(tier="python"):
        traced = jitlite.trace(ours, (x, y), level="dispatcher", check_trace=False, **options)
    if options:
        written = {n.kind for n in traced.graph.all_nodes() if n.op is not None and n.op.schema.is_mutable}
        assert written == {"aten::copy_"}
    for x, y in others:
        expected.append(eager(x, y))
        torch.testing.assert_close(traced(x, y), expected[-1])
    torch.testing.assert_close(dict(ours.named_parameters()), dict(eager.named_parameters()))
    torch.testing.assert_close(dict(ours.named_buffers()), dict(eager.named_buffers()))
    assert all(p.requires_grad and p.is_leaf and p.grad is None for p in ours.parameters())
    if isinstance(ours, Optimized):
        states = [list(m.optimizer.state_dict()["state"].values()) for m in (ours, eager)]
        torch.testing.assert_close(*states)


def test_mutations_name_what_is_written():
    traced = jitlite.trace(Step(), batches()[0], level="dispatcher", functional=True, check_trace=False)
    written = {m.name: m.kind for m in traced.mutations}
    assert written["net.0.weight"] == "parameter" and written["momentum0"] == written["count"] == "buffer"


class Unsteady(Step):
    def forward(self, x: Any, y: Any) -> Any:
        with torch.no_grad():
            self.net[0].weight.mul_(0.9)
        return self.net(x)  # here


class Recorded(Step):
    def forward(self, x: Any, y: Any) -> Any:
        self.net[0].weight.data.add_(self.net[0].weight)  # here
        return x


@pytest.mark.parametrize(
    "make, message",
    [(Unsteady, "gradients of a tensor that was written without gradients"), (Recorded, "a write without gradients")],
    ids=["read", "recorded"],
)
def test_what_would_lose_gradients_is_refused(make, message):
    with pytest.raises(jitlite.CompileError, match=message) as error:
        jitlite.trace(make(), batches()[0], level="dispatcher", functional=True, check_trace=False)
    assert "# here" in str(error.value)


def test_gradients_that_stay_are_refused():
    class Left(Optimized):
        def forward(self, x: Any, y: Any) -> Any:
            loss = nn.functional.mse_loss(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            return loss.detach()

    with pytest.raises(jitlite.CompileError, match="sets the .grad of net.0.weight"):
        jitlite.trace(
            Left(lambda p: torch.optim.SGD(p, 0.1)),
            batches()[0],
            level="dispatcher",
            functional=True,
            check_trace=False,
        )
