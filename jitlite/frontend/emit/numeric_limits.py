"""`torch.finfo` and `torch.iinfo`: limits of a dtype that is known, or of one that a tensor has when the program runs.

The limits of `x.dtype` are a chain of ifs over the dtypes there are; one that has none raises what torch raises.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.errors.names import NO_ATTRIBUTE
from jitlite.base.source import SourceRange, did_you_mean
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.values import ConstantValue, SimpleValue, SpecialForm, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import Type

Limits = torch.finfo | torch.iinfo

_FLOATS = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.float8_e4m3fn,
    torch.float8_e5m2,
)  # fmt: skip
_INTS = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8, torch.uint16, torch.uint32)
"""Without uint64, whose maximum no int of a graph that is saved can be."""
_TYPES: dict[type, Type] = {float: T.FLOAT, int: T.INT, str: T.STRING}
_MESSAGES = {
    "finfo": "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'",
    "iinfo": "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'",
}


class NumericLimits(SugaredValue):
    """The limits of a dtype: its numbers can be used, itself not.

    Args:
        function: `finfo` or `iinfo`.
        known: the limits by dtype; of the one, where the program says which.
        dtype: where it is known at run time only.
    """

    def __init__(self, function: str, known: Sequence[tuple[torch.dtype, Limits]], dtype: Value | None = None) -> None:
        self.function = function
        self.known = known
        self.dtype = dtype
        self.kind = f"{function} of {known[0][0]}" if dtype is None else f"{function} of a dtype"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        numbers = [(dtype, getattr(limits, name, None)) for dtype, limits in self.known]
        first = numbers[0][1]
        if not isinstance(first, float | int | str):
            names = [n for n in dir(self.known[0][1]) if not n.startswith("_")]
            raise NO_ATTRIBUTE(f"torch.{self.function} has no '{name}'", range, hint=did_you_mean(name, names))
        if self.dtype is None:
            return SimpleValue(b.constant(first, range))
        return SimpleValue(self._by_dtype(b, range, self.dtype, numbers, _TYPES[type(first)]))

    def _by_dtype(
        self, b: Builder, range: SourceRange, dtype: Value, numbers: Sequence[tuple[torch.dtype, object]], result: Type
    ) -> Value:
        """The number that belongs to the dtype."""
        if not numbers:
            message, cls = b.constant(_MESSAGES[self.function], range), TypeError
            name = b.constant(QualifiedClassName("builtins.TypeError", cls), range, T.STRING)
            b.node("prim::RaiseException", [message, name], [], range)
            return b.uninitialized(result)
        (candidate, number), *others = numbers
        test = b.op("aten::eq", [dtype, b.constant(candidate, range)], range=range)
        choice = b.node("prim::If", [test], [], range)
        with b.graph.inserting_at_end(block := choice.add_block()):
            block.add_output(b.constant(number, range))
        with b.graph.inserting_at_end(block := choice.add_block()):
            block.add_output(self._by_dtype(b, range, dtype, others, result))
        return choice.add_output(result)


@form("finfo", 1, 1)
def emit_finfo(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    return _limits(em, call, "finfo")


@form("iinfo", 1, 1)
def emit_iinfo(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    return _limits(em, call, "iinfo")


def _limits(em: Emitter, call: tree.Apply, function: str) -> SugaredValue:
    find = torch.finfo if function == "finfo" else torch.iinfo
    found = em.emit_sugared(call.args[0])
    constant = found.constant if isinstance(found, ConstantValue) else None
    value = None if constant is not None else found.as_value(em, call.range)
    if value is not None and is_constant(value):
        constant = constant_of(value)
    if isinstance(constant, torch.dtype):
        try:
            return NumericLimits(function, [(constant, find(constant))])
        except TypeError as error:
            raise WRONG_ARGUMENTS(str(error), call.args[0].range) from None
    if value is None or value.type is not T.INT:
        raise WRONG_ARGUMENTS(f"torch.{function} needs a dtype", call.args[0].range)
    return NumericLimits(function, [(d, find(d)) for d in (_FLOATS if function == "finfo" else _INTS)], value)
