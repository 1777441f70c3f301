"""What kernels mean: run in Python, they give what eager Python gives, and give up where it raises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_builder import apply, arena, contiguous, integer, load, number, result, tensor, truth, window
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.debug.outcome import compare, observe
from jitlite.ir import types as T
from jitlite.ir.parser import parse
from jitlite.kernels.compiled import CompiledKernel
from jitlite.kernels.interpret import interpret, interpret_statements
from jitlite.kernels.loop_ir import (
    BOOL,
    F32,
    F64,
    I32,
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
    Lane,
    LaneCast,
    LoopVariable,
    Nest,
    NewTensor,
    NodeOperation,
    NoneInput,
    Operand,
    Owner,
    Place,
    Position,
    Product,
    Read,
    Reduce,
    Repeat,
    Scalar,
    ScalarInput,
    Set,
    SizeArithmetic,
    Statement,
    Store,
    Swap,
)
from jitlite.kernels.verify import verify

i, n, s = integer("i"), integer("n"), integer("s")
go, total = LoopVariable("go", T.BOOL), LoopVariable("total", T.INT)


def run(*statements: Statement, **tensors: Tensor) -> dict[str, Any] | None:
    """Run statements on tensors, which buffers of their names stand for; gives the scalars, None for giving up."""
    buffers = {b.name: b for b in _buffers(statements)}
    memory = {buffers[name]: t.view(-1) for name, t in tensors.items()}
    scalars: dict[Scalar, Any] = {}
    if not interpret_statements(statements, memory, scalars):
        return None
    return {scalar.name: value for scalar, value in scalars.items()}


def _buffers(statements: tuple[Statement, ...]) -> list[Buffer]:
    found: list[Buffer] = []

    def visit(value: object) -> None:
        if isinstance(value, Buffer):
            found.append(value)
        elif isinstance(value, list | tuple):
            for each in value:
                visit(each)
        elif isinstance(value, Statement | Lane | Place | Store):
            visit(list(vars(value).values()))

    visit(statements)
    return found


def lane_of(lane: Lane, count: int = 3, **tensors: Tensor) -> Tensor | None:
    """The values of a lane at the points 0 ... count - 1."""
    out = torch.zeros(count, dtype=lane.dtype.torch)
    b = arena("out", lane.dtype)
    return None if run(Nest((count,), (Store(window(b, count), lane),)), out=out, **tensors) is None else out


# -- lanes


def test_lanes_are_computed_at_each_point() -> None:
    a = arena("a")
    tripled = apply("mul", load(a, 3), Fill(F32, 3))
    assert lane_of(tripled, a=torch.tensor([1.0, 2.0, 3.0])).tolist() == [3.0, 6.0, 9.0]
    every_other = load(a, 3, strides=(2,), offset=1)
    assert lane_of(every_other, a=torch.arange(6.0)).tolist() == [1.0, 3.0, 5.0]
    assert lane_of(load(a, 3, strides=(0,)), a=torch.tensor([7.0])).tolist() == [7.0] * 3
    assert lane_of(Position(I64, 0)).tolist() == [0, 1, 2]


def test_casts_are_those_of_torch() -> None:
    a = arena("a")
    values = torch.tensor([-1.7, 0.0, 2.5])
    for dtype in (F64, I64, I32, BOOL):
        assert lane_of(LaneCast(dtype, load(a, 3)), a=values).equal(values.to(dtype.torch))


def test_fills_give_up_where_a_number_does_not_fit() -> None:
    assert lane_of(Fill(I32, 2**31 - 1)).tolist() == [2**31 - 1] * 3
    assert lane_of(Fill(I32, 2**31)) is None
    assert lane_of(Fill(BOOL, 3)).tolist() == [True] * 3


def test_gathers_wrap_and_give_up_outside() -> None:
    table, ids = arena("table"), arena("ids", I64)

    def gathered(indices: list[int], wraps: bool = True) -> list[float] | None:
        lane = Gather(F32, window(table, 4), (load(ids, 3),), wraps)
        found = lane_of(lane, ids=torch.tensor(indices), table=torch.arange(4.0))
        return None if found is None else found.tolist()

    assert gathered([0, -1, 3]) == [0.0, 3.0, 3.0]
    assert gathered([0, 3, 3], wraps=False) == [0.0, 3.0, 3.0]
    assert gathered([0, 4, 3]) is None
    assert gathered([0, -5, 3]) is None
    assert gathered([0, -1, 3], wraps=False) is None


def test_division_of_ints_gives_up_where_torch_raises_or_worse() -> None:
    a, b = arena("a", I64), arena("b", I64)
    lowest = -(2**63)
    for op in ("fmod", "remainder", "div_floor", "div_trunc"):
        lane = apply(op, load(a, 3), load(b, 3))
        found = lane_of(lane, a=torch.tensor([-7, 7, 6]), b=torch.tensor([2, -2, 3]))
        wanted = [{"fmod": math.fmod(x, y), "remainder": x % y, "div_floor": x // y, "div_trunc": int(x / y)}[op]
                  for x, y in ((-7, 2), (7, -2), (6, 3))]  # fmt: skip
        assert found.tolist() == wanted
        assert lane_of(lane, a=torch.tensor([1, 1, 1]), b=torch.tensor([1, 0, 1])) is None
        assert lane_of(lane, a=torch.tensor([1, lowest, 1]), b=torch.tensor([1, -1, 1])) is None


def test_what_is_loaded_is_what_was_there_before_the_store() -> None:
    a, b = arena("a"), arena("b")
    before = load(a, 2)
    first = torch.tensor([1.0, 2.0])
    second = torch.zeros(2)
    stores = Store(window(a, 2), apply("neg", before)), Store(window(b, 2), before)
    assert run(Nest((2,), stores), a=first, b=second) is not None
    assert first.tolist() == [-1.0, -2.0] and second.tolist() == [1.0, 2.0]


# -- reductions and products

REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": torch.sum, "amax": torch.amax, "amin": torch.amin, "any": torch.any, "all": torch.all,
    "prod": lambda a, dims: a.prod(dims[0]) if len(dims) == 1 else a.prod(),
    "argmax": lambda a, dims: a.argmax(dims[0]) if len(dims) == 1 else a.argmax(),
    "argmin": lambda a, dims: a.argmin(dims[0]) if len(dims) == 1 else a.argmin(),
}  # fmt: skip


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op: str) -> None:
    values = torch.tensor([[3.0, float("nan"), 3.0], [2.0, 2.0, 1.0]])
    if op in ("any", "all"):
        values = values > 2.0
    a = arena("a", F32 if values.is_floating_point() else BOOL)
    gives = I64 if op.startswith("arg") else a.dtype
    for dims, sizes, strides in (((1,), (2, 1), (1, 0)), ((0,), (1, 3), (0, 1)), ((0, 1), (1, 1), (0, 0))):
        out = torch.zeros(6, dtype=gives.torch)
        place = window(arena("out", gives), *sizes, strides=strides)
        assert run(Reduce((2, 3), frozenset(dims), op, load(a, 2, 3), place), a=values, out=out) is not None
        wanted = REDUCTIONS[op](values, dims).flatten()
        torch.testing.assert_close(out[: len(wanted)], wanted, equal_nan=True)


def test_the_position_of_an_extreme_is_that_of_the_first_one() -> None:
    values = torch.tensor([[1.0, 5.0, 5.0], [0.0, 0.0, float("nan")]])
    out, where = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    places = window(arena("out"), 2, 1, strides=(1, 0)), window(arena("where", I64), 2, 1, strides=(1, 0))
    reduce = Reduce((2, 3), frozenset([1]), "amax", load(arena("a"), 2, 3), *places)
    assert run(reduce, a=values, out=out, where=where) is not None
    assert out[0] == 5.0 and out[1].isnan() and where.tolist() == [1, 2]


def test_an_extreme_of_nothing_gives_up() -> None:
    place = window(arena("out"), 2, 1, strides=(1, 0))
    for op, goes in (("amax", False), ("sum", True)):
        reduce = Reduce((2, 0), frozenset([1]), op, load(arena("a"), 2, 0, strides=(0, 1)), place)
        assert (run(reduce, a=torch.zeros(1), out=torch.zeros(2)) is not None) is goes


def test_products_add_what_there_is_to_add() -> None:
    a, b, bias, out = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5), torch.zeros(3, 5)
    places = window(arena("out"), 3, 5), window(arena("a"), 3, 4), window(arena("b"), 4, 5, strides=(1, 4))
    assert run(Product(*places), out=out, a=a, b=b) is not None
    torch.testing.assert_close(out, a @ b.t())
    assert run(Product(*places, window(arena("bias"), 3, 5, strides=(0, 1))), out=out, a=a, b=b, bias=bias) is not None
    torch.testing.assert_close(out, a @ b.t() + bias)


# -- scalars, memory, control flow


def giving(outputs: list[Any], *statements: Statement, arguments: list[Any] | None = None) -> Kernel:
    return Kernel("k", arguments or [], None, list(statements), outputs)


def evaluated(scalar: Scalar, *statements: Statement) -> Any:
    return interpret(giving([Boxed(scalar, scalar.type)], *statements), [])


@pytest.mark.parametrize(
    ("op", "operands", "wanted"),
    [
        ("add", (2, 3), 5), ("sub", (2, 3), -1), ("mul", (2, 3), 6), ("floordiv", (7, 2), 3), ("min", (2, 3), 2),
        ("max", (2, 3), 3), ("eq", (2, 3), False), ("ne", (2, 3), True), ("lt", (2, 3), True), ("le", (3, 3), True),
        ("and", (True, False), False), ("or", (True, False), True), ("not", (True,), False),
        ("select", (True, 4, 5), 4), ("select", (False, 4, 5), 5),
    ],
)  # fmt: skip
def test_arithmetic_on_sizes(op: str, operands: tuple[Operand, ...], wanted: object) -> None:
    found = evaluated(n, SizeArithmetic(n, op, operands))
    assert found == wanted and type(found) is type(wanted)


def test_operators_mean_what_they_mean_in_graphs() -> None:
    graph = parse("graph(%x : int, %y : int):\n  %z : int = aten::floordiv(%x, %y)\n  return (%z)\n")
    node = next(iter(graph.nodes))
    assert evaluated(n, NodeOperation(node, (-7, 2), (n,))) == -4
    assert evaluated(n, NodeOperation(node, (-7, 0), (n,))) is None
    huge = parse("graph(%x : int, %y : int):\n  %z : int = aten::mul(%x, %y)\n  return (%z)\n")
    assert evaluated(n, NodeOperation(next(iter(huge.nodes)), (2**62, 2), (n,))) is None


def test_conversions() -> None:
    x = number("x")
    assert evaluated(n, Convert(n, 2.9)) == 2
    assert evaluated(n, Convert(n, float("nan"))) is None
    assert evaluated(n, Convert(n, 1e300)) is None
    assert repr(evaluated(x, Convert(x, True))) == "1.0"


def test_memory_can_be_bound_and_exchanged() -> None:
    a, b, view = arena("a"), arena("b"), Buffer("view", F32, Owner.ALIAS)
    first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    x = number("x")
    reads = Bind(view, a, 1), Swap(view, b), Read(x, Place(b, 1, (), ()))
    memory = {a: first, b: second}
    scalars: dict[Scalar, Any] = {}
    assert interpret_statements(reads, memory, scalars)
    kernel = giving([Boxed(x, T.FLOAT)], *reads)
    kernel.arguments = [tensor(0, "p", 3), tensor(1, "q", 3)]
    kernel.body = [Bind(a, kernel.arguments[0].buffer), Bind(b, kernel.arguments[1].buffer), *reads]
    assert interpret(kernel, [first, second]) == 3.0


def test_loops_end_at_the_count_or_before() -> None:
    body: list[Statement] = [
        Get(n, total), SizeArithmetic(s, "add", (n, i)), Set(total, s),
        SizeArithmetic(is_small := truth("c"), "lt", (s, 5)),
        Branch(is_small, [], [Set(go, False)]),
    ]  # fmt: skip
    for count, wanted in ((3, 3), (10, 6), (0, 0), (-1, 0)):
        loop = Repeat(i, count, go, body, 1)
        last = integer("last")
        assert evaluated(last, Set(total, 0), Set(go, True), loop, Get(last, total)) == wanted


def test_checks_give_up() -> None:
    assert evaluated(n, SizeArithmetic(n, "add", (1, 1)), Check(True, "")) == 2
    assert evaluated(n, SizeArithmetic(n, "add", (1, 1)), Check(False, "")) is None


# -- arguments and results


def test_results_are_new_tensors_and_arguments_themselves() -> None:
    x = tensor(0, "x", n, 2)
    out = result("out")
    kernel = giving(
        [NewTensor(out), Given(0), (Boxed(n, T.INT), Boxed(None, T.NONE))],
        Alloc(out, (n, 2), (1, n)),
        Nest((n, 2), (Store(window(out, n, 2, strides=(1, n)), load(x.buffer, n, 2)),)),
        arguments=[x],
    )
    kernel.gives_tuple = True
    given = torch.randn(3, 2)
    made, same, rest = interpret(kernel, [given])
    assert made.equal(given) and made.stride() == (1, 3) and same is given and rest == (3, None)


def test_arguments_have_to_be_what_the_kernel_is_for() -> None:
    x, y = tensor(0, "x", n, 2), tensor(1, "y", 2, n, strides=(s, 1))
    kernel = giving([Boxed(n, T.INT)], arguments=[x, y, NoneInput(2), ScalarInput(3, number("by"))])
    good, other = torch.zeros(3, 2), torch.zeros(2, 3)
    assert interpret(kernel, [good, other, None, 1.0]) == 3
    wide = torch.zeros(2, 5)[:, :3]
    assert interpret(kernel, [good, wide, None, 1.0]) == 3
    for arguments in (
        [torch.zeros(3, 3), other, None, 1.0],  # a size that is known
        [good, torch.zeros(2, 4), None, 1.0],  # sizes that are equal
        [good.double(), other, None, 1.0],
        [torch.zeros(3, 2, 1), other, None, 1.0],
        [torch.zeros(2, 3).t(), other, None, 1.0],  # dense, in another order
        [torch.zeros(3, 4)[:, ::2], other, None, 1.0],
        [good, torch.zeros(3, 2).t(), None, 1.0],  # a stride that is known
        [good, other, 1, 1.0],
        [torch.zeros(1, 2), torch.zeros(2, 1), None, 1.0],  # a size that is not 1
        ["", other, None, 1.0],
    ):
        assert interpret(kernel, arguments) is None


def test_a_dtype_has_to_be_the_very_one() -> None:
    kernel = giving([Boxed(1, T.INT)], arguments=[DtypeInput(0, I64)])
    assert interpret(kernel, [torch.int64]) == 1
    assert interpret(kernel, [torch.int32]) is interpret(kernel, [4]) is None


def test_the_default_dtype_has_to_be_as_it_was() -> None:
    kernel = giving([Boxed(1, T.INT)])
    kernel.default_dtype = torch.float64
    assert interpret(kernel, []) is None
    kernel.default_dtype = torch.get_default_dtype()
    assert interpret(kernel, []) == 1


def test_contiguous_strides() -> None:
    assert contiguous(n, 3, 4) == (12, 4, 1)


# -- kernels of programs


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """Kernels are interpreted and not compiled; gives those that have been done."""
    done: list[Kernel] = []

    def compile(self: CompiledKernel, *, quickly: bool = False) -> bool:
        verify(self.kernel)

        def entry(*arguments: object) -> Any:
            found = interpret(self.kernel, arguments)
            if found is not None:
                done.append(self.kernel)
            return found

        self.entry = entry
        return True

    monkeypatch.setattr(CompiledKernel, "compile", compile)
    return done


def chain(x: Tensor, y: Tensor):
    z = torch.relu(x * y + 1.0) - 0.5 * x
    return torch.where(z > 1.0, z, torch.tanh(z)), z.t()


def layer(x: Tensor, weight: Tensor, bias: Tensor):
    return torch.sigmoid(torch.addmm(bias, x, weight.t()))


def steps(x: Tensor, h: Tensor, w: Tensor):
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + torch.mm(h, w))
    return h


def newton(x: Tensor):
    y = torch.ones_like(x)
    count = 0
    while count < 20:
        y = 0.5 * (y + x / y)
        count += 1
    return y, count


def ordered(x: Tensor, k: int):
    a, b = (x * 2).topk(k)
    c, d = x.topk(k, 0, False, False)
    e, f = x.sort(stable=True, dim=0, descending=True)
    return a, b, c, d, e, f


PROGRAMS: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = [
    (chain, [(torch.randn(4, 5), torch.randn(5)), (torch.randn(5, 4).t(), torch.randn(4, 1))]),
    (layer, [(torch.randn(3, 8), torch.randn(6, 8), torch.randn(6))]),
    (steps, [(torch.randn(7, 2, 4), torch.randn(2, 4), torch.randn(4, 4))]),
    (newton, [(torch.rand(10) + 1.0,)]),
    (ordered, [(torch.randn(4, 5), 3), (torch.tensor([[0.0, -0.0, math.nan], [math.nan, 1.0, 1.0]]), 2)]),
]


@pytest.mark.parametrize(("program", "calls"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
def test_programs(program: Callable[..., Any], calls: list[tuple[Any, ...]], interpreted: list[Kernel]) -> None:
    with options.override(native="now"):
        function = jitlite.script(program)
        for arguments in calls:
            found = compare(observe(program, arguments), observe(function, arguments))
            assert found is None, found
    assert len(interpreted) >= len(calls), function.generated_code
