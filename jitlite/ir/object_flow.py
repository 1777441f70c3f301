"""Which ints of a graph may be objects such as dtypes at run time (see `int_codes.py`).

    %d : int = prim::dtype(%x)                     an object for certain
    %c : bool = aten::eq(%d, %6)                   so this compares an object with a number
    %e : bool = aten::eq(%n, %6)                   this does if the caller gave an object for the parameter `n`
    %f : bool = aten::eq(%i, %6)                   and this, of numbers that arithmetic has given, never does

Values that one may come to be or to hold another of are one group; a group is as likely to have objects as its
likeliest member. Programs of numbers have none, and operators on them need not know of objects at all.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.int_codes import INT_OBJECTS, holds_object, is_int_coded
from jitlite.ir.ops import fn_with_objects
from jitlite.ir.regions import REGION, Region
from jitlite.ir.schema import Schema
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type


class Likelihood(enum.IntEnum):
    """How likely a value is, or holds, an object that is typed int."""

    NUMBER = 0
    """No."""
    GIVEN = 1
    """Where the caller gave one. Functions are compiled anew when that happens."""
    STORED = 2
    """It comes from an attribute or from a function; such values are numbers most of the time."""
    OBJECT = 3
    """There are objects among what it may be."""


_POSITIONS = frozenset({"idx", "index", "ind", "i", "start", "end", "step", "n", "dim", "reverse", "element_kind"})
"""Parameters of operators on lists that say where."""

_IDENTITY = frozenset({operator.is_, operator.is_not})
_COMPARING = _IDENTITY | {operator.eq, operator.ne}
"""Operators that need no help with two objects."""


def _handed_on(node: Node, schema: Schema) -> list[Value]:
    """The operands that may be, or be in, the results: those that are not positions in a list."""
    formals = schema.arguments
    told = [a.name for a in formals] if len(formals) == len(node.inputs) else [""] * len(node.inputs)
    of_dict = bool(formals) and isinstance(formals[0].type, T.DictType)
    return [v for v, name in zip(node.inputs, told, strict=True) if of_dict or name not in _POSITIONS]


class ObjectFlow:
    """What is known of the values of one graph.

    Args:
        given: may the arguments of the graph be such objects?
    """

    def __init__(self, graph: Graph, given: bool) -> None:
        self._parent: dict[Value, Value] = {}
        self._likelihood: dict[Value, Likelihood] = {}
        for value in graph.inputs:
            self._see([value], Likelihood.OBJECT if given else Likelihood.GIVEN)
        for node in graph.all_nodes():
            self._node(node)

    def of(self, value: Value) -> Likelihood:
        """How likely the value is or holds an object."""
        if value.node.kind == "prim::Constant":
            return Likelihood.OBJECT if holds_object(constant_of(value)) else Likelihood.NUMBER
        return self._likelihood.get(self._root(value), Likelihood.NUMBER) if may_hold(value.type) else Likelihood.NUMBER

    def of_any(self, values: Iterable[Value]) -> Likelihood:
        """How likely one of the values is or holds an object."""
        return max(map(self.of, values), default=Likelihood.NUMBER)

    def needs_objects(self, node: Node) -> bool:
        """Is the operator to be run as `ops.fn_with_objects` says, which takes longer?"""
        op = node.op
        if op is None or op.fn is None or not any(may_hold(v.type) for v in node.inputs):
            return False
        if op.fn in _COMPARING and all(map(is_object, node.inputs)):
            return False
        found = self.of_any(node.inputs)
        if op.with_objects is not None and op.fn not in _IDENTITY:
            return found >= Likelihood.STORED and fn_with_objects(op) is not op.fn
        if op.fn in _IDENTITY and any(v.type is T.NONE for v in node.inputs):
            return False
        return found is Likelihood.OBJECT and fn_with_objects(op) is not op.fn

    # -- groups

    def _root(self, value: Value) -> Value:
        while (parent := self._parent.get(value)) is not None:
            value = parent
        return value

    def _see(self, values: Sequence[Value], likelihood: Likelihood = Likelihood.NUMBER) -> None:
        """Put the values in one group, which may have objects as the likelihood says."""
        held = [v for v in values if may_hold(v.type)]
        roots = list(dict.fromkeys(self._root(v) for v in held if v.node.kind != "prim::Constant"))
        if roots:
            constants = [self.of(v) for v in held if v.node.kind == "prim::Constant"]
            known = [self._likelihood.get(root, Likelihood.NUMBER) for root in roots]
            for root in roots[1:]:
                self._parent[root] = roots[0]
            self._likelihood[roots[0]] = max([likelihood, *constants, *known])

    # -- nodes

    def _node(self, node: Node) -> None:
        if node.kind == "prim::Constant" or not (node.blocks or any(may_hold(v.type) for v in self._around(node))):
            return
        if node.kind == "prim::If":
            for position, output in enumerate(node.outputs):
                self._see([output, *(b.outputs[position] for b in node.blocks)])
        elif node.kind == "prim::Loop":
            body = node.blocks[0]
            for position, output in enumerate(node.outputs):
                self._see([output, node.inputs[position + 2], body.inputs[position + 1], body.outputs[position + 1]])
        elif node.kind == REGION:
            self._region(Region(node))
        elif node.blocks:
            inner = [v for b in node.blocks for v in (*b.inputs, *b.outputs)]
            self._see([*node.inputs, *node.outputs, *inner], Likelihood.STORED)
        elif node.has(Trait.DISPLAY):
            self._see(self._around(node))
        else:
            self._operator(node)

    def _region(self, region: Region) -> None:
        outside, inside = (*region.inputs, *region.outputs), (*region.parameters, *region.results)
        for pair in zip(outside, inside, strict=True):
            self._see(pair)

    @staticmethod
    def _around(node: Node) -> list[Value]:
        return [*node.inputs, *node.outputs]

    def _operator(self, node: Node) -> None:
        op = node.op
        if op is None or op.fn is None or node.kind == "prim::EnumValue":
            if node.kind != "prim::Uninitialized":
                self._see(node.outputs, Likelihood.STORED)
            return
        schema = op.schema
        if node.has(Trait.GIVES_CODE) or any(is_int_coded(r.declared_type) for r in schema.returns):
            self._see(node.outputs, Likelihood.OBJECT)
        elif op.overload is not None:
            return  # torch's own operators give numbers
        elif (
            schema.is_mutable or node.has(Trait.HANDS_ON_CODES) or any(T.has_variables(r.type) for r in schema.returns)
        ):
            self._see([*_handed_on(node, schema), *node.outputs])
        elif any(not _is_number(r.type) for r in schema.returns):
            self._see(node.outputs, Likelihood.STORED)


def _is_number(t: Type) -> bool:
    inner = t.element if isinstance(t, T.ListType | T.OptionalType) else t
    return inner in (T.INT, T.NUMBER) or not may_hold(t)


def may_hold(t: Type) -> bool:
    """Can a value of the type be, or hold, an int?"""
    return T.cached_on(t, "may hold an int", _may_hold)


def _may_hold(t: Type) -> bool:
    return t in (T.INT, T.NUMBER, T.ANY, T.ANY_LIST, T.ANY_TUPLE, T.ANY_DICT, T.ANY_SET) or any(
        map(may_hold, t.contained)
    )


def is_object(value: Value) -> bool:
    """Is the value such an object for certain?"""
    node = value.node
    if node.kind == "prim::Constant":
        return isinstance(constant_of(value), INT_OBJECTS)
    return node.has(Trait.GIVES_CODE)


def mixes_keys(keys: Sequence[Any]) -> bool:
    """Are there both objects and numbers among the keys?"""
    return len({isinstance(k, INT_OBJECTS) for k in keys}) > 1
