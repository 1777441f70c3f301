"""From tensors of one element to numbers."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import BOOL, DType, Operand, Place, Read, Scalar
from jitlite.kernels.narrow_types import Narrow
from jitlite.kernels.rules import Call, rule
from jitlite.kernels.values import TensorValue, Value, is_one
from jitlite.native.code import NotNative


def read(builder: KernelBuilder, value: TensorValue) -> Operand:
    """`value.item()`, of the type that its dtype says."""
    for size in value.sizes:
        if not is_one(size):
            builder.require_equal(size, 1, "a tensor of several elements is read as a number")
    place = builder.force(value)
    result = builder.scalar(number_type(value.dtype))
    builder.write(Read(result, Place(place.buffer, place.offset, (), ())))
    return result


def number_type(dtype: DType) -> T.Type:
    """The type of a number that an element is read as."""
    return T.BOOL if dtype is BOOL else T.FLOAT if dtype.is_float else T.INT


def converted(builder: KernelBuilder, value: Operand, wanted: T.Type) -> Operand:
    """A number as an int, a float or a bool; left to Python where Python would raise or do more."""
    have = value.type if isinstance(value, Scalar) else {bool: T.BOOL, int: T.INT, float: T.FLOAT}[type(value)]
    if have is wanted:
        return value
    if wanted is T.BOOL and isinstance(value, Scalar):
        return builder.index("ne", value, 0) if have is T.INT else builder.convert(value, wanted)
    return builder.convert(value, wanted)


CONVERSIONS = (
    "aten::item", "aten::Int", "aten::Float", "aten::Bool", "aten::IntImplicit", "aten::FloatImplicit",
    "prim::AsInt", "prim::AsIndex",
)  # fmt: skip
"""Operators whose rules take a number too, of whatever type `item` has given."""


@rule(*CONVERSIONS, narrow=Narrow.AS_THEY_ARE)
def item(call: Call) -> Value:
    found = call.at(0)
    lowering = call.lowering
    if isinstance(found, TensorValue):
        found = read(lowering, found)
    if not isinstance(found, bool | int | float | Scalar):
        raise NotNative(f"{call.node.kind} of what is no number")
    if call.name.startswith("As"):
        return _integer(call, found)
    wanted = {"Int": T.INT, "Float": T.FLOAT, "Bool": T.BOOL}.get(call.name.removesuffix("Implicit"))
    return found if wanted is None else converted(lowering, found, wanted)


def _integer(call: Call, found: Operand) -> Operand:
    """A number where an int is wanted. The type that `item` gives is known here; of any other one Python raises."""
    have = found.type if isinstance(found, Scalar) else T.INT if type(found) is int else None
    if have is T.INT:
        return found
    if have is T.BOOL and call.name == "AsInt":
        return converted(call.lowering, found, T.INT)
    raise NotNative(f"{call.node.kind} of a number that is no int")
