"""What elementwise operators and reductions of loop IR mean, said with operators of torch on whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from jitlite.kernels.loop_ir import Fill, LaneOperator, Reduce


class GivesUp(Exception):
    """The kernel gives up."""


def apply(lane: LaneOperator, operands: Sequence[Tensor]) -> Tensor:
    """An elementwise operator on the values of its operands.

    Raises:
        Exception: what torch raises; a kernel gives up there.
    """
    if lane.op in _WHOLE_DIVISIONS and not lane.dtype.is_float:
        _look_for_overflow(*operands)
    found = _with_numbers(lane, operands)
    if found is None:
        found = _MEANINGS.get(lane.op, getattr(torch, lane.op, None))(*operands)  # type: ignore[misc]
    assert found.dtype is lane.dtype.torch, f"{lane.op} gives {found.dtype}, not {lane.dtype}"
    return found


def _look_for_overflow(a: Tensor, b: Tensor) -> None:
    """Some processors end the process where the lowest number is divided by -1."""
    if bool(((a == torch.iinfo(a.dtype).min) & (b == -1)).any()):
        raise GivesUp


def _with_numbers(lane: LaneOperator, operands: Sequence[Tensor]) -> Tensor | None:
    """The operators that torch rounds in another way where their last operand is a number."""
    last = lane.operands[-1]
    if not isinstance(last, Fill) or lane.op not in _WITH_NUMBER or not operands[-1].numel():
        return None
    return _WITH_NUMBER[lane.op](*operands[:-1], operands[-1].flatten()[0].item())


_WHOLE_DIVISIONS = frozenset({"fmod", "remainder", "div_floor", "div_trunc"})

_WITH_NUMBER: dict[str, Callable[..., Tensor]] = {
    "add_scaled": lambda a, b, factor: torch.add(a, b, alpha=factor),
    "pow": torch.pow,
    "lerp": torch.lerp,
}

_MEANINGS: dict[str, Callable[..., Tensor]] = {
    "add_scaled": lambda a, b, factor: a + b * factor,
    "leaky_relu": lambda a, slope: torch.where(a > 0, a, a * slope),
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"),
}
"""By the name of the operator; others have the names that they have in torch."""


def order_key(a: Tensor) -> Tensor:
    """Numbers that are in the order of elements: zeros are alike, and NaN comes last."""
    if not a.is_floating_point():
        return a.long()
    whole = torch.int32 if a.dtype is torch.float32 else torch.int64
    bits, largest = (a + 0.0).view(whole), torch.iinfo(whole).max
    return torch.where(a.isnan(), largest, torch.where(bits < 0, bits ^ largest, bits)).long()


_MEANINGS["order_key"] = order_key


def sorted_positions(op: str, keys: Tensor, count: int) -> Tensor:
    """Where the lowest numbers of rows are (`loop_ir.Sort`)."""
    if op == "stable":
        return keys.sort(dim=-1, stable=True).indices
    return keys.topk(count, -1, largest=False, sorted=op == "topk").indices


# -- reductions


def reduced(reduce: Reduce, value: Tensor) -> Tensor:
    """A value, reduced; the dimensions that are reduced have size 1.

    Raises:
        Exception: what torch raises; a kernel gives up there.
    """
    dims = tuple(sorted(reduce.dims))
    if reduce.op in ("argmax", "argmin"):
        return index_of(reduce.op, value, dims)
    if not dims:
        return value
    if reduce.op == "sum":
        return value.sum(dims, keepdim=True, dtype=reduce.place.dtype.torch)
    if reduce.op == "prod":
        for dim in dims:
            value = value.prod(dim, keepdim=True, dtype=reduce.place.dtype.torch)
        return value
    return _REDUCTIONS[reduce.op](value, dims, keepdim=True)


_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "amax": torch.amax,
    "amin": torch.amin,
    "any": torch.any,
    "all": torch.all,
}


def index_of(op: str, value: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Where the first one of the largest or smallest elements is, counted over all reduced dimensions."""
    kept = [d for d in range(value.dim()) if d not in dims]
    lines = value.permute(*kept, *dims).reshape(*[value.shape[d] for d in kept], -1)
    found = (torch.argmax if op in ("argmax", "amax") else torch.argmin)(lines, -1)
    return found.reshape([1 if d in dims else n for d, n in enumerate(value.shape)])
