"""Subscripts: `x[i]`, slices, and multi-dimensional tensor indexing, for reading and assigning.

Tensor indexing becomes select, slice and unsqueeze from left to right (from right to left behind `...`), then one
`aten::index` with the tensors that occur.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitlite.frontend import tree
from jitlite.frontend.emitter import Emitter, expression
from jitlite.frontend.magic import call_magic, is_object
from jitlite.frontend.objects import object_definition
from jitlite.frontend.refinement import refined
from jitlite.frontend.values import ConstantSugar, SimpleValue, SliceValue, SugaredTuple, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.overloads import NamedValue
from jitlite.ir.types import Type
from jitlite.source import CompileError, NotSupportedError, SourceRange

Index = Value | SliceValue | None
"""One entry of a tensor's index: a value, a slice, or None for `...`."""

_OPTIONAL_TENSOR = T.OptionalType.of(T.TENSOR)


@expression(tree.Subscript)
def emit_subscript(em: Emitter, expr: tree.Subscript, hint: Type | None) -> SugaredValue | Value:
    base = em.emit_sugared(expr.value)
    if isinstance(base, SugaredTuple) and isinstance(expr.indices[0], tree.SliceExpr):
        index = _emit_index_expression(em, expr.indices[0])
        assert isinstance(index, SliceValue)
        return base.sliced(slice(*_constant_bounds(index, expr.range)))
    if isinstance(base, SugaredTuple | ConstantSugar):
        base = SimpleValue(base.as_value(em, expr.value.range))
    if not isinstance(base, SimpleValue):
        return base.element(em, expr.range, em.emit(expr.indices[0]))
    value = base.value
    if T.is_subtype(value.type, T.TENSOR):
        sliced, tensors = index_tensor(em, expr.range, value, expr.indices)
        return emit_index(em, expr.range, sliced, tensors) if tensors else sliced
    if len(expr.indices) != 1:
        raise CompileError("multidimensional indexing works on tensors only", expr.range, found=value.type.annotation)
    index = _emit_index_expression(em, expr.indices[0])
    if index is None:
        raise CompileError("`...` works on tensors only", expr.indices[0].range, found=value.type.annotation)
    if isinstance(index, SliceValue) and is_object(value):
        return object_definition(value).slice(em, expr.range, value, slice(*_constant_bounds(index, expr.range)))
    if isinstance(index, SliceValue):
        return _emit_slice(em, expr.range, value, index)
    if hint is not None and is_object(value) and isinstance(hint, T.InterfaceType):
        return object_definition(value).indexed(em, expr.range, value, index, hint)
    if isinstance(value.type, T.TupleType):
        return refined(em, _emit_tuple_index(em, expr.range, value, index))
    if isinstance(value.type, T.UnionType) and T.NONE not in value.type.members:
        return em.by_type(value, expr.range, lambda one: _element(em, expr.range, one, index))
    return base.element(em, expr.range, index)


def _emit_index_expression(em: Emitter, expr: tree.Expr) -> Index:
    if isinstance(expr, tree.Dots):
        return None
    if isinstance(expr, tree.SliceExpr):
        bounds = [None if e is None else em.emit(e) for e in (expr.start, expr.stop, expr.step)]
        return SliceValue(*bounds)
    sugared = em.emit_sugared(expr)
    return sugared if isinstance(sugared, SliceValue) else sugared.as_value(em, expr.range)


# -- sequences
def _emit_slice(em: Emitter, range: SourceRange, value: Value, index: SliceValue, dim: int | None = None) -> Value:
    if isinstance(value.type, T.TupleType):
        return _emit_tuple_slice(em, range, value, index)
    if isinstance(value.type, T.UnionType) and T.NONE not in value.type.members:
        return em.by_type(value, range, lambda one: _emit_slice(em, range, one, index))
    inputs = [NamedValue("self", value, range=range)]
    if dim is not None:
        inputs.append(NamedValue(None, em.constant(dim, range), range=range))
    none = None if index.start is not None and index.stop is not None else em.constant(None, range)
    step = index.step or em.constant(1, range)
    for name, bound in (("start", index.start), ("end", index.stop), ("step", step)):
        inputs.append(NamedValue(name, bound if bound is not None else none, range=range))
    return em.op("aten::slice", inputs, range=range)


def _emit_tuple_index(em: Emitter, range: SourceRange, value: Value, index: Value) -> Value:
    t = value.type
    assert isinstance(t, T.TupleType)
    if is_constant(index) and isinstance(constant_of(index), int) and index.type is not T.INT:
        index = em.constant(int(constant_of(index)), range)  # a member of an IntEnum as well
    index = em.enum_value(index, range)
    if index.type is not T.INT:
        raise CompileError("tuple index must be an integer", range, found=index.type.annotation)
    if not is_constant(index):
        common = T.unify_all(t.elements)
        if common is None or any(T.unshaped(e) is not T.unshaped(common) for e in t.elements):
            raise CompileError(
                f"Cannot index into a {t.annotation} with a non-constant index because we cannot resolve the output "
                "type",
                range,
                hint="use a constant index, or a list",
            )
        return em.tuple_index(value, index, common)
    position = constant_of(index)
    if not -len(t.elements) <= position < len(t.elements):
        raise CompileError(
            f"Tuple index out of range. Tuple is length {len(t.elements)} and index is {position}", range
        )
    return em.tuple_index(value, index, t.elements[position])


def _element(em: Emitter, range: SourceRange, value: Value, index: Value) -> Value:
    if isinstance(value.type, T.TupleType):
        return _emit_tuple_index(em, range, value, index)
    return SimpleValue(value).element(em, range, index).as_value(em, range)


def _constant_bounds(index: SliceValue, range: SourceRange) -> list[int | None]:
    bounds: list[int | None] = []
    for bound in (index.start, index.stop, index.step):
        if bound is not None and not (is_constant(bound) and type(constant_of(bound)) is int):
            raise CompileError("tuple slice indices must be integer constants", range)
        bounds.append(None if bound is None else constant_of(bound))
    if bounds[2] == 0:
        raise CompileError("slice step cannot be zero", range)
    return bounds


def _emit_tuple_slice(em: Emitter, range: SourceRange, value: Value, index: SliceValue) -> Value:
    t = value.type
    assert isinstance(t, T.TupleType)
    positions = tuple(_range(len(t.elements)))[slice(*_constant_bounds(index, range))]
    parts = [em.tuple_index(value, em.constant(p, range), t.elements[p]) for p in positions]
    return em.make_tuple(parts)


_range = range
"""The builtin, whose name the parameters above take for a SourceRange."""


# -- tensors
def index_tensor(
    em: Emitter, range: SourceRange, value: Value, exprs: Sequence[tree.Expr]
) -> tuple[Value, list[Value]]:
    """Apply the ints, slices and Nones of an index; gives the tensor and the tensor indices still to be applied."""
    if len(exprs) == 1 and isinstance(exprs[0], tree.Dots):
        return em.op("aten::alias", [value], range=range), []
    dims, indices = _assign_dims(em, range, exprs)
    tensors: dict[int, Value] = {}
    for expr, dim in zip(exprs, dims, strict=True):
        if isinstance(expr, tree.Dots):
            continue
        index = indices[id(expr)] if id(expr) in indices else _emit_index_expression(em, expr)
        if isinstance(index, SliceValue):
            value = _emit_slice(em, range, value, index, dim)
        elif index is not None and index.type is T.NONE:
            value = em.op("aten::unsqueeze", [value, em.constant(dim, range)], range=range)
        elif index is not None and index.type is T.INT:
            value = em.op("aten::select", [value, em.constant(dim, range), index], range=range)
        elif index is not None:
            tensors[dim] = index
    if not tensors:
        return value, []
    filled = [tensors.get(dim) for dim in _range(max(tensors) + 1)]
    return value, [v if v is not None else em.constant(None, range, T.NONE) for v in filled]


def _assign_dims(em: Emitter, range: SourceRange, exprs: Sequence[tree.Expr]) -> tuple[list[int], dict[int, Index]]:
    """The dimension that each entry applies to, and the entries that are not slices, already emitted."""
    dots = [i for i, e in enumerate(exprs) if isinstance(e, tree.Dots)]
    if len(dots) > 1:
        raise CompileError("an index can only have a single ellipsis (`...`)", range)
    split = dots[0] if dots else len(exprs)
    dims = [0] * len(exprs)
    indices: dict[int, Index] = {}
    dim = 0
    for position in _range(split):
        dims[position] = dim
        dim += _width(em, exprs[position], indices)[0]
    dim = -1
    for position in _range(len(exprs) - 1, split, -1):
        dims[position] = dim
        width, is_tensor = _width(em, exprs[position], indices, reverse=True)
        if is_tensor:
            raise NotSupportedError("a tensor index behind `...`", exprs[position].range, hint="index in two steps")
        dim -= width
    return dims, indices


def _width(em: Emitter, expr: tree.Expr, indices: dict[int, Index], reverse: bool = False) -> tuple[int, bool]:
    """How many dimensions further the next entry applies, and whether this one is a tensor."""
    if isinstance(expr, tree.SliceExpr):
        return 1, False
    index = _emit_index_expression(em, expr)
    if isinstance(index, SliceValue):
        indices[id(expr)] = index
        return 1, False
    assert index is not None
    index = em.enum_value(index, expr.range)
    if isinstance(index.type, T.ListType):
        dtype = NamedValue("dtype", em.constant(torch.int64, expr.range), range=expr.range)
        index = em.op("aten::tensor", [index], [dtype], expr.range)
    indices[id(expr)] = index
    if index.type is T.NONE:
        return (0 if reverse else 1), False
    if index.type is T.INT:
        return (1 if reverse else 0), False
    if T.is_subtype(index.type, _OPTIONAL_TENSOR):
        return 1, True
    raise CompileError(
        "indexing tensor with unsupported index type", expr.range,
        expected="int, slice, None, `...`, List[int] or Tensor", found=index.type.annotation,
    )  # fmt: skip


def emit_index(em: Emitter, range: SourceRange, value: Value, tensors: Sequence[Value]) -> Value:
    """Advanced indexing."""
    return em.op("aten::index", [value, em.make_list(_OPTIONAL_TENSOR, tensors)], range=range)


def emit_subscript_assign(em: Emitter, range: SourceRange, target: tree.Subscript, value: NamedValue) -> None:
    """`target[...] = value` for tensors, lists and dicts."""
    container = em.emit(target.value)
    if T.is_subtype(container.type, T.TENSOR):
        _assign_into_tensor(em, range, container, target, value)
        return
    if len(target.indices) != 1 or isinstance(target.indices[0], tree.SliceExpr):
        raise NotSupportedError("Sliced expression not yet supported for subscripted assignment", target.range)
    if isinstance(container.type, T.TupleType):
        raise CompileError(f"{container.type.annotation} does not support subscripted assignment", target.range)
    index = target.indices[0]
    if is_object(container):
        set_item(em, range, container, em.emit(index), value.in_graph(em.graph))
        return
    arguments = [
        NamedValue("self", container, range=target.value.range),
        NamedValue("idx", em.emit(index), range=index.range),
        value,
    ]
    em.op("aten::_set_item", arguments, range=range)


def set_item(em: Emitter, range: SourceRange, owner: Value, index: Value, value: Value) -> None:
    """`owner[index] = value` for an object.

    Raises:
        CompileError: where its class has no `__setitem__`.
    """
    if call_magic(em, range, owner, "__setitem__", index, value) is None:
        raise CompileError(
            f"'{owner.type.annotation}' object does not support item assignment", range, hint="define __setitem__"
        )


def _assign_into_tensor(
    em: Emitter, range: SourceRange, tensor: Value, target: tree.Subscript, value: NamedValue
) -> None:
    sliced, tensors = index_tensor(em, target.range, tensor, target.indices)
    converted = as_tensor(em, value, sliced)
    if not tensors:
        em.op("aten::copy_", [sliced, converted], range=range)
        return
    indices = em.make_list(_OPTIONAL_TENSOR, tensors)
    em.op("aten::index_put_", [sliced, indices, converted], range=range)


def as_tensor(em: Emitter, value: NamedValue, like: Value) -> Value:
    """A number becomes a tensor of the dtype and device of `like`."""
    found = value.in_graph(em.graph)
    if found.type not in (T.NUMBER, T.INT, T.BOOL, T.FLOAT, T.COMPLEX):
        return found
    dtype = em.op("prim::dtype", [like])
    device = em.op("prim::device", [like])
    return em.op("aten::tensor", [found], [NamedValue("dtype", dtype), NamedValue("device", device)])
