"""Kernels as text. The cases are examples of each statement, in the order in which one would learn them."""

from __future__ import annotations

import textwrap

import torch
from kernel_builder import apply, arena, contiguous, integer, load, number, result, tensor, truth, window

from jitlite.base.records import replace
from jitlite.ir import types as T
from jitlite.ir.parser import parse
from jitlite.kernels.loop_ir import (
    BOOL,
    F32,
    F64,
    I64,
    Alloc,
    Bind,
    Boxed,
    Branch,
    Buffer,
    Check,
    Convert,
    DtypeInput,
    Fill,
    Gather,
    Get,
    Given,
    Kernel,
    LaneCast,
    LoopVariable,
    Nest,
    NewTensor,
    NodeOperation,
    NoneInput,
    Output,
    Owner,
    Place,
    Position,
    Product,
    Read,
    Reduce,
    Repeat,
    ScalarInput,
    Set,
    SizeArithmetic,
    Sort,
    Statement,
    Store,
    Swap,
)
from jitlite.kernels.printing import lines_of, text_of

a, b, c = arena("a"), arena("b"), arena("c")
i, m, n = integer("i"), integer("m"), integer("n")


def shows(text: str, *statements: Statement) -> None:
    assert "\n".join(lines_of(statements)) == textwrap.dedent(text).strip("\n")


def test_a_kernel_names_what_it_takes_and_what_it_gives() -> None:
    x, y, by = tensor(0, "x", n, 4), tensor(1, "y", 4, n, strides=(1, integer("s"))), number("by")
    weight = replace(tensor(-1, "w", 2, 3, dtype=F64), held=torch.zeros(2, 3, dtype=torch.float64))
    out = result("out")
    scaled = apply("mul", load(x.buffer, n, 4), Fill(F32, by))
    outputs: list[Output] = [NewTensor(out), Given(0), (Boxed(3, T.INT), Boxed(None, T.NONE))]
    kernel = Kernel(
        "scale",
        [
            weight,
            x,
            y,
            ScalarInput(2, by),
            ScalarInput(3, number("xs"), is_outside=True),
            NoneInput(4),
            DtypeInput(5, I64),
        ],
        torch.float64,
        [Alloc(out, (n, 4)), Nest((n, 4), (Store(window(out, n, 4), scaled),))],
        outputs,
        gives_tuple=True,
    )
    assert text_of(kernel) == textwrap.dedent(
        """\
        kernel scale:
          held: w : f64[2, 3] dense
          argument 0: x : f32[%n, 4] dense
          argument 1: y : f32[4, %n] strides [1, %s]
          argument 2: %by : float
          argument 3: %xs : float outside
          argument 4: none
          argument 5: dtype i64
          default dtype f64
          alloc result out : f32[%n, 4]
          nest i0 < %n, i1 < 4:  # parallel: i0
            out[i0*4 + i1] = mul(load x[i0*4 + i1], f32(%by))
          give (out, argument 0, (3, none))
        """
    )


def test_one_output_stands_alone() -> None:
    assert text_of(Kernel("f", outputs=[Given(0)])).endswith("\n  give argument 0\n")
    assert text_of(Kernel("f", outputs=[Given(0)], gives_tuple=True)).endswith("\n  give (argument 0,)\n")


# -- lanes


def test_elements_are_shown_by_where_they_are() -> None:
    """A stride of 0 broadcasts, so the index does not show."""
    shows(
        """
        nest i0 < %n, i1 < 8:  # parallel: i0
          b[8 + i0*16 + i1] = add(load a[%m + i0*%i], load c[0])
        """,
        Nest(
            (n, 8),
            (
                Store(
                    window(b, n, 8, strides=(16, 1), offset=8),
                    apply("add", load(a, n, 8, strides=(i, 0), offset=m), load(c, n, 8, strides=(0, 0))),
                ),
            ),
        ),
    )


def test_what_is_used_twice_has_a_name() -> None:
    e = apply("exp", load(a, n))
    total = apply("add", e, Fill(F32, 1.0))
    shows(
        """
        nest i0 < %n:  # parallel: i0
          t0 = exp(load a[i0])
          t1 = add(t0, 1.0)
          b[i0] = div(t0, t1)
          c[i0] = log(t1)
        """,
        Nest((n,), (Store(window(b, n), apply("div", e, total)), Store(window(c, n), apply("log", total)))),
    )


def test_types_are_shown_where_they_change() -> None:
    found = apply("where", LaneCast(BOOL, load(a, n)), Fill(F32, 2), LaneCast(F32, Position(I64, 0)))
    shows(
        """
        nest i0 < %n:  # parallel: i0
          b[i0] = where(bool(load a[i0]), f32(2), f32(i0))
        """,
        Nest((n,), (Store(window(b, n), found),)),
    )


def test_gathers_say_how_far_indices_reach() -> None:
    table, index = window(a, n, 8), load(arena("ids", I64), m, 8, strides=(1, 0))
    shows(
        """
        nest i0 < %m, i1 < 8:  # parallel: i0
          b[i0*8 + i1] = gather a[load ids[i0] of %n by 8, i1 of 8 by 1]
        """,
        Nest((m, 8), (Store(window(b, m, 8), Gather(F32, table, (index, 1))),)),
    )
    shows(
        """
        nest i0 < 8:
          b[i0] = gather a from %i[%m of %n by 8, i0 of 8 by 1] from 0 on
        """,
        Nest((8,), (Store(window(b, 8), Gather(F32, Place(a, i, (n, 8), (8, 1)), (Fill(I64, m), 0), wraps=False)),)),
    )


# -- statements over elements


def test_reductions_name_the_indices_that_they_run_over() -> None:
    lane = apply("abs", load(a, n, 8))
    shows(
        """
        reduce i0 < %n, i1 < 8:  # parallel: i0
          b[i0] = sum over i1 of abs(load a[i0*8 + i1])
        reduce i0 < %n, i1 < 8:
          b[i1], p[i1] = amax over i0 of abs(load a[i0*8 + i1])
        """,
        Reduce((n, 8), frozenset([1]), "sum", lane, window(b, n, 1, strides=(1, 0))),
        Reduce(
            (n, 8),
            frozenset([0]),
            "amax",
            lane,
            window(b, 1, 8, strides=(0, 1)),
            window(arena("p", I64), 1, 8, strides=(0, 1)),
        ),
    )


def test_products_are_sums_over_k() -> None:
    shows(
        """
        product m < %m, n < 8, k < 4:
          c[m*8 + n] = sum over k of a[m*4 + k] * w[k + n*4] + b[n]
        product m < %m, n < 8, k < 4:
          c[m*8 + n] = sum over k of a[m*4 + k] * w[k*8 + n]
        """,
        Product(
            window(c, m, 8),
            window(a, m, 4),
            window(arena("w"), 4, 8, strides=(1, 4)),
            window(b, m, 8, strides=(0, 1)),
        ),
        Product(window(c, m, 8), window(a, m, 4), window(arena("w"), 4, 8)),
    )


def test_sorts_say_of_how_many_how_many_are_wanted() -> None:
    shows(
        """
        sort i0 < %m:
          where[i0*3 + ...] = topk 3 of 8 in keys[i0*8 + ...]
        """,
        Sort(window(arena("keys", I64), m, 8), window(arena("where", I64), m, 3), "topk"),
    )


def test_memory() -> None:
    shows(
        """
        alloc a : f32[%n, 3]
        alloc b : f32[] until the end of loop 2
        alloc result r : f32[%n, 3] strides [1, %n]
        bind v = a[%m]
        swap a, b
        %x = load a[%i]
        """,
        Alloc(a, (n, 3)),
        Alloc(b, (), level=2),
        Alloc(result("r"), (n, 3), (1, n)),
        Bind(Buffer("v", F32, Owner.ALIAS), a, m),
        Swap(a, b),
        Read(number("x"), Place(a, i, (), ())),
    )


# -- scalars and control flow


def test_scalars() -> None:
    graph = parse("graph(%x : float, %y : float):\n  %z : float = aten::mul(%x, %y)\n  return (%z)\n")
    shows(
        """
        %z = aten::mul(%x, 2.0)
        %n = mul %m, 4
        %y = float(%n)
        check %ok  # sizes differ
        %x = $v
        $v = 1.5
        """,
        NodeOperation(next(iter(graph.nodes)), (number("x"), 2.0), (number("z"),)),
        SizeArithmetic(n, "mul", (m, 4)),
        Convert(number("y"), n),
        Check(truth("ok"), "sizes differ"),
        Get(number("x"), LoopVariable("v", T.FLOAT)),
        Set(LoopVariable("v", T.FLOAT), 1.5),
    )


def test_control_flow() -> None:
    go, count = LoopVariable("go", T.BOOL), LoopVariable("count", T.INT)
    shows(
        """
        loop %i < %n while $go:  # loop 1
          if %ok:
            $go = False
          else:
            $count = %i
        loop %i < 3:  # loop 1, never looks at signals, frees lists
          if %ok:
            pass
        """,
        Repeat(i, n, go, [Branch(truth("ok"), [Set(go, False)], [Set(count, i)])], 1),
        Repeat(i, 3, None, [Branch(truth("ok"), [], [])], 1, polls=False, frees=True),
    )


def test_contiguous_strides_of_the_builder() -> None:
    assert contiguous(n, 3, 4) == (12, 4, 1) and contiguous() == ()
