"""Which parts of a graph are tensor regions, and why others are not.

A region is a run of neighbouring nodes with a rule (`table.RULES`, and those of `native/` for numbers and lists), loops
and branches included, that computes with tensors. Of dtypes and shapes nothing is known here: for those of a call a
kernel is made or not.

Only memory that the region makes is written. A view that leaves a region is made behind it, in Python, of the tensor
that the region gives: it is a view then, as it should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitlite.ir import types as T
from jitlite.ir.analysis import ancestor_in
from jitlite.ir.graph import Block, Graph, Node, Use, Value, constant_of, is_constant
from jitlite.ir.ops import Effect
from jitlite.ir.regions import Region
from jitlite.kernels.table import (
    MAY_COPY,
    RULES,
    VIEWS,
    WRITES,
    holds_tensors,
    is_dtype_argument,
    is_tensor_node,
    takes_sizes,
)
from jitlite.native.code import NotNative
from jitlite.native.layout import SCALARS
from jitlite.native.regions import NativeRun, all_nodes, is_left, raises
from jitlite.operators.aliasing_ops import unmarked_writes
from jitlite.passes.form_regions import outputs_of

LARGEST = 400
"""Nodes in a region: to compile more takes too long."""

LEAST = 2
"""Operators on tensors, views left out, that a region has to have that has no loop and is not all of its function."""

_KNOWN_LISTS = frozenset({"prim::ListConstruct"})


class TensorRun(NativeRun):
    """Nodes that qualify, one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self._own: set[Value] = set()
        """The tensors whose memory the run has made, and nobody else knows."""
        self._writes = False
        self._appends = False

    # -- which nodes qualify
    def add(self, nodes: Sequence[Node]) -> str | None:
        if any(node.kind == "prim::Loop" and not _has_tensors(node) and not _looks_at_sizes(node) for node in nodes):
            return "a loop over numbers is a region of its own"
        if self._nodes and nodes[0].kind == "prim::GetAttr" and nodes[0].input not in self._known:
            nodes[0].move_before(self._nodes[0])  # nothing in the run sets an attribute
            return None
        return super().add(nodes)

    def _check(self, node: Node) -> None:
        if node.kind in ("prim::If", "prim::Loop", "prim::TupleUnpack", "prim::Uninitialized"):
            if node.kind in ("prim::TupleUnpack", "prim::Uninitialized") and is_tensor_node(node):
                raise NotNative(f"there is no kernel for {node.kind} of tensors")
            if node.kind == "prim::If" and all(map(raises, node.blocks)):
                raise NotNative("either branch raises or warns")
            super()._check(node)
        elif is_tensor_node(node) or _takes_number(node) or takes_sizes(node):
            self._check_tensors(node)
            self._known.update(node.outputs)
        else:
            super()._check(node)

    def _check_tensors(self, node: Node) -> None:
        reason = _list_fault(node) if node.kind in _KNOWN_LISTS else _operator_fault(node)
        if reason is not None:
            raise NotNative(reason)
        for value in node.inputs:
            self._check_operand(node, value)
        self._writes = self._writes or node.kind in WRITES
        self._appends = self._appends or node.kind == "aten::append"
        if self._writes and self._appends:
            raise NotNative("a list of tensors grows where tensors are written")
        self._note_own(node)

    def _note_own(self, node: Node) -> None:
        """Know of what the region makes. It writes nothing else."""
        if node.kind in WRITES:
            if node.inputs[0] not in self._own:
                raise NotNative(f"{node.kind} writes a tensor that the region has not made")
            self._own.update(node.outputs)
        elif node.kind in _KNOWN_LISTS:
            if self._own.issuperset(node.inputs):
                self._own.add(node.output)
        elif node.kind not in VIEWS or (node.inputs and node.inputs[0] in self._own):
            self._own.update(v for v in node.outputs if holds_tensors(v.type))

    def _check_operand(self, node: Node, value: Value) -> None:
        if value in self._known:
            return
        if is_constant(value):
            return
        inner = T.without_none(value.type)
        if not isinstance(inner, T.TensorType) and inner not in SCALARS:
            raise NotNative(f"%{value.name} : {value.type} comes from outside")

    def _held(self, value: Value) -> None:
        if not holds_tensors(value.type):
            super()._held(value)
        elif not isinstance(value.type, T.TensorType) or is_constant(value):
            raise NotNative(f"%{value.name} : {value.type} is handed on")

    def _check_storage(self, values: Sequence[Value]) -> None:
        for value in values:
            if not isinstance(value.type, T.TensorType):
                super()._check_storage([value])

    # -- what becomes of them
    def finish(self) -> Sequence[Node]:
        nodes = self._without_views(self._trimmed(self._nodes))
        if not nodes:
            return ()
        reason = _too_little(nodes) or _wrong_outputs(outputs_of(nodes))
        if reason is None:
            return nodes
        self._refused = dict.fromkeys((n for n in nodes if is_tensor_node(n)), reason)
        return ()

    def _trimmed(self, nodes: Sequence[Node]) -> list[Node]:
        """Without what computes with numbers before the first operator on tensors, but for lists that these take."""
        first = next((i for i, node in enumerate(nodes) if _has_tensors(node)), len(nodes))
        kept = set(nodes[first:])
        lists = [i for i, node in enumerate(nodes[:first]) if node.kind in _KNOWN_LISTS and _is_read_in(node, kept)]
        return list(nodes[min([first, *lists]) :])

    def _without_views(self, nodes: list[Node]) -> list[Node]:
        """The nodes, after views that are read elsewhere have been put behind them."""
        if not nodes:
            return nodes
        writes = any(map(_may_write, all_nodes(nodes)))
        block = nodes[0].block
        assert block is not None
        kept = list(nodes)
        same: set[Value] = set()
        """What an operator that stays may give, the very object."""
        for node in reversed(nodes):
            if node.kind not in VIEWS:
                continue
            outside = _uses_outside(node, block, set(kept))
            if not same.isdisjoint(node.outputs) or (outside and writes and node.kind in MAY_COPY):
                same.update(node.inputs)
                continue
            if outside and node is kept[-1] and len(outside) == sum(v.use_count for v in node.outputs):
                kept.pop()  # it stands behind the others as it is
            elif outside:
                _read_copy(node, outside, kept[-1])  # and stays as well: what it raises is raised before what follows
        return kept


def _may_write(node: Node) -> bool:
    """May a node write a tensor, as normalizations do to their running statistics while they train?"""
    return node.kind in WRITES or (node.op is not None and any(unmarked_writes(node, node.op)))


def _list_fault(node: Node) -> str | None:
    """Why a display of tensors does not qualify."""
    if not all(use.user.kind in RULES for use in node.output.uses):
        return "a list of tensors is more than given to operators"
    grows = any(use.user.kind == "aten::append" for use in node.output.uses)
    return "a list of tensors that is not empty at first grows" if grows and node.inputs else None


def _operator_fault(node: Node) -> str | None:
    """Why an operator on tensors does not qualify, whatever its operands are."""
    if node.kind not in RULES:
        return f"there is no kernel for {node.kind}"
    if node.kind not in WRITES and _writes_argument(node):
        return f"{node.kind} puts its result into a tensor that it is given"
    if draws_numbers(node):
        return f"{node.kind} draws random numbers"
    if node.kind == "prim::dtype" and not all(map(is_dtype_argument, node.output.uses)):
        return "a dtype, which is an object in Python, is more than an argument"
    sizes = [v for v in node.outputs if isinstance(v.type, T.ListType) and not holds_tensors(v.type)]
    read = all(_reads_sizes(use.user) or is_left(use.user) for v in sizes for use in v.uses)
    return None if read else "a list of sizes is more than given to operators"


def _writes_argument(node: Node) -> bool:
    """Does its schema say that it writes a tensor?"""
    arguments = () if node.op is None else node.op.schema.arguments
    return any(a.is_write and isinstance(T.without_none(a.type), T.TensorType) for a in arguments)


def draws_numbers(node: Node) -> bool:
    """May an operator draw random numbers? Dropout that does not train does not."""
    op = node.op
    if op is None or op.effect is not Effect.RANDOM:
        return False
    for name, off in (("train", False), ("training", False), ("dropout_p", 0.0)):
        index = op.schema.argument_index(name)
        if index is not None and constant_of(node.inputs[index], None) == off:
            return False
    return True


def _too_little(nodes: list[Node]) -> str | None:
    """Why nodes are not worth a region, or too many for one."""
    inner = list(all_nodes(nodes))
    computing = sum(is_tensor_node(n) and n.kind not in VIEWS and not n.blocks for n in inner)
    if computing < (1 if any(n.kind == "prim::Loop" for n in inner) or _are_all(nodes) else LEAST):
        return "there are too few operators on tensors beside it"
    return f"the region would have {len(inner)} operations" if len(inner) > LARGEST else None


def _are_all(nodes: Sequence[Node]) -> bool:
    """Are the nodes all that their function does? A call of it then is a call of the kernel, without Python."""
    if nodes[0].block is not nodes[0].graph.block:
        return False
    before, behind = nodes[0].prev, nodes[-1].next
    while before is not None and before.kind == "prim::Constant":
        before = before.prev
    while behind is not None and behind.kind == "prim::Constant":
        behind = behind.next
    return before is None and behind is None


def _wrong_outputs(outputs: Sequence[Value]) -> str | None:
    if not outputs:
        return "nothing reads what it computes"
    return None if all(map(_may_leave, outputs)) else "what it gives is held in another way outside"


def _uses_outside(node: Node, block: Block, within: set[Node]) -> list[Use]:
    """The uses of what a node gives that are elsewhere."""
    return [use for v in node.outputs for use in v.uses if ancestor_in(use.user, block) not in within]


def _read_copy(node: Node, uses: Iterable[Use], last: Node) -> None:
    """Have uses of the results of a node read those of a copy of it, behind another node."""
    copied = node.graph.clone_node(node, {v: v for v in node.inputs})
    copied.insert_after(last)
    places = [(use, node.outputs.index(use.user.inputs[use.offset])) for use in uses]
    for use, offset in places:
        use.user.replace_input(use.offset, copied.outputs[offset])


def _has_tensors(node: Node) -> bool:
    return is_tensor_node(node) or any(_block_has_tensors(block) for block in node.blocks)


def _block_has_tensors(block: Block) -> bool:
    return not raises(block) and any(map(_has_tensors, block.nodes))


def _looks_at_sizes(loop: Node) -> bool:
    """Does a loop over numbers read the sizes of tensors, of which a kernel knows all?"""
    read = [v for node in all_nodes([loop]) for v in node.inputs]
    return any(isinstance(v.type, T.ListType) and v.node.kind in RULES for v in read)


def _takes_number(node: Node) -> bool:
    """Does it take a number of any type, as `item` gives it?"""
    return node.kind in RULES and any(v.type is T.NUMBER for v in node.inputs)


def _is_read_in(node: Node, others: set[Node]) -> bool:
    block = node.block
    return block is not None and any(ancestor_in(use.user, block) in others for v in node.outputs for use in v.uses)


def _reads_sizes(node: Node) -> bool:
    """Does a node with a rule take a list whose elements are known?"""
    known = node.kind in ("aten::len", "aten::__getitem__") or takes_sizes(node)
    return known or (node.kind in RULES and is_tensor_node(node))


def _may_leave(value: Value) -> bool:
    return isinstance(value.type, T.TensorType) or (not holds_tensors(value.type) and value.type is not T.NUMBER)


def give_own_lists(graph: Graph) -> None:
    """Have each operator read a list of its own where several read one, or where it is made in another block.

    A region knows the elements of a list only if it makes it. Nobody can tell: operators only look at the elements.
    """
    for node in [n for n in graph.all_nodes() if n.kind in _KNOWN_LISTS]:
        uses = node.output.uses
        is_at_hand = len(uses) == 1 and uses[0].user.block is node.block
        if is_at_hand or not all(_only_looks(use.user) for use in uses):
            continue
        for use in uses:
            own = graph.clone_node(node, {v: v for v in node.inputs}).insert_before(use.user)
            use.user.replace_input(use.offset, own.output)
        node.destroy()


def _only_looks(node: Node) -> bool:
    return takes_sizes(node) or (node.kind in RULES and is_tensor_node(node) and node.kind != "aten::append")


def fault_of(region: Region) -> str | None:
    """Why a region, which anybody may have made, is none that could be made of such a run."""
    run = TensorRun()
    try:
        for node in region.body.computations:
            run._check(node)
    except NotNative as reason:
        return str(reason)
    if not region.results:
        return "it has no results"
    if not all(map(_may_leave, region.results)):
        return "a result is held in another way outside"
    if [v.type for v in region.results] != [v.type for v in region.outputs]:
        return "its outputs are not of the types of its results"
    size = sum(1 for _ in all_nodes(list(region.body.computations)))
    return None if size <= LARGEST else f"it has {size} operations"


def may_have_regions(graph: Graph) -> bool:
    """A quick look: are there operators on tensors with a rule?"""
    return any(node.kind in RULES and is_tensor_node(node) for node in graph.all_nodes())
