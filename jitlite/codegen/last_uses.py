"""Which values are given up where: those that may keep much memory alive, after their last use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from jitlite.codegen.nesting import Nesting
from jitlite.codegen.variables import Variables
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value

_SMALL = frozenset({T.INT, T.FLOAT, T.BOOL, T.COMPLEX, T.NUMBER, T.STRING, T.NONE, T.DEVICE, T.FUNCTION, T.LAYOUT})


def last_uses(graph: Graph, nesting: Nesting, variables: Variables, *, of_parameters: bool) -> dict[Node, list[Value]]:
    """For each statement, the values that may be large and that nothing reads after it."""
    found: dict[Node, list[Value]] = {}
    parameters = [graph.block.param_node] if of_parameters else []
    for node in itertools.chain(parameters, graph.all_nodes()):
        if node in nesting.nested or node.block is None or node.kind == "prim::Constant":
            continue
        if any(owner in nesting.conditional for owner in _owners(node)):
            continue
        for value in node.outputs:
            last = _last_use(value, nesting, variables) if value.has_uses and may_be_large(value.type) else None
            if last is not None:
                found.setdefault(last, []).append(value)
    return found


def _last_use(value: Value, nesting: Nesting, variables: Variables) -> Node | None:
    """The statement after which a value is to be forgotten; None where that is pointless or too early."""
    block = value.node.block
    assert block is not None, "its node is in a block"
    last = max((nesting.root_in(use.user, block) for use in value.uses), key=variables.end_of)
    if last.kind == "prim::Return" or is_last_of_block(last):
        return None
    variable = variables[value]
    # a branch in which the variable holds something else forgets that itself, and only that branch does
    if any(last in _owners(v.node) for v in variable.values):
        return None
    return None if variable.is_used_after(variables.end_of(last) + 1) else last


def may_be_large(t: T.Type) -> bool:
    """Can a value of the type keep much memory alive?"""
    return t not in _SMALL and not isinstance(t, T.EnumType)


def is_last_of_block(node: Node) -> bool:
    """Does nothing come after this statement in its block?"""
    following = node.next
    while following is not None and following.kind == "prim::Constant":
        following = following.next
    return following is None


def _owners(node: Node) -> Iterator[Node]:
    block = node.block
    while block is not None and block.owner is not None:
        yield block.owner
        block = block.owner.block
