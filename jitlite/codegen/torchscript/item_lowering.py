"""`x[index]` with tensors in the index, in operators that TorchScript has.

What TorchScript makes of such an index itself is right where the elements alone count: ints, slices and None are
applied by operators of their own, then all tensors together by `aten::index`. It differs where a tensor of no
dimensions stands apart from another one, `x[i, :, j]`, and where the result has to be a view. There the operators that
are written ask each tensor what it is, as Python does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.records import Record
from jitlite.base.source import NotSupportedError
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.int_codes import INT_CODES
from jitlite.ir.ops import Effect
from jitlite.ir.tensor_items import Entry, parse_index
from jitlite.ir.types import Type

_Applied = tuple[Value, Value, Value | bool]
"""A view by ints, slices and None, the tensors to index it by, and how many these are, or whether there are any."""

_INDICES = T.ListType.of(T.OptionalType.of(T.TENSOR))


class _IndexEntry(Record, eq=True):
    """An entry of an index and its operands."""

    entry: Entry
    operands: tuple[Value, ...]

    @property
    def index(self) -> Value:
        return self.operands[0]

    @property
    def is_int(self) -> bool:
        return self.entry.kind == "item" and self.index.type is T.INT

    @property
    def is_listed(self) -> bool:
        """Does it go to `aten::index`?"""
        return self.entry.kind == "item" and not self.is_int


def lower_item(node: Node) -> bool:
    """Replace a `prim::TensorItem`, before which the insertion point is.

    Raises:
        NotSupportedError: TorchScript cannot say it.
    """
    lowering = _IndexLowering(node, _parts(node, 1))
    result = lowering.read(node.inputs[0])
    result.copy_metadata(node.output)
    node.output.replace_all_uses_with(result)
    return True


def lower_set_item(node: Node) -> bool:
    """Replace a `prim::SetTensorItem`, before which the insertion point is.

    Raises:
        NotSupportedError: TorchScript cannot say it.
    """
    _IndexLowering(node, _parts(node, 2)).write(node.inputs[0], node.inputs[1])
    return True


def lower_assignment(node: Node) -> bool:
    """Replace `aten::copy_` of two inputs, which is `x[...] = value`. A number is written by what checks its size."""
    if len(node.inputs) != 2:
        return False
    tensor, value = node.inputs
    make = _OperatorInserter(node)
    if isinstance(value.type, T.TensorType):
        made = make("aten::copy_", tensor, value, make.constant(False))
    else:
        made = make("aten::fill_", tensor, make.number(value))
    node.output.replace_all_uses_with(made)
    return True


class _OperatorInserter:
    """Inserts operators at the place of a node."""

    def __init__(self, node: Node) -> None:
        self.graph: Graph = node.graph
        self.range = node.range

    def __call__(self, kind: str, *inputs: Value, type: Type = T.TENSOR) -> Value:
        return self.graph.insert(kind, inputs, (type,), range=self.range).output

    def constant(self, value: object) -> Value:
        return self.graph.insert_constant(value, range=self.range)

    def number(self, value: Value) -> Value:
        """A bool as a number."""
        return self("aten::Int", value, type=T.INT) if value.type is T.BOOL else value


def _parts(node: Node, first: int) -> list[_IndexEntry]:
    left = iter(node.inputs[first:])
    parts = []
    for entry in parse_index(node.attributes["index"]):
        parts.append(_IndexEntry(entry, tuple(next(left) for _ in range(entry.operands))))
    return parts


class _IndexLowering:
    """Writes one index in operators."""

    def __init__(self, node: Node, parts: list[_IndexEntry]) -> None:
        self.node = node
        self.make = _OperatorInserter(node)
        self.parts = [self._plain(part) for part in parts]
        split = next((i for i, p in enumerate(parts) if p.entry.kind == "..."), len(parts))
        self.front, self.back = self.parts[:split], self.parts[split + 1 :]
        if any(p.is_listed for p in self.back):
            raise self._refusal("tensor as an index behind `...`", "index in two steps")

    def _refusal(self, what: str, hint: str) -> NotSupportedError:
        return NOT_IN_ARCHIVE(f"TorchScript has no {what}: it has no place in an archive", self.node.range, hint=hint)

    def _plain(self, part: _IndexEntry) -> _IndexEntry:
        """The part with lists made tensors, and tensors made bounds of slices."""
        make = self.make
        if part.entry.kind == "slice":
            return _IndexEntry(part.entry, tuple(map(self._bound, part.operands)))
        if part.entry.kind != "item" or isinstance(part.index.type, T.TensorType) or part.is_int:
            return part
        if isinstance(part.index.type, T.ListType) and isinstance(part.index.type.element, T.ListType):
            raise self._refusal("list of lists as an index", "index by a tensor")
        if isinstance(part.index.type, T.ListType):
            dtype = torch.bool if part.index.type.element is T.BOOL else torch.int64
            none, false = make.constant(None), make.constant(False)
            return _IndexEntry(part.entry, (make("aten::tensor", part.index, make.constant(dtype), none, false),))
        raise self._refusal(f"index of type {part.index.type.annotation}", "test what it is before, and index by that")

    def _bound(self, value: Value) -> Value:
        return self.make("aten::IntImplicit", value, type=T.INT) if isinstance(value.type, T.TensorType) else value

    # -- which way
    def _is_exact(self) -> bool:
        """Does it matter what each tensor turns out to be?"""
        numbers = [p for p in self.parts if p.is_listed and not _has_dimensions(p.index)]
        places = [i for i, p in enumerate(self.front) if p.is_listed]
        apart = any(not (p.is_listed or p.is_int) for p in self.front[places[0] : places[-1]]) if places else False
        return bool(numbers) and (apart or self._needs_view())

    def _needs_view(self) -> bool:
        if self.node.kind == "prim::TensorItem":
            roots = (_root(self.node.inputs[0]), self.node.output)
            written = (_root(node.inputs[0]) for node in self.node.graph.all_nodes() if _writes_tensor(node))
            return any(root in roots or not _is_new(root) for root in written)
        return _writes_tensor(self.node.inputs[1].node)  # `x[i] += y`: the value is the item itself, written

    # -- reading and writing
    def read(self, tensor: Value) -> Value:
        view, indices, count = self._applied(tensor)
        return self._if_any(count, lambda: view, lambda: self.make("aten::index", view, indices))

    def write(self, tensor: Value, value: Value) -> None:
        make = self.make
        view, indices, count = self._applied(tensor)
        if not isinstance(value.type, T.TensorType):
            none = make.constant(None)
            dtype, device = make("prim::dtype", view, type=T.INT), make("prim::device", view, type=T.DEVICE)
            size = make("prim::ListConstruct", type=T.ListType.of(T.INT))
            value = make("aten::full", size, make.number(value), dtype, none, device, none)
        false = make.constant(False)
        self._if_any(
            count,
            lambda: make("aten::copy_", view, value, false),
            lambda: make("aten::index_put_", view, indices, value, false),
        )

    def _if_any(self, count: Value | bool, without: Callable[[], Value], indexed: Callable[[], Value]) -> Value:
        """What `indexed` makes if tensors are left to index by, else what `without` makes."""
        if isinstance(count, bool):
            return indexed() if count else without()
        graph = self.make.graph
        is_any = self.make("aten::gt", count, self.make.constant(0), type=T.BOOL)
        branch = graph.insert("prim::If", (is_any,), range=self.node.range)
        for make in (indexed, without):
            block = branch.add_block()
            with graph.inserting_at_end(block):
                block.add_output(make())
        return branch.add_output(T.TENSOR)

    def _applied(self, tensor: Value) -> _Applied:
        view = tensor
        for dim, part in _from_behind(self.back):
            view = self._basic(view, self.make.constant(dim), part)
        return self._exactly(view) if self._is_exact() else self._as_torch(view)

    def _basic(self, view: Value, dim: Value, part: _IndexEntry) -> Value:
        make = self.make
        if part.is_int:
            return make("aten::select", view, dim, part.index)
        if part.entry.kind == "None":
            return make("aten::unsqueeze", view, dim)
        if not part.operands:
            return view
        given = iter(part.operands)
        none, one = make.constant(None), make.constant(1)
        bounds = [next(given) if g else default for g, default in zip(part.entry.given, (none, none, one), strict=True)]
        return make("aten::slice", view, dim, *bounds)

    def _as_torch(self, view: Value) -> _Applied:
        """As TorchScript's compiler does: each tensor takes one dimension."""
        none = self.make.constant(None)
        listed: list[Value] = []
        for part in self.front:
            if part.is_listed:
                listed.append(part.index)
                continue
            view = self._basic(view, self.make.constant(len(listed)), part)
            if not part.is_int:
                listed.append(none)
        while listed and listed[-1] is none:
            listed.pop()
        return view, self.make("prim::ListConstruct", *listed, type=_INDICES), bool(listed)

    def _exactly(self, view: Value) -> _Applied:
        """As Python does: a tensor that is a number takes one dimension away."""
        make = self.make
        none, one, zero = make.constant(None), make.constant(1), make.constant(0)
        indices = make("prim::ListConstruct", type=_INDICES)
        dim = count = zero
        for part in self.front:
            if part.is_listed and not _has_dimensions(part.index):
                view, dim, count = self._by_tensor(view, dim, count, indices, part.index)
                continue
            if part.is_listed:
                make("aten::append", indices, part.index, type=_INDICES)
                count = make("aten::add", count, one, type=T.INT)
            else:
                view = self._basic(view, dim, part)
                if not part.is_int:
                    make("aten::append", indices, none, type=_INDICES)
            if not part.is_int:
                dim = make("aten::add", dim, one, type=T.INT)
        return view, indices, count

    def _by_tensor(
        self, view: Value, dim: Value, count: Value, indices: Value, index: Value
    ) -> tuple[Value, Value, Value]:
        make, graph = self.make, self.make.graph
        branch = graph.insert("prim::If", (self._is_number(index),), range=self.node.range)
        with graph.inserting_at_end(branch.add_block()):
            number = make("aten::Int", index, type=T.INT)
            selected = make("aten::select", view, dim, number)
        with graph.inserting_at_end(branch.add_block()):
            make("aten::append", indices, index, type=_INDICES)
            one = make.constant(1)
            sums = [make("aten::add", n, one, type=T.INT) for n in (dim, count)]
        for block, outputs in zip(branch.blocks, ((selected, dim, count), (view, *sums)), strict=True):
            for value in outputs:
                block.add_output(value)
        return branch.add_output(T.TENSOR), branch.add_output(T.INT), branch.add_output(T.INT)

    def _is_number(self, index: Value) -> Value:
        """Is it a tensor of no dimensions and of integers?"""
        make = self.make
        found = make("aten::eq", make("aten::dim", index, type=T.INT), make.constant(0), type=T.BOOL)
        dtype = make("prim::dtype", index, type=T.INT)
        for other in (torch.bool, torch.uint8):
            is_other = make("aten::ne", dtype, make.constant(INT_CODES[other]), type=T.BOOL)
            found = make("aten::__and__", found, is_other, type=T.BOOL)
        is_float = make("aten::is_floating_point", index, type=T.BOOL)
        return make("aten::__and__", found, make("aten::__not__", is_float, type=T.BOOL), type=T.BOOL)


def _has_dimensions(index: Value) -> bool:
    """Is it certainly no number: made of a list, or compared element by element with something of dimensions?"""
    node = index.node
    is_listed = node.kind == "aten::tensor" and isinstance(node.inputs[0].type, T.ListType)
    is_range = node.kind in ("aten::arange", "aten::nonzero", "aten::randperm")
    is_known = isinstance(index.type, T.TensorType) and bool(index.type.sizes)
    return is_listed or is_range or is_known


def _from_behind(parts: Sequence[_IndexEntry]) -> list[tuple[int, _IndexEntry]]:
    """The parts behind `...` from last to first, with the dimension each applies to."""
    found = []
    dim = -1
    for part in reversed(parts):
        found.append((dim, part))
        dim -= part.entry.kind != "None"
    return found


def _writes_tensor(node: Node) -> bool:
    op = node.op
    if op is None or op.effect is not Effect.WRITE:
        return False
    pairs = zip(op.schema.arguments, node.inputs, strict=False)
    return any(a.alias is not None and a.alias.is_write and isinstance(v.type, T.TensorType) for a, v in pairs)


def _root(value: Value) -> Value:
    """The tensor that a value is a view of, as far as operators say it."""
    while True:
        op = value.node.op
        alias = (
            op.schema.returns[value.offset].alias if op is not None and value.offset < len(op.schema.returns) else None
        )
        if alias is None or op is None or op.overload is None:
            return value
        value = value.node.inputs[0]


def _is_new(value: Value) -> bool:
    """Does the value certainly share its memory with nothing from before?"""
    op = value.node.op
    if op is None or op.overload is None:
        return False
    return not torch._C._dispatch_has_kernel_for_dispatch_key(op.overload.name(), "CompositeImplicitAutograd")
