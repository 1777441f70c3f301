"""The verifier of kernels accepts what is right, and names what is wrong when something is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from kernel_builder import apply, arena, integer, load, number, result, tensor, truth, window

from jitlite.base.records import replace
from jitlite.ir import types as T
from jitlite.ir.parser import parse
from jitlite.kernels.loop_ir import (
    BOOL,
    F32,
    F64,
    I64,
    Alloc,
    Argument,
    Bind,
    Boxed,
    Branch,
    Buffer,
    Check,
    Convert,
    Fill,
    Gather,
    Get,
    Given,
    Kernel,
    Lane,
    LaneCast,
    LaneOperator,
    Load,
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
from jitlite.kernels.verify import KernelError, verify

n, m, i, x, ok = integer("n"), integer("m"), integer("i"), number("x"), truth("ok")
go, count = LoopVariable("go", T.BOOL), LoopVariable("count", T.INT)
a, b, c = arena("a"), arena("b"), arena("c")
given = tensor(0, "given", n, 4)
ids = tensor(1, "ids", n, dtype=I64)
view = Buffer("view", F32, Owner.ALIAS)
ARGUMENTS: list[Argument] = [given, ids, ScalarInput(2, x), ScalarInput(3, ok), NoneInput(4)]
A, B = Alloc(a, (n, 4)), Alloc(b, (n, 4))
MULTIPLY = next(iter(parse("graph(%x : int, %y : int):\n  %z : int = aten::mul(%x, %y)\n  return (%z)\n").nodes))


def kernel(*statements: Statement, outputs: Sequence[Output] = (), arguments: Sequence[Argument] = ARGUMENTS) -> Kernel:
    return Kernel("k", list(arguments), None, list(statements), list(outputs))


def stored(lane: Lane, to: Buffer = a, *, sizes: tuple[Any, ...] = (n, 4)) -> Nest:
    return Nest(sizes, (Store(window(to, *sizes), lane),))


def wrong(message: str, *statements: Statement, **others: Any) -> None:
    with pytest.raises(KernelError, match=re.escape(message)):
        verify(kernel(*statements, **others))


SOURCE = load(given.buffer, n, 4)


def test_a_right_kernel_is_right() -> None:
    out, inner, last = result("out"), arena("inner"), integer("last")
    index = load(ids.buffer, n, 4, strides=(1, 0))
    verify(
        kernel(
            A,
            B,
            stored(Gather(F32, window(given.buffer, n, 4), (index, 1))),
            Set(go, True),
            Set(count, 0),
            Repeat(
                i,
                10,
                go,
                [
                    Alloc(inner, (n, 1), level=1),
                    Reduce((n, 4), frozenset([1]), "amax", load(a, n, 4), window(inner, n, 1, strides=(1, 0))),
                    stored(apply("sub", load(a, n, 4), load(inner, n, 4, strides=(1, 0))), b),
                    Swap(a, b),
                    Read(number("first"), Place(a, i, (), ())),
                    Branch(ok, [Set(go, False)], [Bind(view, a, 1)]),
                ],
                1,
            ),
            Get(last, count),
            Alloc(out, (n, 4)),
            Product(window(out, n, 4), window(a, n, 4), window(b, 4, 4), window(given.buffer, n, 4)),
            outputs=[NewTensor(out), Given(0), (Boxed(last, T.INT), Boxed(None, T.NONE))],
        )
    )


def test_the_message_shows_the_statement() -> None:
    with pytest.raises(KernelError) as error:
        verify(kernel(SizeArithmetic(m, "add", (i, 1))))
    assert str(error.value) == "k: %i is not computed on every path to here\n  %m = add %i, 1"


# -- what has to be there


def test_scalars_are_computed_before() -> None:
    missing = "%i is not computed on every path to here"
    wrong(missing, A, stored(Fill(F32, i)))
    wrong(missing, Alloc(a, (i,)))
    wrong(missing, A, Read(number("y"), Place(a, i, (), ())))
    wrong(missing, A, stored(load(a, n, 4, strides=(i, 1))))
    wrong(missing, Set(count, i))
    wrong(missing, NodeOperation(MULTIPLY, (i, 2), (m,)))
    wrong(missing, Repeat(integer("j"), i, None, [], 1))
    wrong(missing, outputs=[Boxed(i, T.INT)])
    wrong(missing, Branch(ok, [SizeArithmetic(i, "add", (n, 1))], []), SizeArithmetic(m, "add", (i, 1)))
    wrong(missing, Repeat(i, 2, None, [], 1), SizeArithmetic(m, "add", (i, 1)))


def test_scalars_are_computed_once() -> None:
    wrong("%m is computed a second time", SizeArithmetic(m, "add", (n, 1)), Convert(m, 1.0))
    wrong("%n is computed a second time", SizeArithmetic(n, "add", (1, 1)))


def test_variables_are_set_before() -> None:
    missing = "$count is not set on every path to here"
    wrong(missing, Get(m, count))
    wrong(missing, Branch(ok, [Set(count, 1)], []), Get(m, count))
    wrong(missing, Repeat(i, 2, None, [Set(count, i)], 1), Get(m, count))
    wrong("$go is not set on every path to here", Repeat(i, 2, go, [Set(go, True)], 1))
    verify(kernel(Branch(ok, [Set(count, 1)], [Set(count, 2)]), Get(m, count)))


def test_memory_is_there_before() -> None:
    missing = "a has no memory on every path to here"
    wrong(missing, stored(SOURCE))
    wrong(missing, B, stored(load(a, n, 4), b))
    wrong(missing, Branch(ok, [A], []), stored(SOURCE))
    wrong(missing, Repeat(i, 2, None, [A], 1), stored(SOURCE))
    wrong(missing, Bind(view, a))
    wrong(missing, B, Swap(a, b))
    wrong("out has no memory on every path to here", outputs=[NewTensor(result("out"))])
    verify(kernel(Branch(ok, [A], [A]), stored(SOURCE)))


def test_memory_of_an_iteration_is_not_used_behind_it() -> None:
    inner = Alloc(b, (n, 4), level=1)
    gone = "a has no memory on every path to here"
    wrong(gone, A, Repeat(i, 2, None, [inner, Swap(a, b)], 1), stored(SOURCE))
    wrong(gone, A, Repeat(i, 2, None, [stored(SOURCE), inner, Swap(a, b)], 1))
    wrong("view has no memory on every path to here", A, Bind(view, a),
          Repeat(i, 2, None, [inner, Bind(view, b)], 1), stored(load(view, n, 4)))  # fmt: skip
    verify(kernel(A, Repeat(i, 2, None, [inner, stored(SOURCE, b), Swap(a, b), Swap(a, b)], 1), stored(SOURCE)))
    wrong("there is no loop 1 here", inner)


# -- what may be written


def test_only_own_memory_is_written() -> None:
    wrong("given may be memory of an argument, and is written", stored(Fill(F32, 1.0), given.buffer))
    wrong("view may be memory of an argument", Bind(view, given.buffer), stored(Fill(F32, 1.0), view))
    either = Branch(ok, [A, Bind(view, a)], [Bind(view, given.buffer)])
    wrong("view may be memory of an argument", either, stored(Fill(F32, 1.0), view))
    verify(kernel(either, A, stored(load(view, n, 4))))
    verify(kernel(A, Bind(view, a), stored(Fill(F32, 1.0), view)))


def test_buffers_get_memory_as_their_owner_says() -> None:
    wrong("given has argument memory", Alloc(given.buffer, (n, 4)))
    wrong("a has arena memory, and cannot be bound", A, Bind(a, given.buffer))
    wrong("given has argument memory", A, Swap(a, given.buffer))
    wrong("a and d have different types", A, Alloc(d := arena("d", F64), (n,)), Swap(a, d))
    wrong("view and d have different types", Alloc(d, (n,)), Bind(view, d))
    wrong("out is a result, and does not end", Repeat(i, 2, None, [Alloc(result("out"), (n,), level=1)], 1))


# -- shapes and types


def test_places_have_the_rank_of_their_nest() -> None:
    wrong("a has 1 dimensions here and not 2", A, Nest((n, 4), (Store(window(a, n), SOURCE),)))
    wrong("given has 2 dimensions here and not 1", A, stored(SOURCE, sizes=(n,)))
    wrong("a has 1 dimensions here and not 0", A, Read(number("y"), window(a, n)))
    wrong("a place in a has 2 sizes and 1 strides", A, stored(load(a, n, 4, strides=(1,))))
    wrong("there is no i2 here", A, stored(LaneCast(F32, Position(I64, 2))))


def test_lanes_have_types_that_fit() -> None:
    wrong("given has elements of f32, not f64", A, stored(Load(F64, window(given.buffer, n, 4))))
    wrong("values of i64 are stored in a, which is of f32", A, stored(Position(I64, 0)))
    wrong("there is no add of f32, i64", A, stored(LaneOperator(F32, "add", (SOURCE, Position(I64, 0)))))
    wrong("there is no operator juggle of 1 operands", A, stored(LaneOperator(F32, "juggle", (SOURCE,))))
    wrong("lt gives bool, not f32", A, stored(LaneOperator(F32, "lt", (SOURCE, SOURCE))))
    wrong("i0 is no f32", A, stored(Position(F32, 0)))
    numbers = replace(n, name="l", type=T.ListType.of(T.INT))
    arguments = [*ARGUMENTS, ScalarInput(5, numbers)]
    wrong("%l is int[], and no number", A, stored(Fill(F32, numbers)), arguments=arguments)


def test_gathers_have_an_index_for_each_dimension() -> None:
    place, index = window(given.buffer, n, 4), load(ids.buffer, n, 4, strides=(1, 0))
    wrong("given has 2 dimensions and 1 indices", A, stored(Gather(F32, place, (index,))))
    wrong("there is no i7 here", A, stored(Gather(F32, place, (index, 7))))
    wrong("an index is f32, not i64", A, stored(Gather(F32, place, (SOURCE, 1))))
    wrong("given has elements of f32, not i64", A, stored(LaneCast(F32, Gather(I64, place, (index, 1)))))


def test_reductions_fit() -> None:
    over = frozenset([1])
    place = window(a, n, 1, strides=(1, 0))
    wrong("dimension 1 is reduced, but not of size 1", A, Reduce((n, 4), over, "sum", SOURCE, window(a, n, 4)))
    wrong("juggle is no reduction", A, Reduce((n, 4), over, "juggle", SOURCE, place))
    wrong("there are only 2 dimensions", A, Reduce((n, 4), frozenset([2]), "sum", SOURCE, place))
    wrong("any takes bools", A, Reduce((n, 4), over, "any", SOURCE, place))
    wrong("values of i64 are stored in a", A, Reduce((n, 4), over, "argmax", SOURCE, place))
    wrong("values of i64 are stored in b", A, B,
          Reduce((n, 4), over, "amax", SOURCE, place, window(b, n, 1, strides=(1, 0))))  # fmt: skip
    where = arena("where", I64)
    wrong("sum over 1 dimensions has no positions", A, Alloc(where, (n,)),
          Reduce((n, 4), over, "sum", SOURCE, place, window(where, n, 1, strides=(1, 0))))  # fmt: skip


def test_products_fit() -> None:
    out = window(a, n, 4)
    wrong("the sizes 4 and 5 differ", A, B, Product(out, window(b, n, 4), window(b, 5, 4)))
    wrong("the sizes 4 and 3 differ", A, B, Product(out, window(b, n, 4), window(b, 4, 3)))
    wrong("do not lie side by side", A, B, Product(window(a, n, 4, strides=(1, n)), window(b, n, 4), window(b, 4, 4)))
    wrong("a matrix has two dimensions", A, B, Product(out, window(b, n, 4), window(b, 4)))
    wrong("the types of the matrices differ", A, Alloc(d := arena("d", F64), (n, 4)),
          Product(out, window(d, n, 4), window(given.buffer, 4, 4)))  # fmt: skip


def test_sorts_fit() -> None:
    keys, where = Alloc(arena("keys", I64), (n, 4)), Alloc(arena("where", I64), (n, 4))
    rows, into = window(keys.buffer, n, 4), window(where.buffer, n, 4)
    wrong("keys are f32, not i64", A, where, Sort(window(a, n, 4), into, "stable"))
    wrong("of i64 are stored in a, which is of f32", A, keys, Sort(rows, window(a, n, 4), "stable"))
    wrong("quick is no way to sort", keys, where, Sort(rows, into, "quick"))
    wrong("the sizes 4 and 3 differ", keys, where, Sort(rows, window(where.buffer, n, 3), "stable"))
    wrong("the sizes 5 and 4 differ", keys, where, Sort(window(keys.buffer, 5, 4), window(where.buffer, 4, 4), "topk"))
    wrong("the rows of keys have gaps", keys, where, Sort(window(keys.buffer, n, 4, strides=(1, n)), into, "topk"))
    wrong("rows are those of a matrix", keys, where, Sort(window(keys.buffer, n), into, "topk"))


def test_scalars_have_types_that_fit() -> None:
    wrong("%m is bool, not int", SizeArithmetic(truth("m"), "add", (n, 1)))
    wrong("add takes ints", SizeArithmetic(m, "add", (n, 1.5)))
    wrong("and takes bools", SizeArithmetic(ok, "and", (n, True)))
    wrong("not has one operands", SizeArithmetic(ok, "not", (True, True)))
    wrong("juggle is no arithmetic", SizeArithmetic(m, "juggle", (n, 1)))
    wrong("eq takes two values of one type", SizeArithmetic(truth("q"), "eq", (n, True)))
    wrong("%n is int, not bool", Check(n, ""))
    wrong("%n is int, not bool", Branch(n, [], []))
    wrong("1.5 is float, not int", Set(count, 1.5))
    wrong("%x is float, not int", Alloc(a, (x,)))
    wrong("aten::mul has 2 inputs", NodeOperation(MULTIPLY, (n,), (m,)))
    wrong("aten::mul has 1 outputs", NodeOperation(MULTIPLY, (n, n), ()))
    wrong("%m is float, not int", NodeOperation(MULTIPLY, (n, n), (number("m"),)))
    wrong("%y is int, not float", A, Read(integer("y"), Place(a, 0, (), ())))
    wrong("%q is int, not float", Set(v := LoopVariable("v", T.FLOAT), 1.0), Get(integer("q"), v))


def test_loops_know_how_deep_they_are() -> None:
    wrong("this is loop 1, not 2", Repeat(i, 2, None, [], 2))
    wrong("this is loop 2, not 1", Repeat(i, 2, None, [Repeat(integer("j"), 2, None, [], 1)], 1))
    wrong("$count is no bool", Set(count, 1), Repeat(i, 2, count, [], 1))


# -- the border


def test_arguments_and_results() -> None:
    out = result("out")
    wrong("there is no argument 9 to give back", outputs=[Given(9)])
    wrong("a is given but is no result", A, outputs=[NewTensor(a)])
    wrong("out is given twice", Alloc(out, (n,)), outputs=[NewTensor(out), (NewTensor(out),)])
    wrong("%n is int, not bool", outputs=[Boxed(n, T.BOOL)])
    wrong("two arguments are at one position", arguments=[given, NoneInput(0)])
    wrong("a is an argument but has arena memory", arguments=[replace(given, buffer=a)])
    wrong("given has 2 sizes and 1 strides", arguments=[replace(given, strides=(1,))])
    wrong("the order of given has a dimension twice", arguments=[replace(given, order=(0, 0))])
    wrong("the order of given has dimensions that it has not", arguments=[replace(given, order=(0, 2))])
    wrong("given is no argument and is not held", arguments=[replace(given, position=-1)])
    verify(kernel(arguments=[replace(given, position=-1, held=torch.zeros(3, 4))]))


def test_bools_are_reduced_by_any_and_all() -> None:
    flags = arena("flags", BOOL)
    is_large = apply("gt", SOURCE, Fill(F32, 1.0), dtype=BOOL)
    reduce = Reduce((n, 4), frozenset([0, 1]), "any", is_large, window(flags, 1, 1, strides=(0, 0)))
    verify(kernel(Alloc(flags, ()), reduce))
