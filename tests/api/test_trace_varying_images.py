"""Traces at the dispatcher for varying numbers of images: resized, padded, unfolded and folded ones hold for all."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import jitlite

LINE, IMAGE, VOLUME = (2, 8), (2, 4, 6), (2, 4, 4, 4)
RESIZED = {
    **{f"nearest {len(shape)}": ("nearest", shape) for shape in (LINE, IMAGE, VOLUME)},
    **{f"nearest-exact {len(shape)}": ("nearest-exact", shape) for shape in (LINE, IMAGE, VOLUME)},
    "linear": ("linear", LINE), "bilinear": ("bilinear", IMAGE), "bicubic": ("bicubic", IMAGE),
    "trilinear": ("trilinear", VOLUME),
}  # fmt: skip


def holds_for_all(f, shape: tuple[int, ...]) -> None:
    traced = jitlite.trace(f, torch.randn(3, *shape), level="dispatcher", dynamic_shapes={"x": [0]}, check_trace=False)
    for batch in (3, 2, 5):
        x = torch.randn(batch, *shape)
        assert torch.equal(traced(x), f(x))


@pytest.mark.parametrize("name", RESIZED)
@pytest.mark.parametrize("asked", [{"scale_factor": 2}, {"scale_factor": 1.5}, {"size": 5}], ids=str)
def test_resized(name, asked):
    mode, shape = RESIZED[name]

    def resized(x: Tensor) -> Tensor:
        return F.interpolate(x, mode=mode, **asked)

    holds_for_all(resized, shape)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resized_with_other_arguments(mode):
    def resized(x: Tensor) -> Tensor:
        corners = F.interpolate(x, (5, 7), mode=mode, align_corners=True)
        return corners + F.interpolate(x, (5, 7), mode=mode, antialias=True)

    holds_for_all(resized, IMAGE)


def test_unfolded_and_folded():
    def f(x: Tensor) -> Tensor:
        return F.fold(F.unfold(x, 3, padding=1, stride=2), (4, 6), 3, padding=1, stride=2)

    holds_for_all(f, IMAGE)


@pytest.mark.parametrize("padding", [(1, 2), (1, 0, 2, 3), (-1, 1, 0, 0, 1, 1), (0, 0, 0, 0, 0, 0, 1, 0)], ids=str)
def test_padded(padding):
    def f(x: Tensor) -> Tensor:
        return F.pad(x, padding, value=2.5) * 2

    holds_for_all(f, IMAGE)


def test_sizes_of_the_image_may_vary():
    def f(x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2) + 1

    traced = jitlite.trace(
        f, torch.randn(3, 2, 4, 6), level="dispatcher", dynamic_shapes={"x": [0, 2, 3]}, check_trace=False
    )
    for shape in ((2, 2, 5, 7), (4, 2, 3, 3)):
        x = torch.randn(shape)
        assert torch.equal(traced(x), f(x))


WRONG = {
    "align_corners option": partial(F.interpolate, size=(3, 3), align_corners=True),
    "only one of size or scale_factor": partial(F.interpolate, size=(3, 3), scale_factor=2),
    "spatial": partial(F.interpolate, size=(3,)),
    "greater than 0": partial(F.interpolate, size=(0, 3)),
    "sliding blocks": partial(F.unfold, kernel_size=9),
    "negative": partial(F.pad, pad=(-9, 0)),
}


@pytest.mark.parametrize("says", WRONG)
def test_what_torch_refuses_is_refused(says):
    f = WRONG[says]
    with pytest.raises((ValueError, RuntimeError)) as expected:
        f(torch.randn(3, 2, 4, 6))
    with pytest.raises((ValueError, RuntimeError, jitlite.CompileError)) as found:
        jitlite.trace(
            lambda x: f(x), torch.randn(3, 2, 4, 6), level="dispatcher", dynamic_shapes={"x": [0]}, check_trace=False
        )
    assert says in str(expected.value) and says in str(found.value)
