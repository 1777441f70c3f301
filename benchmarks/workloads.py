"""What is timed: generated functions of many statements, and a few small real ones."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch
from torch import Tensor

_numbers = itertools.count()


def many_statements(count: int, folder: Path) -> Callable[..., Any]:
    """A function of `count` statements: scalar and tensor arithmetic, a branch now and then. Each call makes a new one,
    so that nothing remembered from an earlier compilation helps."""
    lines = ["import torch", "from torch import Tensor", "", "def f(x: Tensor, n: int) -> Tensor:", "    k = n"]
    number = next(_numbers)
    for i in range(count):
        lines += {
            0: [f"    x = x * 1.0001 + {i % 7}.5"],
            1: [f"    k = (k * 3 + {i + number}) % 1009"],
            2: [f"    y{i} = torch.relu(x) - {i % 3}"],
            3: [f"    x = torch.tanh(y{i - 1})"],
            4: ["    if k > 500:", "        k = k - 1"],
        }[i % 5]
    lines.append("    return x + k")
    path = folder / f"statements_{number}.py"
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.f


def collatz(limit: int) -> Tuple[int, int]:
    """Integers and a while loop."""
    best = 0
    longest = 0
    for start in range(1, limit):
        n = start
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        if steps > longest:
            longest = steps
            best = start
    return best, longest


def word_counts(text: str) -> Dict[str, int]:
    """Strings and a dict."""
    counts: Dict[str, int] = {}
    for word in text.split():
        if word in counts:
            counts[word] += 1
        else:
            counts[word] = 1
    return counts


def prefix_sums(values: List[float]) -> List[float]:
    """A list that grows."""
    total = 0.0
    sums: List[float] = []
    for value in values:
        total += value
        sums.append(total)
    return sums


def cell(x: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tensor:
    """Small tensors in a loop: twenty steps of a gated unit."""
    for _ in range(20):
        gate = torch.sigmoid(x @ w + h @ u)
        h = gate * torch.tanh(h @ u) + (1 - gate) * h
    return h


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    """One chain of pointwise operations."""
    return torch.tanh(x * y + 0.5) * torch.sigmoid(x - y) + torch.relu(x) / 3


def run_workloads() -> Dict[str, Tuple[Callable[..., Any], Tuple[Any, ...]]]:
    """Name -> (function, arguments)."""
    torch.manual_seed(0)
    small = [torch.randn(1, 32), torch.randn(1, 32), torch.randn(32, 32), torch.randn(32, 32)]
    return {
        "collatz": (collatz, (300,)),
        "word_counts": (word_counts, ("the quick brown fox and the lazy dog " * 100,)),
        "prefix_sums": (prefix_sums, ([0.5] * 2000,)),
        "cell": (cell, tuple(small)),
        "pointwise_10": (pointwise, (torch.randn(10), torch.randn(10))),
        "pointwise_100k": (pointwise, (torch.randn(100_000), torch.randn(100_000))),
    }
