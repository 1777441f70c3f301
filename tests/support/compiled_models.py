"""Models to be compiled as a whole: small, of every kind of layer, each with inputs of any batch size."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"


@dataclass(frozen=True)
class Model:
    """A model.

    Attributes:
        build: makes it.
        inputs: makes arguments for a batch of the size.
        is_dynamic: may the batch be of any size in one graph?
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]
    is_dynamic: bool = True


# -- blocks that torch.nn does not have


class Block(nn.Module):
    """A transformer block with a causal mask, norms in front."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.second(x))


class RMSNorm(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Gated(nn.Module):
    """Llama's feed-forward with rotary positions in front."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm, self.up, self.gate = RMSNorm(width), nn.Linear(width, 24), nn.Linear(width, 24)
        self.down = nn.Linear(24, width, bias=False)
        self.register_buffer("angles", torch.outer(torch.arange(32.0), 0.1 ** torch.arange(0, width, 2)))

    def forward(self, x: Tensor) -> Tensor:
        angles = self.angles[: x.shape[1]]
        real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack(
            (real * angles.cos() - imaginary * angles.sin(), real * angles.sin() + imaginary * angles.cos()), -1
        ).flatten(-2)
        y = self.norm(turned)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Counting(nn.Module):
    """Buffers that a call writes, one in place and one anew."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.linear(x - self.mean) * self.calls


class Broken(nn.Module):
    """Python that Dynamo cannot follow splits it into graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        torch._dynamo.graph_break()
        return self.second(x).sin()


class Views(nn.Module):
    """Results that share memory with one another and with the argument."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * self.scale
        return y, y[:, ::2].t(), x.view(-1)


class Nested(nn.Module):
    """Structures in and out, None among them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, batch: dict[str, Any], extra: list[Any]) -> dict[str, Any]:
        y = self.linear(batch["x"]) + extra[0]
        return {"y": y, "again": (y, None, extra[1]), "n": y.shape[0]}


class InPlace(nn.Module):
    """Writes into temporaries, through views."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        y[:, 1:3].mul_(2).clamp_(max=1)
        y.t()[0] = 0
        z = torch.zeros_like(y)
        z.copy_(y).add_(x, alpha=0.5)
        return z.masked_fill(z > 1, 0.25)


class Mixture(nn.Module):
    """Experts that are chosen by index, with scatter and gather."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(6, 3)
        self.experts = nn.Parameter(torch.randn(3, 6, 6) / 4)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        y = torch.einsum("bi,beij->bej", x, self.experts[chosen])
        counts = torch.zeros(3).scatter_add(0, chosen.flatten(), torch.ones(chosen.numel()))
        return (y * weights.unsqueeze(-1)).sum(1) / counts.sum()


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(2, 4, 3, 2, 1), nn.ConvTranspose2d(4, 2, 2, 2)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.norm(self.down(x)))
        up = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.cat([self.up(y), up], 1) + F.pad(x, (0, 0, 0, 0, 0, 4))


class Cell(nn.Module):
    """A recurrent cell over time, unrolled."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        state = (x.new_zeros(x.shape[1], 4), x.new_zeros(x.shape[1], 4))
        out = []
        for step in x:
            state = self.cell(step, state)
            out.append(state[0])
        return torch.stack(out)


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(5, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x, dim=-1) * self.filter, n=8, dim=-1)


# -- the list


def _floats(*shape: int, grad: bool = False) -> Callable[[int], tuple[Any, ...]]:
    def make(n: int) -> tuple[Any, ...]:
        return (torch.randn(n, *shape, requires_grad=grad),)

    return make


def _tokens(n: int) -> tuple[Any, ...]:
    return (torch.randint(0, 11, (n, 7)),)


def _sequential(*layers: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*(layer() for layer in layers))


MODELS: dict[str, Model] = {
    "linear": Model(lambda: nn.Linear(4, 3), _floats(4, grad=True)),
    "bilinear": Model(lambda: nn.Bilinear(3, 4, 2), lambda n: (torch.randn(n, 3), torch.randn(n, 4))),
    "mlp": Model(
        _sequential(lambda: nn.Linear(6, 12), nn.ReLU, lambda: nn.Dropout(0.3), lambda: nn.Linear(12, 2)), _floats(6)
    ),
    "activations": Model(
        _sequential(
            lambda: nn.Linear(6, 6), nn.ELU, nn.SELU, nn.Softplus, nn.Hardswish, nn.Mish, nn.Tanhshrink, nn.PReLU
        ),
        _floats(6, grad=True),
    ),
    "convolution": Model(
        _sequential(lambda: nn.Conv2d(2, 4, 3, padding=1), lambda: nn.BatchNorm2d(4), nn.ReLU, lambda: nn.MaxPool2d(2)),
        _floats(2, 8, 8, grad=True),
    ),
    "convolution in one dimension": Model(
        _sequential(lambda: nn.Conv1d(2, 4, 3, dilation=2), lambda: nn.InstanceNorm1d(4, affine=True), nn.GELU),
        _floats(2, 12),
    ),
    "grouped convolution": Model(
        _sequential(lambda: nn.Conv2d(4, 8, 3, groups=2), lambda: nn.AdaptiveAvgPool2d(2), nn.Flatten), _floats(4, 6, 6)
    ),
    "convolution in three dimensions": Model(
        _sequential(lambda: nn.Conv3d(1, 2, 2), lambda: nn.AvgPool3d(2), nn.Sigmoid), _floats(1, 5, 5, 5)
    ),
    "pooling": Model(
        _sequential(lambda: nn.LPPool1d(2, 2), lambda: nn.AdaptiveMaxPool1d(3), lambda: nn.Linear(3, 2)), _floats(2, 12)
    ),
    "batch norm": Model(_sequential(lambda: nn.BatchNorm1d(4), lambda: nn.Linear(4, 2)), _floats(4)),
    "layer norm": Model(
        _sequential(lambda: nn.LayerNorm(5), lambda: nn.Linear(5, 5), nn.Softmax), _floats(5, grad=True)
    ),
    "local response": Model(_sequential(lambda: nn.Conv2d(2, 6, 1), lambda: nn.LocalResponseNorm(2)), _floats(2, 4, 4)),
    "embedding": Model(_sequential(lambda: nn.Embedding(11, 6, padding_idx=0), lambda: nn.Linear(6, 3)), _tokens),
    "embedding bag": Model(_sequential(lambda: nn.EmbeddingBag(11, 6, mode="mean"), nn.Tanh), _tokens),
    "rnn": Model(lambda: nn.RNN(3, 4, batch_first=True), _floats(5, 3), is_dynamic=False),
    "lstm": Model(lambda: nn.LSTM(3, 4, num_layers=2), _floats(2, 3), is_dynamic=False),
    "gru": Model(lambda: nn.GRU(3, 4, bidirectional=True), _floats(2, 3), is_dynamic=False),
    "lstm cell": Model(Cell, lambda n: (torch.randn(4, n, 3),)),
    "attention": Model(
        lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda n: tuple(torch.randn(n, 5, 8) for _ in range(3))
    ),
    "encoder layer": Model(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), _floats(5, 8, grad=True)),
    "decoder layer": Model(
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, activation="gelu"),
        lambda n: (torch.randn(n, 4, 8), torch.randn(n, 5, 8)),
    ),
    "transformer block": Model(Block, _floats(6, 16, grad=True)),
    "gated block": Model(Gated, _floats(6, 16)),
    "tokens": Model(
        _sequential(lambda: nn.Embedding(11, 16), Block, RMSNorm, lambda: nn.Linear(16, 11), lambda: nn.LogSoftmax(-1)),
        _tokens,
    ),
    "patches": Model(
        _sequential(
            lambda: nn.Unfold(4, stride=4),
            lambda: nn.Flatten(1),
            lambda: nn.Linear(128, 16),
            lambda: nn.Unflatten(1, (2, 8)),
        ),
        _floats(2, 8, 8),
    ),
    "pixel shuffle": Model(
        _sequential(lambda: nn.Conv2d(1, 4, 3, padding=1), lambda: nn.PixelShuffle(2)), _floats(1, 5, 5)
    ),
    "mixture": Model(Mixture, _floats(6)),
    "u-net": Model(UNet, _floats(2, 8, 8)),
    "counting": Model(Counting, _floats(5)),
    "graph break": Model(Broken, _floats(4, grad=True)),
    "views": Model(Views, _floats(6)),
    "in place": Model(InPlace, _floats(6)),
    "nested": Model(Nested, lambda n: ({"x": torch.randn(n, 3)}, [torch.randn(3), torch.ones(2)])),
    "complex": Model(Complex, _floats(8)),
    "weight norm": Model(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), _floats(4)),
    "cosine": Model(nn.CosineSimilarity, lambda n: tuple(torch.randn(n, 4, requires_grad=True) for _ in range(2))),
    "distance": Model(
        lambda: nn.PairwiseDistance(1), lambda n: tuple(torch.randn(n, 4, requires_grad=True) for _ in range(2))
    ),
    "double": Model(lambda: nn.Linear(4, 3).double(), lambda n: (torch.randn(n, 4, dtype=torch.double),)),
    "bfloat16": Model(
        lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()).bfloat16(), lambda n: (torch.randn(n, 4).bfloat16(),)
    ),
}


def example(name: str) -> Any:
    """The example model's Python module."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return importlib.import_module(name)
