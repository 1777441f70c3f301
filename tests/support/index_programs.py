"""Random indices of tensors, as programs: everything that may stand between the brackets, read and written.

`random_program(pick)` gives the text of a function `f(x, v, n, s, t, i, j, k, m)`, with the index in it, and lists of
arguments: tensors of 0 to 4 dimensions, sizes 0 and 1 among them; indices that are tensors of no dimensions, of bools,
of the wrong kind; ints inside and far outside. Whatever eager Python does with it is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Pick = Callable[[int], int]

ENTRIES = (
    "0", "i", ":", "s", "...", "None", "-1", "1", "j", "t", "1:", ":-1", "::2", "i:", ":i", "i:j", "::i", "::-1",
    "1:j:i", ":9223372036854775808", "s:", ":s", "[0, 1]", "[0]", "k", "[True, False]", "m", "True", "s > 0",
    "[[0], [1]]", "(0, 1)", "(True, False)",
)  # fmt: skip
"""What stands between two commas: `i` and `j` are ints, `s` and `t` tensors, `k` and `m` lists of ints and bools."""

BODIES = (
    "return x[{index}]",
    "y = x[{index}]\n    y.add_(1)\n    return y",
    "x[{index}] = v\n    return x",
    "x[{index}] = n\n    return x",
    "x[{index}] += v\n    return x",
    "x[{index}] *= 2\n    return x",
    "y = x[{index}]\n    x[{index}] = y\n    x.zero_()\n    return y",
    "x[0][{index}] = v\n    return x[0]",
    "return x[{index}], x[{index}]",
)

_HEAD = (
    "def f(x: Tensor, v: Tensor, n: float, s: Tensor, t: Tensor, i: int, j: int, k: List[int], m: List[bool]):\n    "
)

_SHAPES = ((3,), (2, 3), (), (2, 3, 2), (1,), (0,), (2, 1, 3, 2), (1, 0, 2), (2, 2))
_DTYPES = (torch.float32, torch.int64, torch.bool, torch.uint8, torch.float16, torch.complex64)
_VALUES = (0.5, 2.0, -1.0, 1e300, float("nan"))
_INTS = (0, 1, -1, 2, 5, -4, 1 << 70)
_LISTS = ([0, 1], [0], [], [1, 1], [-1, 0], [7])
_MASKS = ([True, False], [True], [False, True, True], [])


def _indices() -> list[torch.Tensor]:
    return [
        torch.tensor(0), torch.tensor([0, 1]), torch.tensor(True), torch.tensor(1), torch.tensor(False),
        torch.tensor([True, False]), torch.tensor([[0, 1], [1, 0]]), torch.tensor(-1), torch.tensor([0]),
        torch.tensor([[True, False, True], [False, True, True]]), torch.tensor(1, dtype=torch.uint8),
        torch.tensor(0, dtype=torch.uint8), torch.tensor([1, 0], dtype=torch.int32), torch.tensor(7),
        torch.tensor([], dtype=torch.int64), torch.tensor([0, 9]), torch.tensor(1.0), torch.tensor([True, False, True]),
        torch.tensor([1, 0, 1], dtype=torch.uint8),
    ]  # fmt: skip


def random_program(pick: Pick, calls: int = 6) -> tuple[str, list[list[Any]]]:
    """The text of a function and arguments to call it with."""
    entries = [ENTRIES[pick(len(ENTRIES))] for _ in range(1 + pick(4))]
    index = ", ".join(e for n, e in enumerate(entries) if e != "..." or e not in entries[:n])
    body = BODIES[pick(len(BODIES))].format(index=index)
    return f"{_HEAD}{body}\n", [_arguments(pick) for _ in range(calls)]


def _arguments(pick: Pick) -> list[Any]:
    indices = _indices()
    x, v = _tensor(pick), _tensor(pick)
    if pick(3) == 0:  # a value with more dimensions of size 1 in front
        v = v[None] if pick(2) else v[None, None]
    numbers = [_INTS[pick(len(_INTS) - 1)], _INTS[pick(len(_INTS))]]
    first, second = (indices[pick(len(indices))] for _ in range(2))
    value = _VALUES[pick(len(_VALUES))]
    return [x, v, value, first, second, *numbers, list(_LISTS[pick(len(_LISTS))]), list(_MASKS[pick(len(_MASKS))])]


def _tensor(pick: Pick) -> torch.Tensor:
    shape = _SHAPES[pick(len(_SHAPES))]
    dtype = _DTYPES[pick(3 * len(_DTYPES)) % len(_DTYPES)] if pick(3) == 0 else torch.float32
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1).view(shape).to(dtype)
