"""Graphs as drawings: a part is laid out in layers, what is computed first on top.

The layers are networkx's topological generations. An edge that spans several layers goes through a bend in each of
them, so that no line runs behind a box. Boxes of a layer are ordered by the mean of what they come from.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import networkx as nx

from jitlite.base.source import SourceRange
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.unit import MethodName
from jitlite.report.content import Box, Drawing, Sources, clipped
from jitlite.report.drawn_parts import DrawnItem, DrawnPart, module_of, opened, whole

_CHARACTER, _MARGIN, _HEIGHT = 7, 12, 40
_GAP_X, _GAP_Y = 18, 34
_BEND = 6
_MOST_NODES = 250
"""Boxes of a drawing. Nobody reads a larger one, and the page would be slow."""
_MOST_FACTS = 100
"""Characters of what is told of the values of a box."""
_MOST_BOXES = 1000
"""Boxes of all drawings, some 300 bytes each: those that are opened last are left out."""

_Vertex = tuple[str, int]
"""A box or a bend, and its number."""


def draw(graph: Graph, sources: Sources, facts: Mapping[Value, str] | None = None) -> list[Drawing]:
    """The drawing of the graph, with those that its boxes open inside it.

    Where the outermost block is too large to be drawn, there are those of what it holds.
    """
    found: list[Drawing] = []
    waiting: deque[tuple[DrawnPart, list[Drawing]]] = deque([(whole(graph), found)])
    room = _MOST_BOXES
    while waiting:
        part, siblings = waiting.popleft()
        count, inner = len(part.items), siblings
        if 0 < count <= min(_MOST_NODES, room):
            room -= count
            drawing = _Layout(part, sources, facts or {}).drawing()
            siblings.append(drawing)
            inner = drawing.inner
        waiting.extend((below, inner) for i, item in enumerate(part.items) for below in opened(part, i, item))
    return found


class _Layout:
    """Where the boxes of one part stand."""

    def __init__(self, part: DrawnPart, sources: Sources, facts: Mapping[Value, str]) -> None:
        self.part = part
        self.facts = facts
        self.items: dict[_Vertex, DrawnItem] = {("box", i): item for i, item in enumerate(part.items, 1)}
        self.first, self.last = ("box", 0), ("box", len(part.items) + 1)
        self.vertices = [self.first, *self.items, self.last]
        self.sources = sources
        self.layers = self._layers()
        self.size = {v: self._size(v) for layer in self.layers for v in layer}

    def _layers(self) -> list[list[_Vertex]]:
        """The layers, with bends; `self.links` becomes the links between neighbouring layers."""
        edges = list(self._edges())
        drawn = nx.DiGraph(edges)
        drawn.add_nodes_from(self.vertices)
        layers = [sorted(generation) for generation in nx.topological_generations(drawn)]
        layer_of = _lowered(drawn, {v: i for i, layer in enumerate(layers) for v in layer})
        layers = [[v for v in self.vertices if layer_of[v] == i] for i in range(len(layers))]
        self.links: list[tuple[_Vertex, _Vertex]] = []
        bends = 0
        for start, end in edges:
            at = start
            for i in range(layer_of[start] + 1, layer_of[end]):
                bend = ("bend", bends)
                bends += 1
                layers[i].append(bend)
                self.links.append((at, bend))
                at = bend
            self.links.append((at, end))
        return self._ordered(layers)

    def _edges(self) -> Iterator[tuple[_Vertex, _Vertex]]:
        """From each box to those that use its values, themselves or in blocks of theirs."""
        maker: dict[Value, _Vertex] = dict.fromkeys(self.part.inputs, self.first)
        for v, item in self.items.items():
            maker.update((value, v) for node in item.nodes for value in node.outputs)
        readers = [*((v, item.reads()) for v, item in self.items.items()), (self.last, iter(self.part.results))]
        for v, values in readers:
            found = dict.fromkeys(maker[value] for value in values if value in maker)
            yield from ((start, v) for start in found if start != v)

    def _ordered(self, layers: list[list[_Vertex]]) -> list[list[_Vertex]]:
        before: dict[_Vertex, list[_Vertex]] = {}
        for start, end in self.links:
            before.setdefault(end, []).append(start)
        position: dict[_Vertex, float] = {}
        for layer in layers:
            wanted = {v: _mean([position[u] for u in before.get(v, ())]) for v in layer}
            layer.sort(key=lambda v: wanted[v])
            position.update((v, i - len(layer) / 2) for i, v in enumerate(layer))
        return layers

    def _size(self, v: _Vertex) -> int:
        if v[0] == "bend":
            return _BEND
        label, detail = self._texts(v)
        return max(len(label), len(detail)) * _CHARACTER + 2 * _MARGIN

    def _texts(self, v: _Vertex) -> tuple[str, str]:
        if v == self.first:
            return "inputs", _names(self.part.inputs)
        if v == self.last:
            return "results", _names(self.part.results)
        item = self.items[v]
        if item.module:
            return _shortened(item.module), f"{len(item.nodes)} operations"
        node = item.first
        owner = _owner(node) or module_of(node)
        return node.kind, _names(node.outputs) if owner == self.part.module else _shortened(owner)

    def drawing(self) -> Drawing:
        widths = [sum(self.size[v] for v in layer) + _GAP_X * (len(layer) - 1) for layer in self.layers]
        width = max(widths) + 2 * _MARGIN
        places: dict[_Vertex, tuple[int, int]] = {}
        for number, layer in enumerate(self.layers):
            x = (width - widths[number]) // 2
            for v in layer:
                places[v] = (x, _MARGIN + number * (_HEIGHT + _GAP_Y))
                x += self.size[v] + _GAP_X
        height = 2 * _MARGIN + len(self.layers) * (_HEIGHT + _GAP_Y) - _GAP_Y
        boxes = [self._box(v, *places[v]) for v in self.vertices]
        edges = [self._path(places, *link) for link in self.links]
        return Drawing(self.part.id, self.part.title, width, height, boxes, edges)

    def _box(self, v: _Vertex, x: int, y: int) -> Box:
        item = self.items.get(v)
        label, detail = self._texts(v)
        if item is None:
            return Box(x, y, self.size[v], label, detail, "", 0, "edge")
        node = item.first
        place, number = self.sources.place(self._range_of(item))
        below = f"{self.part.id}-{v[1] - 1}"
        opens = below if item.module else f"{below}-0" if node.blocks else ""
        kind = "group" if item.module else "holder" if node.blocks else "node"
        outputs = [value for value in item.nodes[-1].outputs if value in self.facts]
        known = "; ".join(f"%{value.name} : {self.facts[value]}" for value in outputs)
        return Box(x, y, self.size[v], label, detail, place, number, kind, opens, clipped(known, _MOST_FACTS))

    def _range_of(self, item: DrawnItem) -> SourceRange | None:
        """Where a node stands, or where the submodule of several is called."""
        calls = item.first.call_stack
        called = (at for name, at in calls if isinstance(name, MethodName) and name.module == item.module)
        return next(called, item.first.range) if item.module else item.first.range

    def _path(self, places: dict[_Vertex, tuple[int, int]], start: _Vertex, end: _Vertex) -> str:
        (x1, y1), (x2, y2) = places[start], places[end]
        x1, x2 = x1 + self.size[start] // 2, x2 + self.size[end] // 2
        bottom = y1 + _HEIGHT
        half = (y2 - bottom) // 2
        through = f"M{x1} {y1}V{bottom}" if start[0] == "bend" else f"M{x1} {bottom}"
        return f"{through}C{x1} {bottom + half} {x2} {y2 - half} {x2} {y2}"


def _lowered(drawn: nx.DiGraph, layer_of: dict[_Vertex, int]) -> dict[_Vertex, int]:
    """The layers, with what no input leads to moved down from the first one, which would be endless.

    It goes right above its first use; what nobody uses, beside what comes next in the program.
    """
    first = ("box", 0)
    from_inputs = {first, *nx.descendants(drawn, first)}
    following = sorted(from_inputs)
    for v in sorted(layer_of, key=lambda v: -layer_of[v]):
        users = [layer_of[u] for u in drawn.successors(v)]
        if v in from_inputs:
            continue
        if users:
            layer_of[v] = min(users) - 1
        else:
            beside = following[min(bisect(following, v), len(following) - 1)]
            layer_of[v] = max(layer_of[v], layer_of[beside])
    return layer_of


def _mean(positions: list[float]) -> float:
    return sum(positions) / len(positions) if positions else 0.0


def _names(values: Iterable[Value]) -> str:
    return _shortened(", ".join(f"%{v.name}" for v in values))


def _owner(node: Node) -> str:
    """The submodule whose attributes the node uses, `layer1.0.conv1`."""
    for value in node.inputs:
        path: list[str] = []
        while value.node.kind == "prim::GetAttr":
            path.insert(0, str(value.node.attributes["name"]))
            value = value.node.inputs[0]
        if len(path) > 1:
            return ".".join(path[:-1])
    return ""


def _shortened(text: str) -> str:
    return text if len(text) <= 28 else f"{text[:27]}…"
