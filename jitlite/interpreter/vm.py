"""The stack machine: runs bytecode.

It is the reference for every faster way to run a graph. Calls of script functions become frames of the machine, so a
program may recurse as deep as Python allows and a debugger can look at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from jitlite.base.source import Error
from jitlite.interpreter import futures
from jitlite.interpreter.bytecode import code_of
from jitlite.interpreter.code import Code
from jitlite.interpreter.frames import SWITCH, CallFrame, Machine, add_traceback
from jitlite.interpreter.stack import arguments_in
from jitlite.interpreter.value_words import DESCRIBED_TENSORS, tensor_in_brief
from jitlite.interpreter.watching import DebuggerQuit, Watcher, current_watcher
from jitlite.ir.unit import Function

Watch = Callable[[CallFrame], None]


class StepLimit(Error):
    """A run was stopped because it took more steps than it was allowed."""


def run(
    function: Function | Code,
    arguments: Sequence[object],
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

    Who watches the thread (`watching.watched_by`) watches this run, too, unless it has a limit or a watch of its own.
    Where somebody looks on, forked calls are run at once and in this thread.

    Raises:
        StepLimit: when `step_limit` is reached.
        Exception: whatever the program raises, with the script traceback as a note.
    """
    code = function if isinstance(function, Code) else code_for(function)
    if len(arguments) != code.inputs:
        raise TypeError(f"{code.name} takes {code.inputs} argument(s) but {len(arguments)} were given")
    watcher = _watcher(step_limit, watch)
    evaluate = partial(run, code_for=code_for, step_limit=step_limit, watch=watch)
    machine = Machine(code_for, evaluate, futures.fork if watcher is None else futures.at_once)
    machine.stack.extend(arguments)
    try:
        machine.enter(code)
        if watcher is None:
            _run_frames(machine)
        else:
            watcher.begin(machine)
            _run_watched(machine, watcher)
    except BaseException as error:
        calls, tensors = machine.calls(error), _tensors_of_operator(error)
        left_with = machine.exit_contexts(error)
        if isinstance(left_with, Exception) and machine.frames:
            add_traceback(left_with, calls, tensors, with_inner=False)
        if left_with is not error:
            raise left_with  # noqa: B904 - raised while the first was handled, which it knows as its context
        raise
    finally:
        if watcher is not None:
            watcher.end(machine)
        machine.caught = None  # its traceback holds the Python frames of this run, and these the machine
    results = machine.stack
    return results[0] if len(results) == 1 else tuple(results) or None


def _tensors_of_operator(error: BaseException) -> list[str]:
    """The tensors that the operator was given that raised, described."""
    entry = error.__traceback__
    given: Sequence[object] = ()
    while entry is not None:
        given = arguments_in(entry.tb_frame) or given
        entry = entry.tb_next
    return [
        tensor_in_brief(value)
        for value in given
        if isinstance(value, torch.Tensor) and type(value) in DESCRIBED_TENSORS
    ]


def _run_frames(machine: Machine) -> None:
    """Run until no frame is left, with handlers for what is caught."""
    machine.frames[-1].pc = 0
    while True:
        try:
            _run_on(machine)
        except BaseException as error:
            if not _catch(machine, error):
                raise
        else:
            return


def _run_on(machine: Machine) -> None:
    """Run from where the last frame is. The loop of the interpreter; everything in it costs every instruction."""
    frame = machine.frames[-1]
    program, pc = frame.program, frame.pc
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


def _catch(machine: Machine, error: BaseException) -> bool:
    """Let the program handle an exception, if it does and may."""
    return not isinstance(error, StepLimit | DebuggerQuit) and machine.catch(error)


def _run_watched(machine: Machine, watcher: Watcher) -> None:
    """The same loop with a look at every instruction."""
    frame = machine.frames[-1]
    frame.pc = 0
    while True:
        watcher.before(frame)
        handler, x, n = frame.program[frame.pc]
        try:
            jump = handler(frame, x, n)
        except BaseException as error:
            watcher.raised(machine, error)
            if not _catch(machine, error):
                raise
            frame = machine.frames[-1]
            continue
        if jump is None:
            frame.pc += 1
        elif jump != SWITCH:
            frame.pc += jump
        elif not machine.frames:
            return
        else:
            frame = machine.frames[-1]
            frame.pc += 1  # behind the call, or, from -1, to the first instruction


def _watcher(step_limit: int | None, watch: Watch | None) -> Watcher | None:
    return current_watcher() if step_limit is None and watch is None else _Limit(step_limit, watch)


class _Limit(Watcher):
    """Counts instructions, and has a function look at each."""

    def __init__(self, most: int | None, watch: Watch | None) -> None:
        self.most = most
        self.watch = watch
        self.taken = 0

    def before(self, frame: CallFrame) -> None:
        if self.watch is not None:
            self.watch(frame)
        self.taken += 1
        if self.most is not None and self.taken > self.most:
            found = frame.place.range
            where = f"{found.location()}: " if found else ""
            raise StepLimit(f"{where}'{frame.code.name}' was stopped after {self.most} steps")
