"""Matrices are packed in front of loops where they stay the same, and products are those that they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_builder import integer, tensor, truth, window
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.ir import types as T
from jitlite.kernels.hoist import FEW, hoist_packing
from jitlite.kernels.loop_ir import (
    F32,
    Alloc,
    Branch,
    Buffer,
    Kernel,
    LoopVariable,
    Owner,
    Pack,
    Place,
    Product,
    Repeat,
    Statement,
)
from jitlite.kernels.printing import text_of
from jitlite.kernels.statement_walks import all_statements
from jitlite.kernels.verify import KernelError, verify


def recurrent(xs: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tensor:
    h = h + 1.0
    for t in range(xs.size(0)):
        h = torch.relu(torch.mm(xs[t], w.t()) - torch.mm(h, u.t()))
    return h


def rows(xs: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tensor:
    h = h + 1.0
    for t in range(xs.size(0)):
        h = torch.relu(torch.mm(xs[t], w) - torch.mm(h, u))
    return h


def changes(xs: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tensor:
    h, u = h + 1.0, u + 1.0
    for t in range(xs.size(0)):
        u = u * 0.5
        h = torch.mm(h, u.t()) + xs[t]
    return h


def part(xs: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tensor:
    h = h + 1.0
    for t in range(xs.size(0)):
        h = torch.mm(h, xs[t].t()) * 0.1
    return h


def inputs(steps: int, rows: int, size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    made = [torch.randn(*s, dtype=dtype) for s in ((steps, rows, size), (rows, size), (size, size), (size, size))]
    return (*made[:2], *(w / size for w in made[2:]))


def run(function: Callable[..., Tensor], *sizes: tuple[int, int, int], dtype: torch.dtype = torch.float32) -> Kernel:
    """What a function becomes; it is held to eager Python for all sizes."""
    with options.override(native="now"):
        scripted = jitlite.script(function)
        for each in sizes:
            given = inputs(*each, dtype)
            torch.testing.assert_close(scripted(*given), function(*given))
        (region,) = scripted.executor.general.regions
    state: Any = region.implementation
    assert state.runs == len(sizes), state.status
    kernel: Kernel = state.kernels[-1].kernel  # the first one
    return kernel


def packs(kernel: Kernel) -> list[str]:
    return [line.strip() for line in text_of(kernel).splitlines() if line.strip().startswith("pack ")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transposed_arguments_are_packed_once(dtype: torch.dtype) -> None:
    kernel = run(recurrent, (5, 3, 17), (9, 2, 40), (FEW + 1, 6, 33), (FEW, 6, 33), (1, 2, 9), dtype=dtype)
    assert len(packs(kernel)) == 2
    products = [s for s in all_statements(kernel.body) if isinstance(s, Product)]
    assert all(product.packed in kernel.body for product in products)


@pytest.mark.parametrize("function", [rows, changes])
def test_others_are_not_packed(function: Callable[..., Tensor]) -> None:
    assert not packs(run(function, (5, 3, 17)))


def test_what_an_iteration_indexes_is_not_packed() -> None:
    assert not packs(run(part, (5, 17, 17)))


# -- by hand

n = integer("n")
a, w = tensor(0, "a", n, 4), tensor(1, "w", 8, 4)
TURNED = Place(w.buffer, 0, (4, 8), (1, 4))


def product(b: Place) -> Product:
    return Product(window(a.buffer, n, 8), window(a.buffer, n, 4), b)


def hoisted(*body: Statement, count: int | None = None, goes_on: LoopVariable | None = None) -> list[Statement]:
    many = n if count is None else count
    kernel = Kernel("k", [a, w], body=[Repeat(integer("i"), many, goes_on, list(body), 1)])
    hoist_packing(kernel)
    return kernel.body


def kinds(statements: list[Statement]) -> list[str]:
    return [type(statement).__name__ for statement in statements]


def test_one_matrix_is_packed_once_however_deep() -> None:
    inner = Repeat(integer("j"), 2, None, [product(TURNED)], 2)
    found = hoisted(product(TURNED), Branch(truth("ok"), [product(TURNED)], [inner]))
    assert kinds(found) == ["SizeArithmetic", "Pack", "Repeat"]
    made = [s.packed for s in all_statements(found) if isinstance(s, Product)]
    assert made == [found[1]] * 3


def test_numbers_of_iterations_that_are_known() -> None:
    assert kinds(hoisted(product(TURNED), count=FEW)) == ["Repeat"]
    pack, _ = hoisted(product(TURNED), count=FEW + 1)
    assert isinstance(pack, Pack)
    assert pack.condition is True


@pytest.mark.parametrize(
    "b",
    [
        Place(w.buffer, 4, (4, 7), (1, 4)),  # a part
        Place(w.buffer, 0, (4, 7), (1, 4)),
        Place(w.buffer, 0, (4, 8), (8, 1)),  # its columns lie side by side
        Place(w.buffer, 0, (4, 1), (1, 4)),  # one column
        Place(tensor(2, "v", 8, 4).buffer, 0, (4, 8), (1, 4)),  # not an argument
    ],
)
def test_what_is_not_packed(b: Place) -> None:
    assert kinds(hoisted(product(b))) == ["Repeat"]


def test_loops_that_may_end_at_once_pack_nothing() -> None:
    assert kinds(hoisted(product(TURNED), goes_on=LoopVariable("go", T.BOOL))) == ["Repeat"]


# -- the verifier


def test_packs_are_verified() -> None:
    verify(Kernel("k", [a, w], body=hoisted(*_made(), count=8)))
    pack = Pack(TURNED, True)
    own = Buffer("own", F32, Owner.ARENA)
    turned_own = Place(own, 0, (4, 8), (1, 4))
    wrong = {
        "b is not packed before": [*_made(pack)],
        "another matrix is packed": [Pack(TURNED, True), pack, *_made(pack, Place(w.buffer, 0, (4, 8), (2, 4)))],
        "own may be written after it is packed": [Alloc(own, (8, 4)), Pack(turned_own, True)],
        "what an iteration packs is gone at its end": [Repeat(integer("i"), 2, None, [pack], 1)],
    }
    for message, body in wrong.items():
        with pytest.raises(KernelError, match=message):
            verify(Kernel("k", [a, w], body=body))


def _made(packed: Pack | None = None, b: Place = TURNED) -> list[Statement]:
    out = Buffer("out", F32, Owner.ARENA)
    into = Place(out, 0, (n, 8), (8, 1))
    return [Alloc(out, (n, 8)), Product(into, window(a.buffer, n, 4), b, packed=packed)]
