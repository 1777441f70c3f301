"""Buffers take the memory of those that nobody reads any more, and kernels compute what they did."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernel_builder import arena, integer, tensor, truth, window
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.kernels.loop_ir import (
    F32,
    F64,
    Alloc,
    Bind,
    Branch,
    Buffer,
    Free,
    Kernel,
    Owner,
    Product,
    Repeat,
    Statement,
    Swap,
)
from jitlite.kernels.printing import text_of
from jitlite.kernels.reuse import reuse_memory
from jitlite.kernels.statement_walks import all_statements
from jitlite.kernels.verify import KernelError, verify


def layers(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    for _ in range(3):
        x = x + torch.mm(torch.tanh(torch.mm(x, w)), v)
    a = torch.mm(torch.tanh(torch.mm(x, w)), v)
    b = torch.mm(torch.tanh(torch.mm(a, w)), v)
    c = torch.mm(torch.tanh(torch.mm(b, w)), v)
    return torch.mm(torch.tanh(torch.mm(c, w)), v) + a


def branches(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    h = torch.mm(x, w)
    if bool(h.sum() > 0.0):
        y = torch.mm(h.relu(), v)
        y = torch.mm(torch.mm(y, w), v)
        y = torch.mm(torch.mm(y.relu(), w), v)
    else:
        y = torch.mm(torch.mm(x - 1.0, w), v)
    return torch.mm(torch.mm(y, w), v) + torch.mm(h, v)


def carried(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    total = torch.mm(torch.mm(x, w), v)
    before = x
    for i in range(x.size(0)):
        step = torch.mm(torch.mm(total, w).tanh(), v)
        other = torch.mm(torch.mm(step, w).tanh(), v)
        if i % 2 == 0:
            total, before = torch.mm(torch.mm(other, w).tanh(), v) + before, total * 0.5
    return torch.mm(torch.mm(total - before, w), v)


@pytest.mark.parametrize("function", [layers, branches, carried])
@pytest.mark.parametrize("size", [(4, 4, 4), (5, 3, 7), (1, 2, 1), (33, 40, 17), (0, 3, 3)])
def test_results_are_the_same(function: Callable[..., Tensor], size: tuple[int, int, int]) -> None:
    m, n, k = size
    for factor in (0.5, -0.5):
        x = torch.randn(m, n)
        w, v = torch.randn(n, k) * factor / (n + 1) ** 0.5, torch.randn(k, n) / (k + 1) ** 0.5
        with torch.no_grad(), options.override(native="now", verify=True):
            scripted = jitlite.script(function)
            for _ in range(3):
                torch.testing.assert_close(scripted(x, w, v), function(x, w, v), rtol=1e-3, atol=1e-4)


def test_layers_compute_in_the_memory_of_earlier_ones() -> None:
    with torch.no_grad(), options.override(native="now"):
        scripted = jitlite.script(layers)
        scripted(torch.randn(5, 3), torch.randn(3, 7), torch.randn(7, 3))
        text = scripted.kernels
    assert str(text).count("in the memory of") >= 4


# -- by hand

n = integer("n")
x, w = tensor(0, "x", n, 4), tensor(1, "w", 4, 4)


def alloc(buffer: Buffer, rows: object = n, level: int = 0) -> Alloc:
    return Alloc(buffer, (rows, 4), level=level)  # type: ignore[arg-type]


def product(out: Buffer, a: Buffer) -> Product:
    return Product(window(out, n, 4), window(a, n, 4), window(w.buffer, 4, 4))


def reused(*body: Statement) -> dict[str, str]:
    """By the name of a buffer, that of the one whose memory it takes."""
    kernel = Kernel("k", [x, w], body=list(body))
    reuse_memory(kernel)
    allocs = [s for s in all_statements(kernel.body) if isinstance(s, Alloc)]
    return {s.buffer.name: s.reuses.name for s in allocs if s.reuses is not None}


def chain(*buffers: Buffer) -> list[Statement]:
    """Each buffer is computed from the one before."""
    body: list[Statement] = []
    before = x.buffer
    for buffer in buffers:
        body += [alloc(buffer), product(buffer, before)]
        before = buffer
    return body


def test_two_pieces_are_enough_for_a_chain() -> None:
    assert reused(*chain(*map(arena, "abcde"))) == {"c": "a", "d": "b", "e": "c"}


def test_what_is_read_later_keeps_its_memory() -> None:
    a, b, c, d = map(arena, "abcd")
    assert reused(*chain(a, b, c), product(c, a)) == {}
    assert reused(*chain(a, b, c), alloc(d), product(d, a)) == {"d": "c"}


def test_memory_that_two_buffers_have_is_kept() -> None:
    a, b, c, d, e = map(arena, "abcde")
    alias = Buffer("alias", F32, Owner.ALIAS)
    assert reused(*chain(a, b), Bind(alias, a), *chain(c, d), product(d, alias)) == {"c": "b"}
    assert reused(*chain(a, b), Swap(a, b), *chain(c, d, e)) == {"e": "c"}


def test_only_as_much_memory_of_the_same_life() -> None:
    a, b, c = map(arena, "abc")
    double = Buffer("double", F64, Owner.ARENA)
    assert reused(*chain(a, b), alloc(c, rows=8)) == {}
    assert reused(*chain(a, b), alloc(double)) == {}
    assert reused(*chain(a, b), Repeat(integer("i"), n, None, [alloc(c, level=1), product(c, b)], 1)) == {}


def test_results_neither_give_nor_take() -> None:
    a, b, out, d = arena("a"), arena("b"), Buffer("out", F32, Owner.RESULT), arena("d")
    assert reused(*chain(a, b, out), alloc(d)) == {"d": "b"}
    assert reused(*chain(out, a, b), alloc(d)) == {"d": "b"}


def test_an_iteration_gives_to_itself_only() -> None:
    a, b, c, d = map(arena, "abcd")

    def body(*statements: Statement) -> Repeat:
        return Repeat(integer("i"), n, None, list(statements), 1)

    ones = [alloc(b, level=1), product(b, a), alloc(c, level=1), product(c, b), alloc(d, level=1), product(d, c)]
    assert reused(*chain(a), body(*ones)) == {"d": "b"}
    assert reused(*chain(a), body(product(b, a), *ones)) == {}, "b is what the iteration before left"
    assert reused(*chain(a), body(*ones), product(a, b)) == {}


def test_branches_give_within_themselves() -> None:
    a, b, c, d, e = map(arena, "abcde")
    then = [alloc(b), product(b, a), alloc(c), product(c, b), alloc(d), product(d, c)]
    assert reused(*chain(a), Branch(truth("ok"), then, [alloc(e), product(e, a)])) == {"d": "b"}
    assert reused(*chain(a), Branch(truth("ok"), then, []), product(a, b)) == {}


def test_what_nobody_takes_is_freed_where_memory_is_taken_later() -> None:
    a, b, c, d = map(arena, "abcd")
    kernel = Kernel("k", [x, w], body=[*chain(a, b), alloc(c, rows=8), *chain(d)])
    reuse_memory(kernel)
    verify(kernel)
    assert text_of(kernel).count("free ") == 1, "c may have it"
    kernel = Kernel("k", [x, w], body=[*chain(a, b), alloc(c, rows=8), alloc(d, rows=16), product(d, c)])
    reuse_memory(kernel)
    verify(kernel)
    assert text_of(kernel).count("free ") == 2


def test_the_verifier_finds_what_is_read_after_its_memory_was_given_away() -> None:
    a, b, c = map(arena, "abc")
    right = Kernel("k", [x, w], body=[*chain(a, b), Alloc(c, (n, 4), reuses=a), product(c, b)])
    verify(right)
    assert "alloc c : f32[%n, 4] in the memory of a" in text_of(right)
    wrong = [
        [*chain(a, b), Alloc(c, (n, 4), reuses=a), product(c, a)],
        [*chain(a, b), Alloc(c, (n, 8), reuses=a), product(c, b)],
        [*chain(a), Alloc(c, (n, 4), reuses=x.buffer), product(c, a)],
        [*chain(a), Alloc(c, (n, 4), reuses=b), product(c, a)],
        [*chain(a, b), Free(a, (n, 4), 0), alloc(c), product(c, a)],
        [*chain(a, b), Free(a, (n, 8), 0), alloc(c), product(c, b)],
        [*chain(a, b), Free(x.buffer, (n, 4), 0), alloc(c), product(c, b)],
    ]
    for body in wrong:
        with pytest.raises(KernelError):
            verify(Kernel("k", [x, w], body=body))
