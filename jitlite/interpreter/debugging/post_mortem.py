"""The calls that an exception has come through: of generated Python, and of the stack machine."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from jitlite.interpreter import vm
from jitlite.interpreter.debugging.scopes import CallScope, scopes_of
from jitlite.interpreter.frames import Machine
from jitlite.interpreter.python_code import calls_with_entries


def scopes_in(traceback: TracebackType | None) -> list[CallScope]:
    """The calls of scripts in a traceback, outermost first.

    Those of generated Python have the variables that are left there, under the names that the graph's values have.
    Calls that were inlined share them.
    """
    calls = {id(entry): (name, place) for entry, name, place in calls_with_entries(traceback)}
    found: list[CallScope] = []
    for entry in _entries(traceback):
        frame = entry.tb_frame
        if id(entry) in calls:
            name, place = calls[id(entry)]
            variables = {key: value for key, value in frame.f_locals.items() if not key.startswith("_")}
            for callee, called_at in place.call_stack:
                found.append(CallScope(name, called_at, variables))
                name = callee
            found.append(CallScope(name, place.range, variables))
        elif frame.f_code is vm.run.__code__:
            machine = frame.f_locals.get("machine")
            if isinstance(machine, Machine):
                found += [scope for running in machine.frames for scope in scopes_of(running)]
    return found


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
