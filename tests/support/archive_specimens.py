"""Small archives of all kinds, to be damaged."""

from __future__ import annotations

import enum
import io
import pathlib
from collections.abc import Callable
from typing import Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035 - as scripts write them

import torch
from torch import Tensor, nn

import jitlite

LITE = pathlib.Path(__file__).parents[1] / "data"
"""Files of the lite interpreter without source, as torch 2.13 writes them."""


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.arange(4.0).reshape(2, 2))
        self.tied = self.w

    def forward(self, x: Tensor, n: int = 2) -> Tensor:
        for i in range(n):
            if i > 0:
                x = torch.tanh(x) @ self.w
            else:
                x = x + self.tied[0]
        return x


class Tree(nn.Module):
    """Submodules, shared tensors, lists, dicts and constants."""

    names: Dict[str, List[int]]

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), nn.Linear(2, 2)])
        self.base = torch.arange(6.0)
        self.view = self.base[2:4]
        self.names = {"a": [1, 300], "ä": []}
        self.pairs = [(1, 2.5), (70000, float("inf"))]
        self.scale = 0.1

    def forward(self, x: Tensor, flag: Optional[bool] = None) -> Tuple[Tensor, List[str]]:
        found: List[str] = []
        for layer in self.layers:
            x = layer(x)
        for name in self.names.keys():
            found.append(name + "é")
        while bool(x.sum() > 10):
            x = x - torch.tensor([1.0, 2.0])
        if flag is not None:
            x = x * self.scale
        return x + self.view, found


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Pair(NamedTuple):
    a: int
    b: Optional[Tensor]


@jitlite.interface
class Adds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class One(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start
        self.seen: List[int] = [start]

    def step(self, by: int = 2) -> int:
        self.count += by
        self.seen.append(self.count)
        return self.count

    @jitlite.export
    def __getstate__(self) -> Tuple[int, List[int]]:
        return self.count, self.seen

    @jitlite.export
    def __setstate__(self, state: Tuple[int, List[int]]) -> None:
        self.count = state[0]
        self.seen = state[1]


class Kinds(nn.Module):
    """Enums, named tuples, interfaces, objects with a state of their own, and hooks."""

    adds: Adds

    def __init__(self) -> None:
        super().__init__()
        self.adds = One()
        self.color = Color.RED
        self.pair = Pair(3, torch.ones(2))
        self.counter = Counter(5)

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        if self.color == Color.BLUE:
            raise ValueError("no")
        y = self.adds.forward(x)
        other = self.pair.b
        if other is not None:
            y = y + other * self.pair.a
        return y, self.counter.step()


def doubled(self, given: Tuple[Tensor]) -> Tensor:  # type: ignore[no-untyped-def]
    return given[0] * 2


def raised(self, given: Tuple[Tensor], result: Tuple[Tensor, int]) -> Tuple[Tensor, int]:  # type: ignore[no-untyped-def]
    return result[0] + 1, result[1]


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v = torch.ones(2)
        self.n = 3

    @jitlite.export
    def __getstate__(self) -> Tuple[Tensor, int, bool]:
        return self.v, self.n, self.training

    @jitlite.export
    def __setstate__(self, state: Tuple[Tensor, int, bool]) -> None:
        self.v = state[0] + 1
        self.n = state[1]
        self.training = state[2]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.v * self.n


class Quantized(nn.Module):
    """Quantized, half-precision, complex and sparse tensors, and an object of a class in C++."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, torch.ones(2))
        scales, zeros = torch.tensor([0.1, 0.2], dtype=torch.double), torch.tensor([0, 1])
        self.register_buffer("channels", torch.quantize_per_channel(torch.ones(2, 2), scales, zeros, 0, torch.quint8))
        self.register_buffer("halves", torch.ones(2, dtype=torch.bfloat16))
        self.register_buffer("waves", torch.ones(2, dtype=torch.complex64).conj())
        self.register_buffer("sparse", torch.eye(2).to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        y = torch.ops.quantized.linear_dynamic(x, self.packed)
        return y + self.channels.dequantize().sum() + self.halves.float() + self.sparse.to_dense()


class Single(nn.Module):
    """A single operator."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.w


def _hooked() -> nn.Module:
    made = Kinds()
    made.register_forward_pre_hook(doubled)
    made.register_forward_hook(raised)
    return made


def saved(module: object) -> bytes:
    buffer = io.BytesIO()
    jitlite.save(module, buffer)
    return buffer.getvalue()


def _traced() -> bytes:
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), Layer())
    module[2].w = nn.Parameter(torch.ones(3, 3))
    module[2].tied = module[2].w
    return saved(jitlite.trace(module, torch.ones(1, 2)))


SPECIMENS: dict[str, Callable[[], bytes]] = {
    "tree": lambda: saved(jitlite.script(Tree())),
    "kinds": lambda: saved(jitlite.script(_hooked())),
    "stateful": lambda: saved(jitlite.script(Stateful())),
    "traced": _traced,
    "quantized": lambda: saved(jitlite.script(Quantized())),
    "one operator": lambda: saved(jitlite.script(Single())),
    "lite": (LITE / "branches.ptl").read_bytes,
    "lite with a state": (LITE / "setstate.ptl").read_bytes,
}
"""The bytes of each archive."""
