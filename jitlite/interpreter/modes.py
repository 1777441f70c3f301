"""The modes of a thread that decide what tensor operators do: carried over to the thread that runs a forked call.

Grad mode, inference mode, autocast and the CUDA device and stream are copied. What cannot be copied is objects of the
user that watch or replace operators: `torch_function` and `torch_dispatch` modes, functorch's transforms, hooks on
saved tensors, the profiler. `is_watched` says whether there are any; then a call is better run where it stands.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from jitlite.base import torch_internals

_AUTOCAST_DEVICES = tuple(
    device
    for device in (
        "cpu",
        "cuda",
        "xpu",
        "mps",
        "hpu",
        "mtia",
        "maia",
        "xla",
        "ipu",
        torch_internals.privateuse_backend(),
    )
    if torch.amp.is_autocast_available(device)
)


_cuda: Any = torch.cuda


class ThreadModes:
    """The modes that the thread it is made in has now."""

    __slots__ = ("_autocast", "_autocast_cache", "_context", "_cuda", "_forward_grad", "_grad", "_inference")

    def __init__(self) -> None:
        self._grad = torch.is_grad_enabled()
        self._forward_grad = torch._C._is_fwd_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self._autocast = _autocast_state()
        self._autocast_cache = torch.is_autocast_cache_enabled()
        self._cuda = _cuda.current_stream() if _cuda.is_initialized() else None
        self._context = contextvars.copy_context()

    def call(self, compute: Callable[[], Any]) -> Any:
        """The result of `compute()` under these modes; those of the thread are put back, whatever happens."""
        before = ThreadModes()
        with ExitStack() as stack:
            if self._inference != before._inference:
                stack.enter_context(torch._C._InferenceMode(self._inference))
            if self._cuda is not None:
                stack.enter_context(torch.cuda.stream(self._cuda))
            try:
                self._apply()
                return self._context.run(compute)
            finally:
                before._apply()

    def _apply(self) -> None:
        torch._C._set_grad_enabled(self._grad)
        torch._C._set_fwd_grad_enabled(self._forward_grad)
        now = _autocast_state()
        for device, wanted, found in zip(_AUTOCAST_DEVICES, self._autocast, now, strict=True):
            if wanted != found:
                torch.set_autocast_enabled(device, wanted[0])
                torch.set_autocast_dtype(device, wanted[1])
        torch.set_autocast_cache_enabled(self._autocast_cache)


def _autocast_state() -> list[tuple[bool, torch.dtype]]:
    return [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _AUTOCAST_DEVICES]


def is_intercepted() -> bool:
    """Does something in this thread handle operators in another way, or see what is asked of tensors?"""
    return bool(
        torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or torch_internals.functorch_level() is not None
    )


def is_watched() -> bool:
    """Is something active in this thread that would not see, or not survive, what another thread does?"""
    return bool(
        is_intercepted() or torch_internals.saved_tensor_hooks(False) is not None or torch_internals.is_profiler_on()
    )
