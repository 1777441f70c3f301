"""Put several operators, each of which has a gradient, in the place of one that has none of its own."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.passes.rules import parts as parts  # declares what operators are made of
from jitlite.passes.rules.composites import parts_of
from jitlite.passes.rules.formula import Formula, FormulaPlace, rule_of


def replace_composites(f: Graph, *, all_parts: bool = False) -> bool:
    """Replace nodes whose gradient needs more than they give by ones that give it; gives whether there were any.

    Args:
        f: changed in place.
        all_parts: replace also what is faster in one piece where no machine code runs the parts.
    """
    changed = False
    for node in list(f.all_nodes()):
        rule = rule_of(node)
        write = (parts_of(node) if all_parts else None) or (None if rule is None else rule.lower)
        if write is None:
            continue
        with f.inserting_before(node):
            place = FormulaPlace(f)
            results = write(Formula(node, place, place, (), frozenset()))
        for output, result in zip(node.outputs, results, strict=True):
            if result.value not in node.inputs:
                result.value.type = output.type
            output.replace_all_uses_with(result.value)
            _without_unpacking(result.value)
        displays = [v.node for v in node.inputs if v.node.kind == "prim::ListConstruct"]
        node.destroy()
        for display in displays:
            if not display.output.has_uses:
                display.destroy()
        changed = True
    return changed


def _without_unpacking(value: Value) -> None:
    """Read the elements of a display where it is unpacked."""
    for use in value.uses if value.node.kind == "prim::ListConstruct" else ():
        if use.user.kind == "prim::ListUnpack":
            for element, output in zip(value.node.inputs, use.user.outputs, strict=True):
                if element.type == T.TENSOR:
                    element.type = output.type
                output.replace_all_uses_with(element)
            use.user.destroy()
    if value.node.kind == "prim::ListConstruct" and not value.has_uses:
        value.node.destroy()
