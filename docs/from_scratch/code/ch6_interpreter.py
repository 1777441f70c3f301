"""Chapter 6: the machine that runs the code, and `script`, which is the whole compiler.

python docs/from_scratch/code/ch6_interpreter.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from ch1_tree import parse, smooth
from ch2_graph import emit
from ch3_ssa import to_ssa
from ch4_passes import optimize
from ch5_bytecode import Callee, Code, Instruction, lower
from graphs import Graph


class Frame:
    """One call while it runs: where it is, its registers and its stack."""

    def __init__(self, code: Code, args: Sequence[object]) -> None:
        self.code = code
        self.at = 0
        self.stack: list[object] = []
        self.registers: list[object] = [*args, *[None] * (code.registers - len(args))]

    @property
    def instruction(self) -> Instruction:
        return self.code.instructions[self.at]

    def step(self) -> bool:
        """Run one instruction; False if it was the last."""
        opcode, x, _ = self.instruction
        self.at += 1
        match opcode, x:
            case "LOAD", int(register):
                self.stack.append(self.registers[register])
            case "LOADC", constant:
                self.stack.append(constant)
            case "STORE", int(register):
                self.registers[register] = self.stack.pop()
            case "OP", Callee() as callee:
                self.call(callee)
            case "JMP", int(target):
                self.at = target
            case "JF", int(target):
                if not self.stack.pop():
                    self.at = target
            case _:
                return False
        return True

    def call(self, callee: Callee) -> None:
        first = len(self.stack) - callee.arity
        args = self.stack[first:]
        del self.stack[first:]
        result = callee.function(*args)
        self.stack.extend(result if isinstance(result, tuple) and callee.results != 1 else [result])


def run(code: Code, args: Sequence[object], name: str = "function") -> list[object]:
    """Run code to its end; give its results.

    Raises:
        Exception: whatever an operator raises; a note says at which line of the function it was.
    """
    frame = Frame(code, args)
    try:
        while frame.step():
            pass
    except Exception as error:
        line = code.instructions[frame.at - 1].line
        error.__dict__.setdefault("__notes__", []).append(f"at line {line}, in the scripted function {name}")
        raise
    return frame.stack


CLASSES: dict[str, type | tuple[type, ...]] = {"Tensor": torch.Tensor, "int": int, "float": (float, int), "bool": bool}


class ScriptFunction:
    """A compiled function, with all that became of it on the way."""

    def __init__(self, function: Callable[..., object], passes: Callable[[Graph], Graph] = optimize) -> None:
        self.function = function
        self.tree = parse(function)
        self.graph = to_ssa(emit(self.tree))
        self.optimized = passes(to_ssa(emit(self.tree)))
        self.code = lower(self.optimized)
        self.name = str(self.tree.parts[0])

    def __call__(self, *args: object) -> Any:
        self.check(args)
        return run(self.code, args, self.name)[0]

    def check(self, args: Sequence[object]) -> None:
        """The types of parameters are what the compiler relies on, so a call has to keep to them."""
        params = self.graph.params
        if len(args) != len(params):
            raise TypeError(f"{self.name} takes {len(params)} arguments, not {len(args)}")
        for param, arg in zip(params, args, strict=True):
            fits = isinstance(arg, CLASSES[param.type]) and (param.type == "bool" or not isinstance(arg, bool))
            if not fits:
                raise TypeError(f"{self.name} expects {param.type} for {param.name}, not {type(arg).__name__}")


def script(function: Callable[..., object]) -> ScriptFunction:
    """Compile a function.

    Raises:
        CompileError: if the function is outside the language, or its types do not fit.
    """
    return ScriptFunction(function)


@script
def collatz(n: int) -> int:
    """How many steps it takes from n to 1."""
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


if __name__ == "__main__":
    print(collatz.code)
    print(collatz(27))
    x = torch.randn(5)
    assert torch.equal(script(smooth)(x, 3), smooth(x, 3))
