"""Graphs by PyTorch's names: what tests and tools written for `torch._C.Graph` ask of graphs, nodes, values and types.

A view holds one of jitlite's objects and answers with views. Two views of one object are equal. Where PyTorch has a
method that jitlite has too, under the same name, the view hands it on.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.ops import INT_CODES
from jitlite.ir.types import Type
from jitlite.passes.alias import AliasDb
from jitlite.script_function import graph_views

_new_symbols = itertools.count(1_000_000)
"""Symbols are numbered from here on, so that they are none that a graph has already."""


def new_symbol() -> int:
    """A size that equals no other: a negative number, as PyTorch has it."""
    return -next(_new_symbols)


class View:
    """A view of one object."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(self.inner)

    def __str__(self) -> str:
        return str(self.inner)

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def inner(seen: Any) -> Any:
    """What a view is of; anything else itself."""
    return seen.inner if isinstance(seen, View) else seen


# -- types


class TypeView(View):
    """A type."""

    inner: Type

    def kind(self) -> str:
        found = type(self.inner).__name__
        name: str = getattr(self.inner, "name", "") if isinstance(self.inner, T.SimpleType) else found
        return f"{name[:1].upper()}{name[1:]}{'' if name.endswith('Type') else 'Type'}"

    @property
    def annotation_str(self) -> str:
        return self.inner.annotation

    def str(self) -> str:
        return str(self.inner)

    def isSubtypeOf(self, other: Any) -> bool:
        return T.is_subtype(self.inner, inner(other))

    def containedTypes(self) -> list[TypeView]:
        return [view_type(t) for t in self.inner.contained]

    def elements(self) -> list[TypeView]:
        return self.containedTypes()

    def getElementType(self) -> TypeView:
        return view_type(self.inner.contained[0])


class TensorTypeView(TypeView):
    """A tensor type. Sizes that are not known are None, or negative numbers where they are symbols."""

    inner: T.TensorType

    @staticmethod
    def get() -> TensorTypeView:
        return TensorTypeView(T.TENSOR)

    @staticmethod
    def create_from_tensor(tensor: torch.Tensor) -> TensorTypeView:
        return TensorTypeView(T.TensorType.from_tensor(tensor))

    def dim(self) -> int | None:
        return None if self.inner.sizes is None else len(self.inner.sizes)

    def dtype(self) -> torch.dtype | None:
        return self.inner.dtype

    def scalarType(self) -> str | None:
        return None if self.inner.dtype is None else T.DTYPE_NAMES[self.inner.dtype]

    def device(self) -> torch.device | None:
        return self.inner.device

    def requires_grad(self) -> bool:
        return self.inner.requires_grad is not False

    def requiresGrad(self) -> bool | None:
        return self.inner.requires_grad

    def sizes(self) -> list[int] | None:
        """The sizes, if all are known."""
        return _complete(self.inner.sizes)

    def strides(self) -> list[int] | None:
        return _complete(self.inner.strides)

    def varyingSizes(self) -> list[int | None] | None:
        return None if self.inner.sizes is None else list(self.inner.sizes)

    def symbolic_sizes(self) -> list[int] | None:
        sizes = self.inner.sizes
        if sizes is None:
            return None
        symbols = self.inner.symbols or (None,) * len(sizes)
        return [s if s is not None else -n if n else new_symbol() for s, n in zip(sizes, symbols, strict=True)]

    def with_sizes(self, sizes: Sequence[int | None] | None) -> TensorTypeView:
        if sizes is None:
            return self._with(sizes=None, strides=None, symbols=None)
        numbers = [new_symbol() if s is None else s for s in sizes]
        known = [n if n >= 0 else None for n in numbers]
        return self._with(sizes=known, strides=None, symbols=[-n if n < 0 else None for n in numbers])

    def with_device(self, device: torch.device | None) -> TensorTypeView:
        return self._with(device=device)

    def with_dtype(self, dtype: torch.dtype | None) -> TensorTypeView:
        return self._with(dtype=dtype)

    def _with(self, **changes: Any) -> TensorTypeView:
        names = ("dtype", "sizes", "strides", "device", "requires_grad", "symbols")
        return TensorTypeView(T.TensorType.of(**{n: getattr(self.inner, n) for n in names} | changes))


def _complete(numbers: tuple[int | None, ...] | None) -> list[int] | None:
    known = [n for n in numbers or () if n is not None]
    return None if numbers is None or len(known) != len(numbers) else known


class _OfSimple(type):
    """The class of the views of one type."""

    simple: ClassVar[Type]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(inner(instance), Type) and inner(instance) is cls.simple

    def get(cls) -> TypeView:
        return view_type(cls.simple)


class _OfMade(type):
    """The class of the views of types made with one constructor."""

    made: ClassVar[type]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(inner(instance), cls.made)

    def __call__(cls, *parts: Any) -> TypeView:
        given = [list(map(inner, p)) if isinstance(p, list | tuple) else inner(p) for p in parts]
        return view_type(cls.made.of(*given))  # type: ignore[attr-defined]


_SIMPLE = {
    "IntType": T.INT, "FloatType": T.FLOAT, "BoolType": T.BOOL, "StringType": T.STRING, "NoneType": T.NONE,
    "ComplexType": T.COMPLEX, "NumberType": T.NUMBER, "AnyType": T.ANY, "DeviceObjType": T.DEVICE,
    "StreamObjType": T.STREAM, "PyObjectType": T.PY_OBJECT,
}  # fmt: skip
_MADE = {
    "ListType": T.ListType, "DictType": T.DictType, "TupleType": T.TupleType, "OptionalType": T.OptionalType,
    "UnionType": T.UnionType, "ClassType": T.ClassType, "InterfaceType": T.InterfaceType, "EnumType": T.EnumType,
    "FutureType": T.FutureType, "AwaitType": T.AwaitType, "RRefType": T.RRefType,
}  # fmt: skip

TYPES: dict[str, type] = {
    "TensorType": TensorTypeView,
    **{name: _OfSimple(name, (), {"simple": t}) for name, t in _SIMPLE.items()},
    **{name: _OfMade(name, (), {"made": t}) for name, t in _MADE.items()},
}
"""Classes of types by their names in `torch._C`."""


def view_type(t: Any) -> TypeView:
    return TensorTypeView(inner(t)) if isinstance(inner(t), T.TensorType) else TypeView(inner(t))


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
    Graph: GraphView, Node: NodeView, Value: ValueView, Block: BlockView, Type: view_type,
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
