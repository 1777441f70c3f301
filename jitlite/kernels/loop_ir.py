"""Loop IR: what a tensor region computes, as loops over memory.

A kernel is a list of statements. Scalars are computed once and have a name; variables are set again and again.
A buffer is a piece of memory, a `Place` a strided window into one. A `Nest` computes *lanes*, expressions over
elements, at each point of a space of indices, and stores them:

    %n = size a, 0
    alloc b0 : f32[%n]
    nest i0 < %n:
      b0[i0] = mul(load a[i0], 2.0)

The same statements are printed, interpreted in Python (the meaning) and emitted as LLVM (the machine code).

Whatever has to hold for the kernel to go on is a `Check`: where it fails the kernel gives up and Python does all of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from enum import Enum

import torch

from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.kernels.dtypes import BF16 as BF16
from jitlite.kernels.dtypes import BOOL as BOOL
from jitlite.kernels.dtypes import DTYPES as DTYPES
from jitlite.kernels.dtypes import F16 as F16
from jitlite.kernels.dtypes import F32 as F32
from jitlite.kernels.dtypes import F64 as F64
from jitlite.kernels.dtypes import I8 as I8
from jitlite.kernels.dtypes import I16 as I16
from jitlite.kernels.dtypes import I32 as I32
from jitlite.kernels.dtypes import I64 as I64
from jitlite.kernels.dtypes import U8 as U8
from jitlite.kernels.dtypes import DType as DType

# -- scalars


class Scalar(Record):
    """A value that is computed once: an int, a float, a bool, or a list or dict of them.

    Attributes:
        name: without "%".
        type: the type of the language.
    """

    name: str
    type: T.Type

    def __repr__(self) -> str:
        return f"%{self.name}"


Operand = Scalar | int | float | bool
"""A scalar, or a number that is known."""


class LoopVariable(Record):
    """A scalar that is set again and again, by `Set`, and read by `Get`."""

    name: str
    type: T.Type

    def __repr__(self) -> str:
        return f"${self.name}"


# -- memory


class Owner(Enum):
    """Whose memory a buffer is."""

    ARGUMENT = "argument"
    """Memory of a tensor that the kernel is given, or that the graph holds. It is only read."""
    ARENA = "arena"
    """Memory of the kernel, which is gone when it ends; `Alloc` takes it."""
    RESULT = "result"
    """Memory of a new tensor, which the kernel gives; `Alloc` makes it."""
    ALIAS = "alias"
    """Memory of some other buffer; `Bind` says of which."""


class Buffer(Record, frozen=False):
    """A piece of memory with elements of one type."""

    name: str
    dtype: DType
    owner: Owner

    def __repr__(self) -> str:
        return self.name


class Place(Record, eq=True):
    """A strided window into a buffer. Offset and strides count elements."""

    buffer: Buffer
    offset: Operand
    sizes: tuple[Operand, ...]
    strides: tuple[Operand, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def rank(self) -> int:
        return len(self.sizes)


# -- lanes: expressions over the elements at one point of a nest


class Lane(Record):
    """A value at each point. What is used twice is one object, and computed once."""

    dtype: DType


class Load(Lane):
    """The element of a place whose dimensions are those of the nest; a stride of 0 broadcasts."""

    place: Place


class Fill(Lane):
    """A scalar, converted to the type of the lane as torch's `fill_` does."""

    value: Operand


class Position(Lane):
    """The index of the point along a dimension of the nest, as i64."""

    dim: int


class LaneCast(Lane):
    """A value converted as `Tensor.to(dtype)` does."""

    operand: Lane


class LaneOperator(Lane):
    """An elementwise operator (see `lanes.LANES` for those there are) on lanes."""

    op: str
    operands: tuple[Lane, ...]


class Gather(Lane):
    """An element of a place, each of whose dimensions is indexed by a dimension of the nest or by a lane of i64.

    An index may be negative where `wraps`, and counts from the end then. Outside of the place the kernel gives up.
    """

    place: Place
    indices: tuple[int | Lane, ...]
    wraps: bool = True


# -- statements


class Statement(Record):
    pass


class NodeOperation(Statement):
    """An operator of the graph on scalars, by its node: what `native/` has rules for."""

    node: Node
    operands: tuple[Operand, ...]
    results: tuple[Scalar, ...]


class SizeArithmetic(Statement):
    """Arithmetic on sizes, positions and conditions, in 64 bits without a look at overflow.

    Attributes:
        op: add, sub, mul, floordiv (of what is not negative by what is positive), min, max, select (a bool, and what is
            taken where it holds and where not); eq, ne, lt, le, and, or, not (which give a bool).
    """

    result: Scalar
    op: str
    operands: tuple[Operand, ...]


class Convert(Statement):
    """A number as one of another type, as Python's `int`, `float` and `bool` do; gives up where it has none."""

    result: Scalar
    value: Operand


class Check(Statement):
    """The kernel gives up unless the condition holds."""

    condition: Operand
    reason: str


class Get(Statement):
    result: Scalar
    variable: LoopVariable


class Set(Statement):
    variable: LoopVariable
    value: Operand


class Read(Statement):
    """The one element of a place without dimensions, as an int, a float or a bool."""

    result: Scalar
    place: Place


MemoryNeed = tuple[int, int, tuple[str, ...]]
"""The level of memory, and how much that is: bytes, and the sizes that are not known."""


class Alloc(Statement):
    """Memory for a buffer.

    Attributes:
        sizes: the number of elements is their product; those of a result are the sizes of the tensor.
        strides: of a result; None means contiguous.
        level: how many loops around keep the memory: it is taken back at the end of an iteration of the loop at this
            depth, and at the end of the kernel for level 0.
        order: the dimensions, without those of size 1, from the outermost one in memory inwards, where they do not
            ascend; the strides are those of memory without gaps then.
        reuses: a buffer of the same level and as many bytes, which nothing names any more: it is its memory.
    """

    buffer: Buffer
    sizes: tuple[Operand, ...]
    strides: tuple[Operand, ...] | None = None
    level: int = 0
    order: tuple[int, ...] | None = None
    reuses: Buffer | None = None

    @property
    def need(self) -> MemoryNeed:
        known = math.prod(size for size in self.sizes if isinstance(size, int))
        names = sorted(size.name for size in self.sizes if isinstance(size, Scalar))
        return self.level, known * self.buffer.dtype.bytes, tuple(names)


class Free(Statement):
    """Nothing names a buffer of the arena any more: whatever is allocated later may have its memory.

    Attributes:
        sizes, level: those of its `Alloc`.
    """

    buffer: Buffer
    sizes: tuple[Operand, ...]
    level: int


class Bind(Statement):
    """Have a buffer stand for the memory that another one stands for, from an offset on."""

    buffer: Buffer
    source: Buffer
    offset: Operand = 0


class Swap(Statement):
    """Exchange the memory of two buffers."""

    first: Buffer
    second: Buffer


class Store(Record):
    """At each point, the lane is stored in the place, whose dimensions are those of the nest."""

    place: Place
    lane: Lane


class Nest(Statement):
    """All points of a space, in any order. No place that is stored to is loaded from at another point."""

    sizes: tuple[Operand, ...]
    stores: tuple[Store, ...]


class Reduce(Statement):
    """A lane, reduced over some dimensions of a nest.

    Attributes:
        dims: those that are reduced.
        op: sum, prod, amax, amin, any, all, argmax, argmin (the first one; NaN counts as the largest and smallest).
        place: gets the result; its dimensions are those of the nest, with size 1 and stride 0 for the reduced ones.
        positions: for amax and amin over one dimension: gets the index along it (i64), or None.
    """

    sizes: tuple[Operand, ...]
    dims: frozenset[int]
    op: str
    lane: Lane
    place: Place
    positions: Place | None = None


class Sort(Statement):
    """Where the lowest numbers of each row are, in order.

    Attributes:
        keys: of i64 and two dimensions. Rows have a unit stride.
        positions: gets, for as many rows, the index of each in its row (i64): of all, or of as many as there is room.
        op: "stable" for all, where equal ones stay in order; "topk" and "topk unsorted" for what torch's `topk` gives.
    """

    keys: Place
    positions: Place
    op: str


class Pack(Statement):
    """Have a matrix ready for products that name this statement. It means nothing: they compute the same without it.

    Attributes:
        matrix: of two dimensions. Its elements stay the same for as long as the kernel runs.
        condition: it is done only where this holds.
    """

    matrix: Place
    condition: Operand


class Product(Statement):
    """`out[m, n] = sum over k of a[m, k] * b[k, n]`, plus `bias[m, n]` if there is one (strides of 0 broadcast).

    Attributes:
        out: of two dimensions, and apart from the operands. Its rows have a unit stride.
        packed: what has made `b` ready.
    """

    out: Place
    a: Place
    b: Place
    bias: Place | None = None
    packed: Pack | None = None


class Branch(Statement):
    condition: Operand
    then: Sequence[Statement]
    otherwise: Sequence[Statement]


class Repeat(Statement):
    """A loop of the program: runs while the variable is true and the index below the count.

    Attributes:
        level: its depth: loops around it, and itself.
        polls: does it look at signals now and then?
        frees: are the lists and dicts that an iteration makes given back at its end?
    """

    index: Scalar
    count: Operand
    goes_on: LoopVariable | None
    body: Sequence[Statement]
    level: int
    polls: bool = True
    frees: bool = False


# -- kernels


class TensorInput(Record):
    """A tensor that the kernel is given.

    Attributes:
        position: among the arguments of the kernel; -1 for a tensor that the graph holds.
        sizes: a scalar for each dimension whose size is not known; 1 where it is known to be 1.
        strides: the same for strides; a number where the order of memory says so.
        order: the dimensions from the outermost one in memory inwards, those of size 1 left out.
        is_dense: without gaps, in this order.
        held: the tensor that the graph holds. It is looked at like an argument, for it may be given other memory.
    """

    position: int
    buffer: Buffer
    sizes: tuple[Operand, ...]
    strides: tuple[Operand, ...]
    order: tuple[int, ...]
    is_dense: bool
    held: torch.Tensor | None = None


class ScalarInput(Record):
    """A number that the kernel is given, or a list of numbers that is only read."""

    position: int
    scalar: Scalar
    is_outside: bool = False


class NoneInput(Record):
    """An argument that has to be None."""

    position: int


class SizesInput(Record):
    """A list of sizes that the kernel is given.

    Attributes:
        sizes: a scalar for each one that is not known; 1 where it is known to be 1, as in `TensorInput`.
    """

    position: int
    sizes: tuple[Operand, ...]


class DtypeInput(Record):
    """An argument that has to be this dtype."""

    position: int
    dtype: DType


Argument = TensorInput | ScalarInput | NoneInput | DtypeInput | SizesInput


class Given(Record):
    """An output that is the very object that the kernel was given at this position."""

    position: int


class NewTensor(Record):
    """An output that is the tensor of a buffer, which is a result."""

    buffer: Buffer


class Boxed(Record):
    """An output that is a scalar, or None."""

    value: Operand | None
    type: T.Type


class BoxedSizes(Record):
    """An output that is a new list of ints."""

    sizes: tuple[Operand, ...]


Output = Given | NewTensor | Boxed | BoxedSizes | tuple["Output", ...]
"""What the kernel gives; tuples are tuples of Python."""


class Kernel(Record, frozen=False):
    """A function over loops.

    Attributes:
        default_dtype: the default dtype that it holds for, None if it does not matter.
        outputs: what it gives; a tuple of Python where there are several.
        origins: where its statements come from, see `jitlite.kernels.origins`.
    """

    name: str
    arguments: list[Argument] = field(default_factory=list)
    default_dtype: torch.dtype | None = None
    body: list[Statement] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    gives_tuple: bool = False
    origins: dict[Statement | Scalar | Place, tuple[SourceRange, ...]] = field(default_factory=dict)
