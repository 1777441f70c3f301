"""One spelling for each operation: nodes that mean the same get the same kind.

    %3 = aten::absolute(%x)              %3 = aten::abs(%x)
    %4 = aten::rsub(%x, %y, %alpha)  =>  %4 = aten::sub(%y, %x, %alpha)
    %5 = aten::__is__(%b, %c)            %5 = aten::eq(%b, %c)          # both bool

So passes need to know one name only.
"""

from __future__ import annotations

import itertools

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node
from jitlite.ir.traits import Link

_warn_ids = itertools.count()


def normalize_ops(graph: Graph) -> bool:
    """Give every node whose operator has several names the usual one. Says whether there was any."""
    changed = False
    for node in graph.all_nodes():
        changed |= _normalize_rsub(node) or _normalize_alias(node) or _normalize_is_bool(node)
    return changed


def _normalize_alias(node: Node) -> bool:
    usual = Link.USUAL_NAME.of(node.kind)
    if usual is None:
        return False
    node.change_kind(usual)
    return True


def _normalize_rsub(node: Node) -> bool:
    # With a number on the right there is no sub to turn it into.
    if node.kind != "aten::rsub" or not T.is_subtype(node.inputs[1].type, T.TENSOR):
        return False
    minuend, subtrahend = node.inputs[1], node.inputs[0]
    node.change_kind("aten::sub")
    node.replace_input(0, minuend)
    node.replace_input(1, subtrahend)
    return True


def _normalize_is_bool(node: Node) -> bool:
    usual = Link.OF_BOOLS.of(node.kind)
    if usual is None or any(value.type is not T.BOOL for value in node.inputs):
        return False
    node.change_kind(usual)
    return True


def annotate_warns(graph: Graph) -> None:
    """Number every `aten::warn` (attribute `warn_id`), so that each place in the source can warn once."""
    for node in graph.all_nodes():
        if node.kind == "aten::warn":
            node.attributes["warn_id"] = next(_warn_ids)
