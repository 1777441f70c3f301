"""Which parts of a graph can be machine code, and why others cannot.

A region is a run of neighbouring nodes of a block, as long as possible, that has a loop in it. Whether a node qualifies
depends on what stands before it in the run: a list that the run makes may be written, one from outside only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.traits import Trait
from jitlite.native.code import NotNative
from jitlite.native.containers import CONTAINER_RULES, DISPLAYS, Rule
from jitlite.native.layout import OUTSIDE, SCALARS, letter_of, literal, storage
from jitlite.native.rules import SCALAR_RULES, Emit
from jitlite.operators.prims import OVER_RANGE

_LARGEST = 2000
"""Nodes in a region: to compile more takes seconds."""

_UNSET = "prim::Uninitialized"


@dataclass(eq=False)
class NativeRegion:
    """Nodes that can be machine code.

    Attributes:
        nodes: neighbouring nodes of one block, constants between them left out.
        inputs: the values from outside that they read.
        outputs: the values that others read.
        made: all values that are made here; a list that is not is one from outside.
        size: the number of nodes, those in inner blocks counted.
    """

    nodes: list[Node]
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    made: frozenset[Value] = frozenset()
    size: int = 0

    @property
    def loops(self) -> list[Node]:
        """The loops that are in no other loop."""
        return list(_loops_in(self.nodes))


@dataclass
class NativeRegions:
    """What was found in a graph: the regions, and for other loops why they are in none."""

    found: list[NativeRegion] = field(default_factory=list)
    refused: dict[Node, str] = field(default_factory=dict)

    def parts(self) -> dict[Node, NativeRegion]:
        """The region of each node, as far as the block is concerned that the region is in."""
        return {node: region for region in self.found for node in region.nodes}


def find_regions(graph: Graph) -> NativeRegions:
    """The regions of a graph. None is within another."""
    regions = NativeRegions()
    if any(node.kind == "prim::Loop" for node in graph.all_nodes()):
        blocks = [graph.block]
        while blocks:
            blocks += _search(blocks.pop(), regions)
    return regions


def _search(block: Block, regions: NativeRegions) -> list[Block]:
    """Find the regions that are in this very block; gives the blocks to look in for others."""
    inner: list[Block] = []
    run = _Run()
    for node in block.nodes:
        if node.kind == "prim::Constant":
            continue
        if _may_leave_loop(node, block):
            run.close(regions)
            run, inner = _Run(), inner + node.blocks
            continue
        try:
            run.try_add(node)
        except NotNative as reason:
            run.close(regions, before=node)
            run, length = _Run(), _range_of(node)
            try:  # what it is refused for may be what the run has made
                if length is not None:
                    run.try_add(length)
                run.try_add(node)
            except NotNative:
                run, inner = _Run(), inner + node.blocks
                if node.kind == "prim::Loop":
                    regions.refused[node] = str(reason)
    run.close(regions)
    return inner


def _may_leave_loop(node: Node, block: Block) -> bool:
    """Is it the If at the end of an inner block that may say whether a loop goes on? Python has it break out."""
    if node.kind != "prim::If" or block.owner is None:
        return False
    following = node.next
    while following is not None and following.kind == "prim::Constant":
        following = following.next
    return following is None and any(use.user is block.return_node for v in node.outputs for use in v.uses)


def _range_of(node: Node) -> Node | None:
    """For a loop over a range, the node in front of it that computes the number of iterations."""
    return node.inputs[0].node if node.attributes.get(OVER_RANGE) else None


def is_outside(value: Value) -> bool:
    """Can a value that the region has not made be read as a list of numbers? A list of constants can."""
    if not isinstance(value.type, T.ListType) or value.type.element not in SCALARS:
        return False
    return not is_constant(value) or type(constant_of(value)) is list


def raises(block: Block) -> bool:
    """Does the block raise, whatever it does before? It bails out then, and Python does what it does."""
    return any(node.kind == "prim::RaiseException" for node in block.nodes)


def scalar_rule(node: Node, letters: str) -> tuple[Emit, bool] | None:
    """What emits an operation on numbers, and whether its bools are to be made ints before."""
    rules = SCALAR_RULES.get(node.kind)
    if rules is None or len(node.outputs) != 1:
        return None
    result = f"->{letter_of(node.output.type)}"
    exact = rules.get(letters + result)
    if exact is not None:
        return exact, False
    widened = None if node.has(Trait.KEEPS_BOOLS) else rules.get(letters.replace("b", "i") + result)
    return None if widened is None else (widened, True)


def container_rule(node: Node, letters: str) -> Rule | None:
    """What emits an operation on a list, a dict or a tuple."""
    if node.kind in DISPLAYS:
        return DISPLAYS[node.kind] if OUTSIDE not in letters and letter_of(node.output.type) else None
    for wanted, rule in CONTAINER_RULES.get(node.kind, {}).items():
        if len(wanted) == len(letters) and all(w in (k, "*") for w, k in zip(wanted, letters, strict=True)):
            hands_on = any(w == "*" and k == OUTSIDE for w, k in zip(wanted, letters, strict=True))
            return None if hands_on or not all(letter_of(v.type) for v in node.outputs) else rule
    return None


class _Run:
    """Nodes that qualify, one behind the other."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.known: set[Value] = set()
        """What the run has computed."""
        self.has_loop = False

    # -- which nodes qualify
    def try_add(self, node: Node) -> None:
        """Take a node in.

        Raises:
            NotNative: it does not qualify, or not behind what is there.
        """
        self._check(node)
        self.nodes.append(node)
        self.has_loop = self.has_loop or any(True for _ in _loops_in([node]))

    def _check(self, node: Node) -> None:
        if node.kind == "prim::If":
            self._condition(node.inputs[0])
            for block in node.blocks:
                if not raises(block):
                    self._check_block(block)
        elif node.kind == "prim::Loop":
            length = _range_of(node)
            for value in (*node.inputs, *(() if length is None else length.inputs)):
                self._held(value)
            self.known.update(node.blocks[0].inputs)
            if raises(node.blocks[0]):
                raise NotNative("each iteration raises")
            self._check_block(node.blocks[0])
        elif node.kind == "prim::TupleUnpack":
            self._held(node.input)
        elif node.kind != _UNSET:
            letters = "".join(map(self._letter, node.inputs))
            if scalar_rule(node, letters) is None and container_rule(node, letters) is None:
                raise NotNative(_refusal(node, letters))
        for output in node.outputs:
            if storage(output.type) is None:
                raise NotNative(f"a value of type {output.type} is none of machine code's")
        self.known.update(node.outputs)

    def _check_block(self, block: Block) -> None:
        for node in block.nodes:
            if node.kind != "prim::Constant":
                self._check(node)
        for value in block.outputs:
            self._held(value)

    def _letter(self, value: Value) -> str:
        letter = letter_of(value.type)
        if not letter:
            raise NotNative(f"a value of type {value.type} is none of machine code's")
        if value in self.known:
            return letter
        if is_outside(value):
            return OUTSIDE
        if is_constant(value):
            if literal(constant_of(value), value.type) is None:
                raise NotNative(f"the constant {constant_of(value)!r} is not held as {value.type} in 64 bits")
        elif value.type not in SCALARS:
            raise NotNative(f"%{value.name} : {value.type} comes from outside")
        return letter

    def _held(self, value: Value) -> None:
        """It has to be a value of machine code, which a list from outside is not."""
        if self._letter(value) == OUTSIDE:
            raise NotNative(f"the list %{value.name} comes from outside, and more is done than to look at its elements")

    def _condition(self, value: Value) -> None:
        if self._letter(value) != "b":
            raise NotNative("a condition is no bool")

    # -- what becomes of them
    def close(self, regions: NativeRegions, before: Node | None = None) -> None:
        """Make a region of the run, if it is worth one. `before`: the node behind it, which does not qualify."""
        if before is not None and self.nodes and self.nodes[-1] is _range_of(before):
            self.nodes.pop()  # it is written in the loop's head
        if not self.has_loop:
            return
        size = sum(1 for _ in all_nodes(self.nodes))
        inputs = list(dict.fromkeys(_free_values(self.nodes)))
        inside = set(self.nodes)
        outputs = [
            value
            for node in self.nodes
            for value in node.outputs
            if any(_root(use.user, node.block) not in inside for use in value.uses)
        ]
        if size > _LARGEST or not outputs:
            reason = f"it has {size} operations" if outputs else "nothing reads what it computes"
            regions.refused.update((loop, reason) for loop in _loops_in(self.nodes))
            return
        regions.found.append(NativeRegion(self.nodes, inputs, outputs, frozenset(made_in(self.nodes)), size))


def _refusal(node: Node, letters: str) -> str:
    if OUTSIDE in letters and node.kind in CONTAINER_RULES:
        return f"{node.kind} would change or hand on a list that comes from outside"
    given = ", ".join(str(v.type) for v in node.inputs)
    return f"there is no machine code for {node.kind} of ({given})"


def _loops_in(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.kind == "prim::Loop":
            yield node
        else:
            for block in node.blocks:
                if not raises(block):
                    yield from _loops_in(list(block.nodes))


def all_nodes(nodes: list[Node]) -> Iterator[Node]:
    """The nodes, and those of their blocks that run here."""
    for node in nodes:
        yield node
        for block in node.blocks:
            if not raises(block):
                yield from all_nodes([n for n in block.nodes if n.kind != "prim::Constant"])


def made_in(nodes: list[Node]) -> set[Value]:
    """The values that nodes make."""
    made: set[Value] = set()
    for node in all_nodes(nodes):
        made.update(node.outputs, *(block.inputs for block in node.blocks))
    return made


def _free_values(nodes: list[Node]) -> Iterator[Value]:
    """The values that nodes read and that come from elsewhere."""
    made = made_in(nodes)
    for node in all_nodes(nodes):
        read = [*node.inputs]
        for block in node.blocks:
            read += [] if raises(block) else block.outputs
        length = _range_of(node)
        read += [] if length is None else length.inputs
        yield from (v for v in read if v not in made and not is_constant(v))


def _root(node: Node, block: Block | None) -> Node:
    """The node of `block` that `node` is, or is in."""
    while node.block is not block:
        assert node.block is not None and node.block.owner is not None, "the node is not in the block"
        node = node.block.owner
    return node
