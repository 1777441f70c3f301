"""Which values share a Python variable in generated code.

A value of SSA form is written once. Where control flow joins, a loop's carried value or an If's output takes over the
value of a block: a copy in Python, unless both are the same variable. They may be where they are never alive at once.

A place in a program is a number that grows in order of execution within a block; a statement reads at an even number
and writes at the next. A value is alive in ranges of such numbers, with holes: in the branch of an If that does not
read it, it is not alive. The ranges are found by walking the blocks backwards (Wimmer and Franz, "Linear Scan Register
Allocation on SSA Form", 2010); values are joined as in Boissinot et al., "Revisiting Out-of-SSA Translation", 2009:
greedily, those of inner loops first.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jitlite.ir.code_text import Identifier, made_identifier, numbered
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.structure import Loop

Range = tuple[int, int]


@dataclass(eq=False)
class Variable:
    """A Python variable: the values it holds, one after the other, and the ranges in which it is in use."""

    values: list[Value]
    ranges: list[Range] = field(default_factory=list)
    name: Identifier = field(default_factory=lambda: made_identifier("v"))
    is_shared: bool = True
    """May it hold other values too?"""

    def is_used_after(self, place: int) -> bool:
        """Does it hold something that is read or written later, without a new value in between, at this place?"""
        return any(start <= place < end for start, end in self.ranges)

    def meets(self, other: Variable) -> bool:
        """Are the two in use at once anywhere? Both lists of ranges are sorted."""
        mine, theirs = iter(self.ranges), iter(other.ranges)
        a, b = next(mine, None), next(theirs, None)
        while a is not None and b is not None:
            if max(a[0], b[0]) < min(a[1], b[1]):
                return True
            if a[1] <= b[1]:
                a = next(mine, None)
            else:
                b = next(theirs, None)
        return False


class Variables:
    """The variables of one graph.

    Args:
        graph: what is translated.
        nested: nodes whose value is written where it is used: it needs no variable.
        conditional: nodes with blocks that are written as one expression.
        unshared: values that need a variable of their own.
    """

    def __init__(self, graph: Graph, nested: set[Node], conditional: set[Node], unshared: Iterable[Value] = ()) -> None:
        self._nested = nested
        self._conditional = conditional
        self._variables: dict[Value, Variable] = {}
        self._begin: dict[Node, int] = {}
        self._end: dict[Node, int] = {}
        self._affinities: list[tuple[int, Value, Value]] = []
        self._free: dict[Node, dict[Value, None]] = {}
        self._live: dict[Value, int] = {}
        """What is alive where the walk is, with the end of its range."""
        self._read_first: list[dict[Value, None]] = []
        """For each block around, what is alive because the block reads it."""
        self._without_variable: dict[Value, None] = {}
        self._number(graph.block, 0, 0)
        for value in graph.inputs:
            self._add_range(value, 0, 1)
        self._walk(graph.block)
        for value, end in self._live.items():
            self._add_range(value, 0, end)
        for value in unshared:
            self._variable(value).is_shared = False
        for variable in self._variables.values():
            variable.ranges.sort()
        self._join()
        _give_names(self._variables.values())

    def __getitem__(self, value: Value) -> Variable:
        return self._variables[value]

    def __iter__(self) -> Iterator[Variable]:
        return iter(dict.fromkeys(self._variables.values()))

    @property
    def names(self) -> set[Identifier]:
        """The names of all variables."""
        return {variable.name for variable in self._variables.values()}

    def read_in(self, value: Value) -> Iterable[Value]:
        """The values that are read where this one is written."""
        if value.node in self._nested:
            yield from self._operands(value.node)
        elif value.node.kind != "prim::Constant":
            yield value

    def end_of(self, node: Node) -> int:
        """The place behind a statement."""
        return self._end[node]

    # -- numbering
    def _number(self, block: Block, place: int, depth: int) -> int:
        """Give statements their places, and note which values would better be one variable."""
        for node in block.nodes:
            if node in self._nested or node.kind == "prim::Constant":
                continue
            place = self._begin[node] = place + 2
            if node.kind == "prim::unchecked_cast":
                self._affinities.append((2 * depth, node.output, node.input))
            if node.blocks and node not in self._conditional:
                inner = depth + (node.kind == "prim::Loop")
                for nested in node.blocks:
                    place = self._number(nested, place, inner) + 2  # what is written at its end is apart from the next
                self._note_affinities(node, inner)
                place += 2
            self._end[node] = place
        place += 2
        self._begin[block.return_node] = self._end[block.return_node] = place
        return place

    def _note_affinities(self, node: Node, depth: int) -> None:
        if node.kind == "prim::Loop":
            for given, carried, left, out in Loop(node).carried:
                self._affinities.append((depth + 1_000_000, carried, out))  # they are one variable in any case
                self._affinities.append((2 * depth + 1, carried, left))  # before what a branch in the body may take
                self._affinities.append((2 * depth - 2, carried, given))
        else:
            for nested in node.blocks:
                self._affinities += [(2 * depth, o, v) for o, v in zip(node.outputs, nested.outputs, strict=True)]

    # -- ranges
    def _variable(self, value: Value) -> Variable:
        found = self._variables.get(value)
        if found is None:
            found = self._variables[value] = Variable([value])
        return found

    def _add_range(self, value: Value, start: int, end: int) -> None:
        self._variable(value).ranges.append((start, end))

    def _operands(self, root: Node) -> Iterable[Value]:
        """What a statement reads: its inputs and those of the expressions within it."""
        pending = [root]
        while pending:
            node = pending.pop()
            for value in node.inputs:
                if value.node in self._nested:
                    pending.append(value.node)
                elif value.node.kind != "prim::Constant":
                    yield value
            if node in self._conditional:
                pending += [block.return_node for block in node.blocks]

    def _walk(self, block: Block) -> dict[Value, None]:
        """Walk a block backwards. `_live` maps what is alive to the end of its range: before, at the end of the block;
        after, at its start.

        Returns:
            What is alive at the start, and was not at the end: what the block reads.
        """
        self._read_first.append({})
        self._read(block.return_node, self._begin[block.return_node])
        for node in block.reversed_nodes:
            if node not in self._begin:
                continue
            if node.kind == "prim::Loop" and node not in self._conditional:
                self._walk_loop(node)
            elif node.blocks and node not in self._conditional:
                self._walk_branches(node)
            else:
                self._write(node.outputs, self._begin[node] + 1)
            self._read(node, self._begin[node])
        return self._read_first.pop()

    def _read(self, node: Node, place: int) -> None:
        for value in self._operands(node):
            self._keep(value, place)

    def _keep(self, value: Value, place: int) -> None:
        """Let a value be alive up to a place, if it is not alive longer."""
        if value not in self._live:
            self._live[value] = place
            self._read_first[-1][value] = None
            self._note_without_variable(value)

    def _write(self, values: Iterable[Value], place: int, end: int | None = None) -> None:
        """Begin the ranges of values; one that nothing reads lasts from `place` to `end`."""
        for value in values:
            self._add_range(value, place, self._live.pop(value, place + 1 if end is None else end))
            self._read_first[-1].pop(value, None)

    def _walk_branches(self, node: Node) -> None:
        """Walk the blocks of an If or Try. What is alive behind it is so in all of it, and is not looked at."""
        begin, end = self._begin[node], self._end[node]
        for block in node.blocks:
            place = self._begin[block.return_node] + 1
            for out in node.outputs:
                self._add_range(out, place, place + 1)
        self._write(node.outputs, end)
        self._give_variables()
        before: dict[Value, None] = {}
        at_risk: Iterable[Value] = self._free_of(node.blocks[1]) if node.kind == "prim::Try" else ()
        for position, block in enumerate(node.blocks):
            inside: dict[Value, None] = {}
            if position == 0:  # the handler may begin in the middle of the body, and then reads what it reads
                inside = {value: None for value in at_risk if value not in self._live}
                for value in inside:
                    self._live[value] = end
                    self._note_without_variable(value)
            first = self._first_place(block)
            inside |= self._walk(block)
            self._begin_inputs(block, first, inside)
            for value in inside:
                self._add_range(value, first, self._live.pop(value))
            before |= inside
        for value in before:
            self._keep(value, begin + 1)

    def _walk_loop(self, node: Node) -> None:
        """Walk a loop. What its body reads from outside is alive in all of it, as what is alive behind it is."""
        body, begin, end = node.blocks[0], self._begin[node], self._end[node]
        last = self._begin[body.return_node] + 1
        for _, carried, _, out in Loop(node).carried:
            self._add_range(carried, begin + 1, begin + 2)
            self._add_range(carried, last, last + 1)
            self._write([out], last, end + 1)
        self._give_variables()
        for value in self._free_of(body):
            self._keep(value, end)
        self._begin_inputs(body, begin + 1, self._walk(body))
        self._give_variables()

    def _begin_inputs(self, block: Block, first: int, inside: dict[Value, None]) -> None:
        """Begin the ranges of a block's parameters, which are no longer among what is alive inside."""
        for value in block.inputs:
            self._add_range(value, first, self._live.pop(value, first + 1))
            inside.pop(value, None)

    def _note_without_variable(self, value: Value) -> None:
        if value not in self._variables:
            self._without_variable[value] = None

    def _give_variables(self) -> None:
        """Give what is alive its variables now: they are named in the order in which they are made."""
        for value in self._without_variable:
            self._variable(value)
        self._without_variable.clear()

    def _first_place(self, block: Block) -> int:
        node = next((n for n in block.nodes if n in self._begin), block.return_node)
        return self._begin[node] - 1

    def _free_of(self, block: Block) -> dict[Value, None]:
        """The values from outside that a block reads, in the order in which it first does."""
        owner = block.owner
        key = block.return_node
        assert owner is not None
        found = self._free.get(key)
        if found is None:
            read: dict[Value, None] = {}
            for node in (*block.nodes, block.return_node):
                for inner in node.blocks:
                    read |= self._free_of(inner)
                read |= dict.fromkeys(v for v in node.inputs if v.node.kind != "prim::Constant")
            inside = {*block.nodes, block.param_node}
            found = self._free[key] = {v: None for v in read if v.node not in inside}
        return found

    # -- joining
    def _join(self) -> None:
        for _, kept, joined in sorted(self._affinities, key=lambda a: -a[0]):
            into, other = self._variables.get(kept), self._variables.get(joined)
            if into is None or other is None or into is other:
                continue
            must = kept.node.kind == "prim::Param" and joined.node.blocks and kept.node.block is joined.node.blocks[0]
            if not must and (not (into.is_shared and other.is_shared) or into.meets(other)):
                continue
            into.values += other.values
            into.ranges = sorted(into.ranges + other.ranges)
            for value in other.values:
                self._variables[value] = into


_NOT_IN_NAMES = re.compile(r"\W+", re.ASCII)


def _give_names(variables: Iterable[Variable]) -> None:
    taken = set(dir(builtins))
    numbers: dict[Identifier, int] = {}
    for variable in dict.fromkeys(variables):
        named = next((v for v in variable.values if v.has_name), None)
        variable.name = unused(identifier(named.name if named is not None else "v", "v"), taken, numbers)


def unused(base: Identifier, taken: set[str], numbers: dict[Identifier, int]) -> Identifier:
    """The name, with a number behind it where it is taken; then it is taken, too.

    Args:
        numbers: the last number that each name has got: lower ones are taken.
    """
    name, number = base, numbers.get(base, 0)
    while name in taken:
        number += 1
        name = numbered(base, number)
    taken.add(name)
    numbers[base] = number
    return name


def identifier(text: str, otherwise: str) -> Identifier:
    """A Python name made of a value's or an operator's name. It has no underscore in front."""
    base = _NOT_IN_NAMES.sub("_", text.partition(".")[0]).strip("_")
    if not base or base[0].isdigit() or keyword.iskeyword(base) or keyword.issoftkeyword(base):
        base = f"{otherwise}_{base}" if base else otherwise
    return made_identifier(base)
