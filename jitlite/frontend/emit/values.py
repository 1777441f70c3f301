"""Sugared values: what an expression can denote besides a value of the graph.

`torch.nn.functional.relu` is first a module, then a module, then a function; `range(n)` is something to loop over;
`x.add` is a method waiting for its call. A `SugaredValue` says what attribute access, calls, iteration and unpacking
mean for each; asking for more than it can do is a CompileError at the user's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from jitlite.base.errors.calls import FIXED_SIZE, NOT_CALLABLE, WRONG_ARGUMENTS
from jitlite.base.errors.names import MAY_BE_NONE, NO_ATTRIBUTE, NOT_A_VALUE
from jitlite.base.errors.types import NO_ASSIGNMENT, NO_INDEX, NOT_ITERABLE
from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.builtin_names import OPERATOR_METHODS, PYTHON_METHODS, takes_as_self
from jitlite.frontend.emit.call_hints import hint_for_empty_list, hint_for_unannotated
from jitlite.frontend.emit.format_strings import check_format
from jitlite.frontend.emit.python_arguments import call_operator
from jitlite.frontend.emit.sort_order import needs_order
from jitlite.frontend.emit.ways_out import attribute_names, instead_of_member, not_iterable, way_to_member, way_to_set
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.schema import Schema
from jitlite.ir.traits import Spelling
from jitlite.ir.type_unification import readable_list
from jitlite.ir.types import Type
from jitlite.operators.argument_hints import TEST_FOR_NONE
from jitlite.operators.overloads import NamedValue, match_schema

Args = Sequence[NamedValue]


class SugaredValue:
    """Base: denotes something of which nothing can be done."""

    kind = "value"
    is_made_anew = False
    """Does each use of it make another object? A variable then holds one that is made when it is assigned."""
    is_function = False
    """Is it called, and no value of a graph?"""

    @property
    def is_symbolic(self) -> bool:
        """Is it handed on as what it denotes, by variables, arguments and results, for want of a value in the graph?"""
        return self.is_function

    instead_of_call: str | None = None
    instead_of_value: str | None = None
    takes_functions = takes_iterables = False
    """May arguments of a call be functions? Does a call go through its arguments once?"""

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        """The graph's value, for what is one or can become one."""
        raise NOT_A_VALUE(f"{self.kind} cannot be used as a value", range, hint=self.instead_of_value)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        raise NO_ATTRIBUTE(f"attribute lookup is not defined on {self.kind}", range, found=f".{name}")

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        raise WRONG_ARGUMENTS(f"hasattr's first argument must be an object or module, got {self.kind}", range)

    def set_attr(self, b: Builder, range: SourceRange, name: str, value: Value, declared: Type | None = None) -> None:
        """Assign to an attribute; `declared` is the type of an annotation."""
        raise NO_ASSIGNMENT(f"cannot assign to attribute '{name}' of {self.kind}", range)

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        raise NOT_CALLABLE(f"cannot call {self.kind}", range, hint=self.instead_of_call)

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        """The parts, for unpacking; `size` is how many are wanted, where that is known."""
        raise NOT_A_VALUE(f"{self.kind} cannot be used as a tuple", range)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        """What a loop over this goes through: something with `length` and `element`."""
        raise NOT_ITERABLE(f"{self.kind} is not iterable", range)

    def length(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE(f"{self.kind} has no length", range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        hint = "call it, and index what it returns" if self.is_function else None
        raise NO_INDEX(f"{self.kind} is not subscriptable", range, hint=hint)

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value | None:
        """`item in this`; None for what is a value of the graph."""
        return None

    def truth(self, b: Builder, range: SourceRange) -> Value | None:
        """The truth of what is no value of the graph; None for what is one."""
        return b.constant(True, range) if self.is_function else None

    def as_argument(self, b: Builder, range: SourceRange) -> Value:
        """The value as an argument of an operator."""
        return self.as_value(b, range)

    def as_operand(self, b: Builder, range: SourceRange) -> Value:
        """The value beside an operator, which reads it and keeps nothing of it."""
        return self.as_value(b, range)

    def as_text(self, b: Builder, range: SourceRange) -> Value:
        """The value, or its text, as what a plain field of a format string shows."""
        return self.as_shown(b, range)

    def as_shown(self, b: Builder, range: SourceRange) -> Value:
        """The value as what Python shows of it."""
        return self.as_argument(b, range)

    @property
    def static_length(self) -> int | None:
        """The number of elements, where loops over this are unrolled at compile time."""
        return None

    def limit(self, b: Builder, range: SourceRange) -> Value | None:
        """How many rounds of an unrolled loop over this there are at most; None where all of them are run."""
        return None

    @property
    def counted(self) -> SugaredValue:
        """What has the length that ends a loop over this."""
        return self


class _ObjectDefinition(Protocol):
    """What the definition of a class says of its objects: see `objects.ObjectDefinition`."""

    def attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue: ...
    def call(self, b: Builder, range: SourceRange, value: Value, args: Args, kwargs: Args) -> SugaredValue: ...
    def magic(self, b: Builder, range: SourceRange, value: Value, name: str, args: Args) -> SugaredValue | None: ...
    def as_tuple(self, b: Builder, range: SourceRange, value: Value) -> list[SugaredValue]: ...
    def iterate(self, b: Builder, range: SourceRange, value: Value) -> SugaredValue: ...
    def element(self, b: Builder, range: SourceRange, value: Value, index: Value) -> SugaredValue: ...


def _definition(t: Type) -> _ObjectDefinition | None:
    """The definition of a class or an interface; None for other types, and where it has none."""
    found: _ObjectDefinition | None = t.definition if isinstance(t, T.ClassType | T.InterfaceType) else None
    return found


TENSOR_CASTS: dict[str, torch.dtype] = {
    "byte": torch.uint8, "char": torch.int8, "double": torch.float64, "float": torch.float32,
    "cfloat": torch.complex64, "cdouble": torch.complex128, "int": torch.int32, "long": torch.int64,
    "short": torch.int16, "half": torch.float16, "bool": torch.bool, "bfloat16": torch.bfloat16,
}  # fmt: skip
"""Tensor methods that are conversions to a dtype."""

_DTYPE_QUESTIONS = ("is_floating_point", "is_complex")
"""What can be asked of a dtype, which is an int to the graph. Operators of these names ask it of a tensor."""

_TENSOR_FORMS = frozenset({"tolist", "__getitem__", "new_tensor", *PYTHON_METHODS, *OPERATOR_METHODS})
"""Tensor methods that are not simply an operator."""


class SimpleValue(SugaredValue):
    """A first-class value of the graph."""

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def kind(self) -> str:  # type: ignore[override]
        return f"a value of type {self.value.type.annotation}"

    @property
    def instead_of_call(self) -> str | None:  # type: ignore[override]
        kinds = (T.ListType, T.TupleType, T.DictType, T.TensorType)
        return "an element is read with brackets: `[...]`" if isinstance(self.value.type, kinds) else None

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        return self.value

    # -- attributes
    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        t = self.value.type
        definition = _definition(t)
        if definition is not None:
            return definition.attr(b, range, self.value, name)
        found = self._property(b, range, name)
        if found is not None:
            return found
        this = NamedValue("self", self.value, range=range)
        if name in ("type", *_TENSOR_FORMS) and T.is_subtype(t, T.TENSOR):
            return SpecialForm("type of tensor" if name == "type" else name, self)
        if name == "ndimension" and T.is_subtype(t, T.TENSOR):
            name = "dim"
        if takes_as_self(f"aten::{name}", t):
            return BuiltinFunction(f"aten::{name}", this)
        bound = t.methods.get(name) if isinstance(t, T.ClassType) else None
        if isinstance(bound, Schema):
            return BoundMethod(self.value, bound)
        if isinstance(member := b.member(self.value, name, range), SugaredValue):
            return member
        plain = b.enum_value(self.value, range)
        if plain is not self.value:
            return SimpleValue(plain).attr(b, range, name)
        hint = self._hint_for(name)
        kind = MAY_BE_NONE if hint == TEST_FOR_NONE else NO_ATTRIBUTE
        raise kind(f"'{self.value.type.annotation}' object has no attribute or method '{name}'", range, hint=hint)

    def _hint_for(self, name: str) -> str | None:
        t = self.value.type
        present = T.without_none(t)
        if present is not t and (isinstance(present, T.ClassType) or takes_as_self(f"aten::{name}", present)):
            return TEST_FOR_NONE
        if name == "numpy" and T.is_subtype(t, T.TENSOR):
            return "scripts have no NumPy: stay with tensors; .item() gives a number, .tolist() a list"
        return did_you_mean(name, attribute_names(t)) or instead_of_member(name, t)

    def _property_of_tensor(self, b: Builder, range: SourceRange, name: str) -> SugaredValue | None:
        if name in TENSOR_CASTS:
            return TensorCast(TENSOR_CASTS[name], self.value)
        kind = Spelling.TENSOR_PROPERTY.kind_of.get(name)
        return None if kind is None else SimpleValue(b.op(kind, [self.value], range=range))

    def _property_of_enum(self, b: Builder, range: SourceRange, t: T.EnumType, name: str) -> SugaredValue | None:
        found = {"name": ("prim::EnumName", T.STRING), "value": ("prim::EnumValue", t.value_type)}.get(name)
        return None if found is None else SimpleValue(b.node(found[0], [self.value], [found[1]], range).output)

    def _property(self, b: Builder, range: SourceRange, name: str) -> SugaredValue | None:
        t = self.value.type
        if T.is_subtype(t, T.TENSOR):
            return self._property_of_tensor(b, range, name)
        if t is T.INT and name in _DTYPE_QUESTIONS:  # a tensor of that dtype can be asked
            empty = b.op("aten::empty", [b.make_list(T.INT, [b.constant(0, range)])],
                         [NamedValue("dtype", self.value, range=range)], range)  # fmt: skip
            return SimpleValue(b.op(f"aten::{name}", [empty], range=range))
        if t is T.DEVICE and name in Spelling.DEVICE_PROPERTY.kind_of:
            return SimpleValue(b.op(Spelling.DEVICE_PROPERTY.kind_of[name], [self.value], range=range))
        if isinstance(t, T.TupleType) and name in (t.names or ()):
            position = (t.names or ()).index(name)
            return SimpleValue(b.tuple_index(self.value, b.constant(position, range), t.elements[position]))
        if isinstance(t, T.EnumType):
            return self._property_of_enum(b, range, t, name)
        if isinstance(t, T.AwaitType):
            waited = b.op("prim::awaitable_wait", [self.value], range=range)
            return SimpleValue(waited).attr(b, range, name)
        return None

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        t = self.value.type
        if isinstance(t, T.TupleType) and t.names is not None:
            return name in t.names
        if isinstance(t, T.ClassType):
            return bool(t.definition is not None and t.definition.has_attr(b, range, name))
        if isinstance(t, T.InterfaceType):
            return name in t.methods
        return super().has_attr(b, range, name)

    def set_attr(self, b: Builder, range: SourceRange, name: str, value: Value, declared: Type | None = None) -> None:
        t = self.value.type
        if not isinstance(t, T.ClassType) or t.definition is None:
            hint = way_to_set(t, name)
            raise NO_ASSIGNMENT(f"cannot assign to attribute '{name}' of {self.kind}", range, hint=hint)
        t.definition.set_attr(b, range, self.value, name, value, declared)
        return

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        t = self.value.type
        definition = _definition(t)
        if definition is not None:
            return definition.call(b, range, self.value, args, kwargs)
        return super().call(b, range, args, kwargs)

    def magic(self, b: Builder, range: SourceRange, name: str, args: Args = ()) -> SugaredValue | None:
        """The result of the special method `name` of an object; None where its class has none."""
        t = self.value.type
        definition = _definition(t) if isinstance(t, T.ClassType) else None
        return None if definition is None else definition.magic(b, range, self.value, name, args)

    # -- parts
    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        t = self.value.type
        if isinstance(t, T.TupleType):
            return [SimpleValue(v) for v in b.unpack_tuple(self.value)]
        if T.is_subtype(t, T.TENSOR) and size is not None:
            b.op("aten::len", [self.value], range=range)  # which raises what a loop over it would
            rows = b.op("aten::unbind", [self.value, b.constant(0, range)], range=range)
            return [SimpleValue(v) for v in b.unpack_list(rows, size)]
        if isinstance(t, T.ListType):
            if self.value.node.kind == "prim::ListConstruct" and not self.value.has_uses:  # just written out
                return [SimpleValue(v) for v in self.value.node.inputs]
            if size is None:
                raise FIXED_SIZE("cannot statically infer the expected size of a list in this context", range,
                                   hint="unpack into a fixed number of names, or index the list")  # fmt: skip
            return [SimpleValue(v) for v in b.unpack_list(self.value, size)]
        definition = _definition(t) if isinstance(t, T.ClassType) else None
        if definition is not None:
            return definition.as_tuple(b, range, self.value)
        if t is T.ANY_TUPLE:
            raise FIXED_SIZE("Provided tuple is not fully defined/refined including its element types", range,
                               hint="test for a type like Tuple[int, int]")  # fmt: skip
        return super().as_tuple(b, range, size)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        t = self.value.type
        if isinstance(t, T.ListType | T.TensorType) or t is T.STRING:
            return self
        if isinstance(t, T.DictType):
            return SimpleValue(b.op("aten::keys", [self.value], range=range))
        if isinstance(t, T.SetType):
            return SimpleValue(b.op("set::elements", [self.value], range=range))
        if isinstance(t, T.TupleType):
            return SugaredTuple([SimpleValue(v) for v in b.unpack_tuple(self.value)])
        definition = _definition(t) if isinstance(t, T.ClassType) else None
        if definition is not None:
            return definition.iterate(b, range, self.value)
        readable = readable_list(t)
        if readable is not None:
            return SimpleValue(b.cast(self.value, readable))
        raise not_iterable(t, range)

    def length(self, b: Builder, range: SourceRange) -> Value:
        t = self.value.type
        if isinstance(t, T.ListType | T.TensorType) or t is T.STRING:
            return b.op("aten::len", [self.value], range=range)
        raise NOT_ITERABLE(f"'{t.annotation}' object is not iterable", range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        t = self.value.type
        if T.is_subtype(t, T.TENSOR):
            zero = b.constant(0, range)
            return SimpleValue(b.op("aten::select", [self.value, zero, index], range=range))
        if isinstance(t, T.ListType | T.DictType) or t is T.STRING:
            return SimpleValue(b.op("aten::__getitem__", [self.value, index], range=range))
        definition = _definition(t) if isinstance(t, T.ClassType) else None
        if definition is not None:
            return definition.element(b, range, self.value, index)
        plain = b.enum_value(self.value, range)
        if plain is not self.value:
            return SimpleValue(plain).element(b, range, index)
        kind = MAY_BE_NONE if T.may_be_none(t) else NO_INDEX
        raise kind(f"'{t.annotation}' object is not subscriptable", range, hint=way_to_member(t))


class BuiltinFunction(SugaredValue):
    """An operator, perhaps with its `self` already given.

    `candidates` are the overloads to choose from, None for all.
    """

    is_function = True

    def __init__(
        self, name: str, self_value: NamedValue | None = None, candidates: Sequence[ops.Op] | None = None
    ) -> None:
        self.name = name
        self.self_value = self_value
        self.candidates = candidates
        self.kind = f"builtin {name}"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE("builtin cannot be used as a value", range, found=self.name, hint="call it")

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if self.name in ("aten::sort", "aten::sorted"):
            subject = self.self_value or next(iter(args), None)
            if subject is not None and subject.value is not None:
                needs_order(b, range, subject.value)
        if self.name == "aten::format":
            check_format(range, self.self_value or next(iter(args), None))
        try:
            return SimpleValue(call_operator(b, range, self.name, args, kwargs, self.self_value, self.candidates))
        except CompileError as error:
            error.hint = (
                hint_for_empty_list(b, self.self_value, args) or error.hint or hint_for_unannotated(b, args, error)
            )
            raise


class BoundMethod(SugaredValue):
    """A method of an object of a class that a library defines in C++."""

    is_function = True

    def __init__(self, owner: Value, schema: Schema) -> None:
        self.owner = owner
        self.schema = schema
        self.kind = f"the method {schema.name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        given = [NamedValue(None, self.owner), *args]
        matched = match_schema(self.schema, b.graph, range, given, list(kwargs))
        node = b.node("prim::CallMethod", matched.inputs, matched.return_types, range)
        node.attributes["name"] = self.schema.name
        return SimpleValue(node.output if node.outputs else b.constant(None, range))


class TensorCast(SugaredValue):
    """`x.float` waiting for its call."""

    kind = "a tensor conversion method"

    def __init__(self, dtype: torch.dtype, value: Value) -> None:
        self.dtype = dtype
        self.value = value

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if args or any(k.name != "memory_format" for k in kwargs):
            raise WRONG_ARGUMENTS(
                "a conversion method takes no argument but memory_format", range, hint="use x.to(dtype, ...)"
            )
        dtype = b.constant(self.dtype, range)
        false = b.constant(False, range)
        memory_format = kwargs[0].in_graph(b.graph) if kwargs else b.constant(None, range)
        return SimpleValue(b.op("aten::to", [self.value, dtype, false, false, memory_format], range=range))


class SpecialForm(SugaredValue):
    """A callable whose arguments are not evaluated in the ordinary way; the emitter knows each by name."""

    is_function = True

    def __init__(self, form: str, subject: SugaredValue | None = None) -> None:
        self.form = form
        self.subject = subject
        self.kind = f"the function {form}"


class ConstantValue(SugaredValue):
    """A Python constant that becomes a value when it is used."""

    def __init__(self, constant: object) -> None:
        self.constant = constant
        self.kind = f"the constant {constant!r}"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(self.constant, range)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).attr(b, range, name)

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return SimpleValue(self.as_value(b, range)).as_tuple(b, range, size)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).iterate(b, range)

    def length(self, b: Builder, range: SourceRange) -> Value:
        return SimpleValue(self.as_value(b, range)).length(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).element(b, range, index)


class SugaredTuple(SugaredValue):
    """Several sugared values; loops over it are unrolled."""

    kind = "a tuple"

    def __init__(self, parts: Sequence[SugaredValue]) -> None:
        self.parts = list(parts)

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        return b.make_tuple([p.as_value(b, range) for p in self.parts])

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return self.parts

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def length(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(len(self.parts), range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        if not is_constant(index):
            raise NO_INDEX("a tuple of several types needs a constant index", range)
        position: int = constant_of(index)
        if not -len(self.parts) <= position < len(self.parts):
            raise NO_INDEX(f"index {position} is out of range: there are {len(self.parts)} elements", range)
        return self.parts[position]

    def sliced(self, bounds: slice) -> SugaredValue:
        """Some of them."""
        return SugaredTuple(self.parts[bounds])

    @property
    def static_length(self) -> int | None:
        return len(self.parts)

    @property
    def is_symbolic(self) -> bool:
        return any(part.is_symbolic for part in self.parts)


class SymbolicList(SugaredTuple):
    """A list that is written out, of functions and the like. It is known to the compiler alone, and never changed."""

    kind = "a list of functions"
