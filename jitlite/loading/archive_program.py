"""The program of an archive: how its functions are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jitlite.base.source import Source
from jitlite.compiler.program import Observer, Program
from jitlite.frontend.emit.archive_casts import drop_needless_checks
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.syntax import tree
from jitlite.ir.graph import Graph
from jitlite.ir.unit import Engine, Function
from jitlite.loading.archived_numbers import compare_as_objects
from jitlite.loading.source_text import CodeFile, show_original_places
from jitlite.loading.upgraders import replacements
from jitlite.passes.inline import inline_only
from jitlite.passes.pipelines import CLEANUP
from jitlite.passes.registry import PassHook


class ArchiveProgram(Program):
    """The program of an archive. Nodes of its graphs stand where the original program had them.

    Args:
        engine: runs the functions.
        function: gives the function of a qualified name, None where the archive has none.
    """

    unites_branches = True  # torch.jit leaves out the types of variables that it merges

    def __init__(self, engine: Engine, function: Callable[[str], Function | None]) -> None:
        super().__init__(engine)
        self.files: dict[Source, CodeFile] = {}
        self._function = function

    def compile(
        self, definition: Definition, observe: Observer | None = None, hook: PassHook | None = None
    ) -> tuple[Graph, Any]:
        graph, schema = super().compile(definition, observe, hook)
        drop_needless_checks(graph)
        if inline_only(graph, replacements()):
            CLEANUP(graph)
        show_original_places(graph, self.files)
        for node in list(graph.all_nodes()):
            compare_as_objects(graph, node)
        return graph, schema

    def callees(self, function: Function) -> Iterator[Function]:
        for part in self.definition_of(function).tree.walk():
            name = _qualified_name(part.callee) if isinstance(part, tree.Apply) else None
            found = None if name is None else self._function(name)
            if found is not None:
                yield found


def _qualified_name(expr: tree.Expr) -> str | None:
    """The name that `__torch__.a.f` spells; None for what is no such name."""
    names = []
    while isinstance(expr, tree.Select):
        names.append(expr.name.name)
        expr = expr.value
    if not isinstance(expr, tree.Var) or expr.name.name != "__torch__":
        return None
    return ".".join(["__torch__", *reversed(names)])
