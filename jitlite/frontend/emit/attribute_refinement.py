"""Refinement of attributes and of elements of containers: `if self.x is not None: self.x + 1`.

torch.jit refines variables only. A variable is a name of the function's own, so a narrower type can be stored in it. An
attribute belongs to an object that others may hold too. What a condition says of it is a fact of the frame
(`scope.Frame.facts`), which each later read of the attribute looks up, and which is dropped by whatever might change
what the attribute holds:

  - an assignment to the variable that the path starts from;
  - an assignment to an attribute of that name, of whatever object: it may be the same one;
  - for an element of a list or dict, which a constant index or key tells, a change of any list or dict;
  - a call of a function that makes such an assignment, directly or through others. The body of a script function says
    which attributes it assigns; of a Python function nothing is known. Operators assign none, but those that sort
    objects or turn them into text run methods of theirs, of which nothing is known either.

After a branch, what holds at the end of all branches that go on still holds. What the body of a loop may change does
not hold in it, as it may have been run before; what a protected body may change does not hold in the handlers.

An assignment is a source of facts too: after `self.x = torch.zeros(2)` the optional attribute `x` is a Tensor.
This module knows paths and effects; `branch_refinement.py` applies them while a function is emitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from jitlite.frontend.emit.scope import Frame, Path
from jitlite.frontend.syntax.nested_scopes import display_name
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.ops import lookup
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.types import Type
from jitlite.ir.unit import Function, called_function

_ITEM = ".["
"""What the link to an element of a list or dict starts with. Like an attribute, it may be assigned."""

_WRITTEN = "["
"""Stands among the names of attributes for the elements of all lists and dicts."""


# -- paths
def path_of(value: Value) -> Path | None:
    """The path by which a value has just been read, None where it was not read by one."""
    links: list[str] = []
    node = value.node
    while node.kind != "prim::Load":
        if node.kind == "prim::GetAttr":
            links.append(f".{node.attributes['name']}")
        elif node.kind == "prim::TupleIndex":
            position = constant_of(node.inputs[1], None)
            if not isinstance(position, int):
                return None
            count = len(node.inputs[0].type.contained)
            links.append(f"[{position + count if position < 0 else position}]")
        elif node.kind == "aten::__getitem__" and is_constant(node.inputs[1]):
            links.append(f"{_ITEM}{constant_of(node.inputs[1])!r}]")
        elif node.kind != "prim::unchecked_cast":
            return None
        node = node.inputs[0].node
    return (node.attributes["name"], *reversed(links))


def shown_path(path: Path) -> tuple[str, str]:
    """A path as programs spell it, and a name for a variable that holds what it leads to."""
    root, *links = path
    last = next((link for link in reversed(links) if link.startswith(".")), root)
    shown = "".join([display_name(root), *links]).replace(_ITEM, "[")
    return shown, "item" if last.startswith(_ITEM) else last.lstrip(".")


# -- what changes attributes


def may_assign(kind: str) -> bool:
    """May nodes of this kind assign attributes?"""
    return (
        kind == "prim::SetAttr"
        or kind in Trait.CALL.kinds
        or kind in Trait.RUNS_UNKNOWN.kinds
        or kind in Spelling.CONTEXT_METHOD.by_kind
    )


_MAY_BE_OBJECTS = (T.ANY, T.ANY_LIST, T.ANY_TUPLE, T.ANY_DICT, T.PY_OBJECT)


def runs_methods(kind: str, types: Iterable[Type]) -> bool:
    """May an operator with inputs of these types run methods of objects, as sorting and printing do?"""
    return kind in Trait.RUNS_METHODS.kinds and any(map(_may_hold_objects, types))


@cache
def writes_items(kind: str) -> bool:
    """May an operator change what lists or dicts hold?"""
    written = [a.type for op in lookup(kind) for a in op.schema.arguments if a.is_write]
    return any(not isinstance(t, T.TensorType) for t in written)


def is_item(path: Path) -> bool:
    """Does the path lead to, or by way of, an element of a list or dict?"""
    return any(link.startswith(_ITEM) for link in path)


def _may_hold_objects(t: Type) -> bool:
    return (
        isinstance(t, T.ClassType | T.InterfaceType) or t in _MAY_BE_OBJECTS or any(map(_may_hold_objects, t.contained))
    )


def assigned_attributes(node: Node) -> frozenset[str] | None:
    """The names of the attributes that running a node may assign; None where it may be any."""
    return _assigned([node], set())


def _assigned(nodes: Iterable[Node], seen: set[Function]) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for node in nodes:
        more = _assigned_by(node, seen)
        if more is None:
            return None
        found |= more
    return found


def _assigned_by_method(owner: Type, name: str, seen: set[Function]) -> frozenset[str] | None:
    method = owner.methods.get(name) if isinstance(owner, T.ClassType) else None
    return _assigned_in(method, seen) if isinstance(method, Function) else frozenset()


def _assigned_by(node: Node, seen: set[Function]) -> frozenset[str] | None:
    if node.kind == "prim::SetAttr":
        return frozenset({node.attributes["name"]})
    if node.has(Trait.RUNS_UNKNOWN) or runs_methods(node.kind, (v.type for v in node.inputs)):
        return None
    context_method = Spelling.CONTEXT_METHOD.of(node.kind)
    if context_method is not None:
        return _assigned_by_method(node.inputs[0].type, context_method, seen)
    if not node.has(Trait.CALL):
        return frozenset({_WRITTEN}) if writes_items(node.kind) else frozenset()
    function = called_function(node)
    if function is not None:
        return _assigned_in(function, seen)
    owner = node.inputs[0].type
    # a class of torch, such as no_grad, has no attributes that scripts see
    return frozenset() if isinstance(owner, T.ClassType) and owner.definition is None else None


def _assigned_in(function: Function, seen: set[Function]) -> frozenset[str] | None:
    if function in seen:
        return frozenset()
    seen.add(function)
    return _assigned(function.graph.all_nodes(), seen) if function.is_compiled else None


def follow_effect(frame: Frame, node: Node) -> None:
    """Bring the facts of a frame in line with what a node that has just been emitted does."""
    if frame.facts:
        names = assigned_attributes(node)
        if names is None:
            frame.drop(is_changeable)
        elif names:
            links = {f".{name}" for name in names}
            frame.drop(lambda path: not links.isdisjoint(path) or (_WRITTEN in names and is_item(path)))
    if node.kind == "prim::SetAttr":
        _learn_from_assignment(frame, node)


def is_changeable(path: Path) -> bool:
    """May what the path leads to be another value later, while the variable is the same?"""
    return any(link.startswith(".") for link in path)


def _learn_from_assignment(frame: Frame, node: Node) -> None:
    owner, assigned = node.inputs
    name = node.attributes["name"]
    declared = owner.type.attributes.get(name) if isinstance(owner.type, T.ClassType) else None
    path = path_of(owner)
    if path is None or not isinstance(declared, T.UnionType) or T.may_be_none(assigned.type):
        return
    if assigned.type is not T.ANY and T.is_subtype(assigned.type, declared):
        reached: Path = (*path, f".{name}")
        frame.facts[reached] = T.unshaped(assigned.type)
