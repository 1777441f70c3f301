"""Simplify single nodes by what their inputs are made of.

    %2 : int = aten::len(%s)                         %2 : int = aten::len(%s)
    %3 : int = aten::add(%2, %zero)            =>    return (%2, %x)
    %l : Tensor[] = prim::ListConstruct(%x, %y)
    %4 : Tensor = aten::__getitem__(%l, %zero)
    return (%3, %4)

The rules are in `rules/peephole.py`: int arithmetic with 0 and 1, `x is None` decided by type, casts and unwraps that
do nothing, `True if c else False`, items and lengths of lists and dicts that nobody writes, facts that tensor types
tell, tensors that are others again. The pass runs until no rule applies.

A rule replaces a node only by values that are equal to the last bit; a node that would have raised stays. New lists
stay new lists. A tensor stands in for a new equal one only if nobody writes or gets hold of either.
"""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.passes.alias import AliasDb
from jitlite.passes.registry import graph_pass
from jitlite.passes.rules.peephole import RULES, Context


@graph_pass
def simplify(graph: Graph) -> bool:
    """Apply the rules until none applies."""
    changed = False
    while _block(graph.block, Context(graph, AliasDb(graph))):
        changed = True
    return changed


def _block(block: Block, context: Context) -> bool:
    changed = False
    for node in block.nodes:
        for inner in node.blocks:
            changed = _block(inner, context) or changed
        with context.graph.inserting_before(node):
            changed = _none_outputs(node, context) or changed
            if node.kind == "prim::If":
                changed = _condition_again(node, context) or changed
            else:
                changed = _apply_rules(node, context) or changed
    return changed


def _apply_rules(node: Node, context: Context) -> bool:
    for rule in RULES.get(node.kind, ()):
        values = rule(node, context)
        if values is not None:
            for output, value in zip(node.outputs, values, strict=True):
                output.replace_all_uses_with(value)
            node.destroy()
            return True
    return False


def _none_outputs(node: Node, context: Context) -> bool:
    """What can only be None is None, whatever made it."""
    changed = False
    for output in node.outputs if node.kind != "prim::Constant" else ():
        if output.type is T.NONE and output.has_uses:
            output.replace_all_uses_with(context.constant(None))
            changed = True
    return changed


def _condition_again(node: Node, context: Context) -> bool:
    """`True if c else False` is c, `False if c else True` is not c."""
    changed = False
    for position, output in enumerate(node.outputs):
        if not output.has_uses:
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


def _negation(value: Value, context: Context) -> Value:
    return context.graph.insert("aten::__not__", (value,), (T.BOOL,)).output
