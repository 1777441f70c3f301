"""Chapter 3: variables become values: static single assignment.

python docs/from_scratch/code/ch3_ssa.py
"""

from __future__ import annotations

from collections.abc import Callable

from ch1_tree import parse, smooth
from ch2_graph import emit
from graphs import Block, Graph, Node, Value, all_nodes

Variables = dict[str, Value]


class Renamer:
    """Walks the nodes in the order in which they run, and remembers which value each variable has."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.replaced: dict[Value, Value] = {}

    def now(self, value: Value) -> Value:
        return self.replaced.get(value, value)

    def block(self, block: Block, variables: Variables) -> Variables:
        """Remove loads and stores from a block; give what the variables are after it."""
        nodes, block.nodes = block.nodes, []
        for node in nodes:
            node.inputs = [self.now(value) for value in node.inputs]
            name = str(node.attribute)
            if node.kind == "prim::Store":
                variables[name] = node.inputs[0]
            elif node.kind == "prim::Load":
                self.replaced[node.outputs[0]] = variables[name]
            else:
                block.nodes.append(node)
            if node.kind == "prim::If":
                self.branches(node, variables)
            elif node.kind == "prim::Loop":
                self.loop(node, variables)
        block.returns = [self.now(value) for value in block.returns]
        return variables

    def branches(self, node: Node, variables: Variables) -> None:
        """What either branch assigns becomes an output of the `prim::If`."""
        then, orelse = (self.block(block, dict(variables)) for block in node.blocks)
        for name in sorted(then.keys() & orelse.keys()):
            if then[name] is not orelse[name]:
                for block, after in zip(node.blocks, (then, orelse), strict=True):
                    block.returns.append(after[name])
                node.outputs.append(self.graph.value(then[name].type))
                variables[name] = node.outputs[-1]

    def loop(self, node: Node, variables: Variables) -> None:
        """What the body assigns is carried: into the first iteration, from each to the next, and out of the last."""
        (body,) = node.blocks
        carried = sorted(stored(body) & variables.keys())
        node.inputs += [variables[name] for name in carried]
        params = {name: self.graph.value(variables[name].type) for name in carried}
        body.params += params.values()
        after = self.block(body, {**variables, **params})
        body.returns += [after[name] for name in carried]
        for name in carried:
            node.outputs.append(self.graph.value(variables[name].type))
            variables[name] = node.outputs[-1]


def stored(block: Block) -> set[str]:
    return {str(node.attribute) for node in all_nodes(block) if node.kind == "prim::Store"}


def to_ssa(graph: Graph) -> Graph:
    """Let every value have one definition. The graph itself is changed, and given back."""
    Renamer(graph).block(graph, {})
    return graph


def compile_graph(function: Callable[..., object]) -> Graph:
    """What the first three chapters do together.

    Raises:
        CompileError: if the function is outside the language.
    """
    return to_ssa(emit(parse(function)))


if __name__ == "__main__":
    print(compile_graph(smooth))
