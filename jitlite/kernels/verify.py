"""What holds for every kernel that is well formed.

Scalars, variables and the memory of buffers are there on every path before they are used; memory of an iteration is not
used behind it; only own memory is written; ranks of places are those of the nests that they are in; types fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import singledispatchmethod

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.kernels import loop_ir as L
from jitlite.kernels.loop_ir import Buffer, DType, Kernel, LoopVariable, Operand, Owner, Place, Scalar, Statement
from jitlite.kernels.printing import lines_of
from jitlite.kernels.verify_lanes import Fault, check_lane, check_operand, check_place, require, type_of


class KernelError(AssertionError):
    """A kernel is not well formed; says what is wrong, and where."""


def verify(kernel: Kernel) -> None:
    """Look whether a kernel is well formed.

    Raises:
        KernelError: it is not.
    """
    checker = _KernelChecker(kernel)
    try:
        checker.arguments()
        checker.block(kernel.body)
        checker.outputs(kernel.outputs)
    except Fault as fault:
        where = "" if checker.at is None else f"\n  {lines_of([checker.at])[0]}"
        raise KernelError(f"{kernel.name}: {fault}{where}") from None


class _Memory(Record, eq=True):
    """What a buffer stands for.

    Attributes:
        level: the loop at the end of whose iterations the memory is gone; 0 for memory that stays.
        is_own: was it made by the kernel? Other memory is only read.
    """

    level: int
    is_own: bool

    def or_(self, other: _Memory) -> _Memory:
        """One or the other, which nobody knows."""
        return _Memory(max(self.level, other.level), self.is_own and other.is_own)


class _Defined(Record, frozen=False):
    """What there is at a point of the kernel, however control has come there."""

    scalars: set[Scalar] = field(default_factory=set)
    variables: set[LoopVariable] = field(default_factory=set)
    memory: dict[Buffer, _Memory] = field(default_factory=dict)

    def copy(self) -> _Defined:
        return _Defined(set(self.scalars), set(self.variables), dict(self.memory))


class _KernelChecker:
    """Goes through a kernel.

    Attributes:
        at: the statement that is looked at.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.at: Statement | None = None
        self._state = _Defined()
        self._level = 0
        self._made: set[Scalar] = set()
        self._results: set[Buffer] = set()
        self._packs: set[L.Pack] = set()
        self._needs: dict[Buffer, L.MemoryNeed] = {}

    # -- scalars and buffers
    def define(self, scalar: Scalar, *types: T.Type) -> None:
        """Each scalar is computed by one statement."""
        require(scalar not in self._made, f"{scalar} is computed a second time")
        require(not types or scalar.type in types, f"{scalar} is {scalar.type}, not {' or '.join(map(str, types))}")
        self._made.add(scalar)
        self._state.scalars.add(scalar)

    def use(self, *operands: Operand) -> None:
        for operand in operands:
            if isinstance(operand, Scalar):
                require(operand in self._state.scalars, f"{operand} is not computed on every path to here")

    def use_int(self, *operands: Operand) -> None:
        self.use(*operands)
        for operand in operands:
            check_operand(operand, T.INT)

    def read(self, *places: Place) -> None:
        """Places of which elements are read."""
        for place in places:
            self.use_int(place.offset, *place.sizes, *place.strides)
            check_place(place)
            self._memory_of(place.buffer)

    def write(self, place: Place, sizes: Sequence[Operand], dtype: DType) -> None:
        """A place to whose elements values of a type are stored, in a space of these sizes."""
        self.read(place)
        require(self._memory_of(place.buffer).is_own, f"{place.buffer} may be memory of an argument, and is written")
        require(place.dtype is dtype, f"values of {dtype} are stored in {place.buffer}, which is of {place.dtype}")
        require(place.rank == len(sizes), f"{place.buffer} has {place.rank} dimensions here and not {len(sizes)}")

    def _memory_of(self, buffer: Buffer) -> _Memory:
        found = self._state.memory.get(buffer)
        if found is None:
            raise Fault(f"{buffer} has no memory on every path to here")
        return found

    # -- the border
    def arguments(self) -> None:
        positions = [a.position for a in self.kernel.arguments if a.position >= 0]
        require(len(set(positions)) == len(positions), "two arguments are at one position")
        for argument in self.kernel.arguments:
            if isinstance(argument, L.ScalarInput):
                self.define(argument.scalar)
            elif isinstance(argument, L.TensorInput):
                self._tensor(argument)
            elif isinstance(argument, L.SizesInput):
                for size in argument.sizes:
                    if isinstance(size, Scalar):
                        self.define(size, T.INT)

    def _tensor(self, argument: L.TensorInput) -> None:
        buffer, rank = argument.buffer, len(argument.sizes)
        require(buffer.owner is Owner.ARGUMENT, f"{buffer} is an argument but has {buffer.owner.value} memory")
        require(len(argument.strides) == rank, f"{buffer} has {rank} sizes and {len(argument.strides)} strides")
        require(len(set(argument.order)) == len(argument.order), f"the order of {buffer} has a dimension twice")
        require(set(argument.order) <= set(range(rank)), f"the order of {buffer} has dimensions that it has not")
        require((argument.position < 0) is (argument.held is not None), f"{buffer} is no argument and is not held")
        for operand in (*argument.sizes, *argument.strides):
            if isinstance(operand, Scalar) and operand not in self._state.scalars:
                self.define(operand, T.INT)
        self._state.memory[buffer] = _Memory(0, is_own=False)

    def outputs(self, outputs: Iterable[L.Output]) -> None:
        self.at = None
        for output in outputs:
            if isinstance(output, tuple):
                self.outputs(output)
            elif isinstance(output, L.Given):
                positions = {a.position for a in self.kernel.arguments}
                require(output.position in positions, f"there is no argument {output.position} to give back")
            elif isinstance(output, L.NewTensor):
                self._new_tensor(output.buffer)
            elif isinstance(output, L.BoxedSizes):
                self.use_int(*output.sizes)
            elif output.value is not None:
                self.use(output.value)
                check_operand(output.value, output.type)

    def _new_tensor(self, buffer: Buffer) -> None:
        require(buffer.owner is Owner.RESULT, f"{buffer} is given but is no result")
        require(buffer not in self._results, f"{buffer} is given twice")
        self._results.add(buffer)
        self._memory_of(buffer)

    # -- statements
    def block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self.at = statement
            self._check(statement)

    @singledispatchmethod
    def _check(self, statement: Statement) -> None:
        raise Fault(f"{type(statement).__name__} is no statement")

    @_check.register
    def _operation(self, statement: L.NodeOperation) -> None:
        node = statement.node
        self.use(*statement.operands)
        require(len(node.inputs) == len(statement.operands), f"{node.kind} has {len(node.inputs)} inputs")
        require(len(node.outputs) == len(statement.results), f"{node.kind} has {len(node.outputs)} outputs")
        for result, output in zip(statement.results, node.outputs, strict=True):
            self.define(result, output.type)

    @_check.register
    def _index(self, statement: L.SizeArithmetic) -> None:
        types = [type_of(operand) for operand in statement.operands]
        self.use(*statement.operands)
        wanted = "three" if statement.op == "select" else "one" if statement.op == "not" else "two"
        require(len(types) == {"one": 1, "two": 2, "three": 3}[wanted], f"{statement.op} has {wanted} operands")
        if statement.op == "select":
            require(types[0] is T.BOOL and types[1] == types[2], "select takes a bool and two values of one type")
            self.define(statement.result, types[1])
        elif statement.op in ("add", "sub", "mul", "floordiv", "min", "max"):
            require(set(types) == {T.INT}, f"{statement.op} takes ints")
            self.define(statement.result, T.INT)
        elif statement.op in ("and", "or", "not"):
            require(set(types) == {T.BOOL}, f"{statement.op} takes bools")
            self.define(statement.result, T.BOOL)
        else:
            require(statement.op in ("eq", "ne", "lt", "le"), f"{statement.op} is no arithmetic on sizes")
            require(types[0] == types[1], f"{statement.op} takes two values of one type")
            self.define(statement.result, T.BOOL)

    @_check.register
    def _convert(self, statement: L.Convert) -> None:
        self.use(statement.value)
        self.define(statement.result, T.INT, T.FLOAT, T.BOOL)

    @_check.register
    def _condition(self, statement: L.Check) -> None:
        self.use(statement.condition)
        check_operand(statement.condition, T.BOOL)

    @_check.register
    def _get(self, statement: L.Get) -> None:
        self._is_set(statement.variable)
        self.define(statement.result, statement.variable.type)

    def _is_set(self, variable: LoopVariable) -> None:
        require(variable in self._state.variables, f"{variable} is not set on every path to here")

    @_check.register
    def _set(self, statement: L.Set) -> None:
        self.use(statement.value)
        check_operand(statement.value, statement.variable.type)
        self._state.variables.add(statement.variable)

    @_check.register
    def _read(self, statement: L.Read) -> None:
        place = statement.place
        self.read(place)
        require(place.rank == 0, f"{place.buffer} has {place.rank} dimensions here and not 0")
        kind = T.BOOL if place.dtype is L.BOOL else T.FLOAT if place.dtype.is_float else T.INT
        self.define(statement.result, kind)

    @_check.register
    def _alloc(self, statement: L.Alloc) -> None:
        buffer, level = statement.buffer, statement.level
        self.use_int(*statement.sizes, *(statement.strides or ()))
        require(buffer.owner in (Owner.ARENA, Owner.RESULT), f"{buffer} has {buffer.owner.value} memory")
        require(0 <= level <= self._level, f"there is no loop {level} here")
        require(buffer.owner is Owner.ARENA or level == 0, f"{buffer} is a result, and does not end with an iteration")
        require(statement.strides is None or len(statement.strides) == len(statement.sizes), "sizes and strides differ")
        if statement.reuses is not None:
            require(
                self._needs.get(statement.reuses) == statement.need, f"{buffer} needs other memory than it is given"
            )
            self._end(statement.reuses)
        self._needs[buffer] = statement.need
        self._state.memory[buffer] = _Memory(level, is_own=True)

    @_check.register
    def _free(self, statement: L.Free) -> None:
        buffer = statement.buffer
        need = L.Alloc(buffer, statement.sizes, level=statement.level).need
        require(self._needs.get(buffer) == need, f"{buffer} is not freed as it was allocated")
        self._end(buffer)

    def _end(self, giver: Buffer) -> None:
        """From here on, what had the memory of a buffer has none."""
        memory = self._memory_of(giver)
        require(giver.owner is Owner.ARENA, f"{giver} has {giver.owner.value} memory, which stays")
        for buffer in [b for b, m in self._state.memory.items() if m is memory]:
            del self._state.memory[buffer]

    @_check.register
    def _bind(self, statement: L.Bind) -> None:
        buffer = statement.buffer
        self.use_int(statement.offset)
        require(buffer.owner is Owner.ALIAS, f"{buffer} has {buffer.owner.value} memory, and cannot be bound")
        require(buffer.dtype is statement.source.dtype, f"{buffer} and {statement.source} have different types")
        self._state.memory[buffer] = self._memory_of(statement.source)

    @_check.register
    def _swap(self, statement: L.Swap) -> None:
        a, b, memory = statement.first, statement.second, self._state.memory
        for buffer in (a, b):
            require(buffer.owner in (Owner.ARENA, Owner.ALIAS), f"{buffer} has {buffer.owner.value} memory")
        require(a.dtype is b.dtype, f"{a} and {b} have different types")
        memory[a], memory[b] = self._memory_of(b), self._memory_of(a)

    @_check.register
    def _nest(self, statement: L.Nest) -> None:
        self.use_int(*statement.sizes)
        for store in statement.stores:
            self._lane(store.lane, statement.sizes)
            self.write(store.place, statement.sizes, store.lane.dtype)

    def _lane(self, lane: L.Lane, sizes: Sequence[Operand]) -> None:
        for each in check_lane(lane, len(sizes)):
            if isinstance(each, L.Load | L.Gather):
                self.read(each.place)
            elif isinstance(each, L.Fill):
                self.use(each.value)

    @_check.register
    def _reduce(self, statement: L.Reduce) -> None:
        op, sizes, dims, dtype = statement.op, statement.sizes, statement.dims, statement.lane.dtype
        self.use_int(*sizes)
        self._lane(statement.lane, sizes)
        require(op in _REDUCTIONS, f"{op} is no reduction")
        require(all(0 <= d < len(sizes) for d in dims), f"there are only {len(sizes)} dimensions to reduce")
        require(op not in ("any", "all") or dtype is L.BOOL, f"{op} takes bools")
        self.write(statement.place, sizes, L.I64 if op.startswith("arg") else dtype)
        if statement.positions is not None:
            require(op in ("amax", "amin") and len(dims) <= 1, f"{op} over {len(dims)} dimensions has no positions")
            self.write(statement.positions, sizes, L.I64)
        for place in (statement.place, statement.positions):
            for d in dims if place else ():
                assert place is not None
                require((place.sizes[d], place.strides[d]) == (1, 0), f"dimension {d} is reduced, but not of size 1")

    @_check.register
    def _sort(self, statement: L.Sort) -> None:
        keys, positions, op = statement.keys, statement.positions, statement.op
        self.read(keys)
        self.write(positions, (0, 0), L.I64)
        require(keys.dtype is L.I64, f"keys are {keys.dtype}, not i64")
        require(op in ("stable", "topk", "topk unsorted"), f"{op} is no way to sort")
        for place in (keys, positions):
            require(place.rank == 2, "rows are those of a matrix")
            require(place.strides[1] == 1, f"the rows of {place.buffer} have gaps")
        pairs = [(keys.sizes[0], positions.sizes[0])]
        pairs += [(keys.sizes[1], positions.sizes[1])] if op == "stable" else []
        for a, b in pairs:
            require(isinstance(a, Scalar) or isinstance(b, Scalar) or a == b, f"the sizes {a!r} and {b!r} differ")

    @_check.register
    def _pack(self, statement: L.Pack) -> None:
        matrix = statement.matrix
        self.read(matrix)
        self.use(statement.condition)
        check_operand(statement.condition, T.BOOL)
        require(matrix.rank == 2, "a matrix has two dimensions")
        require(matrix.buffer.owner is Owner.ARGUMENT, f"{matrix.buffer} may be written after it is packed")
        require(self._level == 0, "what an iteration packs is gone at its end")
        self._packs.add(statement)

    @_check.register
    def _product(self, statement: L.Product) -> None:
        out, operands = statement.out, [p for p in (statement.a, statement.b, statement.bias) if p is not None]
        self.read(*operands)
        self.write(out, (0, 0), out.dtype)
        require(all(p.dtype is out.dtype for p in operands), "the types of the matrices differ")
        require(all(p.rank == 2 for p in operands), "a matrix has two dimensions")
        require(out.strides[1] == 1, "the columns of the result do not lie side by side")
        packed = statement.packed
        require(packed is None or packed in self._packs, "b is not packed before")
        require(packed is None or packed.matrix == statement.b, "another matrix is packed")
        (m, n), (rows, k) = out.sizes, statement.a.sizes
        bias = statement.bias.sizes if statement.bias else (m, n)
        pairs = [(m, rows), *zip((k, n), statement.b.sizes, strict=True), *zip((m, n), bias, strict=True)]
        for a, b in pairs:
            require(isinstance(a, Scalar) or isinstance(b, Scalar) or a == b, f"the sizes {a!r} and {b!r} differ")

    # -- control flow
    @_check.register
    def _if(self, statement: L.Branch) -> None:
        self.use(statement.condition)
        check_operand(statement.condition, T.BOOL)
        before = self._state
        ends = []
        for block in (statement.then, statement.otherwise):
            self._state = before.copy()
            self.block(block)
            ends.append(self._state)
        if isinstance(statement.condition, bool):  # it is known which way is taken
            taken = ends[0 if statement.condition else 1]
            self._state = _Defined(before.scalars, taken.variables, taken.memory)
            return
        a, b = ends
        memory = {buffer: a.memory[buffer].or_(b.memory[buffer]) for buffer in a.memory.keys() & b.memory.keys()}
        self._state = _Defined(before.scalars, a.variables & b.variables, memory)

    @_check.register
    def _loop(self, statement: L.Repeat) -> None:
        self.use_int(statement.count)
        require(statement.level == self._level + 1, f"this is loop {self._level + 1}, not {statement.level}")
        if statement.goes_on is not None:
            require(statement.goes_on.type is T.BOOL, f"{statement.goes_on} is no bool")
            self._is_set(statement.goes_on)
        self._level += 1
        head = self._state
        while True:
            made = set(self._made)
            self._state = head.copy()
            self.define(statement.index, T.INT)
            self.block(statement.body)
            after = {b: m for b, m in self._state.memory.items() if m.level < statement.level}
            memory = {b: head.memory[b].or_(after[b]) for b in head.memory.keys() & after.keys()}
            if memory == head.memory:
                break
            head = _Defined(head.scalars, head.variables, memory)
            self._made = made
        self._state = head
        self._level -= 1
        self.at = statement


_REDUCTIONS = frozenset({"sum", "prod", "amax", "amin", "any", "all", "argmax", "argmin"})
