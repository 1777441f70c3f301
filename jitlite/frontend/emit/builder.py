"""Inserting typed nodes: what the emitter and the sugared values both need.

A `Builder` is bound to one graph. It knows nothing of statements, names or Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from jitlite.base.changed import Changed
from jitlite.base.errors.types import WRONG_TYPE
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.interfaces import bodies_that_fail, infer_results
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Op
from jitlite.ir.types import Type
from jitlite.operators import overloads
from jitlite.operators.conversions import enum_value_type
from jitlite.operators.overloads import NamedValue

Args = Sequence[NamedValue]


class StatementLeaves(Exception):
    """What has been emitted of a statement ends the block."""


class Sugared(Protocol):
    """What becomes a value of the graph."""

    def as_value(self, b: Builder, range: SourceRange) -> Value: ...


class Builder:
    """Inserts nodes at the insertion point of `graph`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._number_constants: dict[tuple[type, int | str], Value] = {}

    def at(self, range: SourceRange) -> Changed:
        """Within the `with`, nodes carry `range`."""
        return Changed(self.graph, "current_range", range)

    def unannotated(self, value: Value) -> str | None:
        """The name of the parameter that `value` is, if it is a Tensor because it has no annotation."""
        return None

    def member(self, value: Value, name: str, range: SourceRange) -> object:
        """What the class of a value has under a name, for values that are no objects. Only an emitter knows."""
        return None

    # -- constants
    def constant(self, value: object, range: SourceRange | None = None, type: Type | None = None) -> Value:
        """A constant at the insertion point."""
        return self.graph.insert_constant(value, type, range)

    def number(self, value: int | float | complex, range: SourceRange | None = None) -> Value:
        """A number literal: one constant for each number, kept at the start of the graph."""
        key = (type(value), value if type(value) is int else repr(value))
        found = self._number_constants.get(key)
        if found is None:
            first = next(iter(self.graph.nodes), self.graph.block.return_node)
            with self.graph.inserting_before(first):
                found = self._number_constants[key] = self.constant(value, range)
        return found

    def emit_sugared(self, expr: Any, hint: Type | None = None) -> Any:
        """What an expression of the program denotes. Only an emitter knows."""
        raise NotImplementedError

    # -- operators
    def op(
        self,
        name: str,
        args: Sequence[Value | NamedValue],
        kwargs: Sequence[NamedValue] = (),
        range: SourceRange | None = None,
        self_value: NamedValue | None = None,
        candidates: Sequence[Op] | None = None,
    ) -> Value:
        """Call an operator: choose its overload, convert the arguments, insert the node.

        Args:
            candidates: choose among these instead of all overloads of the name.

        For a value of a Union that no overload takes, there is a call for each of its types.

        Raises:
            CompileError: where no overload fits.
        """
        where = range or self.graph.current_range
        named = [a if isinstance(a, NamedValue) else NamedValue(None, a, range=where) for a in args]
        try:
            return overloads.emit_builtin_call(self.graph, where, name, named, list(kwargs), self_value, candidates)
        except CompileError:
            of_union = overloads.argument_to_split(name, named, kwargs, self_value, candidates)
            if of_union is None:
                raise

        def call(one: Value) -> Value:
            given = [with_value(a, of_union, one) for a in named]
            this = None if self_value is None else with_value(self_value, of_union, one)
            return self.op(name, given, [with_value(k, of_union, one) for k in kwargs], where, this, candidates)

        return self.by_type(of_union, where, call)

    def node(self, kind: str, inputs: Iterable[Value], types: Iterable[Type], range: SourceRange | None = None) -> Node:
        """Insert a node of a kind that has no overloads."""
        return self.graph.insert(kind, inputs, types, None, range)

    # -- containers
    def make_tuple(self, values: Sequence[Value], type: Type | None = None) -> Value:
        return self.node("prim::TupleConstruct", values, [type or T.TupleType.of(v.type for v in values)]).output

    def make_list(self, element: Type, values: Sequence[Value]) -> Value:
        return self.node("prim::ListConstruct", values, [T.ListType.of(element)]).output

    def make_dict(self, type: Type, keys: Sequence[Value], values: Sequence[Value]) -> Value:
        pairs = [v for pair in zip(keys, values, strict=True) for v in pair]
        return self.node("prim::DictConstruct", pairs, [type]).output

    def unpack_tuple(self, value: Value) -> list[Value]:
        """The elements of a tuple; of one that was just made, the values it was made of."""
        if value.node.kind == "prim::TupleConstruct":
            return list(value.node.inputs)
        assert isinstance(value.type, T.TupleType)
        return self.node("prim::TupleUnpack", [value], value.type.elements).outputs

    def unpack_list(self, value: Value, size: int) -> list[Value]:
        assert isinstance(value.type, T.ListType)
        return self.node("prim::ListUnpack", [value], [value.type.element] * size).outputs

    def tuple_index(self, value: Value, index: Value, element: Type) -> Value:
        return self.node("prim::TupleIndex", [value, index], [element]).output

    # -- types
    def cast(self, value: Value, type: Type) -> Value:
        """The same value seen as the narrower (or wider) `type`."""
        return self.node("prim::unchecked_cast", [value], [type]).output

    def enum_value(self, value: Value, range: SourceRange | None = None) -> Value:
        """The value of a member of an `IntEnum` or `StrEnum`; other values as they are."""
        t = enum_value_type(value.type)
        return value if t is value.type else self.node("prim::EnumValue", [value], [t], range).output

    def by_type(self, value: Value, range: SourceRange | None, emit: Callable[[Value], Value]) -> Value:
        """For a value of a Union, what `emit` makes of whichever of its types it is of."""
        first, *others = T.members_of(value.type)
        if not others:
            return emit(value)
        test = self.node("prim::isinstance", [value], [T.BOOL], range)
        test.attributes["types"] = [first]
        choice = self.node("prim::If", [test.output], [], range)
        for t in (first, T.UnionType.of(others)):
            block = choice.add_block()
            with self.graph.inserting_at_end(block):
                block.add_output(self.by_type(self.cast(value, t), range, emit))
        common = T.unify(*(block.outputs[0].type for block in choice.blocks), default_to_union=True)
        assert common is not None
        return choice.add_output(common)

    def call_by_type(
        self, value: Value, range: SourceRange, args: Args, kwargs: Args, call: Callable[[Args, Args], Sugared]
    ) -> Value:
        """The result of a call for whichever of its types an argument of a Union is of."""

        def with_one(one: Value) -> Value:
            given, named = ([with_value(a, value, one) for a in part] for part in (args, kwargs))
            return call(given, named).as_value(self, range)

        return self.by_type(value, range, with_one)

    def uninitialized(self, type: Type) -> Value:
        """A value that is never read."""
        return self.node("prim::Uninitialized", [], [type]).output

    def convert_for_variable(self, type: Type, value: Value, range: SourceRange) -> Value:
        """`value`, converted to the type of a variable that it is assigned to; unchanged where it cannot be."""
        return self.convert(type, value, range)

    def convert(self, type: Type, value: Value, range: SourceRange) -> Value:
        """`value`, converted implicitly to `type` where TorchScript does that; unchanged where it cannot be."""
        infer_results([value.type], [type])
        return overloads.try_convert_to_type(self.graph, range, type, value, True, widen=True)

    def declared(self, type: Type, value: Value, range: SourceRange) -> Value:
        """`value` as what is annotated with `type`: an int for a float, a list of what a tuple holds, an int for a
        number that may be one."""
        is_number = value.type is T.NUMBER
        return overloads.try_convert_to_type(self.graph, range, type, value, is_number, widen=True)

    def expect(self, type: Type, value: Value, range: SourceRange, message: str, hint: str | None = None) -> Value:
        """`value` converted to `type`.

        Raises:
            CompileError: with `message` where it is no `type`.
        """
        converted = self.convert(type, value, range)
        if not T.is_subtype(converted.type, type):
            notes = bodies_that_fail(value.type, type)
            raise WRONG_TYPE(
                message, range, expected=type.annotation, found=value.type.annotation, hint=hint, notes=notes
            )
        return converted


def with_value(argument: NamedValue, old: Value, new: Value) -> NamedValue:
    """An argument of a call, with another value if it has the old one."""
    return argument._replace(value=new) if argument.value is old else argument
