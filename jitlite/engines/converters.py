"""Converters: how operators are written in the language of an engine, each said once.

    @CONVERTERS.of("aten::relu")
    def relu(out: Builder, x: Ref) -> Ref:
        return out.node("Relu", [x], like=x)

A converter gets a `Ref` for each argument that is known only at run time, the value of each that is a constant, and a
list of these where a list is built of parts. It raises `EngineRefusal` where it has no translation. So one function
answers both questions: may the node be in a group (its converter is run, and what it writes is thrown away), and what
is written for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Generic, Protocol, TypeVar

import torch

from jitlite.base.records import Record, replace
from jitlite.engines.engine import EngineRefusal
from jitlite.ir import types as T
from jitlite.ir.analysis import captured_values
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.types import TensorType


class Ref(Record, eq=True):
    """A value of the text that is written.

    Attributes:
        name: of the value.
        dtype: of a tensor; int64, float64 or bool of a number.
        rank: of a tensor; 0 of a number.
        is_number: is it an int, a float or a bool of the graph?
        sizes: of an operand that is not written yet; None for those that are not known.
    """

    name: str
    dtype: torch.dtype
    rank: int
    is_number: bool = False
    sizes: tuple[int | None, ...] = ()


class RefList(Ref, eq=True):
    """A list of tensors that an operator gives.

    Attributes:
        parts: the tensors.
    """

    parts: tuple[Ref, ...] = ()


Results = Ref | Sequence[Ref]


class Writer(Protocol):
    """What writes text. While a node is converted, `results` has what is known of its outputs."""

    results: list[Ref]

    def operand_of(self, ref: Ref) -> Ref:
        """What stands for an operand of which no more is known, while a converter is asked whether it can."""
        ...


class Blocks(Protocol):
    """The node with blocks that is converted."""

    @property
    def node(self) -> Node:
        """The node."""
        ...

    @property
    def arguments(self) -> Sequence[object]:
        """What its inputs are."""
        ...

    @property
    def results(self) -> Sequence[Ref]:
        """What is known of its outputs."""
        ...

    def write(self, block: Block, parameters: Sequence[Ref]) -> list[object]:
        """Write the nodes of a block; gives what it returns, as converters get arguments."""
        ...


BuilderT = TypeVar("BuilderT", bound=Writer)
ConverterT = TypeVar("ConverterT", bound=Callable[..., Results])


class Converters(Generic[BuilderT]):
    """The converters of one language.

    Args:
        language: its name, for messages.
        new_builder: makes a builder whose text nobody reads.
    """

    def __init__(self, language: str, new_builder: Callable[[], BuilderT]) -> None:
        self.language = language
        self._new_builder = new_builder
        self._by_kind: dict[str, Callable[..., Results]] = {}
        self._of_blocks: dict[str, Callable[[BuilderT, Blocks], Sequence[Ref]]] = {}

    def of(self, *kinds: str) -> Callable[[ConverterT], ConverterT]:
        """Declare the function to be the converter of operators of these kinds.

        Raises:
            ValueError: one of them has a converter.
        """

        def declare(function: ConverterT) -> ConverterT:
            for kind in kinds:
                if kind in self._by_kind:
                    raise ValueError(f"{kind} has a converter to {self.language}")
                self._by_kind[kind] = function
            return function

        return declare

    def of_blocks(
        self, kind: str
    ) -> Callable[[Callable[[BuilderT, Blocks], Sequence[Ref]]], Callable[[BuilderT, Blocks], Sequence[Ref]]]:
        """Declare the function to be the converter of nodes of this kind, which have blocks."""

        def declare(
            function: Callable[[BuilderT, Blocks], Sequence[Ref]],
        ) -> Callable[[BuilderT, Blocks], Sequence[Ref]]:
            self._of_blocks[kind] = function
            return function

        return declare

    @property
    def kinds(self) -> Mapping[str, Callable[..., Results]]:
        """All converters, by the kind of nodes."""
        return self._by_kind

    def why_not(self, node: Node, builder: BuilderT | None = None) -> str | None:
        """Why the node has no translation; None where it has one.

        Args:
            builder: writes the text, which nobody reads. A new one if not given.
        """
        if node.kind in (*LISTS, UNSET):
            return None
        try:
            self.convert(node, builder or self._new_builder(), {})
        except EngineRefusal as why:
            return str(why)
        return None

    def convert(self, node: Node, builder: BuilderT, values: dict[Value, Ref]) -> None:
        """Write a node, and say which `Ref` each of its outputs is.

        Raises:
            EngineRefusal: there is no translation.
        """
        if node.kind in (*LISTS, UNSET):
            return
        if node.kind == _UNPACK and node.input.node.kind in (*LISTS, *self._by_kind):
            self._unpack(node, builder, values)
            return
        if node.kind in self._of_blocks:
            given = self._of_blocks[node.kind](builder, _NestedBlocks(self, node, builder, values))
            values.update(zip(node.outputs, map(_as_typed, node.outputs, given), strict=True))
            return
        self._convert_operator(node, builder, values)

    def _convert_operator(self, node: Node, builder: BuilderT, values: dict[Value, Ref]) -> None:
        convert = self._by_kind.get(node.kind)
        if convert is None:
            raise EngineRefusal(f"{self.language} has no translation of it here")
        builder.results = [
            ref_of(output, "")
            for output in node.outputs
            if (output.has_uses or output is node.outputs[0]) and not _is_tensor_list(output.type)
        ]
        arguments = [_argument(value, values, builder) for value in node.inputs]
        try:
            signature(convert).bind(builder, *arguments)
        except TypeError:
            raise EngineRefusal("it has an argument that has no translation") from None
        found = convert(builder, *arguments)
        results = [found] if isinstance(found, Ref) else list(found)
        for output, result in zip(node.outputs, results, strict=False):
            values[output] = _as_typed(output, result)
        missing = node.outputs[len(results) :]
        if any(value.has_uses for value in missing):
            raise EngineRefusal("a result of it is used that has no translation")

    def _unpack(self, node: Node, builder: BuilderT, values: dict[Value, Ref]) -> None:
        """Say which `Ref` each tensor of a list is. Of a list that is not there yet it is asked whether it can be."""
        maker = node.input.node
        if maker.kind in LISTS:
            for output, part in zip(node.outputs, maker.inputs, strict=True):
                known = _argument(part, values, builder)
                if not isinstance(known, Ref):
                    raise EngineRefusal("it takes a list apart that has a constant in it")
                values[output] = known
            return
        if node.input not in values:
            self.convert(maker, builder, values)
        found = values[node.input]
        if not isinstance(found, RefList):
            raise EngineRefusal("it takes a list apart that is not known")
        values.update(zip(node.outputs, found.parts, strict=True))

    def write(self, graph: Graph, builder: BuilderT, values: dict[Value, Ref]) -> None:
        """Write all nodes of a graph.

        Args:
            values: what its inputs are.

        Raises:
            EngineRefusal: a node has no translation.
        """
        self.write_block(graph.block, builder, values)

    def write_block(self, block: Block, builder: BuilderT, values: dict[Value, Ref]) -> None:
        """Write the nodes of a block.

        Raises:
            EngineRefusal: a node has no translation.
        """
        for node in block.computations:
            self.convert(node, builder, values)


class _NestedBlocks(Generic[BuilderT]):
    """The blocks of a node. What they take from around them is one operand each, also while nothing is known of it."""

    def __init__(
        self, converters: Converters[BuilderT], node: Node, builder: BuilderT, values: dict[Value, Ref]
    ) -> None:
        self._converters, self._builder, self._values = converters, builder, values
        self._node = node
        for value in (*node.inputs, *captured_values(node)):
            if value not in values and not is_constant(value) and value.node.kind not in (*LISTS, UNSET):
                values[value] = builder.operand_of(ref_of(value, "?"))
        self._arguments: list[object] = [_argument(value, values, builder) for value in node.inputs]
        self._results = [ref_of(output, "") for output in node.outputs]

    @property
    def node(self) -> Node:
        return self._node

    @property
    def arguments(self) -> Sequence[object]:
        return self._arguments

    @property
    def results(self) -> Sequence[Ref]:
        return self._results

    def write(self, block: Block, parameters: Sequence[Ref]) -> list[object]:
        self._values.update(zip(block.inputs, parameters, strict=True))
        self._converters.write_block(block, self._builder, self._values)
        return [_argument(value, self._values, self._builder) for value in block.outputs]


def _as_typed(output: Value, result: Ref) -> Ref:
    """A result, as a number where it is one."""
    is_number = output.type in _NUMBERS
    return replace(result, is_number=True) if is_number and not result.is_number else result


LISTS = ("prim::ListConstruct",)
"""Kinds that are written where their result is used."""
UNSET = "prim::Uninitialized"
"""The kind of a value that is carried through a branch or loop and never read. To converters it is `NeverRead`."""
_UNPACK = "prim::ListUnpack"


class NeverRead(Record):
    """A value that is never read: any of its type will do."""


_NUMBERS: Mapping[T.Type, torch.dtype] = {T.INT: torch.int64, T.FLOAT: torch.float64, T.BOOL: torch.bool}
"""The dtypes of numbers, as tensors without dimensions."""


def _is_tensor_list(t: T.Type) -> bool:
    return isinstance(t, T.ListType) and isinstance(t.element, TensorType)


def _argument(value: Value, values: Mapping[Value, Ref], builder: Writer) -> Any:
    if is_constant(value):
        return constant_of(value)
    if value in values:
        found = values[value]
        return list(found.parts) if isinstance(found, RefList) else found
    if value.node.kind == UNSET:
        return NeverRead()
    if value.node.kind in LISTS:
        return [_argument(part, values, builder) for part in value.node.inputs]
    return builder.operand_of(ref_of(value, "?"))


def ref_of(value: Value, name: str) -> Ref:
    """What is known of a value.

    Raises:
        EngineRefusal: dtype or rank are not known, or it is neither tensor nor number.
    """
    if value.type in _NUMBERS:
        return Ref(name, _NUMBERS[value.type], 0, True)
    if not isinstance(value.type, TensorType):
        raise EngineRefusal(f"an operand of type {value.type} is no tensor and no number")
    if value.type.dtype is None or value.type.sizes is None:
        raise EngineRefusal("dtype and rank of an operand are not known")
    if value.type.device is not None and value.type.device.type != "cpu":
        raise EngineRefusal("an operand is not on the CPU")
    return Ref(name, value.type.dtype, len(value.type.sizes), sizes=tuple(value.type.sizes))


# -- what converters ask of their arguments


def dtype_of_number(value: object) -> torch.dtype:
    """The dtype of a constant number as a tensor.

    Raises:
        EngineRefusal: it is no number.
    """
    if not isinstance(value, bool | int | float):
        raise EngineRefusal(f"an output is the constant {value!r}")
    return torch.float64 if isinstance(value, float) else torch.tensor(value).dtype


def number(value: object) -> float:
    """A number that is known.

    Raises:
        EngineRefusal: it is none.
    """
    if not isinstance(value, int | float):
        raise EngineRefusal("a number that decides what it computes is no constant")
    return float(value)


def constants(values: object) -> Sequence[int]:
    """Ints that are known, one or several.

    Raises:
        EngineRefusal: one is not.
    """
    listed = [values] if isinstance(values, int) else values
    if not isinstance(listed, list | tuple) or not all(isinstance(v, int) for v in listed):
        raise EngineRefusal("a number that decides the shape of its result is no constant")
    return listed


Sample = torch.Tensor | bool | int | float


def common_dtype(a: object, b: object) -> torch.dtype:
    """The dtype in which torch compares or adds the two.

    Raises:
        EngineRefusal: they are numbers of two types.
    """
    first, second = _sample(a), _sample(b)
    if isinstance(first, bool | int | float) and type(first) is type(second):
        return torch.tensor(first).dtype if not isinstance(first, float) else torch.float64
    if not isinstance(first, torch.Tensor):
        first, second = second, first
    if not isinstance(first, torch.Tensor):
        raise EngineRefusal("it compares numbers of two types")
    return torch.result_type(first, second)


def _sample(value: object) -> Sample:
    if isinstance(value, Ref):
        if value.is_number:
            return bool(1) if value.dtype is torch.bool else 1 if value.dtype is torch.int64 else 1.0
        return torch.empty([1] * value.rank, dtype=value.dtype, device="meta")
    if not isinstance(value, Sample):
        raise EngineRefusal(f"an operand is {type(value).__name__}")
    return value
