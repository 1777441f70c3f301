"""How long compiling takes, and how it grows with the length of a function, beside torch.jit.script.

    python benchmarks/compile_time.py [--sizes 100,1000,10000] [--rounds 5] [--json out.json]

The growth exponent is that of size: 1.0 is linear, 2.0 quadratic.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, Dict

import torch
from timing import interleaved, shown
from workloads import many_statements

import jitlite


def measure(size: int, rounds: int, folder: Path) -> Dict[str, float]:
    """Median seconds of compiling a function of `size` statements."""

    def compiling(script: Callable[..., Any]) -> Callable[[], Any]:
        fresh = iter([many_statements(size, folder) for _ in range(rounds + 1)])
        return lambda: script(next(fresh)).graph

    seconds = interleaved({"jitlite": compiling(jitlite.script), "torch.jit": compiling(torch.jit.script)}, rounds)
    return {name: statistics.median(times) for name, times in seconds.items()}


def exponents(medians: Dict[int, Dict[str, float]]) -> Dict[str, float]:
    """Per compiler: the slope of log(time) over log(size), from the two largest sizes."""
    small, large = sorted(medians)[-2:]
    return {
        name: math.log(medians[large][name] / medians[small][name]) / math.log(large / small) for name in medians[large]
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the medians to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    medians: Dict[int, Dict[str, float]] = {}
    print(f"{'statements':>10} {'jitlite':>10} {'torch.jit':>10} {'ratio':>8} {'us/statement':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for size in (int(s) for s in options.sizes.split(",")):
            rounds = max(1, min(options.rounds, 20_000 // size + 1))
            found = medians[size] = measure(size, rounds, Path(folder))
            ours, theirs = found["jitlite"], found["torch.jit"]
            print(f"{size:10} {shown(ours):>10} {shown(theirs):>10} {ours / theirs:7.1f}x {1e6 * ours / size:13.1f}")
    if len(medians) > 1:
        growth = exponents(medians)
        print("growth exponent: " + ", ".join(f"{name} {value:.2f}" for name, value in growth.items()))
    if options.json:
        Path(options.json).write_text(json.dumps(medians, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
