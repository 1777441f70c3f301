"""Where a program is to stop: at lines, functions and nodes, and when the value of an expression changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from jitlite.interpreter.debugging.moments import Moment
from jitlite.interpreter.debugging.scopes import CallScope, evaluate, shown_path
from jitlite.interpreter.frames import CallFrame


class Breakpoint:
    """A place where the program stops. The classes below say which.

    Attributes:
        number: what the user calls it by.
        condition: an expression that has to hold, empty for none.
        is_temporary: is it gone once the program has stopped there?
        is_enabled: does it stop the program?
        ignored: how many times it is still passed by.
        hits: how often it stopped the program, or was passed by.
        commands: what the debugger does where it stops the program.
    """

    def __init__(self) -> None:
        self.number = 0
        self.condition = ""
        self.is_temporary = False
        self.is_enabled = True
        self.ignored = 0
        self.hits = 0
        self.commands: list[str] = []

    def matches(self, moment: Moment) -> bool:
        """Is the program there?"""
        return False

    def __str__(self) -> str:
        raise NotImplementedError

    def describe(self) -> str:
        """The line of a list of breakpoints, and what holds of it below."""
        keep, enabled = "del" if self.is_temporary else "keep", "yes" if self.is_enabled else "no"
        lines = [f"{self.number:<3} {keep:<5} {enabled:<4} {self}"]
        if self.condition:
            lines.append(f"    stops only if {self.condition}")
        if self.commands:
            lines.append(f"    does {'; '.join(self.commands)}")
        if self.ignored:
            lines.append(f"    is ignored {_times(self.ignored)} more")
        if self.hits:
            lines.append(f"    was hit {_times(self.hits)}")
        return "\n".join(lines)


class LineBreakpoint(Breakpoint):
    """Stops where a line begins."""

    def __init__(self, filename: str, line: int) -> None:
        super().__init__()
        self.filename = filename
        self.line = line

    def matches(self, moment: Moment) -> bool:
        found = moment.range
        return (
            moment.is_line
            and found is not None
            and found.line == self.line
            and is_file(found.filename or "<string>", self.filename)
        )

    def __str__(self) -> str:
        return f"{shown_path(self.filename)}:{self.line}"


class FunctionBreakpoint(Breakpoint):
    """Stops at the first line of a function."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def matches(self, moment: Moment) -> bool:
        return moment.is_entry and moment.name == self.name

    def __str__(self) -> str:
        return f"function {self.name}"


class NodeBreakpoint(Breakpoint):
    """Stops before the node that gives a value."""

    def __init__(self, value: str) -> None:
        super().__init__()
        self.value = value

    def matches(self, moment: Moment) -> bool:
        return self.value in moment.values

    def __str__(self) -> str:
        return f"node %{self.value}"


class Watchpoint(Breakpoint):
    """Stops when an expression gives something else than before, in the call where it was set."""

    def __init__(self, expression: str, scope: CallScope) -> None:
        super().__init__()
        self.expression = expression
        self.frame: CallFrame | None = scope.frame
        self.path = scope.path
        self.last = self.value_in(scope)

    def value_in(self, scope: CallScope) -> object:
        """What the expression is now, kept so that later writes do not change it."""
        try:
            return kept(evaluate(self.expression, scope))
        except Exception as error:
            return Unknown(f"{type(error).__name__}: {error}")

    def __str__(self) -> str:
        return f"watch {self.expression}"


class Unknown:
    """What an expression is that cannot be evaluated, mostly as its variables are not set yet."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"({self.reason})"


def _times(count: int) -> str:
    return f"{count} time{'' if count == 1 else 's'}"


def is_file(filename: str, wanted: str) -> bool:
    """Does a file's name mean the file that the user has named, perhaps without its folders?"""
    if filename == wanted or os.path.abspath(filename) == os.path.abspath(wanted):
        return True
    return filename.replace(os.sep, "/").endswith("/" + wanted.replace(os.sep, "/"))


def kept(value: object) -> object:
    """A copy of what a program may write: tensors and containers. Other objects are themselves."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: kept(item) for key, item in value.items()}
    if isinstance(value, list):
        return [kept(item) for item in value]
    if type(value) is tuple:
        return tuple(kept(item) for item in value)
    return value


def is_same(a: object, b: object) -> bool:
    """Are two such copies equal? NaN is equal to itself, and 1 and 1.0 differ."""
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _is_same_tensor(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(is_same(item, b[key]) for key, item in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    return a is b or bool(a == b) or (a != a and b != b)


def _is_same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    if (a.dtype, a.shape, a.device, a.layout) != (b.dtype, b.shape, b.device, b.layout):
        return False
    if a.layout is not torch.strided or a.is_quantized:
        return str(a) == str(b)
    return torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True) if a.is_floating_point() else torch.equal(a, b)


@dataclass
class Stop:
    """A breakpoint that stops the program, and what to say of it."""

    breakpoint: Breakpoint
    text: str


class BreakpointTable:
    """The breakpoints by number."""

    def __init__(self) -> None:
        self._all: dict[int, Breakpoint] = {}
        self._next = 1

    def add(self, made: Breakpoint) -> Breakpoint:
        """Enter a breakpoint, which gets the next number."""
        made.number = self._next
        self._next += 1
        self._all[made.number] = made
        return made

    def remove(self, number: int) -> None:
        del self._all[number]

    def clear(self) -> None:
        self._all.clear()

    def get(self, number: int) -> Breakpoint | None:
        return self._all.get(number)

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def lines_of(self, filename: str) -> set[int]:
        """The lines of a file with a breakpoint."""
        return {b.line for b in self if isinstance(b, LineBreakpoint) and is_file(filename, b.filename)}
