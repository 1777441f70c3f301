"""In which order torch has equal elements, where its documentation leaves that open.

Nothing is taken for granted: each order is tried when it is first needed, in a thread where no mode is on. Where torch
has another one, the operator stays with Python, or the kernel gives up where elements are equal.
"""

from __future__ import annotations

import functools

import torch

from jitlite.kernels.loop_ir import DType
from jitlite.kernels.torch_abi import elsewhere


def _row(length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Elements of which many are equal."""
    return torch.tensor([i * 7 % 5 for i in range(length)], dtype=dtype, device="cpu")


@functools.cache
def topk_is_known() -> bool:
    """Does `topk` give those of equal elements that `sorting` gives?"""
    try:
        found = elsewhere(lambda: [_row(len_).topk(count)[1].tolist() for len_, count in _TOPK])
    except Exception:
        return False
    return found == list(_TOPK.values())


_TOPK = {
    (7, 3): [2, 4, 6],
    (40, 5): [27, 7, 32, 22, 12],
    (40, 30): [
        2, 37, 22, 17, 7, 32, 27, 12, 39, 19, 24, 14, 29, 9, 34, 4, 31, 11, 16, 6, 21, 1, 36, 26, 28, 33, 8, 3, 13, 18,
    ],
    (200, 3): [12, 7, 2],
    (330, 5): [7, 12, 17, 22, 2],
}  # fmt: skip
"""For the length of a row and how many elements are asked for, which ones they are."""


@functools.cache
def sort_is_stable(dtype: DType) -> bool:
    """Does `sort` leave equal elements in order where it need not?"""
    try:
        return elsewhere(lambda: all(_stays(_row(length, dtype.torch)) for length in (3, 16, 100, 999)))
    except Exception:
        return False


def _stays(row: torch.Tensor) -> bool:
    ways = [row.sort(descending=d)[1].equal(row.sort(descending=d, stable=True)[1]) for d in (False, True)]
    return all(ways)
