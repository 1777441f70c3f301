"""Finding a pattern, written as a graph, in a graph.

    graph(%a, %b, %c, %one):                matches %t and %u of      %t : Tensor = aten::mul(%x, %y)
      %q = aten::mul(%a, %b)                                          %v : Tensor = aten::relu(%x)
      %r = aten::add(%q, %c, %one)                                    %u : Tensor = aten::add(%t, %v, %2)
      return (%r)

Nodes match that are equal in kind, number of inputs and outputs, and attributes, and whose inputs match. A parameter of
the pattern matches any value, the same one wherever it is used; a constant of the pattern matches equal constants,
wherever they stand. Types do not count, nor the order of nodes that do not use one another. All nodes but constants are
in one block, and what they compute that the pattern does not return is used by them alone.

`match::module[name="Conv2d"](%self)` matches reading an attribute that is a module of the class that the regular
expression `name` describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from jitlite.base.errors.inside import BAD_PATTERN
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.compare import constant_key
from jitlite.ir.graph import Block, Graph, Node, Value, is_constant
from jitlite.ir.parser import parse

_MODULE = "match::module"


class Match(Record, eq=True, frozen=False):
    """One place where a pattern was found.

    Attributes:
        nodes: the node of the graph for each node of the pattern.
        values: the value of the graph for each value of the pattern.
    """

    nodes: dict[Node, Node] = field(default_factory=dict)
    values: dict[Value, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value:
        """The value that stands for the pattern's value of this name.

        Raises:
            KeyError: the pattern has no such value.
        """
        for mine, theirs in self.values.items():
            if mine.name == name:
                return theirs
        raise KeyError(f"the pattern has no value %{name}")

    @property
    def replaceable(self) -> list[Node]:
        """The matched nodes of the graph that are no constants, in the order in which they run."""
        found = [node for node in self.nodes.values() if node.kind != "prim::Constant"]
        return sorted(found, key=lambda node: sum(other.is_before(node) for other in found))


def pattern_of(text: str | Graph) -> Graph:
    """The pattern written as text.

    Raises:
        CompileError: the text is no graph, or one that cannot be looked for: it has blocks, returns what it does not
            compute, or falls apart into parts that have nothing in common.
    """
    pattern = parse(text) if isinstance(text, str) else text
    nodes = [node for node in pattern.nodes if not _is_constant(node)]
    if not nodes or not pattern.outputs:
        raise BAD_PATTERN("a pattern has at least one node that is no constant, and returns something", None)
    for node in pattern.nodes:
        if node.blocks:
            raise BAD_PATTERN(f"a pattern cannot hold {node.kind}, which has blocks", node.range)
    _check_connected(pattern, nodes)
    return pattern


def _check_connected(pattern: Graph, nodes: Sequence[Node]) -> None:
    for output in pattern.outputs:
        if output.node not in nodes:
            raise BAD_PATTERN(f"a pattern returns what it computes, not %{output.name}", None)
    if len(_connected(pattern.outputs[0].node)) < len(nodes):
        raise BAD_PATTERN("the nodes of a pattern are all connected by values", nodes[0].range)


def _is_constant(node: Node) -> bool:
    return node.kind == "prim::Constant"


def _connected(start: Node) -> set[Node]:
    found, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        values = [v for v in (*node.inputs, *node.outputs) if not is_constant(v)]
        for other in [v.node for v in values] + [use.user for v in values for use in v.uses]:
            if other not in found and other.kind not in ("prim::Param", "prim::Return", "prim::Constant"):
                found.add(other)
                waiting.append(other)
    return found


def find_matches(pattern: str | Graph, graph: Graph) -> list[Match]:
    """All places where the pattern is found, none of which has a node in common with one before it.

    Raises:
        CompileError: see `pattern_of`.
    """
    return list(iterate_matches(pattern_of(pattern), graph))


def iterate_matches(pattern: Graph, graph: Graph) -> Iterator[Match]:
    """`find_matches`, one after the other; the graph must not change meanwhile."""
    taken: set[Node] = set()
    anchor = pattern.outputs[0].node
    for node in graph.all_nodes():
        if node.kind == anchor.kind or anchor.kind == _MODULE:
            match = _Matcher(pattern, node.block, taken).start(anchor, node)
            if match is not None:
                taken.update(match.replaceable)
                yield match


class _Matcher:
    def __init__(self, pattern: Graph, block: Block | None, taken: set[Node]) -> None:
        self.pattern, self.block, self.taken = pattern, block, taken
        self.match = Match()

    def start(self, mine: Node, theirs: Node) -> Match | None:
        if not self.node(mine, theirs) or not self.complete() or self.is_seen_outside():
            return None
        return self.match

    def complete(self) -> bool:
        """Find the nodes of the pattern that are not above those found so far, but use the same values."""
        missing = [n for n in self.pattern.nodes if n not in self.match.nodes and not _is_constant(n)]
        for mine in missing:
            users = self._users_of_same_value(mine)
            if users is not None:
                return any(self.attempt(mine, theirs) for theirs in users)
        return not missing

    def _users_of_same_value(self, mine: Node) -> list[Node] | None:
        """The nodes that use a value that has been found as this node does; None where it uses none."""
        for offset, value in enumerate(mine.inputs):
            if value in self.match.values and not is_constant(value):
                return [use.user for use in self.match.values[value].uses if use.offset == offset]
        return None

    def attempt(self, mine: Node, theirs: Node) -> bool:
        saved = dict(self.match.nodes), dict(self.match.values)
        if self.node(mine, theirs) and self.complete():
            return True
        self.match.nodes, self.match.values = saved
        return False

    def node(self, mine: Node, theirs: Node) -> bool:
        known = self.match.nodes.get(mine)
        if known is not None or _is_constant(mine):
            return known is theirs or (known is None and self.constant(mine, theirs))
        if theirs in self.taken or theirs.block is not self.block or theirs in self.match.nodes.values():
            return False
        if not _is_alike(mine, theirs):
            return False
        self.match.nodes[mine] = theirs
        pairs = [*zip(mine.outputs, theirs.outputs, strict=True), *zip(mine.inputs, theirs.inputs, strict=True)]
        return all(self.value(a, b) for a, b in pairs)

    def constant(self, mine: Node, theirs: Node) -> bool:
        if not _is_constant(theirs) or not _have_equal_attributes(mine, theirs):
            return False
        self.match.nodes[mine] = theirs
        self.match.values[mine.output] = theirs.output
        return True

    def value(self, mine: Value, theirs: Value) -> bool:
        known = self.match.values.get(mine)
        if known is not None:
            return known is theirs or (is_constant(mine) and _have_equal_attributes(mine.node, theirs.node))
        if is_constant(mine):
            return self.constant(mine.node, theirs.node)
        if mine.node.kind != "prim::Param" and mine.offset != theirs.offset:
            return False
        self.match.values[mine] = theirs
        return mine.node.kind == "prim::Param" or self.node(mine.node, theirs.node)

    def is_seen_outside(self) -> bool:
        """Does somebody outside of the match use a value that the pattern does not return?"""
        matched = set(self.match.nodes.values())
        for mine, theirs in self.match.values.items():
            inner = mine.node.kind not in ("prim::Param", "prim::Constant") and mine not in self.pattern.outputs
            if inner and any(use.user not in matched for use in theirs.uses):
                return True
        return False


def _is_alike(mine: Node, theirs: Node) -> bool:
    if mine.kind == _MODULE:
        return theirs.kind == "prim::GetAttr" and _is_module_named(theirs.output.type, mine.attributes.get("name"))
    if mine.kind != theirs.kind or theirs.blocks:
        return False
    if len(mine.inputs) != len(theirs.inputs) or len(mine.outputs) != len(theirs.outputs):
        return False
    return _have_equal_attributes(mine, theirs)


def _is_module_named(t: T.Type, name: object) -> bool:
    if not isinstance(t, T.ClassType) or not isinstance(name, str):
        return False
    return re.fullmatch(name, t.qualified_name.rpartition(".")[2]) is not None


def _have_equal_attributes(mine: Node, theirs: Node) -> bool:
    if theirs.kind != mine.kind or mine.attributes.keys() != theirs.attributes.keys():
        return False
    return all(constant_key(v) == constant_key(theirs.attributes[k]) for k, v in mine.attributes.items())
