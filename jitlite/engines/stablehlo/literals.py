"""Types and constants as text of MLIR."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import torch

from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.sizes import Dim

_ELEMENTS = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "ui8", torch.bool: "i1",
}  # fmt: skip
_LARGEST_LIST = 16
"""Constants of more elements are written as their bytes."""


def element_type(dtype: torch.dtype) -> str:
    """The name of a dtype.

    Raises:
        EngineRefusal: it has none.
    """
    found = _ELEMENTS.get(dtype)
    if found is None:
        raise EngineRefusal(f"StableHLO has no {dtype}")
    return found


_WITHOUT_DOUBLES = frozenset(
    {"tanh", "sine", "cosine", "tan", "chlo.asin", "chlo.acos", "chlo.atan", "remainder", "atan2"}
)
"""What IREE 3.13 calls the library of C for, where there is none."""


def check_linked(op: str, dtype: torch.dtype) -> None:
    """See that IREE can link an operation on elements of this dtype.

    Raises:
        EngineRefusal: it cannot.
    """
    if dtype is torch.float64 and op in _WITHOUT_DOUBLES:
        raise EngineRefusal(f"IREE has no {op} of float64")


def tensor_type(dtype: torch.dtype, dims: Sequence[Dim]) -> str:
    """The type of tensors of these sizes."""
    sizes = "".join(f"{dim}x" if isinstance(dim, int) else "?x" for dim in dims)
    return f"tensor<{sizes}{element_type(dtype)}>"


def number_text(value: float, dtype: torch.dtype) -> str:
    """A number as an element of this dtype."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        return str(int(value))
    if not math.isfinite(value):
        bits = torch.tensor(value, dtype=dtype).view(_BITS[dtype]).item()
        return f"0x{int(bits) % 2 ** (8 * dtype.itemsize):0{2 * dtype.itemsize}X}"
    text = f"{float(value):.{_DIGITS[dtype]}g}"
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}{e}{exponent}"


_BITS = {
    torch.float64: torch.int64, torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16,
}  # fmt: skip


_DIGITS = {torch.float64: 17, torch.float32: 9, torch.float16: 5, torch.bfloat16: 4}
"""Decimal digits that tell all numbers of a dtype apart."""


def dense(value: torch.Tensor) -> str:
    """The elements of a constant."""
    value = value.detach().cpu().resolve_neg().contiguous()
    if value.numel() == 0:
        return "dense<>"
    if value.numel() <= _LARGEST_LIST or value.dtype is torch.bool:
        return f"dense<{_listed(value.tolist(), value.dtype)}>"
    data = ctypes.string_at(value.data_ptr(), value.numel() * value.element_size())
    return f'dense<"0x{data.hex().upper()}">'


def _listed(value: object, dtype: torch.dtype) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_listed(v, dtype) for v in value)}]"
    return number_text(value if isinstance(value, bool | int | float) else 0, dtype)


def ints(values: Sequence[int]) -> str:
    """Ints in brackets."""
    return f"[{', '.join(map(str, values))}]"


def array(values: Sequence[int]) -> str:
    """Ints as an attribute."""
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"
