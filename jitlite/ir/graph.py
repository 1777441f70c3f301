"""Graphs: nodes and values in SSA form.

A `Graph` has one top `Block`; a block is an ordered list of nodes between its parameters and its returns; a `Node` has
input and output `Value`s, attributes and, for control flow, blocks of its own, which may use the values of the
blocks around them. The order of nodes is the order of execution.

Nodes of a block form an intrusive doubly linked list; `Node.is_before` compares positions kept in the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jitlite.base import turns
from jitlite.base.changed import Changed
from jitlite.base.source import SourceRange
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.notebook import graph_html
from jitlite.ir.printer import graph_text, shows_ranges
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type

_GAP = 1 << 40
"""Distance between the positions of neighbouring nodes; inserting between two halves it."""

_ROOM = 64
"""Nodes that are given new positions are apart from each other by so many times their number."""

_SUFFIX = re.compile(r"\.(\d+)$")
_UNSET: Any = object()


class Use(NamedTuple):
    """Input number `offset` of node `user`."""

    user: Node
    offset: int


_new: Callable[[type[Use], tuple[Node, int]], Use] = tuple.__new__
"""Makes uses; their own constructor takes twice as long."""


class Value:
    """A value: output `offset` of `node` (block parameters are outputs of the block's param node)."""

    __slots__ = ("_name", "_uses", "example_type", "id", "node", "offset", "type")

    def __init__(self, node: Node, offset: int, type: Type) -> None:
        self.node = node
        self.offset = offset
        self.type = type
        self.example_type: Type | None = None
        """In a trace, the whole type of the tensor that was recorded. Calls may have others: no pass may rely on it."""
        self.id = node.graph._next_id()
        self._name: str | None = None
        self._uses: dict[Use, None] = {}

    @property
    def uses(self) -> list[Use]:
        """Where the value is used, in order of creation."""
        return list(self._uses)

    @property
    def has_uses(self) -> bool:
        return bool(self._uses)

    @property
    def use_count(self) -> int:
        return len(self._uses)

    @property
    def name(self) -> str:
        """The debug name, else the number."""
        return self._name or str(self.id)

    @property
    def has_name(self) -> bool:
        return self._name is not None

    def set_name(self, name: str | None) -> Value:
        """Give the value a debug name; the value that had it gets a numbered one (`x` becomes `x.1`)."""
        names, suffixes = self.node.graph._names, self.node.graph._suffixes
        if self._name is not None:
            del names[self._name]
            self._name = None
        if name is None:
            return self
        previous = names.get(name)
        if previous is not None:
            found = _SUFFIX.search(name) if "." in name else None
            base, number = (name[: found.start()], int(found.group(1))) if found else (name, 1)
            number = max(number, suffixes.get(base, 0) + 1) if base in suffixes else number
            while f"{base}.{number}" in names:
                number += 1
            suffixes[base] = number + 1
            previous.set_name(f"{base}.{number}")
        names[name] = self
        self._name = name
        return self

    def copy_metadata(self, other: Value) -> Value:
        """Take over type and debug name of `other`."""
        self.type = other.type
        self.example_type = other.example_type
        if other._name is not None:
            self.set_name(other._name)
        return self

    def replace_all_uses_with(self, other: Value) -> None:
        """Let every user of this value use `other` instead."""
        if other is self:
            return
        for use in list(self._uses):
            use.user._inputs[use.offset] = other
            other._uses[use] = None
        self._uses.clear()

    def replace_uses_after(self, node: Node, other: Value) -> None:
        """Let the users that run after `node` (in its block or nested below it) use `other`."""
        for use in list(self._uses):
            if use.user is not node and use.user.is_after(node):
                use.user.replace_input(use.offset, other)

    def __repr__(self) -> str:
        return f"%{self.name} : {self.type}"


class Node:
    """An operation. Create nodes with `Graph.create` or `Graph.insert`, never directly."""

    __slots__ = ("_inputs", "_next", "_op", "_op_types", "_position", "_prev", "attributes", "block", "blocks",
                 "call_stack", "graph", "kind", "outputs", "range", "scope")  # fmt: skip

    def __init__(self, graph: Graph, kind: str, range: SourceRange | None) -> None:
        self.graph = graph
        self.kind = kind
        self.range = range
        self.scope = ""
        self.call_stack: tuple[tuple[str, SourceRange | None], ...] = ()
        """Calls that inlining removed around this node, outermost first: (function name, where it was called)."""
        self._inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.blocks: tuple[Block, ...] = ()
        self.attributes: dict[str, Any] = {}
        self.block: Block | None = None
        self._prev: Node | None = None
        self._next: Node | None = None
        self._position = 0
        self._op: ops.Op | None = None
        self._op_types: list[Type] | None = None
        """The types of the inputs that `_op` was found for; a type is equal to itself only."""

    # -- inputs and outputs
    @property
    def inputs(self) -> Sequence[Value]:
        """The inputs; change them with the methods below only."""
        return self._inputs

    @property
    def input(self) -> Value:
        """The only input."""
        (value,) = self._inputs
        return value

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    def named_input(self, name: str) -> Value:
        """The input bound to the argument `name` of the operator's schema."""
        resolved = self.op
        position = resolved.schema.argument_index(name) if resolved else None
        if position is None:
            raise KeyError(f"{self.kind} has no argument {name}")
        return self._inputs[position]

    def add_input(self, value: Value) -> Value:
        value._uses[_new(Use, (self, len(self._inputs)))] = None
        self._inputs.append(value)
        return value

    def insert_input(self, index: int, value: Value) -> None:
        tail = self._detach_inputs(index)
        self.add_input(value)
        for moved in tail:
            self.add_input(moved)

    def replace_input(self, index: int, value: Value) -> Value:
        """Put `value` in place of input `index`; gives the old one."""
        old = self._inputs[index]
        use = _new(Use, (self, index))
        del old._uses[use]
        self._inputs[index] = value
        value._uses[use] = None
        return old

    def replace_input_with(self, old: Value, new: Value) -> None:
        """Put `new` wherever `old` is an input."""
        for index, value in enumerate(self._inputs):
            if value is old:
                self.replace_input(index, new)

    def remove_input(self, index: int) -> None:
        tail = self._detach_inputs(index)
        for moved in tail[1:]:
            self.add_input(moved)

    def remove_all_inputs(self) -> None:
        self._detach_inputs(0)

    def _detach_inputs(self, start: int) -> list[Value]:
        tail = self._inputs[start:]
        for offset, value in enumerate(tail, start):
            del value._uses[_new(Use, (self, offset))]
        del self._inputs[start:]
        return tail

    def add_output(self, type: Type = T.TENSOR) -> Value:
        value = Value(self, len(self.outputs), type)
        self.outputs.append(value)
        return value

    def insert_output(self, index: int, type: Type = T.TENSOR) -> Value:
        value = Value(self, index, type)
        self.outputs.insert(index, value)
        self._renumber_outputs(index)
        return value

    def erase_output(self, index: int) -> None:
        """Remove an output that nothing uses."""
        value = self.outputs[index]
        if value._uses:
            raise ValueError(f"%{value.name} is still used and cannot be erased")
        value.set_name(None)
        del self.outputs[index]
        self._renumber_outputs(index)

    def permute_outputs(self, order: Sequence[int]) -> None:
        """Let output number `order[i]` become number i."""
        self.outputs[:] = [self.outputs[i] for i in order]
        self._renumber_outputs(0)

    def _renumber_outputs(self, start: int) -> None:
        for offset in range(start, len(self.outputs)):
            self.outputs[offset].offset = offset

    def replace_all_uses_with(self, other: Node) -> None:
        """Let users of each output use the corresponding output of `other`."""
        for mine, theirs in zip(self.outputs, other.outputs, strict=True):
            mine.replace_all_uses_with(theirs)

    # -- blocks
    def add_block(self) -> Block:
        block = Block(self.graph, self)
        self.blocks += (block,)
        return block

    def erase_block(self, index: int) -> None:
        self.blocks[index].destroy()
        self.blocks = self.blocks[:index] + self.blocks[index + 1 :]

    # -- operator
    def has(self, trait: Trait) -> bool:
        """Does the promise hold for nodes of this kind?"""
        return self.kind in trait.kinds

    @property
    def op(self) -> ops.Op | None:
        """The operator, resolved from the kind and the types of the inputs; None if there is none."""
        types = [v.type for v in self._inputs]
        if types != self._op_types:
            self._op = _resolve(self, self._op)
            self._op_types = types
        return self._op

    def set_op(self, op: ops.Op) -> None:
        """Say which overload the node calls (known where the schema was matched)."""
        self._op = op
        self._op_types = [v.type for v in self._inputs]

    def change_kind(self, kind: str) -> None:
        """Let the node be of another kind; its operator is looked up anew."""
        self.kind = kind
        self._op = self._op_types = None

    # -- place in the block
    @property
    def next(self) -> Node | None:
        """The following node of the block, None at the last one."""
        following = self._next
        return None if following is None or following.kind == "prim::Return" else following

    @property
    def prev(self) -> Node | None:
        """The preceding node of the block, None at the first one."""
        preceding = self._prev
        return None if preceding is None or preceding.kind == "prim::Param" else preceding

    def insert_before(self, place: Node) -> Node:
        """Put this (unplaced) node before `place`, which may be a block's return node."""
        assert place._prev is not None
        return self.insert_after(place._prev)

    def insert_after(self, place: Node) -> Node:
        """Put this (unplaced) node after `place`, which may be a block's param node."""
        assert self.block is None and place.block is not None, "the node has a place already, or the place has none"
        self.block = place.block
        following = place._next
        assert following is not None
        self._prev, self._next = place, following
        place._next = following._prev = self
        self._place_between(place, following)
        return self

    def _place_between(self, before: Node, after: Node) -> None:
        assert self.block is not None
        if after.kind == "prim::Return":
            self._position = before._position + _GAP
            after._position = self._position + _GAP
        elif before.kind == "prim::Param":
            self._position = after._position - _GAP
            before._position = self._position - _GAP
        elif after._position - before._position >= 2:
            self._position = (before._position + after._position) // 2
        else:
            _spread(self)

    def move_before(self, place: Node) -> None:
        self._unlink()
        self.insert_before(place)

    def move_after(self, place: Node) -> None:
        self._unlink()
        self.insert_after(place)

    def _unlink(self) -> None:
        assert self._prev is not None and self._next is not None
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self.block = None

    def is_before(self, other: Node) -> bool:
        """Does this node run before `other`? Nodes of different blocks compare where their blocks meet."""
        if self.block is other.block:
            return self._position < other._position
        mine, theirs = self._ancestors(), other._ancestors()
        by_block = {node.block: node for node in theirs}
        for node in mine:
            if node.block in by_block:
                counterpart = by_block[node.block]
                if node is counterpart:  # one holds the other: the outer node starts first
                    return node is self
                return node._position < counterpart._position
        raise ValueError("the nodes are of different graphs")

    def is_after(self, other: Node) -> bool:
        return self is not other and other.is_before(self)

    def _ancestors(self) -> list[Node]:
        chain = [self]
        while chain[-1].block is not None and chain[-1].block.owner is not None:
            chain.append(chain[-1].block.owner)
        return chain

    def is_inside(self, block: Block) -> bool:
        """Is the node in `block` or nested below it?"""
        return any(node.block is block for node in self._ancestors())

    def destroy(self) -> None:
        """Remove the node; nothing may use its outputs."""
        for value in self.outputs:
            if value._uses:
                raise ValueError(f"%{value.name} is still used; {self.kind} cannot be destroyed")
        self.remove_all_inputs()
        while self.blocks:
            self.erase_block(len(self.blocks) - 1)
        for value in self.outputs:
            value.set_name(None)
        if self.block is not None:
            self._unlink()
        self.outputs = []  # else each would keep the other, until garbage is collected

    def __repr__(self) -> str:
        outputs = ", ".join(map(repr, self.outputs))
        return f"{outputs} = {self.kind}({', '.join(f'%{v.name}' for v in self._inputs)})"


def _resolve(node: Node, current: ops.Op | None) -> ops.Op | None:
    candidates = ops.lookup(node.kind)
    if current is not None:
        candidates = (current, *candidates)
    for bools_are_numbers in (False, True):
        for candidate in candidates:
            if _fits(candidate, node, bools_are_numbers):
                return candidate
    return None


def _fits(candidate: ops.Op, node: Node, bools_are_numbers: bool) -> bool:
    """Do the node's inputs have the types of the operator's arguments? A bool may stand for a number if need be."""
    arguments = candidate.schema.arguments
    given = node.inputs
    if len(given) != len(arguments) and not (candidate.schema.is_vararg and len(given) >= len(arguments)):
        return False
    bindings: dict[str, Type] = {}
    for argument, value in zip(arguments, given, strict=False):
        formal = argument.type
        if T.has_variables(formal):
            if T.match_variables(formal, value.type, bindings) is not None:
                return False
            formal = T.substitute(formal, bindings)
        if bools_are_numbers and value.type is T.BOOL and formal in (T.INT, T.NUMBER):
            continue
        if not T.is_subtype(value.type, formal) and not (T.has_variables(formal) and value.type is T.NONE):
            return False
    return True


class Block:
    """An ordered list of nodes with parameters and returns."""

    __slots__ = ("graph", "owner", "param_node", "return_node")

    def __init__(self, graph: Graph, owner: Node | None) -> None:
        self.graph = graph
        self.owner = owner
        self.param_node = Node(graph, "prim::Param", None)
        self.return_node = Node(graph, "prim::Return", None)
        self.param_node.block = self.return_node.block = self
        self.param_node._next, self.return_node._prev = self.return_node, self.param_node
        self.return_node._position = _GAP

    def __repr__(self) -> str:
        params, returns = (", ".join(map(str, node)) for node in (self.inputs, self.outputs))
        return f"<block ({params}) -> ({returns}) of {sum(1 for _ in self.nodes)} nodes>"

    @property
    def inputs(self) -> list[Value]:
        return self.param_node.outputs

    @property
    def outputs(self) -> Sequence[Value]:
        return self.return_node.inputs

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in order. The current node may be removed, and nodes inserted before it, while iterating."""
        node = self.param_node._next
        while node is not None and node is not self.return_node:
            following = node._next
            if turns.is_working:
                turns.give()
            yield node
            node = node._next if node.block is self else following

    @property
    def reversed_nodes(self) -> Iterator[Node]:
        """The nodes from last to first; the current node may be removed."""
        node = self.return_node._prev
        while node is not None and node is not self.param_node:
            preceding = node._prev
            if turns.is_working:
                turns.give()
            yield node
            node = node._prev if node.block is self else preceding

    @property
    def computations(self) -> Iterator[Node]:
        """The nodes in order, without constants."""
        return (node for node in self.nodes if node.kind != "prim::Constant")

    def owners(self) -> list[Node]:
        """The nodes that have blocks."""
        found, node = [], self.param_node._next
        while node is not None:
            if node.blocks:
                found.append(node)
            node = node._next
        return found

    @property
    def is_empty(self) -> bool:
        return self.param_node._next is self.return_node

    def add_input(self, type: Type = T.TENSOR, name: str | None = None) -> Value:
        return self.insert_input(len(self.inputs), type, name)

    def insert_input(self, index: int, type: Type = T.TENSOR, name: str | None = None) -> Value:
        value = self.param_node.insert_output(index, type)
        return value.set_name(name) if name else value

    def erase_input(self, index: int) -> None:
        self.param_node.erase_output(index)

    def add_output(self, value: Value) -> int:
        """Return one more value; gives its index."""
        self.return_node.add_input(value)
        return len(self.return_node.inputs) - 1

    def insert_output(self, index: int, value: Value) -> None:
        self.return_node.insert_input(index, value)

    def replace_output(self, index: int, value: Value) -> None:
        self.return_node.replace_input(index, value)

    def erase_output(self, index: int) -> None:
        self.return_node.remove_input(index)

    def append(self, node: Node) -> Node:
        return node.insert_before(self.return_node)

    def prepend(self, node: Node) -> Node:
        return node.insert_after(self.param_node)

    def destroy(self) -> None:
        """Remove everything in the block."""
        self.return_node.remove_all_inputs()
        for node in self.reversed_nodes:
            node.destroy()
        for value in self.inputs:
            value.set_name(None)

    def clone_from(self, source: Block, values: dict[Value, Value]) -> None:
        """Append a copy of everything in `source`. `values` maps values from outside and is filled with the new ones.

        A value that is not in `values` is used as it is (it lives in a block around this one).
        """
        for parameter in source.inputs:
            values[parameter] = self.add_input().copy_metadata(parameter)
        for node in source.nodes:
            self.append(self.graph.clone_node(node, values))
        for output in source.outputs:
            self.add_output(values.get(output, output))


class Graph:
    """A function's body. `graph.nodes` walks the top block; `graph.all_nodes()` walks nested blocks too."""

    def __init__(self) -> None:
        self._id = 0
        self._names: dict[str, Value] = {}
        self._suffixes: dict[str, int] = {}
        self.current_range: SourceRange | None = None
        """Range given to nodes created without one."""
        self.block = Block(self, None)
        self.insert_point: Node = self.block.return_node
        """New nodes are inserted before this one."""
        self.analyses: dict[object, object] | None = None
        """What has been found out about the graph as it is; None where nobody forgets it when the graph changes."""

    def _next_id(self) -> int:
        self._id += 1
        return self._id - 1

    def forget_analyses(self) -> None:
        """The graph has changed: what has been found out need not hold any more."""
        if self.analyses:
            self.analyses.clear()

    @property
    def inputs(self) -> list[Value]:
        return self.block.inputs

    @property
    def outputs(self) -> Sequence[Value]:
        return self.block.outputs

    @property
    def nodes(self) -> Iterator[Node]:
        return self.block.nodes

    def all_nodes(self) -> Iterator[Node]:
        """Every node in order of execution, each before the nodes of its blocks."""
        return _walk(self.block)

    def add_input(self, type: Type = T.TENSOR, name: str | None = None) -> Value:
        return self.block.add_input(type, name)

    def add_output(self, value: Value) -> int:
        return self.block.add_output(value)

    # -- creation
    def create(
        self,
        kind: str,
        inputs: Iterable[Value] = (),
        types: Iterable[Type] = (),
        attributes: dict[str, Any] | None = None,
        range: SourceRange | None = None,
    ) -> Node:
        """A node that is not placed yet, with one output for each of `types`."""
        node = Node(self, kind, range if range is not None else self.current_range)
        for value in inputs:
            node.add_input(value)
        for t in types:
            node.add_output(t)
        if attributes:
            node.attributes.update(attributes)
        return node

    def insert(
        self,
        kind: str,
        inputs: Iterable[Value] = (),
        types: Iterable[Type] = (),
        attributes: dict[str, Any] | None = None,
        range: SourceRange | None = None,
    ) -> Node:
        """Create a node and place it at the insertion point."""
        return self.create(kind, inputs, types, attributes, range).insert_before(self.insert_point)

    def create_constant(self, value: object, type: Type | None = None, range: SourceRange | None = None) -> Node:
        """A `prim::Constant`; a None constant has no attribute.

        Raises:
            TypeError: where `value` can be no constant.
        """
        found = type or type_of_constant(value)
        if found is None:
            raise TypeError(f"a {value.__class__.__name__} can be no constant: {value!r}")
        return self.create("prim::Constant", (), (found,), None if value is None else {"value": value}, range)

    def insert_constant(self, value: object, type: Type | None = None, range: SourceRange | None = None) -> Value:
        """Place a constant at the insertion point."""
        return self.create_constant(value, type, range).insert_before(self.insert_point).output

    def inserting_before(self, place: Node) -> Changed:
        """Within the `with`, new nodes go before `place` (use a block's `return_node` for its end)."""
        return Changed(self, "insert_point", place)

    def inserting_at_end(self, block: Block) -> Changed:
        """Within the `with`, new nodes go to the end of `block`."""
        return self.inserting_before(block.return_node)

    # -- copies
    def clone_node(self, node: Node, values: dict[Value, Value]) -> Node:
        """An unplaced copy of `node` for this graph; its outputs are added to `values`."""
        clone = Node(self, node.kind, node.range)
        for value in node._inputs:
            clone.add_input(values.get(value, value))
        clone.scope = node.scope
        clone.call_stack = node.call_stack
        if node.attributes:
            clone.attributes = {k: a.copy() if isinstance(a, Graph) else a for k, a in node.attributes.items()}
        clone._op, clone._op_types = node._op, node._op_types
        for output in node.outputs:
            values[output] = clone.add_output().copy_metadata(output)
        for block in node.blocks:
            clone.add_block().clone_from(block, values)
        return clone

    def copy(self) -> Graph:
        """A deep copy (constants and types are shared)."""
        return self.copy_with_map()[0]

    def copy_with_map(self) -> tuple[Graph, dict[Value, Value]]:
        """A deep copy, and the copy's value for each value."""
        copied = Graph()
        values: dict[Value, Value] = {}
        copied.block.clone_from(self.block, values)
        return copied, values

    def inline_call(
        self, callee: Graph, arguments: Sequence[Value], visit: Callable[[Node], None] | None = None
    ) -> list[Value]:
        """Copy the body of `callee` to the insertion point; gives its results. `visit` sees each copied top node."""
        values = dict(zip(callee.inputs, arguments, strict=True))
        for node in callee.nodes:
            clone = self.clone_node(node, values).insert_before(self.insert_point)
            if visit:
                visit(clone)
        return [values.get(output, output) for output in callee.outputs]

    def __str__(self) -> str:
        return self.to_text(ranges=shows_ranges())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return graph_html(self)

    def to_text(self, *, ranges: bool = True, examples: bool = False, most_nodes: int | None = None) -> str:
        """The graph in TorchScript's text form.

        Args:
            ranges: add `# file:line:column` comments.
            examples: show, in a trace, the types that the tensors had when it was recorded.
            most_nodes: show no more than these, and count the rest.
        """
        return graph_text(self, ranges, examples, most_nodes)


def _spread(node: Node) -> None:
    """Give a node without room between its neighbours a position, and as many nodes around it as it takes others.

    The nodes are those between two that are far enough apart. The more they are, the further: else the same ones would
    be given new positions again and again where many nodes are inserted in one place.
    """
    first = last = node
    count, reach = 1, 8
    while True:
        for _ in range(reach):
            if first._prev is not None and first._prev._prev is not None:
                first, count = first._prev, count + 1
            if last._next is not None and last._next._next is not None:
                last, count = last._next, count + 1
        before, after = first._prev, last._next
        assert before is not None and after is not None
        is_all = before.kind == "prim::Param" and after.kind == "prim::Return"
        if is_all:
            before._position, after._position = 0, (count + 1) * _GAP
        step = (after._position - before._position) // (count + 1)
        if is_all or step >= _ROOM * count:
            break
        reach *= 2
    position, current = before._position, first
    while current is not after:
        position += step
        current._position = position
        assert current._next is not None
        current = current._next


def _walk(block: Block) -> Iterator[Node]:
    # A stack of its own: early returns nest blocks as deep as a function is long. It holds blocks that are still to be
    # walked, from the start or from behind a node; what `Block.nodes` says of removed nodes holds here too.
    todo: list[tuple[Block, Node | None, Node | None]] = []
    node = block.param_node._next
    while True:
        if node is None or node is block.return_node:
            if not todo:
                return
            block, before, following = todo.pop()
            if before is None:
                node = block.param_node._next
            else:
                node = before._next if before.block is block else following
            continue
        following = node._next
        yield node
        if node.blocks:
            todo.append((block, node, following))
            todo += [(inner, None, None) for inner in reversed(node.blocks)]
            node = None
        else:
            node = node._next if node.block is block else following


def constant_of(value: Value, default: object = _UNSET) -> Any:
    """The Python value of a constant.

    Raises:
        ValueError: where the value is no constant and no `default` is given.
    """
    if value.node.kind != "prim::Constant":
        if default is _UNSET:
            raise ValueError(f"%{value.name} is no constant")
        return default
    return value.node.attributes.get("value")


def is_constant(value: Value) -> bool:
    return value.node.kind == "prim::Constant"
