"""Values, nodes and blocks by PyTorch's names: what tools written for `torch._C.Node` and the like ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.int_codes import INT_CODES, INT_OBJECTS
from jitlite.ir.ops import Effect
from jitlite.ir.schema import parse_schema
from jitlite.ir.types import Type
from jitlite.objects.torch_types import TypeView, View, unwrap, view_type, wrap


class ValueView(View, of=Value):
    """A value."""

    inner: Value

    @property
    def _shown_type(self) -> T.Type:
        """The type; of a tensor of which nothing is known, that of the one that was there when it was traced."""
        found = self.inner.type
        return (self.inner.example_type or found) if found is T.TENSOR else found

    def type(self) -> TypeView:
        """The type; in a trace, of a tensor all about the one that was there when it was recorded."""
        return view_type(self._shown_type)

    def setType(self, t: object) -> ValueView:
        self.inner.type, self.inner.example_type = unwrap(t), None
        return self

    def setTypeAs(self, other: object) -> ValueView:
        self.inner.type, self.inner.example_type = unwrap(other).type, unwrap(other).example_type
        return self

    def inferTypeFrom(self, tensor: torch.Tensor) -> None:
        """Take on the type that says all about a tensor."""
        self.inner.type = T.TensorType.from_tensor(tensor)

    def copyMetadata(self, other: object) -> ValueView:
        """Take on the name and the type of another value."""
        self.inner.copy_metadata(unwrap(other))
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
        if isinstance(value, str):
            return str(value)
        return INT_CODES[value] if isinstance(value, INT_OBJECTS) else value

    def uses(self) -> list[UseView]:
        return [UseView(use) for use in self.inner.uses]

    def hasUses(self) -> bool:
        return self.inner.has_uses

    def isCompleteTensor(self) -> bool:
        t = self._shown_type
        return isinstance(t, T.TensorType) and None not in (t.dtype, t.device, t.sizes, t.strides)

    def requires_grad(self) -> bool:
        t = self._shown_type
        return not isinstance(t, T.TensorType) or t.requires_grad is not False

    def requiresGrad(self) -> bool | None:
        """Does the tensor require grad? None if that is not known."""
        t = self._shown_type
        return t.requires_grad if isinstance(t, T.TensorType) else None

    def replaceAllUsesWith(self, other: object) -> None:
        self.inner.replace_all_uses_with(unwrap(other))

    def replaceAllUsesAfterNodeWith(self, node: object, other: object) -> None:
        self.inner.replace_uses_after(unwrap(node), unwrap(other))


class UseView(View):
    """Where a value is used."""

    @property
    def user(self) -> NodeView:
        return NodeView(self.inner.user)

    @property
    def offset(self) -> int:
        return int(self.inner.offset)

    def isAfter(self, other: object) -> bool:
        mine, others = self.inner, unwrap(other)
        return bool(mine.offset > others.offset if mine.user is others.user else mine.user.is_after(others.user))


# -- attributes of nodes

_ELEMENT_KINDS = {int: "is", float: "fs", complex: "cs", str: "ss", torch.Tensor: "ts", Graph: "gs"}


def _kind_of(node: Node, name: str) -> str:
    """The letters by which PyTorch calls the kind of an attribute: `i` of an int, `fs` of a list of floats ...

    Raises:
        RuntimeError: the node has no such attribute.
    """
    if name not in node.attributes:
        raise RuntimeError(f"required keyword attribute '{name}' is undefined")
    value = node.attributes[name]
    if isinstance(value, list | tuple) and node.kind != "prim::Constant":
        if all(isinstance(v, Type) for v in value) and value:
            return "tys"
        return next((k for t, k in _ELEMENT_KINDS.items() if all(isinstance(v, t) for v in value)), "ival")
    kinds: list[tuple[Any, str]] = [
        ((int, *INT_OBJECTS), "i"), (float, "f"), (complex, "c"), (str | torch.device, "s"),
        (torch.Tensor, "t"), (Graph, "g"), (Type, "ty"),
    ]  # fmt: skip
    return next((k for t, k in kinds if isinstance(value, t)), "ival")


def _as_torch_keeps(value: object) -> Any:
    """An attribute as PyTorch keeps it: dtypes and bools as ints, devices as text, graphs and types as views."""
    if isinstance(value, INT_OBJECTS):
        return INT_CODES[value]
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, torch.device | str):  # a class's name may carry the class
        return str(value)
    return list(map(_as_torch_keeps, value)) if isinstance(value, list | tuple) else wrap(value)


def _reader(kind: str) -> Callable[[NodeView, str], Any]:
    def read(self: NodeView, name: str) -> Any:
        found, value = _kind_of(self.inner, name), self.inner.attributes.get(name)
        if kind == "ival" and found != "g":
            return value
        if found != kind and not (value == [] and kind.endswith("s")):
            raise RuntimeError(f"required keyword attribute '{name}' has the wrong type")
        return _as_torch_keeps(value)

    read.__doc__ = f"The attribute of kind `{kind}` of this name."
    return read


def _writer(self: NodeView, name: str, value: object) -> NodeView:
    """Set an attribute."""
    self.inner.attributes[name] = list(map(unwrap, value)) if isinstance(value, list) else unwrap(value)
    return self


class NodeView(View, of=Node):
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

    def namedInput(self, name: str) -> ValueView:
        """The input for the parameter of this name.

        Raises:
            RuntimeError: the operator has no such parameter, or the node is no operator's.
        """
        position = None if self.inner.op is None else self.inner.op.schema.argument_index(name)
        if position is None:
            raise RuntimeError(f"{self.inner.kind} has no parameter named {name}")
        return ValueView(self.inner.inputs[position])

    def inputsSize(self) -> int:
        return len(self.inner.inputs)

    def outputsSize(self) -> int:
        return len(self.inner.outputs)

    def blocks(self) -> Iterator[BlockView]:
        return iter([BlockView(b) for b in self.inner.blocks])

    def owningBlock(self) -> BlockView | None:
        return None if self.inner.block is None else BlockView(self.inner.block)

    def next(self) -> NodeView | None:
        return None if self.inner.next is None else NodeView(self.inner.next)

    def prev(self) -> NodeView | None:
        return None if self.inner.prev is None else NodeView(self.inner.prev)

    def isBefore(self, other: object) -> bool:
        return self.inner.is_before(unwrap(other))

    def isAfter(self, other: object) -> bool:
        return self.inner.is_after(unwrap(other))

    def hasUses(self) -> bool:
        return any(v.has_uses for v in self.inner.outputs)

    def hasMultipleOutputs(self) -> bool:
        return len(self.inner.outputs) > 1

    def mustBeNone(self) -> bool:
        """Is it the constant None?"""
        return self.inner.kind == "prim::Constant" and self.inner.output.type is T.NONE

    def isNondeterministic(self) -> bool:
        """Does it draw random numbers?"""
        return self.inner.op is not None and self.inner.op.effect is Effect.RANDOM

    def schema(self) -> str:
        return "(no schema)" if self.inner.op is None else str(self.inner.op.schema)

    def matches(self, schema: str) -> bool:
        """Is it a call of the operator of this schema? The name of the overload may be left out."""
        op, wanted = self.inner.op, parse_schema(schema)
        if op is None or op.schema.name != wanted.name or wanted.overload not in ("", op.schema.overload):
            return False
        own, theirs = ([a.type_text() for a in (*s.arguments, *s.returns)] for s in (op.schema, wanted))
        return own == theirs

    def sourceRange(self) -> str:
        return "" if self.inner.range is None else self.inner.range.excerpt()

    def scopeName(self) -> str:
        return self.inner.scope

    def getModuleHierarchy(self) -> str:
        """The submodules whose calls inlining has removed around the node. They are not kept: always empty."""
        return ""

    def pyname(self) -> str:
        """The name of the Python function that the node calls.

        Raises:
            RuntimeError: it calls none.
        """
        if self.inner.kind.startswith("^"):
            return self.inner.kind[1:]
        raise RuntimeError(f"expected a call of a Python function but found {self.inner.kind}")

    def findNode(self, kind: str, recurse: bool = True) -> NodeView | None:
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[NodeView]:
        return [n for b in self.blocks() for n in b.findAllNodes(kind, recurse)]

    # -- changing it
    def addInput(self, value: object) -> ValueView:
        return ValueView(self.inner.add_input(unwrap(value)))

    def replaceInput(self, index: int, value: object) -> ValueView:
        """Use another value as an input; gives the one used so far."""
        return ValueView(self.inner.replace_input(index, unwrap(value)))

    def replaceInputWith(self, old: object, new: object) -> None:
        self.inner.replace_input_with(unwrap(old), unwrap(new))

    def removeInput(self, index: int) -> None:
        self.inner.remove_input(index)

    def removeAllInputs(self) -> None:
        self.inner.remove_all_inputs()

    def addOutput(self) -> ValueView:
        return ValueView(self.inner.add_output())

    def eraseOutput(self, index: int) -> None:
        self.inner.erase_output(index)

    def addBlock(self) -> BlockView:
        return BlockView(self.inner.add_block())

    def replaceAllUsesWith(self, other: object) -> None:
        self.inner.replace_all_uses_with(unwrap(other))

    def insertBefore(self, place: object) -> NodeView:
        return NodeView(self.inner.insert_before(unwrap(place)))

    def insertAfter(self, place: object) -> NodeView:
        return NodeView(self.inner.insert_after(unwrap(place)))

    def moveBefore(self, place: object) -> None:
        self.inner.move_before(unwrap(place))

    def moveAfter(self, place: object) -> None:
        self.inner.move_after(unwrap(place))

    def copyMetadata(self, other: object) -> NodeView:
        """Take on the place in the source and the scope of another node."""
        found = unwrap(other)
        self.inner.range, self.inner.scope, self.inner.call_stack = found.range, found.scope, found.call_stack
        return self

    # -- attributes
    def hasAttribute(self, name: str) -> bool:
        return name in self.inner.attributes

    def hasAttributes(self) -> bool:
        return bool(self.inner.attributes)

    def attributeNames(self) -> list[str]:
        return list(self.inner.attributes)

    def removeAttribute(self, name: str) -> NodeView:
        self.inner.attributes.pop(name, None)
        return self

    def copyAttributes(self, other: object) -> NodeView:
        self.inner.attributes = dict(unwrap(other).attributes)
        return self

    def kindOf(self, name: str) -> str:
        """The kind of an attribute, which is the name of the method that reads it: `i`, `s`, `ty` ...

        Raises:
            RuntimeError: the node has no such attribute.
        """
        return _kind_of(self.inner, name)


for _kind in ("i", "f", "c", "s", "t", "g", "ty", "ival", "is", "fs", "ss", "ts", "gs", "tys"):
    setattr(NodeView, _kind, _reader(_kind))
    setattr(NodeView, f"{_kind}_", _writer)


class BlockView(View, of=Block):
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

    def owningNode(self) -> NodeView | None:
        """The node whose block it is, None of the block of a graph."""
        return None if self.inner.owner is None else NodeView(self.inner.owner)

    def findNode(self, kind: str, recurse: bool = True) -> NodeView | None:
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[NodeView]:
        found = []
        for node in self.inner.nodes:
            found += [NodeView(node)] if node.kind == kind else []
            for block in node.blocks if recurse else ():
                found += BlockView(block).findAllNodes(kind)
        return found

    # -- changing it
    def addInputToBlock(self) -> ValueView:
        return ValueView(self.inner.add_input())

    def registerOutput(self, value: object) -> int:
        return self.inner.add_output(unwrap(value))

    def addNode(self, kind: str, inputs: Sequence[object] = ()) -> NodeView:
        """Add a node with one output at the end."""
        made = self.inner.graph.create(kind, list(map(unwrap, inputs)), [T.TENSOR])
        return NodeView(self.inner.append(made))
