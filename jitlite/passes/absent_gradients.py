"""Gradients of a graph some of whose results have no gradient, where zeros in place of these would give NaN.

A graph of gradients takes zeros for a result that nothing was computed from, and zero times infinity is NaN where
autograd, which leaves that way out, gives what the others contribute. Here everything that depends on such zeros alone
is made zeros again:

    %a : Tensor = aten::div(%absent, %root)          %a : Tensor = aten::div(%absent, %root)
    %b : Tensor = aten::mul(%given, %w)        =>    %none : Tensor = aten::zeros_like(%a, ...)
    %c : Tensor = aten::add(%a, %b)                  %b : Tensor = aten::mul(%given, %w)
                                                     %c : Tensor = aten::add(%none, %b)

Why that is right: each node of a graph of gradients is linear in the gradients that it takes, all of them together; it
takes other tensors, but those are no gradients. So where all gradients that it takes are zero, what it gives is zero by
the formula, whatever the other operands are. What depends on a gradient that is there is left as it is, but for that it
adds zeros where it added NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.structure import If, Loop
from jitlite.ir.traits import Trait
from jitlite.operators.gradient import Gradient
from jitlite.passes.dce import eliminate_dead_code
from jitlite.passes.lower_grad_of import lower_grad_of
from jitlite.passes.specialize_autogradzero import specialize


def gradients_without(gradient: Gradient, present: Sequence[bool]) -> Graph:
    """The graph of gradients for results some of which have none.

    It takes what `df` takes: zeros for the graph's own results that have no gradient, None for what is kept.

    Args:
        gradient: is not changed.
        present: for each result of `df_input_vjps`, whether it has a gradient.
    """
    graph, own = gradient.df.copy(), [index < gradient.f_real_outputs for index in gradient.df_input_vjps]
    specialize(graph, [p or is_own for p, is_own in zip(present, own, strict=True)])
    eliminate_dead_code(graph)
    lower_grad_of(graph)
    vjps = graph.inputs[: len(own)]
    missing = [is_own and not p for p, is_own in zip(present, own, strict=True)]
    absent = _reached(graph, compress(vjps, missing)) - _reached(graph, compress(vjps, present))
    for node in list(graph.all_nodes()):
        if node.kind not in ("prim::AutogradZero", "prim::AutogradAdd"):  # which give None, or a sum of zeros
            _give_zeros(node, absent)
    return graph


def _give_zeros(node: Node, absent: set[Value]) -> None:
    graph = node.graph
    for output in node.outputs:
        if output in absent and isinstance(output.type, T.TensorType) and output.use_count:
            none = graph.create_constant(None).insert_after(node)
            zeros = graph.create("aten::zeros_like", (output, *[none.output] * 5), (output.type,), range=node.range)
            output.replace_all_uses_with(zeros.output)
            zeros.insert_after(none).replace_input(0, output)


def _reached(graph: Graph, roots: Iterable[Value]) -> set[Value]:
    """All tensors, and lists and tuples of them, that depend on these gradients."""
    found = set(roots)
    count = -1
    while count != len(found):  # in loops, what follows is what the next iteration starts with
        count = len(found)
        _reach(graph.block, found)
    return found


def _reach(block: Block, found: set[Value]) -> None:
    for node in block.nodes:
        for inner in node.blocks:
            _reach(inner, found)
        if node.kind == "prim::Loop":
            carried = [c for c in Loop(node).carried if not found.isdisjoint((c.start, c.following))]
            found.update(*((c.parameter, c.result) for c in carried))
        elif node.kind == "prim::If":
            found.update(j.result for j in If(node).joined if not found.isdisjoint((j.then, j.orelse)))
        elif not found.isdisjoint(node.inputs):
            found.update(v for v in (*node.outputs, *_written(node)) if _holds_gradients(v.type))


def _written(node: Node) -> Iterator[Value]:
    """What a node writes, and what that is a view of: sums of a loop are such tensors, and lists that it appends to."""
    formals = () if node.op is None else node.op.schema.arguments
    for value, formal in zip(node.inputs, formals, strict=False):
        while formal.is_write:
            yield value
            if not value.node.has(Trait.PLAIN_VIEW):
                break
            value = value.node.inputs[0]


def _holds_gradients(t: T.Type) -> bool:
    if isinstance(t, T.ListType):
        return _holds_gradients(t.element)
    if isinstance(t, T.TupleType):
        return any(map(_holds_gradients, t.elements))
    return isinstance(t, T.TensorType | T.UnionType)
