"""Parameters that torch.nn.utils computes from others: parametrizations, and the hooks of weight_norm and others."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

import jitlite
from jitlite.base import options
from jitlite.base.source import CompileError


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


class Exponential(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.matrix_exp(x)


class LowRank(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    def right_inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, :2].clone(), x[:2].clone()


class Sum(nn.Module):
    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return a + b + c

    def right_inverse(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x / 2, x / 4, x / 4


def _parametrized(*parts: tuple[str, nn.Module]) -> nn.Module:
    made = nn.Linear(4, 4)
    for name, part in parts:
        parametrize.register_parametrization(made, name, part)
    return made


def _gated() -> nn.Module:
    return nn.utils.weight_norm(nn.utils.weight_norm(nn.GRUCell(4, 4), "weight_hh"), "weight_ih", dim=None)


class Scaled(nn.Linear):
    """One whose hook is declared with more arguments than calls give."""

    def forward(self, x: Tensor, scale: float = 2.0, added: Tensor | None = None) -> Tensor:
        y = nn.functional.linear(x, self.weight, self.bias) * scale
        return y if added is None else y + added


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "one": lambda: _parametrized(("weight", Symmetric())),
    "chain": lambda: _parametrized(("weight", Symmetric()), ("weight", Exponential()), ("bias", nn.Tanh())),
    "from two": lambda: _parametrized(("weight", LowRank())),
    "from two, then one": lambda: _parametrized(("weight", LowRank()), ("weight", nn.Tanh())),
    "from three": lambda: _parametrized(("weight", Sum())),
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(4, 4)),
    "weight norm of all": lambda: parametrizations.weight_norm(nn.Conv1d(3, 4, 1), dim=None),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(4, 4)),
    "spectral norm, transposed": lambda: parametrizations.spectral_norm(nn.ConvTranspose1d(3, 4, 1), dim=1),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(4, 3)),
    "orthogonal, by Cayley": lambda: parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley"),
    "weight norm by a hook": lambda: nn.utils.weight_norm(nn.Linear(4, 4)),
    "weight norm by two hooks": _gated,
    "hook of a forward with defaults": lambda: nn.utils.weight_norm(Scaled(4, 4)),
    "spectral norm by a hook": lambda: nn.utils.spectral_norm(nn.Linear(4, 4), n_power_iterations=2),
    "spectral norm by a hook, transposed": lambda: nn.utils.spectral_norm(nn.ConvTranspose1d(3, 4, 1)),
    "pruned": lambda: prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5),
    "pruned twice": lambda: prune.random_unstructured(
        prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.2), "weight", 0.5
    ),
    "pruned weight and bias": lambda: prune.random_unstructured(
        prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5), "bias", 0.5
    ),
}


class Net(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.first(x)))


def _net(name: str) -> Net:
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return Net(LAYERS[name]())


def _same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tier", ["python", "stack"])
@pytest.mark.parametrize("name", LAYERS)
def test_training_does_as_eager(name: str, tier: str) -> None:
    eager, made = _net(name), _net(name)
    x = torch.randn(3, 4)
    with options.override(tier=tier):
        scripted = jitlite.script(made)
        for is_training in (False, True, True, False):
            eager.train(is_training)
            scripted.train(is_training)
            expected, found = eager(x), scripted(x)
            _same(found, expected)
            expected.square().sum().backward()
            found.square().sum().backward()
            with torch.no_grad():
                for p, q in zip(eager.parameters(), scripted.parameters(), strict=True):
                    assert (p.grad is None) == (q.grad is None)
                    if p.grad is not None and q.grad is not None:
                        _same(q.grad, p.grad)
                        p -= 0.01 * p.grad
                        q -= 0.01 * q.grad
    assert list(eager.state_dict()) == list(scripted.state_dict())
    for buffer, other in zip(eager.buffers(), scripted.buffers(), strict=True):
        _same(other, buffer)


@pytest.mark.parametrize("name", LAYERS)
def test_archives_frozen_modules_and_torch_do_the_same(name: str) -> None:
    eager = _net(name).eval()
    scripted = jitlite.script(eager)
    x = torch.randn(3, 4)
    expected = eager(x)
    file = io.BytesIO()
    jitlite.save(scripted, file)
    for load in (jitlite.load, torch.jit.load):
        file.seek(0)
        _same(load(file)(x), expected)
    _same(jitlite.freeze(scripted)(x), expected)


def test_new_values_of_the_parameters_count() -> None:
    net = _net("weight norm by a hook").eval()
    scripted = jitlite.script(net)
    x = torch.randn(3, 4)
    before = scripted(x)
    with torch.no_grad():
        net.layer.weight_g.mul_(2.0)
    assert not torch.equal(scripted(x), before)
    _same(scripted(x), net(x))


class OwnParts(nn.Module):
    """A user's module whose parts and property are only called like those of torch.nn.utils.parametrize."""

    def __init__(self) -> None:
        super().__init__()
        self.parametrizations = nn.ModuleDict({"weight": nn.Identity()})
        self.base = nn.Parameter(torch.ones(3))

    @property
    def weight(self) -> Tensor:
        return self.base * 2

    def forward(self, x: Tensor) -> Tensor:
        return self.parametrizations["weight"](x) * self.weight


def test_parts_that_are_only_called_so_stay_what_they_are() -> None:
    net, x = OwnParts(), torch.randn(3)
    _same(jitlite.script(net)(x), net(x))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 1

    def forward(self, x: Tensor, n: int) -> Tensor:
        setattr(self, "count", self.count + n)  # noqa: B010
        return x + self.count


def test_setattr_of_a_known_name_is_an_assignment() -> None:
    eager, scripted = Counter(), jitlite.script(Counter())
    for n in (1, 5):
        assert torch.equal(scripted(torch.zeros(2), n), eager(torch.zeros(2), n))
        assert scripted.count == eager.count


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 1

    def forward(self, name: str) -> int:
        setattr(self, name, 2)
        return self.count


class Absent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 1

    def forward(self) -> int:
        setattr(self, "counts", 2)  # noqa: B010
        return self.count


@pytest.mark.parametrize(("cls", "told"), [(Named, "name that setattr is given"), (Absent, "counts")])
def test_setattr_of_other_names_is_refused(cls: type[nn.Module], told: str) -> None:
    with pytest.raises(CompileError, match=told):
        jitlite.script(cls())


class Doubled:
    """A hook of a user's own that is an object."""

    def __call__(self, module: nn.Module, given: tuple[Tensor]) -> None:
        return None


def test_other_objects_as_hooks_are_refused() -> None:
    net = nn.Linear(2, 2)
    net.register_forward_pre_hook(Doubled())
    with pytest.raises(CompileError, match="is an object"):
        jitlite.script(Net(net))
