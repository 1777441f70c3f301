"""Where tensors are in memory: what tells a tracer that two objects of Python's are one tensor."""

from __future__ import annotations

from typing import Any

import torch

from jitlite.base import torch_internals
from jitlite.frontend.emit.plain_members import PLAIN

_Base: Any = PLAIN

Place = tuple[Any, ...]


def storage_of(tensor: torch.Tensor) -> int | None:
    """The identity of a tensor's memory; None for tensors that have none of their own."""
    if tensor.layout is not torch.strided or tensor.is_nested or torch_internals.is_functorch_tensor(tensor):
        return None
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None


def place_in_memory(tensor: torch.Tensor) -> Place | None:
    """What tensor objects that are the same tensor have in common."""
    storage = storage_of(tensor)
    if storage is None or tensor.is_quantized:
        return None
    numbers = tensor.storage_offset(), *_Base.size(tensor), *tensor.stride()
    shown = [n if type(n) is int else n.node.hint for n in numbers]  # what it is in this run does not change
    return storage, _Base.dim(tensor), *shown, tensor.dtype, tensor.is_conj(), tensor.is_neg()
