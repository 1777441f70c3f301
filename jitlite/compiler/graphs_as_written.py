"""Graphs for the debugger: a function as it is written, with marks for its variables and before any pass."""

from __future__ import annotations

from jitlite.frontend.emit import functions
from jitlite.frontend.emit.definition import FunctionCompiler
from jitlite.frontend.emit.statement_marks import has_marks, mark_statements, mark_values
from jitlite.frontend.syntax.tree_base import depth_of_tree
from jitlite.ir.compiling import compiling, depth_of, make_room
from jitlite.ir.graph import Graph
from jitlite.ir.unit import Function
from jitlite.passes.growing_lists import follow_growing_lists

NORMAL_FORM_STEPS = (*functions.SSA_STEPS, ("lists", follow_growing_lists), *functions.NORMAL_FORM_STEPS)
"""From the emitted graph to the form that passes expect; only behind them are loops what they are in Python."""


def graph_as_written(program: FunctionCompiler, function: Function) -> Graph:
    """The graph of a function of a program, compiled anew, with marks (`frontend/emit/statement_marks.py`).

    Raises:
        CompileError: where it does not compile.
    """
    with compiling():
        definition = program.definition_of(function)
        make_room(depth_of_tree(definition.tree))
        graph, _ = functions.emit(program, definition, functions.declared_schema(definition), marks_statements=True)
        mark_statements(graph)
        for _, step in (*NORMAL_FORM_STEPS, *functions.FINAL_STEPS):
            make_room(depth_of(graph))
            step(graph)
    return graph


def with_marks(graph: Graph) -> Graph:
    """The graph with marks for its named values, or itself where it has marks."""
    if has_marks(graph):
        return graph
    copy = graph.copy()
    mark_values(copy)
    return copy
