"""Chapter 4: passes, from graphs to better graphs.

python docs/from_scratch/code/ch4_passes.py
"""

from __future__ import annotations

from collections.abc import Callable

from ch3_ssa import compile_graph
from graphs import Block, Graph, Node, Value, all_nodes
from operators import OPERATORS

Pass = Callable[[Graph], bool]
"""Changes a graph so that it computes the same, and says whether there was anything to change."""


def replace(block: Block, new: dict[Value, Value]) -> None:
    """Let all that uses a value use another one instead, in a block and in the blocks in it."""
    for node in block.nodes:
        node.inputs = [new.get(value, value) for value in node.inputs]
        for inner in node.blocks:
            replace(inner, new)
    block.returns = [new.get(value, value) for value in block.returns]


def fold_constants(graph: Graph) -> bool:
    """Compute at once what depends on constant numbers only."""
    return _fold(graph, {})


def _fold(block: Block, known: dict[Value, bool | int | float]) -> bool:
    changed = False
    for node in block.nodes:
        if node.kind == "prim::Constant" and isinstance(node.attribute, (bool, int, float)):
            known[node.outputs[0]] = node.attribute
        elif node.kind in OPERATORS and all(value in known for value in node.inputs):
            try:
                result = OPERATORS[node.kind].function(*(known[value] for value in node.inputs))
            except (ArithmeticError, ValueError):
                continue  # the program raises, each time it comes here; to compile it is no mistake
            assert isinstance(result, (bool, int, float))
            known[node.outputs[0]] = result
            node.kind, node.inputs, node.attribute = "prim::Constant", [], result
            changed = True
        for inner in node.blocks:
            changed |= _fold(inner, known)
    return changed


def merge_equal(graph: Graph) -> bool:
    """Compute equal things once: common subexpression elimination."""
    return _merge(graph, graph, {})


def _merge(graph: Graph, block: Block, seen: dict[tuple[object, ...], Node]) -> bool:
    changed = False
    for node in list(block.nodes):
        for inner in node.blocks:
            changed |= _merge(graph, inner, dict(seen))
        if node.blocks:
            continue
        # repr, because 1 == 1.0 == True and 0.0 == -0.0, but they are different constants
        first = seen.setdefault((node.kind, repr(node.attribute), *node.inputs), node)
        if first is not node:
            block.nodes.remove(node)
            replace(graph, dict(zip(node.outputs, first.outputs, strict=True)))
            changed = True
    return changed


def choose_branches(graph: Graph) -> bool:
    """Where the condition of a branch is a constant, keep the one that runs."""
    return _choose(graph, graph, {})


def _choose(graph: Graph, block: Block, known: dict[Value, object]) -> bool:
    changed = False
    for node in list(block.nodes):
        if node.kind == "prim::Constant":
            known[node.outputs[0]] = node.attribute
        for inner in node.blocks:
            changed |= _choose(graph, inner, known)
        if node.kind == "prim::If" and node.inputs[0] in known:
            taken = node.blocks[0 if known[node.inputs[0]] else 1]
            at = block.nodes.index(node)
            block.nodes[at : at + 1] = taken.nodes
            replace(graph, dict(zip(node.outputs, taken.returns, strict=True)))
            changed = True
    return changed


def remove_dead(graph: Graph) -> bool:
    """Remove nodes whose outputs nobody uses: dead code elimination."""
    return _remove_dead(graph, set())


def _remove_dead(block: Block, used: set[Value]) -> bool:
    changed = False
    used.update(block.returns)
    for node in reversed(list(block.nodes)):
        # a loop may run forever, and that can be seen
        if used.isdisjoint(node.outputs) and "prim::Loop" not in {n.kind for n in all_nodes(Block(nodes=[node]))}:
            block.nodes.remove(node)
            changed = True
            continue
        used.update(node.inputs)
        for inner in node.blocks:
            changed |= _remove_dead(inner, used)
    return changed


PASSES: tuple[Pass, ...] = (fold_constants, choose_branches, merge_equal, remove_dead)


def optimize(graph: Graph, passes: tuple[Pass, ...] = PASSES) -> Graph:
    """Run passes until none finds anything to do. The graph itself is changed, and given back."""
    while any(run(graph) for run in passes):
        pass
    return graph


def area(width: float, scale: int) -> float:
    factor = 2 * 3 + 1
    if factor > 6:
        factor = factor * scale
    _unused = width / 4.0
    return width * scale + width * scale + factor


if __name__ == "__main__":
    graph = compile_graph(area)
    print(graph)
    print(optimize(graph))
