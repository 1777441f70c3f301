"""Are two results the same, to the last detail that a program can see?

What `jitlite run --check`, the demo, the self-check and the tests compare with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from jitlite.base.layouts import dense_parts

_RELATIVE, _ABSOLUTE = 1e-5, 1e-7
"""How far tensors may be apart: eager and jitlite call the same kernels, but may batch them differently."""


_K = TypeVar("_K")


def difference(expected: object, got: object, path: str = "result") -> str | None:
    """None where the two are equal, else a sentence that says where they differ.

    Types count (`1`, `1.0` and `True` differ), NaN equals NaN, the order of a dict's keys counts, exceptions are equal
    when type and message are, tensors when dtype, shape, device, requires_grad and values are, modules of one class
    when their states are.
    """
    if isinstance(expected, BaseException) or isinstance(got, BaseException):
        return _exceptions(expected, got, path)
    if isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor):
        return _tensors(expected, got, path)
    if isinstance(expected, tuple) and isinstance(got, tuple) and not hasattr(expected, "_fields"):
        return _sequences(expected, got, path)
    if type(expected) is not type(got):
        return f"{path}: {type(got).__name__} {got!r}, expected {type(expected).__name__} {expected!r}"
    return _of_one_type(expected, got, path)


def _of_one_type(expected: Any, got: Any, path: str) -> str | None:
    if isinstance(expected, list | tuple):
        return _sequences(expected, got, path)
    if isinstance(expected, dict):
        return _dicts(expected, got, path)
    if isinstance(expected, torch.nn.Module):
        return _modules(expected, got, path)
    is_same = _same_number(expected, got) if isinstance(expected, float | complex) else expected == got
    return None if is_same else f"{path}: {got!r}, expected {expected!r}"


def _modules(expected: torch.nn.Module, got: torch.nn.Module, path: str) -> str | None:
    """Where the parameters and buffers of two modules of one class differ."""
    return _dicts(expected.state_dict(keep_vars=True), got.state_dict(keep_vars=True), path)


def _first(found: Any) -> str | None:
    return next((sentence for sentence in found if sentence), None)


def _dicts(expected: Mapping[_K, object], got: Mapping[_K, object], path: str) -> str | None:
    if list(expected) != list(got):
        return f"{path}: keys {list(got)}, expected {list(expected)}"
    return _first(difference(v, got[k], f"{path}[{k!r}]") for k, v in expected.items())


def _sequences(expected: Any, got: Any, path: str) -> str | None:
    if len(expected) != len(got):
        return f"{path}: {len(got)} elements, expected {len(expected)}"
    return _first(difference(e, g, f"{path}[{i}]") for i, (e, g) in enumerate(zip(expected, got, strict=True)))


def _same_number(expected: float | complex, got: float | complex) -> bool:
    if isinstance(expected, complex) and isinstance(got, complex):
        return _same_number(expected.real, got.real) and _same_number(expected.imag, got.imag)
    if isinstance(expected, float) and isinstance(got, float):
        if math.isnan(expected) or math.isnan(got):
            return math.isnan(expected) and math.isnan(got)
        return expected == got and math.copysign(1, expected) == math.copysign(1, got)
    return False


def _tensors(expected: torch.Tensor, got: torch.Tensor, path: str) -> str | None:
    for what in ("dtype", "device", "layout", "requires_grad"):
        e, g = getattr(expected, what), getattr(got, what)
        if e != g:
            return f"{path}: {what} {g}, expected {e}"
    parts, got_parts = dense_parts(expected.detach()), dense_parts(got.detach())
    shapes, got_shapes = [p.shape for p in parts], [p.shape for p in got_parts]
    if shapes != got_shapes:
        return f"{path}: shape {_one(got_shapes)}, expected {_one(shapes)}"
    return _first(_elements(e, g, path) for e, g in zip(parts, got_parts, strict=True))


def _one(shapes: list[torch.Size]) -> object:
    return shapes[0] if len(shapes) == 1 else shapes


def _elements(e: torch.Tensor, g: torch.Tensor, path: str) -> str | None:
    if e.is_meta:
        return None
    if e.is_floating_point() or e.is_complex():
        same = torch.allclose(g, e, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True)
    else:
        same = torch.equal(g, e)
    return None if same else f"{path}: values {g.flatten()[:6].tolist()}, expected {e.flatten()[:6].tolist()}"


def _exceptions(expected: object, got: object, path: str) -> str | None:
    if type(expected) is not type(got):
        return f"{path}: {_named(got)}, expected {_named(expected)}"
    if str(expected).splitlines()[:1] != str(got).splitlines()[:1]:
        return f"{path}: message {str(got)!r}, expected {str(expected)!r}"
    return None


def _named(value: object) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else f"{value!r}"
