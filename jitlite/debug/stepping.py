"""The debugger for users: run a function step by step, or look at what an exception has left."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from jitlite.api.script import script
from jitlite.base import options
from jitlite.base.keywords import checks_keywords
from jitlite.base.source import Error
from jitlite.interpreter.debugging.commands import Prompt
from jitlite.interpreter.debugging.control import Control
from jitlite.interpreter.debugging.post_mortem import scopes_in
from jitlite.interpreter.debugging.session import Debugger
from jitlite.interpreter.watching import DebuggerQuit, DebuggerRestart, watched_by
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import RecursiveScriptModule

_Result = TypeVar("_Result")


def debug(function: Callable[..., _Result], *args: object, **kwargs: object) -> _Result | None:
    """Call a function in the debugger, which stops at its first line.

    Args:
        function: a script function, a method or module, or what `jitlite.script` takes.

    Returns:
        What the function gives; None where the user leaves the debugger.

    Raises:
        CompileError: the function is not TorchScript.
        Exception: what the function raises, after its user has looked at it.
    """
    return _debug(Debugger(), function, args, kwargs)


def debug_with(
    commands: Iterable[str], function: Callable[..., _Result], *args: object, **kwargs: object
) -> _Result | None:
    """The same with commands that are given instead of typed, for tests and documents; `quit` follows the last."""
    return _debug(Debugger(_typed(commands), sys.stdout), function, args, kwargs)


def debug_from(
    first: Sequence[str], function: Callable[..., _Result], args: Sequence[object], kwargs: dict[str, object]
) -> tuple[bool, _Result | None]:
    """The same with commands that are done before others are asked for.

    Returns:
        Was the call finished, and what the function gives; it is not where the user leaves the debugger.
    """
    debugger = Debugger()
    debugger.prompt.cmdqueue.extend(first)
    try:
        return True, _run(debugger, function, args, kwargs)
    except DebuggerQuit:
        return False, None


def _debug(
    debugger: Debugger, function: Callable[..., _Result], args: Sequence[object], kwargs: dict[str, object]
) -> _Result | None:
    try:
        return _run(debugger, function, args, kwargs)
    except DebuggerQuit:
        return None


def _run(
    debugger: Debugger, function: Callable[..., _Result], args: Sequence[object], kwargs: dict[str, object]
) -> _Result:
    is_compiled = isinstance(function, ScriptFunction | RecursiveScriptModule)
    compiled: Callable[..., _Result] = function if is_compiled else script(function)
    before = _copied(args, kwargs)
    debugger.control.can_restart = True
    while True:
        try:
            with options.override(executor="debug"), watched_by(debugger), _stopping_at_interrupts(debugger):
                return compiled(*args, **kwargs)
        except DebuggerRestart:
            debugger.begin_again()
            args, kwargs = _copied(*before)


@contextmanager
def _stopping_at_interrupts(debugger: Debugger) -> Iterator[None]:
    """Within the `with`, Ctrl-C stops the program, where this is the main thread and nobody else wants to know."""
    known = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or known is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: debugger.interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, known)


def _copied(args: Sequence[object], kwargs: dict[str, object]) -> tuple[Sequence[object], dict[str, object]]:
    """Arguments that the call may write."""

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    found: list[Any] = pytree.tree_map_only(torch.Tensor, copied, [list(args), kwargs])
    return found[0], found[1]


@checks_keywords
def post_mortem(error: BaseException | None = None, commands: Iterable[str] | None = None) -> None:
    """Look at the calls that an exception has come through.

    Args:
        error: the exception; the last one that Python has shown, if not given.
        commands: what to do, instead of asking.

    Raises:
        Error: there is no exception, or no script function in its traceback.
    """
    found = sys.exc_info()[1] or getattr(sys, "last_value", None) if error is None else error
    if found is None:
        raise Error("there is no exception to look at: give one, jitlite.post_mortem(error)")
    control = Control()
    control.scopes = scopes_in(found.__traceback__)
    if not control.scopes:
        raise Error(f"no script function is in the traceback of this {type(found).__name__}")
    control.selected = len(control.scopes) - 1
    control.can_go_on = False
    prompt = Prompt(control) if commands is None else Prompt(control, _typed(commands), sys.stdout)
    with suppress(DebuggerQuit):
        prompt.interact([f"{type(found).__name__}: {found}"])


def _typed(commands: Iterable[str]) -> io.StringIO:
    """Commands as if somebody typed them."""
    return io.StringIO("".join(f"{command}\n" for command in commands))
