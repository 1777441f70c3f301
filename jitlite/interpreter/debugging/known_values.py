"""What the values of a graph are in the calls that are running, as far as instructions have stored them."""

from __future__ import annotations

from jitlite.interpreter.frames import CallFrame, Machine
from jitlite.interpreter.value_words import in_brief
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.unit import Function

_MOST = 6
"""Inputs of a node that are told."""


class KnownValues:
    """Notes what is stored into registers and variables.

    Words are kept and not the values, so that no tensor lives longer than it would without a debugger.
    """

    def __init__(self) -> None:
        self._words: dict[CallFrame, dict[Value, str]] = {}

    def note(self, frame: CallFrame) -> None:
        """Note what the instruction that comes next stores."""
        code, pc = frame.code, frame.pc
        if not code.nodes:
            return
        opcode, node = code.instructions[pc].opcode, code.nodes[pc]
        if opcode == "VARIABLE":
            stored = [node.inputs[0]]
        elif (opcode == "STORE" and len(node.outputs) == 1) or (opcode == "STOREN" and len(node.outputs) > 1):
            stored = list(node.outputs)
        else:
            return
        words = self._words.setdefault(frame, {})
        for value, found in zip(stored, frame.stack[len(frame.stack) - len(stored) :], strict=True):
            words[value] = in_brief(found)

    def told_of(self, frame: CallFrame, node: Node) -> str:
        """The inputs of a node that are known: `%x.1: float32[3], %4: 1`."""
        words = self._words.get(frame, {})
        told = []
        for value in dict.fromkeys(node.inputs):
            constant = constant_of(value) if is_constant(value) else None
            known = in_brief(constant) if is_constant(value) else words.get(value)
            if known is not None and not isinstance(constant, Function):  # a call names its function already
                told.append(f"%{value.name}: {known}")
        return ", ".join([*told[:_MOST], *(["..."] if len(told) > _MOST else [])])

    def forget(self, machine: Machine) -> None:
        """Forget a run that has ended."""
        for frame in [frame for frame in self._words if frame.machine is machine]:
            del self._words[frame]
