"""From a region to the text of a function in LLVM's language.

    PyObject *entry(PyObject *self, PyObject *const *args, Py_ssize_t count)

is what `METH_FASTCALL` calls. It gives the outputs of the region (a tuple unless there is one), None where it has
bailed out, or null with an exception: what a signal's handler raised, or no memory for results.

Loops look up every `TRIPS` iterations: they call a function of Python, so that whatever Python does between two
instructions is done (handlers of signals, Ctrl-C, exceptions that other threads have set), and let other threads have
the interpreter's lock, which the function holds otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Node, Value, constant_of, is_constant
from jitlite.ir.structure import Loop
from jitlite.ir.types import Type
from jitlite.native.boxes import free
from jitlite.native.boxing import boxed, boxed_tuple, check_list, unboxed
from jitlite.native.capi import pointer
from jitlite.native.code import BAIL_OUT, RAISED, LLVMBuilder
from jitlite.native.containers import Site, holds_boxes, keeps_boxes
from jitlite.native.layout import OUTSIDE, letter_of, literal, stored, zero
from jitlite.native.regions import NativeRegion, all_nodes, container_rule, is_outside, raises, scalar_rule
from jitlite.native.rules import widened
from jitlite.operators.prims import OVER_RANGE

TRIPS = 1 << 16
"""Iterations of any loops from one look at signals to the next: a tenth of a millisecond, or a few."""

ENTRY = "entry"


def between_trips() -> None:
    """Called from loops: Python looks at what is pending whenever a function of its own is entered."""


def emit(region: NativeRegion, counters: int) -> str:
    """The text of the module.

    Args:
        region: what to compute.
        counters: the address of two ints of 64 bits: how often the function was done, and how often it bailed out.
    """
    return _RegionEmitter(region).module(counters)


class _RegionEmitter:
    def __init__(self, region: NativeRegion) -> None:
        self.region = region
        self.code = LLVMBuilder()
        self.registers: dict[Value, str] = {}
        self.frame = self.code.slot("{ ptr, i64 }")
        self.fuel = self.code.slot("i64")
        self.may_be_unset = unset_boxes(region)

    def module(self, counters: int) -> str:
        code = self.code
        code.store("{ ptr, i64 }", "zeroinitializer", self.frame)
        code.store("i64", str(TRIPS), self.fuel)
        for i, value in enumerate(self.region.inputs):
            if value not in self.region.read:
                continue
            place = code.value(f"getelementptr ptr, ptr %args, i64 {i}")
            self.registers[value] = self._taken(code.load("ptr", place), value)
        for node in self.region.nodes:
            self.node(node)
        self._return(counters)
        lines = [f"define ptr @{ENTRY}(ptr %self, ptr %args, i64 %count) {{", *code.slots, *code.lines, "}"]
        return "\n".join([*sorted(code.declared), *code.helpers, "", *lines, ""])

    def _taken(self, held: str, value: Value) -> str:
        if self.letter(value) == OUTSIDE:
            check_list(self.code, held)
            return held
        return unboxed(self.code, held, value.type)

    def _return(self, counters: int) -> None:
        code = self.code
        outputs = [(self.operand(v), v.type) for v in self.region.outputs]
        result = boxed(code, *outputs[0]) if len(outputs) == 1 else boxed_tuple(code, outputs)
        self._end(result, counters)
        code.label(BAIL_OUT)
        code.call("void", "Py_IncRef", "ptr", pointer(id(None)))
        self._end(pointer(id(None)), counters + 8)
        code.label(RAISED)
        free(code, self.frame)
        code.emit("ret ptr null")

    def _end(self, result: str, counter: int) -> None:
        code = self.code
        code.store("i64", code.value(f"add i64 {code.load('i64', pointer(counter))}, 1"), pointer(counter))
        free(code, self.frame)
        code.emit(f"ret ptr {result}")

    # -- values
    def operand(self, value: Value) -> str:
        if is_constant(value):
            if self.letter(value) == OUTSIDE:
                return pointer(id(constant_of(value)))  # the region keeps it alive
            text = literal(constant_of(value), value.type)
            assert text is not None, "regions.py let through a constant that does not fit"
            return text
        return self.registers[value]

    def letter(self, value: Value) -> str:
        is_own = value in self.region.made
        return OUTSIDE if not is_own and is_outside(value) else letter_of(value.type)

    # -- nodes
    def node(self, node: Node) -> None:
        special = {
            "prim::If": self.if_,
            "prim::Loop": self.loop,
            "prim::TupleUnpack": self.unpack,
            "prim::Uninitialized": self.unset,
        }.get(node.kind, self.operation)
        special(node)

    def operation(self, node: Node) -> None:
        operands = [self.operand(v) for v in node.inputs]
        letters = "".join(map(self.letter, node.inputs))
        result = emit_operation(self.code, node, operands, letters, self.frame, self.may_be_unset)
        if result is not None and node.outputs:
            self.registers[node.output] = result

    def unpack(self, node: Node) -> None:
        whole = f"{stored(node.input.type)} {self.operand(node.input)}"
        for i, output in enumerate(node.outputs):
            self.registers[output] = self.code.value(f"extractvalue {whole}, {i}")

    def unset(self, node: Node) -> None:
        self.registers[node.output] = zero(node.output.type)

    def block(self, block: Block) -> None:
        for node in block.nodes:
            if node.kind != "prim::Constant":
                self.node(node)

    # -- control flow: what is handed on goes through slots, of which LLVM makes registers
    def if_(self, node: Node) -> None:
        code = self.code
        slots = [code.slot(stored(v.type)) for v in node.outputs]
        labels = [code.fresh("then"), code.fresh("else")]
        end = code.fresh("end")
        code.branch(self.operand(node.inputs[0]), *labels)
        for block, label in zip(node.blocks, labels, strict=True):
            code.label(label)
            if raises(block):
                code.go(BAIL_OUT)
                continue
            self.block(block)
            for value, slot in zip(block.outputs, slots, strict=True):
                code.store(stored(value.type), self.operand(value), slot)
            code.go(end)
        code.label(end)
        for output, slot in zip(node.outputs, slots, strict=True):
            self.registers[output] = code.load(stored(output.type), slot)

    def loop(self, node: Node) -> None:
        code, loop = self.code, Loop(node)
        body = loop.body
        slots = [code.slot(stored(v.type)) for v in node.outputs]
        goes_on, number = code.slot("i1"), code.slot("i64")
        head, inside, end = code.fresh("head"), code.fresh("body"), code.fresh("end")
        for value, slot in zip(loop.starts, slots, strict=True):
            code.store(stored(value.type), self.operand(value), slot)
        code.store("i1", self.operand(loop.start_condition), goes_on)
        code.store("i64", "0", number)
        code.go(head)
        code.label(head)
        index = code.load("i64", number)
        left = code.value(f"icmp slt i64 {index}, {self.operand(loop.max_iterations)}")
        code.branch(code.value(f"and i1 {code.load('i1', goes_on)}, {left}"), inside, end)
        code.label(inside)
        self.registers[loop.index] = self._counter(node, index)
        for parameter, slot in zip(loop.parameters, slots, strict=True):
            self.registers[parameter] = code.load(stored(parameter.type), slot)
        before = code.load("ptr", self.frame) if frees(body) else None
        self.block(body)
        if before is not None:
            free(code, self.frame, before)
        for value, slot in zip(body.outputs, [goes_on, *slots], strict=True):
            code.store(stored(value.type), self.operand(value), slot)
        code.store("i64", code.value(f"add i64 {index}, 1"), number)
        poll_signals(code, self.fuel)
        code.go(head)
        code.label(end)
        for output, slot in zip(node.outputs, slots, strict=True):
            self.registers[output] = code.load(stored(output.type), slot)

    def _counter(self, node: Node, index: str) -> str:
        """The number of the iteration, or the element of the range, which cannot overflow."""
        if not node.attributes.get(OVER_RANGE):
            return index
        start, _, step = (self.operand(v) for v in node.inputs[0].node.inputs)
        return self.code.value(f"add i64 {start}, {self.code.value(f'mul i64 {index}, {step}')}")


def emit_operation(
    code: LLVMBuilder, node: Node, operands: Sequence[str], letters: str, frame: str, may_be_unset: Collection[Value]
) -> str | None:
    """Write an operator on numbers, lists, dicts or tuples; gives its result, if it has one.

    Args:
        code: where it is written.
        node: the operator.
        operands: their registers.
        letters: those of the operands.
        frame: the register that points to the frame, on which boxes are chained.
        may_be_unset: the values that may come from `prim::Uninitialized`.
    """
    scalar, container = scalar_rule(node, letters), container_rule(node, letters)
    if scalar is not None:
        emit_it, widens = scalar
        if widens:
            operands = [widened(code, o) if k == "b" else o for o, k in zip(operands, letters, strict=True)]
        return emit_it(code, *operands)
    assert container is not None, "regions.py let through what has no rule"
    if node.kind != "prim::TupleConstruct":
        _bail_out_unless_set(code, node, operands, may_be_unset)
    return container(Site(code, node, frame, list(operands), letters))


def _bail_out_unless_set(
    code: LLVMBuilder, node: Node, operands: Sequence[str], may_be_unset: Collection[Value]
) -> None:
    """Leave it to Python where a list or dict that is operated on was never set: there is nothing to look at."""
    for value, operand in zip(node.inputs, operands, strict=True):
        if value in may_be_unset:
            for box in _boxes_in(code, operand, value.type):
                code.bail_out_if(code.value(f"icmp eq ptr {box}, null"))


def _boxes_in(code: LLVMBuilder, held: str, t: Type) -> Iterator[str]:
    if not isinstance(t, T.TupleType):
        yield held
        return
    for i, element in enumerate(t.elements):
        if holds_boxes(element):
            yield from _boxes_in(code, code.value(f"extractvalue {stored(t)} {held}, {i}"), element)


def poll_signals(code: LLVMBuilder, fuel: str) -> None:
    """Count an iteration down; now and then, let Python do what is pending, and other threads run.

    The call of a function of Python does both: a thread that has waited for its turn gets it there. Giving up the lock
    for a moment would not do: it wakes the other thread, which comes too late and begins to wait anew.
    """
    left = code.value(f"sub i64 {code.load('i64', fuel)}, 1")
    code.store("i64", left, fuel)
    look, onward = code.fresh("look"), code.fresh("on")
    code.branch(code.value(f"icmp sle i64 {left}, 0"), look, onward)
    code.label(look)
    code.store("i64", str(TRIPS), fuel)
    given = code.call("ptr", "PyObject_CallNoArgs", "ptr", pointer(id(between_trips)))
    code.leave_if(code.value(f"icmp eq ptr {given}, null"), RAISED)
    code.call("void", "Py_DecRef", "ptr", given)
    code.go(onward)
    code.label(onward)


def unset_boxes(region: NativeRegion) -> set[Value]:
    """The values with lists or dicts in them that may come from `prim::Uninitialized`."""
    nodes = list(all_nodes(region.nodes))
    found = {n.output for n in nodes if n.kind == "prim::Uninitialized" and holds_boxes(n.output.type)}
    known = -1
    while known != len(found):
        known = len(found)
        found.update(value for node in nodes for source, value in _handed_on(node) if source in found)
    return {value for value in found if holds_boxes(value.type)}


def _handed_on(node: Node) -> Iterator[tuple[Value, Value]]:
    """Each value that a node hands on as another one, or as a part of one, and this one."""
    if node.kind == "prim::If":
        for block in node.blocks:
            yield from zip(block.outputs, node.outputs, strict=True)
    elif node.kind == "prim::Loop":
        loop = Loop(node)
        for sources in (loop.starts, loop.followings):
            yield from zip(sources, loop.parameters, strict=True)
            yield from zip(sources, loop.results, strict=True)
    elif node.kind in ("prim::TupleConstruct", "prim::TupleUnpack"):
        yield from ((source, output) for source in node.inputs for output in node.outputs)


def frees(body: Block) -> bool:
    """Can the boxes that an iteration makes be freed at its end? Nothing else may hold them."""
    inner = list(all_nodes([n for n in body.nodes if n.kind != "prim::Constant"]))
    makes = any(holds_boxes(v.type) for node in inner for v in node.outputs if not node.blocks)
    kept = any(map(keeps_boxes, inner)) or any(holds_boxes(v.type) for v in body.outputs)
    return makes and not kept
