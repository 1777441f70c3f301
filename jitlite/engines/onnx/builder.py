"""An ONNX model in the making: nodes and initializers as data, without the package `onnx`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TypeAlias

import torch

from jitlite.base.records import Record
from jitlite.engines.converters import Converters, Ref, dtype_of_number
from jitlite.engines.engine import EngineRefusal

OPSET = 20

Attribute: TypeAlias = "int | float | str | Sequence[int] | OnnxGraph"
Operand = Ref | None


class OnnxNode(Record):
    """One node.

    Attributes:
        op: the name of the operator.
        inputs, outputs: names of values; "" for an input that is not given.
        attributes: by name.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]


class OnnxGraph(Record):
    """A graph within a node, which may use what is around it.

    Attributes:
        inputs, outputs: its parameters, and what it gives.
        nodes: in order.
    """

    inputs: Sequence[Ref]
    nodes: Sequence[OnnxNode]
    outputs: Sequence[Ref]


class OnnxBuilder(Record, frozen=False):
    """Collects nodes. Each method that adds some gives the `Ref` of their result."""

    nodes: list[OnnxNode] = field(default_factory=list)
    initializers: dict[str, torch.Tensor] = field(default_factory=dict)
    results: list[Ref] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    _outermost: list[OnnxNode] = field(default_factory=list)
    """The nodes around all graphs within nodes, while such a graph is written."""
    _inside: set[str] = field(default_factory=set)
    """Names of values of graphs within nodes."""
    _depth: int = 0
    _count: int = 0

    def new_name(self, wanted: str | None = None) -> str:
        """A name that no value has: the wanted one, or that with a number behind it."""
        name = wanted
        while not name or name in self.names:
            self._count += 1
            name = f"{wanted}_{self._count}" if wanted else f"v{self._count}"
        self.names.add(name)
        if self._depth:
            self._inside.add(name)
        return name

    def node(self, op: str, inputs: Sequence[Operand], dtype: torch.dtype, rank: int, **attributes: Attribute) -> Ref:
        """A node with one result."""
        return self.nodes_of(op, inputs, [(dtype, rank)], **attributes)[0]

    def nodes_of(
        self, op: str, inputs: Sequence[Operand], results: Sequence[tuple[torch.dtype, int]], **attributes: Attribute
    ) -> list[Ref]:
        """A node with several results, each of this dtype and rank."""
        made = [Ref(self.new_name(), dtype, rank) for dtype, rank in results]
        names = tuple("" if value is None else value.name for value in inputs)
        nodes = self.nodes
        if op == "Transpose" and self._depth and not self._inside.intersection(names):
            nodes = self._outermost  # once for all iterations; onnxruntime 1.32 loses it where it fuses it in a loop
            self._inside.difference_update(r.name for r in made)
        nodes.append(OnnxNode(op, names, tuple(r.name for r in made), attributes))
        return made

    def result(self, op: str, inputs: Sequence[Operand], **attributes: Attribute) -> Ref:
        """A node whose result is that of the operator which is converted."""
        return self.node(op, inputs, self.results[0].dtype, self.results[0].rank, **attributes)

    def like(self, op: str, x: Ref, **attributes: Attribute) -> Ref:
        """A node with one input, whose result has its dtype and rank."""
        return self.node(op, [x], x.dtype, x.rank, **attributes)

    def same(self, x: Ref) -> Ref:
        """The value under a name of its own."""
        return self.node("Identity", [x], x.dtype, x.rank)

    @contextmanager
    def nested(self) -> Iterator[list[OnnxNode]]:
        """Have nodes collected in a list of their own."""
        outer, self.nodes = self.nodes, []
        if not self._depth:
            self._outermost = outer
        self._depth += 1
        try:
            yield self.nodes
        finally:
            self.nodes = outer
            self._depth -= 1

    def operand_of(self, ref: Ref) -> Ref:
        """It is taken as it is."""
        return ref

    # -- constants and numbers
    def tensor(self, value: torch.Tensor, name: str | None = None) -> Ref:
        """A constant tensor."""
        name = self.new_name(name)
        self._inside.discard(name)  # initializers belong to the outermost graph
        self.initializers[name] = value.detach().cpu().resolve_neg().contiguous()
        return Ref(name, value.dtype, value.dim())

    def number(self, value: object) -> Ref:
        """A constant that the graph gives: a tensor, or a number as one without dimensions.

        Raises:
            EngineRefusal: it is neither.
        """
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        dtype = dtype_of_number(value)
        made = self.operand(value, dtype)
        return Ref(made.name, dtype, 0, True)

    def ints(self, values: Sequence[int | Ref]) -> Ref:
        """A list of ints as a tensor of one dimension; some of them may be known at run time only."""
        if all(isinstance(v, int) for v in values):
            return self.tensor(torch.tensor([v for v in values if isinstance(v, int)], dtype=torch.int64))
        parts = [self._as_list(v) for v in values]
        return self.node("Concat", parts, torch.int64, 1, axis=0) if len(parts) > 1 else parts[0]

    def _as_list(self, value: int | Ref) -> Ref:
        if isinstance(value, int):
            return self.tensor(torch.tensor([value], dtype=torch.int64))
        shape = self.tensor(torch.tensor([1], dtype=torch.int64))
        return self.node("Reshape", [value, shape], torch.int64, 1)

    def operand(self, value: object, dtype: torch.dtype) -> Ref:
        """A tensor or number, constant or not, as a tensor of this dtype.

        Raises:
            EngineRefusal: it is neither.
        """
        if isinstance(value, Ref):
            return self.cast(value, dtype)
        if isinstance(value, torch.Tensor):
            return self.tensor(value.to(dtype))
        if isinstance(value, bool | int | float):
            return self.tensor(torch.tensor(value, dtype=dtype))
        raise EngineRefusal(f"an operand is {type(value).__name__}")

    def cast(self, x: Ref, dtype: torch.dtype) -> Ref:
        """The value with another dtype."""
        if x.dtype is dtype:
            return x
        return self.node("Cast", [x], dtype, x.rank, to=element_type(dtype))

    def given(self, value: object) -> Ref:
        """A tensor, constant or not.

        Raises:
            EngineRefusal: it is none.
        """
        if isinstance(value, Ref):
            return value
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        raise EngineRefusal(f"an operand is {type(value).__name__}")

    def shape(self, x: Ref) -> Ref:
        """The sizes of a tensor."""
        return self.node("Shape", [x], torch.int64, 1)


_ELEMENT_TYPES = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.bool: 9,
    torch.float16: 10, torch.float64: 11, torch.bfloat16: 16,
}  # fmt: skip


def element_type(dtype: torch.dtype) -> int:
    """ONNX's number of a dtype.

    Raises:
        EngineRefusal: it has none.
    """
    found = _ELEMENT_TYPES.get(dtype)
    if found is None:
        raise EngineRefusal(f"ONNX has no {dtype}")
    return found


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, of a dtype that numpy has."""
    return tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor


CONVERTERS: Converters[OnnxBuilder] = Converters("ONNX", OnnxBuilder)
