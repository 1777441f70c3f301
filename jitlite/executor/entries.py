"""What takes calls of a function from Python: a generated function at first, and machine code once calls are many.

The machine code that checks arguments is one for the whole process (`native/checked_calls.py`). To have it takes as
long as compiling a loop does, so calls are counted, those of all functions together, until what it would have saved is
what it costs. A function that is called for the first time after that has it at once.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from jitlite.base import background, options
from jitlite.interpreter.binding import Mismatch, converter
from jitlite.interpreter.entry import CallSite, Count, Entry, make_entry
from jitlite.ir import types as T
from jitlite.native.checked_calls import CheckedTarget, checked_call, has_tests, is_ready, make, prepare
from jitlite.native.entry import is_loaded, why_not
from jitlite.native.policy import COMPILE_SECONDS, IMPORT_SECONDS

_SAVED_SECONDS = 1e-7
"""What a call takes less where machine code checks the arguments, beside what lists and the like take to be checked."""

_SHARE = 0.25
"""The part of the price that machine code is to have saved before it is made. No call waits for it."""

_SOME = 256
"""Calls of a function from one look at whether the machine code is there to the next."""


class _EntryState:
    """What is known of calls that are counted, of all functions together.

    Attributes:
        seconds: what machine code would have saved so far.
        is_compiling: is it being made?
        is_refused: is it not to be had?
    """

    seconds = 0.0
    is_compiling = False
    is_refused = False


_state = _EntryState()


def install_entry(site: CallSite, take: Callable[[Entry], None]) -> None:
    """Make what calls go to, and hand it to `take`: now, and again when there is something better."""
    mode = options.current().native
    if mode == "off" or not has_tests(site.formals):
        take(make_entry(site))
    elif is_ready() or (mode == "now" and prepare()):
        take(_checked(site))
    else:
        take(make_entry(site, _some_calls(), _Settling(site, take).settle))


def _checked(site: CallSite) -> Entry:
    """What has machine code check the arguments, and the generated function do what that does not."""
    python = make_entry(site)
    target = CheckedTarget(site.way, python, site.note, site.recorders, site.owner)
    return checked_call(site.formals, target) or python


def _some_calls() -> Count:
    """What counts some calls."""
    return itertools.repeat(None, _SOME).__next__


class _Settling:
    """A function whose calls are counted."""

    def __init__(self, site: CallSite, take: Callable[[Entry], None]) -> None:
        self._site = site
        self._take = take
        self._have_parts = [isinstance(T.without_none(formal.type), _WITH_PARTS) for formal in site.formals]

    def settle(self, *arguments: object) -> Count:
        """Some calls have been counted, the last with these arguments: have calls go another way if there is one."""
        _state.seconds += _SOME * (_SAVED_SECONDS + self._seconds_for_parts(arguments))
        self._look()
        return _some_calls()

    def _seconds_for_parts(self, arguments: Sequence[object]) -> float:
        """How long Python takes to check arguments that have parts."""
        if not any(self._have_parts):
            return 0.0
        begin = time.perf_counter()
        for argument, formal, has_parts in zip(arguments, self._site.formals, self._have_parts, strict=True):
            if has_parts:
                with suppress(Mismatch):
                    converter(formal.type)(argument)
        return time.perf_counter() - begin

    def _look(self) -> None:
        if is_ready() or _state.is_refused:
            self._take(_checked(self._site))
        elif _state.seconds > _SHARE * _price() and not _state.is_compiling:
            _state.is_compiling = True
            if options.current().background:
                background.submit(self._compile)
            else:
                self._compile()

    def _compile(self) -> None:
        _state.is_refused = not prepare()
        _state.is_compiling = False
        self._take(_checked(self._site))


_WITH_PARTS = T.ListType | T.DictType | T.TupleType


def _price() -> float:
    return COMPILE_SECONDS + (0.0 if is_loaded() else IMPORT_SECONDS)


def machine_code_report() -> dict[str, str]:
    """What machine code is used for here: "on", or why it is not. It is tried, which takes a moment."""
    if options.current().native == "off":
        return dict.fromkeys(("loops", "calls"), "switched off: JITLITE_NATIVE")
    loops = why_not(lambda: True)
    calls = loops or why_not(make)
    return {name: f"off: {reason}" if reason else "on" for name, reason in (("loops", loops), ("calls", calls))}
