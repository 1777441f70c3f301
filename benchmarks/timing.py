"""Fair timing on a machine that others use too: the contestants take turns, and medians are compared."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any


def interleaved(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contestant in each round: A, B, C, A, B, C, ... One turn each beforehand is not counted."""
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            gc.collect()
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over the rounds of how many times faster `ours` was in that round."""
    return statistics.median(t / o for o, t in zip(ours, theirs, strict=True))


def shown(seconds: float) -> str:
    return (
        f"{seconds:.2f} s"
        if seconds >= 1
        else f"{1e3 * seconds:.2f} ms"
        if seconds >= 1e-3
        else f"{1e6 * seconds:.1f} us"
    )


def calls_for(run: Callable[[], Any], seconds: float) -> int:
    """How many calls take about that long."""
    run()
    start = time.perf_counter()
    run()
    return max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
