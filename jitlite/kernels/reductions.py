"""Reductions as LLVM.

Where the loop along which memory is dense is reduced, vectors are accumulated along it, several at a time, and their
lanes at the end (*rows*). Where it is kept, each lane accumulates its own result (*columns*).

Sums in f32 are exact to about 64 additions: what vectors sum up in a block goes to a total in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jitlite.kernels.context import KernelCode
from jitlite.kernels.conversions import emit_cast
from jitlite.kernels.lanes import ALL, LANES, NUMBERS
from jitlite.kernels.loop_ir import BOOL, F32, F64, I64, DType, Fill, Nest, Reduce, Scalar, Store
from jitlite.kernels.loop_orders import reduce_order
from jitlite.kernels.nests import emit_nest
from jitlite.kernels.vectors import Vectors
from jitlite.kernels.walk import Points, Walk, counting_by, is_number
from jitlite.native.code import NotNative

State = list[str]
"""What is accumulated: a vector for each part."""

BLOCK = 64
"""Additions in f32 before the sum goes to one in f64."""


class Fold:
    """An operator that is put between elements.

    Attributes:
        parts: the types of what is accumulated.
    """

    def __init__(self, op: str, dtype: DType, start: float) -> None:
        self.lane_op = op
        self.dtype = dtype
        self.identity = start
        self.parts = [dtype]

    def start(self, v: Vectors) -> State:
        return [v.constant(self.dtype, self.identity)]

    def update(self, v: Vectors, state: State, value: str, position: Callable[[], str]) -> State:
        return self.merge(v, state, [value])

    def merge(self, v: Vectors, a: State, b: State) -> State:
        return [LANES[self.lane_op].emit(v, self.dtype, a[0], b[0])]


class WideSum(Fold):
    """A sum of f32 in f64."""

    def __init__(self) -> None:
        super().__init__("add", F64, 0.0)

    def update(self, v: Vectors, state: State, value: str, position: Callable[[], str]) -> State:
        return self.merge(v, state, [emit_cast(v, F32, F64, value)])


class Extreme(Fold):
    """The greatest or least element with its position: the first one, or the first NaN."""

    def __init__(self, op: str, dtype: DType, start: float) -> None:
        super().__init__("maximum" if op == "amax" else "minimum", dtype, start)
        self.parts = [dtype, I64]
        self._better = {"amax": "ogt", "amin": "olt"}[op] if dtype.is_float else {"amax": "sgt", "amin": "slt"}[op]

    def start(self, v: Vectors) -> State:
        """Where all are as bad as can be, the first one is the result."""
        return [v.constant(self.dtype, self.identity), v.constant(I64, 0)]

    def update(self, v: Vectors, state: State, value: str, position: Callable[[], str]) -> State:
        is_better = self._is_better(v, value, state[0])
        return [v.select(self.dtype, is_better, value, state[0]), v.select(I64, is_better, position(), state[1])]

    def merge(self, v: Vectors, a: State, b: State) -> State:
        is_worse, is_better = self._is_better(v, a[0], b[0]), self._is_better(v, b[0], a[0])
        is_earlier = v.both(v.opposite(is_worse), v.compare("slt", I64, b[1], a[1]))
        taken = v.either(is_better, is_earlier)
        return [v.select(d, taken, new, old) for d, new, old in zip(self.parts, b, a, strict=True)]

    def _is_better(self, v: Vectors, a: str, b: str) -> str:
        found = v.compare(self._better, self.dtype, a, b)
        if not self.dtype.is_float:
            return found
        is_ordered = v.compare("ord", self.dtype, b, b)
        return v.either(found, v.both(v.is_nan(self.dtype, a), is_ordered))


_ARG = {"argmax": "amax", "argmin": "amin"}
_FOLDS = {"sum": ("add", 0), "prod": ("mul", 1), "any": ("logical_or", 0), "all": ("logical_and", 1)}


def fold_of(reduce: Reduce) -> Fold:
    """What a reduction does.

    Raises:
        NotNative: where there is no such reduction of the type.
    """
    op, dtype = reduce.op, reduce.lane.dtype
    name = _ARG.get(op, op)
    if dtype not in (ALL if name in ("amax", "amin", "any", "all") else NUMBERS):
        raise NotNative(f"{op} of {dtype}")
    if name in _FOLDS:
        lane_op, start = _FOLDS[name]
        if name in ("any", "all") and dtype is not BOOL:
            raise NotNative(f"{op} of {dtype}")
        return Fold(lane_op, dtype, start)
    worst = _worst(dtype, name == "amax")
    if op in _ARG or reduce.positions is not None:
        if dtype is BOOL:
            raise NotNative(f"positions of {dtype}")
        return Extreme(name, dtype, worst)
    return Fold("maximum" if name == "amax" else "minimum", dtype, worst)


def _worst(dtype: DType, of_maximum: bool) -> float:
    if dtype is BOOL:
        return not of_maximum
    if dtype.is_float:
        return -math.inf if of_maximum else math.inf
    bits = dtype.bytes * 8 - 1
    return -(1 << bits) if of_maximum else (1 << bits) - 1


def emit_reduce(kc: KernelCode, reduce: Reduce) -> None:
    """Write a reduction.

    Raises:
        NotNative: where there is no such reduction of the type.
    """
    emit_empty(kc, reduce)
    Reduction(kc, reduce).emit()


def emit_empty(kc: KernelCode, reduce: Reduce) -> None:
    """Where there is nothing to reduce the result is the number that changes nothing, if there is one."""
    if reduce.op not in ("sum", "prod", "any", "all"):
        return
    code, fold = kc.code, fold_of(reduce)
    reduced = [d for d in reduce_order(reduce) if d in reduce.dims]
    unknown = [kc.operand(reduce.sizes[d]) for d in reduced if isinstance(reduce.sizes[d], Scalar)]
    is_empty = any(is_number(reduce.sizes[d], 0) for d in reduced)
    if not unknown and not is_empty:
        return
    kept = tuple(1 if d in reduce.dims else size for d, size in enumerate(reduce.sizes))
    fill, end = code.fresh("nothing"), code.fresh("something")
    condition = "true" if is_empty else "false"
    for size in unknown:
        condition = code.value(f"or i1 {condition}, {code.value(f'icmp slt i64 {size}, 1')}")
    code.branch(condition, fill, end)
    code.label(fill)
    emit_nest(kc, Nest(kept, (Store(reduce.place, Fill(fold.dtype, fold.identity)),)))
    code.go(end)
    code.label(end)


class Reduction:
    """Writes the loops of a reduction.

    Raises:
        NotNative: where there is no such reduction of the type.
    """

    def __init__(self, kc: KernelCode, reduce: Reduce) -> None:
        order = reduce_order(reduce)
        self.kc = kc
        self.reduce = reduce
        self.fold = fold_of(reduce)
        self.reduced = sorted(d for d in order if d in reduce.dims)
        self.places = [reduce.place] + ([reduce.positions] if reduce.positions is not None else [])
        self.is_row = bool(order) and order[-1] in reduce.dims
        self.walk = Walk(kc, reduce.sizes, order, [reduce.lane], self.places)
        self.kept_loops = len([d for d in order[:-1] if d not in reduce.dims])

    def emit(self) -> None:
        with self.walk.unless_empty():
            self.walk.start()
            self._kept(0)

    def _kept(self, depth: int) -> None:
        if depth < self.kept_loops:
            with self.walk.one_loop(depth):
                self._kept(depth + 1)
        elif self.is_row:
            self._row_result()
        else:
            self._columns()

    def _slots(self, fold: Fold, v: Vectors) -> list[str]:
        """Variables with the state to start with."""
        slots = []
        for dtype, value in zip(fold.parts, fold.start(v), strict=True):
            slots.append(self.kc.code.slot(v.type(dtype)))
            self.kc.code.store(v.type(dtype), value, slots[-1])
        return slots

    def _reset(self, fold: Fold, v: Vectors, slots: Sequence[str]) -> None:
        for dtype, value, slot in zip(fold.parts, fold.start(v), slots, strict=True):
            self.kc.code.store(v.type(dtype), value, slot)

    def _state(self, fold: Fold, v: Vectors, slots: Sequence[str]) -> State:
        return [self.kc.code.load(v.type(d), slot) for d, slot in zip(fold.parts, slots, strict=True)]

    def _update(self, fold: Fold, points: Points, slots: Sequence[str]) -> None:
        v = self.walk.vectors
        state = self._state(fold, v, slots)
        new = fold.update(v, state, points.value(self.reduce.lane), lambda: self._position(points))
        for dtype, slot, old, value in zip(fold.parts, slots, state, new, strict=True):
            kept = value if points.mask is None else v.select(dtype, points.mask, value, old)
            self.kc.code.store(v.type(dtype), kept, slot)

    def _position(self, points: Points) -> str:
        """The number of a point among those that are reduced to one."""
        v, found = self.walk.vectors, ""
        for dim in self.reduced:
            along = points.along(dim)
            if found:
                size = v.splat("i64", self.kc.operand(self.reduce.sizes[dim]))
                along = v.binary("add", I64, v.binary("mul", I64, found, size), along)
            found = along
        return found or v.constant(I64, 0)

    # -- columns
    def _columns(self) -> None:
        """Each lane is a result."""
        walk, v = self.walk, self.walk.vectors
        fold = WideSum() if self.reduce.op == "sum" and self.fold.dtype is F32 and self.reduced else self.fold
        if not walk.order:
            self._strips(fold, [("0", None)])
            return
        group: list[tuple[str, str | None]] = []
        for position, mask, copy in walk.vectors_of_row():
            group.append((position, mask))
            if mask is not None or copy == walk.copies - 1:
                self._strips(fold, group)
                group = []
        v.mask = None

    def _strips(self, fold: Fold, group: Sequence[tuple[str, str | None]]) -> None:
        """Some neighbouring vectors of results."""
        v = self.walk.vectors
        slots = [self._slots(fold, v) for _ in group]
        self._reduced_loops(self.kept_loops, fold, group, slots)
        for (position, mask), held in zip(group, slots, strict=True):
            self._store_vector(fold, Points(self.walk, position, mask), self._state(fold, v, held))

    def _reduced_loops(
        self, depth: int, fold: Fold, group: Sequence[tuple[str, str | None]], slots: Sequence[Sequence[str]]
    ) -> None:
        if depth < self.kept_loops + len(self.reduced):
            with self.walk.one_loop(depth):
                self._reduced_loops(depth + 1, fold, group, slots)
            return
        for (position, mask), held in zip(group, slots, strict=True):
            points = Points(self.walk, position, mask)
            points.compute()
            self._update(fold, points, held)

    def _store_vector(self, fold: Fold, points: Points, state: State) -> None:
        v = self.walk.vectors
        results = self._results(fold, state)
        for place, (dtype, value) in zip(self.places, results, strict=True):
            points.store(place, emit_cast(v, dtype, place.dtype, value))

    def _results(self, fold: Fold, state: State) -> list[tuple[DType, str]]:
        """What is stored, with its type."""
        parts = list(zip(fold.parts, state, strict=True))
        return parts[1:] if self.reduce.op in _ARG else parts

    # -- rows
    def _row_result(self) -> None:
        """The reduced loops, and then the lanes become one."""
        self.store_scalars(self.row_state())

    @property
    def is_blocked(self) -> bool:
        """Does what a row sums up go to a total now and then?"""
        return self.is_row and self.reduce.op == "sum" and self.fold.dtype is F32

    @property
    def row_fold(self) -> Fold:
        """What puts together the states of rows."""
        return WideSum() if self.is_blocked else self.fold

    def row_state(self) -> State:
        """The state after the reduced loops, of one lane."""
        walk, v = self.walk, self.walk.vectors
        slots = [self._slots(self.fold, v) for _ in range(walk.copies)]
        total = self._slots(self.row_fold, v) if self.is_blocked else []
        self._rows(self.kept_loops, slots, total)
        v.mask = None
        state = self._state(self.row_fold, v, total) if self.is_blocked else self._merged(slots)
        return self._horizontal(self.row_fold, state)

    def _rows(self, depth: int, slots: Sequence[Sequence[str]], total: Sequence[str]) -> None:
        walk = self.walk
        if depth < len(walk.order) - 1:
            with walk.one_loop(depth):
                self._rows(depth + 1, slots, total)
        elif total:
            self._blocks(slots, total)
        else:
            walk.row(lambda points: self._update(self.fold, points, slots[points.copy]))

    def _blocks(self, slots: Sequence[Sequence[str]], total: Sequence[str]) -> None:
        """A row whose sum goes to the total now and then."""
        code, walk, v = self.kc.code, self.walk, self.walk.vectors
        assert walk.inner is not None
        size, block = walk.sizes[walk.inner], BLOCK * walk.copies * v.count
        if isinstance(size, int) and size <= block:
            walk.row(lambda points: self._update(self.fold, points, slots[points.copy]))
            self._add_to_total(slots, total)
            return
        low, high = self.kc.bounds(walk.inner, size)
        with counting_by(code, low, high, block) as start:
            stop = code.value(f"add i64 {start}, {block}")
            end = code.intrinsic("i64 @llvm.smin.i64(i64, i64)", stop, high)
            walk.row(lambda points: self._update(self.fold, points, slots[points.copy]), (start, end))
            self._add_to_total(slots, total)

    def _add_to_total(self, slots: Sequence[Sequence[str]], total: Sequence[str]) -> None:
        v, wide = self.walk.vectors, WideSum()
        v.mask = None
        [block] = self._merged(slots)
        [new] = wide.update(v, self._state(wide, v, total), block, str)
        self.kc.code.store(v.type(F64), new, total[0])
        for held in slots:
            self._reset(self.fold, v, held)

    def _merged(self, slots: Sequence[Sequence[str]]) -> State:
        v = self.walk.vectors
        states = [self._state(self.fold, v, held) for held in slots]
        while len(states) > 1:
            states = [self.fold.merge(v, a, b) for a, b in zip(states[::2], states[1::2], strict=True)]
        return states[0]

    def _horizontal(self, fold: Fold, state: State) -> State:
        """All lanes as one: halves, again and again."""
        code, count = self.kc.code, self.walk.vectors.count
        while count > 1:
            count //= 2
            narrow = Vectors(code, count, self.walk.vectors.target)
            halves: list[State] = [[], []]
            for dtype, value in zip(fold.parts, state, strict=True):
                whole = f"<{2 * count} x {dtype.lane}>"
                for number, half in enumerate(halves):
                    lanes = ", ".join(f"i32 {number * count + i}" for i in range(count))
                    half.append(code.value(f"shufflevector {whole} {value}, {whole} poison, <{count} x i32> <{lanes}>"))
            state = fold.merge(narrow, *halves)
        return state

    def store_scalars(self, state: State) -> None:
        """Store a state of one lane."""
        fold = self.row_fold
        code, one = self.kc.code, Vectors(self.kc.code, 1, self.walk.vectors.target)
        for place, (dtype, value) in zip(self.places, self._results(fold, state), strict=True):
            value = emit_cast(one, dtype, place.dtype, value)
            if place.dtype is BOOL:
                value = one.convert("zext", "i1", value, "i8")
            element = one.first(place.dtype.stored, value)
            pointer = self.walk.pointers[place]
            code.emit(f"store {place.dtype.stored} {element}, ptr {pointer}, align {place.dtype.bytes}")
