"""Python functions that FX graphs call on numbers, sizes of tensors above all, and the operators that they are."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import torch

_SYMBOLIC = {
    "sym_float": "aten::Float", "sym_not": "aten::__not__", "sym_max": "prim::max", "sym_min": "prim::min",
}  # fmt: skip
_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv", "mod": "remainder",
    "neg": "neg", "not_": "__not__", "and_": "__and__", "or_": "__or__", "xor": "__xor__", "lshift": "__lshift__",
    "rshift": "__rshift__", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip
_MATH = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
"""Functions of `math` that torch has versions of for symbolic numbers."""
_OF_TENSORS = {
    "sym_size": "size", "sym_stride": "stride", "sym_numel": "numel", "sym_storage_offset": "storage_offset",
}  # fmt: skip

NUMBERS: dict[Callable[..., object], str] = {
    **{getattr(operator, python): f"aten::{ours}" for python, ours in _OPERATORS.items()},
    **{getattr(torch, python): ours for python, ours in _SYMBOLIC.items()},
    math.ceil: "aten::ceil",
    math.floor: "aten::floor",
    math.sqrt: "aten::sqrt",
    **{getattr(torch, f"_sym_{name}"): f"aten::{name}" for name in _MATH if hasattr(torch, f"_sym_{name}")},
}
"""The operator that a function of Python is, where all its arguments are numbers. It has to give what the function
gives, for ints, floats and bools alike."""


def without_symbols(name: str) -> str:
    """`aten::size` of `aten::sym_size`: in graphs that run, sizes are ints."""
    return f"aten::{_OF_TENSORS.get(name.removeprefix('aten::'), '')}" if name.startswith("aten::sym_") else name
