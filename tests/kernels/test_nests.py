"""Nests: every shape, stride and type, beside what torch computes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kernel_harness import Compiled

from jitlite.ir import types as T
from jitlite.kernels.loop_ir import (
    BOOL,
    DTYPES,
    F32,
    F64,
    I32,
    I64,
    Buffer,
    DType,
    Fill,
    Gather,
    Lane,
    LaneCast,
    LaneOperator,
    Load,
    Nest,
    Owner,
    Place,
    Position,
    Scalar,
    Store,
)

KINDS = [F32, F64, I64, I32, BOOL]


class Memory:
    """Tensors, and the places and scalars that stand for them."""

    def __init__(self) -> None:
        self.tensors: list[tuple[Buffer, torch.Tensor]] = []
        self.scalars: list[tuple[Scalar, object]] = []

    def scalar(self, value: object, type=T.INT) -> Scalar:
        scalar = Scalar(f"s{len(self.scalars)}", type)
        self.scalars.append((scalar, value))
        return scalar

    def place(self, tensor: torch.Tensor, symbolic: bool = False) -> Place:
        """Symbolic: sizes and strides are scalars, but for strides of 1 and 0."""
        buffer = Buffer(f"b{len(self.tensors)}", DTYPES[tensor.dtype], Owner.ARGUMENT)
        self.tensors.append((buffer, tensor))
        strides = [s if s in (0, 1) or not symbolic else self.scalar(s) for s in tensor.stride()]
        return Place(buffer, 0, tuple(tensor.shape), tuple(strides))

    def load(self, tensor: torch.Tensor, symbolic: bool = False) -> Load:
        place = self.place(tensor, symbolic)
        return Load(place.dtype, place)

    def run(self, *statements) -> bool:
        return Compiled(statements, self.tensors, self.scalars).run()


def random_tensor(dtype: DType, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_float:
        return torch.randn(shape, generator=generator, dtype=dtype.torch)
    return torch.randint(0 if dtype is BOOL else -9, 2 if dtype is BOOL else 9, shape, generator=generator).to(
        dtype.torch
    )


@st.composite
def layouts(draw, dtype: DType, shape: tuple[int, ...], is_stored: bool = False) -> torch.Tensor:
    """A tensor of a shape, somehow strided."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in shape]
    broadcast = [not is_stored and draw(st.integers(0, 4)) == 0 for _ in shape]
    sizes = [1 if b else n * s for n, s, b in zip(shape, steps, broadcast)]
    base = random_tensor(dtype, tuple(sizes[d] for d in order), draw(st.integers(0, 1000)))
    back = [order.index(d) for d in range(len(shape))]
    view = base.permute(back) if shape else base
    for d, (step, is_one) in enumerate(zip(steps, broadcast)):
        view = view if is_one else view.narrow(d, 0, shape[d] * step)[(slice(None),) * d + (slice(None, None, step),)]
    return view.expand(shape)


SHAPES = (
    st.lists(st.sampled_from([0, 1, 2, 3, 5, 7, 16, 17, 31, 33, 70]), max_size=3)
    .map(tuple)
    .filter(lambda s: torch.Size(s).numel() < 20000)
)
UNARY = ["neg", "abs", "sqrt", "relu", "floor", "sign", "isnan", "logical_not", "bitwise_not"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "eq", "lt", "ge", "logical_and", "bitwise_xor"]
REFERENCE = {"div": torch.true_divide, "sqrt": lambda x: x.double().sqrt().to(x.dtype)}
"""Where the name is another one, or eager's is not the nearest number everywhere."""


class Programs:
    """Random lanes with what they mean."""

    def __init__(self, draw, memory: Memory, shape: tuple[int, ...]) -> None:
        self.draw, self.memory, self.shape = draw, memory, shape
        self.known: list[tuple[Lane, torch.Tensor]] = []

    def leaf(self) -> tuple[Lane, torch.Tensor]:
        draw = self.draw
        dtype = draw(st.sampled_from(KINDS))
        kind = draw(st.integers(0, 9))
        if kind == 0:
            number = draw(st.sampled_from([0, 1, 2]))
            return Fill(dtype, number), torch.full(self.shape, number, dtype=dtype.torch)
        if kind == 1:
            number = draw(st.sampled_from([0.5, -1.25, 3.0]))
            scalar = self.memory.scalar(number, T.FLOAT)
            wanted = torch.full(self.shape, number, dtype=torch.float64).to(dtype.torch)
            return Fill(dtype, scalar), wanted
        if kind == 2 and self.shape:
            dim = draw(st.integers(0, len(self.shape) - 1))
            line = torch.arange(self.shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(self.shape))])
            return Position(I64, dim), line.expand(self.shape)
        tensor = draw(layouts(dtype, self.shape))
        return self.memory.load(tensor, draw(st.booleans())), tensor

    def step(self) -> tuple[Lane, torch.Tensor]:
        draw = self.draw
        lane, value = draw(st.sampled_from(self.known))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            dtype = draw(st.sampled_from(KINDS))
            return LaneCast(dtype, lane), value.to(dtype.torch)
        from jitlite.kernels.lanes import LANES

        count = 1 if kind == 1 else 2
        names = [n for n in (UNARY if count == 1 else BINARY) if lane.dtype in LANES[n].takes]
        name = draw(st.sampled_from(names))
        others = [(l, v) for l, v in self.known if l.dtype is lane.dtype]
        operands = [(lane, value), *(draw(st.sampled_from(others)) for _ in range(count - 1))]
        function = REFERENCE.get(name) or getattr(torch, name)
        wanted = function(*(v for _, v in operands))
        return LaneOperator(LANES[name].gives or lane.dtype, name, tuple(l for l, _ in operands)), wanted

    def lanes(self) -> list[tuple[Lane, torch.Tensor]]:
        self.known = [self.leaf() for _ in range(self.draw(st.integers(1, 4)))]
        for _ in range(self.draw(st.integers(0, 7))):
            self.known.append(self.step())
        return self.known[-self.draw(st.integers(1, 2)) :]


@settings(max_examples=120, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_random_nests(data):
    memory, shape = Memory(), data.draw(SHAPES)
    results = Programs(data.draw, memory, shape).lanes()
    stores, wanted = [], []
    for lane, value in results:
        out = torch.zeros_like(data.draw(layouts(lane.dtype, shape, is_stored=True)))
        stores.append(Store(memory.place(out, data.draw(st.booleans())), lane))
        wanted.append((out, value))
    sizes = tuple(memory.scalar(n) if data.draw(st.booleans()) and n != 1 else n for n in shape)
    assert memory.run(Nest(sizes, tuple(stores)))
    for out, value in wanted:
        assert out.dtype == value.dtype
        torch.testing.assert_close(out, value.contiguous(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000])
def test_nothing_beyond_the_end_is_written(n: int):
    for dtype in KINDS:
        memory, out = Memory(), torch.ones(n + 200, dtype=dtype.torch)
        place = memory.place(out)
        place = Place(place.buffer, 100, (n,), (1,))
        size = memory.scalar(n)
        assert memory.run(Nest((size,), (Store(place, Fill(dtype, 0)),)))
        assert out[:100].all() and out[100 + n :].all() and not out[100 : 100 + n].any()


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_rows_of_a_table(dtype: DType):
    table, rows = random_tensor(dtype, (10, 37), 0), torch.tensor([3, -1, 0, 9, -10])
    memory, out = Memory(), torch.zeros(5, 37, dtype=dtype.torch)
    place, index = memory.place(table), memory.place(rows)
    index = Place(index.buffer, 0, (5, 37), (1, 0))
    lane = Gather(dtype, place, (Load(I64, index), 1))
    assert memory.run(Nest((5, 37), (Store(memory.place(out), lane),)))
    assert out.equal(table[rows])


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_elements_of_a_table(dtype: DType):
    table = random_tensor(dtype, (10, 37), 0)
    i, j = torch.randint(-10, 10, (3, 41)), torch.randint(0, 37, (3, 41))
    memory, out = Memory(), torch.zeros(3, 41, dtype=dtype.torch)
    lane = Gather(dtype, memory.place(table), (memory.load(i), memory.load(j)))
    assert memory.run(Nest((3, 41), (Store(memory.place(out), lane),)))
    assert out.equal(table[i, j])


@pytest.mark.parametrize("bad", [10, -11, 2**62, -(2**63)])
@pytest.mark.parametrize("per_row", [False, True])
def test_an_index_outside_gives_up(bad: int, per_row: bool):
    table, rows = torch.randn(10, 37), torch.tensor([3, 2, bad])
    memory, out = Memory(), torch.zeros(3, 37)
    place, index = memory.place(table), memory.place(rows)
    index = Place(index.buffer, 0, (3, 37) if per_row else (37, 3), (1, 0) if per_row else (0, 1))
    if per_row:
        nest = Nest((3, 37), (Store(memory.place(out), Gather(F32, place, (Load(I64, index), 1))),))
    else:
        nest = Nest((37, 3), (Store(memory.place(out.t()), Gather(F32, place, (Load(I64, index), 0))),))
    assert not memory.run(nest)


def test_a_negative_index_that_does_not_wrap_gives_up():
    memory, out = Memory(), torch.zeros(3)
    lane = Gather(F32, memory.place(torch.randn(10)), (memory.load(torch.tensor([1, -1, 2])),), wraps=False)
    assert not memory.run(Nest((3,), (Store(memory.place(out), lane),)))


@pytest.mark.parametrize(
    ("dtype", "value", "type"),
    [(F32, 1e300, T.FLOAT), (I64, 1e30, T.FLOAT), (I64, float("nan"), T.FLOAT), (I32, 2**40, T.INT)],
)
def test_a_scalar_that_does_not_fit_gives_up(dtype: DType, value, type):
    memory, out = Memory(), torch.zeros(3, dtype=dtype.torch)
    with pytest.raises(RuntimeError):
        torch.zeros(3, dtype=dtype.torch).fill_(value)
    assert not memory.run(Nest((3,), (Store(memory.place(out), Fill(dtype, memory.scalar(value, type))),)))


def test_in_place():
    memory, a = Memory(), torch.randn(1003)
    want = a * 2 + 1
    load = memory.load(a)
    lane = LaneOperator(F32, "add", (LaneOperator(F32, "mul", (load, Fill(F32, 2))), Fill(F32, 1)))
    assert memory.run(Nest((1003,), (Store(load.place, lane),)))
    assert a.equal(want)


def test_a_long_chain_is_no_recursion():
    memory, a, out = Memory(), torch.zeros(5), torch.zeros(5)
    lane: Lane = memory.load(a)
    for _ in range(2000):
        lane = LaneOperator(F32, "add", (lane, Fill(F32, 1)))
    assert memory.run(Nest((5,), (Store(memory.place(out), lane),)))
    assert out.eq(2000).all()
