"""The texts of a kernel with where each line comes from: its loops, LLVM's language, and the processor's.

To follow lines into machine code, the kernel is emitted once more, and the lines that a statement writes are marked by
a comment with the number of the statement. The numbers stand as lines of debug information in what LLVM compiles, and
come out as `.loc` in the assembly. What runs has neither.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence

from jitlite.base.source import SourceRange
from jitlite.ir.graph import Value
from jitlite.kernels.emit import KernelEmitter
from jitlite.kernels.loop_ir import Kernel, Statement
from jitlite.kernels.origins import places_of
from jitlite.kernels.printing import placed_lines_of
from jitlite.native.entry import assembly_of

PlacedLine = tuple[str, Sequence[SourceRange]]

_MARK = re.compile(r"  ; @(\d+)$")
_INSTRUCTION = re.compile(r"  (?!\s*;)\S")
_COMMENT = re.compile(r"\s+;[^\"]*$")
_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_DEBUGGING = re.compile(r"\s*\.(?:loc|file|cfi_\w+)\b|\.L(?:tmp|func_begin|debug|info|line|str)\w*:")
_FIRST_LOCATION = 100_000
"""The number of the metadata of the first location; those below are of the module and its functions."""


def loop_lines(kernel: Kernel) -> list[PlacedLine]:
    """The kernel as loops."""
    return [(line, places_of(kernel.origins, statement)) for line, statement in placed_lines_of(kernel)]


def llvm_lines(kernel: Kernel, may_be_unset: frozenset[Value]) -> list[PlacedLine]:
    """The kernel in LLVM's language."""
    text, statements = _marked_text(kernel, may_be_unset)
    found: list[PlacedLine] = []
    for line in text.splitlines():
        mark = _MARK.search(line)
        statement = statements[int(mark.group(1))] if mark else None
        found.append((_MARK.sub("", line), places_of(kernel.origins, statement)))
    return found


def assembly_lines(kernel: Kernel, may_be_unset: frozenset[Value]) -> list[PlacedLine]:
    """The kernel in the language of this processor.

    Raises:
        Exception: whatever llvmlite raises.
    """
    text, statements = _marked_text(kernel, may_be_unset)
    found: list[PlacedLine] = []
    at: Statement | None = None
    in_debugging = False
    for line in assembly_of(_with_debug_information(text), is_plain=True).splitlines():
        if re.match(r"\s*\.section\b", line):
            in_debugging = ".debug" in line
        location = _LOCATION.match(line)
        if location:
            number = int(location.group(1)) - 1
            at = statements[number] if 0 <= number < len(statements) else None
        elif line.endswith(":") and not line.startswith(".L"):
            at = None  # another function
        if not in_debugging and not _DEBUGGING.match(line):
            is_code = line.startswith("\t") and not line.startswith("\t.")
            found.append((line, places_of(kernel.origins, at) if is_code else ()))
    return found


def _marked_text(kernel: Kernel, may_be_unset: frozenset[Value]) -> tuple[str, list[Statement]]:
    cells = (ctypes.c_int64 * 4)()
    emitter = _MarkingEmitter(kernel, ctypes.addressof(cells), may_be_unset)
    return emitter.module(), emitter.numbered


class _MarkingEmitter(KernelEmitter):
    """Marks the lines that a statement writes. Those that a statement within it has written stay that one's.

    Attributes:
        numbered: the statements by the numbers of their marks.
    """

    def __init__(self, kernel: Kernel, cells: int, may_be_unset: frozenset[Value]) -> None:
        super().__init__(kernel, cells, may_be_unset)
        self.numbered: list[Statement] = []
        self._parts: dict[str, str] = {}
        """Functions that threads share, with marks. Other functions serve many statements."""

    def module(self) -> str:
        text = super().module()
        for part, marked in self._parts.items():
            text = text.replace(part, marked)
        return text

    def statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            code, known = self.code, set(self.code.helpers)
            first, mark = len(code.lines), f"  ; @{len(self.numbered)}"
            self.numbered.append(statement)
            super().statements([statement])
            code.lines[first:] = [_marked(line, mark) for line in code.lines[first:]]
            for text in code.helpers.keys() - known - self._parts.keys():
                if text.startswith("define internal void @part_"):
                    self._parts[text] = "\n".join(_marked(line, mark) for line in text.splitlines())


def _marked(line: str, mark: str) -> str:
    """The line with a mark, if it is an instruction and has none."""
    return line if not _INSTRUCTION.match(line) or "\n" in line or _MARK.search(line) else line + mark


def _with_debug_information(text: str) -> str:
    """The module with the numbers of its marks as lines."""
    lines: list[str] = []
    metadata: dict[tuple[int, int], int] = {}
    functions = 0
    for line in text.splitlines():
        if line.startswith("define "):
            functions += 1
            lines.append(re.sub(r"\s*\{$", f" !dbg !{2 + functions} {{", line))
        elif functions and _INSTRUCTION.match(line):
            mark = _MARK.search(line)
            key = (functions, int(mark.group(1)) + 1 if mark else 0)
            number = metadata.setdefault(key, _FIRST_LOCATION + functions + len(metadata))
            lines.append(f"{_COMMENT.sub('', line)}, !dbg !{number}")
        else:
            lines.append(line)
    return "\n".join([*lines, *_metadata(functions, metadata), ""])


def _metadata(functions: int, locations: dict[tuple[int, int], int]) -> Iterator[str]:
    """What the numbers of `_with_debug_information` stand for."""
    flag = len(locations) + _FIRST_LOCATION + functions + 1
    yield "!llvm.dbg.cu = !{!0}"
    yield f"!llvm.module.flags = !{{!{flag}}}"
    yield f'!{flag} = !{{i32 2, !"Debug Info Version", i32 3}}'
    unit = "language: DW_LANG_C99, file: !1, isOptimized: true, emissionKind: LineTablesOnly"
    yield f"!0 = distinct !DICompileUnit({unit})"
    yield '!1 = !DIFile(filename: "kernel", directory: "")'
    yield "!2 = !DISubroutineType(types: !{})"
    for number in range(1, functions + 1):
        about = f'name: "f{number}", scope: !1, file: !1, line: 1, type: !2, unit: !0, spFlags: DISPFlagDefinition'
        yield f"!{2 + number} = distinct !DISubprogram({about})"
    for (function, line), number in locations.items():
        yield f"!{number} = !DILocation(line: {line}, column: 1, scope: !{2 + function})"
