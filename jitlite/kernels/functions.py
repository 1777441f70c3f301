"""Functions of machine code over vectors: each is compiled once, in a module of its own, and called by address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jitlite.base.records import Record
from jitlite.kernels.loop_ir import DType
from jitlite.native.capi import pointer
from jitlite.native.code import LLVMBuilder
from jitlite.native.entry import address_of


class ProductVectors(Record, eq=True):
    """Registers of a width, filled with elements of a type.

    Attributes:
        bytes: the width.
    """

    dtype: DType
    bytes: int = 64

    @property
    def lanes(self) -> int:
        return self.bytes // self.dtype.bytes

    @property
    def type(self) -> str:
        return f"<{self.lanes} x {self.dtype.lane}>"

    @property
    def mask(self) -> str:
        return f"<{self.lanes} x i1>"

    @property
    def count(self) -> str:
        """Numbers of lanes, as wide as these."""
        return f"i{8 * self.dtype.bytes}"

    @property
    def counts(self) -> str:
        return f"<{self.lanes} x {self.count}>"

    @property
    def suffix(self) -> str:
        """As names of intrinsics end."""
        return f"v{self.lanes}f{8 * self.dtype.bytes}"

    @property
    def across(self) -> int:
        """Vectors side by side in a block: the sums of its rows, these vectors and one more have to fit in registers,
        of which there are 32 of 64 bytes and 16 of others."""
        return 4 if self.bytes == 64 else 2

    @property
    def panel(self) -> int:
        """Columns of a block."""
        return self.across * self.lanes

    def name(self, what: str) -> str:
        return f"{what}_{self.dtype.name}x{self.lanes}"


class SharedFunction(Record, eq=True):
    """A function that kernels call.

    Attributes:
        name: without "@".
        parameters: with their types.
        result: LLVM's type of what it gives.
        text: of its module.
    """

    name: str
    parameters: str
    result: str
    text: str

    def call(self, code: LLVMBuilder, *operands: str) -> str:
        """Write a call. The function is compiled, if it has not been yet.

        Raises:
            NotNative: where it cannot be.
        """
        types = [parameter.split(" ")[0] for parameter in self.parameters.split(", ")]
        written = ", ".join(f"{t} {o}" for t, o in zip(types, operands, strict=True))
        call = f"call {self.result} {self.pointer()}({written})"
        if self.result != "void":
            return code.value(call)
        code.emit(call)
        return ""

    def pointer(self) -> str:
        """Where it is. It is compiled, if it has not been yet.

        Raises:
            NotNative: where it cannot be.
        """
        return pointer(address_of(self.name, self.text))


class Summing(Record, eq=True, frozen=False):
    """A loop while it is written.

    Attributes:
        index: what it counts.
        sums: the vectors that it hands on. In the body, those of the last iteration at first, to be exchanged for those
            of the next; behind it those that there are in the end.
    """

    index: str
    sums: list[str]


_FIRST = "first"
"""The label of the first block of a function."""


class FunctionBuilder(LLVMBuilder):
    """Writes one function."""

    def __init__(self, vectors: ProductVectors) -> None:
        super().__init__()
        self.vectors = vectors
        self._block = _FIRST

    def finished(self, name: str, parameters: str, result: str = "void") -> SharedFunction:
        width = self.vectors.bytes * 8
        attributes = f'nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
        head = f"define {result} @{name}({parameters}) {attributes} {{"
        text = "\n".join([*sorted(self.declared), head, f"{_FIRST}:", *self.slots, *self.lines, "}", ""])
        return SharedFunction(name, parameters, result, text)

    # -- numbers
    def add(self, a: str, b: str | int) -> str:
        return self.value(f"add i64 {a}, {b}")

    def multiply(self, a: str, b: str | int) -> str:
        return self.value(f"mul i64 {a}, {b}")

    def maximum(self, a: str, b: str) -> str:
        return self.intrinsic("i64 @llvm.smax.i64(i64, i64)", a, b)

    def minimum(self, a: str, b: str) -> str:
        return self.intrinsic("i64 @llvm.smin.i64(i64, i64)", a, b)

    def rounded_down(self, a: str, step: int) -> str:
        """The largest multiple of a power of two that is not larger."""
        return self.value(f"and i64 {a}, {-step}")

    def is_null(self, pointer: str) -> str:
        return self.value(f"icmp eq ptr {pointer}, null")

    # -- control flow
    def label(self, name: str) -> None:
        super().label(name)
        self._block = name

    @contextmanager
    def steps(self, start: str, end: str, step: int = 1) -> Iterator[str]:
        """A loop whose body is what is written within; gives the number that is counted."""
        with self.summing([], start, end, step) as loop:
            yield loop.index

    @contextmanager
    def summing(self, sums: Sequence[str], start: str, end: str, step: int = 1) -> Iterator[Summing]:
        """A loop that counts, and hands vectors on from one iteration to the next."""
        types = ["i64", *[self.vectors.type] * len(sums)]
        head, body, done, before = self.fresh("head"), self.fresh("body"), self.fresh("end"), self._block
        self.go(head)
        self.label(head)
        phis = [self.fresh("%r") for _ in types]
        place = len(self.lines)
        self.branch(self.value(f"icmp slt i64 {phis[0]}, {end}"), body, done)
        self.label(body)
        loop = Summing(phis[0], phis[1:])
        yield loop
        arms = zip(phis, types, [start, *sums], [self.add(phis[0], step), *loop.sums], strict=True)
        texts = [f"  {phi} = phi {t} [ {a}, %{before} ], [ {b}, %{self._block} ]" for phi, t, a, b in arms]
        self.lines[place:place] = texts
        self.go(head)
        self.label(done)
        loop.sums = phis[1:]

    @contextmanager
    def unless(self, condition: str) -> Iterator[None]:
        """What is written within runs where the condition does not hold."""
        body, end = self.fresh("body"), self.fresh("end")
        self.branch(condition, end, body)
        self.label(body)
        yield
        self.go(end)
        self.label(end)

    # -- memory
    def at(self, pointer: str, *offsets: str | int) -> str:
        """The address so many elements behind a pointer."""
        for offset in offsets:
            pointer = self.value(f"getelementptr {self.vectors.dtype.lane}, ptr {pointer}, i64 {offset}")
        return pointer

    def row(self, pointer: str, stride: str, number: str) -> str:
        return self.at(pointer, self.multiply(number, stride))

    # -- vectors

    def mask(self, start: str, end: str) -> str:
        """Which lanes are below the end, when the first one is at the start.

        It compares numbers as wide as elements. LLVM's `get.active.lane.mask` compares 64 bits for each lane, and LLVM
        22 ends the process where it is to be quick code for AVX-512.
        """
        v = self.vectors
        left = self.minimum(self.value(f"sub i64 {end}, {start}"), str(v.lanes))
        if v.dtype.bytes < 8:
            left = self.value(f"trunc i64 {left} to {v.count}")
        first = self.value(f"insertelement {v.counts} poison, {v.count} {left}, i64 0")
        lefts = self.value(f"shufflevector {v.counts} {first}, {v.counts} poison, <{v.lanes} x i32> zeroinitializer")
        numbers = ", ".join(f"{v.count} {lane}" for lane in range(v.lanes))
        return self.value(f"icmp slt {v.counts} <{numbers}>, {lefts}")

    def vector(self, place: str, mask: str | None = None) -> str:
        """The elements from a place on; zero where masked out."""
        v = self.vectors
        if mask is None:
            return self.value(f"load {v.type}, ptr {place}, align {v.dtype.bytes}")
        self.declared.add(f"declare {v.type} @llvm.masked.load.{v.suffix}.p0(ptr, i32, {v.mask}, {v.type})")
        operands = f"ptr {place}, i32 {v.dtype.bytes}, {v.mask} {mask}, {v.type} zeroinitializer"
        return self.value(f"call {v.type} @llvm.masked.load.{v.suffix}.p0({operands})")

    def put(self, vector: str, place: str, mask: str | None = None) -> None:
        v = self.vectors
        if mask is None:
            self.emit(f"store {v.type} {vector}, ptr {place}, align {v.dtype.bytes}")
            return
        self.declared.add(f"declare void @llvm.masked.store.{v.suffix}.p0({v.type}, ptr, i32, {v.mask})")
        operands = f"{v.type} {vector}, ptr {place}, i32 {v.dtype.bytes}, {v.mask} {mask}"
        self.emit(f"call void @llvm.masked.store.{v.suffix}.p0({operands})")

    def splat(self, element: str) -> str:
        """An element in each lane."""
        v = self.vectors
        first = self.value(f"insertelement {v.type} poison, {v.dtype.lane} {element}, i64 0")
        return self.value(f"shufflevector {v.type} {first}, {v.type} poison, <{v.lanes} x i32> zeroinitializer")

    def sum(self, a: str, b: str) -> str:
        return self.value(f"fadd {self.vectors.type} {a}, {b}")

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """`a * b + c`, in one rounding where the processor can."""
        t, suffix = self.vectors.type, self.vectors.suffix
        return self.intrinsic(f"{t} @llvm.fmuladd.{suffix}({t}, {t}, {t})", a, b, c)

    def begin(self, start: str, other: str, mask: str) -> tuple[str, str]:
        """Where a vector of `start` is read, which may be null, and with which mask: there is nothing to read then.

        Processors take a thousand times as long to read nothing where there is no memory, so that is from elsewhere.
        """
        v = self.vectors
        is_null = self.is_null(start)
        place = self.value(f"select i1 {is_null}, ptr {other}, ptr {start}")
        return place, self.value(f"select i1 {is_null}, {v.mask} zeroinitializer, {v.mask} {mask}")

    def shuffle(self, a: str, b: str, lanes: Sequence[int]) -> str:
        t = self.vectors.type
        picked = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.value(f"shufflevector {t} {a}, {t} {b}, <{len(lanes)} x i32> <{picked}>")

    def exchanged(self, a: str, b: str, distance: int) -> tuple[str, str]:
        """Two rows of a matrix in which the lanes at a distance change sides: half of a step towards its transpose."""
        n = self.vectors.lanes
        low = [j + n - distance if j & distance else j for j in range(n)]
        high = [j + n if j & distance else j + distance for j in range(n)]
        return self.shuffle(a, b, low), self.shuffle(a, b, high)
