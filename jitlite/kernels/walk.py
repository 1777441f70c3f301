"""The loops of a nest, with what they compute on the way: a vector of points at a time in the innermost one.

Each lane is computed in the outermost loop that knows all it depends on, so what is alike for a whole row is computed
once a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jitlite.base.computed_once import cached_property
from jitlite.kernels.context import KernelCode
from jitlite.kernels.conversions import emit_cast, fill_text
from jitlite.kernels.lane_trees import operands_first, operands_of
from jitlite.kernels.lanes import LANES, emit_apply, fits
from jitlite.kernels.loop_ir import (
    BOOL,
    I64,
    DType,
    Fill,
    Gather,
    Lane,
    LaneCast,
    LaneOperator,
    Load,
    Operand,
    Place,
    Position,
    Scalar,
)
from jitlite.kernels.narrow_elements import narrow, widen
from jitlite.kernels.target import host
from jitlite.kernels.vectors import Vectors, lanes_for
from jitlite.native.code import LLVMBuilder, NotNative

BEFORE = -1
"""The level of what depends on no loop."""

Body = Callable[["Points"], None]


class Walk:
    """Loops over the points of a space.

    Attributes:
        order: the dimensions that have loops, from the outermost one inwards.
        lanes: what is computed, operands first.
        vectors: for instructions.
        pointers: where each place starts, as far as the loops around have got.
        values: the lanes that have been computed in the loops around.
        starts: for gathers in the innermost loop, the part of the address that is alike for the row.
        indices: the numbers of the iterations, by dimension.
        scalars: what fills are of, as elements.
    """

    def __init__(
        self,
        kc: KernelCode,
        sizes: Sequence[Operand],
        order: Sequence[int],
        roots: Sequence[Lane],
        places: Sequence[Place],
    ) -> None:
        self.kc = kc
        self.sizes = sizes
        self.order = list(order)
        self.lanes = operands_first(roots)
        dtypes = {lane.dtype for lane in self.lanes} | {place.dtype for place in places}
        self.vectors = Vectors(kc.code, lanes_for(dtypes, host()) if self.order else 1)
        self.values: dict[Lane, str] = {}
        self.starts: dict[Gather, str] = {}
        self.indices: dict[int, str] = {}
        self.scalars: dict[Fill, str] = {}
        loads = [lane.place for lane in self.lanes if isinstance(lane, Load)]
        self.places = list(dict.fromkeys([*loads, *places]))
        self.pointers: dict[Place, str] = {}
        self._depth = {dim: i for i, dim in enumerate(self.order)}
        self.levels: dict[Lane, int] = {}
        for lane in self.lanes:
            self.levels[lane] = self._level(lane)

    @property
    def inner(self) -> int | None:
        return self.order[-1] if self.order else None

    # -- levels
    def place_level(self, place: Place) -> int:
        return max((self._depth[d] for d in self.order if not is_number(place.strides[d], 0)), default=BEFORE)

    def _level(self, lane: Lane) -> int:
        if isinstance(lane, Load):
            return self.place_level(lane.place)
        if isinstance(lane, Position):
            return self._depth.get(lane.dim, BEFORE)
        if isinstance(lane, Gather):
            return max((self._index_level(i) for i in lane.indices), default=BEFORE)
        return max((self.levels[o] for o in operands_of(lane)), default=BEFORE)

    def _index_level(self, index: int | Lane) -> int:
        return self._depth.get(index, BEFORE) if isinstance(index, int) else self.levels[index]

    def lanes_at(self, level: int) -> list[Lane]:
        return [lane for lane in self.lanes if self.levels[lane] == level]

    def is_inner(self, index: int | Lane) -> bool:
        """Does it differ within a row?"""
        return bool(self.order) and self._index_level(index) == len(self.order) - 1

    # -- loops
    def run(self, body: Body) -> None:
        """Write all loops; the body is written for each vector of points."""
        with self.unless_empty():
            self.start()
            self.loops(0, body)

    @contextmanager
    def unless_empty(self, dims: Sequence[int] | None = None) -> Iterator[None]:
        """What is written within runs only if there are points along some dimensions, or along all. A scalar that does
        not fit raises without points, too."""
        for lane in self.lanes:
            if isinstance(lane, Fill) and isinstance(lane.value, Scalar):
                self.scalars[lane] = fill_text(self.kc, lane.dtype, lane.value)
        code, end = self.kc.code, self.kc.code.fresh("empty")
        for dim in self.order if dims is None else dims:
            size = self.sizes[dim]
            if isinstance(size, Scalar):
                code.leave_if(code.value(f"icmp slt i64 {self.kc.operand(size)}, 1"), end)
            elif size == 0:
                code.leave_if("true", end)
        yield
        code.go(end)
        code.label(end)

    def start(self) -> None:
        """Before all loops."""
        for place in self.places:
            self.pointers[place] = self.kc.address(place)
        self._compute(BEFORE)

    def loops(self, depth: int, body: Body) -> None:
        """The loops from a depth on."""
        if not self.order:
            body(Points(self, "0"))
        elif depth == len(self.order) - 1:
            self.row(body)
        else:
            with self.one_loop(depth):
                self.loops(depth + 1, body)

    @contextmanager
    def one_loop(self, depth: int) -> Iterator[None]:
        """A loop over a dimension that is not the innermost one."""
        kc, dim = self.kc, self.order[depth]
        before = dict(self.pointers)
        with counting_by(kc.code, *kc.bounds(dim, self.sizes[dim]), 1) as index:
            self.indices[dim] = index
            for place in self.places:
                offset = kc.multiply(index, kc.operand(place.strides[dim]))
                self.pointers[place] = kc.element(place.buffer, self.pointers[place], offset)
            self._compute(depth)
            yield
        self.pointers = before

    def row(self, body: Body, bounds: tuple[str, str] | None = None) -> None:
        """The innermost loop, or a part of it: some vectors at a time, then the rest under a mask."""
        for position, mask, copy in self.vectors_of_row(bounds):
            points = Points(self, position, mask, copy)
            points.compute()
            body(points)

    def vectors_of_row(self, bounds: tuple[str, str] | None = None) -> Iterator[tuple[str, str | None, int]]:
        """Loops along the innermost dimension; gives the positions of vectors, their masks, and numbers: what is
        written for each runs in each iteration, and those with different numbers run one after the other."""
        code, count = self.kc.code, self.vectors.count
        assert self.inner is not None
        size = self.sizes[self.inner]
        step = self.copies * count
        start, end = bounds or self.kc.bounds(self.inner, size)
        if start == "0" and isinstance(size, int) and end == str(size):
            whole = str(size - size % step)
        else:
            length = end if start == "0" else code.value(f"sub i64 {end}, {start}")
            whole = self.kc.add(start, code.value(f"and i64 {length}, {-step}"))
        if whole != "0":
            with counting_by(code, start, whole, step) as index:
                for copy in range(self.copies):
                    yield self.kc.add(index, str(copy * count)), None, copy
        if whole != end:
            with counting_by(code, whole, end, count) as index:
                yield index, self._mask(code.value(f"sub i64 {end}, {index}")), 0

    def _mask(self, rest: str) -> str:
        """The lanes below a number, which is at most a few times their count."""
        v, element = self.vectors, "i32" if self.vectors.count <= 16 else "i16"
        limit = v.splat(element, v.code.value(f"trunc i64 {rest} to {element}"))
        return v.code.value(f"icmp sgt {v.vector(element)} {limit}, {v.positions(element)}")

    @cached_property
    def copies(self) -> int:
        """How often the body is written in a loop: small ones several times, so that loads of memory overlap."""
        weight = sum(map(_weight, self.lanes_at(len(self.order) - 1)))
        copies, size = 4 if weight <= 4 else 2 if weight <= 12 else 1, self.sizes[self.order[-1]] if self.order else 1
        while isinstance(size, int) and copies > 1 and copies * self.vectors.count > size:
            copies //= 2
        return copies

    def _compute(self, level: int) -> None:
        """What is alike for all points of the inner loops; the innermost one's are computed at the points."""
        last = len(self.order) - 1
        if self.order and level == last:
            return
        points = Points(self, None)
        for lane in self.lanes_at(level):
            self.values[lane] = points.computed(lane)
        if level == last - 1:
            self.starts = {g: points.gather_start(g) for g in self.lanes_at(last) if isinstance(g, Gather)}


class Points:
    """A vector of neighbouring points of the innermost loop; or, without a position, any point of those around it."""

    def __init__(self, walk: Walk, position: str | None, mask: str | None = None, copy: int = 0) -> None:
        self.walk = walk
        self.kc = walk.kc
        self.v = walk.vectors
        self.position = position
        self.mask = self.v.mask = mask
        self.copy = copy
        self._values: dict[Lane, str] = {}
        self._loaded: dict[Place, str] = {}

    def compute(self) -> None:
        """Compute the lanes of the innermost loop."""
        self.v.mask = self.mask
        if self.walk.order:
            for lane in self.walk.lanes_at(len(self.walk.order) - 1):
                self._values[lane] = self.computed(lane)

    def value(self, lane: Lane) -> str:
        found = self._values.get(lane)
        return self.walk.values[lane] if found is None else found

    # -- lanes
    def computed(self, lane: Lane) -> str:
        if isinstance(lane, Load):
            return self._load(lane.place)
        if isinstance(lane, Fill):
            if not isinstance(lane.value, Scalar):
                return self.v.constant(lane.dtype, lane.value)
            return self.v.splat(lane.dtype.lane, self.walk.scalars[lane])
        if isinstance(lane, Position):
            return self.along(lane.dim)
        if isinstance(lane, LaneCast):
            value = self.value(lane.operand)
            return value if fits(lane.operand, lane.dtype) else emit_cast(self.v, lane.operand.dtype, lane.dtype, value)
        if isinstance(lane, LaneOperator):
            return emit_apply(self.v, lane, [self.value(o) for o in lane.operands])
        if isinstance(lane, Gather):
            return self._gather(lane)
        raise NotNative(f"lanes of {type(lane).__name__}")

    def along(self, dim: int) -> str:
        """The indices of the points along a dimension."""
        v = self.v
        if dim == self.walk.inner and self.position is not None:
            return v.binary("add", I64, v.splat("i64", self.position), v.positions())
        return v.splat("i64", self.walk.indices.get(dim, "0"))

    # -- memory
    def _load(self, place: Place) -> str:
        found = self._loaded.get(place)
        if found is None:
            found = self._loaded[place] = self.load_from(
                place.dtype, self.walk.pointers[place], self._inner_stride(place)
            )
        return found

    def _inner_stride(self, place: Place) -> Operand:
        inner = self.walk.inner
        return 0 if inner is None or self.position is None else place.strides[inner]

    def load_from(self, dtype: DType, start: str, stride: Operand) -> str:
        """The elements of a row that starts at a pointer."""
        v, code = self.v, self.v.code
        if is_number(stride, 0):
            element = code.value(f"load {dtype.stored}, ptr {start}, align {dtype.bytes}")
            return self._as_lane(dtype, v.splat(dtype.stored, element))
        if not is_number(stride, 1):
            return self.load_at(dtype, self._addresses(dtype, start, stride))
        address = self._address(dtype, start)
        whole = v.vector(dtype.stored)
        if self.mask is None:
            return self._as_lane(dtype, code.value(f"load {whole}, ptr {address}, align {dtype.bytes}"))
        signature = f"{whole} @llvm.masked.load.{self._suffix(dtype)}.p0(ptr, i32, {v.vector('i1')}, {whole})"
        loaded = code.intrinsic(signature, address, str(dtype.bytes), self.mask, "zeroinitializer")
        return self._as_lane(dtype, loaded)

    def load_at(self, dtype: DType, addresses: str) -> str:
        """The elements at a vector of addresses."""
        v, whole = self.v, self.v.vector(dtype.stored)
        signature = (
            f"{whole} @llvm.masked.gather.{self._suffix(dtype)}.v{v.count}p0"
            f"({v.vector('ptr')}, i32, {v.vector('i1')}, {whole})"
        )
        mask = self.mask or v.constant(BOOL, True)
        loaded = v.code.intrinsic(signature, addresses, str(dtype.bytes), mask, "zeroinitializer")
        return self._as_lane(dtype, loaded)

    def store(self, place: Place, value: str) -> None:
        v, code, dtype = self.v, self.v.code, place.dtype
        whole = v.vector(dtype.stored)
        if dtype is BOOL:
            value = v.convert("zext", "i1", value, "i8")
        elif dtype.wide is not None:
            value = narrow(v, dtype, value)
        start, stride = self.walk.pointers[place], self._inner_stride(place)
        if not self.walk.order:
            code.emit(f"store {dtype.stored} {v.first(dtype.stored, value)}, ptr {start}, align {dtype.bytes}")
            return
        if not is_number(stride, 1):
            name = f"llvm.masked.scatter.{self._suffix(dtype)}.v{v.count}p0"
            code.declared.add(f"declare void @{name}({whole}, {v.vector('ptr')}, i32, {v.vector('i1')})")
            addresses, mask = self._addresses(dtype, start, stride), self.mask or v.constant(BOOL, True)
            code.emit(
                f"call void @{name}({whole} {value}, {v.vector('ptr')} {addresses}, i32 {dtype.bytes}, "
                f"{v.vector('i1')} {mask})"
            )
            return
        address = self._address(dtype, start)
        if self.mask is None:
            code.emit(f"store {whole} {value}, ptr {address}, align {dtype.bytes}")
            return
        name = f"llvm.masked.store.{self._suffix(dtype)}.p0"
        code.declared.add(f"declare void @{name}({whole}, ptr, i32, {v.vector('i1')})")
        code.emit(f"call void @{name}({whole} {value}, ptr {address}, i32 {dtype.bytes}, {v.vector('i1')} {self.mask})")

    def _suffix(self, dtype: DType) -> str:
        letter = {"float": "f32", "double": "f64"}.get(dtype.stored, dtype.stored)
        return f"v{self.v.count}{letter}"

    def _as_lane(self, dtype: DType, loaded: str) -> str:
        if dtype.wide is not None:
            return widen(self.v, dtype, loaded)
        if dtype is not BOOL:
            return loaded
        return self.v.code.value(f"icmp ne {self.v.vector('i8')} {loaded}, zeroinitializer")

    def _address(self, dtype: DType, start: str) -> str:
        return self.v.code.value(f"getelementptr {dtype.stored}, ptr {start}, i64 {self.position}")

    def _addresses(self, dtype: DType, start: str, stride: Operand) -> str:
        assert self.walk.inner is not None
        offsets = self.v.binary("mul", I64, self.along(self.walk.inner), self.v.splat("i64", self.kc.operand(stride)))
        return self.addresses(dtype, start, offsets)

    def addresses(self, dtype: DType, start: str, offsets: str) -> str:
        return self.v.code.value(f"getelementptr {dtype.stored}, ptr {start}, {self.v.vector('i64')} {offsets}")

    # -- indexed elements
    def gather_start(self, lane: Gather) -> str:
        """The address of an element, as far as the indices that are alike for the row say it."""
        kc, offset = self.kc, "0"
        for index, size, stride in zip(lane.indices, lane.place.sizes, lane.place.strides, strict=True):
            if not self.walk.is_inner(index):
                found = self._index(index, size, lane.wraps)
                offset = kc.add(offset, kc.multiply(found, kc.operand(stride)))
        return kc.element(lane.place.buffer, kc.address(lane.place), offset)

    def _index(self, index: int | Lane, size: Operand, wraps: bool) -> str:
        """An index that is alike for the row, within bounds."""
        if isinstance(index, int):
            return self.walk.indices.get(index, "0")
        code, found, limit = self.v.code, self.v.first("i64", self.value(index)), self.kc.operand(size)
        if wraps:
            from_end = code.value(f"add i64 {found}, {limit}")
            found = code.value(f"select i1 {code.value(f'icmp slt i64 {found}, 0')}, i64 {from_end}, i64 {found}")
        code.bail_out_if(code.value(f"icmp uge i64 {found}, {limit}"))
        return found

    def _gather(self, lane: Gather) -> str:
        if not self.walk.is_inner(lane):
            return self.load_from(lane.place.dtype, self.gather_start(lane), 0)
        start, v = self.walk.starts[lane], self.v
        varying = [
            (index, size, stride)
            for index, size, stride in zip(lane.indices, lane.place.sizes, lane.place.strides, strict=True)
            if self.walk.is_inner(index)
        ]
        if len(varying) == 1 and isinstance(varying[0][0], int):
            return self.load_from(lane.place.dtype, start, varying[0][2])
        offsets = v.constant(I64, 0)
        for index, size, stride in varying:
            found = self.along(index) if isinstance(index, int) else self._indices(index, size, lane.wraps)
            offsets = v.binary(
                "add", I64, offsets, v.binary("mul", I64, found, v.splat("i64", self.kc.operand(stride)))
            )
        return self.load_at(lane.place.dtype, self.addresses(lane.place.dtype, start, offsets))

    def _indices(self, index: Lane, size: Operand, wraps: bool) -> str:
        """Indices within bounds."""
        v, found, limit = self.v, self.value(index), self.v.splat("i64", self.kc.operand(size))
        if wraps:
            is_negative = v.compare("slt", I64, found, v.constant(I64, 0))
            found = v.select(I64, is_negative, v.binary("add", I64, found, limit), found)
        v.give_up_if_any(v.compare("uge", I64, found, limit))
        return found


# -- what lanes are made of


def is_number(value: Operand, number: int) -> bool:
    """Is it this number, known while code is written?"""
    return not isinstance(value, Scalar) and value == number


@contextmanager
def counting_by(code: LLVMBuilder, start: str, end: str, step: int) -> Iterator[str]:
    """A loop from a number to another one; gives the number."""
    place = code.slot("i64")
    head, body, after = code.fresh("head"), code.fresh("body"), code.fresh("end")
    code.store("i64", start, place)
    code.go(head)
    code.label(head)
    index = code.load("i64", place)
    code.branch(code.value(f"icmp slt i64 {index}, {end}"), body, after)
    code.label(body)
    yield index
    code.store("i64", code.value(f"add i64 {index}, {step}"), place)
    code.go(head)
    code.label(after)


def _weight(lane: Lane) -> int:
    """How long an operation of a loop's body takes, about."""
    if isinstance(lane, Load | Fill):
        return 0
    return 1 if not isinstance(lane, LaneOperator) or LANES[lane.op].is_exact else 12
