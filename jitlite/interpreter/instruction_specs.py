"""What is declared of an instruction: its operands, how many values it pops and pushes, what it does."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from jitlite.base.records import Record
from jitlite.interpreter.code import Code, Instruction, Linked
from jitlite.interpreter.frames import CallFrame


class Operand(enum.Enum):
    """What an operand is."""

    NONE = "-"
    REGISTER = "register"
    NUMBER = "number"
    CONSTANT = "constant"
    OPERATOR = "operator"
    FUNCTION = "function"
    TYPE = "type"
    NAME = "name"
    JUMP = "jump"


class Count(Record, eq=True):
    """How many values: a number known from the instruction."""

    text: str
    of: Callable[[Code, Instruction], int]


def fixed(number: int) -> Count:
    return Count(str(number), lambda code, i: number)


X = Count("X", lambda code, i: i.x)

N = Count("N", lambda code, i: i.n)

LOOP_SLOTS = Count("N+1", lambda code, i: i.n + 1)

LOOP_RESULTS = Count("N-2", lambda code, i: i.n - 2)

OP_INPUTS = Count("inputs", lambda code, i: code.operators[i.x].inputs)

OP_OUTPUTS = Count("outputs", lambda code, i: code.operators[i.x].outputs)

CALL_INPUTS = Count("parameters", lambda code, i: len(code.functions[i.x].graph.inputs))

CALL_OUTPUTS = Count("results", lambda code, i: len(code.functions[i.x].graph.outputs))

CODE_OUTPUTS = Count("results", lambda code, i: code.outputs)

Handler = Callable[[CallFrame, Any, int], "int | None"]


class InstructionSpec(Record, eq=True):
    """The declaration of an instruction. `taken` holds pops and pushes on the jump where they differ."""

    name: str
    run: Handler
    x: Operand
    n: Operand
    pops: Count
    pushes: Count
    taken: tuple[Count, Count] | None
    falls_through: bool
    link: Callable[[Code, int], Linked] | None
    doc: str


TABLES: dict[Operand, Callable[[Code], list[Any]]] = {
    Operand.CONSTANT: lambda code: code.constants,
    Operand.FUNCTION: lambda code: code.functions,
    Operand.TYPE: lambda code: code.types,
    Operand.NAME: lambda code: code.names,
}
"""What X is an index into, by what it is."""
