"""Operators on numbers that are known while a kernel is written, or say how sizes relate.

Others are left as they are to machine code of numbers, which checks what has to be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.ir.ops import Effect
from jitlite.ir.traits import Trait
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import Operand, Scalar

_LIMIT = 1 << 63

CLASSES: dict[T.Type, type] = {T.INT: int, T.FLOAT: float, T.BOOL: bool}
"""What numbers of a type are in Python."""


def known_result(builder: KernelBuilder, node: Node, operands: Sequence[Operand]) -> Operand | None:
    """The result of an operator on numbers as arithmetic on sizes, or as a number; None where it is neither."""
    if len(node.outputs) != 1:
        return None
    if not any(isinstance(o, Scalar) for o in operands):
        return _computed(node, operands)
    write = _CONDITIONS.get(node.kind)
    wanted = T.INT if len(operands) > 1 else T.BOOL
    return write(builder, *operands) if write is not None and all(v.type is wanted for v in node.inputs) else None


def _computed(node: Node, operands: Sequence[Operand]) -> Operand | None:
    op = node.op
    if op is None or op.fn is None or op.effect is not Effect.PURE or node.has(Trait.GROWING) or op.attributes:
        return None
    try:
        found = op.fn(*operands)
    except Exception:  # Python raises it, where the operator runs
        return None
    if not isinstance(found, bool | int | float) or type(found) is not CLASSES.get(node.output.type):
        return None
    return None if isinstance(found, int) and not -_LIMIT <= found < _LIMIT else found


def _unequal(builder: KernelBuilder, a: Operand, b: Operand) -> Operand:
    return builder.index("not", builder.index("eq", a, b))


_CONDITIONS: dict[str, Callable[..., Operand]] = {
    "aten::eq": lambda builder, a, b: builder.index("eq", a, b),
    "aten::ne": _unequal,
    "aten::lt": lambda builder, a, b: builder.index("lt", a, b),
    "aten::le": lambda builder, a, b: builder.index("le", a, b),
    "aten::gt": lambda builder, a, b: builder.index("lt", b, a),
    "aten::ge": lambda builder, a, b: builder.index("le", b, a),
    "aten::__not__": lambda builder, a: builder.index("not", a),
}
"""Comparisons of ints, and the opposite of a bool, which cannot fail."""


def compared_sizes(builder: KernelBuilder, a: Sequence[Operand], b: Sequence[Operand]) -> Operand:
    """Are two lists of sizes equal?"""
    if len(a) != len(b):
        return False
    found: Operand = True
    for x, y in zip(a, b, strict=True):
        found = builder.index("and", found, builder.index("eq", x, y))
    return found
