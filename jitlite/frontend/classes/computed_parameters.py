"""Modules whose parameters are computed from others, as torch.nn.utils arranges it.

`parametrize` makes a property of the parameter, and a list of modules computes it; the older `weight_norm`,
`spectral_norm` and `prune` put an object before `forward` that sets it. torch's own functions for that make up names
as they run, or refuse to be compiled. Here are functions that do the same and can be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch.nn.utils import parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

Method = Callable[..., object]


def computed_property(module: torch.nn.Module, name: str) -> property | None:
    """The property that computes a parameter of `module`, None where that is no parametrized one.

    A parameter is computed anew wherever it is read; within `torch.nn.utils.parametrize.cached()`, too.
    """
    computing = module._modules.get("parametrizations")  # as an attribute it might be looked for in a script
    if computing is None or not isinstance(computing._modules.get(name), parametrize.ParametrizationList):
        return None  # a user's module may have parts of that name

    def get(self):  # type: ignore[no-untyped-def]
        return self.parametrizations[name]()

    return property(get)


def computing_forward(module: torch.nn.Module) -> Method | None:
    """The forward of a list of parametrizations, None for other modules, and for more than three tensors."""
    if type(module).forward is not parametrize.ParametrizationList.forward:
        return None
    if module.is_tensor:
        return _from_one
    several: dict[object, Method] = {2: _from_two, 3: _from_three}
    return several.get(module.ntensors)


def _from_one(self):  # type: ignore[no-untyped-def]
    x = self.original
    for module in self:
        x = module(x)
    return x


def _from_two(self):  # type: ignore[no-untyped-def]
    x = self[0](self.original0, self.original1)
    for module in self[1:]:
        x = module(x)
    return x


def _from_three(self):  # type: ignore[no-untyped-def]
    x = self[0](self.original0, self.original1, self.original2)
    for module in self[1:]:
        x = module(x)
    return x


def computing_hook(hook: object) -> Method | None:
    """The function that sets a parameter as `hook` does, None for an object that does something else."""
    if type(hook) is WeightNorm:
        return _weight_norm(hook.name, hook.dim)
    if type(hook) is SpectralNorm:
        return _spectral_norm(hook.name, hook.dim, hook.n_power_iterations, hook.eps)
    pruning = sys.modules.get("torch.nn.utils.prune")  # who has pruned something has imported it
    if pruning is not None and isinstance(hook, pruning.BasePruningMethod):
        return _pruning(str(getattr(hook, "_tensor_name", None)))
    return None


def _weight_norm(name: str, dim: int) -> Method:
    direction, length = name + "_v", name + "_g"

    def weight_norm(self, input) -> None:  # type: ignore[no-untyped-def]
        setattr(self, name, torch.ops.aten._weight_norm(getattr(self, direction), getattr(self, length), dim))

    return weight_norm


def _pruning(name: str) -> Method:
    mask, original = name + "_mask", name + "_orig"

    def pruning(self, input) -> None:  # type: ignore[no-untyped-def]
        weight = getattr(self, original)
        setattr(self, name, getattr(self, mask).to(dtype=weight.dtype) * weight)

    return pruning


def _spectral_norm(name: str, dim: int, iterations: int, eps: float) -> Method:
    original, left, right = name + "_orig", name + "_u", name + "_v"

    def spectral_norm(self, input) -> None:  # type: ignore[no-untyped-def]
        weight, u, v = getattr(self, original), getattr(self, left), getattr(self, right)
        matrix = weight.movedim(dim, 0).flatten(1)
        if self.training:
            with torch.no_grad():
                for _ in range(iterations):
                    v.copy_(torch.nn.functional.normalize(torch.mv(matrix.t(), u), dim=0, eps=eps))
                    u.copy_(torch.nn.functional.normalize(torch.mv(matrix, v), dim=0, eps=eps))
                u, v = u.clone(), v.clone()
        setattr(self, name, weight / torch.dot(u, torch.mv(matrix, v)))

    return spectral_norm
