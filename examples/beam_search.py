"""Beam search over a small language model given as a table: dicts, lists of tuples, sorting, early exit.

python examples/beam_search.py
"""

from typing import Dict, List, Tuple

import torch
from torch import Tensor

import jitlite


def extend(beam: List[int], logp: float, row: Tensor, width: int) -> List[Tuple[float, List[int]]]:
    """The `width` best continuations of one beam."""
    values, indices = torch.topk(row, width)
    found: List[Tuple[float, List[int]]] = []
    for i in range(width):
        found.append((logp + float(values[i]), beam + [int(indices[i])]))  # noqa: RUF005
    return found


def search(table: Tensor, start: int, end: int, width: int, steps: int) -> Tuple[List[int], float, Dict[int, int]]:
    """The most probable sequence; also how many beams ended at each length."""
    beams: List[Tuple[float, List[int]]] = [(0.0, [start])]
    best: List[int] = []
    best_score = -float("inf")
    ended: Dict[int, int] = {}
    for step in range(steps):
        candidates: List[Tuple[float, List[int]]] = []
        for score, beam in beams:
            if score <= best_score:
                continue
            for more, longer in extend(beam, score, table[beam[-1]], width):
                if longer[-1] != end:
                    candidates.append((more, longer))
                else:
                    ended[step] = ended.get(step, 0) + 1
                    if more > best_score:
                        best_score = more
                        best = longer
        if len(candidates) == 0:
            break
        scores = torch.tensor([c[0] for c in candidates])
        order = torch.argsort(scores, descending=True, stable=True)
        kept: List[Tuple[float, List[int]]] = []
        for i in range(min(width, len(candidates))):
            kept.append(candidates[int(order[i])])
        beams = kept
    return best, best_score, ended


def main() -> int:
    torch.manual_seed(9)
    logits = 3 * torch.randn(12, 12)
    logits[:4, 11] -= 9  # these words end no sentence
    table = torch.log_softmax(logits, dim=1)
    expected = search(table, 0, 11, 4, 12)
    scripted = jitlite.script(search)
    got = scripted(table, 0, 11, 4, 12)
    print("best sequence", got[0], f"log probability {got[1]:.4f}", "beams ended", got[2])
    print("equal to eager:", got == expected)
    return 0 if got == expected else 1


if __name__ == "__main__":
    raise SystemExit(main())
