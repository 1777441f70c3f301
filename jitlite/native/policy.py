"""When a region becomes machine code, and when it is given up.

Python measures how long it is in a region, each time it runs it, which takes two looks at the clock. Once that sums up
to half of what compiling is likely to take, the region is compiled (the "ski rental" rule: at most some times the time
that the best choice would have taken; half, for it is done in the background, and what is hot at all is likely to stay
so). So nothing is compiled for what runs for an instant, and llvmlite is not even imported.
"""

from __future__ import annotations

import time
from typing import Any

from jitlite.base import background, options
from jitlite.base.locks import ObjectLock
from jitlite.ir.regions import Implementation
from jitlite.native.entry import Entry, MachineCode, compile_region, is_loaded
from jitlite.native.regions import NativeRegion

IMPORT_SECONDS = 0.02
COMPILE_SECONDS = 0.01
NODE_SECONDS = 0.0005
"""Half of what importing llvmlite takes, compiling any region, and compiling each node of it."""

BAILOUTS = 8
"""A region that has bailed out so often, and at least as often as it was done, is given up."""


def _bail_out(*arguments: object) -> None:
    """What is called for a region that is given up."""


class RegionState(Implementation):
    """What becomes of one region of a plan.

    Generated code asks for what to call, which is None while Python runs the region, and calls `record_run` when it
    has:

        _done = _native and _native(n)
        if _done is None: ...; _spent(since)

    Attributes:
        region: what may become machine code.
    """

    is_adaptive = True

    def __init__(self, region: NativeRegion, name: str, mode: str) -> None:
        super().__init__(self._compile if mode == "now" else None, "not compiled yet, for it has run only a little")
        self.region = region
        self.name = name
        self._machine: MachineCode | None = None
        self._is_cold = mode == "auto"
        self._least = COMPILE_SECONDS + NODE_SECONDS * region.size
        self._compiling = ObjectLock()

    @property
    def runs(self) -> int:
        """How often it ran as machine code."""
        return 0 if self._machine is None else int(self._machine.counters[0])

    @property
    def bailouts(self) -> int:
        """How often machine code could not do it."""
        return 0 if self._machine is None else int(self._machine.counters[1])

    @property
    def is_compiled(self) -> bool:
        return self._machine is not None

    @property
    def price(self) -> float:
        """The seconds in Python after which it is compiled."""
        return self._least + (0.0 if is_loaded() else IMPORT_SECONDS)

    def record_run(self, since: float) -> None:
        """Python has run the region, from `since` on."""
        if self._is_cold:
            spent = time.perf_counter() - since
            self.seconds += spent
            if self.seconds > self._least and self.seconds > self.price:
                self._is_cold = False
                if options.current().background:
                    self.status = "hot: it is being compiled"
                    background.submit(self._make, spent)
                else:
                    self.status = "hot: its next run compiles it"
                    self.publish(self._compile)
        elif self._machine is None:
            background.wait_a_turn(self._compiling, time.perf_counter() - since)
        elif self.bailouts >= BAILOUTS and self.bailouts > self.runs:
            self._give_up(f"given up, for it missed {self.bailouts} times of {self.bailouts + self.runs}")

    def warm_up(self, seconds: float) -> None:
        self.seconds = min(seconds, self.price)

    def _give_up(self, why: str) -> None:
        self.status = why
        self.publish(_bail_out)  # not None: generated code of another thread may be about to call what it has seen

    def _compile(self, *arguments: object) -> Any:
        """Become machine code, and run it. Threads that come meanwhile stay with Python."""
        if not self._compiling.acquire(blocking=False):
            return None
        try:
            entry = self._become_machine_code()
        finally:
            self._compiling.release()
        return None if entry is None else entry(*arguments)

    def _make(self) -> None:
        """Become machine code, in the background."""
        with self._compiling:
            self._become_machine_code()

    def _become_machine_code(self) -> Entry | None:
        if self._machine is not None:
            return None
        made = compile_region(self.region, self.name)
        if made is None:
            self._give_up("no machine code here: llvmlite is missing, or does not work with this Python")
            return None
        entry, self._machine = made
        self.status = "machine code"
        self.publish(entry)
        return entry
