"""Do without some dtypes: int32 takes the place of int64, float32 that of float64, and casts stand where that ends.

    %i : Long(3) = aten::argmax(%x, ...)         %i : Long(3) = aten::argmax(%x, ...)
    %j : Long(3) = aten::add(%i, %one, %one) =>  %n : Tensor = aten::to(%i, int32, ...)
    return (%j)                                  %j : Tensor = aten::add(%n, %one, %one)
                                                 %r : Tensor = aten::to(%j, int64, ...)
                                                 return (%r)

An operator gets narrow operands where torch takes them for it, which is tried on tensors without contents; else it gets
casts of them, and is told of. What the graph takes and gives keeps its dtypes. Numbers that do not fit become others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded
from jitlite.ir.ops import Effect
from jitlite.ir.types import TensorType, Type
from jitlite.passes.decomposing import Number, Undecomposable
from jitlite.passes.example_facts import facts_of
from jitlite.passes.recordings import RecordingCache

_SOME_SIZE = 4


class Narrowed(Record, frozen=False):
    """What `narrow_dtypes` has done.

    Attributes:
        changed: did the graph change?
        kept: the operators that need a dtype that is to be done without, with their places.
    """

    changed: bool = False
    kept: list[str] = field(default_factory=list)


def narrow_dtypes(
    graph: Graph,
    lacks: Mapping[torch.dtype, torch.dtype],
    example_inputs: Sequence[object] | None = None,
    module: torch.nn.Module | None = None,
) -> Narrowed:
    """Have a graph compute with other dtypes.

    Args:
        graph: changed in place. Blocks of branches and loops stay as they are.
        lacks: what takes the place of each dtype that is to be done without.
        example_inputs: arguments, which say the dtypes of all tensors; what types say if not given.
        module: the module, if the graph is that of a method; then `example_inputs` are the others.

    Raises:
        ValueError: a dtype is replaced by one that is to be done without as well.
    """
    for wide, narrow in lacks.items():
        if narrow in lacks:
            raise ValueError(f"lacks: {narrow} takes the place of {wide}, and is to be done without itself")
    if not lacks:
        return Narrowed()
    return _Narrowing(graph, lacks, facts_of(graph, example_inputs, module)).run()


class _Narrowing(Record, frozen=False):
    graph: Graph
    lacks: Mapping[torch.dtype, torch.dtype]
    facts: dict[Value, Type]
    narrow: dict[Value, Value] = field(default_factory=dict)
    """The narrow one instead of a value."""
    made: set[Node] = field(default_factory=set)
    recordings: RecordingCache = field(default_factory=lambda: RecordingCache({}, lambda overload: True))
    done: Narrowed = field(default_factory=Narrowed)

    def run(self) -> Narrowed:
        nodes = list(self.graph.block.computations)
        end = self.graph.block.return_node
        for value in self.graph.inputs:
            if self._is_wide(value):
                self.narrow[value] = self._cast_at(nodes[0] if nodes else end, value, self.lacks[self._dtype(value)])
        for node in nodes:
            self._narrow_node(node)
        self._replace_operands(end, lambda value: self._wide(end, value))
        return self.done

    def _dtype(self, value: Value) -> Any:
        known = self.facts.get(value, value.type)
        if is_constant(value) and isinstance(constant_of(value), torch.Tensor):
            return constant_of(value).dtype
        return known.dtype if isinstance(known, TensorType) else None

    def _current(self, value: Value) -> Any:
        """The dtype that a value has now."""
        dtype = self._dtype(value)
        return self.lacks[dtype] if self.narrow.get(value) is value else dtype

    def _is_wide(self, value: Value) -> bool:
        return self._dtype(value) in self.lacks

    def _cast_at(self, before: Node, value: Value, dtype: torch.dtype) -> Value:
        """The value in a dtype, made before a node; a cast of a cast from this dtype is what was cast."""
        source = value.node.inputs[0] if value.node.kind == _CAST and value.node in self.made else None
        if source is not None and self._current(source) is dtype:
            return source
        with self.graph.inserting_before(before):
            none = self.graph.insert_constant(None)
            rest = [self.graph.insert_constant(dtype), none, none, none, self.graph.insert_constant(False), none]
            made = self.graph.insert(_CAST, [value, *rest], [T.TENSOR])
        made.range = before.range
        self.made.add(made)
        self.facts[made.output] = _with_dtype(self.facts.get(value, value.type), dtype)
        self.done.changed = True
        return made.output

    def _narrow_node(self, node: Node) -> None:
        """Give a node narrow operands where it takes them, and its users narrow results."""
        if node.kind == _LIST:
            return  # its users replace what is in it
        self._learn(node)
        operands = self._operands(node)
        wanted = self._asks_for(node)
        if not wanted and not any(map(self._is_wide, (*operands, *node.outputs))):
            return
        given = self._dtypes_given(node, wanted)
        if given is None:
            if node.op is not None and node.op.overload is not None:
                self._tell(node, "needs", operands)
            self._replace_operands(node, lambda value: self._wide(node, value))
        else:
            self._ask_for(node, wanted)
            self._replace_operands(node, lambda value: self._narrow(node, value))
        self._settle(node, given or [None] * len(node.outputs))

    def _ask_for(self, node: Node, wanted: Mapping[int, torch.dtype]) -> None:
        for position, dtype in wanted.items():
            with self.graph.inserting_before(node):
                node.replace_input(position, self.graph.insert_constant(dtype))
            self.done.changed = True

    def _tell(self, node: Node, what: str, values: Sequence[Value]) -> None:
        """Say of an operator that some of its operands or results are of a dtype that is to be done without."""
        dtypes = sorted({str(self._dtype(v)) for v in values if self._is_wide(v)})
        if dtypes:
            place = "" if node.range is None else f" at {node.range.location()}"
            self.done.kept.append(f"{node.kind}{place} {what} {', '.join(dtypes)}")

    def _settle(self, node: Node, given: Sequence[torch.dtype | None]) -> None:
        """Write down which results are narrow now, by the dtypes that they have, and tell of the others."""
        fitting = [v for v, dtype in zip(node.outputs, given, strict=True) if dtype is self.lacks.get(self._dtype(v))]
        self._tell(node, "gives", [v for v in node.outputs if v not in fitting])
        for value in filter(self._is_wide, fitting):
            value.type = T.unshaped(value.type)
            self.narrow[value] = value
            self._widen_in_blocks(node, value, self._dtype(value))

    def _widen_in_blocks(self, node: Node, value: Value, wide: torch.dtype) -> None:
        """Have what stays as it is see a result as it was."""
        inside = [use for use in value.uses if use.user.block is not node.block]
        if inside and node.next is not None:
            cast = self._cast_at(node.next, value, wide)
            for use in inside:
                use.user.replace_input(use.offset, cast)

    def _narrow(self, node: Node, value: Value) -> Value:
        found = self.narrow.get(value)
        if found is None and self._is_wide(value):  # made where it is needed first
            found = self.narrow[value] = self._cast_at(node, value, self.lacks[self._dtype(value)])
        return value if found is None else found

    def _wide(self, node: Node, value: Value) -> Value:
        found = self.narrow.get(value)
        return value if found is None else self._cast_at(node, found, self._dtype(value))

    def _replace_operands(self, node: Node, replaced: Callable[[Value], Value]) -> None:
        for i, value in enumerate(node.inputs):
            if value.node.kind == _LIST:
                made = [replaced(v) for v in value.node.inputs]
                if any(m is not v for m, v in zip(made, value.node.inputs, strict=True)):
                    with self.graph.inserting_before(node):
                        node.replace_input(i, self.graph.insert(_LIST, made, [value.type]).output)
            else:
                node.replace_input(i, replaced(value))

    def _operands(self, node: Node) -> list[Value]:
        """The tensors among the arguments, those in lists too."""
        inner = [list(v.node.inputs) if v.node.kind == _LIST else [v] for v in node.inputs]
        return [v for values in inner for v in values if isinstance(T.without_none(v.type), TensorType)]

    def _asks_for(self, node: Node) -> dict[int, torch.dtype]:
        """The arguments that are dtypes to be done without, with what takes their place."""
        found = {}
        position = None if node.op is None else node.op.schema.argument_index("dtype")
        if position is not None and is_constant(node.inputs[position]):
            asked = int_coded(T.SCALAR_TYPE, constant_of(node.inputs[position]))
            if isinstance(asked, torch.dtype) and asked in self.lacks:
                found[position] = self.lacks[asked]
        return found

    def _learn(self, node: Node) -> None:
        """Find out what a node gives for wide operands, where that is not known."""
        if node.op is None or node.op.overload is None or all(self._dtype(v) is not None for v in node.outputs):
            return
        try:
            results = self.recordings.find(node.op.overload, [self._sample(v, {}) for v in node.inputs]).results
        except Undecomposable:
            return
        self.facts.update(zip(node.outputs, results, strict=False))

    def _dtypes_given(self, node: Node, wanted: Mapping[int, torch.dtype]) -> Sequence[torch.dtype | None] | None:
        """The dtypes of the results for narrow operands; None where torch does not take these."""
        overload = None if node.op is None else node.op.overload
        if overload is None or any(isinstance(v.type, TensorType) and self._dtype(v) is None for v in node.outputs):
            return None
        try:
            args = [wanted.get(i) or self._sample(v, self.lacks) for i, v in enumerate(node.inputs)]
            found = self.recordings.find(overload, args).results
            self._try_narrow_ints(node, args)
        except Undecomposable:
            return None
        dtypes = [t.dtype if isinstance(t, TensorType) else None for t in found]
        return dtypes if len(dtypes) == len(node.outputs) else None

    def _try_narrow_ints(self, node: Node, args: Sequence[object]) -> None:
        """Call the operator with zeros, for only its kernel says whether indices may be narrow.

        Raises:
            Undecomposable: it raises an error, or nobody can try.
        """
        ints = [v for v in self._operands(node) if self._is_wide(v) and not self._dtype(v).is_floating_point]
        if not ints:
            return
        assert node.op is not None and node.op.fn is not None
        if node.op.effect is not Effect.PURE or sum(map(_elements, args)) > _MOST_TRIED:
            raise Undecomposable("it cannot be tried with narrow ints")
        try:
            with torch.no_grad():
                node.op.fn(*map(_zeros, args))
        except Exception as error:
            raise Undecomposable(f"{type(error).__name__}: {error}") from error

    def _sample(self, value: Value, lacks: Mapping[torch.dtype, torch.dtype]) -> object:
        """What a recording is told of an argument, without the dtypes that are to be done without.

        Raises:
            Undecomposable: not enough is known of it.
        """
        if value.node.kind == _LIST:
            return [self._sample(v, lacks) for v in value.node.inputs]
        if is_constant(value) and not isinstance(constant_of(value), torch.Tensor):
            return constant_of(value)
        if value.type is T.INT:
            return Number(_SOME_SIZE)
        known = TensorType.from_tensor(constant_of(value)) if is_constant(value) else self.facts.get(value, value.type)
        if not isinstance(known, TensorType) or known.dtype is None or known.sizes is None:
            raise Undecomposable("rank and dtype of an argument are not known")
        sizes = [_SOME_SIZE if n is None else n for n in known.sizes]
        return TensorType.of(lacks.get(known.dtype, known.dtype), sizes, None, known.device)


_MOST_TRIED = 1 << 20
"""An operator is tried with operands of at most so many elements together."""


def _elements(arg: object) -> int:
    if isinstance(arg, list):
        return sum(map(_elements, arg))
    return math.prod(n or 0 for n in arg.sizes or ()) if isinstance(arg, TensorType) else 0


def _zeros(arg: object) -> object:
    """A recording's argument as the operator takes it."""
    if isinstance(arg, list):
        return [_zeros(a) for a in arg]
    if isinstance(arg, TensorType):
        return torch.zeros([n or 0 for n in arg.sizes or ()], dtype=arg.dtype)
    return arg.example if isinstance(arg, Number) else arg


_CAST = "aten::_to_copy"
_LIST = "prim::ListConstruct"


def _with_dtype(t: Type, dtype: torch.dtype) -> Type:
    return TensorType.of(dtype, t.sizes if isinstance(t, TensorType) else None, None)
