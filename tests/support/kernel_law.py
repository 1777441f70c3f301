"""What kernels owe: results that nobody can tell from those of eager Python.

`compared` holds two runs beside each other: values, dtypes, shapes, strides, what shares memory with what, which
arguments are written, and exceptions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

EXACT = 0.0
"""Equal to the bit, NaN aside."""

WHOLE = 0.25
"""Equal, but for the sign of zero, which sums of products leave open."""

ULP = 1.0
"""One unit in the last place, for halves: both sides round what they have in f32."""

FEW = 8.0
"""A few units in the last place, for functions."""

SUMS = 2000.0
"""Another order of sums: so many units of what is largest."""


@dataclass
class Outcome:
    """What a call gave, or the exception, and what it left of its arguments."""

    result: Any
    arguments: list[Any]


def outcome(fn: Callable[..., Any], arguments: Sequence[Any]) -> Outcome:
    """Call with a copy of the arguments, which share memory as the arguments do."""
    given = copy.deepcopy(list(arguments))
    torch.default_generator.manual_seed(1)
    try:
        result = fn(*given)
    except Exception as error:
        result = error
    return Outcome(result, given)


def compared(expected: Outcome, got: Outcome, units: float = EXACT) -> str | None:
    """None where nobody can tell them apart, else where they differ."""
    found = difference(expected.result, got.result, units)
    if found is None:
        found = difference(expected.arguments, got.arguments, units, "arguments")
    if found is None:
        found = _sharing(expected, got)
    return found


def difference(expected: Any, got: Any, units: float = EXACT, path: str = "result") -> str | None:
    """None where two values are equal, strides included."""
    if isinstance(expected, BaseException) and isinstance(got, BaseException):
        same = type(expected) is type(got) and _message(expected) == _message(got)
        return None if same else f"{path}: raised {got!r}, expected {expected!r}"
    if isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor):
        return _tensors(expected, got, units, path)
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        if len(expected) != len(got):
            return f"{path}: {len(got)} elements, expected {len(expected)}"
        found = (difference(e, g, units, f"{path}[{i}]") for i, (e, g) in enumerate(zip(expected, got, strict=True)))
        return next((sentence for sentence in found if sentence), None)
    if type(expected) is float and type(got) is float:
        return _tensors(torch.tensor(expected, dtype=torch.double), torch.tensor(got, dtype=torch.double), units, path)
    if type(expected) is not type(got) or expected != got:
        return f"{path}: {got!r}, expected {expected!r}"
    return None


def _message(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _tensors(expected: torch.Tensor, got: torch.Tensor, units: float, path: str) -> str | None:
    for what in ("dtype", "shape", "device", "layout", "requires_grad"):
        e, g = getattr(expected, what), getattr(got, what)
        if e != g:
            return f"{path}: {what} {g}, expected {e}"
    if _strides(expected) != _strides(got):
        return f"{path}: strides {got.stride()}, expected {expected.stride()} of {tuple(got.shape)}"
    e, g = expected.detach(), got.detach()
    wrong = _wrong(e, g, units)
    if not bool(wrong.any()):
        return None
    at = int(wrong.flatten().int().argmax())
    return f"{path}: {g.flatten()[at].item()!r}, expected {e.flatten()[at].item()!r}, at {at} of {tuple(g.shape)}"


def _strides(t: torch.Tensor) -> list[int]:
    """The strides that say where elements are: those of dimensions of size 1 may be any."""
    return [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size != 1]


def _wrong(e: torch.Tensor, g: torch.Tensor, units: float) -> torch.Tensor:
    """Which elements differ?"""
    if not e.is_floating_point():
        return e != g
    same = (e == g) & (torch.signbit(e) == torch.signbit(g)) | (e.isnan() & g.isnan())
    if units == EXACT:
        return ~same
    finite = e[e.isfinite()].abs()
    scale = float(finite.max()) if units >= SUMS and finite.numel() else 0.0
    info = torch.finfo(e.dtype)
    room = units * info.eps * torch.maximum(e.abs(), torch.tensor(scale, dtype=e.dtype)) + units * info.smallest_normal
    return ~(same | ((e - g).abs() <= room) & e.isfinite())


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_of(part)


def _sharing(expected: Outcome, got: Outcome) -> str | None:
    """Which results are one object, share memory, and where in it they are."""
    found = [_graph_of([*tensors_of([o.arguments, o.result])]) for o in (expected, got)]
    return None if found[0] == found[1] else f"memory is shared in another way: {found[1]}, expected {found[0]}"


def _graph_of(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int, int]]:
    """For each tensor: the first one that is the same object, the first one in the same memory, where in it it is."""
    objects: dict[int, int] = {}
    memories: dict[int, int] = {}
    found = []
    for i, t in enumerate(tensors):
        storage = t.untyped_storage()
        first = memories.setdefault(storage.data_ptr() or -1 - i, i)
        offset = t.storage_offset() if first != i or t.numel() else 0
        found.append((objects.setdefault(id(t), i), first, offset if first != i else 0))
    return found


# -- arguments in other layouts


def turned(t: torch.Tensor) -> torch.Tensor:
    """The same elements, with the dimensions in memory in the opposite order."""
    dims = list(range(t.dim()))[::-1]
    return t.permute(dims).contiguous().permute(dims)


def stepped(t: torch.Tensor) -> torch.Tensor:
    """The same elements as every second one of larger memory, from an offset on."""
    if t.dim() == 0:
        return torch.stack([t, t])[1]
    made = t.new_zeros([*t.shape[:-1], 2 * t.shape[-1] + 1])
    made[..., 1::2] = t
    return made[..., 1::2]


def rows(t: torch.Tensor) -> torch.Tensor:
    """The same elements with gaps between rows."""
    if t.dim() == 0:
        return t.clone()
    made = t.new_zeros([*t.shape[:-1], t.shape[-1] + 3])
    made[..., 2:-1] = t
    return made[..., 2:-1]


def spread(t: torch.Tensor) -> torch.Tensor:
    """As many elements, all of them the same memory along the first dimension."""
    return t if t.dim() == 0 or t.shape[0] == 0 else t[:1].clone().expand(t.shape)


def extreme(t: torch.Tensor) -> torch.Tensor:
    """Numbers at which implementations differ."""
    if t.is_floating_point():
        info = torch.finfo(t.dtype)
        tiny = info.smallest_normal
        known = [math.nan, math.inf, -math.inf, 0.0, -0.0, tiny / 4, -tiny / 8, info.max, info.min, tiny, 0.5, -0.5]
        known += [1.5, 2.5, -2.5, 1.0, -1.0, 88.0, -104.0, 1e-5, 3.0]
    elif t.dtype is torch.bool:
        return t
    else:
        info = torch.iinfo(t.dtype)
        known = [0, 1, -1, info.max, info.min, info.max - 1, 7, -7, 2, -2, 3, -3]
    values = torch.tensor(known, dtype=t.dtype)
    count = max(t.numel(), 1)
    return values.repeat(-(-count // len(known)))[:count].view(t.shape) if t.numel() else t


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it is": lambda t: t,
    "turned": turned,
    "stepped": stepped,
    "rows": rows,
    "spread": spread,
}
