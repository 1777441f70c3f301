"""Chapter 7: from a graph to the graph of its gradients.

python docs/from_scratch/code/ch7_autodiff.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from ch1_tree import CompileError
from ch4_passes import optimize
from ch6_interpreter import ScriptFunction, run
from graphs import Block, Graph, Node, Value, Writer, all_nodes, read_in
from operators import declare, tensor
from torch import Tensor

# What formulas need and the language does not have.
declare(2, tensor, sum_like=lambda g, x: g.sum_to_size(x.shape), expand_like=lambda g, x: g.expand(x.shape))
declare(1, tensor, zeros_like=torch.zeros_like, ones_like=torch.ones_like)
declare(1, lambda _: "int", numel=torch.numel)
declare(3, lambda *_: "Tensor", where=torch.where)

Gradients = dict[Value, Value]
"""For each value of the forward graph, the gradient of the result with respect to it, so far."""


# Each takes a writer, the gradient of the output, the output and the inputs, and gives the gradient of each input.
FORMULAS: dict[str, Callable[..., tuple[Value, ...]]] = {
    "aten::add": lambda w, g, out, x, y: (g, g),
    "aten::sub": lambda w, g, out, x, y: (g, w("neg", g)),
    "aten::mul": lambda w, g, out, x, y: (w("mul", g, y), w("mul", g, x)),
    "aten::div": lambda w, g, out, x, y: (w("div", g, y), w("neg", w("div", w("mul", g, out), y))),
    "aten::neg": lambda w, g, out, x: (w("neg", g),),
    "aten::relu": lambda w, g, out, x: (w("where", w("le", out, 0.0), 0.0, g),),
    "aten::tanh": lambda w, g, out, x: (w("mul", g, w("sub", 1.0, w("mul", out, out))),),
    "aten::exp": lambda w, g, out, x: (w("mul", g, out),),
    "aten::log": lambda w, g, out, x: (w("div", g, x),),
    "aten::sum": lambda w, g, out, x: (w("expand_like", g, x),),
    "aten::mean": lambda w, g, out, x: (w("expand_like", w("div", g, w("numel", x)), x),),
    "aten::t": lambda w, g, out, x: (w("t", g),),
    "aten::mm": lambda w, g, out, x, y: (w("mm", g, w("t", y)), w("mm", w("t", x), g)),
}


WITHOUT_GRADIENT = {f"aten::{name}" for name in ("lt", "le", "gt", "ge", "eq", "ne", "zeros_like")}
"""Operators whose results do not change where their inputs change a little."""


def copy_nodes(graph: Graph, block: Block, target: Block, new: dict[Value, Value]) -> None:
    """Add copies of the nodes of a block to another one. `new` says what became of each value."""
    for node in block.nodes:
        copy = Node(node.kind, [new.get(v, v) for v in node.inputs], node.line, node.attribute)
        graph.add(target, copy, *(v.type for v in node.outputs))
        new.update(zip(node.outputs, copy.outputs, strict=True))
        for inner in node.blocks:
            new.update((param, graph.value(param.type)) for param in inner.params)
            copy.blocks.append(Block([new[param] for param in inner.params]))
            copy_nodes(graph, inner, copy.blocks[-1], new)
    target.returns = [new.get(v, v) for v in block.returns]


def accumulate(w: Writer, gradients: Gradients, value: Value, gradient: Value) -> None:
    known = gradients.get(value)
    gradients[value] = gradient if known is None else w("add", known, gradient)


def backward(w: Writer, nodes: list[Node], gradients: Gradients) -> None:
    """Go through nodes from the last to the first. What each owes its inputs is added to what these have so far."""
    for node in reversed(nodes):
        w.line = node.line
        if gradients.keys().isdisjoint(node.outputs) or node.kind in WITHOUT_GRADIENT:
            continue
        if node.kind == "prim::If":
            branches(w, node, gradients)
        elif node.kind in FORMULAS:
            out = node.outputs[0]
            parts = FORMULAS[node.kind](w, gradients[out], out, *node.inputs)
            for value, part in zip(node.inputs, parts, strict=True):
                if value.type == "Tensor":
                    accumulate(w, gradients, value, w("sum_like", part, value))
        else:
            raise CompileError(f"line {node.line}: {node.kind} has no formula for its gradient")


def branches(w: Writer, node: Node, gradients: Gradients) -> None:
    """The gradient of a branch is a branch: it repeats what the forward one did, and goes back through it."""
    inside = list(all_nodes(Block(nodes=[node])))
    made = {v for n in inside for v in n.outputs} | {v for n in inside for b in n.blocks for v in b.params}
    captured = [v for v in dict.fromkeys(read_in(Block(nodes=[node]))) if v.type == "Tensor" and v not in made]
    back = Node("prim::If", [*node.inputs], node.line)
    for block in node.blocks:
        inner = Writer(w.graph, Block())
        copy_nodes(w.graph, block, inner.block, {})
        forward, found = list(inner.block.nodes), Gradients()
        for out, returned in zip(node.outputs, inner.block.returns, strict=True):
            if out in gradients and returned.type == "Tensor":
                accumulate(inner, found, returned, gradients[out])
        backward(inner, forward, found)
        inner.block.returns = [found[v] if v in found else inner("zeros_like", v) for v in captured]
        back.blocks.append(inner.block)
    w.graph.add(w.block, back, *("Tensor" for _ in captured))
    for value, part in zip(captured, back.outputs, strict=True):
        accumulate(w, gradients, value, part)


def gradient(graph: Graph) -> Graph:
    """Let a graph give the gradients of the sum of its result instead. The graph itself is changed, and given back.

    Raises:
        CompileError: if something on the way from a parameter to the result has no gradient here.
    """
    (result,) = graph.returns
    if result.type != "Tensor":
        raise CompileError(f"the result is of type {result.type}; only tensors have gradients")
    w = Writer(graph, graph)
    forward, gradients = list(graph.nodes), {result: w("ones_like", result)}
    backward(w, forward, gradients)
    tensors = [param for param in graph.params if param.type == "Tensor"]
    graph.returns = [gradients[v] if v in gradients else w("zeros_like", v) for v in tensors]
    return graph


class GradientFunction(ScriptFunction):
    """Gives the gradient of the sum of a function's result with respect to each tensor that it takes."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function, lambda graph: optimize(gradient(optimize(graph))))

    def __call__(self, *args: object) -> tuple[Tensor, ...]:
        self.check(args)
        if any(isinstance(arg, Tensor) and not arg.is_floating_point() for arg in args):
            raise TypeError("gradients need tensors of floats")
        return tuple(result for result in run(self.code, args, self.name) if isinstance(result, Tensor))


def loss(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    y = (x.mm(w) + b).tanh()
    return (y * y).mean()


if __name__ == "__main__":
    print(GradientFunction(loss).optimized)
