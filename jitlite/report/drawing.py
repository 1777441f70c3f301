"""Graphs as drawings: a block is laid out in layers, what is computed first on top.

The layers are networkx's topological generations. An edge that spans several layers goes through a bend in each of
them, so that no line runs behind a box. Boxes of a layer are ordered by the mean of what they come from. Constants and
attributes are left out: they would be most of the boxes and say least.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator

import networkx as nx

from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.report.content import Box, Drawing, Sources

_CHARACTER, _MARGIN, _HEIGHT = 7, 12, 40
_GAP_X, _GAP_Y = 18, 34
_BEND = 6
_MOST_NODES = 250
"""Nodes of a drawing. Nobody reads a larger one, and the page would be slow."""
_LEFT_OUT = ("prim::Constant", "prim::GetAttr")

_Vertex = tuple[str, int]
"""A box or a bend, and its number."""


def draw(graph: Graph, sources: Sources) -> list[Drawing]:
    """A drawing of each block of the graph, the outermost one first."""
    numbers = {node: f"block-{i}" for i, node in enumerate(graph.all_nodes())}
    return list(_drawings(graph.block, "block", "The whole function", sources, numbers))


def _drawings(block: Block, id: str, title: str, sources: Sources, ids: dict[Node, str]) -> Iterator[Drawing]:
    nodes = [node for node in block.nodes if node.kind not in _LEFT_OUT]
    if 0 < len(nodes) <= _MOST_NODES:
        yield _Layout(block, nodes, sources, ids).drawing(id, title)
    for node in nodes:
        for number, inner in enumerate(node.blocks):
            _, line = sources.place(node.range)
            where = f", line {line}" if line else ""
            yield from _drawings(inner, f"{ids[node]}-{number}", f"block{number} of {node.kind}{where}", sources, ids)


class _Layout:
    """Where the boxes of one block stand."""

    def __init__(self, block: Block, nodes: list[Node], sources: Sources, ids: dict[Node, str]) -> None:
        self.nodes: dict[_Vertex, Node] = dict(
            zip((("box", i) for i in range(len(nodes) + 2)), [block.param_node, *nodes, block.return_node], strict=True)
        )
        self.sources = sources
        self.ids = ids
        self.layers = self._layers()
        self.size = {v: self._size(v) for layer in self.layers for v in layer}

    def _layers(self) -> list[list[_Vertex]]:
        """The layers, with bends; `self.links` becomes the links between neighbouring layers."""
        edges = list(self._edges())
        drawn = nx.DiGraph(edges)
        drawn.add_nodes_from(self.nodes)
        layers = [sorted(generation) for generation in nx.topological_generations(drawn)]
        layer_of = _lowered(drawn, {v: i for i, layer in enumerate(layers) for v in layer})
        layers = [[v for v in self.nodes if layer_of[v] == i] for i in range(len(layers))]
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
        boxes = {node: v for v, node in self.nodes.items()}
        for v, node in self.nodes.items():
            found = dict.fromkeys(boxes[value.node] for value in _read_by(node) if value.node in boxes)
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
        label, detail = self._texts(self.nodes[v])
        return max(len(label), len(detail)) * _CHARACTER + 2 * _MARGIN

    def _texts(self, node: Node) -> tuple[str, str]:
        if node.kind == "prim::Param":
            return "inputs", _shortened(", ".join(f"%{v.name}" for v in node.outputs))
        if node.kind == "prim::Return":
            return "results", _shortened(", ".join(f"%{v.name}" for v in node.inputs))
        names = ", ".join(f"%{v.name}" for v in node.outputs)
        return node.kind, _shortened(_owner(node) or names)

    def drawing(self, id: str, title: str) -> Drawing:
        widths = [sum(self.size[v] for v in layer) + _GAP_X * (len(layer) - 1) for layer in self.layers]
        width = max(widths) + 2 * _MARGIN
        places: dict[_Vertex, tuple[int, int]] = {}
        for number, layer in enumerate(self.layers):
            x = (width - widths[number]) // 2
            for v in layer:
                places[v] = (x, _MARGIN + number * (_HEIGHT + _GAP_Y))
                x += self.size[v] + _GAP_X
        height = 2 * _MARGIN + len(self.layers) * (_HEIGHT + _GAP_Y) - _GAP_Y
        boxes = [self._box(v, *places[v]) for v in self.nodes]
        return Drawing(id, title, width, height, boxes, [self._path(places, *link) for link in self.links])

    def _box(self, v: _Vertex, x: int, y: int) -> Box:
        node = self.nodes[v]
        kind = "edge" if node.kind in ("prim::Param", "prim::Return") else "holder" if node.blocks else "node"
        opens = f"{self.ids[node]}-0" if node.blocks else ""
        return Box(x, y, self.size[v], *self._texts(node), *self.sources.place(node.range), kind, opens)

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


def _read_by(node: Node) -> Iterable[Value]:
    """What a node uses, itself or in its blocks."""
    yield from node.inputs
    for block in node.blocks:
        for inner in block.nodes:
            yield from _read_by(inner)
        yield from block.outputs


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
