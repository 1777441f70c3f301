"""A solution of exercise 6."""

from __future__ import annotations

from collections import Counter

from ch6_interpreter import Frame, ScriptFunction


def profile(function: ScriptFunction, *args: object) -> tuple[object, dict[int, int]]:
    function.check(args)
    frame = Frame(function.code, args)
    counts: Counter[int] = Counter()
    running = True
    while running:
        counts[frame.instruction.line] += 1
        running = frame.step()
    return frame.stack[0], dict(counts)
