"""Bytecode as data: what `bytecode.py` makes of a graph and `vm.py` runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple

from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.ir.graph import Node
from jitlite.ir.types import Type
from jitlite.ir.unit import Function


class Instruction(NamedTuple):
    """One instruction. What X and N mean is declared with the opcode in `instructions.py`."""

    opcode: str
    x: int = 0
    n: int = 0

    def __str__(self) -> str:
        return f"{self.opcode} {self.x} {self.n}"


class Operator(Record):
    """An entry of the operator table.

    Attributes:
        name, overload: which operator.
        fn: its meaning.
        inputs: how many arguments each use has; -1 where each use has its own number (OPN).
        outputs: how many values are pushed; what a function without results gives is dropped.
        spread: the function gives a tuple whose elements are pushed one by one.
    """

    name: str
    overload: str
    fn: Callable[..., object]
    inputs: int
    outputs: int
    spread: bool

    @property
    def qualified(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


CallStack = tuple[tuple[str, "SourceRange | None"], ...]
"""Calls that were inlined: the names of the functions and where each was called, outermost first."""


class CodePlace(NamedTuple):
    """Where an instruction comes from: the source, and the calls that inlining removed around it, outermost first."""

    range: SourceRange | None
    call_stack: CallStack = ()


Linked = tuple[Callable[..., "int | None"], Any, int]
"""An instruction ready to run: the function to call, its resolved X, and N."""


class Code(Record, frozen=False):
    """The bytecode of a function: instructions and the tables they index.

    `places` runs parallel to `instructions`, and so does `nodes`, in code for a debugger. Registers are numbered 1 to
    `register_size`. `program` is the linked form of `instructions`.
    """

    name: str
    inputs: int = 0
    outputs: int = 0
    instructions: list[Instruction] = field(default_factory=list)
    places: list[CodePlace] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list, repr=False)
    constants: list[object] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    register_size: int = 0
    program: list[Linked] = field(default_factory=list, repr=False)
    warned: dict[object, object] = field(default_factory=dict, repr=False)
    """Which warnings were given already (a `__warningregistry__`)."""
