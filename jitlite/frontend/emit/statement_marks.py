"""Marks for the debugger: which variable has which value, where a statement begins, and where it leaves its block.

    prim::Store[name="x"](%v)     =>     prim::Store[name="x"](%v)
                                         prim::Variable[name="x"](%v)

    prim::ReturnStmt(%v)          =>     prim::Line[leaves=1]()
                                         prim::ReturnStmt(%v)

The emitter puts another `prim::Line` where each statement begins, at the place of what is evaluated first.
A mark stays where it is while the Stores go. So when a program runs, the mark of a variable that ran last says what
the variable is, through branches, loops and exits: nothing has to be known of them. Marks have effects, which keeps the
values of variables that are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jitlite.frontend.emit.ssa import is_meaningful_name
from jitlite.frontend.syntax import tree
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.traits import Trait

VARIABLE_MARK = "prim::Variable"
LINE_MARK = "prim::Line"

_NUMBERED = re.compile(r"(.+)\.\d+")


def mark_statements(graph: Graph) -> None:
    """Put marks into a graph fresh from the emitter."""
    for node in graph.all_nodes():
        if node.kind == "prim::Store" and is_meaningful_name(node.attributes["name"]):
            _mark(node, node.attributes["name"], node.input)
        elif (node.has(Trait.EARLY_EXIT) or node.kind == "prim::LocalCall") and node.range is not None:
            mark = graph.create(LINE_MARK, range=node.range).insert_before(node)
            mark.attributes["leaves"] = int(node.kind in ("prim::ReturnStmt", "prim::BreakStmt"))


def mark_statement(graph: Graph, statement: tree.Stmt) -> None:
    """Put the mark of a statement that begins; Python leaves constants that stand alone out, such as docstrings."""
    found = getattr(statement, "value", None)
    if isinstance(statement, tree.ExprStmt) and isinstance(found, tree.Const | tree.StringLiteral):
        return
    first: tree.Tree = statement
    if isinstance(found, tree.Expr) and not isinstance(statement, tree.AugAssign):
        first = found.cond if isinstance(found, tree.TernaryIf) else found
    mark = graph.insert(LINE_MARK, [], [])
    mark.range = first.range
    if isinstance(statement, tree.For | tree.While):
        mark.attributes["loop"] = 1


def _mark(store: Node, name: str, value: Value) -> None:
    """Mark a Store. That of a parameter, or of a type that is known better, is no statement, so it has no line.

    The variables of a nested function have its name in front.
    """
    is_statement = value.node.kind not in ("prim::Param", "prim::unchecked_cast") or not _is_of_function(value)
    mark = store.graph.create(VARIABLE_MARK, (value,), (), {"name": name.rpartition(".")[2]}, None)
    if is_statement:
        mark.range = store.range
    mark.insert_after(store)


def _is_of_function(value: Value) -> bool:
    """Is the value a parameter of the whole graph, or no parameter?"""
    return value.node.kind != "prim::Param" or value.node is value.node.graph.block.param_node


def mark_values(graph: Graph) -> None:
    """Put marks into a graph in SSA form that has no source: a value with a name is a variable of that name."""
    _mark_values_of(graph.block)


def _mark_values_of(block: Block) -> None:
    for node in block.nodes:
        for inner in node.blocks:
            _mark_values_of(inner)
        for mark in reversed(list(_marks(block.graph, node.outputs))):
            mark.insert_after(node)
    for mark in reversed(list(_marks(block.graph, block.inputs))):
        block.prepend(mark)


def _marks(graph: Graph, values: Iterable[Value]) -> Iterable[Node]:
    for value in values:
        if value.has_name and value.node.kind != "prim::Uninitialized":
            numbered = _NUMBERED.fullmatch(value.name)
            name = numbered.group(1) if numbered else value.name
            if is_meaningful_name(name) and name.isidentifier():
                yield graph.create(VARIABLE_MARK, (value,), (), {"name": name})


def has_marks(graph: Graph) -> bool:
    """Are there marks in the graph already?"""
    return any(node.kind in (VARIABLE_MARK, LINE_MARK) for node in graph.all_nodes())
