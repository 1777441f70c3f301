"""A solution of exercise 5."""

from __future__ import annotations

from collections import Counter

from ch5_bytecode import Code


def shorten(code: Code) -> Code:
    instructions = code.instructions
    loads = Counter(x for opcode, x, _ in instructions if opcode == "LOAD")
    targets = {x for opcode, x, _ in instructions if opcode in ("JF", "JMP")}
    dropped: set[int] = set()
    for at, (one, two) in enumerate(zip(instructions, instructions[1:], strict=False)):
        is_pair = (one.opcode, two.opcode) == ("STORE", "LOAD") and one.x == two.x
        if is_pair and loads[two.x] == 1 and at + 1 not in targets:
            dropped |= {at, at + 1}
    moved = [at - sum(place < at for place in dropped) for at in range(len(instructions))]
    kept = [i for at, i in enumerate(instructions) if at not in dropped]
    return Code(
        [i._replace(x=moved[i.x]) if i.opcode in ("JF", "JMP") and isinstance(i.x, int) else i for i in kept],
        code.registers,
    )
