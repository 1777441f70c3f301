"""Writing loop IR: arithmetic on sizes, lanes, nests, memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.coalescing import coalesced
from jitlite.kernels.later_reads import is_read_later, reads
from jitlite.kernels.loop_ir import (
    I64,
    Alloc,
    Bind,
    Buffer,
    Check,
    Convert,
    DType,
    Fill,
    Gather,
    Get,
    Kernel,
    Lane,
    LaneCast,
    Load,
    LoopVariable,
    Nest,
    Operand,
    Owner,
    Place,
    Position,
    Scalar,
    SizeArithmetic,
    Statement,
    Store,
)
from jitlite.kernels.partial_lanes import may_give_up
from jitlite.kernels.size_folding import COMMUTES, CONDITIONS, FOLD, equalities, opposite, simplified
from jitlite.kernels.values import TensorValue, Value, identity, is_one
from jitlite.native.code import NotNative

Key = tuple[object, ...]


@dataclass(frozen=True)
class LoopFrame:
    """A loop of the program that is being written.

    Attributes:
        node: in the graph.
        index: the number of the iteration.
        count: how often it runs; None if its condition may end it before.
    """

    node: Node
    index: Scalar
    count: Operand | None


class KernelBuilder:
    """Writes statements.

    Attributes:
        kernel: what is written.
        statements: those of the block that is being written.
        level: how many loops are around it.
        finished: nodes whose results are in memory, or are no tensors.
        shows_copies: can the program tell whether a tensor is a copy or a view?
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.statements: list[Statement] = []
        self.level = 0
        self.finished: set[Node] = set()
        self.shows_copies = False
        self._count = 0
        self._known: list[dict[Key, Operand]] = [{}]
        """Arithmetic that has been written, by block: what it is."""
        self._same: list[dict[Scalar, Operand]] = [{}]
        """Scalars that have been found to be equal to others, by block."""
        self._lazy: dict[TensorValue, None] = {}
        self._outer: set[TensorValue] = set()
        """The expressions of the blocks around the one that is being written."""
        self.evaluated: set[TensorValue] = set()
        """The tensors whose elements some nest computes."""
        self.allocated: dict[Buffer, Alloc] = {}
        self.joined: set[Buffer] = set()
        """Names for memory that one block of a branch has made or the other, and nobody else knows."""
        self.loops: list[LoopFrame] = []
        """The loops of the program that are being written, from the outermost one inwards."""
        self._definitions: dict[Scalar, SizeArithmetic] = {}
        self._births: dict[Scalar, tuple[int, int]] = {}
        """For each scalar, how many loops are around it, and a number that grows."""
        self.written: set[Buffer] = set()
        """The buffers that operators of the program write."""

    def value(self, value: GraphValue) -> Value:
        """What a value of the graph is here."""
        raise NotImplementedError

    def node(self, node: Node) -> None:
        """Write what a node does. What it gives is known from then on."""
        raise NotImplementedError

    def know(self, value: GraphValue, found: Value) -> None:
        """Take it that a value of a graph is this."""
        raise NotImplementedError

    # -- statements
    def write(self, statement: Statement) -> None:
        self.statements.append(statement)

    def fresh_name(self, base: str) -> str:
        self._count += 1
        return f"{base}{self._count}"

    def scalar(self, t: T.Type, base: str = "s") -> Scalar:
        found = Scalar(self.fresh_name(base), t)
        self._births[found] = (self.level, self._count)
        return found

    @property
    def moment(self) -> tuple[int, int]:
        """How many loops are around what is being written, and a number that grows."""
        return self.level, self._count

    def variable(self, t: T.Type) -> LoopVariable:
        return LoopVariable(self.fresh_name("v"), t)

    def get(self, variable: LoopVariable) -> Scalar:
        """What a variable is at this point."""
        result = self.scalar(variable.type)
        self.write(Get(result, variable))
        return result

    @contextmanager
    def block(self, *, is_loop: bool = False) -> Iterator[list[Statement]]:
        """Write the statements of a block of its own."""
        outer, self.statements = self.statements, []
        around, self._outer = self._outer, set(self._lazy)
        self._known.append({})
        self._same.append({})
        self.level += is_loop
        try:
            yield self.statements
            self.force_partial()
        finally:
            self.level -= is_loop
            self._same.pop()
            self._known.pop()
            self._lazy = {v: None for v in self._lazy if v in self._outer}  # nobody reads the others any more
            self._outer = around
            self.statements = outer

    # -- arithmetic
    def index(self, op: str, *operands: Operand) -> Operand:
        """The value of a `SizeArithmetic`; numbers are computed, and what has been computed is not computed again."""
        given = [self.canonical(o) for o in operands]
        if not any(isinstance(o, Scalar) for o in given):
            folded: Operand = FOLD[op](*given)
            return folded
        short = simplified(op, given)
        if short is None and op == "not":
            short = opposite(given[0], self._definitions)
        if short is not None:
            return short
        key = self._key(op, given)
        found = self._look_up(key)
        if found is None:
            found = self.scalar(T.BOOL if op in CONDITIONS else T.INT)
            written = self._definitions[found] = SizeArithmetic(found, op, tuple(given))
            self.write(written)
            self._known[-1][key] = found
        return found

    def _key(self, op: str, given: Sequence[Operand]) -> Key:
        names: list[object] = [(type(o), o) for o in given]
        return (op, *sorted(names, key=repr)) if op in COMMUTES else (op, *names)

    def _look_up(self, key: Key) -> Operand | None:
        return next((known[key] for known in reversed(self._known) if key in known), None)

    @contextmanager
    def earlier(self, statements: list[Statement], level: int) -> Iterator[None]:
        """Write to the end of statements that run before, where nothing of what is known here is."""
        kept = self.statements, self.level, self._known, self._same
        self.statements, self.level, self._known, self._same = statements, level, [{}], [{}]
        try:
            yield
        finally:
            self.statements, self.level, self._known, self._same = kept

    def known_at(self, value: Operand, moment: tuple[int, int]) -> Operand | None:
        """An operand as it can be had at an earlier moment; None if it cannot. Arithmetic is written again, here.

        Args:
            value: an operand of this moment, in canonical form.
            moment: what `moment` was then. Statements have to be written to where that was, see `earlier`.
        """
        if not isinstance(value, Scalar):
            return value
        level, number = self._births.get(value, (0, 0))
        if level <= moment[0] and number <= moment[1]:
            return value
        made = self._definitions.get(value)
        if made is None:
            return None
        operands = [o for o in (self.known_at(o, moment) for o in made.operands) if o is not None]
        return self.index(made.op, *operands) if len(operands) == len(made.operands) else None

    def note(self, op: str, operands: Sequence[Operand], result: Operand) -> None:
        """Take it that arithmetic has been computed, by a guard for instance."""
        given = [self.canonical(o) for o in operands]
        if any(isinstance(o, Scalar) for o in given) and simplified(op, given) is None:
            self._known[-1][self._key(op, given)] = result

    def known_product(self, a: Operand, b: Operand) -> Operand | None:
        """The product, if it is known without computing it."""
        given = [self.canonical(a), self.canonical(b)]
        if not any(isinstance(o, Scalar) for o in given):
            return given[0] * given[1]  # type: ignore[operator]
        short = simplified("mul", given)
        return short if short is not None else self._look_up(self._key("mul", given))

    def canonical(self, value: Operand) -> Operand:
        """The same for all scalars that are known to be equal."""
        while isinstance(value, Scalar):
            found = next((same[value] for same in reversed(self._same) if value in same), None)
            if found is None:
                return value
            value = found
        return value

    def check(self, condition: Operand, reason: str) -> None:
        """Go on only where it holds."""
        if condition is True:
            return
        if condition is False:
            raise NotNative(reason)
        self.write(Check(condition, reason))
        for a, b in equalities(condition, self._definitions):
            self._take_as_equal(self.canonical(a), self.canonical(b))

    def require_equal(self, a: Operand, b: Operand, reason: str) -> None:
        """Go on only where two sizes are equal; from here on they are."""
        a, b = self.canonical(a), self.canonical(b)
        if a is b or (not isinstance(a, Scalar) and not isinstance(b, Scalar) and a == b):
            return
        self.check(self.index("eq", a, b), reason)

    def _take_as_equal(self, a: Operand, b: Operand) -> None:
        if not isinstance(a, Scalar):
            a, b = b, a
        if not isinstance(a, Scalar) or a is b:
            return
        self._same[-1][a] = b
        for key, result in [entry for known in self._known for entry in known.items()]:
            if any(named == (Scalar, a) for named in key[1:]):  # what is computed of the one is so of the other
                operands = [named[1] for named in key[1:] if isinstance(named, tuple)]
                self.note(str(key[0]), operands, result)

    def are_equal(self, a: Operand, b: Operand) -> bool:
        """Are two sizes known to be equal?"""
        a, b = self.canonical(a), self.canonical(b)
        return a is b or (not isinstance(a, Scalar) and not isinstance(b, Scalar) and a == b)

    def same_sizes(self, a: Sequence[Operand], b: Sequence[Operand]) -> bool:
        return len(a) == len(b) and all(map(self.are_equal, a, b))

    def numel(self, sizes: Iterable[Operand]) -> Operand:
        """The number of elements: multiplied from the last dimension on, as strides are."""
        found: Operand = 1
        for size in reversed(list(sizes)):
            found = self.index("mul", size, found)
        return found

    def convert(self, value: Operand, wanted: T.Type) -> Operand:
        """A number as one of another type; where it has none, the kernel gives up."""
        if not isinstance(value, Scalar):
            return bool(value) if wanted is T.BOOL else int(value) if wanted is T.INT else float(value)
        result = self.scalar(wanted)
        self.write(Convert(result, value))
        return result

    def strides_of(self, sizes: Sequence[Operand], order: Sequence[int] | None = None) -> tuple[Operand, ...]:
        """The strides of memory without gaps; 0 where a size is 1."""
        strides: list[Operand] = [0] * len(sizes)
        expected: Operand = 1
        for d in reversed(identity(sizes) if order is None else order):
            strides[d] = expected
            expected = self.index("mul", sizes[d], expected)
        return tuple(strides)

    def is_contiguous(self, place: Place) -> bool:
        """Is a place known to have its elements one behind the other?"""
        expected: Operand | None = 1
        for size, stride in zip(reversed(place.sizes), reversed(place.strides), strict=True):
            if is_one(size):
                continue
            if expected is None or not self.are_equal(stride, expected):
                return False
            expected = self.known_product(size, expected)
        return True

    def broadcast(self, *shapes: Sequence[Operand]) -> tuple[Operand, ...]:
        """The sizes that shapes broadcast to."""
        rank = max((len(s) for s in shapes), default=0)
        sizes: list[Operand] = [1] * rank
        for shape in shapes:
            for d, size in enumerate(shape, rank - len(shape)):
                if is_one(sizes[d]):
                    sizes[d] = size
                elif not is_one(size):
                    self.require_equal(sizes[d], size, "tensors do not broadcast")
        return tuple(sizes)

    # -- memory
    def alloc(
        self, dtype: DType, sizes: Sequence[Operand], order: Sequence[int] | None = None, level: int | None = None
    ) -> Place:
        """New memory for a tensor."""
        buffer = Buffer(self.fresh_name("b"), dtype, Owner.ARENA)
        strides = self.strides_of(sizes, order)
        turned = None if order is None or list(order) == sorted(order) else tuple(order)
        made = Alloc(buffer, tuple(sizes), strides, self.level if level is None else level, turned)
        self.write(made)
        self.allocated[buffer] = made
        return Place(buffer, 0, tuple(sizes), strides)

    def alias(self, buffer: Buffer) -> Buffer:
        """A buffer that stands for the memory of another one, until it is bound to that of a third one."""
        made = Buffer(self.fresh_name("b"), buffer.dtype, Owner.ALIAS)
        self.write(Bind(made, buffer))
        return made

    def lazy(self, value: TensorValue) -> TensorValue:
        """Know of a tensor that is an expression."""
        self._lazy[value] = None
        return value

    def forget_lazy(self, value: TensorValue) -> None:
        """Know no more of an expression, which nobody else reads."""
        self._lazy.pop(value, None)

    def force(self, value: TensorValue) -> Place:
        """Have a tensor in memory."""
        self.force_all([value])
        assert value.place is not None
        return value.place

    def force_all(self, values: Iterable[TensorValue], into: Sequence[Place | None] = ()) -> None:
        """Have tensors in memory, those of one shape in one nest; `into` says where."""
        wanted = list(dict.fromkeys(v for v in values if v.is_lazy))
        places = dict(zip(values, into, strict=False)) if into else {}
        while wanted:
            first = wanted[0]
            group = [v for v in wanted if self.same_sizes(v.sizes, first.sizes) and v.order == first.order]
            self._store(group, places)
            wanted = [v for v in wanted if v.is_lazy]

    def force_partial(self) -> None:
        """Have in memory what nobody in this block has read, but raises in Python for some elements."""
        for value in reversed([v for v in self._lazy if v not in self._outer]):
            if value.is_lazy and value not in self.evaluated:
                lane = NestBuilder(self, value.sizes, value.order).lane(value)
                if may_give_up([lane]):
                    self.force(value)

    def _store(self, group: Sequence[TensorValue], places: dict[TensorValue, Place | None]) -> None:
        builder = NestBuilder(self, group[0].sizes, group[0].order)
        roots = {value: builder.root(value) if value.is_lazy else builder.lane(value) for value in group}
        if any(not v.is_lazy for v in group):  # one was stored on the way to another
            return
        for value in list(builder.lanes):
            if value.is_lazy and value not in roots and self._is_needed_later(value, builder.lanes):
                roots[value] = builder.lanes[value]
        stores = []
        for value, lane in roots.items():
            place = places.get(value) or self.alloc(value.dtype, value.sizes, value.order)
            stores.append((place, lane))
            self._is_stored(value, place)
        builder.write(stores)

    def _is_stored(self, value: TensorValue, place: Place) -> None:
        value.place, value.build, value.parts = place, None, ()
        self._lazy.pop(value, None)
        if value.node is not None:
            self.finished.add(value.node)

    def _is_needed_later(self, value: TensorValue, evaluated: dict[TensorValue, Lane]) -> bool:
        done = self.finished | {v.node for v in evaluated if v.node is not None}
        pending = {v.node for v in self._lazy if v.node is not None and v.node not in done}
        return value.node is not None and is_read_later(value.node, done, pending, {})

    def before_write(self, buffer: Buffer) -> None:
        """Have in memory what is an expression over a buffer that is about to be written."""
        self.written.add(buffer)
        self.force_all([v for v in list(self._lazy) if reads(v, buffer)])

    def copy(self, value: TensorValue, into: Place) -> None:
        """Store the elements of a tensor in a place of the same shape."""
        builder = NestBuilder(self, into.sizes, tuple(range(len(into.sizes))))
        builder.write([(into, builder.lane(value))])

    def memory(self, dtype: DType, sizes: Sequence[Operand], node: Node | None = None) -> TensorValue:
        """A new tensor, contiguous, whose elements are still to be stored."""
        place = self.alloc(dtype, sizes)
        return TensorValue(dtype, tuple(sizes), identity(sizes), place, node=node)


class NestBuilder:
    """Lanes over one space of points, and the nest of them.

    Args:
        builder: of the kernel.
        sizes: of the space, as the tensors that are stored have them.
        order: how these lie in memory: loops go over the dimensions in this order. Those of size 1 need none.
    """

    def __init__(self, builder: KernelBuilder, sizes: Sequence[Operand], order: Sequence[int]) -> None:
        self.builder = builder
        self.sizes = tuple(sizes)
        self.dims = [d for d in order if not is_one(sizes[d])]
        self.dims = [d for d in range(len(sizes)) if not is_one(sizes[d]) and d not in self.dims] + self.dims
        self.lanes: dict[TensorValue, Lane] = {}
        self._is_plain = True

    def lane(self, value: TensorValue) -> Lane:
        """The element of a tensor, broadcast to the space, at each point."""
        found = self.lanes.get(value)
        self.builder.evaluated.add(value)
        if found is None:
            found = self.lanes[value] = self._lane(value)
        return found

    def _lane(self, value: TensorValue) -> Lane:
        if value.is_lazy and (value.is_costly_again or not self.builder.same_sizes(value.sizes, self.sizes)):
            self.builder.force(value)
        return self.load(value.place) if value.place is not None else self._computed(value)

    def _computed(self, value: TensorValue) -> Lane:
        assert value.build is not None
        value.evaluations += 1
        return value.build(self)

    def root(self, value: TensorValue) -> Lane:
        """The element of an expression that is to be stored."""
        if value not in self.lanes:
            self.lanes[value] = self._computed(value)
        return self.lanes[value]

    def load(self, place: Place) -> Load:
        """The element of a place, broadcast to the space."""
        shift = len(self.sizes) - place.rank
        strides: list[Operand] = []
        for d in self.dims:
            own = d - shift
            strides.append(0 if own < 0 or is_one(place.sizes[own]) else place.strides[own])
        return Load(place.dtype, Place(place.buffer, place.offset, self._space, tuple(strides)))

    @property
    def _space(self) -> tuple[Operand, ...]:
        return tuple(self.sizes[d] for d in self.dims)

    def operand(self, value: TensorValue | Operand, dtype: DType) -> Lane:
        """A tensor or a number, as an element of some type."""
        if not isinstance(value, TensorValue):
            return Fill(dtype, value)
        lane = self.lane(value)
        return lane if lane.dtype is dtype else LaneCast(dtype, lane)

    def position(self, dim: int) -> Lane | None:
        """The index along a dimension; None where the size is 1 and it is 0."""
        self._is_plain = False
        return Position(I64, self.dims.index(dim)) if dim in self.dims else None

    def gather(self, place: Place, indices: Sequence[int | Lane], *, wraps: bool = True) -> Gather:
        """An element that lanes tell, and dimensions of the space (as numbers)."""
        self._is_plain = False
        found: list[int | Lane] = []
        for index in indices:
            if isinstance(index, Lane):
                found.append(index)
            else:
                found.append(self.dims.index(index) if index in self.dims else Fill(I64, 0))
        return Gather(place.dtype, place, tuple(found), wraps)

    def write(self, stores: Sequence[tuple[Place, Lane]]) -> None:
        """The nest that stores lanes in places, each of which has the shape of the space."""
        made = [Store(self.load(place).place, lane) for place, lane in stores]
        nest = Nest(self._space, tuple(made))
        self.builder.write(coalesced(self.builder, nest) if self._is_plain else nest)

    def strides(self, place: Place) -> Place:
        """A place as a store has it."""
        return self.load(place).place
