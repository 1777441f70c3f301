"""Functions that the written source takes along where Python has no short spelling.

Their text is copied into the source, so each may use torch, Python's library and other functions of this file only.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import torch

_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32"
    " bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz"
    " float8_e4m3fnuz uint16 uint32 uint64"
)


def as_dtype(value: object) -> Any:
    """The dtype of a number of TorchScript; what is no number stays what it is."""
    if type(value) is int:
        return getattr(torch, _DTYPES.split()[value])
    return value


_LAYOUTS = "strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc jagged"


def as_layout(value: object) -> Any:
    """The layout of a number of TorchScript; what is no number stays what it is."""
    if type(value) is int:
        return getattr(torch, _LAYOUTS.split()[value])
    return value


_FORMATS = "contiguous_format preserve_format channels_last channels_last_3d"


def as_memory_format(value: object) -> Any:
    """The memory format of a number of TorchScript; what is no number stays what it is."""
    if type(value) is int:
        return getattr(torch, _FORMATS.split()[value])
    return value


def search_end(end: int) -> int | None:
    """The end of a search in a text: -1 is the end of the text."""
    return None if end == -1 else end


def stripped_characters(chars: str) -> str | None:
    """The characters that `strip` takes away: TorchScript's default is Python's, all white space."""
    return None if chars == " \n\t\f\v" else chars


def of_number(name: str, *operands: object) -> Any:
    """A function of `math`, or of `cmath` where a number is complex."""
    module = cmath if any(isinstance(operand, complex) for operand in operands) else math
    return getattr(module, name)(*operands)


def tolist(tensor: torch.Tensor, dim: int, kind: str) -> Any:
    """`tensor.tolist()`, for a tensor of just this rank and kind of element: int, float, bool or complex."""
    dtype = tensor.dtype
    kinds = [("bool", dtype is torch.bool), ("float", dtype.is_floating_point), ("complex", dtype.is_complex)]
    found = next((name for name, is_it in kinds if is_it), "int")
    if found != kind or tensor.dim() != dim:
        raise RuntimeError(f"expected a tensor of {dim} dimensions of {kind}, got {tensor.dim()} of {dtype}")
    return tensor.tolist()


def exception_of(message: str, otherwise: Any) -> Any:
    """The exception of a message that begins with the name of its class, if it is that of an assertion."""
    kind, separator, text = message.partition(": ")
    if separator and kind == "AssertionError":
        return AssertionError(text) if text else AssertionError()
    return otherwise(message)


def new_object(cls: Any, **attributes: object) -> Any:
    """An object with these attributes, made without calling its class."""
    made = cls.__new__(cls)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made


def fork(function: Callable[..., Any], *arguments: object) -> Any:
    """A call whose result is waited for later; it is done at once."""
    future: Any = torch.futures.Future()
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future


def statement(*values: object) -> None:
    """Do nothing with values that were computed for what computing them does."""
