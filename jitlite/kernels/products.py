"""Matrix products: which machine code does one, decided by its sizes when it runs.

    columns of b side by side       rows                 `product_kernels.rows`, which threads may share
    the same, rows far apart        pack, then rows      through temporary memory, where there are many rows of a
    b dense along k, few rows       dots                 `product_kernels.dots`, row by row, the same
    b dense along k, more rows      pack, then rows      through temporary memory
    large                           sgemm_ or dgemm_     of the library that torch itself calls

All products of one kind of elements, whose matrix b has the same order, share the functions that do them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from enum import Enum
from typing import Protocol

import torch

from jitlite.base.records import Record
from jitlite.kernels.context import KernelCode
from jitlite.kernels.functions import FunctionBuilder, ProductVectors, SharedFunction
from jitlite.kernels.loop_ir import F32, F64, DType, Place, Product
from jitlite.kernels.product_kernels import fill, pack
from jitlite.kernels.shared_products import shared_dots, shared_rows
from jitlite.kernels.target import library_is_tuned
from jitlite.kernels.torch_abi import PARALLEL_FOR
from jitlite.native.capi import pointer
from jitlite.native.code import NotNative

LIBRARY = {F32: "sgemm_", F64: "dgemm_"}
"""Functions with Fortran's interface: matrices are stored by columns, all arguments are pointers."""

LARGE = 1 << 24
"""Multiplications from which on the library does it: it was never much faster before, mostly slower."""
LARGE_BY_ROWS = 1 << 27
"""The same on processors that the library is not tuned for, where the columns of b lie side by side: rows that are
apart by more than a page take long to read. Products of packed matrices took .75 to .85 of the library's time there, up
to the largest."""
MANY = 128
"""Rows from which on packing b for one product pays there."""
NEVER = 1 << 62
LARGE_IN_PARALLEL = 1 << 20
"""The same where it may have several threads, and own code may not."""
OWN_ONLY = 1 << 27
"""Multiplications up to which own code does it where there is no library."""
MANY_BY_ROWS = 32
"""Rows from which on packing pays where the columns of b lie side by side, but more of them than a panel has: rows that
are some powers of two apart share places in the cache."""
FEW = 3
"""Rows up to which packing b for one product does not pay."""

_LONGEST = (1 << 31) - 1
"""Sizes and strides that the library takes."""


class Memory(Protocol):
    """Gives memory that lasts as long as what is computed with it."""

    def alloc(self, bytes: str) -> str:
        """A pointer to so many bytes (an i64)."""

    def give_back(self, piece: str) -> None:
        """The bytes that were given last are not used any more."""


Symbol = Callable[[str], int | None]
"""Where a C function is, if it is anywhere."""


class ProductTarget(Record, eq=True):
    """What products are written for.

    Attributes:
        memory: for what is packed.
        symbol: finds the library's functions.
        bytes: how wide vectors are.
        threads: how many the library may use.
        is_tuned: is the library's code written for this processor?
    """

    memory: Memory
    symbol: Symbol
    bytes: int = 64
    threads: int = field(default_factory=torch.get_num_threads)
    is_tuned: bool = field(default_factory=library_is_tuned)

    @property
    def parallel_for(self) -> int | None:
        """Where the function is that has threads share a loop, if there is one."""
        return self.symbol(PARALLEL_FOR)

    def library(self, dtype: DType, order: Order) -> Library | None:
        """What does large products of a type, if there is such a thing."""
        found = self.symbol(LIBRARY[dtype])
        if not found:
            return None
        if self.threads > 1 and self.parallel_for is None:
            return Library(found, LARGE_IN_PARALLEL)
        if self.is_tuned or order is Order.VECTOR:
            return Library(found, LARGE)
        if order is Order.PACKED:
            return Library(found, NEVER)
        return Library(found, LARGE_BY_ROWS) if order is Order.ROWS else Library(found, LARGE, MANY)


class Library(Record, eq=True):
    """A function for large products.

    Attributes:
        address: where it is.
        large: multiplications from which on it is called.
        fewer: than so many rows are left to it.
    """

    address: int
    large: int
    fewer: int = NEVER


class Packed(Record, eq=True):
    """A matrix b in panels."""

    pointer: str


class Order(Enum):
    """What is known of a matrix b when its product is written."""

    ROWS = "rows"
    """Its columns lie side by side."""
    COLUMNS = "columns"
    """It is dense along k."""
    VECTOR = "vector"
    """It is one column, for a matrix a that is dense along k."""
    ANY = "any"
    PACKED = "packed"
    """`emit_pack` has written it before."""


def emit_product(kc: KernelCode, product: Product, target: ProductTarget, packed: Packed | None = None) -> None:
    """Write the machine code of a product.

    Args:
        kc: the kernel.
        product: what to compute.
        target: what to compute it with.
        packed: its matrix b, if that has been packed.

    Raises:
        NotNative: for elements that are no floats.
    """
    vectors = _vectors(product.out.dtype, target)
    order = _order(kc, product) if packed is None else Order.PACKED
    library = target.library(vectors.dtype, order)
    (m, n), (_, k) = product.out.sizes, product.a.sizes
    sizes = [kc.operand(size) for size in (m, n, k)]
    a, b = _matrix(kc, product.a), _matrix(kc, product.b)
    memory = packed.pointer if packed else "null"
    is_temporary = order is not Order.PACKED
    if is_temporary:
        memory = target.memory.alloc(temporary(vectors, order, library).call(kc.code, *a[1:], *b[1:], *sizes))
    start = _matrix(kc, product.bias) if product.bias else ["null", "0", "0"]
    out = _matrix(kc, product.out)[:2]
    failed = chooser(vectors, order, library, target.parallel_for).call(kc.code, *out, *a, *b, *start, *sizes, memory)
    if is_temporary:
        target.memory.give_back(memory)
    if library is None:
        kc.code.bail_out_if(failed)


def emit_pack(kc: KernelCode, b: Place, target: ProductTarget) -> Packed:
    """Write machine code that packs a matrix b, for any number of products.

    Raises:
        NotNative: for elements that are no floats.
    """
    vectors = _vectors(b.dtype, target)
    size_k, size_n = map(kc.operand, b.sizes)
    rounded = kc.code.value(f"and i64 {kc.add(size_n, str(vectors.panel - 1))}, {-vectors.panel}")
    memory = target.memory.alloc(kc.multiply(kc.multiply(rounded, size_k), str(vectors.dtype.bytes)))
    pack(vectors).call(kc.code, memory, *_matrix(kc, b), size_n, size_k)
    return Packed(memory)


def _vectors(dtype: DType, target: ProductTarget) -> ProductVectors:
    if dtype not in LIBRARY:
        raise NotNative(f"a product of matrices of {dtype}")
    return ProductVectors(dtype, target.bytes)


def _order(kc: KernelCode, product: Product) -> Order:
    along_k, along_n = map(kc.operand, product.b.strides)
    if kc.operand(product.b.sizes[1]) == "1" and kc.operand(product.a.strides[1]) == "1":
        return Order.VECTOR
    return Order.ROWS if along_n == "1" else Order.COLUMNS if along_k == "1" else Order.ANY


def _matrix(kc: KernelCode, place: Place) -> list[str]:
    return [kc.address(place), *map(kc.operand, place.strides)]


# -- functions that choose

_STRIDES_AND_SIZES = "i64 %a.m, i64 %a.k, i64 %b.k, i64 %b.n, i64 %M, i64 %N, i64 %K"
_OPERANDS = (
    "ptr %out, i64 %out.m, ptr %a, i64 %a.m, i64 %a.k, ptr %b, i64 %b.k, i64 %b.n, "
    "ptr %start, i64 %start.m, i64 %start.n, i64 %M, i64 %N, i64 %K, ptr %memory"
)


class _Chooser(FunctionBuilder):
    """Writes functions that look at sizes and strides, by the names of `_OPERANDS`."""

    def __init__(self, vectors: ProductVectors, parallel_for: int | None = None) -> None:
        super().__init__(vectors)
        self.parallel_for = parallel_for

    def is_(self, a: str, relation: str, b: str | int) -> str:
        return self.value(f"icmp {relation} i64 {a}, {b}")

    def all_of(self, first: str, *others: str) -> str:
        for condition in others:
            first = self.value(f"and i1 {first}, {condition}")
        return first

    def any_of(self, first: str, *others: str) -> str:
        for condition in others:
            first = self.value(f"or i1 {first}, {condition}")
        return first

    def select(self, condition: str, a: str | int, b: str | int) -> str:
        return self.value(f"select i1 {condition}, i64 {a}, i64 {b}")

    @contextmanager
    def returning_if(self, condition: str, result: str) -> Iterator[None]:
        """What is written within runs where the condition holds, and the function ends with it."""
        then, onward = self.fresh("then"), self.fresh("on")
        self.branch(condition, then, onward)
        self.label(then)
        yield
        self.emit(f"ret {result}")
        self.label(onward)

    def work(self) -> str:
        return self.multiply(self.multiply("%M", "%N"), "%K")

    def is_dense(self, apart: str, step: str, rows: str, length: str) -> str:
        """Does the library take a matrix, whose rows are dense, and as far apart as they are long, or farther?"""
        return self.all_of(
            self.is_(step, "eq", 1), self.any_of(self.is_(apart, "sge", length), self.is_(rows, "eq", 1))
        )

    def goes_to_library(self, library: Library) -> str:
        a = self.any_of(self.is_dense("%a.m", "%a.k", "%M", "%K"), self.is_dense("%a.k", "%a.m", "%K", "%M"))
        b = self.any_of(self.is_dense("%b.k", "%b.n", "%K", "%N"), self.is_dense("%b.n", "%b.k", "%N", "%K"))
        numbers = ("%M", "%N", "%K", "%a.m", "%a.k", "%b.k", "%b.n")
        wanted = self.is_(self.work(), "sge", library.large), self.is_("%M", "slt", library.fewer)
        return self.all_of(*wanted, a, b, *(self.is_(x, "sle", _LONGEST) for x in numbers))

    def are_far_apart(self) -> str:
        """Are rows of b, whose columns lie side by side, to be packed?"""
        return self.all_of(
            self.is_("%M", "sge", MANY_BY_ROWS),
            self.is_("%b.k", "ne", self.vectors.panel),
            self.is_("%N", "sge", self.vectors.panel),
        )

    def are_few(self) -> str:
        return self.all_of(self.is_("%M", "sle", FEW), self.is_("%b.k", "eq", 1))


@functools.cache
def temporary(vectors: ProductVectors, order: Order, library: Library | None) -> SharedFunction:
    """The bytes of memory that a product needs: for a vector that is made dense, or for panels."""
    code = _Chooser(vectors)
    if library is not None:
        with code.returning_if(code.goes_to_library(library), "i64 0"):
            pass
    rounded = code.rounded_down(code.add("%N", vectors.panel - 1), vectors.panel)
    if order is Order.ROWS:
        columns = code.select(code.are_far_apart(), rounded, 0)
    else:
        columns = "1" if order is Order.VECTOR else code.select(code.are_few(), 1, rounded)
    code.emit(f"ret i64 {code.multiply(code.multiply(columns, '%K'), vectors.dtype.bytes)}")
    return code.finished(f"{vectors.name('temporary')}_{order.value}", _STRIDES_AND_SIZES, "i64")


@functools.cache
def chooser(
    vectors: ProductVectors, order: Order, library: Library | None, parallel_for: int | None = None
) -> SharedFunction:
    """Does a product in one way or another; gives true where it is left to others. `memory` has b if it is packed."""
    code = _Chooser(vectors, parallel_for)
    nothing = code.any_of(code.is_("%M", "sle", 0), code.is_("%N", "sle", 0))
    with code.returning_if(nothing, "i1 false"):
        pass
    if library is not None:
        with code.returning_if(code.goes_to_library(library), "i1 false"):
            _call_library(code, library.address)
    else:
        with code.returning_if(code.is_(code.work(), "sgt", OWN_ONLY), "i1 true"):
            pass
    if order is Order.VECTOR:
        with code.returning_if(code.is_("%out.m", "eq", 1), "i1 false"):
            _as_one_row(code)
    start = _start(code, "%out.m", ("%start.m", "%start.n"), ("%M", "%N"))
    if order is Order.ANY:
        with code.returning_if(code.any_of(code.is_("%b.n", "eq", 1), code.is_("%N", "eq", 1)), "i1 false"):
            _rows(code, start, "%b", vectors.panel, "%b.k")
    if order is Order.ROWS:
        with code.returning_if(code.value(f"xor i1 {code.are_far_apart()}, true"), "i1 false"):
            _rows(code, start, "%b", vectors.panel, "%b.k")
        pack(vectors).call(code, "%memory", "%b", "%b.k", "%b.n", "%N", "%K")
    if order in (Order.ANY, Order.COLUMNS):
        with code.returning_if(code.are_few(), "i1 false"):
            _dots_by_row(code, start)
        pack(vectors).call(code, "%memory", "%b", "%b.k", "%b.n", "%N", "%K")
    if order is Order.VECTOR:
        _rows(code, start, "%b", vectors.panel, "%b.k")
    else:
        _rows(code, start, "%memory", code.multiply("%K", vectors.panel), vectors.panel)
    code.emit("ret i1 false")
    return code.finished(f"{vectors.name('product')}_{order.value}", _OPERANDS, "i1")


def _start(code: _Chooser, apart: str, strides: tuple[str, str], sizes: tuple[str, str]) -> tuple[str, str]:
    """What sums start from, and how far its rows are apart. It is copied where its columns do not lie side by side."""
    places = code.slot("ptr"), code.slot("i64")
    code.store("ptr", "%start", places[0])
    code.store("i64", strides[0], places[1])
    side_by_side = code.any_of(code.is_(strides[1], "eq", 1), code.is_(sizes[1], "eq", 1), code.is_null("%start"))
    with code.unless(side_by_side):
        fill(code.vectors).call(code, "%out", apart, "%start", *strides, *sizes)
        code.store("ptr", "%out", places[0])
        code.store("i64", apart, places[1])
    return code.load("ptr", places[0]), code.load("i64", places[1])


def _rows(code: _Chooser, start: tuple[str, str], b: str, panel: str | int, apart: str | int) -> None:
    out_and_a = ("%out", "%out.m", "%a", "%a.m", "%a.k")
    shared_rows(code.vectors, code.parallel_for).call(
        code, *out_and_a, b, str(panel), str(apart), *start, "%M", "%N", "%K"
    )


def _dots_by_row(code: _Chooser, start: tuple[str, str]) -> None:
    has_none = code.is_null(start[0])
    with code.steps("0", "%M") as m:
        x = _dense(code, code.row("%a", "%a.m", m), "%a.k")
        begin = code.value(f"select i1 {has_none}, ptr null, ptr {code.row(*start, m)}")
        shared_dots(code.vectors, code.parallel_for).call(
            code, code.row("%out", "%out.m", m), x, "%b", "%b.n", begin, "%N", "%K"
        )


def _as_one_row(code: _Chooser) -> None:
    """The product of a matrix and a vector, the other way round: the vector is the row, and the matrix transposed."""
    begin, _ = _start(code, "0", ("0", "%start.m"), ("1", "%M"))
    shared_dots(code.vectors, code.parallel_for).call(
        code, "%out", _dense(code, "%b", "%b.k"), "%a", "%a.m", begin, "%M", "%K"
    )


def _dense(code: _Chooser, vector: str, stride: str) -> str:
    """A vector along k, copied into memory unless it is dense."""
    place = code.slot("ptr")
    code.store("ptr", vector, place)
    with code.unless(code.is_(stride, "eq", 1)):
        fill(code.vectors).call(code, "%memory", "0", vector, "0", stride, "1", "%K")
        code.store("ptr", "%memory", place)
    return code.load("ptr", place)


def _call_library(code: _Chooser, library: int) -> None:
    """By columns, `out` is its own transpose, and so are `b`, its first operand now, and `a`."""
    t = code.vectors.dtype.lane
    without_start = code.is_null("%start")
    with code.unless(without_start):
        fill(code.vectors).call(code, "%out", "%out.m", "%start", "%start.m", "%start.n", "%M", "%N")
    operands: list[str] = []

    def give(type: str, value: str) -> None:
        place = code.slot(type)
        code.store(type, value, place)
        operands.append(place)

    strides = []
    for count, length, apart, step in (("%K", "%N", "%b.k", "%b.n"), ("%M", "%K", "%a.m", "%a.k")):
        by_rows = code.is_dense(apart, step, count, length)
        give("i8", code.value(f"select i1 {by_rows}, i8 {ord('N')}, i8 {ord('T')}"))
        longest = code.select(by_rows, length, count)
        strides.append(code.maximum(code.maximum(code.select(by_rows, apart, step), longest), "1"))
    for size in ("%N", "%M", "%K"):
        give("i32", code.value(f"trunc i64 {size} to i32"))
    give(t, "1.0")
    for matrix, stride in zip(("%b", "%a"), strides, strict=True):
        operands.append(matrix)
        give("i32", code.value(f"trunc i64 {stride} to i32"))
    give(t, code.value(f"select i1 {without_start}, {t} 0.0, {t} 1.0"))
    operands.append("%out")
    give("i32", code.value(f"trunc i64 {code.maximum(code.maximum('%out.m', '%N'), '1')} to i32"))
    code.emit(f"call void {pointer(library)}({', '.join(f'ptr {o}' for o in operands)})")
