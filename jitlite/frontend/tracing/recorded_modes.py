"""What is around the operators of a trace: grad mode and autocast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from jitlite.base.source import Source, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import ContextClass
from jitlite.frontend.emit.denotations import CONTEXT_ARGUMENTS
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue

_NOWHERE = SourceRange(Source(""), 0, 0)
_AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu")


class ContextRecorder:
    """Records `with` blocks: where context managers are entered and left."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._entered: list[Value] = []

    def enter(self, cls: type, arguments: list[Any]) -> None:
        """Record `with cls(*arguments):`."""
        b = self._builder
        place = b.graph.current_range or _NOWHERE
        given = [NamedValue(None, b.graph.insert_constant(a)) for a in arguments]
        entered = ContextClass(cls, CONTEXT_ARGUMENTS.get(cls, [])).call(b, place, given, []).as_value(b, place)
        b.node("prim::Enter", [entered], [T.NONE])
        self._entered.append(entered)

    def leave(self) -> None:
        """Record the end of all that has been entered."""
        while self._entered:
            self._builder.node("prim::Exit", [self._entered.pop()], [T.NONE])


class _Mode(NamedTuple):
    """What a `with` can switch.

    `autocast` has the devices for which it is on, with the dtype, and whether it keeps what it has cast.
    """

    grad: bool
    autocast: tuple[tuple[str, torch.dtype, bool], ...]

    @staticmethod
    def now() -> _Mode:
        if not torch._C._is_any_autocast_enabled():
            return _Mode(torch.is_grad_enabled(), ())
        keeps = torch.is_autocast_cache_enabled()
        devices = [d for d in _AUTOCAST_DEVICES if torch.is_autocast_enabled(d)]
        return _Mode(torch.is_grad_enabled(), tuple((d, torch.get_autocast_dtype(d), keeps) for d in devices))


class ModeRecorder:
    """Records where a function switches gradients or autocast, by what the mode is at each operator.

    Args:
        is_outermost: it is the start of a trace. Calls may be made under another autocast than the trace was, so
            autocast that was on then is written down. Whether there are gradients is the caller's choice.
    """

    def __init__(self, builder: Builder, *, is_outermost: bool = False) -> None:
        self._contexts = ContextRecorder(builder)
        self._outside = _Mode.now()
        self._certain = () if is_outermost else self._outside.autocast
        self._now = self._at_start = self._outside if self._certain == self._outside.autocast else None

    def follow(self) -> None:
        """Called before each operator."""
        wanted = _Mode.now()
        if wanted == self._now:
            return
        self.leave()
        for cls, arguments in self._between(wanted):
            self._contexts.enter(cls, arguments)
        self._now = wanted

    def _between(self, wanted: _Mode) -> Iterator[tuple[type, list[Any]]]:
        """The context managers that lead from the mode outside to the one that is wanted."""
        if wanted.grad != self._outside.grad:
            yield torch.enable_grad if wanted.grad else torch.no_grad, []
        for device, dtype, keeps in wanted.autocast:
            if (device, dtype, keeps) not in self._certain:
                yield torch.autocast, [device, dtype, True, keeps]
        kept = {device for device, _, _ in wanted.autocast}
        for device, dtype, keeps in self._outside.autocast:
            if device not in kept:
                yield torch.autocast, [device, dtype, False, keeps]

    def leave(self) -> None:
        """Called at the end, too."""
        self._contexts.leave()
        self._now = self._at_start
