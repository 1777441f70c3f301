"""How far propagation walks."""

from __future__ import annotations

from strategies import compile_source

import jitlite
from jitlite.analysis.propagation import Propagation
from jitlite.analysis.result_types import ModeFacts


def nested_loops(depth: int) -> str:
    """Loops within one another, each of which is walked twice: what it carries changes."""
    lines = ["def f(k: int) -> int:", "    c = 0"]
    for i in range(depth):
        lines += [f"{'    ' * (i + 1)}for i{i} in range(k):", f"{'    ' * (i + 2)}c{i} = 0"]
    lines += ["    " * (depth + 1) + "c = c + 1"]
    lines += [f"{'    ' * (i + 2)}c = c + c{i}" for i in reversed(range(depth))]
    return "\n".join([*lines, "    return c\n"])


def test_walks_of_nested_loops_do_not_multiply(monkeypatch):
    walked = []
    walk = Propagation._block
    monkeypatch.setattr(Propagation, "_block", lambda self, block: (walked.append(block), walk(self, block))[1])

    def steps(depth: int) -> int:
        graph = jitlite.script(compile_source(nested_loops(depth))["f"]).graph.copy()
        walked.clear()
        Propagation(graph, ModeFacts())
        return len(walked)

    few, some, many = steps(6), steps(9), steps(12)
    assert many - some == some - few
