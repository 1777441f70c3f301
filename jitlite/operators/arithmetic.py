"""Arithmetic on numbers that are followed while Python computes: sizes in traces, in FX graphs and in decompositions.

Torch knows a computation by four names: Python's function, the method of its symbolic nodes, the class of a symbolic
expression, and the operator in graphs. Each row here has all of one computation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import NamedTuple

import torch

from jitlite.ir import types as T
from jitlite.ir.types import Type

Number = int | float | bool


class Arithmetic(NamedTuple):
    """A computation on numbers.

    Attributes:
        kind: the operator in graphs.
        compute: what gives the result now.
        functions: functions of Python that give what the operator gives, for ints, floats and bools alike.
        methods: its names in the protocol of symbolic nodes.
        expressions: the classes of its symbolic expressions, in `sympy` or torch's own; a version need not have all.
        result: the type of an expression, where that is not the type of the operands.
    """

    kind: str
    compute: Callable[..., Number]
    functions: tuple[Callable[..., object], ...]
    methods: tuple[str, ...]
    expressions: tuple[str, ...]
    result: Type | None


def _row(
    kind: str,
    compute: Callable[..., Number],
    methods: str = "",
    expressions: str = "",
    result: Type | None = None,
    functions: tuple[Callable[..., object], ...] | None = None,
) -> Arithmetic:
    found = (compute,) if functions is None else functions
    return Arithmetic(kind, compute, found, tuple(methods.split()), tuple(expressions.split()), result)


def _of_math(name: str) -> tuple[Callable[..., object], ...]:
    """torch's version for symbolic numbers of a function of `math`."""
    found = getattr(torch, f"_sym_{name}", None)
    return () if found is None else (found,)


ARITHMETIC: tuple[Arithmetic, ...] = (
    # of two numbers
    _row("aten::add", operator.add, "add", "Add"),
    _row("aten::sub", operator.sub, "sub"),
    _row("aten::mul", operator.mul, "mul", "Mul"),
    _row("aten::div", operator.truediv, "truediv int_truediv float_truediv", "IntTrueDiv FloatTrueDiv", T.FLOAT),
    _row("aten::floordiv", operator.floordiv, "floordiv int_floordiv", "FloorDiv CleanDiv"),
    _row("aten::remainder", operator.mod, "mod", "Mod PythonMod"),
    _row("aten::pow", operator.pow, "pow float_pow pow_by_natural", "PowByNatural FloatPow", functions=()),
    _row("prim::min", min, "sym_min", "Min", functions=(torch.sym_min,)),
    _row("prim::max", max, "sym_max", "Max", functions=(torch.sym_max,)),
    _row("aten::__lshift__", operator.lshift),
    _row("aten::__rshift__", operator.rshift),
    _row("aten::__xor__", operator.xor),
    # of one number
    _row("aten::neg", operator.neg, "neg"),
    _row("prim::abs", operator.abs, "abs", functions=()),
    _row("aten::ceil", math.ceil, "ceil", "CeilToInt", T.INT),
    _row("aten::floor", math.floor, "floor", "FloorToInt", T.INT),
    _row("aten::Int", math.trunc, "trunc", "TruncToInt", T.INT, functions=()),
    _row("aten::Float", float, "sym_float", "ToFloat", T.FLOAT, functions=(torch.sym_float,)),
    _row("aten::sqrt", math.sqrt, "", "OpaqueUnaryFn_sqrt", T.FLOAT, functions=(math.sqrt, *_of_math("sqrt"))),
    *(
        _row(f"aten::{name}", getattr(math, name), functions=_of_math(name), result=T.FLOAT)
        for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan")
    ),
    # tests
    _row("aten::eq", operator.eq, "eq", "Eq", T.BOOL),
    _row("aten::ne", operator.ne, "ne", "Ne", T.BOOL),
    _row("aten::lt", operator.lt, "lt", "Lt", T.BOOL),
    _row("aten::le", operator.le, "le", "Le", T.BOOL),
    _row("aten::gt", operator.gt, "gt", "Gt", T.BOOL),
    _row("aten::ge", operator.ge, "ge", "Ge", T.BOOL),
    _row("aten::__and__", operator.and_, "", "And", T.BOOL),
    _row("aten::__or__", operator.or_, "", "Or", T.BOOL),
    _row("aten::__not__", operator.not_, "sym_not", "Not", T.BOOL, functions=(operator.not_, torch.sym_not)),
)

BY_FUNCTION = {function: a.kind for a in ARITHMETIC for function in a.functions}
"""The operator that a function of Python is, where all its arguments are numbers."""

BY_METHOD = {name: a for a in ARITHMETIC for name in a.methods}
"""By the names in the protocol of symbolic nodes."""

BY_EXPRESSION = {name: a for a in ARITHMETIC for name in a.expressions}
"""By the names of the classes of symbolic expressions."""
