"""The reference of the instructions."""

from __future__ import annotations

from jitlite.interpreter.debug_instructions import TABLE


def reference() -> str:
    """The text of `docs/instructions.md`."""
    lines = [
        "# Instructions",
        "",
        "Generated from `jitlite/interpreter/instructions.py` and `debug_instructions.py`. An instruction is an opcode"
        + " with two numbers X and N;"
        + " the columns X and N say what they are (`-`: unused, 0). *pops* and *pushes* count values of the stack."
        + " Jumps are relative to the jump itself. Registers count from 1.",
        "",
        "| opcode | X | N | pops | pushes | effect |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for spec in TABLE.values():
        doc = " ".join(spec.doc.split())
        pushes = spec.pushes.text + (f" (jump: {spec.taken[1].text})" if spec.taken else "")
        name = spec.name.replace("_", r"\_")
        lines.append(f"| {name} | {spec.x.value} | {spec.n.value} | {spec.pops.text} | {pushes} | {doc} |")
    return "\n".join(lines) + "\n"
