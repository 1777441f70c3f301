"""Recurrent layers in a trace on fake tensors: as the operators that they are made of.

In C++ such a layer asks for sizes as numbers, which makes those that vary constants of the trace, and on a CPU an LSTM
may become one operator of mkldnn. torch has the same layers in Python, which do neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch.overrides import TorchFunctionMode

from jitlite.base import torch_internals
from jitlite.base.without_mkldnn import without_mkldnn

_LAYERS = frozenset(["lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"])
"""The names of torch's functions."""


class RecurrentLayersInParts(TorchFunctionMode):
    """Runs recurrent layers as torch has them in Python."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if getattr(func, "__name__", None) not in _LAYERS:
            return func(*args, **(kwargs or {}))
        with without_mkldnn(), torch_internals.python_dispatcher():
            return func(*args, **(kwargs or {}))
