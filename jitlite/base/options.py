"""Every switch of jitlite, in one frozen dataclass.

A switch is read from the environment variable in its declaration; `override` changes switches for a piece of code:

    with override(verify=True):
        run(graph, "inline,cse,dce")

`set_globally` changes them for the process. Functions that run already follow: see `on_change`.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jitlite.base.locks import Lock


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 0 or 1")


def _limit(text: str) -> int | None:
    return int(text) if text.strip() else None


def _choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip() not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return text.strip()

    return read


def _folder(text: str) -> str:
    found = text.strip() or "off"
    if found not in ("auto", "off") and not os.path.isabs(found):
        raise ValueError("expected auto, off or an absolute path")
    return found


EXECUTORS = ("profiling", "legacy", "simple", "off", "debug")
TIERS = ("python", "stack")
ENGINE_ERRORS = ("fallback", "raise")
NATIVE = ("auto", "now", "off")


def _switch(default: object, variable: str, read: Callable[[str], Any], doc: str) -> Any:
    return field(default=default, metadata={"variable": variable, "read": read, "doc": doc})


@dataclass(frozen=True)
class Options:
    """The switches; see the `doc` of each field (`describe` lists them)."""

    enabled: bool = _switch(
        True,
        "JITLITE_ENABLED",
        _boolean,
        "0: script, trace and script_method give back what they are given, so that Python runs it, and its debugger",
    )
    verify: bool = _switch(False, "JITLITE_VERIFY", _boolean, "check the graph after every pass, and each kernel")
    print_changed: bool = _switch(
        False, "JITLITE_PRINT_CHANGED", _boolean, "print what each pass changed, as a unified diff, to stderr"
    )
    full_tracebacks: bool = _switch(
        False, "JITLITE_FULL_TRACEBACKS", _boolean, "leave the frames of the compiler in tracebacks of compile errors"
    )
    opt_bisect_limit: int | None = _switch(
        None,
        "JITLITE_OPT_BISECT_LIMIT",
        _limit,
        "run only the first N passes of the process: halve N to find the pass at fault",
    )
    executor: str = _switch(
        "profiling",
        "JITLITE_EXECUTOR",
        _choice(*EXECUTORS),
        "how functions are run: profiling (specialize what is called often), legacy (a plan for each kind of "
        "arguments), simple (one plan), off (no passes, the stack machine), debug (as it is written, with the variables"
        " that a debugger shows)",
    )
    tier: str = _switch(
        "python", "JITLITE_TIER", _choice(*TIERS), "what runs a plan: python (generated Python), stack (the machine)"
    )
    archive_code_memory: int = _switch(
        200_000_000,
        "JITLITE_ARCHIVE_CODE_MEMORY",
        int,
        "bytes that the code of an archive may take once it is parsed, beside three times the size of the file",
    )
    native: str = _switch(
        "auto",
        "JITLITE_NATIVE",
        _choice(*NATIVE),
        "when loops over numbers become machine code, if llvmlite is there: auto (once Python has spent as much time "
        "in them as compiling takes), now (at their first run), off (never)",
    )
    cache_dir: str = _switch(
        "auto",
        "JITLITE_CACHE_DIR",
        _folder,
        "the folder where machine code is kept for other processes; auto: jitlite in the user's folder for caches; "
        "off: none",
    )
    background: bool = _switch(
        True,
        "JITLITE_BACKGROUND",
        _boolean,
        "specialize functions and compile loops in a thread of their own, so that no call waits; 0: in the call that "
        "finds it worth while",
    )
    specialize_after: int = _switch(
        64, "JITLITE_SPECIALIZE_AFTER", int, "calls of a function before specializing it is considered"
    )
    profiled_runs: int = _switch(1, "JITLITE_PROFILED_RUNS", int, "calls that are profiled before specializing")
    cached_plans: int = _switch(
        64, "JITLITE_CACHED_PLANS", int, "plans that the legacy executor keeps for a function, one a kind of arguments"
    )

    engine_errors: str = _switch(
        "fallback",
        "JITLITE_ENGINE_ERRORS",
        _choice(*ENGINE_ERRORS),
        "what becomes of a group of operators whose engine fails: fallback (it is run as a graph, with one warning), "
        "raise (what the engine raised)",
    )
    symbolic_gradients: int = _switch(
        0,
        "JITLITE_SYMBOLIC_GRADIENTS",
        int,
        "have autograd see groups of at least so many operators as one node, with a gradient that is a graph; 0: none",
    )

    def __post_init__(self) -> None:
        """See that each switch is what its variable could say.

        Raises:
            ValueError: one is not.
        """
        for switch in fields(self):
            value: Any = getattr(self, switch.name)
            default: Any = switch.default
            read = switch.metadata["read"]
            if value is None and default is None:
                continue
            reason = _why_unfit(value, int if default is None else type(default), read)
            if reason is not None:
                raise ValueError(f"{switch.name}={value!r}: {reason}")

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Options:
        """The switches as the environment sets them.

        Raises:
            ValueError: where a variable holds something its switch cannot be.
        """
        found = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        for switch in fields(Options):
            variable = switch.metadata["variable"]
            text = found.get(variable)
            if text is None:
                continue
            try:
                values[switch.name] = switch.metadata["read"](text)
            except ValueError as error:
                raise ValueError(f"{variable}={text!r}: {error}") from None
            if type(values[switch.name]) is int and values[switch.name] < 0:
                raise ValueError(f"{variable}={text!r}: expected a number from 0 on")
        return Options(**values)


def describe() -> list[tuple[str, str, str]]:
    """Name, environment variable and meaning of every switch."""
    return [(f.name, f.metadata["variable"], f.metadata["doc"]) for f in fields(Options)]


_current: ContextVar[Options | None] = ContextVar("jitlite_options", default=None)
_from_environment: Options | None = None
_overriding = 0
_counting = Lock("options")
_listeners: list[Callable[[], None]] = []


def on_change(listener: Callable[[], None]) -> None:
    """Have `listener` called whenever switches change somewhere: what was derived from them is out of date."""
    _listeners.append(listener)


def is_overridden() -> bool:
    """Is some thread inside an `override`? Then what `current` says may differ from thread to thread."""
    return _overriding > 0


def _tell_listeners() -> None:
    for listener in _listeners:
        listener()


def current() -> Options:
    """The switches in force: those of the innermost `override`, else the environment as it was when first asked."""
    global _from_environment
    overridden = _current.get()
    if overridden is not None:
        return overridden
    if _from_environment is None:
        _from_environment = Options.from_environment()
        _warn_of_unknown(os.environ)
    return _from_environment


def _warn_of_unknown(environment: Mapping[str, str]) -> None:
    """Name variables that look like switches and are none."""
    known = [variable for _, variable, _ in describe()]
    for name in environment:
        if name.startswith("JITLITE_") and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else "; `jitlite options` lists them"
            warnings.warn(f"{name} is no switch of jitlite{hint}", stacklevel=3)


@contextmanager
def override(**changes: Any) -> Iterator[Options]:
    """Within the `with`, the named switches have the given values."""
    global _overriding
    changed = replace(current(), **changes)
    token = _current.set(changed)
    with _counting:
        _overriding += 1
    _tell_listeners()
    try:
        yield changed
    finally:
        with _counting:
            _overriding -= 1
        _current.reset(token)
        _tell_listeners()


def set_globally(**changes: Any) -> Options:
    """Give the named switches other values for the whole process; gives the switches as they were."""
    global _from_environment
    before = Options.from_environment() if _from_environment is None else _from_environment
    _from_environment = replace(before, **changes)
    _tell_listeners()
    return before


def _why_unfit(value: object, wanted: type, read: Callable[[str], object]) -> str | None:
    """Why a value is not what a variable could say; None where it is."""
    try:
        is_whole = wanted is not int or (type(value) is int and value >= 0)
        if type(value) is wanted and read(str(value)) == value and is_whole:
            return None
    except ValueError as error:
        return str(error)
    return f"expected {'a number from 0 on' if wanted is int else wanted.__name__}"
