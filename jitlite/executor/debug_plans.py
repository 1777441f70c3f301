"""How a function is run for a debugger: as it is written, on the stack machine, with who looks on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from jitlite.compiler.graphs_as_written import with_marks
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.debugging.session import Debugger
from jitlite.interpreter.watching import current_watcher, watched_by
from jitlite.ir.graph import Graph
from jitlite.ir.unit import Function


def debug_code(graph: Graph, function: Function | None, name: str, objects: bool) -> Code:
    """The bytecode that a debugger runs.

    Args:
        graph: what runs where there is no source: what was traced or read as a graph.
        function: what the graph is of.
        name, objects: as for `lower`.
    """
    written = None if function is None or function.as_written is None else function.as_written(function)
    return lower(with_marks(graph) if written is None else written, name, objects, keep_nodes=True)


def run_debugged(code: Code, arguments: Sequence[object], code_for: Callable[[Function], Code], may_stop: bool) -> Any:
    """Run such code. Whoever looks on already sees it; else a debugger does where there may be a `breakpoint()`."""
    if may_stop and current_watcher() is None and os.environ.get("PYTHONBREAKPOINT") != "0":
        with watched_by(Debugger(is_asleep=True)):
            return vm.run(code, arguments, code_for)
    return vm.run(code, arguments, code_for)
