"""From a region and the facts of a call to loop IR.

The nodes are walked once, in order. A number becomes a scalar, a tensor a `TensorValue`: views are other places in the
same memory, elementwise operators are expressions that are stored when something needs them in memory, several of one
shape in one nest. Before a loop or a branch, expressions that it reads are stored, so that they are computed once and
on every path.

What is carried around a loop lies in two buffers, one that the iteration reads and one that it writes, which are
exchanged at its end. It is a copy of what it was before the loop; where that could be seen, because the loop does not
run or a carried tensor is part of another one, the kernel gives up or is not made.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Node, constant_of, is_constant
from jitlite.ir.graph import Value as GraphValue
from jitlite.ir.structure import Loop as GraphLoop
from jitlite.kernels.building import LoopFrame
from jitlite.kernels.carried import Carried, CarriedScalar, CarriedSizes, CarriedTensor, may_be_result
from jitlite.kernels.factories import coded_dtype
from jitlite.kernels.facts import ArgumentFact, DtypeFact, Fact, NoneFact, SizesFact, fact_of
from jitlite.kernels.joining import Joining, is_handed_on
from jitlite.kernels.lists import makes_longer, new_list
from jitlite.kernels.loop_ir import (
    Branch,
    Buffer,
    DtypeInput,
    Kernel,
    NodeOperation,
    NoneInput,
    Operand,
    Owner,
    Place,
    Repeat,
    Scalar,
    ScalarInput,
    Set,
    SizesInput,
    Statement,
    TensorInput,
)
from jitlite.kernels.origins import EvaluatedTensors, note, origin_of
from jitlite.kernels.reading import CONVERSIONS
from jitlite.kernels.results import ResultBuilder
from jitlite.kernels.scalar_nodes import known_result
from jitlite.kernels.statement_walks import without_certain_branches
from jitlite.kernels.table import NARROW, RULES, WRITES, Call, is_dtype_argument, is_tensor_node, takes_sizes
from jitlite.kernels.uses import read_in, writes
from jitlite.kernels.values import MemorySource, TensorList, TensorValue, Value
from jitlite.native.code import NotNative
from jitlite.native.emit import frees
from jitlite.native.layout import storage
from jitlite.native.regions import NativeRegion, all_nodes, is_outside, raises
from jitlite.operators.prims import OVER_RANGE


def lower(
    region: NativeRegion, facts: Sequence[Fact], name: str, gives_tuple: bool, *, is_uniform: bool = False
) -> Kernel:
    """The kernel of a region for arguments of which the facts hold.

    Args:
        region: what it computes.
        facts: of the arguments.
        name: of the kernel.
        gives_tuple: does it give a tuple if it has one output only?
        is_uniform: does it give up where a tensor that a loop carries gets another size?

    Raises:
        NotNative: where there is none.
    """
    return lowered(region, facts, name, gives_tuple, is_uniform=is_uniform).kernel


def lowered(
    region: NativeRegion, facts: Sequence[Fact], name: str, gives_tuple: bool, *, is_uniform: bool = False
) -> Lowering:
    """The same, with what it has of the values of the graph."""
    varying: set[Varying] | None = set()
    if is_uniform:
        varying = None
    while True:
        before = 0 if varying is None else len(varying)
        lowering = Lowering(region, name, gives_tuple, varying)
        lowering.kernel_for(facts)
        if varying is None or len(varying) == before:
            return lowering


Varying = tuple[Node, int, int]
"""A loop, a carried value of it, and a dimension of that: its size is not the same in all iterations."""


class Lowering(ResultBuilder):
    """Writes the kernel of one region.

    Attributes:
        values: what has been computed, by value of the graph.
        varying: sizes that are not the same in all iterations; more of them are found while the kernel is written. None
            where it gives up for them.
    """

    def __init__(self, region: NativeRegion, name: str, gives_tuple: bool, varying: set[Varying] | None) -> None:
        super().__init__(Kernel(name, gives_tuple=gives_tuple))
        self.region = region
        writes = any(n.blocks or n.kind in WRITES for n in region.nodes)  # else views stand behind it
        self.shows_copies = writes and varying is not None
        self.varying = varying
        self.values: dict[GraphValue, Value] = {}
        self._constants: dict[int, TensorValue] = {}
        self._at: Node | None = None
        self._evaluated = self.evaluated = EvaluatedTensors()
        self.swapped: set[Buffer] = set()
        """The buffers that are exchanged with others."""

    def kernel_for(self, facts: Sequence[Fact]) -> Kernel:
        for position, (value, fact) in enumerate(zip(self.region.inputs, facts, strict=True)):
            if value in self.region.read:
                self.values[value] = self._argument(position, value, fact)
        for node in all_nodes(self.region.nodes):
            for value in node.inputs:
                if is_constant(value) and isinstance(constant_of(value), torch.Tensor):
                    self.value(value)  # what its strides are is known everywhere then
        for node in self.region.nodes:
            self.node(node)
        self.kernel.outputs = self.results([self.value(v) for v in self.region.outputs], self.region.outputs)
        self.force_partial()
        self.kernel.body = without_certain_branches(self.statements)
        return self.kernel

    # -- what comes in
    def _argument(self, position: int, value: GraphValue, fact: Fact) -> Value:
        if isinstance(fact, NoneFact):
            self.kernel.arguments.append(NoneInput(position))
            return None
        if isinstance(fact, DtypeFact):
            if not all(map(is_dtype_argument, value.uses)):
                raise NotNative("a dtype, which is an object in Python, is more than an argument")
            self.kernel.arguments.append(DtypeInput(position, fact.dtype))
            return fact.dtype.code
        if isinstance(fact, ArgumentFact):
            return self._tensor(position, _base_name(value), fact)
        if isinstance(fact, SizesFact):
            return self._sizes(position, _base_name(value), fact)
        if storage(_inner(value.type)) is None:
            raise NotNative(f"%{value.name} : {value.type} comes from outside")
        made = Scalar(self.fresh_name(_base_name(value)), _inner(value.type))
        self.kernel.arguments.append(ScalarInput(position, made, is_outside(value)))
        return made

    def _sizes(self, position: int, base: str, fact: SizesFact) -> list[Value]:
        name = self.fresh_name(base)
        sizes: list[Operand] = [1 if one else Scalar(f"{name}_size{d}", T.INT) for d, one in enumerate(fact.ones)]
        self.kernel.arguments.append(SizesInput(position, tuple(sizes)))
        return list(sizes)

    def _tensor(self, position: int, base: str, fact: ArgumentFact, held: torch.Tensor | None = None) -> TensorValue:
        name = self.fresh_name(base)
        sizes: list[Operand] = [1 if one else Scalar(f"{name}_size{d}", T.INT) for d, one in enumerate(fact.ones)]
        strides: list[Operand] = [
            Scalar(f"{name}_stride{d}", T.INT) if stride is None else stride for d, stride in enumerate(fact.strides)
        ]
        if fact.is_dense:
            self._relate(sizes, strides, fact.order)
        buffer = Buffer(name, fact.dtype, Owner.ARGUMENT)
        place = Place(buffer, 0, tuple(sizes), tuple(strides))
        argument = TensorInput(position, buffer, tuple(sizes), tuple(strides), fact.order, fact.is_dense, held)
        self.kernel.arguments.append(argument)
        own = None if held is not None else position
        return TensorValue(fact.dtype, place.sizes, fact.order, place, source=MemorySource.GIVEN, position=own)

    def _relate(self, sizes: Sequence[Operand], strides: list[Operand], order: Sequence[int]) -> None:
        """The stride of a dimension of memory without gaps is the product of the sizes within."""
        for outer, inner in zip(reversed(order[:-1]), reversed(order[1:]), strict=True):
            if strides[inner] == 1:  # the stride is the very size
                strides[outer] = sizes[inner]
            else:
                self.note("mul", (sizes[inner], strides[inner]), strides[outer])

    def _constant_tensor(self, tensor: torch.Tensor) -> TensorValue:
        """A tensor that the graph holds."""
        found = self._constants.get(id(tensor))
        if found is None:
            fact: Fact = fact_of(tensor)
            assert isinstance(fact, ArgumentFact)
            found = self._constants[id(tensor)] = self._tensor(-1, "constant", fact, tensor)
        return found

    # -- values
    def value(self, value: GraphValue) -> Value:
        if value in self.values:
            return self.values[value]
        if not is_constant(value):
            raise NotNative(f"%{value.name} is not known here")
        held = constant_of(value)
        if isinstance(held, torch.Tensor):
            return self._constant_tensor(held)
        return _constant(held)

    def know(self, value: GraphValue, found: Value) -> None:
        self.values[value] = found

    def operand(self, value: GraphValue) -> Operand:
        """A number, or a list or dict that machine code holds."""
        found = self.value(value)
        if isinstance(found, bool | int | float | Scalar):
            return found
        raise NotNative(f"%{value.name} : {value.type} is no number here")

    # -- nodes
    def nodes_of(self, block: Block) -> None:
        for node in block.nodes:
            if node.kind != "prim::Constant":
                self.node(node)

    def write(self, statement: Statement) -> None:
        super().write(statement)
        note(self.kernel.origins, statement, origin_of(statement, self._evaluated, self._at))

    def _is_stored(self, value: TensorValue, place: Place) -> None:
        self._evaluated.last[value] = None  # what is stored itself is not asked for as a lane of others
        super()._is_stored(value, place)

    def node(self, node: Node) -> None:
        outer, self._at = self._at, node
        self._evaluated.last.clear()
        self._write_node(node)
        self._at = outer

    def _write_node(self, node: Node) -> None:
        if node.kind == "prim::If":
            self.if_(node)
        elif node.kind == "prim::Loop":
            self.loop(node)
        elif node.kind == "prim::ListConstruct" and self._is_display(node):
            grows = any(makes_longer(use.user) for use in node.output.uses)
            self.values[node.output] = new_list(self) if grows else [self.value(v) for v in node.inputs]
        elif is_tensor_node(node) or self._reads_known_list(node):
            self._tensor_node(node)
        else:
            self._scalar_node(node)
        if not any(isinstance(v, TensorValue) and v.is_lazy for v in map(self.values.get, node.outputs)):
            self.finished.add(node)

    def _is_display(self, node: Node) -> bool:
        """Is a list only read by operators on tensors? Then its elements are known."""
        users = [use.user for use in node.output.uses]
        return all((is_tensor_node(user) and user.kind in RULES) or takes_sizes(user) for user in users)

    def _reads_known_list(self, node: Node) -> bool:
        if node.kind not in RULES:
            return False
        if node.kind in CONVERSIONS and any(v.type is T.NUMBER for v in node.inputs):
            return True
        return any(isinstance(self.values.get(v), list | TensorList) for v in node.inputs)

    def _tensor_node(self, node: Node) -> None:
        rule = RULES.get(node.kind)
        if rule is None:
            raise NotNative(f"there is no kernel for {node.kind}")
        given = Call(self, node).apply(rule, NARROW[node.kind])
        if len(node.outputs) == 1:
            self.values[node.output] = self._own(given, node)
            return
        assert isinstance(given, list), f"the rule of {node.kind} gives {len(node.outputs)} values"
        if len(given) != len(node.outputs):
            raise NotNative(f"{node.kind} gives {len(given)} values, and {len(node.outputs)} are expected")
        for output, value in zip(node.outputs, given, strict=True):
            self.values[output] = self._own(value, node)

    def _own(self, value: Value, node: Node) -> Value:
        if isinstance(value, TensorValue) and value.node is None and value.position is None:
            value.node = node
        return value

    def _scalar_node(self, node: Node) -> None:
        if any(v.type is T.NUMBER for v in node.outputs):
            raise NotNative(f"{node.kind} gives a number whose type is not known")
        operands = tuple(self.operand(v) for v in node.inputs)
        known = known_result(self, node, operands)
        if known is not None:
            self.values[node.output] = known
            return
        results = tuple(self.scalar(v.type, _base_name(v)) for v in node.outputs)
        for value, result in zip(node.outputs, results, strict=True):
            self.values[value] = result
        self.write(NodeOperation(node, operands, results))

    # -- branches
    def if_(self, node: Node) -> None:
        condition = self.operand(node.inputs[0])
        if not isinstance(condition, Scalar):
            self._taken(node, node.blocks[0 if condition else 1])
            return
        for block, wanted in zip(node.blocks, (False, True), strict=True):
            if raises(block):
                self.check(condition if wanted else self.index("not", condition), "the program raises")
                self._taken(node, node.blocks[0 if wanted is not False else 1])
                return
        self._force_read_in(node)
        joining = Joining(self)
        for block in node.blocks:
            with self.block() as statements, joining.block(statements):
                self.nodes_of(block)
                joining.give(
                    [self._in_memory(v) for v in block.outputs], [is_handed_on(node, v) for v in block.outputs]
                )
        joined = joining.joined()
        self.write(Branch(condition, *joining.blocks))
        for output, (value, after) in zip(node.outputs, joined, strict=True):
            self.values[output] = value
            for statement in after:
                self.write(statement)

    def _taken(self, node: Node, block: Block) -> None:
        self.nodes_of(block)
        for output, value in zip(node.outputs, block.outputs, strict=True):
            self.values[output] = self.value(value)

    def _in_memory(self, value: GraphValue) -> Value:
        found = self.value(value)
        if isinstance(found, TensorValue):
            self.force(found)
        return found

    def _force_read_in(self, node: Node) -> None:
        """Have in memory what the blocks of a node read, or what they may write while it is an expression."""
        read = [v for v in read_in(node, self.values) if isinstance(v, TensorValue)]
        self.force_all([*read, *self._lazy] if writes(node) else read)

    # -- loops
    def loop(self, node: Node) -> None:
        loop = GraphLoop(node)
        self._force_read_in(node)
        count, start = self.operand(loop.max_iterations), self.operand(loop.start_condition)
        goes_on = None
        if start is not True or constant_of(loop.condition, None) is not True:
            goes_on = self.variable(T.BOOL)
            self.write(Set(goes_on, start))
        if self._must_run(loop):
            runs = self.index("and", start, self.index("lt", 0, count))
            self.check(runs, "a loop that carries tensors does not run")
        written, self.written = self.written, set()
        carried = [self._carry(node, i, value) for i, value in enumerate(loop.starts)]
        for slot in carried:
            if isinstance(slot, CarriedTensor):
                self.swapped.update((slot.now, slot.next))
        index = self.scalar(T.INT, "i")
        self.loops.append(LoopFrame(node, index, count if goes_on is None else None))
        with self.block(is_loop=True) as body:
            self.values[loop.index] = self._loop_index(node, index)
            for parameter, each in zip(loop.parameters, carried, strict=True):
                self.values[parameter] = each.enter(self)
            self.nodes_of(loop.body)
            self._carry_on(loop, carried)
            if goes_on is not None:
                self.write(Set(goes_on, self.operand(loop.condition)))
            level = self.level
        self.loops.pop()
        self._check_written(carried)
        self.written |= written
        self.write(Repeat(index, count, goes_on, body, level, frees=frees(loop.body)))
        for result, each in zip(loop.results, carried, strict=True):
            self.values[result] = each.leave(self)

    def _must_run(self, loop: GraphLoop) -> bool:
        """Is a loop that does not run left to Python?

        What it gives are its starts then, which may be arguments; and of what its body computes nothing has a gradient.
        """
        if self.varying is None and any(isinstance(self.value(v), TensorValue) for v in loop.starts):
            return True
        return not all(may_be_result(loop.node, v, self.value(v)) for v in loop.starts)

    def _loop_index(self, node: Node, index: Scalar) -> Operand:
        if not node.attributes.get(OVER_RANGE):
            return index
        start, _, step = (self.operand(v) for v in node.inputs[0].node.inputs)
        return self.index("add", start, self.index("mul", index, step))

    def _check_written(self, carried: Sequence[Carried]) -> None:
        """What is carried is a copy: nothing may write what it is a copy of."""
        for slot in carried:
            if isinstance(slot, CarriedTensor) and slot.sources & self.written:
                raise NotNative("a loop carries a tensor, and writes its memory under another name")

    def _carry(self, node: Node, position: int, value: GraphValue) -> Carried:
        found = self.value(value)
        if isinstance(found, TensorValue):
            known = self.varying
            if known is None:
                return CarriedTensor(self, found, set(), None)
            varying = {d for d in range(found.rank) if (node, position, d) in known}
            return CarriedTensor(self, found, varying, lambda d: known.add((node, position, d)))
        if isinstance(found, bool | int | float | Scalar):
            return CarriedScalar(self, found, value.type)
        if found is None or found == []:
            return CarriedSizes(found)
        raise NotNative(f"%{value.name} : {value.type} is carried around a loop")

    def _carry_on(self, loop: GraphLoop, carried: Sequence[Carried]) -> None:
        """Have the next iteration read what this one has made."""
        found = [self.value(v) for v in loop.followings]
        pairs = [
            (slot, slot.checked(self, value))
            for slot, value in zip(carried, found, strict=True)
            if isinstance(slot, CarriedTensor)
        ]
        lazy: dict[TensorValue, Place] = {}
        for slot, tensor in pairs:
            if tensor.is_lazy and tensor not in lazy:
                lazy[tensor] = slot.room(self, tensor)
        self.force_all(list(lazy), list(lazy.values()))
        for slot, tensor in pairs:
            slot.take(self, tensor)
        self.force_partial()
        buffers = [tensor.place.buffer for _, tensor in pairs if tensor.place is not None]
        for slot, tensor in pairs:
            slot.is_own = tensor.source is MemorySource.OWN and len(buffers) == len(set(buffers))
        for each, value in zip(carried, found, strict=True):
            each.follow(self, value)


def _constant(held: object) -> Value:
    if isinstance(held, torch.dtype):
        return coded_dtype(held).code
    if isinstance(held, int) and not -(1 << 63) <= held < 1 << 63:
        raise NotNative("a number of more than 64 bits")  # which torch's operators do not take
    if held is None or isinstance(held, bool | int | float | str):
        return held
    if isinstance(held, list | tuple):
        return [_constant(v) for v in held]
    raise NotNative(f"a constant {type(held).__name__}")


def _inner(t: T.Type) -> T.Type:
    return T.without_none(t)


def _base_name(value: GraphValue) -> str:
    name = value.name.partition(".")[0]
    return f"{name}_" if name.isidentifier() else "s"
