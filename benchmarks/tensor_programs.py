"""Programs over tensors: elementwise, reductions, products, and loops and branches around them.

python benchmarks/run_time.py --tensors [--only recurrence,newton] [--rounds 15]
python benchmarks/run_time.py --gradients
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict, List, Tuple

import torch
from torch import Tensor


def elementwise(x: Tensor, y: Tensor) -> Tensor:
    """Arithmetic without functions."""
    a = x * 0.5 + y
    b = torch.clamp(x - y, -1.0, 1.0)
    return torch.relu(a * b) - (a - b).abs() * 0.125


def functions(x: Tensor, y: Tensor) -> Tensor:
    """exp, tanh, sigmoid and erf."""
    return torch.exp(-x.abs()) * torch.tanh(y) + torch.sigmoid(x + y) * torch.erf(y)


def normalized(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm by hand."""
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
    return centred * scale * weight + bias


def distribution(x: Tensor) -> Tensor:
    """Softmax by hand."""
    raised = torch.exp(x - x.amax(-1, keepdim=True))
    return raised / raised.sum(-1, keepdim=True)


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One head after the other, in a batch."""
    weights = torch.softmax(torch.matmul(query, key.transpose(-2, -1)) * 0.25, -1)
    return torch.matmul(weights, value)


def perceptron(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """Two layers."""
    return torch.addmm(b2, torch.relu(torch.addmm(b1, x, w1)), w2)


def recurrence(xs: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tuple[Tensor, Tensor]:
    """A recurrent net whose states are put together."""
    states: List[Tensor] = []
    for t in range(xs.size(0)):
        h = torch.tanh(torch.mm(xs[t], w) + torch.mm(h, u))
        states.append(h)
    return torch.stack(states), h


def gated(xs: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tensor:
    """A recurrent net with a gate."""
    for t in range(xs.size(0)):
        gate, new = (torch.mm(xs[t], w.t()) + torch.mm(h, u.t())).chunk(2, 1)
        gate = torch.sigmoid(gate)
        h = gate * h + (1.0 - gate) * torch.tanh(new)
    return h


def cube_roots(a: Tensor) -> Tensor:
    """Newton's method until no element changes much."""
    x = torch.ones_like(a)
    trips = 0
    while bool(((x * x * x - a).abs() > 1e-3).any()) and trips < 200:
        x = x - (x * x * x - a) / (3.0 * x * x)
        trips += 1
    return x


def longest_common(a: Tensor, b: Tensor) -> Tensor:
    """The length of the longest common subsequence: a table, filled element by element."""
    table = torch.zeros(a.size(0) + 1, b.size(0) + 1)
    for i in range(a.size(0)):
        for j in range(b.size(0)):
            if bool(a[i] == b[j]):
                table[i + 1, j + 1] = table[i, j] + 1
            else:
                table[i + 1, j + 1] = torch.max(table[i, j + 1], table[i + 1, j])
    return table[a.size(0), b.size(0)]


def chosen_words(table: Tensor, w: Tensor, out: Tensor, steps: int) -> List[int]:
    """The likeliest word after each word."""
    word = 1
    found: List[int] = []
    for _ in range(steps):
        state = torch.tanh(torch.mm(table[word].unsqueeze(0), w))
        word = int(torch.mm(state, out).argmax(1).item())
        found.append(word)
    return found


def tensor_workloads() -> Dict[str, Tuple[Callable[..., Any], Tuple[Any, ...]]]:
    """Functions with arguments, by name."""
    torch.manual_seed(0)
    r = torch.randn
    pairs = {f"{f.__name__}_{n}": (f, (r(n), r(n))) for f in (elementwise, functions) for n in (10, 1_000, 100_000)}
    return {
        **pairs,
        "elementwise_1e7": (elementwise, (r(10_000_000), r(10_000_000))),
        "layer_norm_32x64": (normalized, (r(32, 64), r(64), r(64))),
        "layer_norm_2kx1k": (normalized, (r(2048, 1024), r(1024), r(1024))),
        "softmax_32x64": (distribution, (r(32, 64),)),
        "softmax_2kx1k": (distribution, (r(2048, 1024),)),
        "attention": (attention, (r(2, 8, 16), r(2, 8, 16), r(2, 8, 16))),
        "perceptron": (perceptron, (r(1, 64), r(64, 128), r(128), r(128, 10), r(10))),
        "recurrence_1x32": (recurrence, (r(20, 1, 32), torch.zeros(1, 32), r(32, 32) * 0.1, r(32, 32) * 0.1)),
        "gated_1x32": (gated, (r(20, 1, 32), torch.zeros(1, 32), r(64, 32) * 0.1, r(64, 32) * 0.1)),
        "gated_16x128": (gated, (r(20, 16, 128), torch.zeros(16, 128), r(256, 128) * 0.1, r(256, 128) * 0.1)),
        "cube_roots": (cube_roots, (torch.linspace(1.0, 60.0, 256),)),
        "longest_common": (longest_common, (torch.randint(0, 4, (16,)), torch.randint(0, 4, (16,)))),
        "chosen_words": (chosen_words, (r(100, 32), r(32, 48) * 0.3, r(48, 100), 40)),
        **_halves(),
    }


def _halves() -> Dict[str, Tuple[Callable[..., Any], Tuple[Any, ...]]]:
    """Some of them with elements of 16 bits."""
    found: Dict[str, Tuple[Callable[..., Any], Tuple[Any, ...]]] = {}
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):

        def r(*size: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.randn(size).to(dtype)

        weights = (r(64, 32) * 0.1, r(64, 32) * 0.1)
        found |= {f"elementwise_{n}_{name}": (elementwise, (r(n), r(n))) for n in (1_000, 100_000)}
        found[f"functions_1000_{name}"] = functions, (r(1_000), r(1_000))
        found[f"layer_norm_32x64_{name}"] = normalized, (r(32, 64), r(64), r(64))
        found[f"layer_norm_2kx1k_{name}"] = normalized, (r(2048, 1024), r(1024), r(1024))
        found[f"perceptron_{name}"] = perceptron, (r(1, 64), r(64, 128), r(128), r(128, 10), r(10))
        found[f"gated_1x32_{name}"] = gated, (r(20, 1, 32), torch.zeros(1, 32, dtype=dtype), *weights)
    return found


def training_workloads() -> Dict[str, Tuple[Callable[..., Any], Tuple[Any, ...]]]:
    """Functions with arguments whose parameters require gradients, by name."""
    torch.manual_seed(0)
    r = torch.randn

    def p(*size: int) -> Tensor:
        return (r(*size) * 0.1).requires_grad_()

    return {
        "functions_1000": (functions, (p(1_000), p(1_000))),
        "layer_norm_32x64": (normalized, (p(32, 64), p(64), p(64))),
        "attention": (attention, (p(2, 8, 16), p(2, 8, 16), p(2, 8, 16))),
        "perceptron": (perceptron, (r(1, 64), p(64, 128), p(128), p(128, 10), p(10))),
        "recurrence_1x32": (recurrence, (r(20, 1, 32), torch.zeros(1, 32), p(32, 32), p(32, 32))),
        "recurrence_16x128": (recurrence, (r(20, 16, 128), torch.zeros(16, 128), p(128, 128), p(128, 128))),
        "gated_1x32": (gated, (r(20, 1, 32), torch.zeros(1, 32), p(64, 32), p(64, 32))),
        "gated_16x128": (gated, (r(20, 16, 128), torch.zeros(16, 128), p(256, 128), p(256, 128))),
    }
