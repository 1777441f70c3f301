"""Chapter 8: several operators on tensors become one loop of machine code.

python docs/from_scratch/code/ch8_kernel.py
"""

from __future__ import annotations

import torch
from ch4_passes import optimize
from ch5_bytecode import lower
from ch6_interpreter import ScriptFunction, run
from ch7_autodiff import copy_nodes
from graphs import Block, Graph, Node, all_nodes, read_in
from machine_code import MachineCode
from torch import Tensor

# What an operator does with one element, in LLVM's language. {o} is the result, {0} and {1} are the operands.
LANES = {
    "aten::add": "{o} = fadd float {0}, {1}",
    "aten::sub": "{o} = fsub float {0}, {1}",
    "aten::mul": "{o} = fmul float {0}, {1}",
    "aten::div": "{o} = fdiv float {0}, {1}",
    "aten::neg": "{o} = fneg float {0}",
    "aten::exp": "{o} = call float @expf(float {0})",
    "aten::tanh": "{o} = call float @tanhf(float {0})",
    "aten::relu": "{o}.low = fcmp ole float {0}, 0.0\n  {o} = select i1 {o}.low, float 0.0, float {0}",
}
MODULE = """
declare float @expf(float)
declare float @tanhf(float)
define void @kernel(i64 %n{params}) {{
entry:
  {before}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  {body}
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}}
"""


def llvm_of(body: Block) -> str:
    """The loop that computes the nodes of a block for one element after the other."""
    params, before, inner = [], [], []
    for v in body.params:
        if v.type == "Tensor":
            params.append(f", ptr %a{v.name}")
            inner.append(f"%p{v.name} = getelementptr float, ptr %a{v.name}, i64 %i")
            inner.append(f"%v{v.name} = load float, ptr %p{v.name}")
        else:
            params.append(f", double %a{v.name}")
            before.append(f"%v{v.name} = fptrunc double %a{v.name} to float")
    for node in body.nodes:
        inner.append(LANES[node.kind].format(*(f"%v{v.name}" for v in node.inputs), o=f"%v{node.outputs[0].name}"))
    for at, v in enumerate(body.returns):
        params.append(f", ptr noalias %r{at}")
        inner.append(f"%q{at} = getelementptr float, ptr %r{at}, i64 %i")
        inner.append(f"store float %v{v.name}, ptr %q{at}")
    return MODULE.format(params="".join(params), before="\n  ".join(before), body="\n  ".join(inner))


class Kernel:
    """Runs a block as machine code where the arguments allow it, and on the stack machine where they do not."""

    def __init__(self, body: Block) -> None:
        self.body = body
        self.llvm = llvm_of(body)
        self.machine = MachineCode(self.llvm, [v.type for v in body.params + body.returns])
        self.code = lower(Graph(body.params, body.nodes, body.returns))
        self.runs = 0

    def __call__(self, *args: object) -> object:
        results = self.in_one_loop(args) if fits(args) else run(self.code, args, "kernel")
        return results[0] if len(results) == 1 else tuple(results)

    def in_one_loop(self, args: tuple[object, ...]) -> list[object]:
        first = next(arg for arg in args if isinstance(arg, Tensor))
        results = [torch.empty_like(first) for _ in self.body.returns]
        passed = [arg.data_ptr() if isinstance(arg, Tensor) else arg for arg in (*args, *results)]
        self.machine.call(first.numel(), *passed)
        self.runs += 1
        return [*results]


def fits(args: tuple[object, ...]) -> bool:
    """The guard: is the loop right for these arguments?"""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    return (
        len({t.shape for t in tensors}) == 1
        and all(type(t) is Tensor and t.dtype is torch.float32 and t.device.type == "cpu" for t in tensors)
        and all(t.layout is torch.strided and t.is_contiguous() and not t.is_neg() for t in tensors)
        and not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))
        and all(isinstance(n, (float, Tensor)) or (type(n) is int and abs(n) < 2**53) for n in args)
    )


def fuse(graph: Graph) -> Graph:
    """Make one node of each run of neighbouring operators that have a lane. The graph itself is changed."""
    for block in [graph, *(inner for node in list(all_nodes(graph)) for inner in node.blocks)]:
        nodes, block.nodes = block.nodes, []
        group: list[Node] = []
        for at, node in enumerate(nodes):
            if node.kind in LANES and node.outputs[0].type == "Tensor" and "bool" not in {v.type for v in node.inputs}:
                group.append(node)
            elif node.kind == "prim::Constant":
                block.nodes.append(node)  # before the group, which may use it
            else:
                end_group(graph, block, group, nodes[at:])
                block.nodes.append(node)
        end_group(graph, block, group, [])
    return graph


def end_group(graph: Graph, block: Block, group: list[Node], rest: list[Node]) -> None:
    """Add a group to a block and empty it: as one node, if there is something to be won by that."""
    if len(group) < 2:
        block.nodes += group
    else:
        made = [node.outputs[0] for node in group]
        after = {*read_in(Block(nodes=rest)), *block.returns}
        inputs = list(dict.fromkeys(v for node in group for v in node.inputs if v not in made))
        outputs = [v for v in made if v in after]
        new = {v: graph.value(v.type) for v in inputs}
        body = Block([new[v] for v in inputs])
        copy_nodes(graph, Block([], group, outputs), body, new)
        block.nodes.append(Node("prim::FusionGroup", inputs, group[0].line, Kernel(body), outputs, [body]))
    group.clear()


def kernels(function: ScriptFunction) -> list[Kernel]:
    return [node.attribute for node in all_nodes(function.optimized) if isinstance(node.attribute, Kernel)]


def bump(x: Tensor) -> Tensor:
    t = (0.5 * x + 0.5).relu()
    return t * t * (3.0 - 2.0 * t) - 0.25 * x


if __name__ == "__main__":
    fused = ScriptFunction(bump, lambda graph: fuse(optimize(graph)))
    print(fused.optimized, kernels(fused)[0].llvm, sep="\n")
    torch.testing.assert_close(fused(x := torch.randn(1000)), bump(x))
