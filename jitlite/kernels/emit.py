"""From a kernel to the text of a module in LLVM's language.

    PyObject *entry(PyObject *self, PyObject *const *args, Py_ssize_t count)

is what `METH_FASTCALL` calls. It gives the outputs, or None where it has given up, or null with an exception that a
signal's handler has raised. Where the facts do not hold that the kernel is made for, it asks the next kernel, if there
is one, whose address is in a cell.

Order matters: everything is computed before anything is given. New tensors are made while the kernel runs and belong to
it until all of them are wrapped; whatever ends the kernel before frees them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitlite.ir.graph import Value
from jitlite.kernels.arena import Arena
from jitlite.kernels.border import (
    boxed_sizes,
    guard_thread,
    make_result,
    release_results,
    take_none,
    take_object,
    take_scalar,
    take_sizes,
    take_tensor,
    wrap,
)
from jitlite.kernels.chunks import emit_chunked
from jitlite.kernels.context import KernelCode
from jitlite.kernels.conversions import number_of
from jitlite.kernels.loop_ir import (
    Alloc,
    Bind,
    Boxed,
    BoxedSizes,
    Branch,
    Check,
    Convert,
    DtypeInput,
    Free,
    Get,
    Given,
    Kernel,
    LoopVariable,
    Nest,
    NewTensor,
    NodeOperation,
    NoneInput,
    Operand,
    Output,
    Owner,
    Pack,
    Product,
    Read,
    Reduce,
    Repeat,
    Scalar,
    ScalarInput,
    Set,
    SizeArithmetic,
    SizesInput,
    Sort,
    Statement,
    Swap,
    TensorInput,
)
from jitlite.kernels.loop_orders import chunked_dim, parallel_dims
from jitlite.kernels.nests import emit_nest
from jitlite.kernels.parallel import emit_parts
from jitlite.kernels.products import Packed, ProductTarget, emit_pack, emit_product
from jitlite.kernels.reductions import emit_reduce
from jitlite.kernels.size_arithmetic import emit_size_arithmetic
from jitlite.kernels.sorting import emit_sort
from jitlite.kernels.statement_walks import all_statements
from jitlite.kernels.target import attributes, host
from jitlite.kernels.tensor_entry import EVERY, MISS, Guard
from jitlite.kernels.torch_abi import symbol
from jitlite.kernels.unlocked import give_lock, take_lock
from jitlite.native.boxes import free
from jitlite.native.boxing import boxed
from jitlite.native.capi import pointer
from jitlite.native.code import BAIL_OUT, RAISED, NotNative
from jitlite.native.emit import ENTRY, TRIPS, emit_operation, poll_signals
from jitlite.native.layout import OUTSIDE, letter_of, stored, zero
from jitlite.native.rules import to_float, to_int, widened

POINTS_BITS = 4
"""To the power of two, the points of a nest that count as one trip of the loop around it (`poll_signals`)."""

DONE, GAVE_UP, MISSED, NEXT = range(4)
"""The cells of a kernel, 64 bits each: how often it was done, gave up and missed, and the entry of the next kernel."""


_END = "end"
"""Where all ways out of a kernel lead that has taken something."""


class KernelEmitter(KernelCode):
    """Writes the module of one kernel.

    Args:
        kernel: what to compute.
        cells: the address of its cells.
        may_be_unset: the values of the graph that may come from `prim::Uninitialized`.
        guards: those that are on.
    """

    def __init__(
        self, kernel: Kernel, cells: int, may_be_unset: frozenset[Value] = frozenset(), guards: frozenset[Guard] = EVERY
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self._cells = cells
        self._unset = may_be_unset
        self._guards = guards
        self._slots: dict[LoopVariable, str] = {}
        self._packs: dict[Pack, str] = {}
        self._level = 0
        self._loops = 0
        """How many loops are around what is written."""
        self._outside = {a.scalar for a in kernel.arguments if isinstance(a, ScalarInput) and a.is_outside}
        self._frame = self.code.slot("{ ptr, i64 }")
        self._fuel = self.code.slot("i64")
        self._thread = self.code.slot("ptr")
        self.code.slots.append(f"  store ptr null, ptr {self._thread}")
        deepest = max((s.level for s in all_statements(kernel.body) if isinstance(s, Repeat)), default=0)
        self._arenas = [Arena(self) for _ in range(deepest + 1)]

    def module(self) -> str:
        """The text of the module."""
        code = self.code
        code.store("{ ptr, i64 }", "zeroinitializer", self._frame)
        code.store("i64", str(TRIPS), self._fuel)
        held = self._take()
        self.statements(self.kernel.body)
        self._give(held)
        lines = [
            f"define ptr @{ENTRY}(ptr %self, ptr %args, i64 %count) {attributes()} {{",
            *code.slots,
            *code.lines,
            "}",
        ]
        return "\n".join([*sorted(code.declared), *code.helpers, "", *lines, ""])

    # -- what comes in
    def _take(self) -> dict[int, str]:
        code = self.code
        held = {
            a.position: code.load("ptr", code.value(f"getelementptr ptr, ptr %args, i64 {a.position}"))
            for a in self.kernel.arguments
            if a.position >= 0
        }
        tensors = [
            (held[a.position] if a.held is None else pointer(id(a.held)), a)
            for a in self.kernel.arguments
            if isinstance(a, TensorInput)
        ]
        for found, tensor in tensors:
            take_tensor(self, found, tensor, self._guards)
        guard_thread(self, [found for found, _ in tensors], self._guards)
        for argument in self.kernel.arguments:
            if isinstance(argument, NoneInput):
                take_none(self, held[argument.position], self._guards)
            elif isinstance(argument, DtypeInput):
                take_object(self, held[argument.position], argument.dtype.torch, self._guards)
            elif isinstance(argument, ScalarInput):
                take_scalar(self, held[argument.position], argument)
            elif isinstance(argument, SizesInput):
                take_sizes(self, held[argument.position], argument, self._guards)
        return held

    # -- statements
    def statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            write = _WRITERS.get(type(statement))
            if write is None:
                raise NotNative(f"there is no machine code for {type(statement).__name__}")
            write(self, statement)

    def operation(self, statement: NodeOperation) -> None:
        if statement.node.kind == "prim::Uninitialized":
            self.registers[statement.results[0]] = zero(statement.results[0].type)
            return
        if statement.node.kind == "prim::TupleUnpack":
            whole = f"{stored(statement.node.input.type)} {self.operand(statement.operands[0])}"
            for i, part in enumerate(statement.results):
                self.registers[part] = self.code.value(f"extractvalue {whole}, {i}")
            return
        operands = [self.operand(o) for o in statement.operands]
        letters = "".join(map(self._letter, statement.operands))
        result = emit_operation(self.code, statement.node, operands, letters, self._frame, self._unset)
        if result is not None and statement.results:
            self.registers[statement.results[0]] = result

    def _letter(self, value: Operand) -> str:
        if isinstance(value, Scalar):
            return OUTSIDE if value in self._outside else letter_of(value.type)
        return "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f"

    def index(self, statement: SizeArithmetic) -> None:
        self.registers[statement.result] = emit_size_arithmetic(self, statement)

    def convert(self, statement: Convert) -> None:
        code, wanted = self.code, letter_of(statement.result.type)
        value, have = self.operand(statement.value), self._letter(statement.value)
        if have == "b" and wanted != "b":
            value, have = widened(code, value), "i"
        if have != wanted:
            if wanted == "b":
                value = code.value(f"icmp ne i64 {value}, 0" if have == "i" else f"fcmp une double {value}, 0.0")
            else:
                value = to_float(code, value) if wanted == "f" else to_int(code, value)
        self.registers[statement.result] = value

    def check(self, statement: Check) -> None:
        self.code.bail_out_unless(self.operand(statement.condition))

    def get(self, statement: Get) -> None:
        self.registers[statement.result] = self.code.load(
            stored(statement.variable.type), self._slot(statement.variable)
        )

    def set(self, statement: Set) -> None:
        self.code.store(stored(statement.variable.type), self.operand(statement.value), self._slot(statement.variable))

    def _slot(self, variable: LoopVariable) -> str:
        found = self._slots.get(variable)
        if found is None:
            found = self._slots[variable] = self.code.slot(stored(variable.type))
        return found

    def read(self, statement: Read) -> None:
        code, dtype = self.code, statement.place.dtype
        value = code.load(dtype.stored, self.address(statement.place))
        self.registers[statement.result] = number_of(code, dtype, value)

    # -- memory
    def alloc(self, statement: Alloc) -> None:
        buffer = statement.buffer
        if buffer.owner is Owner.RESULT:
            make_result(self, buffer, statement.sizes, self._strides(statement), statement.order)
        else:
            found = None if statement.reuses is None else self.pointer(statement.reuses)
            arena = self._arenas[statement.level]
            self.set_pointer(buffer, found or arena.alloc_elements(statement.sizes, buffer.dtype.bytes))

    def free_buffer(self, statement: Free) -> None:
        size = statement.buffer.dtype.bytes
        self._arenas[statement.level].free_elements(self.pointer(statement.buffer), statement.sizes, size)

    def _strides(self, statement: Alloc) -> Sequence[Operand] | None:
        """Those of a result that is not contiguous."""
        strides = statement.strides
        if strides is None:
            return None
        order = [d for d, size in enumerate(statement.sizes) if isinstance(size, Scalar) or size != 1]
        inner = next((d for d in reversed(order)), None)
        return None if inner is None or strides[inner] == 1 else strides

    def bind(self, statement: Bind) -> None:
        source = statement.source
        self.set_pointer(statement.buffer, self.element(source, self.pointer(source), self.operand(statement.offset)))

    def swap(self, statement: Swap) -> None:
        first, second = self.pointer(statement.first), self.pointer(statement.second)
        self.set_pointer(statement.first, second)
        self.set_pointer(statement.second, first)

    # -- tensors
    def nest(self, statement: Nest) -> None:
        with self._without_lock(statement.sizes) as points:
            emit_parts(self, parallel_dims(statement), statement.sizes, points, lambda kc: emit_nest(kc, statement))

    def reduce(self, statement: Reduce) -> None:
        sizes = statement.sizes
        with self._without_lock(sizes) as points:
            dim = chunked_dim(statement)
            if dim is not None:
                emit_chunked(self, statement, dim, self._arenas[self._level])
            else:
                emit_parts(self, parallel_dims(statement), sizes, points, lambda kc: emit_reduce(kc, statement))

    def sort(self, statement: Sort) -> None:
        with self._without_lock(statement.keys.sizes):
            emit_sort(self, statement, self._arenas[self._level])

    @contextmanager
    def _without_lock(self, sizes: Sequence[Operand]) -> Iterator[str]:
        """Let other threads have the interpreter meanwhile, where there are many points; gives how many there are."""
        code = self.code
        if not any(isinstance(size, Scalar) for size in sizes):
            yield self.product(sizes)
            return
        points = give_lock(self, sizes, self._thread)
        if self._loops:  # they look up the sooner
            trips = code.value(f"lshr i64 {points}, {POINTS_BITS}")
            code.store("i64", code.value(f"sub i64 {code.load('i64', self._fuel)}, {trips}"), self._fuel)
        yield points
        take_lock(self, self._thread)

    def product_of(self, statement: Product) -> None:
        with self._without_lock((*statement.out.sizes, statement.a.sizes[1])):
            self._product(statement)

    def _product(self, statement: Product) -> None:
        code, target = self.code, self._target()
        if statement.packed is None:
            emit_product(self, statement, target)
            return
        labels, end = [code.fresh("as_it_is"), code.fresh("packed")], code.fresh("end")
        pointer = code.load("ptr", self._packs[statement.packed])
        code.branch(code.value(f"icmp eq ptr {pointer}, null"), *labels)
        for label, packed in zip(labels, (None, Packed(pointer)), strict=True):
            code.label(label)
            emit_product(self, statement, target, packed)
            code.go(end)
        code.label(end)

    def pack(self, statement: Pack) -> None:
        code = self.code
        slot = self._packs[statement] = code.slot("ptr")
        code.store("ptr", "null", slot)
        then, onward = code.fresh("then"), code.fresh("on")
        code.branch(self.operand(statement.condition), then, onward)
        code.label(then)
        with self._without_lock(statement.matrix.sizes):
            code.store("ptr", emit_pack(self, statement.matrix, self._target()).pointer, slot)
        code.go(onward)
        code.label(onward)

    def _target(self) -> ProductTarget:
        return ProductTarget(self._arenas[self._level], symbol, host().bytes)

    # -- control flow
    def if_(self, statement: Branch) -> None:
        code = self.code
        labels = [code.fresh("then"), code.fresh("else")]
        end = code.fresh("end")
        code.branch(self.operand(statement.condition), *labels)
        for block, label in zip((statement.then, statement.otherwise), labels, strict=True):
            code.label(label)
            self.statements(block)
            code.go(end)
        code.label(end)

    def loop(self, statement: Repeat) -> None:
        code = self.code
        number = code.slot("i64")
        head, inside, end = code.fresh("head"), code.fresh("body"), code.fresh("end")
        code.store("i64", "0", number)
        code.go(head)
        code.label(head)
        index = code.load("i64", number)
        goes_on = code.value(f"icmp slt i64 {index}, {self.operand(statement.count)}")
        if statement.goes_on is not None:
            goes_on = code.value(f"and i1 {goes_on}, {code.load('i1', self._slot(statement.goes_on))}")
        code.branch(goes_on, inside, end)
        code.label(inside)
        self.registers[statement.index] = index
        before = code.load("ptr", self._frame) if statement.frees else None
        outer, self._level = self._level, statement.level
        mark = self._arenas[statement.level].mark()
        self._loops += 1
        self.statements(statement.body)
        self._loops -= 1
        self._arenas[statement.level].rewind(mark)
        self._level = outer
        if before is not None:
            free(code, self._frame, before)
        code.store("i64", code.value(f"add i64 {index}, 1"), number)
        if statement.polls:
            poll_signals(code, self._fuel)
        code.go(head)
        code.label(end)

    # -- what goes out
    def _give(self, held: dict[int, str]) -> None:
        code = self.code
        found = [self._output(output, held) for output in self.kernel.outputs]
        if self.kernel.gives_tuple:
            result = code.call("ptr", "PyTuple_New", "i64", str(len(found)))
            code.leave_if(code.value(f"icmp eq ptr {result}, null"), RAISED)
            for i, each in enumerate(found):
                code.call("i32", "PyTuple_SetItem", "ptr, i64, ptr", result, str(i), each)  # it takes the reference
        else:
            result = found[0]
        given = code.slot("ptr")
        self._end(result, given, DONE)
        code.label(BAIL_OUT)
        take_lock(self, self._thread)
        self._end(self._none(), given, GAVE_UP)
        code.label(RAISED)
        self._end("null", given)
        code.label(_END)
        self._free()
        code.emit(f"ret ptr {code.load('ptr', given)}")
        code.label(MISS)
        self._count(MISSED)
        other, none = code.fresh("other"), code.fresh("none")
        following = code.load("ptr", self._cell(NEXT))
        code.branch(code.value(f"icmp eq ptr {following}, null"), none, other)
        code.label(other)
        code.emit(f"ret ptr {code.value(f'tail call ptr {following}(ptr %self, ptr %args, i64 %count)')}")
        code.label(none)
        code.emit(f"ret ptr {self._none()}")

    def _output(self, output: Output, held: dict[int, str]) -> str:
        if isinstance(output, NewTensor):
            return wrap(self, output.buffer)
        if isinstance(output, Given):
            self.code.call("void", "Py_IncRef", "ptr", held[output.position])
            return held[output.position]
        if isinstance(output, BoxedSizes):
            return boxed_sizes(self, output.sizes)
        if isinstance(output, Boxed) and output.value is not None:
            return boxed(self.code, self.operand(output.value), output.type)
        assert isinstance(output, Boxed)
        return self._none()

    def _none(self) -> str:
        self.code.call("void", "Py_IncRef", "ptr", pointer(id(None)))
        return pointer(id(None))

    def _cell(self, number: int) -> str:
        return pointer(self._cells + 8 * number)

    def _count(self, number: int) -> None:
        code = self.code
        code.store("i64", code.value(f"add i64 {code.load('i64', self._cell(number))}, 1"), self._cell(number))

    def _end(self, result: str, given: str, counter: int | None = None) -> None:
        """Go to the end, where the kernel gives back what it has, with this result."""
        if counter is not None:
            self._count(counter)
        self.code.store("ptr", result, given)
        self.code.go(_END)

    def _free(self) -> None:
        """Give back all that the kernel has."""
        free(self.code, self._frame)
        release_results(self)
        for arena in self._arenas:
            arena.free_all()


Writer = Callable[[KernelEmitter, Any], None]
"""Writes a statement of the kind beside which it stands."""

_WRITERS: dict[type[Statement], Writer] = {
    NodeOperation: KernelEmitter.operation, SizeArithmetic: KernelEmitter.index, Convert: KernelEmitter.convert,
    Check: KernelEmitter.check, Get: KernelEmitter.get, Set: KernelEmitter.set, Read: KernelEmitter.read,
    Alloc: KernelEmitter.alloc, Free: KernelEmitter.free_buffer,
    Bind: KernelEmitter.bind, Swap: KernelEmitter.swap, Nest: KernelEmitter.nest,
    Reduce: KernelEmitter.reduce, Product: KernelEmitter.product_of, Pack: KernelEmitter.pack,
    Sort: KernelEmitter.sort,
    Branch: KernelEmitter.if_, Repeat: KernelEmitter.loop,
}  # fmt: skip


def emit(kernel: Kernel, cells: int, may_be_unset: frozenset[Value] = frozenset()) -> tuple[str, list[object]]:
    """The text of the module of a kernel, and what has to be kept alive with its machine code.

    Raises:
        NotNative: where there is no machine code for something in it.
    """
    emitter = KernelEmitter(kernel, cells, may_be_unset)
    return emitter.module(), emitter.kept
