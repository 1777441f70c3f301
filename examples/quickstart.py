"""The first five minutes: compile a function, run it, look at it.

python examples/quickstart.py
"""

from typing import List

import torch
from torch import Tensor

import jitlite


@jitlite.script
def clipped_sums(rows: List[Tensor], limit: float) -> List[float]:
    sums: List[float] = []
    for row in rows:
        total = float(row.sum())
        if total > limit:
            total = limit
        sums.append(total)
    return sums


def main() -> int:
    rows = [torch.ones(2), torch.ones(5), torch.arange(4.0)]
    print("result: ", clipped_sums(rows, 4.0))
    print("schema: ", clipped_sums.schema)
    print(clipped_sums.graph)
    try:
        clipped_sums(rows, "four")
    except RuntimeError as error:
        print("a wrong argument:", str(error).splitlines()[0])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
