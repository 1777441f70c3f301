"""Subscripts: `x[i]`, slices, and multi-dimensional tensor indexing, for reading and assigning.

An index of a tensor that consists of ints, slices, None and `...` becomes select, slice and unsqueeze from left to
right (from right to left behind `...`). Any other is one operation, `prim::TensorItem`: what a tensor means as an
index, and so what the entries behind it apply to, is known only when it is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.types import NO_ASSIGNMENT, NO_INDEX, TENSOR_INDEX
from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.branch_refinement import refined, refined_sugar
from jitlite.frontend.emit.chosen_parts import chosen_part
from jitlite.frontend.emit.constant_containers import GlobalContainer
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.iterable_values import RangeValue, SliceValue
from jitlite.frontend.emit.list_slices import assign_slice
from jitlite.frontend.emit.objects import object_definition
from jitlite.frontend.emit.ranges import subscript_range
from jitlite.frontend.emit.sequences import ListAsTuple
from jitlite.frontend.emit.special_methods import call_magic, is_object
from jitlite.frontend.emit.values import ConstantValue, SimpleValue, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.tensor_items import DOTS, ITEM, NEW_DIMENSION, Entry, index_text
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue

Index = Value | SliceValue | None
"""One entry of a tensor's index: a value, a slice, or None for `...`."""


@expression(tree.Subscript)
def emit_subscript(em: Emitter, expr: tree.Subscript, hint: Type | None) -> SugaredValue | Value:
    base = _sliceable(em, expr, em.emit_sugared(expr.value))
    if isinstance(base, SugaredTuple | ListAsTuple) and isinstance(expr.indices[0], tree.SliceExpr):
        return _sliced_tuple(em, expr, base, expr.indices[0])
    if isinstance(base, SugaredTuple) and base.is_symbolic and not expr.is_of_tuple:
        return _symbolic_part(em, expr, base)
    if isinstance(base, RangeValue):
        return subscript_range(em, expr.range, base, single_index(em, expr, T.INT))
    if isinstance(base, SugaredTuple | ConstantValue):
        base = SimpleValue(base.as_value(em, expr.value.range))
    expr = of_tuple_key(expr, base, em.learned is not None)
    if not isinstance(base, SimpleValue):
        if expr.is_of_tuple:
            raise TENSOR_INDEX("multidimensional indexing works on tensors only", expr.range, found=base.kind)
        return base.element(em, expr.range, em.emit(expr.indices[0]))
    value = base.value
    if T.is_subtype(value.type, T.TENSOR):
        return tensor_index(em, expr.range, expr.indices).item(em, value)
    index = single_index(em, expr, value.type)
    if isinstance(index, SliceValue):
        return _emit_slice_of_any(em, expr.range, value, index)
    if isinstance(hint, T.InterfaceType) and is_object(value):
        return object_definition(value).indexed(em, expr.range, value, index, hint)
    return _emit_item(em, expr.range, base, index)


def _sliceable(em: Emitter, expr: tree.Subscript, base: SugaredValue) -> SugaredValue:
    """The elements of a global list of which a slice is asked for; anything else as it is."""
    is_global = isinstance(base, GlobalContainer) and isinstance(expr.indices[0], tree.SliceExpr)
    return base.iterate(em, expr.value.range) if is_global else base


def _sliced_tuple(
    em: Emitter, expr: tree.Subscript, base: SugaredTuple | ListAsTuple, bounds: tree.SliceExpr
) -> SugaredValue:
    """A part of a tuple that is no value of the graph."""
    index = _emit_index_expression(em, bounds)
    assert isinstance(index, SliceValue)
    if isinstance(base, ListAsTuple):
        return ListAsTuple(emit_slice(em, expr.range, base.elements, index))
    return base.sliced(slice(*_constant_bounds(index, expr.range)))


def _symbolic_part(em: Emitter, expr: tree.Subscript, base: SugaredTuple) -> SugaredValue:
    """An element of a tuple or list of functions and the like."""
    position = em.convert(T.INT, em.emit(expr.indices[0]), expr.range)
    if is_constant(position) or not all(part.is_symbolic for part in base.parts):
        return base.element(em, expr.range, position)
    return chosen_part(em, expr.range, position, [], base.parts)


def of_tuple_key(expr: tree.Subscript, container: SugaredValue, is_learning: bool = False) -> tree.Subscript:
    """`d[1, "a"]` as `d[(1, "a")]`, for what may be asked for a tuple: dicts that have such keys, and objects.

    While the types of literals are learned, this tells that of an empty dict.
    """
    if not expr.is_of_tuple or any(isinstance(i, tree.SliceExpr | tree.Dots) for i in expr.indices):
        return expr
    if not (_takes_tuples(container) or (is_learning and _is_dict(container))):
        return expr
    key = tree.TupleLiteral(expr.indices, range=expr.indices[0].range)
    return tree.Subscript(expr.value, (key,), range=expr.range)


def _is_dict(container: SugaredValue) -> bool:
    return isinstance(container, SimpleValue) and isinstance(container.value.type, T.DictType)


def _takes_tuples(container: SugaredValue) -> bool:
    if isinstance(container, GlobalContainer):
        return isinstance(container.found, dict)
    if not isinstance(container, SimpleValue):
        return False
    t = container.value.type
    if isinstance(t, T.DictType):
        return t.key not in T.DICT_KEYS
    return is_object(container.value) and not (isinstance(t, T.ClassType) and t.is_module)


def single_index(em: Emitter, expr: tree.Subscript, of: Type) -> Value | SliceValue:
    """The index of what is no tensor.

    Raises:
        CompileError: there are several, or it is `...`.
    """
    if expr.is_of_tuple:
        raise TENSOR_INDEX("multidimensional indexing works on tensors only", expr.range, found=of.annotation)
    index = _emit_index_expression(em, expr.indices[0])
    if index is None:
        raise TENSOR_INDEX("`...` works on tensors only", expr.indices[0].range, found=of.annotation)
    return index


def _emit_item(em: Emitter, range: SourceRange, base: SimpleValue, index: Value) -> SugaredValue | Value:
    """An element of what is no tensor."""
    value = base.value
    if isinstance(value.type, T.TupleType):
        return refined(em, _emit_tuple_index(em, range, value, index))
    if isinstance(value.type, T.UnionType) and T.NONE not in value.type.members:
        return em.by_type(value, range, lambda one: _element(em, range, one, index))
    return refined_sugar(em, base.element(em, range, index))


def _emit_index_expression(em: Emitter, expr: tree.Expr) -> Index:
    if isinstance(expr, tree.Dots):
        return None
    if isinstance(expr, tree.SliceExpr):
        bounds = [None if e is None else em.emit(e) for e in (expr.start, expr.stop, expr.step)]
        return SliceValue(*bounds)
    sugared = em.emit_sugared(expr)
    return sugared if isinstance(sugared, SliceValue) else sugared.as_value(em, expr.range)


# -- sequences
def emit_slice(em: Emitter, range: SourceRange, value: Value, index: SliceValue, dim: int | None = None) -> Value:
    """`value[index]`; of a tensor, along a dimension."""
    if isinstance(value.type, T.TupleType):
        return _emit_tuple_slice(em, range, value, index)
    if isinstance(value.type, T.UnionType) and T.NONE not in value.type.members:
        return em.by_type(value, range, lambda one: emit_slice(em, range, one, index))
    inputs = [NamedValue("self", value, range=range)]
    if dim is not None:
        inputs.append(NamedValue(None, em.constant(dim, range), range=range))
    none = None if index.start is not None and index.stop is not None else em.constant(None, range)
    step = index.step or em.constant(1, range)
    for name, bound in (("start", index.start), ("end", index.stop), ("step", step)):
        inputs.append(NamedValue(name, bound if bound is not None else none, range=range))
    return em.op("aten::slice", inputs, range=range)


def _type_of_any_element(t: T.TupleType, range: SourceRange) -> Type:
    """The type that all elements have, which one is taken being known at run time only."""
    common = T.unify_all(t.elements)
    if common is None or any(T.unshaped(e) is not T.unshaped(common) for e in t.elements):
        raise NO_INDEX(
            f"Cannot index into a {t.annotation} with a non-constant index because we cannot resolve the output type",
            range,
            hint="use a constant index, or a list",
        )
    return common


def _emit_slice_of_any(em: Emitter, range: SourceRange, value: Value, index: SliceValue) -> SugaredValue | Value:
    if is_object(value):
        return object_definition(value).slice(em, range, value, slice(*_constant_bounds(index, range)))
    return emit_slice(em, range, value, index)


def _emit_tuple_index(em: Emitter, range: SourceRange, value: Value, index: Value) -> Value:
    t = value.type
    assert isinstance(t, T.TupleType)
    if is_constant(index) and isinstance(constant_of(index), int) and index.type is not T.INT:
        index = em.constant(int(constant_of(index)), range)  # a member of an IntEnum as well
    index = em.enum_value(index, range)
    if index.type is not T.INT:
        raise NO_INDEX("tuple index must be an integer", range, found=index.type.annotation)
    if not is_constant(index):
        return em.tuple_index(value, index, _type_of_any_element(t, range))
    position = constant_of(index)
    if not -len(t.elements) <= position < len(t.elements):
        last = len(t.elements) - 1
        hint = f"its parts are [0] to [{last}], or [-1] to [-{last + 1}]" if last > 0 else None
        text = f"Tuple index out of range. Tuple is length {len(t.elements)} and index is {position}"
        raise NO_INDEX(text, range, hint=hint)
    return em.tuple_index(value, index, t.elements[position])


def _element(em: Emitter, range: SourceRange, value: Value, index: Value) -> Value:
    if isinstance(value.type, T.TupleType):
        return _emit_tuple_index(em, range, value, index)
    return SimpleValue(value).element(em, range, index).as_value(em, range)


def _constant_bounds(index: SliceValue, range: SourceRange) -> list[int | None]:
    bounds: list[int | None] = []
    for bound in (index.start, index.stop, index.step):
        if bound is not None and not (is_constant(bound) and type(constant_of(bound)) is int):
            raise NO_INDEX("tuple slice indices must be integer constants", range)
        bounds.append(None if bound is None else constant_of(bound))
    if bounds[2] == 0:
        raise TENSOR_INDEX("slice step cannot be zero", range)
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
class TensorIndex(Record, eq=True):
    """An index of a tensor, its parts computed.

    Attributes:
        range: where it stands.
        parts: one for each entry; None for `...`, a value of type None for None.
    """

    range: SourceRange
    parts: tuple[Index, ...]

    @property
    def is_basic(self) -> bool:
        """Does it consist of ints, None, `...` and slices that certainly go forward?

        And would operators for each of them certainly notice that the tensor has too few dimensions?
        """
        if not all(part is None or _is_basic(part) for part in self.parts):
            return False
        split = self.parts.index(None) if None in self.parts else len(self.parts)
        front, back = self.parts[:split], self.parts[split + 1 :]
        return all(map(_takes_dimension, front)) or all(map(_adds_dimension, back))

    def item(self, em: Emitter, tensor: Value) -> Value:
        """`tensor[index]`."""
        if self.is_basic:
            return self.view(em, tensor)
        node = em.node("prim::TensorItem", [tensor, *self._operands()], [T.TENSOR], self.range)
        node.attributes["index"] = self._text()
        return node.output

    def assign(self, em: Emitter, range: SourceRange, tensor: Value, value: Value) -> None:
        """`tensor[index] = value`, for a tensor or a number."""
        if self.is_basic:
            em.node("aten::copy_", [self.view(em, tensor), value], [T.TENSOR], range)
            return
        node = em.node("prim::SetTensorItem", [tensor, value, *self._operands()], [], range)
        node.attributes["index"] = self._text()

    def _text(self) -> str:
        return index_text([_entry(part) for part in self.parts])

    def _operands(self) -> list[Value]:
        found: list[Value] = []
        for part in self.parts:
            if isinstance(part, SliceValue):
                found += [bound for bound in _bounds(part) if bound is not None]
            elif part is not None and part.type is not T.NONE:
                found.append(part)
        return found

    def view(self, em: Emitter, value: Value) -> Value:
        """`tensor[index]` of a basic index, by an operator for each entry."""
        if self.parts in ((None,), ()):
            return em.op("aten::alias", [value], range=self.range)
        for part, dim in zip(self.parts, self._dims(), strict=True):
            if isinstance(part, SliceValue):
                value = emit_slice(em, self.range, value, part, dim)
            elif part is not None and part.type is T.NONE:
                value = em.op("aten::unsqueeze", [value, em.constant(dim, self.range)], range=self.range)
            elif part is not None:
                value = em.op("aten::select", [value, em.constant(dim, self.range), part], range=self.range)
        return value

    def _dims(self) -> list[int]:
        """The dimension that each entry applies to, of what those before it have made."""
        split = self.parts.index(None) if None in self.parts else len(self.parts)
        dims = [0] * len(self.parts)
        dim = 0
        for position in _range(split):
            dims[position] = dim
            dim += not _takes_dimension(self.parts[position])
        dim = -1
        for position in _range(len(self.parts) - 1, split, -1):
            dims[position] = dim
            dim -= not _adds_dimension(self.parts[position])
        return dims


def _takes_dimension(part: Index) -> bool:
    return isinstance(part, Value) and part.type is T.INT


def _adds_dimension(part: Index) -> bool:
    return isinstance(part, Value) and part.type is T.NONE


def _bounds(part: SliceValue) -> tuple[Value | None, Value | None, Value | None]:
    start, stop, step = (None if b is None or b.type is T.NONE else b for b in (part.start, part.stop, part.step))
    return start, stop, step


def _entry(part: Index) -> Entry:
    if part is None:
        return DOTS
    if isinstance(part, SliceValue):
        start, stop, step = (bound is not None for bound in _bounds(part))
        return Entry("slice", (start, stop, step))
    return NEW_DIMENSION if part.type is T.NONE else ITEM


def _is_basic(part: Value | SliceValue) -> bool:
    if isinstance(part, SliceValue):
        start, stop, step = _bounds(part)
        if any(b is not None and T.is_subtype(b.type, T.TENSOR) for b in (start, stop, step)):
            return False
        return step is None or (type(constant_of(step, None)) is int and constant_of(step) > 0)
    return part.type in (T.INT, T.NONE)


_INDEX_TYPES = (T.INT, T.NONE, T.BOOL, T.TENSOR, T.OptionalType.of(T.INT), T.OptionalType.of(T.TENSOR))
_INDEX_ELEMENTS = (T.INT, T.BOOL, T.FLOAT, T.TENSOR)
"""Of lists. `[]` is a list of tensors; a list of floats raises, as in Python."""


def tensor_index(em: Emitter, range: SourceRange, exprs: Sequence[tree.Expr]) -> TensorIndex:
    """The index of a tensor that stands between brackets."""
    parts: list[Index] = []
    for expr in exprs:
        part = _emit_index_expression(em, expr)
        if isinstance(part, Value) and isinstance(part.type, T.TupleType) and len(exprs) == 1:
            parts += [_checked_part(em, expr, v) for v in em.unpack_tuple(part)]
        else:
            parts.append(part if part is None or isinstance(part, SliceValue) else _checked_part(em, expr, part))
    if parts.count(None) > 1:
        raise TENSOR_INDEX("an index can only have a single ellipsis (`...`)", range)
    return TensorIndex(range, tuple(parts))


def _checked_part(em: Emitter, expr: tree.Expr, part: Value) -> Value:
    part = _as_list(em, em.enum_value(part, expr.range))
    if part.type is T.NUMBER:
        return em.op("prim::AsIndex", [part], range=expr.range)
    innermost = part.type
    while isinstance(innermost, T.ListType):
        innermost = innermost.element
    if part.type is not innermost and innermost in _INDEX_ELEMENTS:
        return part
    if any(T.is_subtype(part.type, t) for t in _INDEX_TYPES):
        return part
    raise TENSOR_INDEX(
        "indexing tensor with unsupported index type", expr.range,
        expected="int, bool, slice, None, `...`, List[int], List[bool] or Tensor", found=part.type.annotation,
    )  # fmt: skip


def _as_list(em: Emitter, part: Value) -> Value:
    """A tuple among the entries of an index as the list of its elements, which it means; other values as they are."""
    if not isinstance(part.type, T.TupleType) or not part.type.elements:
        return part
    elements = [_as_list(em, element) for element in em.unpack_tuple(part)]
    common = elements[0].type
    return em.make_list(common, elements) if all(e.type is common for e in elements) else part


def emit_subscript_assign(em: Emitter, range: SourceRange, target: tree.Subscript, value: NamedValue) -> None:
    """`target[...] = value` for tensors, lists and dicts."""
    container = em.emit(target.value)
    if T.is_subtype(container.type, T.TENSOR):
        _assign_into_tensor(em, range, container, target, value)
        return
    target = of_tuple_key(target, SimpleValue(container), em.learned is not None)
    found = single_index(em, target, container.type) if isinstance(container.type, T.ListType) else None
    if isinstance(found, SliceValue):
        assign_slice(em, range, container, found, value.in_graph(em.graph))
        return
    if target.is_of_tuple or isinstance(target.indices[0], tree.SliceExpr):
        raise NO_ASSIGNMENT.unsupported("Sliced expression not yet supported for subscripted assignment", target.range)
    if isinstance(container.type, T.TupleType):
        raise NO_ASSIGNMENT(
            f"{container.type.annotation} does not support subscripted assignment", target.range,
            hint="tuples do not change: make a new one, or use a list",
        )  # fmt: skip
    index = target.indices[0]
    if is_object(container):
        set_item(em, range, container, em.emit(index), value.in_graph(em.graph))
        return
    arguments = [
        NamedValue("self", container, range=target.value.range),
        NamedValue("idx", em.emit(index) if found is None else found, range=index.range),
        value,
    ]
    em.op("aten::_set_item", arguments, range=range)


def set_item(em: Emitter, range: SourceRange, owner: Value, index: Value, value: Value) -> None:
    """`owner[index] = value` for an object.

    Raises:
        CompileError: where its class has no `__setitem__`.
    """
    if call_magic(em, range, owner, "__setitem__", index, value) is None:
        raise NO_ASSIGNMENT(
            f"'{owner.type.annotation}' object does not support item assignment", range, hint="define __setitem__"
        )


def _assign_into_tensor(
    em: Emitter, range: SourceRange, tensor: Value, target: tree.Subscript, value: NamedValue
) -> None:
    index = tensor_index(em, target.range, target.indices)
    assigned = value.in_graph(em.graph)
    if not T.is_subtype(assigned.type, T.TENSOR) and assigned.type not in _NUMBERS:
        raise NO_ASSIGNMENT(
            "only a tensor or a number can be assigned to elements of a tensor", value.range or range,
            found=assigned.type.annotation,
        )  # fmt: skip
    index.assign(em, range, tensor, assigned)


_NUMBERS = (T.NUMBER, T.INT, T.BOOL, T.FLOAT, T.COMPLEX)
