"""The instructions of code for a debugger: what they do is seen by those who look on, and by nobody else."""

from __future__ import annotations

from jitlite.interpreter.code import CallStack, Code, Linked
from jitlite.interpreter.frames import CallFrame
from jitlite.interpreter.instruction_specs import Operand
from jitlite.interpreter.instructions import TABLE as TABLE
from jitlite.interpreter.instructions import instruction


def _link_variable(code: Code, position: int) -> Linked:
    name = code.names[code.instructions[position].x]
    return VARIABLE, (code.places[position].call_stack, name), 0


@instruction(x=Operand.NAME, pops=1, link=_link_variable)
def VARIABLE(frame: CallFrame, x: tuple[CallStack, str], n: int) -> None:
    """Pop a value; the script's variable X has it from now on, for who looks at the frame."""
    frame.variables[x] = frame.stack.pop()


@instruction()
def LINE(frame: CallFrame, x: int, n: int) -> None:
    """Do nothing: a statement begins, or leaves its block."""


@instruction()
def BREAKPOINT(frame: CallFrame, x: int, n: int) -> None:
    """Do nothing: a debugger that looks on stops here."""
