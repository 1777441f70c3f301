"""Random graphs of operators on tensors for engines, as functions: each is run by an engine beside eager.

    PYTHONPATH=tests/support python tests/support/engine_programs.py onnxruntime 0 100

A program is a list of steps on tensors of the shape (n, 4, 6), float32, and on what comes of them; the number of rows
varies. Steps keep values small, so that differences are those of rounding.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from engine_checks import small_engine
from torch import Tensor, nn

import jitlite

ROWS = (3, 2, 5)
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": F.gelu, "silu": F.silu, "abs": torch.abs,
    "neg": torch.neg, "exp": lambda x: (-x.abs()).exp(), "log": lambda x: (x.abs() + 0.5).log(), "sin": torch.sin,
    "cos": torch.cos, "sqrt": lambda x: (x.abs() + 0.1).sqrt(), "floor": lambda x: x.floor() * 0.5, "erf": torch.erf,
    "sign": torch.sign, "square": lambda x: x.clamp(-2, 2).square(), "softplus": F.softplus, "elu": F.elu,
    "hardswish": F.hardswish, "leaky": lambda x: F.leaky_relu(x, 0.2), "clamp": lambda x: x.clamp(-1, 0.5),
    "round": lambda x: (x * 4).round() / 4, "atan": torch.atan, "frac": torch.frac, "mish": F.mish,
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(1), "cumsum": lambda x: x.cumsum(1) / 4,
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]), "center": lambda x: x - x.mean(-1, keepdim=True),
    "scale": lambda x: x / (x.abs().amax(-1, keepdim=True) + 1), "transposed": lambda x: x.transpose(1, 2).contiguous(),
    "reshaped": lambda x: x.reshape(x.shape[0], x.shape[2], x.shape[1]), "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 2), "padded": lambda x: F.pad(x, [1, 0])[..., :-1], "tril": torch.tril,
    "halves": lambda x: torch.cat(x.chunk(2, 2)[::-1], 2), "sorted": lambda x: x.sort(2)[0],
    "largest": lambda x: x.topk(2, 2)[0].sum(2, keepdim=True) + x, "var": lambda x: x - x.var(2, keepdim=True) * 0.1,
    "masked": lambda x: x.masked_fill(x > 0.5, 0.25), "whole": lambda x: x + x.argmax(2, keepdim=True) * 0.1,
    "ints": lambda x: (x * 3).to(torch.int64).float() / 3, "doubles": lambda x: (x.double() * 1.5).float(),
    "strided": lambda x: x[:, :, ::2].repeat_interleave(2, 2), "gathered": lambda x: x.gather(2, x.argsort(2)),
    "stacked": lambda x: torch.stack([x, -x], 0).sum(0) + x,
    "einsum": lambda x: torch.einsum("nij,nkj->nik", x, x).mean(2, keepdim=True) * 0.1 + x,
    "any": lambda x: x * (x > 0).any(2, keepdim=True), "linspace": lambda x: x + torch.linspace(0, 1, x.shape[2]),
    "square_root": lambda x: torch.hypot(x, x * 0.5), "lerp": lambda x: torch.lerp(x, -x, 0.25),
}  # fmt: skip
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": lambda x, y: torch.tanh(x) * torch.tanh(y), "max": torch.maximum,
    "min": torch.minimum, "where": lambda x, y: torch.where(x > y, x, y * 0.5), "div": lambda x, y: x / (y.abs() + 1),
    "matmul": lambda x, y: (x @ y.transpose(1, 2)) @ y * 0.05, "atan2": lambda x, y: torch.atan2(x, y.abs() + 0.5),
    "pow": lambda x, y: (x.abs() + 0.5).clamp(max=2) ** y.clamp(-2, 2), "remainder": lambda x, y: x % (y.abs() + 1),
    "less": lambda x, y: (x < y).float(), "sum": lambda x, y: x + y.sum(2, keepdim=True) * 0.1,
    "first": lambda x, y: x + y[:, :1], "cat": lambda x, y: torch.cat([x, y], 2)[..., : x.shape[2]],
}  # fmt: skip


class EngineProgram(nn.Module):
    """A random program, the same for the same number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        chosen = random.Random(number)
        self.steps: list[tuple[str, tuple[int, ...]]] = []
        for i in range(chosen.randint(3, 9)):
            if chosen.random() < 0.65:
                self.steps.append((chosen.choice(list(UNARY)), (chosen.randrange(i + 2),)))
            else:
                self.steps.append((chosen.choice(list(BINARY)), (chosen.randrange(i + 2), chosen.randrange(i + 2))))
        self.results = [i + 2 for i in range(len(self.steps)) if chosen.random() < 0.3]

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        values = [x, y]
        for name, operands in self.steps:
            given = [values[i] for i in operands]
            if len(given) == 1:
                values.append(UNARY[name](given[0]))
            else:
                first, second = given
                values.append(BINARY[name](first, second.reshape(first.shape)))
        return (*(values[i] + 0 for i in self.results), values[-1] + 0)


def check_program(number: int, engine: str) -> jitlite.api.optimize.OptimizedModule:
    """See that an engine gives what eager gives, for all numbers of rows.

    Raises:
        AssertionError: it does not.
    """
    model = EngineProgram(number).eval()
    torch.manual_seed(number)
    given = {n: (torch.randn(n, 4, 6), torch.randn(n, 4, 6)) for n in ROWS}
    fast = jitlite.optimize(model, given[ROWS[0]], engine=small_engine(engine), dynamic_shapes={"x": [0], "y": [0]})
    with torch.no_grad():
        for n, args in given.items():
            found, expected = fast(*args), model(*args)
            for i, (one, other) in enumerate(zip(found, expected, strict=True)):
                note = f"program {number}, {n} rows, result {i}, {model.steps}: {{}}".format
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4, msg=note)
    return fast


def main(engine: str, first: int, last: int) -> None:
    failed = 0
    for number in range(first, last):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fast = check_program(number, engine)
        except Exception as error:
            failed += 1
            print(f"{number}: {type(error).__name__}: {str(error)[:500]}", flush=True)
            continue
        told = fast.explain()
        if fast.counters.fallbacks or "the model as it was" in told or "left out: aten" in told:
            words = ("left out: aten", "as a graph", "as it was")
            lines = [line.strip() for line in told.splitlines() if any(word in line for word in words)]
            print(f"{number}: {EngineProgram(number).steps}\n    " + "\n    ".join(dict.fromkeys(lines)), flush=True)
    print(f"{last - first} programs, {failed} failed")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
