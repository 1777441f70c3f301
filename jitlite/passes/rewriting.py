"""Replacing patterns, written as graphs, by others.

    rewrite('''                                     '''
    graph(%a, %b, %c, %one):                           graph(%a, %b, %c, %one):
      %q = aten::mul(%a, %b)                             %r = my::mul_add(%a, %b, %c, %one)
      %r = aten::add(%q, %c, %one)                       return (%r)''', graph)
      return (%r)''',

`jitlite/ir/match.py` says what matches. Both graphs have as many parameters and results. The replacement computes
where the last matched node was; its author has to know that it computes the same. Unless told not to,
`rewrite` makes sure of what depends on the place:

- between the matched nodes is nothing that may not run before, or after, all of them: no write to what they read, no
  reader of what they write, nothing that prints or may raise while one of them may raise, too;
- nobody else sees what a matched in-place operation writes;
- a result that the replacement takes from a parameter as it is was a new object before: nobody may write either, and
  nobody may get hold of the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jitlite.analysis.alias import AliasDb
from jitlite.base.errors.inside import NO_REWRITE
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.match import Match, iterate_matches, pattern_of
from jitlite.ir.parser import parse


def rewrite(
    pattern: str | Graph,
    replacement: str | Graph,
    graph: Graph,
    *,
    where: Callable[[Match], bool] | None = None,
    checked: bool = True,
    places: Mapping[str, str] | None = None,
) -> bool:
    """Replace a pattern wherever it is found in the graph. Says whether it was.

    Args:
        pattern: what to look for, as text or as a graph.
        replacement: what to put there.
        graph: the graph to change.
        where: asked about each match; `match["name"]` is the value that stands for the pattern's `%name`.
        checked: make sure that no write, effect or error comes between; see the text above.
        places: names of values of the replacement, and the value of the pattern whose place in the program their nodes
            take. Without it all take that of the last matched node.

    Raises:
        CompileError: a text is no graph, the pattern cannot be looked for, or the two do not fit together.
    """
    wanted, made = pattern_of(pattern), parse(replacement) if isinstance(replacement, str) else replacement
    for mine, theirs, what in ((wanted.inputs, made.inputs, "parameters"), (wanted.outputs, made.outputs, "results")):
        if len(mine) != len(theirs):
            message = f"the pattern has {len(mine)} {what}, the replacement {len(theirs)}"
            raise NO_REWRITE(message, None)
    rewriter = _Rewriter(wanted, made, graph, places)
    matches = [m for m in iterate_matches(wanted, graph) if rewriter.can_be_replaced(m) and (not where or where(m))]
    if matches and checked:
        judge = _Judge(wanted, made, graph)
        matches = [m for m in matches if judge.allows(m)]
    for match in matches:
        rewriter.replace(match)
    return bool(matches)


class _Judge:
    """Says of a match whether it may be replaced."""

    def __init__(self, pattern: Graph, replacement: Graph, graph: Graph) -> None:
        self.pattern, self.replacement = pattern, replacement
        self.db = AliasDb(graph)

    def allows(self, match: Match) -> bool:
        nodes = match.replaceable
        between = _between(nodes)
        if not all(self.db.may_swap(node, other) for node in nodes for other in between if node.is_before(other)):
            return False
        return all(self.keeps_to_itself(node, match) for node in nodes) and self.keeps_identity(match)

    def keeps_to_itself(self, node: Node, match: Match) -> bool:
        """Is what the node writes an object that the matched nodes made?

        Others get to see it through results of the pattern only, and these are there to be replaced.
        """
        written = self.db.writes(node)
        if not written:
            return True
        given = [match.values[v] for v in self.pattern.inputs if v in match.values]
        return not written & self.db.all_reachable(given) and node.inputs[0].node in match.nodes.values()

    def keeps_identity(self, match: Match) -> bool:
        """Do the results that are parameters of the replacement stand for new objects that nobody can tell apart?"""
        for old, new in zip(self.pattern.outputs, self.replacement.outputs, strict=True):
            if new in self.replacement.inputs:
                given = match.values.get(self.pattern.inputs[new.offset])
                result = match.values[old]
                if given is None or self.db.has_writers((given, result)) or self.db.escapes(result):
                    return False
        return True


def _between(nodes: list[Node]) -> list[Node]:
    """The other nodes from the first of these nodes to the last, in their block."""
    found: list[Node] = []
    at = nodes[0].next
    while at is not None and at is not nodes[-1] and len(nodes) > 1:
        if at not in nodes:
            found.append(at)
        at = at.next
    return found


class _Rewriter:
    def __init__(self, pattern: Graph, replacement: Graph, graph: Graph, places: Mapping[str, str] | None) -> None:
        self.pattern, self.replacement, self.graph = pattern, replacement.copy(), graph
        self.current: dict[Value, Value] = {}
        """What replaced values of the graph stand for them now."""
        self.sources: dict[Node, str] | None = None
        """The value of the pattern whose place a node of the replacement takes; None for that of the last node."""
        if places is not None:
            named = [(v.node, places.get(v.name)) for node in self.replacement.nodes for v in node.outputs]
            self.sources = {node: name for node, name in reversed(named) if name is not None}
        for node in self.replacement.nodes:
            for value in node.outputs:
                value.set_name(None)

    def can_be_replaced(self, match: Match) -> bool:
        """Are all results used after the last matched node only, and all parameters known?"""
        last = match.replaceable[-1]
        results = [match.values[v] for v in self.pattern.outputs]
        matched = set(match.nodes.values())
        early = any(u.user not in matched and not u.user.is_after(last) for v in results for u in v.uses)
        used = [p for p, v in zip(self.replacement.inputs, self.pattern.inputs, strict=True) if v not in match.values]
        return not early and not any(p.has_uses for p in used)

    def now(self, value: Value) -> Value:
        while value in self.current:
            value = self.current[value]
        return value

    def replace(self, match: Match) -> None:
        nodes = match.replaceable
        values = {
            new: self.now(match.values[old])
            for new, old in zip(self.replacement.inputs, self.pattern.inputs, strict=True)
            if old in match.values
        }
        for node in self.replacement.nodes:
            clone = self.graph.clone_node(node, values)
            clone.insert_before(nodes[-1])
            self.take_place(clone, node, match, nodes[-1])
        for mine, theirs in zip(self.pattern.outputs, self.replacement.outputs, strict=True):
            self.hand_over(match.values[mine], values[theirs], theirs)
        for node in reversed(nodes):
            node.destroy()

    def take_place(self, clone: Node, node: Node, match: Match, last: Node) -> None:
        source: Node | None = last
        if self.sources is not None:
            name = self.sources.get(node)
            source = None if name is None else match[name].node
        clone.range = None if source is None else source.range
        where = last if source is None else source
        clone.scope, clone.call_stack = where.scope, where.call_stack

    def hand_over(self, old: Value, new: Value, made: Value) -> None:
        if made.node.kind != "prim::Param":
            new.copy_metadata(old)
        old.replace_all_uses_with(new)
        self.current[old] = new
