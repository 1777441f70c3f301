"""Graphs by PyTorch's names: what tests and tools written for `torch._C.Graph` ask of graphs, nodes, values and types.

A view holds one of jitlite's objects and answers with views. Two views of one object are equal. Where PyTorch has a
method that jitlite has too, under the same name, the view hands it on.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.ops import INT_CODES
from jitlite.ir.schema import Schema, parse_schema
from jitlite.ir.types import Type
from jitlite.passes.alias import AliasDb
from jitlite.script_function import graph_views
from jitlite.torch_schemas import SchemaView
from jitlite.torch_types import TYPES, TypeView, View, inner, new_symbol, view_type

__all__ = ["TYPES", "GraphView", "TorchNames", "inner", "new_symbol", "outer"]


# -- values, nodes, blocks


class ValueView(View):
    """A value."""

    inner: Value

    def type(self) -> TypeView:
        return view_type(self.inner.type)

    def setType(self, t: Any) -> ValueView:
        self.inner.type = inner(t)
        return self

    def node(self) -> NodeView:
        return NodeView(self.inner.node)

    def debugName(self) -> str:
        return self.inner.name

    def setDebugName(self, name: str) -> ValueView:
        self.inner.set_name(name)
        return self

    def unique(self) -> int:
        return self.inner.id

    def offset(self) -> int:
        return self.inner.offset

    def toIValue(self) -> Any:
        """The value of a constant, None of anything else."""
        value = constant_of(self.inner, None)
        return INT_CODES[value] if isinstance(value, torch.dtype | torch.layout | torch.memory_format) else value

    def uses(self) -> list[UseView]:
        return [UseView(use) for use in self.inner.uses]

    def hasUses(self) -> bool:
        return self.inner.has_uses

    def isCompleteTensor(self) -> bool:
        t = self.inner.type
        return isinstance(t, T.TensorType) and None not in (t.dtype, t.device, t.sizes, t.strides)

    def requires_grad(self) -> bool:
        t = self.inner.type
        return not isinstance(t, T.TensorType) or t.requires_grad is not False

    def replaceAllUsesWith(self, other: Any) -> None:
        self.inner.replace_all_uses_with(inner(other))


class UseView(View):
    """Where a value is used."""

    @property
    def user(self) -> NodeView:
        return NodeView(self.inner.user)

    @property
    def offset(self) -> int:
        return int(self.inner.offset)

    def isAfter(self, other: Any) -> bool:
        mine, others = self.inner, inner(other)
        return bool(mine.offset > others.offset if mine.user is others.user else mine.user.is_after(others.user))


class NodeView(View):
    """A node."""

    inner: Node

    def kind(self) -> str:
        return self.inner.kind

    def inputs(self) -> Iterator[ValueView]:
        return iter([ValueView(v) for v in self.inner.inputs])

    def outputs(self) -> Iterator[ValueView]:
        return iter([ValueView(v) for v in self.inner.outputs])

    def input(self) -> ValueView:
        return ValueView(self.inner.input)

    def output(self) -> ValueView:
        return ValueView(self.inner.output)

    def inputsAt(self, index: int) -> ValueView:
        return ValueView(self.inner.inputs[index])

    def outputsAt(self, index: int) -> ValueView:
        return ValueView(self.inner.outputs[index])

    def inputsSize(self) -> int:
        return len(self.inner.inputs)

    def outputsSize(self) -> int:
        return len(self.inner.outputs)

    def namedInput(self, name: str) -> ValueView:
        return ValueView(self.inner.named_input(name))

    def replaceInput(self, index: int, value: Any) -> None:
        self.inner.replace_input(index, inner(value))

    def blocks(self) -> Iterator[BlockView]:
        return iter([BlockView(b) for b in self.inner.blocks])

    def owningBlock(self) -> BlockView | None:
        return None if self.inner.block is None else BlockView(self.inner.block)

    def next(self) -> NodeView | None:
        return None if self.inner.next is None else NodeView(self.inner.next)

    def prev(self) -> NodeView | None:
        return None if self.inner.prev is None else NodeView(self.inner.prev)

    def hasAttribute(self, name: str) -> bool:
        return name in self.inner.attributes

    def attributeNames(self) -> list[str]:
        return list(self.inner.attributes)

    def hasUses(self) -> bool:
        return any(v.has_uses for v in self.inner.outputs)

    def schema(self) -> str:
        return "(no schema)" if self.inner.op is None else str(self.inner.op.schema)

    def matches(self, schema: str) -> bool:
        """Is it a call of the operator of this schema?"""
        return self.inner.op is not None and self.inner.op.schema.key == parse_schema(schema).key

    def sourceRange(self) -> str:
        return "" if self.inner.range is None else self.inner.range.excerpt()

    def scopeName(self) -> str:
        return self.inner.scope

    def findNode(self, kind: str, recurse: bool = True) -> NodeView | None:
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[NodeView]:
        return [n for b in self.blocks() for n in b.findAllNodes(kind, recurse)]

    def _attribute(self, name: str) -> Any:
        value = self.inner.attributes[name]
        return GraphView(value) if isinstance(value, Graph) else value

    i = f = s = t = g = ty = ival = is_ = fs = ss = ts = gs = _attribute


class BlockView(View):
    """A block."""

    inner: Block

    def nodes(self) -> Iterator[NodeView]:
        return (NodeView(n) for n in self.inner.nodes)

    def inputs(self) -> Iterator[ValueView]:
        return iter([ValueView(v) for v in self.inner.inputs])

    def outputs(self) -> Iterator[ValueView]:
        return iter([ValueView(v) for v in self.inner.outputs])

    def paramNode(self) -> NodeView:
        return NodeView(self.inner.param_node)

    def returnNode(self) -> NodeView:
        return NodeView(self.inner.return_node)

    def findNode(self, kind: str, recurse: bool = True) -> NodeView | None:
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[NodeView]:
        found = []
        for node in self.inner.nodes:
            found += [NodeView(node)] if node.kind == kind else []
            for block in node.blocks if recurse else ():
                found += BlockView(block).findAllNodes(kind)
        return found


class AliasDbView(View):
    """An alias analysis."""

    inner: AliasDb

    def may_contain_alias(self, a: Any, b: Any) -> bool:
        return self.inner.may_contain_alias(inner(a), inner(b))

    def has_writers(self, value: Any) -> bool:
        return self.inner.has_writers(inner(value))


class GraphView(View):
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
        return AliasDbView(AliasDb(self.inner))

    def param_node(self) -> NodeView:
        return self._block.paramNode()

    def return_node(self) -> NodeView:
        return self._block.returnNode()

    def copy(self) -> GraphView:
        return GraphView(self.inner.copy())

    def str(self, print_source_ranges: bool = True) -> str:
        return self.inner.to_text(ranges=print_source_ranges)

    def lint(self) -> None:
        """PyTorch's check of its own invariants; jitlite's verifier runs where it is asked for."""

    # -- building
    def addInput(self, name: builtins.str = "") -> ValueView:
        return ValueView(self.inner.add_input(name=name or None))

    def permuteInputs(self, order: Sequence[int]) -> None:
        self.inner.block.param_node.permute_outputs([int(i) for i in order])

    def insert_point_guard(self, place: Any) -> AbstractContextManager[None]:
        """What is inserted within the `with` goes before a node, or to the end of a block."""
        found, graph = inner(place), self.inner
        if isinstance(found, Block):
            at_end: AbstractContextManager[None] = graph.inserting_at_end(found)
            return at_end
        return graph.inserting_before(found)

    def insertConstant(self, value: Any) -> ValueView:
        return ValueView(self.inner.insert_constant(value))

    def create(self, kind: builtins.str, inputs: Sequence[Any] = (), outputs: int = 1) -> NodeView:
        """A node that is not placed yet.

        Raises:
            ValueError: an input is no value.
        """
        given = [inner(v) for v in inputs]
        if not all(isinstance(v, Value) for v in given):
            raise ValueError(f"the inputs of a node are values, not {list(inputs)}")
        return NodeView(self.inner.create(kind, given, [T.TENSOR] * outputs))

    def insertGraph(self, callee: Any, arguments: Sequence[Any]) -> list[ValueView]:
        """Insert what another graph computes of these arguments."""
        return [ValueView(v) for v in self.inner.inline_call(inner(callee), [inner(a) for a in arguments])]

    def eraseInput(self, index: int) -> None:
        self.inner.block.erase_input(index)

    def registerOutput(self, value: Any) -> int:
        return self.inner.add_output(inner(value))

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


def outer(found: Any) -> Any:
    """A graph, node or value as a view; a list of such as a list of views; anything else itself."""
    if isinstance(found, list | tuple) and type(found) in (list, tuple):
        return type(found)(map(outer, found))
    kind = next((v for k, v in _VIEWS.items() if isinstance(found, k)), None)
    return found if kind is None else kind(found)


_VIEWS: dict[type, Callable[[Any], View]] = {
    Graph: GraphView, Node: NodeView, Value: ValueView, Block: BlockView, Type: view_type, Schema: SchemaView,
}  # fmt: skip


def for_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, taking views and giving them."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return outer(function(*map(inner, args), **{name: inner(value) for name, value in kwargs.items()}))

    return called


class TorchNames(dict[str, Any]):
    """A table of names of PyTorch, for those who look things up there: functions take views and give them.

    Who has looked up how to compile something is shown views of graphs from then on, everywhere in the process.
    """

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if name in _COMPILE and not graph_views:
            graph_views.append(GraphView)
        if isinstance(found, type):
            return _CLASSES.get(found, found)
        is_of_graphs = name.startswith(("torch._C.", "torch.jit._passes."))
        return for_views(found) if is_of_graphs and callable(found) else found


_COMPILE = frozenset(f"torch.jit.{name}" for name in ("script", "ScriptModule", "CompilationUnit", "freeze", "trace"))
_CLASSES: dict[type, type] = {Graph: GraphView, Node: NodeView, Value: ValueView, Block: BlockView}
