"""Is bytecode well formed? Checks what the loop takes for granted.

On every path each instruction finds as many values as it pops, paths that meet agree on the depth of the stack and on
how many protected parts they are in, jumps stay in the code, and operands are inside their tables.
"""

from __future__ import annotations

from jitlite.interpreter.code import Code
from jitlite.interpreter.instruction_specs import InstructionSpec, Operand
from jitlite.interpreter.instructions import TABLE


class CodeError(AssertionError):
    """Bytecode that no graph lowers to: a fault of the compiler, not of the program."""


def check_code(code: Code) -> None:
    """Check a code object.

    Raises:
        CodeError: naming the instruction at fault.
    """
    if len(code.places) != len(code.instructions):
        raise CodeError(f"{code.name}: {len(code.instructions)} instructions but {len(code.places)} places")
    for position in range(len(code.instructions)):
        _check_operands(code, position)
    _check_stack(code)


def _fail(code: Code, position: int, what: str) -> CodeError:
    return CodeError(f"{code.name}: {position} {code.instructions[position]}: {what}")


def _check_operands(code: Code, position: int) -> None:
    opcode, x, n = code.instructions[position]
    spec = TABLE.get(opcode)
    if spec is None:
        raise _fail(code, position, "there is no such instruction")
    low, high = _bounds(code, position, spec)
    width = n if opcode in ("STOREN", "ISINSTANCE") else 1
    if low is not None and not low <= x <= high - width:
        raise _fail(code, position, f"{spec.x.value} {x} is outside {low} to {high - 1}")
    _check_unused(code, position, spec, x, n)


def _check_unused(code: Code, position: int, spec: InstructionSpec, x: int, n: int) -> None:
    if spec.x is Operand.NONE and x != 0:
        raise _fail(code, position, "X is not used but not 0")
    if (spec.n is Operand.NONE and n != 0) or n < 0:
        raise _fail(code, position, "N is not used but not 0" if n > 0 else "N is negative")


def _bounds(code: Code, position: int, spec: InstructionSpec) -> tuple[int | None, int]:
    """The lowest X and the one after the highest; None where X has no bounds."""
    bounds = {
        Operand.REGISTER: (1, code.register_size + 1),
        Operand.CONSTANT: (0, len(code.constants)),
        Operand.OPERATOR: (0, len(code.operators)),
        Operand.FUNCTION: (0, len(code.functions)),
        Operand.TYPE: (0, len(code.types)),
        Operand.NAME: (0, len(code.names)),
        Operand.JUMP: (-position, len(code.instructions) - position),
    }
    return bounds.get(spec.x, (None, 0))


_State = tuple[int, int]
"""How many values are on the stack, and in how many protected parts control is."""


def _check_stack(code: Code) -> None:
    states: dict[int, _State] = {0: (code.inputs, 0)}
    pending = [0]
    while pending:
        position = pending.pop()
        for target, state in _successors(code, position, *states[position]):
            if target >= len(code.instructions):
                raise _fail(code, position, "runs off the end of the code")
            known = states.setdefault(target, state)
            if known is state:
                pending.append(target)
            elif known[0] != state[0]:
                raise _fail(code, target, f"is reached with {known[0]} and with {state[0]} values on the stack")
            elif known != state:
                raise _fail(code, target, "is reached both in and behind a protected part")


def _successors(code: Code, position: int, depth: int, protections: int) -> list[tuple[int, _State]]:
    """Where control may go from here, and how things are then."""
    at = code.instructions[position]
    spec = TABLE[at.opcode]
    pops = spec.pops.of(code, at)
    if pops > depth:
        raise _fail(code, position, f"pops {pops} values of {depth}")
    if at.opcode == "RET" and depth != code.outputs:
        raise _fail(code, position, f"leaves {depth} values instead of {code.outputs}")
    behind = protections + {"TRY": 1, "END_TRY": -1}.get(at.opcode, 0)
    if behind < 0 or (at.opcode == "RET" and protections):
        raise _fail(code, position, "ends a protected part that is not begun, or leaves one that is not ended")
    found = []
    if spec.falls_through:
        found.append((position + 1, (depth - pops + spec.pushes.of(code, at), behind)))
    if spec.x is Operand.JUMP:
        pops_taken, pushes_taken = spec.taken or (spec.pops, spec.pushes)
        taken = depth - pops_taken.of(code, at) + pushes_taken.of(code, at)
        found.append((position + at.x, (taken, min(behind, protections))))
    return found
