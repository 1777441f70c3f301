"""Instructions on vectors: so many lanes of one type of elements."""

from __future__ import annotations

import math
import struct

import torch

from jitlite.kernels.loop_ir import BOOL, DTYPES, F16, F32, F64, DType
from jitlite.kernels.target import VectorTarget, host
from jitlite.native.code import LLVMBuilder, NotNative

_INTEGERS = {4: "i32", 8: "i64"}


class Vectors:
    """Writes instructions on vectors.

    Attributes:
        code: where they are written.
        count: lanes of each vector.
        mask: which lanes are points of the nest; None means all of them.
        target: the machine.
    """

    def __init__(self, code: LLVMBuilder, count: int, target: VectorTarget | None = None) -> None:
        self.code = code
        self.count = count
        self.mask: str | None = None
        self.target = target or host()

    # -- types and constants
    def vector(self, element: str) -> str:
        return f"<{self.count} x {element}>"

    def type(self, dtype: DType) -> str:
        return self.vector(dtype.lane)

    def constant(self, dtype: DType, number: float) -> str:
        """The number in each lane."""
        return f"splat ({dtype.lane} {number_text(dtype, number)})"

    def splat(self, element: str, scalar: str) -> str:
        """A scalar of LLVM's type in each lane."""
        whole = self.vector(element)
        first = self.code.value(f"insertelement {whole} poison, {element} {scalar}, i64 0")
        return self.code.value(f"shufflevector {whole} {first}, {whole} poison, <{self.count} x i32> zeroinitializer")

    def first(self, element: str, vector: str) -> str:
        """The scalar in the first lane."""
        return self.code.value(f"extractelement {self.vector(element)} {vector}, i64 0")

    def positions(self, element: str = "i64") -> str:
        """0, 1, 2, ..."""
        return "<" + ", ".join(f"{element} {i}" for i in range(self.count)) + ">"

    # -- operations
    def binary(self, op: str, dtype: DType, a: str, b: str) -> str:
        return self.code.value(f"{op} {self.type(dtype)} {a}, {b}")

    def negate(self, dtype: DType, a: str) -> str:
        return self.code.value(f"fneg {self.type(dtype)} {a}")

    def intrinsic(self, name: str, dtype: DType, *operands: str) -> str:
        """One of LLVM's functions whose operands and result are of one type."""
        whole = self.type(dtype)
        letter = f"v{self.count}" + (f"f{dtype.bytes * 8}" if dtype.is_float else dtype.lane)
        return self.code.intrinsic(f"{whole} @llvm.{name}.{letter}({', '.join([whole] * len(operands))})", *operands)

    def compare(self, op: str, dtype: DType, a: str, b: str) -> str:
        """LLVM's comparison (`olt` of floats, `slt` of ints), a bool in each lane."""
        return self.code.value(f"{'fcmp' if dtype.is_float else 'icmp'} {op} {self.type(dtype)} {a}, {b}")

    def select(self, dtype: DType, condition: str, a: str, b: str) -> str:
        whole = self.type(dtype)
        return self.code.value(f"select {self.vector('i1')} {condition}, {whole} {a}, {whole} {b}")

    def convert(self, op: str, source: str, a: str, target: str) -> str:
        """A conversion of LLVM (`sitofp`) between types of elements."""
        return self.code.value(f"{op} {self.vector(source)} {a} to {self.vector(target)}")

    def is_nan(self, dtype: DType, a: str) -> str:
        return self.compare("uno", dtype, a, a)

    def either(self, a: str, b: str) -> str:
        return self.binary("or", BOOL, a, b)

    def both(self, a: str, b: str) -> str:
        return self.binary("and", BOOL, a, b)

    def opposite(self, a: str) -> str:
        return self.binary("xor", BOOL, a, self.constant(BOOL, True))

    # -- bits of floats
    def bits(self, dtype: DType, a: str) -> str:
        return self.convert("bitcast", dtype.lane, a, _INTEGERS[dtype.bytes])

    def from_bits(self, dtype: DType, a: str) -> str:
        return self.convert("bitcast", _INTEGERS[dtype.bytes], a, dtype.lane)

    # -- lanes that are points
    def active(self, condition: str) -> str:
        """The condition, and false in lanes that are no points."""
        return condition if self.mask is None else self.both(self.mask, condition)

    def give_up_if_any(self, condition: str) -> None:
        whole = self.vector("i1")
        found = self.code.intrinsic(f"i1 @llvm.vector.reduce.or.v{self.count}i1({whole})", self.active(condition))
        self.code.bail_out_if(found)

    # -- functions on vectors as wide as a register
    def call_by_parts(self, address: int, count: int, dtype: DType, operands: tuple[str, ...]) -> str:
        """Call a function that takes vectors of so many lanes as often as there are lanes for it."""
        whole, part = self.type(dtype), f"<{count} x {dtype.lane}>"
        function = f"inttoptr (i64 {address} to ptr)"
        if self.count == count:
            return self.code.value(f"call {whole} {function}({', '.join(f'{whole} {o}' for o in operands)})")
        results = []
        for start in range(0, self.count, count):
            arguments = [self._part(whole, o, start, count) for o in operands]
            results.append(self.code.value(f"call {part} {function}({', '.join(f'{part} {a}' for a in arguments)})"))
        return self._joined(dtype, results, count)

    def _part(self, whole: str, vector: str, start: int, count: int) -> str:
        """So many lanes from a position on; those behind the last one hold anything."""
        lanes = ", ".join(f"i32 {i}" if i < self.count else "i32 poison" for i in range(start, start + count))
        return self.code.value(f"shufflevector {whole} {vector}, {whole} poison, <{count} x i32> <{lanes}>")

    def _joined(self, dtype: DType, parts: list[str], count: int) -> str:
        while len(parts) > 1:
            half = f"<{count} x {dtype.lane}>"
            lanes = ", ".join(f"i32 {i}" for i in range(2 * count))
            parts = [
                self.code.value(f"shufflevector {half} {a}, {half} {b}, <{2 * count} x i32> <{lanes}>")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            count *= 2
        if count > self.count:
            lanes = ", ".join(f"i32 {i}" for i in range(self.count))
            held = f"<{count} x {dtype.lane}>"
            return self.code.value(f"shufflevector {held} {parts[0]}, {held} poison, <{self.count} x i32> <{lanes}>")
        return parts[0]


LARGEST = {dtype: torch.finfo(dtype.torch).max for dtype in DTYPES.values() if dtype.is_float}
"""The largest number of each type of floats."""


def number_text(dtype: DType, number: float) -> str:
    """A number as LLVM writes it.

    Raises:
        NotNative: where torch has an exception for it.
    """
    if dtype.lane == "i1":
        return "true" if number else "false"
    if dtype.is_float:
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded(dtype, number)))[0]:016X}"
    try:
        whole = int(number)
    except (ValueError, OverflowError):
        raise NotNative(f"{number} is no {dtype}") from None
    low, high = range_of(dtype)
    if not low <= whole <= high:
        raise NotNative(f"{number} does not fit in {dtype}")
    return str(whole)


def range_of(dtype: DType) -> tuple[int, int]:
    """The lowest and the highest number of a type of ints."""
    info = torch.iinfo(dtype.torch)
    return int(info.min), int(info.max)


def rounded(dtype: DType, number: float) -> float:
    """The number of a type that is nearest to one; of a type of ints it is one already.

    Raises:
        NotNative: where torch has an exception for it.
    """
    if not dtype.is_float:
        number_text(dtype, number)
        return number
    if LARGEST[dtype] < abs(number) < math.inf:
        raise NotNative(f"{number} does not fit in {dtype}")
    if dtype is F64:
        return float(number)
    single: float = struct.unpack("f", struct.pack("f", number))[0]
    if dtype is F16:
        return float(struct.unpack("e", struct.pack("e", single))[0])
    if dtype is F32 or single != single:
        return single
    (bits,) = struct.unpack("I", struct.pack("f", single))
    return float(struct.unpack("f", struct.pack("I", bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000))[0])


def lanes_for(dtypes: set[DType], target: VectorTarget) -> int:
    """How many lanes vectors have: as many of the narrowest type as fill a register, and of the widest fill two.

    Bools follow the others: they are bits of a mask, and bytes only in memory.
    """
    numbers = {d.lane_bytes for d in dtypes if d is not BOOL} or {1}
    return min(2 * target.bytes // max(numbers), target.bytes // min(numbers))
