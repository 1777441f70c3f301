"""Attributes of modules that become constants of graphs: the analysis and the replacement behind freezing.

An attribute of one object is a *cell*. Its reads can be replaced by its value if

- the object is known: `self`, or reached from it by attributes that are never assigned;
- no graph assigns the attribute, of that object or of one that is not known;
- no graph writes what it holds (in place, or as an element of something else), nor anything that shares memory with it;
- objects that leave the graphs (returned, given to Python) are left alone: they may be changed from outside.

The caller of the graphs is trusted not to write such values through arguments: freezing takes them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.memory_kinds import contained_kinds, reachable_kinds
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType, InterfaceType, Type
from jitlite.ir.values import class_type_of

Cell = tuple[int, str]
"""An object, by identity, and the name of its attribute."""

_CELL = "cell"
"""The attribute that marks, in a copied graph, a read with its cell."""

_FLAT = (bool, int, float, complex, str, type(None), torch.Tensor)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """Every node of the graph and of the graphs that it forks."""
    for node in graph.all_nodes():
        yield node
        forked = node.attributes.get("Subgraph")
        if isinstance(forked, Graph):
            yield from all_nodes(forked)


def all_graphs(graph: Graph) -> list[Graph]:
    """The graph and the graphs that it forks, innermost first."""
    found: list[Graph] = []
    for node in graph.all_nodes():
        forked = node.attributes.get("Subgraph")
        if isinstance(forked, Graph):
            found += all_graphs(forked)
    return [*found, graph]


def named_types(t: Type) -> Iterator[ClassType | InterfaceType]:
    """The classes and interfaces that a type is or holds."""
    if isinstance(t, ClassType | InterfaceType):
        yield t
    for part in t.contained:
        yield from named_types(part)


@dataclass
class ReachableObjects:
    """The objects that can be reached from a module by attributes: submodules and objects of script classes."""

    root: object
    found: dict[int, tuple[Any, ClassType]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pending = [self.root]
        while pending:
            obj = pending.pop()
            t = class_type_of(obj)
            if t is None or id(obj) in self.found:
                continue
            self.found[id(obj)] = obj, t
            pending += [value for name in t.attributes if is_object(value := read(obj, name))]

    def of_type(self, wanted: Type) -> list[ClassType]:
        """The classes of the objects that a value of type `wanted` may be."""
        return list(dict.fromkeys(t for _, t in self.found.values() if T.is_subtype(t, wanted)))

    def cells(self) -> Iterator[tuple[Cell, ClassType, Any]]:
        """Every attribute of every object, with the object's type and the attribute's value."""
        for obj, t in self.found.values():
            for name in t.attributes:
                yield (id(obj), name), t, read(obj, name)

    def types_below(self, start: ClassType) -> set[ClassType]:
        """A class, and those of the objects that its objects may hold."""
        found: set[ClassType] = set()
        pending: list[ClassType | InterfaceType] = [start]
        while pending:
            t = pending.pop()
            if isinstance(t, InterfaceType):
                pending += self.of_type(t)
            elif t not in found:
                found.add(t)
                pending += [n for attribute in t.attributes.values() for n in named_types(attribute)]
        return found


def is_object(value: object) -> bool:
    """Is it a script module or an object of a script class?"""
    if isinstance(value, type):
        return False
    found = class_type_of(value)
    return found is not None and found.definition is not None


def read(owner: object, name: str) -> Any:
    """The attribute's value, None where the object has none yet."""
    return getattr(owner, name, None)


class Folding:
    """What is known of the attributes that some graphs use, and their replacement by constants.

    Args:
        objects: what can be reached from the module.
        graphs: each with the object that its first input is, None where that is not known.
        pinned: cells that stay although nobody writes them.
    """

    def __init__(
        self, objects: ReachableObjects, graphs: Sequence[tuple[Graph, object]], pinned: Callable[[object, str], bool]
    ) -> None:
        self.objects = objects
        self.graphs = [graph for graph, _ in graphs]
        self.escaped: set[ClassType] = set()
        """Classes of objects that leave the graphs."""
        self._owners = {graph.inputs[0]: owner for graph, owner in graphs if owner is not None}
        self._pinned = pinned
        self._outer: dict[Value, Value] = {}
        self._assigned: set[Cell] = set()
        self._assigned_members: set[tuple[Type, str]] = set()
        self._constants: dict[object, object] = {}

    # -- what is what

    def refresh(self) -> None:
        """Look at the graphs anew, after they have been changed."""
        self._outer = {}
        for graph in self.graphs:
            for node in all_nodes(graph):
                forked = node.attributes.get("Subgraph")
                if isinstance(forked, Graph):
                    self._outer.update(zip(forked.inputs, node.inputs, strict=True))
        self._assigned, self._assigned_members = set(), set()
        self._find_escapes()
        before = None
        while before != (before := (len(self._assigned), len(self._assigned_members))):
            self._find_assigned()

    def object_of(self, value: Value) -> Any:
        """The object that the value certainly is, None where that is not known."""
        node = value.node
        if node.kind == "prim::Param":
            outer = self._outer.get(value)
            return self._owners.get(value) if outer is None else self.object_of(outer)
        if _gives_same_object(node):
            return self.object_of(node.inputs[0])
        if node.kind != "prim::GetAttr":
            return None
        owner = self.object_of(node.inputs[0])
        if owner is None or self._is_assigned(owner, node.attributes["name"]):
            return None
        found = read(owner, node.attributes["name"])
        return found if is_object(found) else None

    def _is_assigned(self, owner: object, name: str) -> bool:
        t = class_type_of(owner)
        return (id(owner), name) in self._assigned or (t, name) in self._assigned_members or t in self.escaped

    def _find_assigned(self) -> None:
        for graph in self.graphs:
            for node in all_nodes(graph):
                if node.kind == "prim::SetAttr":
                    owner, name = self.object_of(node.inputs[0]), node.attributes["name"]
                    if owner is None:
                        self._assigned_members.add((node.inputs[0].type, name))
                    else:
                        self._assigned.add((id(owner), name))
                elif node.kind == "prim::GetAttr":
                    owner, name = self.object_of(node.inputs[0]), node.attributes["name"]
                    if owner is not None and is_object(read(owner, name)) and self._pinned(owner, name):
                        self._assigned.add((id(owner), name))

    def _find_escapes(self) -> None:
        for graph in self.graphs:
            for inner in all_graphs(graph):
                for node in inner.all_nodes():
                    if not node.has(Trait.KEEPS_OBJECTS_INSIDE) and "Subgraph" not in node.attributes:
                        self._note_escapes(node.inputs[_is_interface_call(node) :])
            self._note_escapes(graph.outputs)

    def _note_escapes(self, values: Sequence[Value]) -> None:
        for value in values:
            for named in named_types(value.type):
                classes = self.objects.of_type(named) if isinstance(named, InterfaceType) else [named]
                for t in classes:
                    self.escaped |= self.objects.types_below(t)

    # -- interfaces

    def settle_interfaces(self) -> bool:
        """Give what is read from an attribute of an interface type the type of the module that is there."""
        changed = False
        for graph in self.graphs:
            for node in all_nodes(graph):
                if node.kind != "prim::GetAttr" or not isinstance(node.output.type, InterfaceType):
                    continue
                found = self.object_of(node.output)
                if found is not None:
                    _retype(node.output, class_type_of(found), self._outer)
                    changed = True
        return changed

    # -- replacement

    def fold_unwritten(self, *, scalars_only: bool) -> bool:
        """Replace reads of cells that are never written; with `scalars_only`, of values that nobody could write."""
        written = None if scalars_only else self._written_cells()
        changed = False
        for graph in self.graphs:
            for inner in all_graphs(graph):
                made: dict[Cell, Value] = {}
                for node in list(inner.all_nodes()):
                    changed = self._fold_read(inner, node, written, made) or changed
        return changed

    def _fold_read(self, graph: Graph, node: Node, written: _Written | None, made: dict[Cell, Value]) -> bool:
        owner = self.object_of(node.inputs[0]) if node.kind == "prim::GetAttr" else None
        if owner is None:
            return False
        name = node.attributes["name"]
        cell, value = (id(owner), name), read(owner, name)
        if self._is_assigned(owner, name) or self._pinned(owner, name) or is_object(value) or isinstance(value, set):
            return False
        if value is not None and not _stays_as_it_is(node.output.type, cell, written):
            return False
        return self._fold_value(graph, node, cell, value, written, made)

    def _fold_value(
        self, graph: Graph, node: Node, cell: Cell, value: Any, written: _Written | None, made: dict[Cell, Value]
    ) -> bool:
        copied = _is_shown_container(value, cell, written)
        constant = None
        if not copied or _is_flat(value):
            constant = made.get(cell) or self._constant(graph, node, cell, value)
        if constant is None:
            return False
        made[cell] = constant
        _replace(graph, node, constant, copied=copied)
        return True

    def _constant(self, graph: Graph, node: Node, cell: Cell, value: object) -> Value | None:
        key = id(value) if memory_of(value) else cell  # one object in two cells stays one object
        if key not in self._constants:
            self._constants[key] = _as_constant(value)
        found = self._constants[key]
        if found is _NONE_SUCH:
            return None
        t = T.NONE if found is None else T.without_none(node.output.type)
        if not isinstance(t, T.ListType | T.DictType | T.TupleType):
            t = type_of_constant(found) or t
        made = graph.create_constant(found, t, node.range)
        graph.block.prepend(made)
        return made.output.set_name(self._path(node))

    def _path(self, node: Node) -> str | None:
        """`self.sub.weight` of the read of an attribute."""
        names = [node.attributes["name"]]
        value = node.inputs[0]
        while value.node.kind != "prim::Param" or value in self._outer:
            if value in self._outer:
                value = self._outer[value]
                continue
            if value.node.kind == "prim::GetAttr":
                names.append(value.node.attributes["name"])
            value = value.node.inputs[0]
        return ".".join(["self", *reversed(names)])

    # -- what is written

    def _written_cells(self) -> _Written:
        found = _Written()
        members: set[tuple[Type, str]] = set(self._assigned_members)
        for graph in self.graphs:
            self._look_for_writes(graph, found, members)
        values = {cell: (t, value) for cell, t, value in self.objects.cells()}
        found.cells |= self._assigned
        found.cells |= {cell for cell, (t, _) in values.items() if (t, cell[1]) in members or t in self.escaped}
        _add_sharing(found.cells, {cell: memory_of(value) for cell, (_, value) in values.items()})
        return found

    def _copy_with_cells(self, graph: Graph) -> Graph:
        """A copy whose reads of attributes know what they read."""
        marked = [node for node in all_nodes(graph) if self._is_plain_read(node)]
        for node in marked:
            node.attributes[_CELL] = id(self.object_of(node.inputs[0])), node.attributes["name"]
        try:
            return graph.copy()
        finally:
            for node in marked:
                del node.attributes[_CELL]

    def _look_for_writes(self, graph: Graph, found: _Written, members: set[tuple[Type, str]]) -> None:
        copied = self._copy_with_cells(graph)
        _put_forks_in_line(copied)
        constants = _one_constant_each(copied)
        db = AliasDb(copied)
        for cell, value in constants.items():
            held = contained_kinds(value.type)
            if db.has_writers(value) if held else db.writes_own(value):
                found.cells.add(cell)
            if db.escapes(value):
                found.shown.add(cell)
        for node in copied.all_nodes():
            if node.kind == "prim::GetAttr" and db.has_writers(node.output):
                members.add((node.inputs[0].type, node.attributes["name"]))

    def _is_plain_read(self, node: Node) -> bool:
        """Is it the read of a cell that holds data and is never assigned?"""
        owner = self.object_of(node.inputs[0]) if node.kind == "prim::GetAttr" else None
        if owner is None or not reachable_kinds(node.output.type) or isinstance(node.output.type, ClassType):
            return False
        return not self._is_assigned(owner, node.attributes["name"])


@dataclass
class _Written:
    """Cells whose values are written, and those whose values somebody outside of the graph gets hold of."""

    cells: set[Cell] = field(default_factory=set)
    shown: set[Cell] = field(default_factory=set)


def _is_interface_call(node: Node) -> bool:
    """Is it a call of a method of an interface? It is inlined once the module is known, and refused otherwise."""
    return node.kind == "prim::CallMethod" and isinstance(node.inputs[0].type, InterfaceType)


def _gives_same_object(node: Node) -> bool:
    """Is the result the input, whatever its class?"""
    return node.has(Trait.SAME_VALUE) and not node.has(Trait.CHECKS_CLASS)


def _retype(value: Value, t: Type | None, outer: dict[Value, Value]) -> None:
    """Set the type of a value, of the same value in forked graphs, and of casts of it."""
    assert t is not None
    value.type = t
    for inner, given in outer.items():
        if given is value:
            _retype(inner, t, outer)
    for use in value.uses:
        if _gives_same_object(use.user):
            _retype(use.user.output, t, outer)


def _put_forks_in_line(graph: Graph) -> None:
    """Run forked graphs where they are forked. What they are given and give counts as handed to somebody else."""
    pending = [node for node in graph.all_nodes() if "Subgraph" in node.attributes]
    while pending:
        node = pending.pop()
        with graph.inserting_before(node):
            inside: list[Node] = []
            results = graph.inline_call(node.attributes.pop("Subgraph"), node.inputs, inside.append)
        for index in reversed(range(len(node.inputs))):
            if isinstance(node.inputs[index].type, ClassType | InterfaceType):
                node.remove_input(index)
        for result in results:
            node.add_input(result)
        pending += [n for top in inside for n in _nested(top) if "Subgraph" in n.attributes]


def _nested(node: Node) -> Iterator[Node]:
    yield node
    for block in node.blocks:
        for inner in block.nodes:
            yield from _nested(inner)


def _one_constant_each(graph: Graph) -> dict[Cell, Value]:
    """Replace marked reads by one constant for each cell."""
    found: dict[Cell, Value] = {}
    for node in list(graph.all_nodes()):
        cell = node.attributes.get(_CELL)
        if cell is None:
            continue
        if cell not in found:
            placeholder = graph.create("prim::Constant", (), (node.output.type,), {"value": cell})
            found[cell] = graph.block.prepend(placeholder).output
        node.output.replace_all_uses_with(found[cell])
        node.destroy()
    return found


def memory_of(value: object) -> frozenset[Any]:
    """What a value is made of that can be written: storages of tensors, lists, dicts and objects by identity."""
    found: set[Any] = set()
    pending, seen = [value], set()
    while pending:
        part = pending.pop()
        if isinstance(part, torch.Tensor):
            found.add(_storage_of(part))
        elif isinstance(part, list | dict | tuple):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if not isinstance(part, tuple):
                found.add(id(part))
            pending += [*part, *part.values()] if isinstance(part, dict) else part
        elif is_object(part):
            found.add(id(part))
    return frozenset(found)


def _storage_of(tensor: torch.Tensor) -> Any:
    try:
        return "storage", tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse, mkldnn and other tensors without one
        return id(tensor)


class _NoneSuch:
    pass


_NONE_SUCH = _NoneSuch()


def _stays_as_it_is(type: Type, cell: Cell, written: _Written | None) -> bool:
    """Is what the cell holds of a type that nothing can change, or known not to be written to?"""
    return not reachable_kinds(type) or (written is not None and cell not in written.cells)


def _replace(graph: Graph, node: Node, constant: Value, *, copied: bool) -> None:
    """Put a constant in the place of a read."""
    with graph.inserting_before(node):
        if copied:  # every call gives a list of its own, or a caller could change the constant
            constant = graph.insert("aten::copy", (constant,), (constant.type,), range=node.range).output
    node.output.replace_all_uses_with(constant)
    node.destroy()


def _as_constant(value: object) -> Any:
    """The value as a constant: containers copied, tensors cut off from autograd; `_NONE_SUCH` where it can be none."""
    if isinstance(value, torch.Tensor):
        return value.detach() if value.requires_grad or isinstance(value, torch.nn.Parameter) else value
    if isinstance(value, list | tuple):
        return _sequence_as_constant(value)
    if isinstance(value, dict):
        entries = {key: _as_constant(part) for key, part in value.items()}
        return _NONE_SUCH if any(part is _NONE_SUCH for part in entries.values()) else entries
    return value if value is None or type_of_constant(value) is not None else _NONE_SUCH


def _sequence_as_constant(value: list[object] | tuple[object, ...]) -> Any:
    parts = [_as_constant(part) for part in value]
    if any(part is _NONE_SUCH for part in parts):
        return _NONE_SUCH
    if isinstance(value, list):
        return parts
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _is_flat(value: list[object] | dict[object, object]) -> bool:
    parts = value.values() if isinstance(value, dict) else value
    return all(isinstance(part, _FLAT) for part in parts)


def _is_shown_container(value: object, cell: Cell, written: _Written | None) -> bool:
    """Is it a list or dict that leaves the graph, so that each read has to have its own?"""
    return written is not None and cell in written.shown and isinstance(value, list | dict)


def _add_sharing(written: set[Cell], parts: dict[Cell, frozenset[Any]]) -> None:
    """Add the cells that share memory with one that is written."""
    pending = [cell for cell in written if cell in parts]
    while pending:
        touched = parts[pending.pop()]
        for cell, memory in parts.items():
            if cell not in written and not touched.isdisjoint(memory):
                written.add(cell)
                pending.append(cell)
