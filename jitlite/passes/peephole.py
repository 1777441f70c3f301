"""Simplify single nodes by what their inputs are made of.

    %2 : int = aten::len(%s)                         %2 : int = aten::len(%s)
    %3 : int = aten::add(%2, %zero)            =>    return (%2, %x)
    %l : Tensor[] = prim::ListConstruct(%x, %y)
    %4 : Tensor = aten::__getitem__(%l, %zero)
    return (%3, %4)

The rules are in `rules/peephole.py` and `rules/peephole_tensors.py`: int arithmetic with 0 and 1, truth values, `x is
None` decided by type, casts and unwraps that do nothing, `True if c else False`, items and lengths of lists and dicts
that nobody writes, facts that tensor types tell, tensors that are others again. The pass runs until no rule applies;
then dead code is eliminated.

The types of tensors are believed. Front ends give tensors types without details; details come from guards, which have
looked at the tensor, and from passes that derive them from guarded ones.

A rule replaces a node only by values that are equal to the last bit; a node that would have raised stays. New lists
stay new lists. A tensor stands in for a new equal one only if nobody writes or gets hold of either.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.analysis import may_use
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.traits import Trait
from jitlite.passes.dce import eliminate_dead_code
from jitlite.passes.loop_copies import ends_a_loop
from jitlite.passes.registry import graph_pass
from jitlite.passes.rules.context import RewriteContext, Table
from jitlite.passes.rules.peephole import CONTAINERS, NUMBERS, TRUTH, TYPES
from jitlite.passes.rules.peephole_tensors import BY_TYPE, FACTS, SAME, VIEWS

SHAPELESS = (NUMBERS, TRUTH, TYPES, CONTAINERS, SAME, VIEWS)
"""Tables of rules that hold whatever is known of tensors."""


def _by_kind(*tables: Table) -> Table:
    return {kind: tuple(rule for table in tables for rule in table.get(kind, ())) for table in tables for kind in table}


_ALL = _by_kind(*SHAPELESS, FACTS, BY_TYPE)
_WITHOUT_SHAPES = _by_kind(*SHAPELESS)


@graph_pass
def simplify(graph: Graph) -> bool:
    """Apply the rules until none applies."""
    return peephole(graph)


def peephole(graph: Graph, *, disable_shape_peepholes: bool = False) -> bool:
    """Apply the rules until none applies; without those that read tensor types if so asked."""
    rules = _WITHOUT_SHAPES if disable_shape_peepholes else _ALL
    changed = False
    while _block(graph.block, RewriteContext(graph), rules):
        graph.forget_analyses()
        changed = True
    if changed:
        eliminate_dead_code(graph)
    return changed


def _block(block: Block, context: RewriteContext, rules: Table) -> bool:
    changed = False
    for node in block.nodes:
        if node.kind == "prim::Constant":  # half of all nodes, and no rule is about them
            continue
        for inner in node.blocks:
            changed = _block(inner, context, rules) or changed
        with context.graph.inserting_before(node):
            changed = _none_outputs(node, context) or changed
            if node.kind == "prim::If":
                changed = _condition_again(node, context) or changed
                changed = _without_none(node) or changed
                changed = _same_value(node) or changed
            else:
                changed = _apply_rules(node, context, rules) or changed
    return changed


def _apply_rules(node: Node, context: RewriteContext, rules: Table) -> bool:
    for rule in rules.get(node.kind, ()):
        values = rule(node, context)
        if values is not None:
            for output, value in zip(node.outputs, values, strict=True):
                output.replace_all_uses_with(value)
            node.destroy()
            return True
    return False


def _without_none(node: Node) -> bool:
    """An output that is None in neither block has the narrower type."""
    changed = False
    for position, output in enumerate(node.outputs):
        first, second = (block.outputs[position].type for block in node.blocks)
        if T.may_be_none(output.type) and not (T.may_be_none(first) or T.may_be_none(second)):
            unified = T.unify(first, second)
            if unified is not None and not T.may_be_none(unified) and T.is_subtype(unified, output.type):
                output.type = unified
                changed = True
    return changed


def _same_value(node: Node) -> bool:
    """What is one value in both blocks, but for what its type is known to be there, is that value.

    Nobody reads a `prim::Uninitialized`, so it may be any value.
    """
    changed = False
    for position, output in enumerate(node.outputs):
        first, second = (_without_casts(block.outputs[position]) for block in node.blocks)
        if first.node.kind == "prim::Uninitialized":
            first = second
        same = first is second or second.node.kind == "prim::Uninitialized"
        if same and output.has_uses and may_use(node, first) and T.is_subtype(first.type, output.type):
            output.replace_all_uses_with(first)
            changed = True
    return changed


def _without_casts(value: Value) -> Value:
    while value.node.has(Trait.UNCHECKED):
        value = value.node.input
    return value


def _none_outputs(node: Node, context: RewriteContext) -> bool:
    """What can only be None is None, whatever made it."""
    changed = False
    for output in node.outputs if node.kind != "prim::Constant" else ():
        if output.type is T.NONE and output.has_uses:
            output.replace_all_uses_with(context.constant(None))
            changed = True
    return changed


def _condition_again(node: Node, context: RewriteContext) -> bool:
    """`True if c else False` is c, `False if c else True` is not c.

    What ends a loop in one branch stays: a loop is left faster from the branch than by a condition.
    """
    changed = False
    for position, output in enumerate(node.outputs):
        if not output.has_uses or (node.next is None and ends_a_loop(output)):
            continue
        first, second = (constant_of(block.outputs[position], None) for block in node.blocks)
        if first is True and second is False:  # not 1 and 0, which equal them
            output.replace_all_uses_with(node.input)
        elif first is False and second is True:
            output.replace_all_uses_with(_negation(node.input, context))
        else:
            continue
        changed = True
    return changed


def _negation(value: Value, context: RewriteContext) -> Value:
    return context.graph.insert("aten::__not__", (value,), (T.BOOL,)).output
