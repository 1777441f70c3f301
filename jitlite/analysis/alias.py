"""Alias analysis: which values may share memory, who writes it, what may be moved past what.

A *location* is one bit of an int; a set of locations is an int. Every node that makes an object gives it a location of
its own. A value has the locations it *may be or be a view of*; a tuple, Optional or Union has those of what is in it.
What a list, dict or object may hold are all locations that ever went into one: the *heap*. The caller's objects,
one location for each kind of object, are on the heap from the beginning.

    %a = aten::relu(%x)            %a: {new}          %x: {the caller's tensors}
    %v = aten::t(%a)               %v: {new, and those of %a}
    %_ = aten::append(%l, %v)      the heap gets those of %v; writes those of %l
    %w = aten::__getitem__(%l, 0)  %w: those of the heap that are tensors

Two lists of different element types may be one object (an empty one), so types tell apart no more than tensors, lists,
dicts and other objects. A list that is only read by operators that keep no part of it is *private*: what is in it is
known, and need not go to the heap.

Unknown operators and calls write everything they can reach. All is solved in a few rounds over the graph, so the time
is linear in the size of the graph times the number of locations in machine words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from jitlite.analysis import effects
from jitlite.analysis.memory_kinds import contained_kinds, kinds_of, reachable_kinds
from jitlite.analysis.points_to import Locations, PointsTo
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Use, Value
from jitlite.ir.ops import Effect, Op
from jitlite.ir.regions import Region
from jitlite.ir.schema import Argument
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.operators.aliasing_ops import (
    has_variables,
    is_open,
    observes_identity,
    only_makes,
    results_may_be_inputs,
    unmarked_writes,
)


class AliasDb(PointsTo):
    """What may alias what in `graph` as it is now.

    Values made after the analysis are unknown to it and may alias anything. A pass that replaces values must say so
    with `merged`.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._read_cache: dict[Node, Locations] = {}
        self._write_cache: dict[Node, Locations] = {}
        self._graph = graph
        for value in graph.inputs:
            self._from_outside(value)
        self._analyze_block(graph.block)
        self._everything = self._next_location - 1
        self._solve()
        for node in self._writes:
            self._written |= self.writes(node)
        self._escaped = self._heap
        for value in (*graph.outputs, *self._observed):
            self._escaped |= self.reachable(value)

    # -- questions about nodes

    def writes(self, node: Node) -> Locations:
        """What the node, or one in it, may write."""
        found = self._write_cache.get(node)
        if found is None:
            found = 0
            for value, deep in self._writes.get(node, ()):
                found |= self._heap if value is None else self.reachable(value) if deep else self.locations(value)
            for block in node.blocks:
                for inner in block.nodes:
                    found |= self.writes(inner)
            self._write_cache[node] = found
        return found

    def reads(self, node: Node) -> Locations:
        """What the node, or one in it, may read: everything reachable from its inputs."""
        found = self._read_cache.get(node)
        if found is None:
            found = self.all_reachable(node.inputs)
            for block in node.blocks:
                for inner in block.nodes:
                    found |= self.reads(inner)
                found |= self.all_reachable(block.outputs)
            self._read_cache[node] = found
        return found

    def writes_visibly(self, node: Node) -> bool:
        """May somebody outside of the graph see what the node writes?"""
        return bool(self.writes(node) & self._escaped)

    # -- moving

    def can_move_after(self, node: Node, target: Node, *, errors_may_swap: bool = False) -> bool:
        """May `node` run right after `target` (later in its block), with the nodes between that must follow it?"""
        return self._group(node, target, True, errors_may_swap) is not None

    def can_move_before(self, node: Node, target: Node, *, errors_may_swap: bool = False) -> bool:
        """May `node` run right before `target` (earlier in its block), with the nodes between that must precede it?"""
        return self._group(node, target, False, errors_may_swap) is not None

    def move_after(self, node: Node, target: Node, *, errors_may_swap: bool = False) -> bool:
        """Move `node`, and what must come along, right after `target` if that is allowed."""
        group = self._group(node, target, True, errors_may_swap)
        for moved in reversed(group or ()):
            moved.move_after(target)
        return group is not None

    def move_before(self, node: Node, target: Node, *, errors_may_swap: bool = False) -> bool:
        """Move `node`, and what must come along, right before `target` if that is allowed."""
        group = self._group(node, target, False, errors_may_swap)
        for moved in reversed(group or ()):
            moved.move_before(target)
        return group is not None

    def may_swap(self, first: Node, second: Node) -> bool:
        """May `second`, which runs after `first` in the same block, run before it?"""
        return not self._are_ordered(second, first, True, False)

    def _group(self, node: Node, target: Node, forward: bool, errors_may_swap: bool) -> list[Node] | None:
        """The nodes to move, nearest to the target last; None where they may not. `errors_may_swap`: of two nodes that
        would both raise, it may be the other one that does."""
        if node.block is not target.block or node.is_before(target) is not forward:
            return None
        group, step = [node], node.next if forward else node.prev
        while step is not None:
            if any(self._are_ordered(step, member, forward, errors_may_swap) for member in group):
                if step is target:
                    return None
                group.append(step)
            if step is target:
                return group
            step = step.next if forward else step.prev
        return None

    def _are_ordered(self, passed: Node, member: Node, forward: bool, errors_may_swap: bool) -> bool:
        first, second = (member, passed) if forward else (passed, member)
        return (
            _uses_outputs(second, first)
            or bool(self.writes(first) & (self.reads(second) | self.writes(second)))
            or bool(self.reads(first) & self.writes(second))
            or self._are_seen_in_order(first, second, errors_may_swap)
        )

    def _are_seen_in_order(self, a: Node, b: Node, errors_may_swap: bool) -> bool:
        if a.kind == "prim::Constant" or b.kind == "prim::Constant":
            return False
        if _does(a, Effect.SIDE) or _does(b, Effect.SIDE):
            return True
        random_a, random_b = _does(a, Effect.RANDOM), _does(b, Effect.RANDOM)
        if random_a and random_b:
            return True
        return self._are_errors_in_order(a, b, random_a, random_b, errors_may_swap)

    def _are_errors_in_order(self, a: Node, b: Node, random_a: bool, random_b: bool, errors_may_swap: bool) -> bool:
        """Does it show, where one of the nodes raises, which of them runs first?"""
        raises_a, raises_b = effects.may_raise(a), effects.may_raise(b)
        if not raises_a and not raises_b:
            return False
        caught = effects.is_protected(a)
        if raises_a and raises_b and (caught or not errors_may_swap):
            return True
        if raises_a and (random_b or self._is_seen(b, caught)):
            return True
        return raises_b and (random_a or self._is_seen(a, caught))

    def _is_seen(self, node: Node, caught: bool) -> bool:
        """May somebody see what the node writes when the next one raises? With `caught`, who handles that may.

        What the graph only returns is not seen then.
        """
        return bool(self.writes(node) & (self._everything if caught else self._heap))

    def must_precede(self, first: Node, second: Node, *, errors_may_swap: bool = False) -> bool:
        """Must `first`, which runs before `second` in the same block, go on doing so?"""
        return self._are_ordered(second, first, True, errors_may_swap)

    # -- nodes

    def _analyze_block(self, block: Block) -> None:
        for node in block.nodes:
            if node.kind == "prim::Constant":
                self._analyze_constant(node)
                continue
            analyze = _BY_KIND.get(node.kind)
            if analyze is not None:
                analyze(self, node)
            else:
                self._analyze_operator(node)
            if not node.has(Trait.TAKES_UNSEEN) and observes_identity(node):
                self._observed += [v for v in node.inputs if kinds_of(v.type)]

    def _analyze_if(self, node: Node) -> None:
        for block in node.blocks:
            self._analyze_block(block)
        for position, output in enumerate(node.outputs):
            self._flow(output, [block.outputs[position] for block in node.blocks])

    def _analyze_loop(self, node: Node) -> None:
        loop = Loop(node)
        for start, parameter, following, _ in loop.carried:
            self._flow(parameter, (start, following))
        self._analyze_block(loop.body)
        for start, _, following, output in loop.carried:
            self._flow(output, (start, following))

    def _analyze_region(self, node: Node) -> None:
        region = Region(node)
        for given, parameter in zip(region.inputs, region.parameters, strict=True):
            self._flow(parameter, (given,))
        self._analyze_block(region.body)
        for result, output in zip(region.results, region.outputs, strict=True):
            self._flow(output, (result,))

    def _analyze_constant(self, node: Node) -> None:
        if kinds_of(node.output.type):
            self._make(node.output)
            self._from_outside(node.output)  # it may be an object of the surroundings

    def _analyze_same(self, node: Node) -> None:
        """Each output is made of inputs and is no object of its own."""
        for output in node.outputs:
            self._flow(output, node.inputs)

    def _analyze_container(self, node: Node) -> None:
        self._make(node.output)
        container = node.output
        if container in self._own and all(self._keeps_nothing(use) for use in container.uses):
            elements = tuple(node.inputs)  # as they are now: passes replace inputs
            self._private[container] = elements
            self._private_locations[self._own[container]] = elements
            self._private_mask |= self._own[container]
        else:
            self._escape(node.inputs)

    def _keeps_nothing(self, use: Use) -> bool:
        if use.user.kind == "prim::Return":
            return use.user.block is self._graph.block
        return keeps_nothing(use)

    def _analyze_item(self, node: Node) -> None:
        """Elements read from a container."""
        held = self._private.get(node.inputs[0], (None,))
        default = node.inputs[2:]  # of `get`
        for output in node.outputs:
            self._flow(output, (*held, *default))

    def _analyze_set_attribute(self, node: Node) -> None:
        self._write(node, node.inputs[0])
        self._escape(node.inputs[1:])

    def _analyze_nothing(self, node: Node) -> None:
        for output in node.outputs:
            self._points.setdefault(output, 0)

    def _analyze_views(self, node: Node) -> None:
        for output in node.outputs:
            self._make(output)
            self._flow(output, node.inputs)

    def _analyze_new(self, node: Node) -> None:
        for output in node.outputs:
            self._make(output)

    def _analyze_unknown(self, node: Node) -> None:
        """It may write all it can reach unless it says otherwise, keep its inputs, and give anything."""
        if not effects.writes_nothing(node):
            self._write(node, None)
            for value in node.inputs:
                self._write(node, value, deep=True)
        self._escape(node.inputs)
        for output in node.outputs:
            self._make(output)
            self._flow(output, (None,))
        self._escape(node.outputs)
        for block in node.blocks:
            for parameter in block.inputs:
                self._flow(parameter, (None,))
            self._analyze_block(block)
            self._escape(block.outputs)

    def _analyze_operator(self, node: Node) -> None:
        resolved = node.op
        has_code = bool(node.blocks) or "Subgraph" in node.attributes
        if resolved is not None and _is_plain(resolved) and not has_code:
            self._analyze_new(node)
        elif _is_item_read(node):
            self._analyze_item(node)
        elif resolved is None or has_code or _is_without_marks(node, resolved):
            self._analyze_unknown(node)
        elif resolved.effect is Effect.SIDE:
            self._analyze_new(node)
        else:
            self._analyze_schema(node, resolved)

    def _analyze_schema(self, node: Node, resolved: Op) -> None:
        bound: dict[str, list[Value]] = {}
        for argument, value in zip(resolved.schema.arguments, node.inputs, strict=False):
            for info, deep in ((argument.alias, False), (argument.element_alias, True)):
                if info is None:
                    continue
                for name in info.before:
                    bound.setdefault(name, []).append(value)
                if info.is_write:
                    self._write(node, value, deep)
                if "*" in info.after:
                    self._escape((value,))
        for value in unmarked_writes(node, resolved):
            self._write(node, value)
        self._analyze_leaks(node, resolved)
        for result, output in zip(resolved.schema.returns, node.outputs, strict=False):
            self._analyze_result(node, resolved, result, output, bound)

    def _analyze_leaks(self, node: Node, resolved: Op) -> None:
        """Inputs that may end up in a container or be a result, although no mark says so."""
        gives = any(reachable_kinds(o.type) for o in node.outputs)
        if results_may_be_inputs(resolved) and gives:
            self._escape(node.inputs)
        elif has_variables(resolved) and (gives or node in self._writes):
            pairs = zip(resolved.schema.arguments, node.inputs, strict=False)
            self._escape(value for argument, value in pairs if is_open(argument.declared_type))

    def _analyze_result(
        self, node: Node, resolved: Op, result: Argument, output: Value, bound: dict[str, list[Value]]
    ) -> None:
        info = result.alias
        if result.element_alias:
            self._escape(v for name in result.element_alias.before for v in bound.get(name, ()))
        sources = [] if info is None else [v for name in info.before for v in bound.get(name, ())]
        if info is not None and "*" in info.before:
            self._flow(output, (None,))
            return
        if info is not None and info.is_write and sources:  # the written object itself
            self._flow(output, sources)
            return
        self._analyze_unwritten(node, resolved, result, output, sources)

    def _analyze_unwritten(
        self, node: Node, resolved: Op, result: Argument, output: Value, sources: Sequence[Value]
    ) -> None:
        """A result that is not an argument which the operator writes; `sources` are those it may share memory with."""
        if not node.has(Trait.SAME_VALUE):
            self._make(output)
        if is_open(result.declared_type):
            self._flow(output, node.inputs if node.has(Trait.SAME_VALUE) else (*node.inputs, None))
        elif result.alias is not None:
            self._flow(output, sources)
        elif results_may_be_inputs(resolved):
            self._flow(output, node.inputs)
        elif has_variables(resolved):  # `xs += ys` gives the written list, unmarked
            self._flow(output, [v for v, _ in self._writes.get(node, ())])


def aliases_of(graph: Graph) -> AliasDb:
    """The analysis of the graph, for a pass that has not changed it: an earlier one, if nothing has changed since."""
    kept = {} if graph.analyses is None else graph.analyses
    found = kept.get(AliasDb)
    if not isinstance(found, AliasDb):
        found = kept[AliasDb] = AliasDb(graph)
    return found


_BY_KIND: dict[str, Callable[[AliasDb, Node], None]] = {
    "prim::If": AliasDb._analyze_if,
    "prim::Try": AliasDb._analyze_if,
    "prim::Region": AliasDb._analyze_region,
    "prim::Loop": AliasDb._analyze_loop,
    "prim::Uninitialized": AliasDb._analyze_nothing,
    "prim::TupleConstruct": AliasDb._analyze_same,
    "prim::TupleUnpack": AliasDb._analyze_same,
    "prim::TupleIndex": AliasDb._analyze_same,
    "prim::TupleSlice": AliasDb._analyze_same,
    "prim::ListConstruct": AliasDb._analyze_container,
    "prim::DictConstruct": AliasDb._analyze_container,
    "prim::CreateObject": AliasDb._analyze_new,
    "prim::tolist": AliasDb._analyze_new,
    "prim::MMBatchSide": AliasDb._analyze_new,
    "prim::ConstantChunk": AliasDb._analyze_views,
    "prim::FunctionalGraph": AliasDb._analyze_views,
    "prim::GetAttr": AliasDb._analyze_item,
    "prim::SetAttr": AliasDb._analyze_set_attribute,
    "prim::isinstance": AliasDb._analyze_nothing,
    "prim::Print": AliasDb._analyze_nothing,
    "prim::RaiseException": AliasDb._analyze_nothing,
}


def keeps_nothing(use: Use) -> bool:
    """Does the use of a container neither change it, nor keep it or what it holds anywhere, nor ask who it is?"""
    user, offset = use
    if _is_item_read(user):
        return offset == 0
    if user.kind == "prim::Print":
        return True
    resolved = user.op
    if resolved is None or resolved.effect not in (Effect.PURE, Effect.STATE, Effect.RANDOM):
        return False
    if offset >= len(resolved.schema.arguments) or results_may_be_inputs(resolved):
        return False
    argument = resolved.schema.arguments[offset]
    if argument.alias or argument.element_alias or is_open(argument.declared_type):
        return False
    return not any(contained_kinds(o.type) for o in user.outputs) and (
        not has_variables(resolved) or not any(kinds_of(o.type) for o in user.outputs)
    )


@cache
def _is_plain(op: Op) -> bool:
    """Is all that the operator does to make new objects? So it is with most operators."""
    return only_makes(op) and op.effect is not Effect.SIDE and not op.schema.is_varret


def _is_without_marks(node: Node, op: Op) -> bool:
    """Does the operator do with its inputs, or give as results, what its schema has no marks for?"""
    if op.effect is Effect.SIDE:
        return op.fn is None or any(reachable_kinds(v.type) for v in node.inputs)
    return op.schema.is_varret and any(kinds_of(o.type) for o in node.outputs)


def _is_item_read(node: Node) -> bool:
    """Does the node read elements of a list or dict, its first input?"""
    if node.kind == "prim::ListUnpack":
        return True
    if node.kind not in ("aten::__getitem__", "aten::get") or not node.inputs:
        return False
    return isinstance(node.inputs[0].type, T.ListType | T.DictType)


def _uses_outputs(user: Node, maker: Node) -> bool:
    return any(use.user is user or _is_within(use.user, user) for output in maker.outputs for use in output.uses)


def _is_within(node: Node, outer: Node) -> bool:
    return any(node.is_inside(block) for block in outer.blocks)


def _does(node: Node, effect: Effect) -> bool:
    return effects.any_inside(node, lambda n: effects.effect_of(n) is effect)
