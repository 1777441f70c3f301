"""Bytecode for the eye: a listing with source lines, and the same as plain data."""

from __future__ import annotations

import os
from typing import Any

from jitlite.interpreter.code import Code
from jitlite.interpreter.instruction_specs import Operand
from jitlite.interpreter.instructions import TABLE

_LONGEST_COMMENT = 40


def disassemble(code: Code) -> str:
    """The listing: position, opcode and operands, what the operands stand for, and the source line where it changes.

    12  LOADC 3             ; 2.5              # model.py:7
    """
    head = f"{code.name}: {code.inputs} inputs, {code.outputs} outputs, {code.register_size} registers"
    lines, last = [head], ""
    width = len(str(max(len(code.instructions) - 1, 0)))
    for position in range(len(code.instructions)):
        entry = describe_instruction(code, position)
        comment = f"; {entry['meaning']}" if entry["meaning"] else ""
        line = f"# {entry['line']}" if entry["line"] and entry["line"] != last else ""
        last = entry["line"] or last
        lines.append(f"{position:>{width}}  {entry['text']:<24}{comment:<25} {line}".rstrip())
    return "\n".join(lines) + "\n"


def describe(code: Code) -> dict[str, Any]:
    """The code as dicts, lists, strings and numbers, fit for JSON."""
    return {
        "name": code.name,
        "inputs": code.inputs,
        "outputs": code.outputs,
        "registers": code.register_size,
        "instructions": [describe_instruction(code, i) for i in range(len(code.instructions))],
        "constants": [repr(c) for c in code.constants],
        "operators": [o.qualified for o in code.operators],
        "functions": [f.qualified_name for f in code.functions],
        "types": [t.annotation for t in code.types],
        "names": list(code.names),
    }


def describe_instruction(code: Code, position: int) -> dict[str, Any]:
    """One instruction: opcode, x, n, `text` as in the listing, `meaning` of the operands, `line` (`file:line`)."""
    opcode, x, n = code.instructions[position]
    spec = TABLE[opcode]
    operands = [str(v) for v, kind in ((x, spec.x), (n, spec.n)) if kind is not Operand.NONE]
    found = code.places[position].range
    return {
        "position": position,
        "opcode": opcode,
        "x": x,
        "n": n,
        "text": " ".join([opcode, *operands]),
        "meaning": _meaning(code, position),
        "line": f"{os.path.basename(found.filename or '<string>')}:{found.line}" if found else None,
    }


def _meaning(code: Code, position: int) -> str:
    opcode, x, n = code.instructions[position]
    match TABLE[opcode].x:
        case Operand.CONSTANT:
            return _short(code.constants[x])
        case Operand.OPERATOR:
            return code.operators[x].qualified
        case Operand.FUNCTION:
            return code.functions[x].name
        case Operand.TYPE:
            shown = code.types[x : x + n] if opcode == "ISINSTANCE" else code.types[x : x + 1]
            return ", ".join(t.annotation for t in shown)
        case Operand.NAME:
            return f".{code.names[x]}"
        case Operand.JUMP:
            return f"to {position + x}"
        case _:
            return ""


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_COMMENT else f"{text[: _LONGEST_COMMENT - 3]}..."
