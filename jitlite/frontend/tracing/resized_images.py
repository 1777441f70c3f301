"""Resized images in a trace on fake tensors: the operator that torch's function ends in, called with symbols.

`torch.nn.functional.interpolate` goes by way of functions in C++ that read all sizes of the image as numbers, which
makes those that vary constants of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

_Size = int | torch.SymInt


class ResizedImages(TorchFunctionMode):
    """Resizes images whose sizes vary by the operator for a size that is known."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        given = kwargs or {}
        if func is F.interpolate and len(args) == 1 and isinstance(args[0], torch.Tensor):
            call = _call_of(args[0], given)
            if call is not None:
                return call()
        return func(*args, **given)


def _call_of(x: torch.Tensor, given: Mapping[str, object]) -> Callable[[], object] | None:
    """The call of an operator that resizes; None where torch is to do it, or to say what is wrong."""
    if not any(isinstance(n, torch.SymInt) for n in x.shape) or given.get("recompute_scale_factor"):
        return None
    mode, corners = given.get("mode", "nearest"), given.get("align_corners")
    name = _OPERATORS.get((f"{mode}, antialias" if given.get("antialias") else mode, x.dim()))
    wanted = _size_wanted(x.shape[2:], given.get("size"), given.get("scale_factor"))
    if name is None or wanted is None or ("nearest" in str(mode) and corners is not None):
        return None
    size, scales = wanted
    flags = [] if "nearest" in str(mode) else [bool(corners)]
    return partial(getattr(torch.ops.aten, name), x, size, *flags, *scales)


def _size_wanted(old: Sequence[_Size], size: object, scale: object) -> tuple[list[_Size], list[float | None]] | None:
    """The size of the image, and the scales; None where the size is computed in another way than by whole numbers."""
    if (size is None) == (scale is None):
        return None
    if scale is None:
        sizes: list[_Size] = list(size) if isinstance(size, list | tuple) else [size] * len(old)  # type: ignore[list-item]
        return (sizes, [None] * len(old)) if len(sizes) == len(old) else None
    scales: list[float] = [*scale] if isinstance(scale, list | tuple) else [scale] * len(old)  # type: ignore[list-item]
    if len(scales) != len(old):
        return None
    if any(isinstance(n, torch.SymInt) and int(s) != s for n, s in zip(old, scales, strict=True)):
        return None
    found = [n * int(s) if int(s) == s else int(n * s) for n, s in zip(old, scales, strict=True)]
    return found, [float(s) for s in scales]


_OPERATORS: Mapping[tuple[object, int], str] = {
    ("nearest", 3): "upsample_nearest1d",
    ("nearest", 4): "upsample_nearest2d",
    ("nearest", 5): "upsample_nearest3d",
    ("nearest-exact", 3): "_upsample_nearest_exact1d",
    ("nearest-exact", 4): "_upsample_nearest_exact2d",
    ("nearest-exact", 5): "_upsample_nearest_exact3d",
    ("linear", 3): "upsample_linear1d",
    ("bilinear", 4): "upsample_bilinear2d",
    ("trilinear", 5): "upsample_trilinear3d",
    ("bicubic", 4): "upsample_bicubic2d",
    ("bilinear, antialias", 4): "_upsample_bilinear2d_aa",
    ("bicubic, antialias", 4): "_upsample_bicubic2d_aa",
}
"""Of torch's names for modes, by how many dimensions the tensor has."""
