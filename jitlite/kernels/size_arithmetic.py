"""Arithmetic on sizes, positions and conditions as LLVM."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Operand, Scalar, SizeArithmetic
from jitlite.native.layout import stored

_INSTRUCTIONS = {"add": "add", "sub": "sub", "mul": "mul", "floordiv": "udiv", "and": "and", "or": "or"}
_COMPARED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle"}


def emit_size_arithmetic(kc: KernelCode, statement: SizeArithmetic) -> str:
    """Write the operation; gives the register of its result."""
    code, op = kc.code, statement.op
    operands = [kc.operand(o) for o in statement.operands]
    if op == "select":
        kind = stored(statement.result.type)
        return code.value(f"select i1 {operands[0]}, {kind} {operands[1]}, {kind} {operands[2]}")
    if op == "not":
        return code.value(f"xor i1 {operands[0]}, true")
    a, b = operands
    if op in ("min", "max"):
        return code.intrinsic(f"i64 @llvm.s{op}.i64(i64, i64)", a, b)
    if op in _COMPARED:
        kind = "i1" if _is_bool(statement.operands[0]) else "i64"
        return code.value(f"icmp {_COMPARED[op]} {kind} {a}, {b}")
    kind = "i1" if op in ("and", "or") else "i64"
    return code.value(f"{_INSTRUCTIONS[op]} {kind} {a}, {b}")


def _is_bool(operand: Operand) -> bool:
    return operand.type is T.BOOL if isinstance(operand, Scalar) else isinstance(operand, bool)
