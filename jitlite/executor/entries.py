"""What takes calls of a function from Python: a generated function at first, and machine code once calls are many.

The machine code that checks arguments is one for the whole process (`native/checked_calls.py`). To have it takes as
long as compiling a loop does, so calls are counted, those of all functions together, until what it would have saved is
what it costs. A function that is called for the first time after that has it at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from jitlite.base import background, options
from jitlite.interpreter.entry import CallSite, Count, Entry, make_entry
from jitlite.ir import types as T
from jitlite.native.checked_calls import CallTarget, checked_call, has_tests, is_ready, prepare
from jitlite.native.entry import is_loaded
from jitlite.native.policy import COMPILE_SECONDS, IMPORT_SECONDS

_SAVED_SECONDS, _SAVED_FOR_PARTS = 1e-7, 1e-6
"""What a call takes less where machine code checks the arguments, and for each argument that has parts."""

_SOME = 1_000
"""Calls of a function from one look at whether the machine code is there to the next."""


class _State:
    """What is known of calls that are counted, of all functions together.

    Attributes:
        seconds: what machine code would have saved so far.
        is_compiling: is it being made?
        is_refused: is it not to be had?
    """

    seconds = 0.0
    is_compiling = False
    is_refused = False


_state = _State()


def install_entry(site: CallSite, take: Callable[[Entry], None]) -> None:
    """Make what calls go to, and hand it to `take`: now, and again when there is something better."""
    mode = options.current().native
    if mode == "off" or not site.is_plain or not has_tests([formal.type for formal in site.formals]):
        take(make_entry(site))
    elif is_ready() or (mode == "now" and prepare()):
        take(_checked(site))
    else:
        take(make_entry(site, _Settling(site, take).settle))


def _checked(site: CallSite) -> Entry:
    """What has machine code check the arguments, and the generated function do what that does not."""
    python = make_entry(site)
    target = CallTarget(site.way, python, site.note, site.recorders, site.owner)
    return checked_call([formal.type for formal in site.formals], target) or python


class _Settling:
    """A function whose calls are counted."""

    def __init__(self, site: CallSite, take: Callable[[Entry], None]) -> None:
        self._site = site
        self._take = take
        parts = sum(isinstance(T.without_none(formal.type), _WITH_PARTS) for formal in site.formals)
        self._saved = _SOME * (_SAVED_SECONDS + parts * _SAVED_FOR_PARTS)
        self._is_first = True

    def settle(self) -> Count:
        """Have some calls counted. Asked again when they have been, it has them go another way if there is one."""
        if self._is_first:
            self._is_first = False
        else:
            _state.seconds += self._saved
            self._look()
        return itertools.repeat(None, _SOME).__next__

    def _look(self) -> None:
        if is_ready() or _state.is_refused:
            self._take(_checked(self._site))
        elif _state.seconds > _price() and not _state.is_compiling:
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
