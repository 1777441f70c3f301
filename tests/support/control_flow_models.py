"""Models whose branches and loops depend on what is in tensors, with arguments that go different ways."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

import jitlite

Arguments = tuple[object, ...]


@jitlite.script
def branches(x: Tensor) -> Tensor:
    """A scripted function; both branches make a new tensor."""
    if bool(x.sum() > 0):
        x = x + 1
    else:
        x = x * 2
    return x


@jitlite.script
def conditions(x: Tensor, y: Tensor) -> Tensor:
    """Conditions that are tensors, bools, numbers and what is made of these."""
    first, second = x > 0, bool((y == y).all())
    if first.any() and not second or x.size(0) == 3:
        x = x - 1
    if bool(first[0, 0]) != second and x.size(0) * 2 <= y.size(0) + 4:
        x = x * y.sum()
    return x + int((x > 0).sum()) * float(x.size(0))


@jitlite.script
def halves(x: Tensor) -> Tensor:
    """A loop that may not run at all."""
    y = x + 0
    while bool(y.abs().max() > 1):
        y = y / 2
    return y


class Steps(nn.Module):
    """A loop with an early exit, a write in place and a count that is an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x: Tensor, n: int) -> Tensor:
        y = self.lin(x)
        i = 0
        while i < n and bool(y.sum() < 100):
            y = self.lin(y).relu_() + x
            if y.max() > 3:
                break
            i += 1
        return y


class Decoder(nn.Module):
    """A greedy decoder with a gated recurrent unit, which stops when all have given the token 3."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.of_input, self.of_state, self.out = nn.Linear(4, 12), nn.Linear(4, 12), nn.Linear(4, 7)
        with torch.no_grad():
            self.out.weight.mul_(4)

    def forward(self, h: Tensor):
        token = torch.zeros(h.size(0), dtype=torch.int64)
        total = torch.zeros(h.size(0))
        steps = 0
        while steps < 12 and bool((token != 3).any()):
            a, b = self.of_input(self.embedding(token)).chunk(3, 1), self.of_state(h).chunk(3, 1)
            r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
            n = torch.tanh(a[2] + r * b[2])
            h = (1 - z) * n + z * h
            best, token = self.out(h).log_softmax(-1).max(1)
            total = total + best
            steps += 1
        return h.clone(), total.clone(), steps


class Nested(nn.Module):
    """Loops within branches within loops; continue, and a return from the innermost."""

    def forward(self, x: Tensor, y: Tensor):
        out = torch.zeros_like(x)
        for i in range(5):
            if bool((x[0] > i).any()):
                for j in range(3):
                    if bool(x[0, j] < 0):
                        continue
                    out = out + x[0, j] * y
                    if bool(out.max() > 50):
                        return out
            else:
                out = out - y
        return out


class Choices(nn.Module):
    """Python as it is written without a thought of scripts: branches that give different layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.register_buffer("weight", torch.ones(3))
        self.k = 4

    def forward(self, x: Tensor):
        if x.mean() > 0:
            y = self.first(x)
        elif x.sum() < -100:
            y = x * self.weight * self.k
        else:
            y = self.second(x) @ x.t() @ x
        return y.sin() if bool((y > 0).all()) else y.cos()


class Grows(nn.Module):
    """What is carried becomes larger with each iteration."""

    def forward(self, x: Tensor):
        while bool(x.sum() < 10) and x.size(0) < 40:
            x = torch.cat([x, x + 1])
        return x * 2


def _r(*sizes: int) -> Tensor:
    return torch.randn(*sizes)


def of_one_size() -> dict[str, tuple[object, list[Arguments], Sequence[str]]]:
    """Models in which what is carried keeps its size; arguments, the first of which are the example; what varies."""
    torch.manual_seed(0)
    return {
        "branches": (branches, [(_r(4, 3) + 1,), (_r(2, 3) - 2,), (_r(5, 3) * 0,)], ["x"]),
        "conditions": (
            conditions,
            [(_r(n, 3), _r(n, 3)) for n in (4, 3, 2, 6)] + [(_r(4, 3), _r(4, 3) / 0), (_r(5, 3) * 0, _r(5, 3))],
            ["x", "y"],
        ),
        "steps": (
            jitlite.script(Steps()).eval(), [(_r(4, 3), 3), (_r(2, 3) * 4, 3), (_r(6, 3) - 3, 3)], ["x"],
        ),
        "halves": (halves, [(_r(4, 3) * 9,), (_r(2, 3) / 99,), (_r(5, 3) * 999,)], ["x"]),
        "decoder": (Decoder().eval(), [(_r(4, 4),), (_r(2, 4) * 4,), (_r(6, 4) - 3,)], ["h"]),
        "nested": (
            Nested().eval(),
            [(_r(4, 3) * 4, _r(4, 3)), (_r(2, 3) * 0 - 1, _r(2, 3)), (_r(6, 3).abs() * 5, _r(6, 3).abs() + 4)],
            ["x", "y"],
        ),
        "choices": (Choices().eval(), [(_r(4, 3),), (_r(2, 3) - 40,), (_r(6, 3) + 3,), (_r(2, 3) - 3,)], ["x"]),
    }  # fmt: skip


def of_growing_sizes() -> tuple[object, list[Arguments], Sequence[str]]:
    """A model in which what is carried changes its size."""
    return Grows().eval(), [(_r(4, 3) - 1,), (_r(2, 3) * 0,), (_r(6, 3) + 3,), (_r(2, 3) - 9,)], ["x"]
