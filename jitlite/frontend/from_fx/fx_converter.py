"""The converter of FX graphs: what its nodes have become, and how arguments become values.

How each kind of node is converted is said by a table, which `fx.py` puts together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
import torch.fx

from jitlite.base.errors.ways_out import NOT_AS_FX
from jitlite.base.records import Record
from jitlite.base.source import Source, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import FunctionCompiler
from jitlite.frontend.from_fx.fx_callbacks import Template, identity_of
from jitlite.frontend.from_fx.fx_values import (
    Constants,
    SourceLocations,
    is_scalar_constant,
    known_type,
    name_of,
    plain,
    type_of_example,
)
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.types import Type

_LISTED: dict[Type, tuple[type, ...]] = {T.INT: (int,), T.FLOAT: (float, int), T.BOOL: (bool,)}
"""What lists of numbers that are constants may hold; the first class is what it becomes."""
_NOWHERE = SourceRange(Source(""), 0, 0)

Lowerings = Mapping[Any, Callable[..., Any]]
Around = Callable[[object, Callable[..., object], SourceRange | None], Callable[..., object]]
"""What is to run in place of a lowering: it is given what the lowering stands for, the lowering, and the place."""
Handlers = Mapping[str, Callable[["Converter", torch.fx.Node], None]]
"""What converts each kind of FX node."""


class Lookup(Record, eq=True, frozen=False):
    """How one target was found.

    Attributes:
        target: its name.
        how: `exact`, `packet`, `decomposition` or `eager`.
        why: of `eager`, why there was no other way.
        count: how many calls.
    """

    target: str
    how: str
    why: str = ""
    count: int = 0


class ConvertedGraph(Record, eq=True, frozen=False):
    """A graph made of an FX graph.

    Attributes:
        graph: the graph.
        lookups: how its targets were found.
        around: what runs in place of a lowering; None for the lowering itself.
    """

    graph: Graph = field(default_factory=Graph)
    lookups: dict[tuple[str, str, str], Lookup] = field(default_factory=dict)
    around: Around | None = None

    def note(self, target: object, how: str, why: str = "") -> None:
        """Write down that a call of `target` was found so."""
        key = name_of(target), how, why
        self.lookups.setdefault(key, Lookup(*key)).count += 1


class Converter:
    """Converts one FX graph into the blocks of a graph.

    Attributes:
        gm: the module whose graph it is.
        made: the conversion that it is part of.
        program: where Python functions are compiled; None where they are not.
    """

    def __init__(
        self,
        made: ConvertedGraph,
        gm: torch.fx.GraphModule,
        handlers: Handlers,
        lowerings: Lowerings,
        decompositions: Lowerings,
        program: FunctionCompiler | None = None,
        outer: Converter | None = None,
    ) -> None:
        self.made = made
        self.gm = gm
        self.graph = made.graph
        self.handlers = handlers
        self.lowerings = lowerings
        self.decompositions = decompositions
        self.program = program
        self.builder: Builder = Builder(self.graph) if outer is None else outer.builder
        self.constants: Constants = Constants(self.graph) if outer is None else outer.constants
        self.places: SourceLocations = SourceLocations() if outer is None else outer.places
        self._values: dict[torch.fx.Node, Value | tuple[Value, ...]] = {}
        self._objects: dict[torch.fx.Node, object] = {}

    def inner(self, gm: torch.fx.GraphModule) -> Converter:
        """A converter for another FX graph whose nodes become part of the same graph."""
        return Converter(self.made, gm, self.handlers, self.lowerings, self.decompositions, self.program, self)

    @property
    def here(self) -> SourceRange:
        """The place of the current node, or none in particular."""
        return self.graph.current_range or _NOWHERE

    # -- what nodes are
    def bind(self, node: torch.fx.Node, value: Value | tuple[Value, ...]) -> None:
        """Let the node be a value, or, of an operator with several results, values."""
        self._values[node] = value
        if isinstance(value, Value) and not value.has_name and value.node.kind != "prim::Constant":
            value.set_name(node.name)

    def bind_object(self, node: torch.fx.Node, found: object) -> None:
        """Let the node be an object that no graph can hold: a graph module, a class."""
        self._objects[node] = found

    def object_of(self, argument: object) -> tuple[Any] | None:
        """The object that a node stands for, in a tuple of one; None where it stands for a value."""
        if isinstance(argument, torch.fx.Node) and argument in self._objects:
            return (self._objects[argument],)
        return None

    def parts(self, node: torch.fx.Node) -> tuple[Value, ...] | None:
        """The values of an operator with several results."""
        found = self._values.get(node)
        return found if isinstance(found, tuple) else None

    def value(self, argument: object) -> Value:
        """The value of any argument; what no graph can put together, Python does."""
        return self.argument(argument) or self.callback(identity_of, (argument,), {}, None)

    def argument(self, argument: Any, wanted: Type | None = None) -> Value | None:
        """The value of an argument for a parameter of a type; None where it needs Python to make it.

        Numbers are converted to what is wanted, as operators do, and lists are of the type that is wanted. Whether the
        value is of that type is for the caller to see.
        """
        argument = plain(argument)
        wanted = None if wanted is None else T.without_none(wanted)
        if isinstance(argument, torch.fx.Node):
            return self._value_of(argument)
        if is_scalar_constant(argument):
            is_float = wanted is T.FLOAT and type(argument) is int
            return self.constants.of(float(argument) if is_float else argument)
        if isinstance(argument, list) or type(argument) in (tuple, torch.Size):
            return self._sequence(argument, wanted)
        return None

    def _value_of(self, node: torch.fx.Node) -> Value | None:
        found = self._values.get(node)
        if isinstance(found, tuple):
            return self.builder.make_tuple(found, T.TupleType.of([v.type for v in found]))
        return found

    def _all_values(self, arguments: Sequence[object], wanted: Type | None) -> list[Value] | None:
        """The values of arguments; None where one has none."""
        made = [self.argument(a, wanted) for a in arguments]
        values = [v for v in made if v is not None]
        return values if len(values) == len(made) else None

    def _sequence(self, arguments: Sequence[object], wanted: Type | None) -> Value | None:
        element = wanted.element if isinstance(wanted, T.ListType) else None
        constants = _constants(arguments, element)
        if constants is not None:
            return self.constants.of(constants, wanted)
        values = self._all_values(arguments, element)
        if values is None:
            return None
        if element is None and isinstance(arguments, tuple):
            return self.builder.make_tuple(values)
        if element is None and values:
            element = T.unify_all([v.type for v in values])
        return None if element is None else self.builder.make_list(element, values)

    # -- nodes
    def body(self) -> object:
        """Convert everything but placeholders; gives the argument of the output node."""
        for node in self.gm.graph.nodes:
            if node.op == "output":
                return node.args[0]
            if node.op != "placeholder":
                self.graph.current_range = self.places.of(node)
                self.handlers[node.op](self, node)
        raise NOT_AS_FX("the FX graph has no output node")

    def inline(self, gm: torch.fx.GraphModule, values: Sequence[Value], *, whole: bool = False) -> list[Value]:
        """Convert another FX graph for these inputs, in place; gives its results, or its `whole` result."""
        inner = self.inner(gm)
        for node, value in zip(gm.graph.find_nodes(op="placeholder"), values, strict=True):
            inner.bind(node, value)
        result = inner.body()
        parts = result if isinstance(result, list | tuple) and not whole else [result]
        return [inner.value(part) for part in parts]

    # -- Python
    def eager(self, node: torch.fx.Node, why: str, function: Callable[..., object] | None = None) -> None:
        """Leave a call to Python."""
        target: Any = node.target
        self.made.note(target, "eager", why)
        self.bind_result(node, self.callback(function or _eager(target), node.args, node.kwargs, node))

    def callback(
        self,
        function: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        node: torch.fx.Node | None,
    ) -> Value:
        """The result of a Python function that is called with arguments of any structure, as an Any."""
        template = Template(args, kwargs, self.object_of)
        values = [self.value(v) for v in template.nodes]
        call = self.builder.node("prim::PythonOp", values, [T.ANY])
        call.attributes["name"] = name_of(node.target if node is not None else function).rpartition(".")[2] or "call"
        call.attributes["callable"] = template.bind(function)
        return call.output

    def bind_result(self, node: torch.fx.Node, value: Value) -> None:
        """Let the node be a result, seen as what is known of it; one that is taken apart is taken apart at once."""
        known = known_type(node)
        if known is None:
            self.bind(node, value)
            return
        parts = _parts(node)
        if parts and node.users and all(_takes_a_part(user) for user in node.users):
            self.bind(node, tuple(self._unpacked(value, parts)))
        else:
            self.bind(node, self.refined(value, known))

    def _unpacked(self, value: Value, parts: Sequence[Type]) -> Sequence[Value]:
        if isinstance(value.type, T.ListType):
            return self.builder.unpack_list(value, len(parts))
        same = isinstance(value.type, T.TupleType)
        return self.builder.unpack_tuple(value if same else self.builder.cast(value, T.TupleType.of(parts)))

    def refined(self, value: Value, known: Type) -> Value:
        """The value, with the type that is known of it where that says more. Containers may be of another class."""
        is_simple = known is T.TENSOR or known in (T.INT, T.FLOAT, T.BOOL, T.COMPLEX, T.STRING)
        if not is_simple or known is value.type or not T.is_subtype(known, value.type):
            return value
        return self.builder.cast(value, known)


def _parts(node: torch.fx.Node) -> list[Type]:
    """The types of what a sequence holds."""
    found = node.meta.get("val", node.meta.get("example_value"))
    return [type_of_example(part) for part in found] if isinstance(found, list | tuple) else []


def _takes_a_part(user: torch.fx.Node) -> bool:
    return user.target is operator.getitem and type(user.args[1]) is int


def _eager(target: Any) -> Callable[..., object]:
    """What Python is to call; of an overload, what it calls itself."""
    return target._op if type(target) is torch._ops.OpOverload else target


def _constants(arguments: Sequence[object], element: Type | None) -> list[Any] | None:
    """The arguments as Python's objects, where all are constants of what a list of the element type holds."""
    classes = _LISTED.get(element, ()) if element is not None else ()
    if not classes or not all(type(plain(a)) in classes for a in arguments):
        return None
    return [classes[0](plain(a)) for a in arguments]
