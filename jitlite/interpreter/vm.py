"""The stack machine: runs bytecode.

It is the reference for every faster way to run a graph. Calls of script functions become frames of the machine, so a
program may recurse as deep as Python allows and a debugger can look at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jitlite.interpreter.bytecode import code_of
from jitlite.interpreter.code import Code
from jitlite.interpreter.frames import SWITCH, Frame, Machine, add_traceback
from jitlite.ir.unit import Function
from jitlite.source import Error

Watch = Callable[[Frame], None]


class StepLimit(Error):
    """A run was stopped because it took more steps than it was allowed."""


def run(
    function: Function | Code,
    arguments: Sequence[Any],
    code_for: Callable[[Function], Code] = code_of,
    *,
    step_limit: int | None = None,
    watch: Watch | None = None,
) -> Any:
    """Run a function and give its result (a tuple where the graph has several outputs).

    Args:
        function: what to run.
        arguments: one for each input of the graph, bound and converted already.
        code_for: gives the code of each function that is called.
        step_limit: how many instructions may be executed.
        watch: called with the running frame, whose `pc` is up to date, before each instruction.

    Raises:
        StepLimit: when `step_limit` is reached.
        Exception: whatever the program raises, with the script traceback as a note.
    """
    code = function if isinstance(function, Code) else code_for(function)
    if len(arguments) != code.inputs:
        raise TypeError(f"{code.name} takes {code.inputs} argument(s) but {len(arguments)} were given")
    machine = Machine(code_for, partial(run, code_for=code_for, step_limit=step_limit, watch=watch))
    machine.stack.extend(arguments)
    try:
        machine.enter(code)
        if step_limit is None and watch is None:
            _run_frames(machine)
        else:
            _run_watched(machine, _watches(step_limit, watch))
    except BaseException as error:
        machine.exit_contexts()
        if isinstance(error, Exception) and machine.frames:
            add_traceback(error, machine.frames)
        raise
    results = machine.stack
    return results[0] if len(results) == 1 else tuple(results) or None


def _run_frames(machine: Machine) -> None:
    """Run until no frame is left. The loop of the interpreter; everything in it costs every instruction."""
    frame = machine.frames[-1]
    program, pc = frame.program, 0
    try:
        while True:
            handler, x, n = program[pc]
            jump = handler(frame, x, n)
            if jump is None:
                pc += 1
            elif jump != SWITCH:
                pc += jump
            else:
                frame.pc = pc
                if not machine.frames:
                    return
                frame = machine.frames[-1]
                program, pc = frame.program, frame.pc + 1
    except BaseException:
        frame.pc = pc
        raise


def _run_watched(machine: Machine, watch: Watch) -> None:
    """The same loop with a look at every instruction."""
    frame = machine.frames[-1]
    frame.pc = 0
    while True:
        watch(frame)
        handler, x, n = frame.program[frame.pc]
        jump = handler(frame, x, n)
        if jump is None:
            frame.pc += 1
        elif jump != SWITCH:
            frame.pc += jump
        elif not machine.frames:
            return
        else:
            frame = machine.frames[-1]
            frame.pc += 1  # behind the call, or, from -1, to the first instruction


def _watches(step_limit: int | None, watch: Watch | None) -> Watch:
    taken = 0

    def count(frame: Frame) -> None:
        nonlocal taken
        if watch is not None:
            watch(frame)
        taken += 1
        if step_limit is not None and taken > step_limit:
            found = frame.place.range
            where = f"{found.location()}: " if found else ""
            raise StepLimit(f"{where}'{frame.code.name}' was stopped after {step_limit} steps")

    return count
