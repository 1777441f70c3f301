"""Tensors of any layout."""

from __future__ import annotations

import torch


def dense_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Strided tensors with the elements: those of a nested tensor, else one."""
    if tensor.is_nested:
        return list(tensor.unbind())
    return [tensor if tensor.layout is torch.strided else tensor.to_dense()]
