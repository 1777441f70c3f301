"""What the models here have in common: train eager and scripted copies side by side, print both losses."""

import copy
import sys
from pathlib import Path
from typing import Any, Callable, List, Tuple

import torch
from torch import Tensor, nn

try:
    import jitlite
except ImportError:  # run from a checkout that is not installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import jitlite

Loss = Callable[[nn.Module, Any], Tensor]
"""Runs a module on a batch and gives the loss."""


def losses(module: nn.Module, batches: List[Any], loss_of: Loss, adam: bool = False) -> List[float]:
    """Train the module on each batch; the loss before each step."""
    lr = 1e-3 if adam else 0.05
    optimizer: Any = (torch.optim.Adam if adam else torch.optim.SGD)(module.parameters(), lr=lr)
    torch.manual_seed(7)  # for dropout
    found = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(module, batch)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def compare(model: nn.Module, batches: List[Any], loss_of: Loss, adam: bool = False) -> Tuple[List[float], List[float]]:
    """The losses of an eager and of a scripted copy of the model."""
    scripted = jitlite.script(copy.deepcopy(model))
    return losses(copy.deepcopy(model), batches, loss_of, adam), losses(scripted, batches, loss_of, adam)


def report(model: nn.Module, batches: List[Any], loss_of: Loss, adam: bool = False) -> int:
    """Print the losses of three steps, eager and scripted. The exit status: 0 if they agree."""
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{type(model).__name__}: {parameters} parameters")
    eager, scripted = compare(model, batches, loss_of, adam)
    print("step      eager   scripted")
    for step, (e, s) in enumerate(zip(eager, scripted)):
        print(f"{step:4} {e:10.6f} {s:10.6f}")
    most = max(abs(e - s) for e, s in zip(eager, scripted))
    print(f"largest difference {most:.1e}")
    return 0 if most <= 1e-6 else 1
