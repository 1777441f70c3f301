"""Indexing of tensors while a trace is going on.

torch drops a slice that takes all there is, such as `x[:5]` of five rows, before the dispatcher hears of it, and asks
for the number where an index is a number that the trace follows. So the basic parts of an index are applied here, each
as an operator; what is left to torch are indices that are tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jitlite.frontend.emit.plain_members import PLAIN
from jitlite.frontend.tracing.traced_numbers import node_of

_aten = torch.ops.aten
_Base: Any = PLAIN


def get_item(tensor: torch.Tensor, index: object) -> object:
    """`tensor[index]`."""
    applied = _apply_basic(tensor, index)
    if applied is None:
        return _Base.__getitem__(tensor, index)
    view, rest = applied
    if rest:
        return _Base.__getitem__(view, tuple(rest))
    return _aten.alias.default(view) if view is tensor else view


def set_item(tensor: torch.Tensor, index: object, value: object) -> None:
    """`tensor[index] = value`."""
    applied = _apply_basic(tensor, index)
    if applied is None:
        _Base.__setitem__(tensor, index, value)
    else:
        view, rest = applied
        _Base.__setitem__(view, tuple(rest) if rest else Ellipsis, value)


def _are_known(parts: Sequence[object]) -> bool:
    return all(map(_is_known, parts)) and sum(p is Ellipsis for p in parts) <= 1


def _apply_basic(tensor: torch.Tensor, index: object) -> tuple[torch.Tensor, list[Any]] | None:
    """The view that the numbers and slices of an index select, and the index of it by what is left.

    None where the index is best left to torch: of another kind, or wrong.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    consumed = sum(_dimensions(p) for p in parts)
    dim_count = _Base.dim(tensor)
    if consumed > dim_count or not _are_known(parts):
        return None
    rest: list[Any] = []
    view, dim = tensor, 0
    for part in parts:
        if part is Ellipsis:
            skipped = dim_count - consumed
            rest += [slice(None)] * skipped
            dim += skipped
        elif part is None or isinstance(part, slice):
            view = _aten.unsqueeze.default(view, dim) if part is None else _sliced(view, dim, part)
            rest.append(slice(None))
            dim += 1
        elif isinstance(part, torch.Tensor):
            rest.append(part)
            dim += _dimensions(part)
        else:
            view = _aten.select.int(view, dim, part)
    return view, rest if any(isinstance(r, torch.Tensor) for r in rest) else []


def _is_known(part: object) -> bool:
    if isinstance(part, slice):
        is_step = part.step is None or (type(part.step) is int and part.step > 0)
        return is_step and _is_bound(part.start) and _is_bound(part.stop)
    is_index = isinstance(part, torch.Tensor) and _Base.dim(part) > 0
    return part is None or part is Ellipsis or _is_number(part) or is_index


def _is_number(part: object) -> bool:
    return type(part) is int or node_of(part) is not None


def _is_bound(bound: object) -> bool:
    return bound is None or _is_number(bound) or isinstance(bound, torch.Tensor)


def _dimensions(part: object) -> int:
    """How many dimensions of the tensor the part of an index stands for."""
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8):
        return int(_Base.dim(part))
    return 1


def _sliced(view: torch.Tensor, dim: int, part: slice) -> torch.Tensor:
    if part == slice(None):
        return view
    start, stop, step = part.start, part.stop, 1 if part.step is None else part.step
    result: torch.Tensor = _aten.slice.Tensor(view, dim, _bound(start), _bound(stop), step)
    return result


def _bound(bound: Any) -> object:
    return bound if bound is None or _is_number(bound) else bound.__index__()
