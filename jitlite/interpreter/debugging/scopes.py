"""What a debugger shows of running calls: a scope for each, inlined calls among them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from jitlite.base.shown_paths import within_library
from jitlite.base.source import SourceRange
from jitlite.interpreter.code import CallStack, Code
from jitlite.interpreter.debugging.moments import is_mark
from jitlite.interpreter.frames import CallFrame
from jitlite.ir.graph import Node
from jitlite.ir.printer import node_text


@dataclass(eq=False)
class CallScope:
    """A call and where it is.

    Attributes:
        name: of the function.
        range: where in the source it is, None where that is not known.
        variables: what the script's variables are there.
        frame: of the stack machine, None for a call of generated Python.
        path: the inlined calls that lead to it from the function of the frame.
    """

    name: str
    range: SourceRange | None
    variables: Mapping[str, object]
    frame: CallFrame | None = None
    path: CallStack = ()

    @property
    def code(self) -> Code | None:
        return None if self.frame is None else self.frame.code

    @property
    def pc(self) -> int:
        """The instruction that comes next; where a statement begins, that behind its mark."""
        if self.frame is None:
            return 0
        pc = max(self.frame.pc, 0)
        while is_mark(self.frame.code, pc):
            pc += 1
        return pc

    @property
    def node(self) -> Node | None:
        """The node that is running, where the code tells."""
        code = self.code
        return code.nodes[self.pc] if code is not None and code.nodes else None

    @property
    def filename(self) -> str:
        return "<string>" if self.range is None else self.range.filename or "<string>"

    @property
    def line(self) -> int:
        return 0 if self.range is None else self.range.line

    def heading(self) -> str:
        """`file(line)function()`, as pdb writes it."""
        return f"{shown_path(self.filename)}({self.line or '?'}){self.name}()"

    def source_line(self) -> str:
        """The text of its line."""
        if self.range is None:
            return "(no source)"
        source = self.range.source
        return source.line_text(source.line_index(self.range.start)).strip()

    def node_line(self) -> str:
        """The node that is running, as the graph's text has it."""
        node = self.node
        return "" if node is None else node_text(node).strip().removeprefix("= ")


def shown_path(filename: str) -> str:
    """A file's name from where the user is, where that is shorter; that of a library's file within the library."""
    filename = within_library(filename)
    if not os.path.isabs(filename):
        return filename
    relative = os.path.relpath(filename)
    return filename if relative.startswith("..") else relative


def scopes_of(frame: CallFrame, found: SourceRange | None = None) -> list[CallScope]:
    """The scopes of a frame, outermost first; `found` is where it was seen last, if it is at no place of the source."""
    place = frame.place
    calls = place.call_stack if place.range is not None or found is None else ()
    names = [frame.code.name, *(name for name, _ in calls)]
    ranges = [*(called_at for _, called_at in calls), place.range or found]
    return [
        CallScope(name, range, _variables(frame, calls[:depth]), frame, calls[:depth])
        for depth, (name, range) in enumerate(zip(names, ranges, strict=True))
    ]


def _variables(frame: CallFrame, path: CallStack) -> dict[str, object]:
    """The variables of an inlined call and, as it may be of a nested function, of those around it."""
    found: dict[str, object] = {}
    for depth in range(len(path) + 1):
        for (where, name), value in frame.variables.items():
            if where == path[:depth]:
                found[name] = value
    return found


def parameters_of(scope: CallScope) -> list[str]:
    """The names of the parameters of a call that have values: the variables that its function sets first."""
    code = scope.code
    if code is None or scope.path:
        return list(scope.variables)
    names: list[str] = []
    for instruction, place in zip(code.instructions, code.places, strict=True):
        if place.range is not None:
            break
        if instruction.opcode == "VARIABLE":
            names.append(code.names[instruction.x])
    return [name for name in names if name in scope.variables]


def depth_of_frames(frames: Iterable[CallFrame]) -> int:
    """How many scopes the frames have."""
    return sum(1 + len(frame.place.call_stack) for frame in frames)


def evaluate(expression: str, scope: CallScope) -> object:
    """The value of an expression of Python in a scope, in which torch is known, too.

    Raises:
        Exception: whatever the expression raises.
    """
    names = {"torch": torch, "__builtins__": builtins, **scope.variables}
    return eval(compile(expression.strip(), "<debugger>", "eval"), names)  # the user's own words


def described(value: object) -> str:
    """What a value is, in a line."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        grad = ", requires grad" if value.requires_grad else ""
        return f"{type(value).__name__} of {dtype}, sizes {list(value.shape)}, on {value.device}{grad}"
    return type(value).__qualname__
