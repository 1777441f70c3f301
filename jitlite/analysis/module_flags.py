"""The flags of modules that stay as they are while a graph runs: `training` of each layer, above all.

    %layer : Layer = prim::GetAttr[name="layer"](%self)
    %flag : bool = prim::GetAttr[name="training"](%layer)       a Flag of the path "layer", "training"

What a flag decides (dropout, which statistics a norm takes, counters) lies between the operators of a layer and those
of the next one. A graph for one setting of the flags has none of that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from jitlite.analysis.alias import AliasDb
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value


class Flag(Record, eq=True):
    """A truth value behind attributes of an argument.

    Attributes:
        position: which argument it is.
        path: the attributes that lead to it, the last one is the flag.
    """

    position: int
    path: tuple[str, ...]

    def read(self, arguments: Sequence[object]) -> object:
        """What it is for these arguments.

        Raises:
            AttributeError: there is no such attribute.
        """
        return functools.reduce(getattr, self.path, arguments[self.position])

    def told(self, inputs: Sequence[Value]) -> str:
        """The flag as programs write it."""
        return ".".join([inputs[self.position].name.partition(".")[0], *self.path])


Reads = Mapping[Flag, Sequence[Value]]
"""The flags that a graph reads, and the values that it reads."""


def may_have_flags(graph: Graph) -> bool:
    """Does the graph read anything that could be a flag? A quick look."""
    return any(map(_may_be_flag, graph.all_nodes()))


def flag_reads(graph: Graph) -> Reads:
    """The flags that nothing in the graph may change, neither them nor what leads to them.

    What is not known (a call, code in Python) may change every attribute, so that there are no flags beside it.
    """
    nodes = list(filter(_may_be_flag, graph.all_nodes()))
    found: dict[Flag, list[Value]] = {}
    if not nodes:
        return found
    db = AliasDb(graph)
    positions = {value: i for i, value in enumerate(graph.inputs)}
    for node in nodes:
        path: list[str] = []
        value = node.output
        while value.node.kind == "prim::GetAttr" and not _may_set(graph, value.node, db):
            path.insert(0, str(value.node.attributes["name"]))
            value = value.node.input
        if path and value in positions:
            found.setdefault(Flag(positions[value], tuple(path)), []).append(node.output)
    return found


def _may_be_flag(node: Node) -> bool:
    return node.kind == "prim::GetAttr" and node.output.type is T.BOOL and node.output.has_uses


def _may_set(graph: Graph, read: Node, db: AliasDb) -> bool:
    """May the graph set the attribute that is read? It may if it is one of something else than a module, too."""
    module = read.input
    if not isinstance(module.type, T.ClassType) or not module.type.is_module:
        return True
    if not db.is_written(module):
        return False
    writers = [n for n in graph.all_nodes() if not n.blocks and db.writes(n) & db.locations(module)]
    name = read.attributes["name"]
    return any(n.kind != "prim::SetAttr" or n.attributes["name"] == name for n in writers)


def set_flags(graph: Graph, values: Iterable[tuple[Value, bool]]) -> None:
    """Have constants used in place of flags that were read."""
    first = graph.block.param_node.next or graph.block.return_node
    with graph.inserting_before(first):
        for value, flag in values:
            value.replace_all_uses_with(graph.insert_constant(flag))


def flag_test(declared: Sequence[Value], flags: Mapping[Flag, bool]) -> Graph:
    """A graph that takes the arguments and says whether the flags are as given.

    Args:
        declared: the inputs of the graph whose arguments it takes.
        flags: one or more.
    """
    graph = Graph()
    inputs = [graph.add_input(v.type, v.name if v.has_name else None) for v in declared]
    made: dict[tuple[int, tuple[str, ...]], Value] = {(i, ()): value for i, value in enumerate(inputs)}

    def read(position: int, path: tuple[str, ...]) -> Value:
        found = made.get((position, path))
        if found is None:
            owner = read(position, path[:-1])
            assert isinstance(owner.type, T.ClassType), "a flag is behind attributes of objects"
            result = owner.type.attributes[path[-1]]
            found = graph.insert("prim::GetAttr", (owner,), (result,), {"name": path[-1]}).output
            made[position, path] = found
        return found

    def joined(kind: str, flags: Sequence[Flag]) -> Value | None:
        total = None
        for flag in flags:
            value = read(flag.position, flag.path)
            total = value if total is None else graph.insert(kind, (total, value), (T.BOOL,)).output
        return total

    on = joined("aten::__and__", [flag for flag, is_on in flags.items() if is_on])
    off = joined("aten::__or__", [flag for flag, is_on in flags.items() if not is_on])
    if off is not None:
        off = graph.insert("aten::__not__", (off,), (T.BOOL,)).output
        on = off if on is None else graph.insert("aten::__and__", (on, off), (T.BOOL,)).output
    assert on is not None, "there are flags"
    graph.add_output(on)
    return graph
