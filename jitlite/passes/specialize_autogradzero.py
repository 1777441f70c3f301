"""Use what is known about gradients that are zero everywhere (None), and about those that are not.

    %zero : Tensor = prim::AutogradZero()
    %a : Tensor = prim::AutogradAdd(%zero, %dy)           %dx : Tensor = prim::GradOf(%dy)
    %dx : Tensor = prim::GradOf(%a)                 =>      block0(): ...
      block0(): ...                                       %zero : Tensor = prim::AutogradZero()
    %dw : Tensor = prim::GradOf(%zero)                    return (%dx, %zero)
      block0(): ...
    return (%dx, %dw)

Each tensor is zero, not zero, or it is unknown which. A formula whose gradients are all zero gives zeros, and is not
run; one none of whose gradients is zero is run without asking. Of a sum with a zero the other operand is left; where
neither operand is zero, it is a plain `aten::add`. Results of operators are tensors, so they are not zero in this sense
(their elements may well be), except for those of backward operators with several results, which leave out what is not
asked for.

`prim::AutogradAdd` of an unknown operand stays, and so does a block with an unknown gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.structure import If, Loop
from jitlite.ir.traits import Trait
from jitlite.operators.gradient import Gradient
from jitlite.passes.dce import eliminate_dead_code
from jitlite.passes.lower_grad_of import lower_grad_of
from jitlite.passes.registry import graph_pass

_QUESTIONS = {
    "prim::AutogradAnyNonZero": (any, True),
    "prim::AutogradAllNonZero": (all, True),
    "prim::AutogradAllZero": (all, False),
}
"""What is asked of the gradients: whether any or all of them are not zero (True) or zero (False)."""


@graph_pass
def specialize_autogradzero(graph: Graph) -> bool:
    """Remove and simplify what is decided, knowing nothing of the graph's inputs."""
    return specialize(graph, ())


def specialize(graph: Graph, given: Sequence[bool | None]) -> bool:
    """The same, given for each input whether it is a gradient that is not zero; None where that is unknown."""
    known = {v: k for v, k in zip(graph.inputs, given, strict=False) if k is not None}
    return _Specialization(graph, known).block(graph.block)


def usual_gradients(gradient: Gradient) -> Graph:
    """The graph of gradients for the usual case, without questions: all results have a gradient, what is kept has none.

    That is so unless the backward pass is recorded (`create_graph`), or a result was not used.
    """
    usual = gradient.df.copy()
    specialize(usual, [index < gradient.f_real_outputs for index in gradient.df_input_vjps])
    eliminate_dead_code(usual)
    lower_grad_of(usual)
    return usual


class _Specialization:
    def __init__(self, graph: Graph, known: dict[Value, bool]) -> None:
        self.graph = graph
        self.known = known
        """Whether a gradient is not zero."""

    def block(self, block: Block) -> bool:
        changed = False
        node = block.param_node._next
        while node is not None and node is not block.return_node:
            following = node._next
            inlined = node.blocks[0] if node.kind == "prim::GradOf" else None
            first = next(inlined.nodes, None) if inlined else None
            if self.node(node):
                changed = True
                if first is not None and first.block is block:  # what was in the block comes next
                    following = first
            node = following
        return changed

    def node(self, node: Node) -> bool:
        if node.kind == "prim::GradOf":
            return self.grad_of(node)
        if node.kind == "prim::AutogradZero":
            self.known[node.output] = False
            return False
        if node.kind == "prim::AutogradAdd":
            return self.add(node)
        if node.kind in _QUESTIONS:
            return self.question(node)
        carries = node.kind == "prim::Loop" and self.carries_tensors(Loop(node))
        changed = sum(self.block(inner) for inner in node.blocks) > 0
        if carries or _gives_tensors(node):
            self.known.update(dict.fromkeys(node.outputs, True))
        elif node.kind == "prim::If":
            joined = If(node).joined
            self.known.update((j.result, True) for j in joined if self.known.get(j.then) and self.known.get(j.orelse))
        elif (mask := _asked_for(node)) is not None:
            self.known.update(zip(node.outputs, mask, strict=False))
        return changed

    def carries_tensors(self, loop: Loop) -> bool:
        """Is what a loop carries certainly never None? Its parameters are known to be tensors then."""
        pairs = [c for c in loop.carried if isinstance(c.parameter.type, T.TensorType)]
        parameters = {c.parameter for c in pairs}
        if not all(self.known.get(c.start) and self.is_certain(c.following, parameters) for c in pairs):
            return False
        self.known.update(dict.fromkeys(parameters, True))
        return True

    def is_certain(self, value: Value, parameters: set[Value]) -> bool:
        """Is a value a tensor, if the parameters of the loop around it are?"""
        if value in parameters or self.known.get(value):
            return True
        node = value.node
        if node.kind == "prim::AutogradAdd":
            return any(self.is_certain(v, parameters) for v in node.inputs)
        if node.kind == "prim::If":
            return all(self.is_certain(block.outputs[value.offset], parameters) for block in node.blocks)
        if node.kind == "prim::Loop":
            carried = Loop(node).carried[value.offset]
            starts = self.is_certain(carried.start, parameters)
            return starts and self.is_certain(carried.following, parameters | {carried.parameter})
        return node.kind.startswith("aten::") and _gives_tensors(node)

    def grad_of(self, node: Node) -> bool:
        states = [self.known.get(v) for v in node.inputs]
        if all(state is False for state in states):
            with self.graph.inserting_before(node):
                for output in node.outputs:
                    zero = self.graph.insert("prim::AutogradZero", (), (output.type,), range=node.range).output
                    self.known[zero] = False
                    output.replace_all_uses_with(zero)
            node.destroy()
            return True
        if all(states):
            body = node.blocks[0]
            results = list(body.outputs)
            for inner in list(body.nodes):
                inner.move_before(node)
            for output, result in zip(node.outputs, results, strict=True):
                output.replace_all_uses_with(result)
            node.destroy()
            return True
        return self.block(node.blocks[0])

    def add(self, node: Node) -> bool:
        (first, second), states = node.inputs, [self.known.get(v) for v in node.inputs]
        if states[0] is False or states[1] is False:
            left = second if states[0] is False else first
            node.output.replace_all_uses_with(left)
            node.destroy()
            return True
        if states[0] and states[1]:
            with self.graph.inserting_before(node):
                one = self.graph.insert_constant(1, range=node.range)
                total = self.graph.insert("aten::add", (first, second, one), (node.output.type,), range=node.range)
            self.known[total.output] = True
            node.output.replace_all_uses_with(total.output)
            node.destroy()
            return True
        if states[0] or states[1]:
            self.known[node.output] = True
        return False

    def question(self, node: Node) -> bool:
        combine, wanted = _QUESTIONS[node.kind]
        if any(not isinstance(v.type, T.TensorType) for v in node.inputs):
            return False
        answers = [None if v not in self.known else self.known[v] is wanted for v in node.inputs]
        decisive = combine is any
        if decisive in answers:
            answer = decisive
        elif None in answers:
            return False
        else:
            answer = not decisive
        with self.graph.inserting_before(node):
            node.output.replace_all_uses_with(self.graph.insert_constant(answer, range=node.range))
        node.destroy()
        return True


def _asked_for(node: Node) -> list[bool] | None:
    """Which results a backward operator is asked for; the others are None."""
    op = node.op
    index = None if op is None else op.schema.argument_index("output_mask")
    return None if index is None else constant_of(node.inputs[index], None)


def _gives_tensors(node: Node) -> bool:
    """Are all outputs certainly tensors, not None?"""
    op = node.op
    if op is None or op.fn is None or node.has(Trait.AUTOGRAD_ZERO):
        return node.kind == "prim::ListUnpack"
    if not node.kind.startswith(("aten::", "prim::Autograd")):
        return False
    leaves_out = node.kind.endswith("_backward") and len(node.outputs) > 1
    return not leaves_out and all(isinstance(r.type, T.TensorType) for r in op.schema.returns)
