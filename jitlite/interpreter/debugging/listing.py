"""Lines of source, graph and bytecode around the place where the program is."""

from __future__ import annotations

from jitlite.interpreter.debugging.scopes import CallScope
from jitlite.interpreter.disassemble import describe_instruction
from jitlite.ir.printer import graph_lines


def source_lines(scope: CallScope, first: int, last: int, breakpoints: set[int]) -> list[str]:
    """The lines of the scope's source from `first` to `last`, as far as there are any."""
    assert scope.range is not None
    source = scope.range.source
    lines = []
    for line in range(max(first, source.first_line), min(last, source.first_line + source.line_count - 1) + 1):
        mark = "B" if line in breakpoints else " "
        arrow = "->" if line == scope.line else "  "
        lines.append(f"{line:>4} {mark}{arrow} {source.line_text(line - source.first_line)}".rstrip())
    return lines


def graph_lines_around(scope: CallScope, around: int) -> list[str]:
    """The lines of the graph near the node that comes next."""
    node = scope.node
    if node is None:
        return []
    lines = graph_lines(node.graph, ranges=False)
    at = next((i for i, (_, of) in enumerate(lines) if of is node), 0)
    near = range(max(at - around, 0), min(at + around + 1, len(lines)))
    return [f"{'->' if i == at else '  '} {lines[i][0]}" for i in near]


def instructions_around(scope: CallScope, around: int) -> list[str]:
    """The instructions near the one that comes next."""
    code = scope.code
    if code is None:
        return []
    lines = []
    for position in range(max(scope.pc - around, 0), min(scope.pc + around + 1, len(code.instructions))):
        entry = describe_instruction(code, position)
        arrow, meaning = "->" if position == scope.pc else "  ", f"; {entry['meaning']}" if entry["meaning"] else ""
        lines.append(f"{arrow} {position:>4}  {entry['text']:<20}{meaning}".rstrip())
    return lines
