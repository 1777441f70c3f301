"""Composite operators, caught before torch takes them apart.

For traces below autograd that keep some of them whole: these get a kernel for a dispatch key above all others, which
torch has for tests of its dispatcher and nobody else uses. Other operators fall through. The kernels stay registered;
they are reached only by a thread that includes the key. (A fallback for all operators, as in `trace_mode.py`, cannot be
used while a `TorchDispatchMode` is active.)
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from jitlite.base import torch_internals
from jitlite.base.locks import Lock

_KEY = "TESTING_ONLY_GenericMode"
_lock = Lock("kept_operators")
_libraries: dict[str, Any] = {}
"""torch's registrations by namespace; `_` has the fallback."""
_registered: set[str] = set()


_Library: Any = torch.library.Library  # which torch does not annotate


class _CurrentListener(threading.local):
    listener: Callable[..., object] | None = None


_current = _CurrentListener()


def composite(names: Sequence[str]) -> list[Any]:
    """The overloads of the composite operators with these names, or of all if that is one of the names.

    Raises:
        ValueError: where there is no such operator, or it is not composed of others.
    """
    if "all" in names:
        return _all_composite()
    found: list[Any] = []
    for name in names:
        chosen = _overloads(name)
        kept = [o for o in chosen if _can_be_kept(o)]
        if not kept:
            why = "there is no such operator" if not chosen else "it is not composed of others: it is always kept"
            raise ValueError(f"keep: {name}: {why}; write names such as 'aten::linear'")
        found += kept
    return found


def _all_composite() -> list[Any]:
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")}
    return [o for o in map(_overload, sorted(names)) if o is not None and _can_be_kept(o)]


def _overloads(name: str) -> list[object]:
    """The overload that a name with a point names, or all; none where there is no such operator."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None) if base else None
    if packet is None:
        return []
    return [getattr(packet, o) for o in ([overload] if overload else packet.overloads())]


def _overload(name: str) -> object:
    base, _, overload = name.partition("::")[2].partition(".")
    return getattr(getattr(torch.ops.aten, base, None), overload or "default", None)


def _can_be_kept(op: Any) -> bool:
    """Is it composed of others, gives tensors only, and writes nothing?"""
    returns = op._schema.returns
    gives_tensors = returns and all(str(r.type) in ("Tensor", "List[Tensor]") for r in returns)
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    return bool(gives_tensors and composed and not op._schema.is_mutable)


@contextmanager
def catching(ops: Sequence[object], listener: Callable[..., object]) -> Iterator[None]:
    """Within the `with`, calls of these operators by this thread go to `listener(op, args, kwargs)`."""
    _register(ops)
    before, _current.listener = _current.listener, listener
    try:
        with torch_internals.include_key(torch_internals.dispatch_key(_KEY)):
            yield
    finally:
        _current.listener = before


def _register(ops: Sequence[Any]) -> None:
    with _lock:
        if not _libraries:
            fallback = _libraries["_"] = _Library("_", "IMPL")
            fallback.fallback(torch.library.fallthrough_kernel, _KEY)
        for op in ops:
            if op.name() in _registered:
                continue
            namespace, _, name = op.name().partition("::")
            if namespace not in _libraries:
                _libraries[namespace] = _Library(namespace, "IMPL")
            _libraries[namespace].impl(name, functools.partial(_kernel, op), _KEY)
            _registered.add(op.name())


def _kernel(op: Any, *args: object, **kwargs: object) -> Any:
    key_set = torch_internals.dispatch_key_set(torch_internals.dispatch_key(_KEY))
    with torch_internals.exclude_key(key_set):
        listener = _current.listener
        return op(*args, **kwargs) if listener is None else listener(op, args, kwargs)
