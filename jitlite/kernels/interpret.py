"""Kernels run in Python, statement by statement: what they mean, and what machine code is compared with.

A buffer is a flat tensor; a place is a strided view of it. A nest computes each lane for all points at once, with
torch's operators. Nothing here is fast.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import singledispatchmethod
from typing import Any

import torch
from torch import Tensor

from jitlite.base.records import Record
from jitlite.ir.constants import INT64_MAX, INT64_MIN
from jitlite.ir.graph import Node
from jitlite.kernels import loop_ir as L
from jitlite.kernels.loop_ir import Buffer, Kernel, Lane, LoopVariable, Operand, Place, Scalar, Statement
from jitlite.kernels.meanings import GivesUp, apply, index_of, reduced, sorted_positions

Held = Any
"""A value of the program while it runs: a number, a list or dict of them, or a tensor."""


def interpret(kernel: Kernel, arguments: Sequence[object]) -> Held:
    """What a kernel gives for arguments; None where it gives up, or is not made for them."""
    run = _Run()
    try:
        with torch.no_grad():
            _Arguments(run).take(kernel, arguments)
            for statement in kernel.body:
                run.do(statement)
            given = [run.output(output, arguments) for output in kernel.outputs]
    except GivesUp:
        return None
    return tuple(given) if kernel.gives_tuple else given[0]


def interpret_statements(
    statements: Sequence[Statement], memory: dict[Buffer, Tensor], scalars: dict[Scalar, Held]
) -> bool:
    """Run statements on memory, which are flat tensors, and with scalars; false where they give up."""
    run = _Run(memory, dict(scalars))
    try:
        with torch.no_grad():
            for statement in statements:
                run.do(statement)
    except GivesUp:
        return False
    return True


def _or_give_up(function: Callable[..., Held], *operands: Held) -> Held:
    """What a function gives; the kernel gives up where it raises, for it is Python that raises exceptions."""
    try:
        return function(*operands)
    except Exception as error:
        raise GivesUp(str(error)) from error


class _Run(Record, frozen=False):
    """One run of a kernel.

    Attributes:
        memory: what each buffer stands for, from its first element on.
        scalars: what has been computed.
        variables: what has been set.
        tensors: the results, as tensors.
    """

    memory: dict[Buffer, Tensor] = field(default_factory=dict)
    scalars: dict[Scalar, Held] = field(default_factory=dict)
    variables: dict[LoopVariable, Held] = field(default_factory=dict)
    tensors: dict[Buffer, Tensor] = field(default_factory=dict)

    # -- values
    def value(self, operand: Operand) -> Held:
        return self.scalars[operand] if isinstance(operand, Scalar) else operand

    def values(self, operands: Sequence[Operand]) -> tuple[Held, ...]:
        return tuple(map(self.value, operands))

    def set(self, scalar: Scalar, value: Held) -> None:
        if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
            raise GivesUp
        self.scalars[scalar] = value

    def view(self, place: Place, sizes: tuple[int, ...] | None = None) -> Tensor:
        """The elements of a place."""
        flat = self.memory[place.buffer]
        start = flat.storage_offset() + self.value(place.offset)
        return flat.as_strided(self.values(place.sizes) if sizes is None else sizes, self.values(place.strides), start)

    def output(self, output: L.Output, arguments: Sequence[object]) -> object:
        if isinstance(output, tuple):
            return tuple(self.output(part, arguments) for part in output)
        if isinstance(output, L.Given):
            return arguments[output.position]
        if isinstance(output, L.NewTensor):
            return self.tensors[output.buffer]
        if isinstance(output, L.BoxedSizes):
            return [self.value(size) for size in output.sizes]
        return None if output.value is None else self.value(output.value)

    # -- statements
    @singledispatchmethod
    def do(self, statement: Statement) -> None:
        raise AssertionError(f"{type(statement).__name__} means nothing")

    def do_all(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self.do(statement)

    @do.register
    def _operation(self, statement: L.NodeOperation) -> None:
        given = _or_give_up(_meaning(statement.node), *self.values(statement.operands))
        results = given if len(statement.results) > 1 else (given,) * len(statement.results)
        for result, value in zip(statement.results, results, strict=True):
            self.set(result, value)

    @do.register
    def _index(self, statement: L.SizeArithmetic) -> None:
        self.scalars[statement.result] = _INDEX[statement.op](*self.values(statement.operands))

    @do.register
    def _convert(self, statement: L.Convert) -> None:
        convert = {"int": int, "float": float, "bool": bool}[str(statement.result.type)]
        self.set(statement.result, _or_give_up(convert, self.value(statement.value)))

    @do.register
    def _check(self, statement: L.Check) -> None:
        if not self.value(statement.condition):
            raise GivesUp(statement.reason)

    @do.register
    def _get(self, statement: L.Get) -> None:
        self.scalars[statement.result] = self.variables[statement.variable]

    @do.register
    def _set(self, statement: L.Set) -> None:
        self.variables[statement.variable] = self.value(statement.value)

    @do.register
    def _read(self, statement: L.Read) -> None:
        self.scalars[statement.result] = self.view(statement.place).item()

    @do.register
    def _alloc(self, statement: L.Alloc) -> None:
        """What is in new memory is nobody's business: it is filled with what would show."""
        sizes, dtype = self.values(statement.sizes), statement.buffer.dtype.torch
        if statement.reuses is not None:
            made = self.memory[statement.reuses].view(dtype)
        elif statement.strides is None:
            made = torch.empty(sizes, dtype=dtype)
        else:
            made = torch.empty_strided(sizes, self.values(statement.strides), dtype=dtype)
        made.fill_(float("nan") if dtype.is_floating_point else 77)
        self.tensors[statement.buffer] = made
        self.memory[statement.buffer] = _flat(made)

    @do.register
    def _free(self, statement: L.Free) -> None:
        """Whoever reads it later gets what would show."""
        memory = self.memory[statement.buffer]
        memory.fill_(float("nan") if memory.is_floating_point() else 77)

    @do.register
    def _bind(self, statement: L.Bind) -> None:
        self.memory[statement.buffer] = self.memory[statement.source][self.value(statement.offset) :]

    @do.register
    def _swap(self, statement: L.Swap) -> None:
        a, b = statement.first, statement.second
        self.memory[a], self.memory[b] = self.memory[b], self.memory[a]

    @do.register
    def _nest(self, statement: L.Nest) -> None:
        lanes = _LaneValues(self, self.values(statement.sizes))
        for store in statement.stores:
            self.view(store.place).copy_(lanes.value(store.lane))

    @do.register
    def _reduce(self, statement: L.Reduce) -> None:
        value = _LaneValues(self, self.values(statement.sizes)).value(statement.lane)
        self.view(statement.place).copy_(_or_give_up(reduced, statement, value))
        if statement.positions is not None:
            found = _or_give_up(index_of, statement.op, value, tuple(sorted(statement.dims)))
            self.view(statement.positions).copy_(found)

    @do.register
    def _sort(self, statement: L.Sort) -> None:
        keys, into = self.view(statement.keys), self.view(statement.positions)
        into.copy_(_or_give_up(sorted_positions, statement.op, keys, into.shape[1]))

    @do.register
    def _pack(self, statement: L.Pack) -> None:
        """Products read the matrix itself."""

    @do.register
    def _product(self, statement: L.Product) -> None:
        total = self.view(statement.a) @ self.view(statement.b)
        if statement.bias is not None:
            total = total + self.view(statement.bias)
        self.view(statement.out).copy_(total)

    @do.register
    def _if(self, statement: L.Branch) -> None:
        self.do_all(statement.then if self.value(statement.condition) else statement.otherwise)

    @do.register
    def _loop(self, statement: L.Repeat) -> None:
        for i in range(self.value(statement.count)):
            if statement.goes_on is not None and not self.variables[statement.goes_on]:
                break
            self.scalars[statement.index] = i
            self.do_all(statement.body)


_INDEX: dict[str, Callable[..., Held]] = {
    "min": min,
    "max": max,
    "not": operator.not_,
    "and": operator.and_,
    "or": operator.or_,
    "select": lambda condition, then, otherwise: then if condition else otherwise,
    **{op: getattr(operator, op) for op in ("add", "sub", "mul", "floordiv", "eq", "ne", "lt", "le")},
}


def _flat(tensor: Tensor) -> Tensor:
    """The memory of a tensor, from its first element on."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    return tensor.as_strided((count,), (1,), tensor.storage_offset())


# -- operators on scalars


def _meaning(node: Node) -> Callable[..., Held]:
    """What an operator of a graph does."""
    op = node.op
    fn = _MADE.get(node.kind) if op is None or op.fn is None else op.fn
    assert fn is not None, f"{node.kind} has no meaning here"
    named = {name: node.attributes[name] for name in (op.attributes if op else ()) if name in node.attributes}
    return lambda *operands: fn(*operands, **named)


_MADE: dict[str, Callable[..., Held]] = {
    "prim::ListConstruct": lambda *elements: list(elements),
    "prim::TupleConstruct": lambda *elements: elements,
    "prim::DictConstruct": lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "prim::TupleUnpack": lambda whole: whole if len(whole) > 1 else whole[0],
    "prim::TupleIndex": operator.getitem,
    "prim::Uninitialized": lambda: None,
}
"""The kinds of nodes that are instructions of the interpreter."""


# -- arguments


class _Arguments:
    """Takes arguments, and sees whether they are what the kernel is for."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def take(self, kernel: Kernel, arguments: Sequence[object]) -> None:
        if kernel.default_dtype not in (None, torch.get_default_dtype()):
            raise GivesUp
        for argument in kernel.arguments:
            if isinstance(argument, L.TensorInput):
                self._tensor(argument, arguments[argument.position] if argument.held is None else argument.held)
            elif isinstance(argument, L.NoneInput):
                _require(arguments[argument.position] is None)
            elif isinstance(argument, L.SizesInput):
                self._sizes(argument, arguments[argument.position])
            elif isinstance(argument, L.DtypeInput):
                _require(arguments[argument.position] is argument.dtype.torch)
            else:
                self._run.set(argument.scalar, arguments[argument.position])

    def _sizes(self, argument: L.SizesInput, given: object) -> None:
        _require(isinstance(given, list))
        assert isinstance(given, list)
        _require(len(given) == len(argument.sizes))
        for size, wanted in zip(given, argument.sizes, strict=True):
            self._number(size, wanted)
            _require(not isinstance(wanted, Scalar) or size != 1)

    def _tensor(self, argument: L.TensorInput, given: object) -> None:
        _require(isinstance(given, Tensor))
        assert isinstance(given, Tensor)
        _require(given.dtype is argument.buffer.dtype.torch and given.dim() == len(argument.sizes))
        for size, wanted in zip(given.shape, argument.sizes, strict=True):
            self._number(size, wanted)
            _require(not isinstance(wanted, Scalar) or size != 1)
        for d, stride in enumerate(_dense_strides(given, argument.order) if argument.is_dense else given.stride()):
            self._number(stride, argument.strides[d], matters=given.shape[d] != 1 and bool(given.numel()))
        if argument.is_dense and given.numel():
            strides = _dense_strides(given, argument.order)
            _require(all(given.stride(d) == strides[d] for d in argument.order))
        self._run.memory[argument.buffer] = _flat(given.detach())

    def _number(self, found: int, wanted: Operand, matters: bool = True) -> None:
        """A size or stride: a scalar gets it, unless it has been computed; it has to be equal otherwise."""
        if isinstance(wanted, Scalar) and wanted not in self._run.scalars:
            self._run.scalars[wanted] = found
        _require(not matters or self._run.value(wanted) == found)


def _dense_strides(tensor: Tensor, order: Sequence[int]) -> list[int]:
    """The strides that a tensor without gaps has, whose dimensions lie in this order in memory."""
    strides, step = list(tensor.stride()), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(tensor.shape[d], 1)
    return strides


def _require(holds: bool) -> None:
    if not holds:
        raise GivesUp


# -- lanes


class _LaneValues:
    """The lanes of one nest, each computed once, for all points."""

    def __init__(self, run: _Run, sizes: tuple[int, ...]) -> None:
        self._run, self._sizes = run, sizes
        self._values: dict[Lane, Tensor] = {}

    def value(self, lane: Lane) -> Tensor:
        """The value at each point."""
        found = self._values.get(lane)
        if found is None:
            found = self._values[lane] = self._compute(lane)
        return found

    @singledispatchmethod
    def _compute(self, lane: Lane) -> Tensor:
        raise AssertionError(f"{type(lane).__name__} means nothing")

    @_compute.register
    def _load(self, lane: L.Load) -> Tensor:
        return self._run.view(lane.place, self._sizes).clone()  # what is stored later does not show

    @_compute.register
    def _fill(self, lane: L.Fill) -> Tensor:
        made = _or_give_up(torch.empty((), dtype=lane.dtype.torch).fill_, self._run.value(lane.value))
        return self._everywhere(made)

    def _everywhere(self, value: Tensor) -> Tensor:
        return value.expand(self._sizes)

    @_compute.register
    def _position(self, lane: L.Position) -> Tensor:
        shape = [n if d == lane.dim else 1 for d, n in enumerate(self._sizes)]
        return self._everywhere(torch.arange(self._sizes[lane.dim]).reshape(shape))

    @_compute.register
    def _cast(self, lane: L.LaneCast) -> Tensor:
        return self.value(lane.operand).to(lane.dtype.torch)

    @_compute.register
    def _apply(self, lane: L.LaneOperator) -> Tensor:
        operands = [self.value(operand) for operand in lane.operands]
        found: Tensor = _or_give_up(apply, lane, operands)
        return found

    @_compute.register
    def _gather(self, lane: L.Gather) -> Tensor:
        run, place = self._run, lane.place
        where = torch.full(self._sizes, run.value(place.offset))
        for index, size, stride in zip(lane.indices, run.values(place.sizes), run.values(place.strides), strict=True):
            number = self._position(L.Position(L.I64, index)) if isinstance(index, int) else self.value(index)
            if lane.wraps:
                number = torch.where(number < 0, number + size, number)
            _require(not bool(((number < 0) | (number >= size)).any()))
            where = where + number * stride
        return run.memory[place.buffer][where]
