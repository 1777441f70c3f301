"""Chapter 5: from the graph to instructions for a stack machine.

python docs/from_scratch/code/ch5_bytecode.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ch1_tree import smooth
from ch3_ssa import compile_graph
from ch4_passes import optimize
from graphs import Block, Graph, Node, Value
from operators import OPERATORS


class Instruction(NamedTuple):
    """What the machine does in one step.

    LOADC x   push the constant x      LOAD x   push register x        STORE x   pop into register x
    OP x      call the function x      JMP x    go on at instruction x
    RET       give the stack           JF x     pop; go on at instruction x if it is false
    """

    opcode: str
    x: object
    line: int


class Callee(NamedTuple):
    """A function that OP calls: it pops `arity` operands and pushes its results."""

    name: str
    function: Callable[..., object]
    arity: int
    results: int


class Code(NamedTuple):
    """A function for the machine. Its arguments come in the first registers."""

    instructions: list[Instruction]
    registers: int

    def __str__(self) -> str:
        shown = enumerate((opcode, getattr(x, "name", x)) for opcode, x, _ in self.instructions)
        return "\n".join(f"{at:>3}  {opcode:<5} {x}".rstrip() for at, (opcode, x) in shown)


class Lowering:
    """Writes the code of a graph. Each value gets a register; constants are pushed where they are needed."""

    def __init__(self, graph: Graph) -> None:
        self.instructions: list[Instruction] = []
        self.registers = {value: at for at, value in enumerate(graph.params)}
        self.constants: dict[Value, object] = {}
        self.line = 0
        self.block(graph)
        self.emit("RET")

    def emit(self, opcode: str, x: object = "") -> int:
        self.instructions.append(Instruction(opcode, x, self.line))
        return len(self.instructions) - 1

    def here(self, jump: int) -> None:
        """Let an earlier jump lead to what comes next."""
        self.instructions[jump] = self.instructions[jump]._replace(x=len(self.instructions))

    def load(self, values: Sequence[Value]) -> None:
        for value in values:
            if value in self.constants:
                self.emit("LOADC", self.constants[value])
            else:
                self.emit("LOAD", self.registers[value])

    def store(self, values: Sequence[Value]) -> None:
        """Pop into the registers of values. The last one is at the top of the stack."""
        for value in reversed(values):
            self.emit("STORE", self.registers.setdefault(value, len(self.registers)))

    def block(self, block: Block) -> None:
        """Write what computes a block, and leaves on the stack what it returns."""
        line = self.line
        for node in block.nodes:
            self.line = node.line
            match node.kind:
                case "prim::Constant":
                    self.constants[node.outputs[0]] = node.attribute
                case "prim::If":
                    self.branches(node)
                case "prim::Loop":
                    self.loop(node)
                case _:
                    self.load(node.inputs)
                    function = node.attribute if callable(node.attribute) else OPERATORS[node.kind].function
                    self.emit("OP", Callee(node.kind, function, len(node.inputs), len(node.outputs)))
                    self.store(node.outputs)
        self.load(block.returns)
        self.line = line or self.line  # what goes on around a block does so at its own line

    def branches(self, node: Node) -> None:
        self.load(node.inputs)
        then, orelse = node.blocks
        to_else = self.emit("JF")
        self.block(then)
        to_end = self.emit("JMP")
        self.here(to_else)
        self.block(orelse)
        self.here(to_end)
        self.store(node.outputs)

    def loop(self, node: Node) -> None:
        """Before each iteration: is there one left, and does the condition hold? The parameters carry the values."""
        (body,) = node.blocks
        count, condition, *start = node.inputs
        iteration, *carried = body.params
        go = Value("go", "bool")
        self.load([condition, *start])
        self.emit("LOADC", 0)
        self.store([go, *carried, iteration])
        head = len(self.instructions)
        self.load([iteration, count])
        self.emit("OP", Callee("aten::lt", operator.lt, 2, 1))
        out_of_iterations = self.emit("JF")
        self.load([go])
        stopped = self.emit("JF")
        self.block(body)
        self.load([iteration])
        self.emit("LOADC", 1)
        self.emit("OP", Callee("aten::add", operator.add, 2, 1))
        self.store([go, *carried, iteration])
        self.emit("JMP", head)
        self.here(out_of_iterations)
        self.here(stopped)
        self.load(carried)
        self.store(node.outputs)


def lower(graph: Graph) -> Code:
    """The code of a graph."""
    lowering = Lowering(graph)
    return Code(lowering.instructions, len(lowering.registers))


if __name__ == "__main__":
    print(lower(optimize(compile_graph(smooth))))
