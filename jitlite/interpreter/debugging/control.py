"""What a debugger knows between two stops: breakpoints, how far the program is to run, what is looked at."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from jitlite.interpreter.code import CallStack
from jitlite.interpreter.debugging.breakpoints import Breakpoint, BreakpointTable, Stop, Watchpoint, is_same
from jitlite.interpreter.debugging.known_values import KnownValues
from jitlite.interpreter.debugging.moments import Moment, Tracker, is_mark
from jitlite.interpreter.debugging.scopes import CallScope, depth_of_frames, evaluate, scopes_of
from jitlite.interpreter.frames import CallFrame, Machine
from jitlite.interpreter.value_words import short_repr


class Pace(enum.Enum):
    """How far to run."""

    INSTRUCTION = "to the next instruction"
    STEP = "to the next line, in calls too"
    NEXT = "to the next line of this call"
    UNTIL = "to a later line of this call"
    RETURN = "to the end of this call"
    CONTINUE = "to a breakpoint"


@dataclass
class Motion:
    """How far to run, seen from a scope: its depth among the calls, its frame, and for UNTIL the line."""

    pace: Pace
    depth: int = 0
    frame: CallFrame | None = None
    path: CallStack = ()
    line: int = 0


class Control:
    """The state of a debugger, apart from what it prints.

    Attributes:
        machines: the runs that have begun, outermost first.
        scopes: the running calls when the program stopped, outermost first.
        selected: which of them commands are about.
        can_go_on: may the program go on? Not after an exception that nothing handles.
        can_restart: may the call begin again?
        returned: what returned last, as the only item.
    """

    def __init__(self) -> None:
        self.breakpoints = BreakpointTable()
        self.motion = Motion(Pace.STEP)
        self.machines: list[Machine] = []
        self.tracker = Tracker()
        self.known = KnownValues()
        self.scopes: list[CallScope] = []
        self.selected = 0
        self.can_go_on = True
        self.can_restart = False
        self.returned: list[object] = []

    @property
    def scope(self) -> CallScope:
        """The call that commands are about."""
        return self.scopes[self.selected]

    def frames(self) -> list[CallFrame]:
        """The frames of all runs, outermost first."""
        return [frame for machine in self.machines for frame in machine.frames]

    def begin_again(self) -> None:
        """Forget the runs: the call is going to begin again. Breakpoints stay, watchpoints go with their calls."""
        self.machines.clear()
        self.tracker, self.known = Tracker(), KnownValues()
        self.motion = Motion(Pace.STEP)
        self.can_go_on = True
        self.returned = []
        for breakpoint in self.breakpoints:
            if isinstance(breakpoint, Watchpoint):
                self.breakpoints.remove(breakpoint.number)

    def look(self) -> None:
        """See which calls are running; the innermost is selected."""
        self.scopes = [s for frame in self.frames() for s in scopes_of(frame, self.tracker.last_range(frame))]
        self.selected = len(self.scopes) - 1

    def go(self, pace: Pace, line: int = 0) -> None:
        """Say how far to run, seen from the selected call."""
        scope = self.scope
        self.motion = Motion(pace, self.selected + 1, scope.frame, scope.path, line)

    # -- is it time to stop?

    def arrived(self, moment: Moment) -> bool:
        """Has the program run as far as it was to?"""
        motion = self.motion
        if motion.pace in (Pace.CONTINUE, Pace.RETURN):
            return motion.pace is Pace.RETURN and self._has_returned(moment)
        if motion.pace is Pace.INSTRUCTION:  # marks do nothing, and are not shown
            return not is_mark(moment.frame.code, moment.frame.pc - 1)
        if not moment.is_line or motion.pace is Pace.STEP:
            return moment.is_line
        depth = depth_of_frames(self.frames())
        if depth > motion.depth:
            return False
        if motion.pace is Pace.UNTIL and depth == motion.depth and moment.range is not None:
            return moment.range.line >= motion.line
        return True

    def _has_returned(self, moment: Moment) -> bool:
        motion = self.motion
        if moment.opcode == "RET" and moment.frame is motion.frame and not motion.path:
            return True
        return moment.range is not None and depth_of_frames(self.frames()) < motion.depth

    def found(self, moment: Moment) -> list[Stop]:
        """The breakpoints that stop the program at this moment; those that are temporary go."""
        stopped = [found for b in self.breakpoints if b.is_enabled and (found := self._hit(b, moment)) is not None]
        for found in stopped:
            if found.breakpoint.is_temporary:
                self.breakpoints.remove(found.breakpoint.number)
        return stopped

    def _hit(self, breakpoint: Breakpoint, moment: Moment) -> Stop | None:
        if isinstance(breakpoint, Watchpoint):
            text = self._changed(breakpoint)
        else:
            text = f"Breakpoint {breakpoint.number}: {breakpoint}" if breakpoint.matches(moment) else None
        if text is None:
            return None
        wrong = ""
        if breakpoint.condition:
            scope = scopes_of(moment.frame, self.tracker.last_range(moment.frame))[-1]
            try:
                if not evaluate(breakpoint.condition, scope):
                    return None
            except Exception as error:
                wrong = f"\nIts condition cannot be evaluated: {type(error).__name__}: {error}"
        breakpoint.hits += 1
        if breakpoint.ignored:
            breakpoint.ignored -= 1
            return None
        return Stop(breakpoint, text + wrong)

    def _changed(self, watched: Watchpoint) -> str | None:
        """What to say of an expression whose value has changed. Of a call that has ended, nothing is left to watch."""
        frames = self.frames()
        if watched.frame not in frames:
            self.breakpoints.remove(watched.number)
            return f"Watchpoint {watched.number} is gone, as the call it was set in has ended: {watched.expression}"
        scopes = scopes_of(watched.frame, self.tracker.last_range(watched.frame))
        inside = [scope for scope in scopes if scope.path == watched.path]
        if not inside:
            return None
        now, before = watched.value_in(inside[-1]), watched.last
        if is_same(before, now):
            return None
        watched.last = now
        return f"Watchpoint {watched.number}: {watched.expression}\n  was {short_repr(before)}\n  is  {short_repr(now)}"
