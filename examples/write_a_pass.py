"""A pass of your own: `x * 2` becomes `x + x`, and is checked by running before and after.

python examples/write_a_pass.py
"""

import torch
from torch import Tensor

import jitlite
from jitlite.interpreter import bytecode, vm
from jitlite.ir.graph import Graph, constant_of
from jitlite.ir.verify import verify


def double_to_add(graph: Graph) -> bool:
    """Replace every `aten::mul(x, 2)` of a float tensor by `aten::add(x, x, 1)`; say whether anything changed."""
    changed = False
    for node in list(graph.all_nodes()):
        if node.kind != "aten::mul" or str(node.inputs[0].type) != "Tensor" or constant_of(node.inputs[1], None) != 2:
            continue
        with graph.inserting_before(node):
            one = graph.insert_constant(1)
            added = graph.insert("aten::add", [node.inputs[0], node.inputs[0], one], [node.output.type])
        node.replace_all_uses_with(added)
        node.destroy()
        changed = True
    return changed


def f(x: Tensor) -> Tensor:
    return (x * 2).relu() - 1


def main() -> int:
    graph = jitlite.script(f).graph.copy()
    print("before:", graph, sep="\n")
    x = torch.randn(4)
    expected = vm.run(bytecode.lower(graph), [x])
    changed = double_to_add(graph)
    verify(graph)
    print("after:", graph, sep="\n")
    same = torch.equal(vm.run(bytecode.lower(graph), [x]), expected)
    print("changed:", changed, " same result:", same)
    return 0 if changed and same else 1


if __name__ == "__main__":
    raise SystemExit(main())
