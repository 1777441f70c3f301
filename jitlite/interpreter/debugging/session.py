"""The debugger: looks on while programs run, stops them, and asks its user what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from jitlite.interpreter.debugging.breakpoints import Stop
from jitlite.interpreter.debugging.commands import Prompt
from jitlite.interpreter.debugging.control import Control, Motion, Pace
from jitlite.interpreter.debugging.moments import Moment
from jitlite.interpreter.frames import CallFrame, Machine
from jitlite.interpreter.value_words import short_repr
from jitlite.interpreter.watching import DebuggerQuit, Watcher


class Debugger(Watcher):
    """Stops at the first line, or, where it is asleep, at the first `breakpoint()`.

    Args:
        stdin, stdout: where commands come from and where the debugger writes; the terminal if not given.
        is_asleep: see above.
    """

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None, is_asleep: bool = False) -> None:
        self.control = Control()
        self.prompt = Prompt(self.control, stdin, stdout)
        self._is_asleep = is_asleep
        self._told: BaseException | None = None
        """The exception that was shown last, which may come through several runs."""
        self._asks = False

    def begin(self, machine: Machine) -> None:
        self.control.machines.append(machine)

    def end(self, machine: Machine) -> None:
        self.control.machines.remove(machine)
        self.control.tracker.forget(machine)
        self.control.known.forget(machine)
        if not self.control.machines:
            self._told = None

    def before(self, frame: CallFrame) -> None:
        moment = self.control.tracker.moment(frame)
        self.control.known.note(frame)
        is_breakpoint = moment.opcode == "BREAKPOINT"
        if self._is_asleep and not is_breakpoint:
            return
        self._is_asleep = False
        found = self.control.found(moment)
        if found or is_breakpoint or self.control.arrived(moment):
            self._stop(found, moment)

    def interrupt(self) -> None:
        """Ctrl-C was pressed: the program stops where the next line begins, or the prompt is left.

        Raises:
            KeyboardInterrupt: nothing runs that could stop.
        """
        if self._asks or not self.control.machines or not self.control.can_go_on:
            raise KeyboardInterrupt
        self._is_asleep = False
        self.control.motion = Motion(Pace.STEP)

    def raised(self, machine: Machine, error: BaseException) -> None:
        if self._is_asleep or isinstance(error, DebuggerQuit) or error is self._told:
            return
        self._told = error
        if any(running.handlers for running in self.control.machines):
            return
        control = self.control
        control.can_go_on = False
        control.look()
        self.prompt.interact([f"Uncaught exception: {type(error).__name__}: {error}", "The program has ended here."])
        control.motion = Motion(Pace.CONTINUE)
        control.can_go_on = True

    def begin_again(self) -> None:
        """The call is going to begin again."""
        self._told = None
        self.control.begin_again()

    def _stop(self, found: Sequence[Stop], moment: Moment) -> None:
        self.control.look()
        texts = [stopped.text for stopped in found]
        if moment.opcode == "RET":
            results = list(moment.frame.stack[-moment.frame.code.outputs :]) if moment.frame.code.outputs else []
            self.control.returned = [results[0] if len(results) == 1 else tuple(results) or None]
            texts = [*texts, f"Return value: {short_repr(self.control.returned[0])}"]
        self._asks = True
        try:
            self.prompt.interact(texts, [command for stopped in found for command in stopped.breakpoint.commands])
        finally:
            self._asks = False
