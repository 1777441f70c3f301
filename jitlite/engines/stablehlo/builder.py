"""Text of StableHLO in the making: lines, the sizes of what they compute, and what has to hold in a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial

import torch

from jitlite.base.records import Record, replace
from jitlite.engines.converters import Converters, Ref
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.stablehlo.arrays import Array, RegionText, SizeCondition
from jitlite.engines.stablehlo.literals import array, check_linked, dense, ints, number_text, tensor_type
from jitlite.engines.stablehlo.sizes import Dim, Size, is_never_negative, least, names_in, variable


class StableHloBuilder(Record, frozen=False):
    """Collects lines. Each method that adds some gives the `Array` of their result.

    Attributes:
        for_iree: is the text for IREE? That reads some operations only where all sizes are known: a reshape is written
            as MLIR's `tensor.reshape` then, and some operations with others.
        lines: what was written.
        results: what is known of the results of the node that is converted.
        conditions: what has to hold for the sizes of a call, else the text computes something else.
        checks: bools without dimensions that have to be true in a call, and what is wrong else.
    """

    for_iree: bool = False
    lines: list[str] = field(default_factory=list)
    results: list[Ref] = field(default_factory=list)
    conditions: list[SizeCondition] = field(default_factory=list)
    checks: list[tuple[Array, str]] = field(default_factory=list)
    computed: set[str] = field(default_factory=set)
    """Numbers that sizes are formulas of, and that a call does not tell: they are computed."""
    sources: dict[str, str] = field(default_factory=dict)
    """The text that computes each value that sizes are formulas of."""
    _known: dict[str, str] = field(default_factory=dict)
    """Names of lines that have no need to be written twice."""
    _filled: dict[str, Array] = field(default_factory=dict)
    """The element of each tensor whose elements are equal and whose sizes vary. What is computed of such tensors alone
    is computed once, for IREE compiles no reduction of several that it has joined."""
    _spread: dict[str, tuple[Array, list[int]]] = field(default_factory=dict)
    """What tensors of sizes that vary were broadcast from, and its dimensions in them."""
    _count: int = 0

    # -- values
    def argument(self, name: str, ref: Ref, sizes: Sequence[int | None]) -> Array:
        """What goes in; a size that is None is not known, but no less than 2."""
        if ref.is_number:
            if ref.dtype is torch.int64:
                self.sources[name] = name
                return Array(name, ref.dtype, 0, True, amount=variable(name, None))
            return Array(name, ref.dtype, 0, True)
        dims: list[Dim] = []
        for d, size in enumerate(sizes):
            dims.append(variable(f"{name}.{d}", 2) if size is None else size)
        made = Array(name, ref.dtype, ref.rank, dims=tuple(dims))
        for d in range(len(dims)):
            self.sources[f"{name}.{d}"] = f"stablehlo.get_dimension_size {name}, dim = {d} : ({made.type})"
        return made

    def operand_of(self, ref: Ref) -> Ref:
        """What stands for an operand of which no more is known, while a converter is asked whether it can."""
        self._count += 1
        return self.argument(f"%unknown{self._count}", ref, ref.sizes)

    def line(self, text: str, dtype: torch.dtype, dims: Sequence[Dim]) -> Array:
        """Write an operation without its result."""
        self._count += 1
        name = f"%{self._count}"
        self.lines.append(f"{name} = {text}")
        return Array(name, dtype, len(dims), dims=tuple(dims))

    def once(self, text: str, dtype: torch.dtype, dims: Sequence[Dim]) -> Array:
        """Write an operation that depends on nothing but its text, unless it is there."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = self.line(text, dtype, dims).name
        return Array(name, dtype, len(dims), dims=tuple(dims))

    def constant(self, value: torch.Tensor) -> Array:
        """A constant tensor."""
        dims = tuple(value.shape)
        return self.once(f"stablehlo.constant {dense(value)} : {tensor_type(value.dtype, dims)}", value.dtype, dims)

    def full(self, value: float, dtype: torch.dtype, dims: Sequence[Dim] = ()) -> Array:
        """A tensor of equal elements."""
        if all(isinstance(dim, int) for dim in dims):
            text = f"stablehlo.constant dense<{number_text(value, dtype)}> : {tensor_type(dtype, dims)}"
            return self.once(text, dtype, dims)
        return self.broadcast_to(self.full(value, dtype), dims)

    def given(self, value: object) -> Array:
        """A tensor or number that is no constant, or a constant tensor.

        Raises:
            EngineRefusal: it is neither.
        """
        if isinstance(value, torch.Tensor):
            return self.constant(value)
        if not isinstance(value, Array):
            raise EngineRefusal(f"an operand is {type(value).__name__}")
        if value.amount is not None:
            return replace(self.scalar(value.amount), is_number=True)
        return value

    def operand(self, value: object, dtype: torch.dtype) -> Array:
        """A tensor or number, constant or not, as a tensor of this dtype.

        Raises:
            EngineRefusal: it is neither.
        """
        if isinstance(value, bool | int | float):
            return self.full(value, dtype)
        return self.cast(self.given(value), dtype)

    # -- sizes
    def scalar(self, dim: Dim) -> Array:
        """A size as a tensor without dimensions."""
        if isinstance(dim, int):
            return self.full(dim, torch.int64)
        parts = []
        for atoms, factor in dim.terms:
            factors = [self._atom(atom.name, atom.operands) for atom in atoms]
            if factor != 1 or not atoms:
                factors.append(self.full(factor, torch.int64))
            parts.append(self._joined("multiply", factors))
        return self._joined("add", parts)

    def _joined(self, op: str, parts: Sequence[Array]) -> Array:
        found = parts[0]
        for part in parts[1:]:
            found = self.once(f"stablehlo.{op} {found.name}, {part.name} : tensor<i64>", torch.int64, ())
        return found

    def _atom(self, name: str, operands: Sequence[Dim]) -> Array:
        if operands:
            first, second = map(self.scalar, operands)
            if name == "//":
                self.need(1, "<=", operands[1])
                return self._floor_divided(first, second, is_never_negative(operands[0]))
            return self._joined({"min": "minimum", "max": "maximum"}[name], [first, second])
        source = self.sources[name]
        if source == name:
            return Array(name, torch.int64, 0)
        size = self.once(f"{source} -> tensor<i32>", torch.int32, ())
        return self.once(f"stablehlo.convert {size.name} : (tensor<i32>) -> tensor<i64>", torch.int64, ())

    def _floor_divided(self, a: Array, b: Array, is_positive: bool) -> Array:
        """Divided by what is greater than 0. StableHLO rounds towards 0, which is the same if both are."""
        if is_positive:
            return self._joined("divide", [a, b])
        rest = self._joined("remainder", [self._joined("add", [self._joined("remainder", [a, b]), b]), b])
        return self._joined("divide", [self._joined("subtract", [a, rest]), b])

    def shape(self, dims: Sequence[Dim]) -> Array:
        """Sizes as a tensor of one dimension."""
        if all(isinstance(dim, int) for dim in dims):
            return self.constant(torch.tensor(dims, dtype=torch.int64))
        parts = []
        for dim in dims:
            if isinstance(dim, int):
                parts.append(self.constant(torch.tensor([dim])))
            else:
                text = f"stablehlo.reshape {self.scalar(dim).name} : (tensor<i64>) -> tensor<1xi64>"
                parts.append(self.once(text, torch.int64, (1,)))
        if len(parts) == 1:
            return parts[0]
        types = ", ".join(["tensor<1xi64>"] * len(parts))
        names = ", ".join(part.name for part in parts)
        text = f"stablehlo.concatenate {names}, dim = 0 : ({types}) -> tensor<{len(parts)}xi64>"
        return self.once(text, torch.int64, (len(parts),))

    def dim_of(self, value: object) -> Dim:
        """An int of the graph as a size.

        Raises:
            EngineRefusal: it is none.
        """
        if isinstance(value, int):
            return int(value)
        if isinstance(value, Array) and value.amount is not None:
            return value.amount
        raise EngineRefusal("a number that decides the shape of its result is no int")

    def need(self, left: Dim, relation: str, right: Dim) -> None:
        """Have calls for which this does not hold refused.

        Raises:
            EngineRefusal: it never holds.
        """
        if left == right:
            return
        if isinstance(left, int) and isinstance(right, int):
            if relation == "==" or left > right:
                raise EngineRefusal(f"its sizes do not fit: {left} is not {relation} {right}")
            return
        bound = least(right - left) if relation == "<=" else None
        if bound is not None and bound >= 0:
            return
        self._note_condition(left, relation, right)

    def _note_condition(self, left: Dim, relation: str, right: Dim) -> None:
        """Have it looked at before a call, or in the text where a call does not tell the sizes."""
        if self.computed.isdisjoint(names_in(left)) and self.computed.isdisjoint(names_in(right)):
            self.conditions.append(SizeCondition(left, right, relation))
            return
        op = "EQ" if relation == "==" else "LE"
        holds = self.compare(op, self.scalar(left), self.scalar(right))
        self.checks.append((holds, "a size or an index that is computed does not fit"))

    def joined_dim(self, a: Dim, b: Dim) -> Dim:
        """The size that two are broadcast to. Where that is not known, it is taken that they are equal.

        Raises:
            EngineRefusal: they do not fit.
        """
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        self.need(a, "==", b)
        return b if isinstance(b, int) else a

    def joined_dims(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The sizes that tensors of these are broadcast to."""
        rank = max(map(len, shapes), default=0)
        found: list[Dim] = [1] * rank
        for dims in shapes:
            for d, dim in enumerate(dims, rank - len(dims)):
                found[d] = self.joined_dim(found[d], dim)
        return tuple(found)

    def computed_int(self, x: Array) -> Array:
        """An int that is in a tensor without dimensions, as an int of the graph."""
        self.sources[x.name] = x.name
        self.computed.add(x.name)
        return Array(x.name, torch.int64, 0, True, amount=variable(x.name, None))

    @contextmanager
    def region(self) -> Iterator[RegionText]:
        """Have lines and checks collected for themselves. What is computed within is not known behind it."""
        outer = self.lines, self.checks, dict(self._known)
        inside = RegionText()
        self.lines, self.checks = inside.lines, inside.checks
        try:
            yield inside
        finally:
            self.lines, self.checks, self._known = outer

    def new_name(self) -> str:
        """A name that no value has."""
        self._count += 1
        return f"%{self._count}"

    # -- operations that move elements
    def broadcast_to(self, x: Array, dims: Sequence[Dim], at: Sequence[int] | None = None) -> Array:
        """A tensor of these sizes.

        Args:
            at: the dimensions of the result that those of `x` are; the last ones if not given.
        """
        places = list(range(len(dims) - x.rank, len(dims))) if at is None else list(at)
        if x.dims == tuple(dims) and places == list(range(x.rank)):
            return x
        if x.name in self._spread:  # IREE joins two that follow one another to one that it does not read
            x, first = self._spread[x.name]
            places = [places[d] for d in first]
        made = tensor_type(x.dtype, dims)
        if is_static([*dims, *x.dims]):
            text = f"stablehlo.broadcast_in_dim {x.name}, dims = {ints(places)} : ({x.type}) -> {made}"
            return self.line(text, x.dtype, dims)
        expanding = [d for d, place in enumerate(places) if x.dims[d] == 1 and dims[place] != 1]
        kept = [d for d in range(x.rank) if d not in expanding]
        attributes = (
            f"broadcast_dimensions = {array(places)}, known_expanding_dimensions = {array(expanding)}, "
            f"known_nonexpanding_dimensions = {array(kept)}"
        )
        shape = self.shape(dims)
        text = (
            f'"stablehlo.dynamic_broadcast_in_dim"({x.name}, {shape.name}) {{{attributes}}} : '
            f"({x.type}, {shape.type}) -> {made}"
        )
        found = self.line(text, x.dtype, dims)
        self._spread[found.name] = x, places
        if not x.rank:
            self._filled[found.name] = x
        return found

    def _of_equal_elements(self, compute: Callable[..., Array], *given: Array) -> Array | None:
        """What an operation on elements gives if those of each operand are equal; None if they are not known to be."""
        elements = [x if x.rank == 0 else self._filled.get(x.name) for x in given]
        if None in elements or not any(x.rank for x in given):
            return None
        return self.broadcast_to(compute(*elements), self.joined_dims(*(x.dims for x in given)))

    def broadcast(self, *given: Array) -> list[Array]:
        """The tensors, all of the same sizes."""
        dims = self.joined_dims(*(x.dims for x in given))
        return [self.broadcast_to(x, dims) for x in given]

    def reshape(self, x: Array, dims: Sequence[Dim]) -> Array:
        """The same elements in the same order; there have to be as many."""
        if x.dims == tuple(dims):
            return x
        made = tensor_type(x.dtype, dims)
        if all(isinstance(dim, int) for dim in (*dims, *x.dims)):
            return self.line(f"stablehlo.reshape {x.name} : ({x.type}) -> {made}", x.dtype, dims)
        shape = self.shape(dims)
        if self.for_iree:
            text = f"tensor.reshape {x.name}({shape.name}) : ({x.type}, {shape.type}) -> {made}"
        else:
            text = f"stablehlo.dynamic_reshape {x.name}, {shape.name} : ({x.type}, {shape.type}) -> {made}"
        return self.line(text, x.dtype, dims)

    def transpose(self, x: Array, order: Sequence[int]) -> Array:
        """The dimensions in another order."""
        if list(order) == list(range(x.rank)):
            return x
        dims = [x.dims[d] for d in order]
        text = f"stablehlo.transpose {x.name}, dims = {ints(order)} : ({x.type}) -> {tensor_type(x.dtype, dims)}"
        return self.line(text, x.dtype, dims)

    def slice(self, x: Array, dim: int, start: Dim, stop: Dim, step: int = 1) -> Array:
        """A part of one dimension; the bounds have to lie in it, in order."""
        if (start, stop, step) == (0, x.dims[dim], 1):
            return x
        length = (stop - start + (step - 1)) // step
        dims = [*x.dims[:dim], length, *x.dims[dim + 1 :]]
        bounds = [(0, n, 1) for n in x.dims]
        bounds[dim] = (start, stop, step)  # type: ignore[assignment]
        made = tensor_type(x.dtype, dims)
        if all(isinstance(n, int) for n in (start, stop, *x.dims)):
            text = ", ".join(f"{a}:{b}:{c}" for a, b, c in bounds)
            return self.line(f"stablehlo.slice {x.name} [{text}] : ({x.type}) -> {made}", x.dtype, dims)
        parts = [self.shape(numbers) for numbers in zip(*bounds, strict=True)]
        names, types = (", ".join(texts) for texts in zip(*((p.name, p.type) for p in parts), strict=True))
        text = f"stablehlo.real_dynamic_slice {x.name}, {names} : ({x.type}, {types}) -> {made}"
        return self.line(text, x.dtype, dims)

    def with_sizes(self, x: Array, dims: Sequence[Dim]) -> Array:
        """The tensor, said to have these sizes, which are those that it has.

        IREE compiles a loop only where all that it carries has sizes that it sees to be the same all along. A slice of
        the whole says so.
        """
        if not self.for_iree or is_static(dims):
            return x
        bounds = self.shape([0] * x.rank), self.shape(dims), self.shape([1] * x.rank)
        names, types = ", ".join(b.name for b in bounds), ", ".join(b.type for b in bounds)
        made = tensor_type(x.dtype, dims)
        text = f"stablehlo.real_dynamic_slice {x.name}, {names} : ({x.type}, {types}) -> {made}"
        return self.line(text, x.dtype, dims)

    def concatenate(self, parts: Sequence[Array], dim: int) -> Array:
        """The tensors one after another; the other sizes have to be equal."""
        total: Dim = 0
        for part in parts:
            total = total + part.dims[dim]
        dims = [*parts[0].dims[:dim], total, *parts[0].dims[dim + 1 :]]
        names, types = (", ".join(texts) for texts in zip(*((p.name, p.type) for p in parts), strict=True))
        made = tensor_type(parts[0].dtype, dims)
        return self.line(f"stablehlo.concatenate {names}, dim = {dim} : ({types}) -> {made}", parts[0].dtype, dims)

    def pad(
        self, x: Array, filler: Array, before: Sequence[int], after: Sequence[int], gaps: Sequence[int] = ()
    ) -> Array:
        """More elements at the ends of dimensions, and between the elements there are."""
        between = list(gaps) or [0] * x.rank
        if not any((*before, *after, *between)):
            return x
        dims = [
            n + (n - 1) * gap + a + b if gap else n + a + b
            for n, a, b, gap in zip(x.dims, before, after, between, strict=True)
        ]
        text = (
            f"stablehlo.pad {x.name}, {filler.name}, low = {ints(before)}, high = {ints(after)}, "
            f"interior = {ints(between)} : ({x.type}, {filler.type}) -> {tensor_type(x.dtype, dims)}"
        )
        return self.line(text, x.dtype, dims)

    def iota(self, dtype: torch.dtype, dims: Sequence[Dim], dim: int) -> Array:
        """0, 1, 2, ... along a dimension."""
        made = tensor_type(dtype, dims)
        if all(isinstance(n, int) for n in dims):
            return self.once(f"stablehlo.iota dim = {dim} : {made}", dtype, dims)
        shape = self.shape(dims)
        return self.once(f"stablehlo.dynamic_iota {shape.name}, dim = {dim} : ({shape.type}) -> {made}", dtype, dims)

    # -- operations on elements
    def cast(self, x: Array, dtype: torch.dtype) -> Array:
        """The elements as another dtype."""
        if x.dtype is dtype:
            return x
        if dtype is torch.bool:
            return self.compare("NE", x, self.full(0, x.dtype))
        found = self._of_equal_elements(lambda element: self.cast(element, dtype), x)
        if found is not None:
            return found
        text = f"stablehlo.convert {x.name} : ({x.type}) -> {tensor_type(dtype, x.dims)}"
        return self.line(text, dtype, x.dims)

    def unary(self, op: str, x: Array) -> Array:
        """An operation that keeps the type. Those that StableHLO has not are of the dialect `chlo`."""
        if self.for_iree:
            check_linked(op, x.dtype)
        found = self._of_equal_elements(partial(self.unary, op), x)
        if found is not None:
            return found
        if "." in op:
            return self.line(f"{op} {x.name} : {x.type} -> {x.type}", x.dtype, x.dims)
        return self.line(f"stablehlo.{op} {x.name} : {x.type}", x.dtype, x.dims)

    def binary(self, op: str, a: Array, b: Array) -> Array:
        """An operation on two tensors of one dtype, which are broadcast."""
        if self.for_iree:
            check_linked(op, a.dtype)
        found = self._of_equal_elements(partial(self.binary, op), a, b)
        if found is not None:
            return found
        if a.name == b.name and op in _ZERO_OF_EQUALS and not a.dtype.is_floating_point:
            return self.full(0, a.dtype, a.dims)
        a, b = self.broadcast(a, b)
        made = tensor_type(a.dtype, a.dims)
        return self.line(f"stablehlo.{op} {a.name}, {b.name} : {made}", a.dtype, a.dims)

    def compare(self, op: str, a: Array, b: Array) -> Array:
        """A comparison of two tensors of one dtype, which are broadcast."""
        found = self._of_equal_elements(partial(self.compare, op), a, b)
        if found is not None:
            return found
        if a.name == b.name and not a.dtype.is_floating_point:
            return self.full(op in _TRUE_OF_EQUALS, torch.bool, a.dims)
        a, b = self.broadcast(a, b)
        unsigned = a.dtype in (torch.bool, torch.uint8)
        kind = "FLOAT" if a.dtype.is_floating_point else "UNSIGNED" if unsigned else "SIGNED"
        made = tensor_type(torch.bool, a.dims)
        text = f"stablehlo.compare {op}, {a.name}, {b.name}, {kind} : ({a.type}, {b.type}) -> {made}"
        return self.line(text, torch.bool, a.dims)

    def select(self, condition: Array, a: Array, b: Array) -> Array:
        """The elements of `a` where it holds, else those of `b`; all are broadcast."""
        found = self._of_equal_elements(self.select, condition, a, b)
        if found is not None:
            return found
        condition, a, b = self.broadcast(condition, a, b)
        text = f"stablehlo.select {condition.name}, {a.name}, {b.name} : {condition.type}, {a.type}"
        return self.line(text, a.dtype, a.dims)

    def reduce(self, op: str, x: Array, axes: Sequence[int], start: float) -> Array:
        """The elements along some dimensions joined by an operation; these dimensions go."""
        if not axes:
            return x
        begin = self.full(start, x.dtype)
        dims = [n for d, n in enumerate(x.dims) if d not in axes]
        text = (
            f"stablehlo.reduce({x.name} init: {begin.name}) applies stablehlo.{op} across dimensions = {ints(axes)} : "
            f"({x.type}, {begin.type}) -> {tensor_type(x.dtype, dims)}"
        )
        return self.line(text, x.dtype, dims)

    def all_true(self, x: Array, why: str) -> None:
        """Have a call refused unless all elements of a tensor of bools are true."""
        self.checks.append((self.reduce("and", x, range(x.rank), 1), why))


def is_static(dims: Sequence[Dim]) -> bool:
    """Are all of these sizes constants?"""
    return not any(isinstance(dim, Size) for dim in dims)


def axis_of(dim: object, rank: int) -> int:
    """A dimension of a tensor of this rank, from its start.

    Raises:
        EngineRefusal: it is no constant, or there is none.
    """
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise EngineRefusal("the dimension that it works on is no constant, or there is none")
    return dim % rank


def accumulated_in(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums of such elements are computed."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


_ZERO_OF_EQUALS = ("subtract", "xor")
_TRUE_OF_EQUALS = ("EQ", "LE", "GE")
"""Of ints and the same ints. IREE makes constants of that which it does not read where sizes vary."""


CONVERTERS: Converters[StableHloBuilder] = Converters("StableHLO", StableHloBuilder)
