"""Matrix products as machine code are those of torch, for all sizes and strides, each way of doing them alone."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import random

import pytest
import torch
from product_harness import Heap, Operands, compiled, symbol

from jitlite.kernels import products
from jitlite.kernels.context import KernelCode
from jitlite.kernels.functions import FunctionBuilder, ProductVectors
from jitlite.kernels.loop_ir import F32, F64, I64, DType, Product
from jitlite.kernels.products import LIBRARY, ProductTarget, Symbol, emit_pack, emit_product
from jitlite.native import entry
from jitlite.native.code import NotNative


class Products:
    """One compiled product, of whatever is held.

    Args:
        b: the strides of the second matrix, as far as they are known; `a`, the same of the first one.
        bias: has it one?
        columns: if it is known, how many columns there are.
        packs: is the second matrix packed by a statement of its own?
        is_tuned: is the library written for this processor?
    """

    def __init__(
        self,
        dtype: DType = F32,
        *,
        a: tuple[int | None, int | None] = (None, None),
        b: tuple[int | None, int | None] = (None, None),
        bias: bool = False,
        columns: int | None = None,
        packs: bool = False,
        bytes: int = 64,
        symbol: Symbol = symbol,
        is_tuned: bool = True,
    ) -> None:
        kc = KernelCode()
        heap = Heap(kc)
        target = ProductTarget(heap, symbol, bytes, threads=1, is_tuned=is_tuned)
        self.out = Operands(kc, dtype, (None, columns), (None, 1))
        self.a, self.b = Operands(kc, dtype, (None, None), a), Operands(kc, dtype, (None, columns), b)
        self.bias = Operands(kc, dtype, (None, columns), (None, None)) if bias else None
        product = Product(self.out.place, self.a.place, self.b.place, self.bias.place if self.bias else None)
        emit_product(kc, product, target, emit_pack(kc, product.b, target) if packs else None)
        heap.free()
        self.run = compiled(kc)

    def check(self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """Hold a product to what float64 gives; nothing beside it may be written."""
        (m, k), n = a.shape, b.shape[1]
        around = torch.full((m + 2, n + 40), 7.0, dtype=a.dtype)
        out = around[1 : m + 1, 20 : 20 + n]
        self.out.hold(out)
        self.a.hold(a)
        self.b.hold(b)
        wanted = a.double() @ b.double()
        if self.bias is not None and bias is not None:
            self.bias.hold(bias)
            wanted = wanted + bias.double()
        assert self.run()
        exact = 1e-5 if a.dtype is torch.float32 else 1e-13
        torch.testing.assert_close(out.double(), wanted, rtol=exact, atol=exact * (k + 1), equal_nan=True)
        around[1 : m + 1, 20 : 20 + n] = 7.0
        assert around.eq(7.0).all(), "something else was written"


def matrix(rows: int, columns: int, dtype: torch.dtype, order: str) -> torch.Tensor:
    """A matrix in some order of memory."""
    if order == "rows":
        return torch.randn(rows, columns, dtype=dtype)
    if order == "wide rows":
        return torch.randn(rows, columns + 3, dtype=dtype)[:, 2 : columns + 2]
    if order == "columns":
        return torch.randn(columns, rows, dtype=dtype).t()
    if order == "every other":
        return torch.randn(rows, 2 * columns, dtype=dtype)[:, ::2]
    if order == "one row":
        return torch.randn(columns, dtype=dtype).expand(rows, columns)
    assert order == "one column"
    return torch.randn(rows, 1, dtype=dtype).expand(rows, columns)


ORDERS = ("rows", "wide rows", "columns", "every other", "one row", "one column")
SIZES = [
    (1, 32, 128),
    (2, 5, 3),
    (3, 64, 64),
    (4, 17, 65),
    (5, 33, 130),
    (7, 1, 1),
    (1, 1, 200),
    (9, 40, 16),
    (6, 8, 79),
    (40, 9, 130),
    (33, 70, 64),
]


def sweep(product: Products, dtype: torch.dtype, a_orders: tuple[str, ...], b_orders: tuple[str, ...]) -> None:
    rng = random.Random(0)
    sizes = SIZES + [tuple(rng.choice((1, 2, 3, 4, 8, 15, 16, 17, 31, 40, 70)) for _ in range(3)) for _ in range(30)]
    for (m, k, n), a_order, b_order in itertools.product(sizes, a_orders, b_orders):
        bias = matrix(m, n, dtype, rng.choice(ORDERS))
        product.check(matrix(m, k, dtype, a_order), matrix(k, n, dtype, b_order), bias)


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=repr)
def test_every_order_of_memory(dtype: DType, bias: bool) -> None:
    sweep(Products(dtype, bias=bias), dtype.torch, ORDERS, ORDERS)
    sweep(Products(dtype, b=(None, 1), bias=bias), dtype.torch, ORDERS, ("rows", "wide rows"))
    sweep(Products(dtype, b=(1, None), bias=bias), dtype.torch, ORDERS, ("columns",))


@pytest.mark.parametrize("bytes", [16, 32])
@pytest.mark.parametrize("dtype", [F32, F64], ids=repr)
def test_vectors_of_other_widths(dtype: DType, bytes: int) -> None:
    sweep(Products(dtype, bias=True, bytes=bytes), dtype.torch, ("rows", "columns"), ("rows", "columns", "every other"))


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_a_matrix_that_was_packed_before(bias: bool) -> None:
    sweep(Products(bias=bias, packs=True), torch.float32, ("rows", "columns"), ORDERS)


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_one_column(bias: bool) -> None:
    product = Products(a=(None, 1), columns=1, bias=bias)
    for m, k, order in itertools.product((1, 2, 15, 16, 40), (1, 3, 16, 50), ("columns", "wide rows")):
        product.check(torch.randn(m, k), matrix(k, 1, torch.float32, order), torch.randn(m, 1) if bias else None)
    out, a, b = torch.empty(40), torch.randn(40, 33), torch.randn(33, 1)
    for operands, tensor in ((product.out, out[:, None]), (product.a, a), (product.b, b)):
        operands.hold(tensor)
    if product.bias is not None:
        product.bias.hold(torch.ones(1, 1).expand(40, 1))
    assert product.run()
    torch.testing.assert_close(out, (a @ b)[:, 0] + int(bias))


@pytest.mark.parametrize("dtype", [F32, F64], ids=repr)
def test_the_library_does_what_it_can(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it would not be worth it, so that all orders are tried."""
    monkeypatch.setattr(products, "LARGE", 0)
    monkeypatch.setattr(products, "LARGE_IN_PARALLEL", 0)
    sweep(Products(dtype, bias=True), dtype.torch, ORDERS, ORDERS)
    sweep(Products(dtype), dtype.torch, ("rows", "columns"), ("rows", "columns"))


_HELD: list[object] = []
"""Functions whose addresses machine code has, which is kept: another one at the same address would be called."""


def watched_library() -> tuple[list[object], Symbol]:
    """What a library was called with that does nothing, and where it is."""
    called: list[object] = []

    @ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)
    def spy(*operands: int) -> None:
        called.append(operands)

    _HELD.append(spy)
    address = ctypes.cast(spy, ctypes.c_void_p).value
    return called, lambda name: address if name in LIBRARY.values() else None


def test_the_library_does_large_ones() -> None:
    called, symbol = watched_library()
    product = Products(b=(1, None), symbol=symbol)
    for m, k, n, is_large in ((64, 512, 2048, True), (4, 16, 16, False)):
        called.clear()
        out = torch.empty(m, n)
        product.out.hold(out)
        product.a.hold(torch.randn(m, k))
        product.b.hold(torch.randn(n, k).t())
        assert product.run()
        assert bool(called) is is_large


ON_OTHER_PROCESSORS = {
    "columns side by side": ({"b": (None, 1)}, (64, 512, 2048), False),
    "large, columns side by side": ({"b": (None, 1)}, (64, 1024, 2048), True),
    "few rows": ({"b": (1, None)}, (64, 512, 2048), True),
    "many rows": ({"b": (1, None)}, (128, 512, 2048), False),
    "packed": ({"b": (1, None), "packs": True}, (64, 1024, 2048), False),
    "in any order": ({}, (64, 512, 2048), True),
}


@pytest.mark.parametrize(("how", "sizes", "is_left"), ON_OTHER_PROCESSORS.values(), ids=ON_OTHER_PROCESSORS)
def test_the_library_does_less_where_it_is_written_for_other_processors(how, sizes, is_left) -> None:
    called, symbol = watched_library()
    product = Products(symbol=symbol, is_tuned=False, **how)
    m, k, n = sizes
    a, b = torch.randn(m, k), torch.randn(n, k).t() if how.get("b") != (None, 1) else torch.randn(k, n)
    out = torch.empty(m, n)
    for operands, tensor in ((product.out, out), (product.a, a), (product.b, b)):
        operands.hold(tensor)
    assert product.run()
    assert bool(called) is is_left
    if not is_left:
        torch.testing.assert_close(out, a @ b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_large_ones(bias: bool) -> None:
    any_order, by_columns = Products(bias=bias), Products(b=(1, None), bias=bias)
    for a_order, b_order in itertools.product(("rows", "columns", "one row"), ("rows", "columns", "every other")):
        a, b = matrix(130, 400, torch.float32, a_order), matrix(400, 333, torch.float32, b_order)
        for product in (any_order, by_columns) if b_order == "columns" else (any_order,):
            product.check(a, b, torch.randn(333).expand(130, 333) if bias else None)


def test_without_a_library_very_large_ones_are_left_to_others() -> None:
    product = Products(symbol=lambda name: None)
    product.check(torch.randn(130, 400), torch.randn(400, 333))
    out = torch.full((1, 1), 7.0)
    product.out.hold(out)
    product.a.hold(torch.ones(1, 1).expand(1, 1 << 28))
    product.b.hold(torch.ones(1, 1).expand(1 << 28, 1))
    assert not product.run()
    assert out.item() == 7.0


# -- numbers and sizes at the limits


@pytest.mark.parametrize("b", [(None, 1), (1, None), (None, None)], ids=["rows", "columns", "any"])
def test_nothing_to_add_up(b: tuple[int | None, int | None]) -> None:
    order = "columns" if b[0] == 1 else "rows"
    for bias in (False, True):
        product = Products(b=b, bias=bias)
        for m, k, n in ((3, 0, 20), (1, 0, 5), (0, 4, 4), (4, 4, 0), (0, 0, 0)):
            a, matrix_b = torch.randn(m, max(k, 1))[:, :k], matrix(max(k, 1), max(n, 1), torch.float32, order)
            product.check(a, matrix_b[:k, :n], torch.randn(m, max(n, 1))[:, :n] if bias else None)


@pytest.mark.parametrize("m", [1, 3, 4, 9])
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_infinity_and_nan_go_through(m: int, order: str) -> None:
    product = Products(b=(None, 1) if order == "rows" else (1, None), bias=True)
    a, b = matrix(m, 37, torch.float32, "rows"), matrix(37, 70, torch.float32, order)
    a[0, 3], b[3, 5], b[36, 69], b[0, 1] = 0.0, float("inf"), float("nan"), float("-inf")
    bias = torch.zeros(70)
    bias[9] = float("nan")
    out = torch.empty(m, 70)
    for operands, tensor in zip((product.out, product.a, product.b, product.bias), (out, a, b, bias.expand(m, 70))):
        operands.hold(tensor)
    assert product.run()
    assert out[0, 5].isnan() and out[0, 1].isinf() and out[:, 69].isnan().all() and out[:, 9].isnan().all()
    torch.testing.assert_close(out, a @ b + bias, equal_nan=True, rtol=1e-4, atol=1e-4)


def test_nothing_is_read_behind_the_end_of_memory() -> None:
    """Each operand ends where a page ends behind which nobody may read."""
    page, kept = mmap.PAGESIZE, []

    def at_the_end(rows: int, columns: int) -> torch.Tensor:
        area = mmap.mmap(-1, 4 * page)
        kept.append(area)
        start = ctypes.addressof(ctypes.c_char.from_buffer(area))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + 3 * page), page, 0) == 0
        count = rows * columns
        elements = torch.frombuffer(area, dtype=torch.float32, count=count, offset=3 * page - 4 * count)
        return elements.normal_().reshape(rows, columns)

    for b, packs in (((None, 1), False), ((1, None), False), ((None, None), True)):
        product = Products(b=b, bias=True, packs=packs)
        for m, k, n in ((1, 17, 19), (3, 5, 17), (5, 33, 23), (6, 16, 16)):
            second = at_the_end(n, k).t() if b == (1, None) else at_the_end(k, n)
            product.check(at_the_end(m, k), second, at_the_end(m, n))


# -- the text


def test_functions_are_compiled_once() -> None:
    def make() -> KernelCode:
        kc = KernelCode()
        out, a, b = (Operands(kc, F32, (None, None), (None, 1)).place for _ in range(3))
        emit_product(kc, Product(out, a, b), ProductTarget(Heap(kc), symbol))
        return kc

    make()
    before = dict(entry._functions)
    code = make().code
    assert entry._functions == before
    assert not code.helpers
    assert len(code.lines) < 40


def test_functions_that_llvm_refuses_are_no_products() -> None:
    function = FunctionBuilder(ProductVectors(F32)).finished("endless", "i64 %n")
    with pytest.raises(NotNative, match="no machine code for endless"):
        function.call(KernelCode().code, "0")


def test_other_elements_are_refused() -> None:
    kc = KernelCode()
    out, a, b = (Operands(kc, I64, (None, None), (None, 1)).place for _ in range(3))
    with pytest.raises(NotNative, match="matrices of i64"):
        emit_product(kc, Product(out, a, b), ProductTarget(Heap(kc), symbol))
