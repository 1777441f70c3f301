"""Graphs by PyTorch's names: what tests and tools written for `torch._C.Graph` ask of graphs.

A view holds one of jitlite's objects and answers with views. Two views of one object are equal. Where PyTorch has a
method that jitlite has too, under the same name, the view hands it on.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from jitlite.analysis.alias import AliasDb
from jitlite.compat.torch_nodes import BlockView, NodeView, ValueView
from jitlite.compiler.program import showing_graphs_as
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.printer import shows_ranges
from jitlite.objects.torch_types import View, unwrap, wrap


class AliasDbView(View):
    """An alias analysis."""

    inner: AliasDb

    def __init__(self, inner: AliasDb, graph: Graph) -> None:
        super().__init__(inner)
        self.graph = graph

    def may_contain_alias(self, a: object, b: object) -> bool:
        return self.inner.may_contain_alias(unwrap(a), unwrap(b))

    def has_writers(self, value: object) -> bool:
        return self.inner.has_writers(unwrap(value))

    def __str__(self) -> str:
        lines = [f"%{v.name} may be %{w.name}" for v, w in self._pairs()]
        return "\n".join([*(f"%{v.name} may be WILDCARD" for v in self._inputs()), *lines, ""])

    def dump(self) -> None:
        """Print what may be what."""
        print(self)

    def to_graphviz_str(self) -> str:
        """The same in the language DOT."""
        edges = [(v.name, "WILDCARD") for v in self._inputs()] + [(v.name, w.name) for v, w in self._pairs()]
        return "\n".join(["digraph alias_db {", *(f'  "{a}" -> "{b}"' for a, b in edges), "}"])

    def _inputs(self) -> list[Value]:
        return [v for v in self.graph.inputs if T.is_mutable(v.type)]

    def _pairs(self) -> list[tuple[Value, Value]]:
        """The values that may be the same object, each pair once."""
        made = [v for node in self.graph.all_nodes() for v in node.outputs]
        values = [v for v in (*self.graph.inputs, *made) if T.is_mutable(v.type)]
        return [(v, w) for i, w in enumerate(values) for v in values[:i] if self.inner.may_alias(v, w)]

    def move_after_topologically_valid(self, node: object, target: object) -> bool:
        """Move a node, and what must come along, right after another one, if that is allowed."""
        return self.inner.move_after(unwrap(node), unwrap(target))

    def move_before_topologically_valid(self, node: object, target: object) -> bool:
        """Move a node, and what must come along, right before another one, if that is allowed."""
        return self.inner.move_before(unwrap(node), unwrap(target))


class GraphView(View, of=Graph):
    """A graph."""

    inner: Graph

    def __init__(self, inner: Graph | None = None) -> None:
        super().__init__(Graph() if inner is None else inner)

    @property
    def _block(self) -> BlockView:
        return BlockView(self.inner.block)

    def nodes(self) -> Iterator[NodeView]:
        return self._block.nodes()

    def inputs(self) -> Iterator[ValueView]:
        return self._block.inputs()

    def outputs(self) -> Iterator[ValueView]:
        return self._block.outputs()

    def findNode(self, kind: str, recurse: bool = True) -> NodeView | None:
        return self._block.findNode(kind, recurse)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[NodeView]:
        return self._block.findAllNodes(kind, recurse)

    def alias_db(self, isFrozen: bool = False, descend_function_calls: bool = False) -> AliasDbView:
        """What may alias what; the options of torch's analysis make no difference."""
        return AliasDbView(AliasDb(self.inner), self.inner)

    def param_node(self) -> NodeView:
        return self._block.paramNode()

    def return_node(self) -> NodeView:
        return self._block.returnNode()

    def copy(self) -> GraphView:
        return GraphView(self.inner.copy())

    def str(self, print_source_ranges: bool = True) -> builtins.str:
        return self.inner.to_text(ranges=print_source_ranges, examples=True)

    def __str__(self) -> builtins.str:
        return self.str(shows_ranges())

    def lint(self) -> None:
        """PyTorch's check of its own invariants; jitlite's verifier runs where it is asked for."""

    def block(self) -> BlockView:
        return self._block

    def createClone(self, node: object, of_value: Callable[[ValueView], object]) -> NodeView:
        """A copy, not placed yet, of a node of any graph; `of_value` gives the input for each of its inputs."""
        found: Node = unwrap(node)
        return NodeView(self.inner.clone_node(found, {v: unwrap(of_value(ValueView(v))) for v in found.inputs}))

    # -- building
    def insertPoint(self) -> NodeView:
        """New nodes go before this one."""
        return NodeView(self.inner.insert_point)

    def setInsertPoint(self, place: object) -> None:
        """New nodes go before this node, or to the end of this block."""
        found = unwrap(place)
        self.inner.insert_point = found.return_node if isinstance(found, Block) else found

    def insertNode(self, node: object) -> NodeView:
        return NodeView(unwrap(node).insert_before(self.inner.insert_point))

    def appendNode(self, node: object) -> NodeView:
        return NodeView(self.inner.block.append(unwrap(node)))

    def prependNode(self, node: object) -> NodeView:
        return NodeView(self.inner.block.prepend(unwrap(node)))

    def insert(self, kind: builtins.str, inputs: Sequence[object] = ()) -> ValueView:
        """Insert a call of an operator; gives its result.

        Raises:
            CompileError: no overload takes such inputs.
        """
        return ValueView(self.inner.insert(kind, map(unwrap, inputs), [T.TENSOR]).output)

    def addInput(self, name: builtins.str = "") -> ValueView:
        return ValueView(self.inner.add_input(name=name or None))

    def permuteInputs(self, order: Sequence[int]) -> None:
        self.inner.block.param_node.permute_outputs([int(i) for i in order])

    def insert_point_guard(self, place: object) -> AbstractContextManager[None]:
        """What is inserted within the `with` goes before a node, or to the end of a block."""
        found, graph = unwrap(place), self.inner
        if isinstance(found, Block):
            at_end: AbstractContextManager[None] = graph.inserting_at_end(found)
            return at_end
        return graph.inserting_before(found)

    def insertConstant(self, value: object) -> ValueView:
        return ValueView(self.inner.insert_constant(value))

    def create(self, kind: builtins.str, inputs: Sequence[object] = (), outputs: int = 1) -> NodeView:
        """A node that is not placed yet.

        Raises:
            ValueError: an input is no value.
        """
        given = [unwrap(v) for v in inputs]
        if not all(isinstance(v, Value) for v in given):
            raise ValueError(f"the inputs of a node are values, not {list(inputs)}")
        return NodeView(self.inner.create(kind, given, [T.TENSOR] * outputs))

    def insertGraph(self, callee: object, arguments: Sequence[object]) -> list[ValueView]:
        """Insert what another graph computes of these arguments."""
        return [ValueView(v) for v in self.inner.inline_call(unwrap(callee), [unwrap(a) for a in arguments])]

    def eraseInput(self, index: int) -> None:
        self.inner.block.erase_input(index)

    def eraseOutput(self, index: int) -> None:
        self.inner.block.erase_output(index)

    def registerOutput(self, value: object) -> int:
        return self.inner.add_output(unwrap(value))

    def makeMultiOutputIntoTuple(self) -> None:
        """Let the graph give one tuple of what it gives, unless that is one value."""
        graph, results = self.inner, list(self.inner.outputs)
        if len(results) == 1:
            return
        with graph.inserting_at_end(graph.block):
            made = graph.insert("prim::TupleConstruct", results, [T.TupleType.of(v.type for v in results)])
        for _ in results:
            graph.block.erase_output(0)
        graph.add_output(made.output)


# -- names


def with_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, taking views and giving them. What it compiles shows its graphs as views, always."""

    @functools.wraps(function)
    def called(*args: object, **kwargs: object) -> Any:
        with views_shown():
            return wrap(function(*map(unwrap, args), **{name: unwrap(value) for name, value in kwargs.items()}))

    return called


@contextmanager
def views_shown() -> Iterator[None]:
    """Inside, what this thread compiles is made to show its graphs as views, always."""
    with showing_graphs_as(GraphView):
        yield
