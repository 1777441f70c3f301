"""What operators give on fake tensors whose sizes are symbols, where torch's own answer reads the sizes of the example.

Kernels in C++ that find the sizes of a result for tensors without contents take ints. Where torch lets them have
symbols, each becomes the int of the example, and a trace would hold for that size alone. Here the sizes of such results
are written with symbols. torch's kernel is asked too, for tensors with the sizes of the example: it says what is wrong
with them, and that the sizes are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Size = int | torch.SymInt


def result_of(func: object, args: Sequence[object]) -> torch.Tensor | None:
    """The fake result of an operator; None where torch is to say what it is.

    Raises:
        RuntimeError, ValueError: what torch's kernel raises for tensors of the example's sizes.
    """
    rule = _RULES.get(getattr(func, "_overloadpacket", None)) if isinstance(func, torch._ops.OpOverload) else None
    if rule is None or not isinstance(args[0], torch.Tensor) or not args[0].is_contiguous():
        return None
    if not any(isinstance(size, torch.SymInt) for size in args[0].shape):
        return None
    sizes = rule(args[0], *args[1:])
    example = func(*map(_of_example, args)) if callable(func) else None
    if not isinstance(example, torch.Tensor) or list(example.shape) != [_hint(size) for size in sizes]:
        return None
    return args[0].new_empty(sizes)


def _hint(size: Size) -> int:
    return size if isinstance(size, int) else int(size.node.hint)


def _of_example(arg: object) -> object:
    """An argument without symbols: a tensor on the meta device, a size as it is in the example."""
    if isinstance(arg, torch.Tensor):
        return torch.empty([_hint(size) for size in arg.shape], dtype=arg.dtype, device="meta")
    if isinstance(arg, list | tuple):
        return [_of_example(part) for part in arg]
    return _hint(arg) if isinstance(arg, torch.SymInt) else arg


def _resized(x: torch.Tensor, size: Sequence[Size], *_: object) -> list[Size]:
    return [*x.shape[:2], *size]


def _unfolded(
    x: torch.Tensor,
    kernel: Sequence[Size],
    dilation: Sequence[Size],
    padding: Sequence[Size],
    stride: Sequence[Size],
) -> list[Size]:
    *batch, channels, height, width = x.shape
    rows, columns = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip((height, width), kernel, dilation, padding, stride, strict=True)
    )
    return [*batch, channels * kernel[0] * kernel[1], rows * columns]


def _folded(x: torch.Tensor, size: Sequence[Size], kernel: Sequence[Size], *_: object) -> list[Size]:
    *batch, channels, _blocks = x.shape
    return [*batch, channels // (kernel[0] * kernel[1]), *size]


def _padded(x: torch.Tensor, padding: Sequence[int], *_: object) -> list[Size]:
    sizes: list[Size] = list(x.shape)
    for i in range(len(padding) // 2):
        sizes[-1 - i] = sizes[-1 - i] + padding[2 * i] + padding[2 * i + 1]
    return sizes


_KERNELS_1D = ("upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_linear1d")
_KERNELS_2D = ("upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d", "upsample_bicubic2d")
_KERNELS_3D = ("upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_trilinear3d")
_SMOOTH = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
_RESIZING = (*_KERNELS_1D, *_KERNELS_2D, *_KERNELS_3D, *_SMOOTH)
_RULES: dict[object, Callable[..., list[Size]]] = {
    **{getattr(torch.ops.aten, name): _resized for name in _RESIZING},
    torch.ops.aten.constant_pad_nd: _padded,
    torch.ops.aten.im2col: _unfolded,
    torch.ops.aten.col2im: _folded,
}
"""The sizes of results, by operator; of the overloads that reach the dispatcher all take the same arguments."""
