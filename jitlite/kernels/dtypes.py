"""The types of elements that kernels compute with."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class DType:
    """A type of elements.

    Attributes:
        name: as it is printed.
        torch: torch's name.
        lane: LLVM's type of a value; `stored` of an element in memory (a bool is a byte there).
        bytes: of an element.
        code: the number by which torch's C interface knows it.
        wide: the type that operators compute in, where it is another one: what they give is rounded, or keeps its
            last bits. A lane is of this type then, and a number that the narrow one has.
    """

    name: str
    torch: torch.dtype
    lane: str
    stored: str
    bytes: int
    code: int
    wide: DType | None = None

    @property
    def lane_bytes(self) -> int:
        """Of a value in a lane."""
        return self.bytes if self.wide is None else self.wide.bytes

    @property
    def is_float(self) -> bool:
        return self.torch.is_floating_point

    def __repr__(self) -> str:
        return self.name


F32 = DType("f32", torch.float32, "float", "float", 4, 6)
F64 = DType("f64", torch.float64, "double", "double", 8, 7)
I64 = DType("i64", torch.int64, "i64", "i64", 8, 4)
I32 = DType("i32", torch.int32, "i32", "i32", 4, 3)
BOOL = DType("bool", torch.bool, "i1", "i8", 1, 11)
BF16 = DType("bf16", torch.bfloat16, "float", "i16", 2, 15, F32)
F16 = DType("f16", torch.float16, "float", "i16", 2, 5, F32)
U8 = DType("u8", torch.uint8, "i32", "i8", 1, 0, I32)
I8 = DType("i8", torch.int8, "i32", "i8", 1, 1, I32)
I16 = DType("i16", torch.int16, "i32", "i16", 2, 2, I32)

DTYPES: dict[torch.dtype, DType] = {d.torch: d for d in (F32, F64, I64, I32, BOOL, BF16, F16, U8, I8, I16)}
"""The types of elements that kernels compute with."""
