"""Loops over lists and dicts that are changed meanwhile: what Python's iterators see, and where they raise.

A list is asked for its length in every round:

    %n : int = aten::len(%l)                        %n : int = aten::len(%l)
     = prim::Loop(%n, %true)                        %c : bool = aten::gt(%n, %0)
      block0(%i : int):                              = prim::Loop(%max, %c)
        %x : int = aten::__getitem__(%l, %i)          block0(%i : int):
        %m : int[] = aten::append(%l, %x)     =>        %x : int = aten::__getitem__(%l, %i)
        -> (%true)                                      %m : int[] = aten::append(%l, %x)
                                                        %j : int = aten::add(%i, %1)
                                                        %o : int = aten::len(%l)
                                                        %d : bool = aten::lt(%j, %o)
                                                        -> (%d)

TorchScript fixes the number of rounds before the first one; a Python list iterator compares its position with the
length before every round, which is what the new condition does. Loops over `zip` and `enumerate`, whose number of
rounds is the least of several lengths, likewise. A condition of the loop's own (from `break`) still has to hold too.

A loop over a dict, its keys or its items goes through a list of them, made before the first round. A Python iterator
raises RuntimeError before a round if the dict has another number of entries than at the start, so where the body may
add or drop entries the loop compares the two at the end of each round that is not the last by its own condition:

     = prim::Loop(%n, %true)                         = prim::Loop(%n, %true)
      block0(%i : int):                               block0(%i : int):
        %k : int = aten::__getitem__(%keys, %i)         %k : int = aten::__getitem__(%keys, %i)
        %v : int = aten::pop(%d, %k)          =>        %v : int = aten::pop(%d, %k)
        -> (%true)                                      %o : int = aten::len(%d)
                                                        %c : bool = aten::ne(%o, %m)
                                                         = prim::If(%c)
                                                          block0(): ... prim::RaiseException(...)

Setting the entry of the round's own key adds none. In a `zip` the dict is asked only if all before it go on. Values are
those of the moment: the loop then goes through a list of the keys, and reads the value of each when it is its turn.

A loop is changed only if a node in its body may change the length of (an alias of) the list: for all others the two
meanings agree, as the length read before the loop is the length at every round. The emitter marks loops over lists with
an attribute, for `range(len(l))` is evaluated once; the pass removes the marks. It runs right after early exits are
removed, while the iteration count of a loop is still the length itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitlite.analysis.alias import AliasDb
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.structure import UNBOUNDED, Loop
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.passes.registry import graph_pass

_MARK = "measured_lists"
"""Attribute of a loop over lists: which of the lengths that bound it are those of the lists, by position."""


@graph_pass
def follow_growing_lists(graph: Graph) -> bool:
    """Let loops over lists that may change their length test it in every round; over dicts, compare it."""
    marked = [n for n in graph.all_nodes() if n.kind == "prim::Loop" and _MARK in n.attributes]
    measured = {loop: _lists(loop) for loop in marked}
    _follow(graph, measured)
    for loop in marked:
        del loop.attributes[_MARK]
    return bool(marked)


def _follow(graph: Graph, measured: dict[Node, set[int]]) -> None:
    """Rewrite the loops whose lists or dicts may change their length. Most have none, so aliases are asked for last."""
    lists = [n for n in measured if measured[n] and any(map(_may_resize, _inside(n)))]
    dicts = [listing for n in measured for listing in _listings(n) if listing.may_be_written()]
    if not lists and not dicts:
        return
    aliases = AliasDb(graph)
    lists = [n for n in lists if _resizes(aliases, n, measured[n])]
    for listing in [found for found in dicts if found.is_written(aliases)]:
        listing.compare_every_round(graph, measured[listing.loop])
        listing.read_in_turn(graph)
    for loop in lists:
        _test_every_round(graph, loop, measured[loop])


def _lists(loop: Node) -> set[int]:
    """Which of the lengths that bound the loop are those of lists; what is listed of a dict is no list in Python."""
    lengths = _lengths(loop.inputs[0])
    return {i for i in loop.attributes[_MARK] if not lengths[i].node.inputs[0].node.has(Trait.DICT_VIEW)}


def _lengths(max_iterations: Value) -> list[Value]:
    """The lengths whose least is the iteration count."""
    if max_iterations.node.kind == "prim::min":
        return list(max_iterations.node.inputs[0].node.inputs)
    return [max_iterations]


def _inside(loop: Node) -> list[Node]:
    found: list[Node] = []
    waiting = list(loop.blocks)
    while waiting:
        for node in waiting.pop().nodes:
            found.append(node)
            waiting.extend(node.blocks)
    return found


def _may_resize(node: Node) -> bool:
    op = node.op
    if node.blocks or node.has(Trait.KEEPS_LENGTH) or node.kind in ("prim::Print", "prim::RaiseException"):
        return False
    if op is None or op.fn is None:
        return node.kind in ("prim::CallFunction", "prim::CallMethod", "prim::PythonOp", "aten::wait")
    return any(
        argument.is_write and isinstance(value.type, T.ListType)
        for argument, value in zip(op.schema.arguments, node.inputs, strict=False)
    )


def _resizes(aliases: AliasDb, loop: Node, measured: set[int]) -> bool:
    lists = [v.node.inputs[0] for i, v in enumerate(_lengths(loop.inputs[0])) if i in measured]
    locations = 0
    for value in lists:
        locations |= aliases.locations(value)
    types = {t for v in lists for t in _types_of_same(T.unshaped(v.type))}
    for node in _inside(loop):
        # an operator names the list it writes, and lists of other elements are other lists
        named = [T.unshaped(v.type) for v in node.inputs if isinstance(v.type, T.ListType)]
        is_call = node.op is None or node.op.fn is None
        if _may_resize(node) and (is_call or types & set(named)) and aliases.writes(node) & locations:
            return True
    return False


def _types_of_same(t: Type) -> list[Type]:
    """The types that a list is seen with: a loop takes a List[int] or List[float] for a list of both."""
    return [t, *(T.ListType.of(m) for m in T.members_of(t.element))] if isinstance(t, T.ListType) else [t]


def _test_every_round(graph: Graph, loop: Node, measured: set[int]) -> None:
    max_iterations, condition = loop.inputs[0], loop.inputs[1]
    (body,) = loop.blocks
    with graph.inserting_before(loop):
        graph.current_range = loop.range
        zero = graph.insert_constant(0)
        starts = graph.insert("aten::gt", (max_iterations, zero), (T.BOOL,)).output
        loop.replace_input(0, graph.insert_constant(UNBOUNDED))
        loop.replace_input(1, _both(graph, starts, condition))
    with graph.inserting_at_end(body):
        following = graph.insert("aten::add", (body.inputs[0], graph.insert_constant(1)), (T.INT,)).output
        now = _measure_again(graph, max_iterations, measured)
        goes_on = graph.insert("aten::lt", (following, now), (T.BOOL,)).output
        body.replace_output(0, _both(graph, goes_on, body.outputs[0]))
        graph.current_range = None


# -- dicts


class _Listing(Record, eq=True):
    """The keys, values or items of a dict that a loop goes through.

    Attributes:
        loop: the loop.
        position: which of the lengths that bound the loop is that of the list.
        node: what lists them.
    """

    loop: Node
    position: int
    node: Node

    @property
    def entries(self) -> Value:
        """The dict."""
        return self.node.inputs[0]

    def may_be_written(self) -> bool:
        return any(map(self._may_write, _inside(self.loop)))

    def is_written(self, aliases: AliasDb) -> bool:
        """Does the loop change entries other than that of the round's own key?"""
        locations = aliases.locations(self.entries)
        return any(self._may_write(node) and aliases.writes(node) & locations for node in _inside(self.loop))

    def _may_write(self, node: Node) -> bool:
        op = node.op
        if node.blocks or node.kind in ("prim::Print", "prim::RaiseException", "prim::SetCell"):
            return False
        if op is None or op.fn is None:
            return node.kind in ("prim::CallFunction", "prim::CallMethod", "prim::PythonOp", "aten::wait")
        if node.kind == "aten::_set_item" and node.inputs[0] is self.entries and self._is_own_key(node.inputs[1]):
            return False
        return any(
            argument.is_write and isinstance(value.type, T.DictType | T.SetType)
            for argument, value in zip(op.schema.arguments, node.inputs, strict=False)
        )

    def _is_own_key(self, key: Value) -> bool:
        """Is it the key that this iteration of the loop is about?"""
        if self.node.kind == "aten::values":
            return False
        if self.node.kind == "aten::items":
            if key.node.kind != "prim::TupleUnpack" or key.offset != 0:
                return False
            key = key.node.input
        return key.node in self._reads()

    def _reads(self) -> list[Node]:
        """What takes the element of a round out of the list."""
        index = Loop(self.loop).index
        users = (use.user for use in self.node.output.uses)
        return [n for n in users if n.kind == "aten::__getitem__" and n.inputs[1] is index]

    # -- what becomes of it
    def compare_every_round(self, graph: Graph, measured: set[int]) -> None:
        """Raise as Python's iterator does if there are more or fewer entries than at the start."""
        graph.current_range = self.loop.range
        with graph.inserting_before(self.loop):
            before = graph.insert("aten::len", (self.entries,), (T.INT,)).output
        (body,) = self.loop.blocks
        with graph.inserting_at_end(body):
            now = graph.insert("aten::len", (self.entries,), (T.INT,)).output
            condition = _both(graph, graph.insert("aten::ne", (now, before), (T.BOOL,)).output, body.outputs[0])
            for length in self._earlier(graph, measured):
                following = graph.insert("aten::add", (body.inputs[0], graph.insert_constant(1)), (T.INT,)).output
                goes_on = graph.insert("aten::lt", (following, length), (T.BOOL,)).output
                condition = graph.insert("aten::__and__", (condition, goes_on), (T.BOOL,)).output
            test = graph.insert("prim::If", (condition,))
        raising = test.add_block()
        test.add_block()
        with graph.inserting_at_end(raising):
            what = "Set" if isinstance(self.entries.type, T.SetType) else "dictionary"
            message = graph.insert_constant(f"{what} changed size during iteration")
            graph.insert("prim::RaiseException", (message, graph.insert_constant("builtins.RuntimeError")))
        graph.current_range = None

    def _earlier(self, graph: Graph, measured: set[int]) -> Iterator[Value]:
        """The lengths of what the loop asks before it asks for the next entry; that of a counter has no end."""
        for position, length in enumerate(_lengths(self.loop.inputs[0])[: self.position]):
            if position in measured:
                yield graph.insert("aten::len", length.node.inputs, (T.INT,)).output
            elif constant_of(length, None) != UNBOUNDED:
                yield length

    def read_in_turn(self, graph: Graph) -> None:
        """Go through the keys, and take the value of each when it is its turn."""
        owner = self.entries.type
        if self.node.kind == "aten::keys" or not isinstance(owner, T.DictType):
            return
        length = _lengths(self.loop.inputs[0])[self.position].node
        graph.current_range = self.loop.range
        with graph.inserting_before(length):
            keys = graph.insert("aten::keys", (self.entries,), (T.ListType.of(owner.key),)).output
        length.replace_input(0, keys)
        for read in self._reads():
            with graph.inserting_before(read):
                key = graph.insert("aten::__getitem__", (keys, read.inputs[1]), (owner.key,), range=read.range).output
                value = graph.insert("aten::__getitem__", (self.entries, key), (owner.value,), range=read.range).output
                if self.node.kind == "aten::items":
                    types = (T.TupleType.of((owner.key, owner.value)),)
                    value = graph.insert("prim::TupleConstruct", (key, value), types, range=read.range).output
            value.copy_metadata(read.output)
            read.output.replace_all_uses_with(value)
            read.destroy()
        graph.current_range = None


def _listings(loop: Node) -> list[_Listing]:
    lengths = _lengths(loop.inputs[0])
    listed = {i: lengths[i].node.inputs[0].node for i in loop.attributes[_MARK]}
    return [_Listing(loop, i, node) for i, node in sorted(listed.items()) if node.has(Trait.DICT_VIEW)]


def _measure_again(graph: Graph, max_iterations: Value, measured: set[int]) -> Value:
    lengths = [
        graph.insert("aten::len", v.node.inputs, (T.INT,)).output if i in measured else v
        for i, v in enumerate(_lengths(max_iterations))
    ]
    if max_iterations.node.kind != "prim::min":
        return lengths[0]
    listed = graph.insert("prim::ListConstruct", lengths, (T.ListType.of(T.INT),)).output
    return graph.insert("prim::min", (listed,), (T.INT,)).output


def _both(graph: Graph, first: Value, second: Value) -> Value:
    if constant_of(second, None) is True:
        return first
    return graph.insert("aten::__and__", (first, second), (T.BOOL,)).output
