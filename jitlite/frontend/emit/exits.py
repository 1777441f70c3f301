"""Early exits go: return, break and continue become data flow.

Three kinds of node leave a block before its end: `prim::LeaveTry()` leaves what the innermost `finally` protects,
`prim::LoopContinuation(condition, carried...)` the body of the innermost loop, `prim::ReturnStmt(value)` the function
(or closure). Each is removed by a walk of its own. The walk
knows, for every block, whether an exit has been taken at its end; where that is known at run time only, a bool says
so, and what follows in the block is put under an `if` on it:

    while i < 5:                         while go:
        if i == 3:                           if i == 3:
            i += 1                               i += 1
            continue                =>           go = i < 5
        i += 2                                   left = True
                                             else: left = False
                                             if not left:
                                                 i += 2
                                                 go = i < 5

Values that a path does not have are `prim::Uninitialized`: nothing reads them.

An exit from a `prim::Try` leaves it like an if. What stands in the `finally` behind it is, like the end of a `with`,
run on the way, so both are put into a `prim::With` meanwhile.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from jitlite.frontend.emit.loops import move_nodes_before
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type

FINALLY = "finally"
"""Attribute of a `prim::Try` that stands for the protected part of a `finally`, and of the node that ends the
`finally`, which raises what was caught. Gone after exits are removed."""


_LEAVE_EARLY = ("prim::Loop", "prim::Raise", "prim::RaiseException", "prim::RaiseFrom")
_WITH_BODIES = ("prim::Enter", "prim::Exit", "prim::Try")


def transform_exits(graph: Graph) -> None:
    """Remove every kind of exit from a graph without variables."""
    kinds = {node.kind for node in graph.all_nodes()}
    has_bodies = not kinds.isdisjoint(_WITH_BODIES)
    if has_bodies:
        wrap_with_bodies(graph)
    if "prim::LeaveTry" in kinds:
        remove_exits(graph, "prim::LeaveTry")
    remove_exits(graph, "prim::LoopContinuation", is_idle=kinds.isdisjoint(_LEAVE_EARLY))
    remove_exits(graph, "prim::ReturnStmt")
    merge_consecutive_ifs(graph)
    if has_bodies:
        unwrap_with_bodies(graph)


# -- the bodies of with statements
def wrap_with_bodies(graph: Graph) -> None:
    """Put the nodes between each Enter and its Exit into a block, which an exit can leave without skipping the Exit.

        %a = prim::Enter(%b)               %a = prim::Enter(%b)
        ...                                prim::With()
        %c = prim::Exit(%b)        =>        block0(): ...
                                             block1(): %c = prim::Exit(%b)

    `unwrap_with_bodies` is the inverse. Between the two, nodes after the With may use values of its block 0.
    """
    starts: list[Node] = []
    pairs: list[tuple[Node, Node]] = []
    for node in graph.all_nodes():
        if node.kind == "prim::Enter" or (node.kind == "prim::Try" and FINALLY in node.attributes):
            starts.append(node)
        elif node.kind == "prim::Exit" or FINALLY in node.attributes:
            pairs.append((starts.pop(), node))
    for start, end in pairs:  # inner ones come first
        wrapper = graph.create("prim::With", range=start.range)
        body, end_block = wrapper.add_block(), wrapper.add_block()
        if start.kind == "prim::Try":
            wrapper.insert_before(start)
            start.move_before(body.return_node)
            _move_through(wrapper.next, end, end_block)
        else:
            wrapper.insert_before(end)
            _move_through(start.next, wrapper.prev, body)
            end.move_before(end_block.return_node)


def _move_through(first: Node | None, last: Node | None, block: Block) -> None:
    """Move the nodes from `first` to `last`, of which `first` may be behind `last`, to the end of `block`."""
    if first is None or last is None or last.is_before(first):
        return
    node: Node | None = first
    while node is not None:
        following = None if node is last else node.next
        node.move_before(block.return_node)
        node = following


def unwrap_with_bodies(graph: Graph) -> None:
    """Put the nodes of every `prim::With` back where they were."""
    for node in list(graph.all_nodes()):
        node.attributes.pop(FINALLY, None)
    for node in [n for n in graph.all_nodes() if n.kind == "prim::With"]:
        for block in node.blocks:
            move_nodes_before(block, node)
        node.destroy()


def _visible_values(node: Node) -> Iterator[Value]:
    """The values that nodes after `node` may use: its outputs, and those of the nodes in a `prim::With`."""
    yield from node.outputs
    if node.kind == "prim::With":
        for block in node.blocks:
            for inner in block.nodes:
                yield from _visible_values(inner)


# -- removing one kind of exit
class _Status(enum.Enum):
    """Whether an exit has been taken at the end of a node or block."""

    WILL = enum.auto()
    MIGHT = enum.auto()
    WONT = enum.auto()
    THROWS = enum.auto()
    """It always raises. Treating it as WONT would be right too, but makes worse graphs."""


@dataclass(frozen=True)
class _Exit:
    """How a node or block ends.

    Attributes:
        taken: a bool that is true if an exit has been taken; `_ExitRemover` has one value for each known status.
        values: what the exit takes along: results of the function, or condition and carried values of the loop.
    """

    taken: Value
    values: Sequence[Value] = ()


def remove_exits(graph: Graph, kind: str, *, is_idle: bool = False) -> None:
    """Remove the nodes of `kind`, and what comes after them in their blocks.

    Block outputs of the loops, or of the function and its closures, become what the exits take along.

    Args:
        is_idle: the graph has nothing to remove. It gets the constants all the same, so that values have the numbers
            that they have in any graph.
    """
    remover = _ExitRemover(graph, kind)
    if not is_idle:
        remover.run()


_Visit = Generator[Block, _Exit, _Exit]
"""A walk that yields the blocks to visit, is sent how they end, and gives how it ends itself."""


class _ExitRemover:
    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph = graph
        self.kind = kind
        self.uninitialized: dict[Type, Value] = {}
        self.target: Block | None = None
        """The block that exits leave."""
        with graph.inserting_before(next(graph.nodes, graph.block.return_node)):
            self.true = graph.insert_constant(True)
            self.false = graph.insert_constant(False)
        self.throws = self.uninitialized_value(T.BOOL)
        self.goes_on, self.raises = _Exit(self.false), _Exit(self.throws)

    def uninitialized_value(self, type: Type) -> Value:
        """A value of `type` that nothing reads; the same for every use."""
        value = self.uninitialized.get(type)
        if value is None:
            node = self.graph.block.prepend(self.graph.create("prim::Uninitialized", (), (type,)))
            value = self.uninitialized[type] = node.output
        return value

    def uninitialized_like(self, values: Sequence[Value]) -> list[Value]:
        return [self.uninitialized_value(v.type) for v in values]

    def status(self, exit: _Exit) -> _Status:
        if exit.taken is self.true:
            return _Status.WILL
        if exit.taken is self.false:
            return _Status.WONT
        if exit.taken is self.throws:
            return _Status.THROWS
        return _Status.MIGHT

    # -- blocks
    def run(self) -> None:
        # With a stack of its own: the ifs that this adds for breaks and continues nest as deep as a body is long, and
        # the walk for returns meets them.
        visits: list[_Visit] = [self.visit(self.graph.block)]
        ends: _Exit | None = None
        while visits:
            try:
                block = next(visits[-1]) if ends is None else visits[-1].send(ends)
            except StopIteration as finished:
                visits.pop()
                ends = finished.value
            else:
                visits.append(self.visit(block))
                ends = None

    def visit(self, block: Block) -> _Visit:
        """Remove the exits in `block`; says how the block ends for the one around it."""
        outer_target = self.target
        if self._is_target(block):
            self.target = block
        exit = yield from self._visit_nodes(block)
        if self.target is block:
            self._arrive(block, exit)
            # An exit reaches its target and no further. Neither does an exception count for what is around: a loop
            # may run no round, and a closure is only defined here.
            exit = self.goes_on
        self.target = outer_target
        return exit

    def _is_target(self, block: Block) -> bool:
        owner = block.owner
        if self.kind == "prim::LeaveTry":
            return owner is not None and FINALLY in owner.attributes and block is owner.blocks[0]
        if self.kind == "prim::LoopContinuation":
            return owner is not None and owner.kind == "prim::Loop"
        return owner is None or owner.has(Trait.FUNCTION_SCOPE)

    def _visit_nodes(self, block: Block) -> _Visit:
        """Remove exits and what cannot be reached, and put what may not be reached under ifs.

        The ifs nest, each in the one before. So that no node is moved more than once, they are filled from the last
        to the first when all nodes have been seen.
        """
        guards: list[tuple[Node, _Exit]] = []
        exit = self.goes_on
        node = next(block.nodes, None)
        while node is not None:
            following = node.next
            exit = yield from self._visit_node(node)
            status = self.status(exit)
            if status in (_Status.WILL, _Status.THROWS):
                self._destroy_from(following, block)
                break
            if status is _Status.MIGHT and following is not None:
                guards.append((self._open_guard(block, exit, following), exit))
            node = following
        for guard, before in reversed(guards):
            exit = self._close_guard(block, guard, before, exit)
        return exit

    def _visit_node(self, node: Node) -> _Visit:
        if node.kind == self.kind:
            exit = _Exit(self.true, list(node.inputs))
            node.destroy()
            return exit
        if _always_raises(node):
            return self.raises
        if node.kind in ("prim::If", "prim::Try"):
            then_exit = yield node.blocks[0]
            else_exit = yield node.blocks[1]
            if FINALLY in node.attributes:  # what was caught is raised again
                else_exit = self.raises
            return self._join(node, then_exit, else_exit)
        if node.kind == "prim::Loop":
            return self._leave_loop(node, (yield node.blocks[0]))
        if node.kind == "prim::With":
            body_exit = yield node.blocks[0]
            end_exit = yield node.blocks[1]
            return self._override(node, body_exit, end_exit)
        if node.has(Trait.FUNCTION_SCOPE):
            yield node.blocks[0]
        return self.goes_on

    def _destroy_from(self, first: Node | None, block: Block) -> None:
        """Destroy the nodes from `first` to the end of `block`, which are never reached."""
        if first is None:
            return
        for node in block.reversed_nodes:
            # The block's outputs may use them still, but nobody reads those.
            for value in _visible_values(node):
                if value.has_uses:
                    value.replace_all_uses_with(self.uninitialized_value(value.type))
            node.destroy()
            if node is first:
                return

    def _arrive(self, block: Block, exit: _Exit) -> None:
        """Let the target block return the values of the exit, if that was taken."""
        status = self.status(exit)
        if not exit.values:  # of a `prim::LeaveTry`: what is read behind it is in cells
            return
        if status is _Status.MIGHT:
            choice = block.append(self.graph.create("prim::If", (exit.taken,)))
            choice.add_block()
            choice.add_block()
            self._add_if_outputs(choice, exit.values, block.outputs)
            _replace_outputs(block, choice.outputs)
        elif status is _Status.WILL:
            _replace_outputs(block, exit.values)

    # -- nodes that come after a possible exit
    def _open_guard(self, block: Block, exit: _Exit, following: Node) -> Node:
        """An if before `following` whose then block stands for the exit and gives whatever `block` would."""
        guard = self.graph.create("prim::If", (exit.taken,)).insert_before(following)
        exit_block, _ = guard.add_block(), guard.add_block()
        for value in self.uninitialized_like(block.outputs):
            exit_block.add_output(value)
        return guard

    def _close_guard(self, block: Block, guard: Node, before: _Exit, exit: _Exit) -> _Exit:
        """Move what follows `guard`, and ends with `exit`, into it. `before` is the exit that may have been taken."""
        exit_block, guarded = guard.blocks
        node = guard.next
        while node is not None:
            following = node.next
            node.move_before(guarded.return_node)
            node = following
        for value in block.outputs:
            guarded.add_output(value)
            guard.add_output(value.type)
        _replace_outputs(block, guard.outputs)
        if block.owner is not None and block.owner.kind == "prim::With":
            self._export_values(guard, exit_block, guarded)
        return self._join(guard, _Exit(self.true, before.values), exit)

    def _export_values(self, guard: Node, exit_block: Block, guarded: Block) -> None:
        """Add outputs for values of the guarded block that are used behind it: a with body is no scope."""
        for node in guarded.nodes:
            for value in _visible_values(node):
                outside = [use for use in value.uses if not use.user.is_inside(guarded)]
                if outside:
                    exit_block.add_output(self.uninitialized_value(value.type))
                    guarded.add_output(value)
                    output = guard.add_output(value.type)
                    for use in outside:
                        use.user.replace_input(use.offset, output)

    # -- control flow nodes
    def _join(self, node: Node, then_exit: _Exit, else_exit: _Exit) -> _Exit:
        """How an if whose blocks end with these exits ends; it gets outputs for what the exits take along."""
        then_status, else_status = self.status(then_exit), self.status(else_exit)
        status = _join_statuses(then_status, else_status)
        if status is _Status.THROWS:
            return self.raises
        if status is _Status.WONT:
            return self.goes_on
        if then_status in (_Status.WONT, _Status.THROWS):
            then_exit = _Exit(then_exit.taken, self.uninitialized_like(else_exit.values))
        elif else_status in (_Status.WONT, _Status.THROWS):
            else_exit = _Exit(else_exit.taken, self.uninitialized_like(then_exit.values))
        taken = self.true
        if status is _Status.MIGHT:
            (taken,) = self._add_if_outputs(node, [then_exit.taken], [else_exit.taken])
        return _Exit(taken, self._add_if_outputs(node, then_exit.values, else_exit.values))

    def _override(self, node: Node, body: _Exit, end: _Exit) -> _Exit:
        """How a `prim::With` ends: an exit that its second block takes is taken instead of that of the first."""
        status = self.status(end)
        if status is _Status.WONT:
            return body
        if status is not _Status.MIGHT or self.status(body) in (_Status.WONT, _Status.THROWS):
            return end
        choice = self.graph.create("prim::If", (end.taken,)).insert_after(node)
        choice.add_block()
        choice.add_block()
        taken, *values = self._add_if_outputs(choice, [self.true, *end.values], [body.taken, *body.values])
        return _Exit(self.true if self.status(body) is _Status.WILL else taken, values)

    def _add_if_outputs(self, node: Node, then_values: Sequence[Value], else_values: Sequence[Value]) -> list[Value]:
        then_block, else_block = node.blocks
        outputs = []
        for then_value, else_value in zip(then_values, else_values, strict=True):
            then_block.add_output(then_value)
            else_block.add_output(else_value)
            unified = T.unify(then_value.type, else_value.type, default_to_union=True)
            assert unified is not None
            outputs.append(node.add_output(unified))
        return outputs

    def _leave_loop(self, loop: Node, exit: _Exit) -> _Exit:
        """How a loop ends whose body ends with `exit`; it gets outputs for what the exit takes along."""
        (body,) = loop.blocks
        if self.status(exit) in (_Status.WONT, _Status.THROWS):  # there may be no round: the loop itself never throws
            return self.goes_on

        # An exit out of the loop ends the loop.
        condition = body.append(self.graph.create("prim::If", (exit.taken,), (T.BOOL,)))
        condition.add_block().add_output(self.false)
        condition.add_block().add_output(body.outputs[0])
        body.replace_output(0, condition.output)

        # Whether there was one, and what it takes along, is carried out of the loop.
        def carry(start: Value, value: Value) -> Value:
            loop.add_input(start)
            body.add_input(value.type)
            body.add_output(value)
            return loop.add_output(value.type)

        taken = carry(self.false, exit.taken)
        return _Exit(taken, [carry(self.uninitialized_value(v.type), v) for v in exit.values])


def _always_raises(node: Node) -> bool:
    if node.kind == "prim::Raise":
        return node.input.type is T.EXCEPTION
    return node.kind in ("prim::RaiseException", "prim::RaiseFrom")


def _join_statuses(then_status: _Status, else_status: _Status) -> _Status:
    if then_status is _Status.THROWS:
        return else_status
    if else_status is _Status.THROWS or then_status is else_status:
        return then_status
    return _Status.MIGHT


def _replace_outputs(block: Block, values: Sequence[Value]) -> None:
    replacements = list(values)
    block.return_node.remove_all_inputs()
    for value in replacements:
        block.add_output(value)


# -- what removing returns leaves behind
def merge_consecutive_ifs(graph: Graph) -> None:
    """Merge an if with the next one where the branch taken in the first decides the second.

    if x: r, left = 1, True              if x:
    else: left = False                       r = 1
    if left: pass                =>      else:
    else: r = 2                              r = 2
    """
    pending = [graph.block]
    while pending:
        for node in pending.pop().nodes:
            if node.kind == "prim::If":
                while _merge_with_next(node):
                    pass
            pending += node.blocks


def _merge_with_next(first: Node) -> bool:
    second = first.next
    if second is None or second.kind != "prim::If" or second.input.node is not first:
        return False
    conditions = [constant_of(block.outputs[second.input.offset], None) for block in first.blocks]
    if None in conditions or bool(conditions[0]) == bool(conditions[1]):
        return False  # if both are the same, constant propagation removes the second

    _move_decided(first, second, conditions)
    return True


def _move_decided(first: Node, second: Node, conditions: Sequence[object]) -> None:
    """Move what `second` does into the blocks of `first`, at whose ends its condition is known."""
    old_outputs = list(first.outputs)
    for block, condition in zip(first.blocks, conditions, strict=True):
        decided = second.blocks[0 if condition else 1]
        move_nodes_before(decided, block.return_node)
        for value in decided.outputs:
            block.add_output(value)
    _use_outputs_of_blocks(first, old_outputs)
    for output in second.outputs:
        output.replace_all_uses_with(first.add_output().copy_metadata(output))
    second.destroy()


def _use_outputs_of_blocks(node: Node, outputs: Sequence[Value]) -> None:
    """What has moved into an if can use no output of it: it uses what its block gives."""
    for offset, output in enumerate(outputs):
        for use in output.uses:
            block_within = _block_within(node, use.user)
            if block_within is not None:
                use.user.replace_input(use.offset, block_within.outputs[offset])


def _block_within(outer: Node, inner: Node) -> Block | None:
    """The block of `outer` that holds `inner`, at any depth."""
    block = inner.block
    while block is not None and block is not outer.block:
        owner = block.owner
        if owner is outer:
            return block
        block = owner.block if owner is not None else None
    return None
