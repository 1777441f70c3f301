"""Constants that mean a dtype, a layout or a memory format become torch's objects again.

    %d : int = prim::dtype(%x)                     %d : int = prim::dtype(%x)
    %6 : int = prim::Constant[value=6]()    =>     %6 : int = prim::Constant[value=<torch.float32>]()
    %c : bool = aten::eq(%d, %6)                   %c : bool = aten::eq(%d, %6)

In text, of a graph or of an archive, both are `value=6`. The machine takes a number for the object of that number (see
`ir/int_codes.py`), Python and what other programs are made of do not.

Values that are compared with, put into or taken from one another are of one kind. A kind that has objects of one class
among its values and no number that is computed, or computed with, is of that class, constants included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.int_codes import BY_TYPE, INT_OBJECTS
from jitlite.ir.ops import Op
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.types import Type
from jitlite.ir.unit import called_function
from jitlite.passes.registry import graph_pass

_POSITIONS = frozenset({"idx", "reverse"})
"""Parameters of these that are numbers, except for keys of dicts."""

_CODED: dict[str | None, Type] = {"dtype": T.SCALAR_TYPE, "layout": T.LAYOUT}
"""By what `Spelling.CODED` says."""
_CLASSES: dict[type, Type] = {type(values[0]): t for t, values in BY_TYPE.items()}


class _IntKind:
    """A set of ints; kinds that turn out to be one lead to each other by `same_as`."""

    def __init__(self, *classes: Type) -> None:
        self.same_as: _IntKind | None = None
        self.classes = set(classes)
        self.has_numbers = False

    def found(self) -> _IntKind:
        kind = self
        while kind.same_as is not None:
            kind = kind.same_as
        return kind


_Shape = Any
"""The kinds in a value: a kind for an int, a list of shapes for a list, dict or tuple, None for anything else."""


def _shape(t: Type) -> _Shape:
    if isinstance(t, T.OptionalType):
        return _shape(t.element)
    if t in (T.INT, T.SCALAR_TYPE, T.LAYOUT, T.MEMORY_FORMAT):
        return _IntKind()
    if isinstance(t, T.ListType | T.DictType | T.SetType | T.TupleType):
        return [_shape(part) for part in t.contained]
    return None


def _unite(shapes: Iterable[_Shape]) -> None:
    known = [s for s in shapes if s is not None]
    for other in known[1:]:
        first = known[0]
        if isinstance(first, list) and isinstance(other, list):
            for a, b in zip(first, other, strict=False):
                _unite([a, b])
        elif isinstance(first, _IntKind) and isinstance(other, _IntKind):
            a, b = first.found(), other.found()
            if a is not b:
                b.same_as = a
                a.classes |= b.classes
                a.has_numbers = a.has_numbers or b.has_numbers


class Kinds:
    """The kinds of the ints of some graphs, and of those that they call."""

    def __init__(self) -> None:
        self._shapes: dict[Value, _Shape] = {}
        self._attributes: dict[tuple[Type, str], _Shape] = {}
        self._constants: dict[Graph, list[tuple[Node, int, _Shape]]] = {}

    def add(self, graph: Graph) -> None:
        """Learn what a graph, and what it calls, does with its ints."""
        if graph in self._constants:
            return
        self._constants[graph] = []
        for node in list(graph.all_nodes()):
            if node.kind != "prim::Constant":
                self._node(graph, node)
            for block in node.blocks:
                self._used(graph, block.return_node)
        self._used(graph, graph.block.return_node)

    def convert(self) -> bool:
        """Give all graphs the objects that their constants mean; says whether there were any."""
        changed = False
        for graph, constants in self._constants.items():
            for node, position, shape in constants:
                value = node.inputs[position]
                known = constant_of(value)
                converted = _converted(known, shape)
                if converted is not known:
                    with graph.inserting_before(value.node):
                        made = graph.insert_constant(converted, value.type, value.node.range)
                    node.replace_input(position, made)
                    changed = True
        return changed

    def object_of_parameter(self, value: Value, default: object) -> Any:
        """The default of the parameter that `value` is, with objects for the numbers that mean some."""
        return _converted(default, self._of(value))

    def object_of_attribute(self, owner: Type, name: str, value: object) -> Any:
        """What an attribute holds, with objects for the numbers that mean some."""
        return _converted(value, self._attributes.get((owner, name)))

    # -- one node

    def _of(self, value: Value) -> _Shape:
        found = self._shapes.get(value)
        if found is None:
            found = self._shapes[value] = _shape(value.type)
        return found

    def _used(self, graph: Graph, node: Node) -> list[_Shape]:
        """The shapes of the operands. Each use of a constant is on its own, as constants are shared."""
        shapes = []
        for position, value in enumerate(node.inputs):
            shape = self._of(value)
            if value.node.kind == "prim::Constant" and shape is not None:
                shape = _shape(value.type)
                _learn(constant_of(value), shape)
                self._constants[graph].append((node, position, shape))
            shapes.append(shape)
        return shapes

    def _node(self, graph: Graph, node: Node) -> None:
        given, made = self._used(graph, node), [self._of(v) for v in node.outputs]
        callee = called_function(node)
        if callee is not None:
            self.add(callee.graph)
            first = len(given) - len(callee.graph.inputs)
            for value, shape in zip(callee.graph.inputs, given[first:], strict=True):
                _unite([self._of(value), shape])
            for value, shape in zip(callee.graph.outputs, made, strict=False):
                _unite([self._of(value), shape])
        elif node.kind in ("prim::GetAttr", "prim::SetAttr"):
            place = node.inputs[0].type, node.attributes["name"]
            held = made[0] if made else given[1]
            _unite([self._attributes.setdefault(place, held), held])
        elif node.kind == "prim::If":
            for position, shape in enumerate(made):
                _unite([shape, *(self._returned(graph, b.return_node)[position] for b in node.blocks)])
        elif node.kind == "prim::Loop":
            body = node.blocks[0]
            results = self._returned(graph, body.return_node)
            for position, shape in enumerate(made):
                _unite([shape, given[position + 2], self._of(body.inputs[position + 1]), results[position + 1]])
            _compute([self._of(body.inputs[0])])
        elif node.kind in _PARTS:
            _PARTS[node.kind](node, given, made)
        elif node.op is not None and node.op.fn is not None:
            _operator(node, node.op, given, made)

    def _returned(self, graph: Graph, node: Node) -> list[_Shape]:
        used = [(p, s) for n, p, s in self._constants[graph] if n is node]
        shapes = [self._of(v) for v in node.inputs]
        for position, shape in used or [(p, s) for p, s in enumerate(self._used(graph, node))]:
            shapes[position] = shape
        return shapes


def _learn(value: object, shape: _Shape) -> None:
    """A constant that is an object tells what its kind is."""
    if isinstance(shape, _IntKind):
        known = _CLASSES.get(type(value)) if isinstance(value, INT_OBJECTS) else None
        if known is not None:
            shape.classes.add(known)
    elif isinstance(shape, list) and isinstance(value, list | tuple | dict):
        for part, kind in _parts(value, shape):
            _learn(part, kind)


def _parts(value: Any, shape: list[_Shape]) -> list[tuple[Any, _Shape]]:
    if isinstance(value, dict):
        return [(k, shape[0]) for k in value] + [(v, shape[1]) for v in value.values()]
    return list(zip(value, shape * len(value) if isinstance(value, list) else shape, strict=False))


def _converted(value: object, shape: _Shape) -> Any:
    """The constant with objects for the numbers that mean some; the constant itself if there are none."""
    if isinstance(shape, _IntKind) and type(value) is int:
        kind = shape.found()
        objects = BY_TYPE[next(iter(kind.classes))] if len(kind.classes) == 1 and not kind.has_numbers else ()
        found = objects[value] if 0 <= value < len(objects) else None
        return value if found is None else found
    if not isinstance(shape, list) or not isinstance(value, list | tuple | dict):
        return value
    parts = [_converted(part, kind) for part, kind in _parts(value, shape)]
    if all(new is old for new, (old, _) in zip(parts, _parts(value, shape), strict=True)):
        return value
    if isinstance(value, dict):
        return dict(zip(parts[: len(value)], parts[len(value) :], strict=True))
    make = getattr(value, "_make", type(value))
    return make(parts)


def _compute(shapes: Iterable[_Shape]) -> None:
    """Say that these are numbers."""
    for shape in shapes:
        if isinstance(shape, _IntKind):
            shape.found().has_numbers = True
        elif isinstance(shape, list):
            _compute(shape)


# -- kinds of nodes


def _list(node: Node, given: list[_Shape], made: list[_Shape]) -> None:
    _unite([made[0][0] if made[0] else None, *given])


def _dict(node: Node, given: list[_Shape], made: list[_Shape]) -> None:
    if made[0]:
        _unite([made[0][0], *given[::2]])
        _unite([made[0][1], *given[1::2]])


def _tuple(node: Node, given: list[_Shape], made: list[_Shape]) -> None:
    for part, shape in zip(made[0] or (), given, strict=False):
        _unite([part, shape])


def _unpack(node: Node, given: list[_Shape], made: list[_Shape]) -> None:
    parts = given[0] or []
    for part, shape in zip(parts * len(made) if node.kind == "prim::ListUnpack" else parts, made, strict=False):
        _unite([part, shape])


def _item(node: Node, given: list[_Shape], made: list[_Shape]) -> None:
    at, parts = constant_of(node.inputs[1], None), given[0]
    if isinstance(parts, list) and type(at) is int and -len(parts) <= at < len(parts):
        _unite([parts[at], made[0]])
    _compute(given[1:])


_PARTS = {
    "prim::ListConstruct": _list,
    "prim::DictConstruct": _dict,
    "prim::TupleConstruct": _tuple,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::TupleIndex": _item,
}


def _operator(node: Node, op: Op, given: Sequence[_Shape], made: Sequence[_Shape]) -> None:
    formals = op.schema.arguments
    if node.kind in ("aten::__is__", "aten::__isnot__"):
        _unite(given)
    if len(formals) != len(given):
        return  # any number of operands: printed, formatted
    variables: dict[str, list[_Shape]] = {}
    ints: list[_Shape] = []
    for formal, shape in zip(formals, given, strict=True):
        plain = formal.declared_type
        plain = plain.element if isinstance(plain, T.OptionalType) else plain
        if plain in BY_TYPE and isinstance(shape, _IntKind):
            shape.found().classes.add(plain)
        elif node.has(Trait.COMPARES_CODES) and (
            formal.name not in _POSITIONS or isinstance(formals[0].type, T.DictType)
        ):
            _match(formal.type, shape, variables, ints)
        else:
            numbers: list[_Shape] = []
            _match(formal.type, shape, variables, numbers)
            if not isinstance(plain, T.DictType):
                _compute(numbers)
    ints += _results(node, op, made, variables)
    _unite(ints)
    for shapes in variables.values():
        _unite(shapes)


def _results(node: Node, op: Op, made: Sequence[_Shape], variables: dict[str, list[_Shape]]) -> list[_Shape]:
    """Say what the results are; those of them that are one kind with the operands are returned."""
    ints: list[_Shape] = []
    hands_on = node.has(Trait.COMPARES_CODES) and node.kind not in ("aten::index", "aten::count")
    for returned, shape in zip(op.schema.returns, made, strict=False):
        told = returned.declared_type if returned.declared_type in BY_TYPE else _CODED.get(Spelling.CODED.of(node.kind))
        if told is not None and isinstance(shape, _IntKind):
            shape.found().classes.add(told)
            continue
        results: list[_Shape] = []
        _match(returned.type, shape, variables, results)
        if hands_on:
            ints += results
        else:
            _compute(results)
    return ints


def _match(formal: Type, shape: _Shape, variables: dict[str, list[_Shape]], ints: list[_Shape]) -> None:
    """Find what stands for the variables of a schema, and its ints."""
    if isinstance(formal, T.OptionalType):
        _match(formal.element, shape, variables, ints)
    elif isinstance(formal, T.VarType):
        variables.setdefault(str(formal), []).append(shape)
    elif isinstance(shape, _IntKind) and formal is T.INT:
        ints.append(shape)
    elif isinstance(shape, list):
        for part, inner in zip(formal.contained, shape, strict=False):
            _match(part, inner, variables, ints)


@graph_pass
def int_codes_to_objects(graph: Graph) -> bool:
    """Put torch's objects in place of numbers that mean dtypes, layouts and memory formats."""
    kinds = Kinds()
    kinds.add(graph)
    return kinds.convert()
