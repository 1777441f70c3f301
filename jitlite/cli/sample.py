"""A small function that visits every stage: the demo shows it, the self-check runs it."""

from __future__ import annotations

import torch
from torch import Tensor


def collapse(best: Tensor, blank: int, alphabet: str) -> tuple[str, list[int]]:
    """Read off a greedy CTC path: drop repeats, then blanks; also tell at which steps letters begin."""
    text = ""
    starts: list[int] = []
    previous = blank
    for step in range(best.size(0)):
        current = int(best[step])
        if current == previous:
            continue
        previous = current
        if current != blank:
            text += alphabet[current - 1]
            starts.append(step)
    return text, starts


def arguments() -> tuple[Tensor, int, str]:
    """Arguments for `collapse`."""
    return torch.tensor([0, 8, 8, 0, 5, 12, 0, 12, 12, 15, 0, 0]), 0, "abcdefghijklmnopqrstuvwxyz"
