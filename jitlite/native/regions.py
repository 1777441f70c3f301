"""Which parts of a graph can be machine code, and why others cannot.

A region is a run of neighbouring nodes of a block, as long as possible, that has a loop in it. Whether a node qualifies
depends on what stands before it in the run: a list that the run makes may be written, one from outside only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Node, Value, constant_of, is_constant
from jitlite.ir.regions import Region
from jitlite.ir.traits import Trait
from jitlite.native.code import NotNative
from jitlite.native.containers import CONTAINER_RULES, DISPLAYS, Rule
from jitlite.native.layout import OUTSIDE, SCALARS, letter_of, literal, storage
from jitlite.native.rules import SCALAR_RULES, Emit
from jitlite.operators.prims import OVER_RANGE
from jitlite.passes.form_regions import outputs_of

_LARGEST = 2000
"""Nodes in a region: to compile more takes seconds."""

_UNSET = "prim::Uninitialized"


class NativeRegion(Record, frozen=False):
    """Nodes that can be machine code.

    Attributes:
        nodes: the nodes of a region, constants between them left out.
        inputs: what the region is given.
        outputs: the values that it gives.
        made: all values that are made here; a list that is not is one from outside.
        read: the inputs that are read where machine code runs, and not only where the region raises.
        size: the number of nodes, those in inner blocks counted.
    """

    nodes: list[Node]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    made: frozenset[Value]
    read: frozenset[Value]
    size: int

    @classmethod
    def of(cls, region: Region) -> NativeRegion:
        """A region of a graph, which may not be changed any more."""
        return cls.of_block(region.body)

    @classmethod
    def of_block(cls, block: Block) -> NativeRegion:
        """The body of a region, or a whole graph."""
        nodes = list(block.computations)
        size = sum(1 for _ in all_nodes(nodes))
        read = frozenset((*_free_values(nodes), *block.outputs))
        return cls(nodes, block.inputs, block.outputs, frozenset(made_in(nodes)), read, size)

    @property
    def loops(self) -> list[Node]:
        """The loops that are in no other loop."""
        return list(_loops_in(self.nodes))


def _may_leave_loop(node: Node) -> bool:
    """Is it the If at the end of an inner block that may say whether a loop goes on? Python has it break out."""
    block = node.block
    if node.kind != "prim::If" or block is None or block.owner is None:
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
    """Does the block raise or warn, whatever else it does? Machine code bails out then, and Python does that."""
    return any(node.has(Trait.RAISES_OR_WARNS) and node.has(Trait.IS_STATEMENT) for node in block.nodes)


def is_left(node: Node) -> bool:
    """Is a node in a block that machine code bails out of?"""
    block = node.block
    while block is not None and block.owner is not None:
        if raises(block):
            return True
        block = block.owner.block
    return False


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


class NativeRun:
    """Nodes that qualify, one behind the other."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._known: set[Value] = set()
        """What the run has computed."""
        self._has_loop = False
        self._refused: dict[Node, str] = {}

    # -- which nodes qualify
    def add(self, nodes: Sequence[Node]) -> str | None:
        """Take nodes in, all or none; gives why they do not qualify, or not behind what is there."""
        if any(map(_may_leave_loop, nodes)):
            return "it may leave the loop that it is in"
        try:
            for node in nodes:
                self._check(node)
        except NotNative as reason:
            return str(reason)
        self._nodes += nodes
        self._has_loop = self._has_loop or any(True for _ in _loops_in(nodes))
        return None

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
            if length is not None and node.inputs[0] not in self._known:
                raise NotNative("the range that a loop goes over is computed elsewhere")
            self._check_storage(node.blocks[0].inputs)
            self._known.update(node.blocks[0].inputs)
            if raises(node.blocks[0]):
                raise NotNative("each iteration raises or warns")
            self._check_block(node.blocks[0])
        elif node.kind == "prim::TupleUnpack":
            self._held(node.input)
        elif node.kind != _UNSET:
            letters = "".join(map(self._letter, node.inputs))
            if scalar_rule(node, letters) is None and container_rule(node, letters) is None:
                raise NotNative(_refusal(node, letters))
        self._check_storage(node.outputs)
        self._known.update(node.outputs)

    def _check_storage(self, values: Sequence[Value]) -> None:
        for value in values:
            if storage(value.type) is None:
                raise NotNative(f"a value of type {value.type} is none of machine code's")

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
        if value in self._known:
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

    def fault_of(self, region: Region) -> str | None:
        """Why a region, which anybody may have made, is none that could be made of such a run."""
        nodes = list(region.body.computations)
        try:
            for node in nodes:
                self._check(node)
            for result in region.results:
                self._held(result)
        except NotNative as reason:
            return str(reason)
        if not region.results:
            return "it has no results"
        if [v.type for v in region.results] != [v.type for v in region.outputs]:
            return "its outputs are not of the types of its results"
        size = sum(1 for _ in all_nodes(nodes))
        return None if size <= _LARGEST else f"it has {size} operations"

    # -- what becomes of them
    def finish(self) -> Sequence[Node]:
        """The nodes, if they are worth a region."""
        if not self._has_loop:
            return ()
        size = sum(1 for _ in all_nodes(self._nodes))
        has_outputs = bool(outputs_of(self._nodes))
        if size <= _LARGEST and has_outputs:
            return self._nodes
        reason = f"it has {size} operations" if has_outputs else "nothing reads what it computes"
        self._refused = dict.fromkeys(_loops_in(self._nodes), reason)
        return ()

    def refused(self) -> dict[Node, str]:
        """The loops that qualify and yet are in no region."""
        return self._refused


def _refusal(node: Node, letters: str) -> str:
    if OUTSIDE in letters and node.kind in CONTAINER_RULES:
        return f"{node.kind} would change or hand on a list that comes from outside"
    given = ", ".join(str(v.type) for v in node.inputs)
    return f"there is no machine code for {node.kind} of ({given})"


def _loops_in(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.kind == "prim::Loop":
            yield node
        else:
            for block in node.blocks:
                if not raises(block):
                    yield from _loops_in(list(block.nodes))


def all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
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
