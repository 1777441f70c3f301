"""The recorder that both levels of tracing tell: it makes the nodes of a graph from calls with arguments.

A level says what is called, `trace.py` above autograd and `graph_backend.py` for what reaches the dispatcher below it,
and which values its arguments stand for. What becomes of that is the same for both: overloads, constants, lists,
attributes of the traced module, calls of compiled functions and of Python, parts of results, places and scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from jitlite.base import torch_internals
from jitlite.base.dataclass_values import fields_of
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.casting_blocks import scope_of_switches
from jitlite.frontend.tracing.trace_containers import Containers, is_container
from jitlite.frontend.tracing.trace_values import bound_object_path
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.schema import Argument
from jitlite.ir.traits import Trait
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function, insert_call
from jitlite.ir.values import CLASS_TYPE
from jitlite.operators.overloads import NamedValue, emit_builtin_call

Path = tuple[str, ...]
CallStack = tuple[tuple[str, SourceRange | None], ...]


class Level(Protocol):
    """What the recorder asks the level of tracing that tells it."""

    def followed(self, argument: object) -> Value | None:
        """The value that an argument stands for; None for what is the same in each run."""
        ...

    def number_of(self, argument: object) -> object:
        """The number that stands in place of a tensor; None where there is a tensor."""
        ...

    def place_of_attributes(self) -> Node:
        """The node before which attributes of the traced module are read."""
        ...

    def refused(self, message: str) -> Exception:
        """The error to raise for what cannot be recorded."""
        ...


class Recorder:
    """Records into one graph.

    Args:
        level: knows the arguments.
        owner: the type of the traced module, None where a function is traced. It becomes the first input.
        modules: the submodules, with the path to each.
        objects: what the traced module holds of classes written in C++, likewise.
        shares: of equal constants and lists there is one in the graph.
    """

    def __init__(
        self,
        level: Level,
        owner: ClassType | None,
        modules: Mapping[int, Path] | None,
        objects: Sequence[tuple[object, Path]],
        *,
        shares: bool,
    ) -> None:
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self.containers = Containers(self.builder, self.constant)
        self.attributes: dict[Path, Value] = {}
        self.modules = dict(modules or {})
        self.owner = None if owner is None else self.graph.add_input(owner, "self")
        self._level = level
        self._objects = list(objects)
        self._shares = shares
        self._constants: dict[tuple[type, str], Value] = {}
        self._lists: dict[tuple[object, ...], Value] = {}
        self._call_stack: CallStack = ()

    def locate(self, place: SourceRange | None, call_stack: CallStack = ()) -> None:
        """Say where the calls that follow come from."""
        self.graph.current_range = place
        self._call_stack = call_stack

    # -- values
    def constant(self, value: object) -> Value:
        """A constant."""
        if not self._shares or isinstance(value, torch.Tensor | torch.Generator):
            return self.graph.insert_constant(value)
        key = type(value), repr(value)
        found = self._constants.get(key)
        if found is None:
            node = self.graph.create_constant(value)
            self.graph.block.prepend(node)
            found = self._constants[key] = node.output
        return found

    def attribute(self, path: Path) -> Value:
        """An attribute of the traced module, or of a submodule."""
        if not path:
            assert self.owner is not None
            return self.owner
        found = self.attributes.get(path)
        if found is None:
            owner = self.attribute(path[:-1])
            assert isinstance(owner.type, ClassType)
            node = self.graph.create("prim::GetAttr", [owner], [owner.type.attributes[path[-1]]])
            node.attributes["name"] = path[-1]
            node.insert_before(self._level.place_of_attributes())
            found = self.attributes[path] = node.output
        return found

    def argument(self, argument: object, t: Type) -> Value:
        """The value of an operator's argument whose type is to be `t`."""
        value = self._level.followed(argument)
        if value is not None:
            return value
        element = T.without_none(t)
        if isinstance(argument, list | tuple) and isinstance(element, T.ListType):
            return self._list(argument, element.element)
        if isinstance(argument, torch.ScriptObject):
            return self._object(argument)
        if type(argument) is int and element is T.FLOAT:
            argument = float(argument)
        if type_of_constant(argument) is None:
            raise self._level.refused(f"a {type(argument).__name__} cannot be an argument in a graph")
        return self.constant(argument)

    def _list(self, argument: Sequence[object], element: Type) -> Value:
        values = [self.argument(a, element) for a in argument]
        inner = T.without_none(element)
        kind = inner if inner is not T.TENSOR else element
        if not self._shares:
            return self.builder.make_list(kind, values)
        key = kind, *(id(v) for v in values)
        if key not in self._lists:
            self._lists[key] = self.builder.make_list(kind, values)
        return self._lists[key]

    def _object(self, argument: Any) -> Value:
        """The value of an object of a class written in C++, for which Python has a new object each time."""
        path = bound_object_path(argument, self._objects)
        if path is None:
            raise self._level.refused(
                f"an object of the class {argument._type().name()} can be no constant of a trace: make it an attribute "
                "of the module that is traced, or of one of its submodules"
            )
        return self.attribute(path)

    # -- operators
    def op(self, name: str, *args: object) -> Value:
        """Insert an operator with the overload that fits; arguments are values or constants."""
        given = [NamedValue(None, a if isinstance(a, Value) else self._list_or_constant(a)) for a in args]
        return emit_builtin_call(self.graph, None, name, given)

    def _list_or_constant(self, value: object) -> Value:
        t = T.ListType.of(T.INT) if value == [] else type_of_constant(value)
        if isinstance(value, list) and isinstance(t, T.ListType):
            return self.builder.make_list(t.element, [self.constant(v) for v in value])
        return self.constant(value)

    def node(self, overload: str, given: Sequence[object]) -> Node:
        """The node of a call of an operator, not placed yet.

        Args:
            overload: the operator, such as `aten::add.Tensor`.
            given: all arguments in the order of the schema. Numbers in place of tensors want the overload for numbers.
        """
        op = self._overload(overload)
        formals = op.schema.arguments
        inputs, is_exact = [], True
        for formal, argument in zip(formals, given, strict=True):
            number = self._level.number_of(argument) if formal.type is T.TENSOR else None
            is_exact = is_exact and number is None
            inputs.append(self.argument(argument, formal.type) if number is None else self.argument(number, T.ANY))
        node = self.graph.create(op.name, inputs, [r.type for r in op.schema.returns])
        node.scope = scope_of_switches()
        if is_exact:
            node.set_op(op)
        elif node.op is None:
            self._replace_numbers(node, formals, given)
            node.set_op(op)
        return node

    def _overload(self, name: str) -> ops.Op:
        base, _, overload = name.partition(".")
        found = next((o for o in ops.lookup(base) if o.schema.overload == overload), None)
        if found is None:
            raise self._level.refused(f"the graph has no operator {name}")
        return found

    def _replace_numbers(self, node: Node, formals: Sequence[Argument], given: Sequence[object]) -> None:
        """Give tensors to an operator that takes no numbers in their place."""
        examples = (getattr(a, "example", a) for a in given)
        tensor = next((e for e in examples if isinstance(e, torch.Tensor)), None)
        for i, formal in enumerate(formals):
            if formal.type is T.TENSOR and not isinstance(node.inputs[i].type, T.TensorType):
                node.replace_input(i, self._as_tensor(given[i], tensor))

    def _as_tensor(self, argument: object, other: torch.Tensor | None) -> Value:
        number: Any = self._level.number_of(argument)
        value = self._level.followed(number)
        if value is not None:
            return self.graph.insert("prim::NumToTensor", [value], [T.TENSOR]).output
        dtype = None if other is None else torch.result_type(other, number)
        with torch_internals.no_dispatch():  # a mode that makes fake tensors would make a constant without contents
            return self.graph.insert_constant(torch.tensor(number, dtype=dtype))

    def place(self, node: Node) -> Node:
        """Insert a node."""
        node.call_stack = self._call_stack
        return node.insert_before(self.graph.insert_point)

    def value_of_result(self, output: Value, result: object) -> Any:
        """The value of what an operator has given; of a list of tensors, the value of each."""
        if not isinstance(result, list | tuple):
            return output
        return self.builder.unpack_list(output, len(result)) if result else []

    def parts(self, value: Value, example: Any) -> Iterator[tuple[Any, Value, Any]]:
        """The parts of a list, tuple or dict that is like the example: index or key, value and example of each."""
        if isinstance(example, dict):
            for key, part in example.items():
                yield key, self.op("aten::__getitem__", value, key), part
        elif example:
            is_list = isinstance(T.without_none(value.type), T.ListType)
            found = self.builder.unpack_list(value, len(example)) if is_list else self.builder.unpack_tuple(value)
            yield from ((i, element, part) for i, (element, part) in enumerate(zip(found, example, strict=True)))

    def fields(self, value: Value, example: object) -> Iterator[tuple[str, Value, object]]:
        """The fields of an object of a dataclass that is like the example: name, value and example of each."""
        assert isinstance(value.type, ClassType)
        for name, part in (fields_of(example) or {}).items():
            read = self.graph.insert("prim::GetAttr", [value], [value.type.attributes[name]], {"name": name})
            yield name, read.output, part

    # -- calls of compiled functions and of Python
    def call(self, function: Function, arguments: Sequence[object]) -> Value | None:
        """Insert a call of a compiled function; None where an argument has no value."""
        formals = function.schema.arguments
        values = [self._given(a, formal.type) for a, formal in zip(arguments, formals, strict=True)]
        given = [v for v in values if v is not None]
        if len(given) < len(values):
            return None
        owner = given[0].type if given else None
        if not isinstance(owner, ClassType) or owner.methods.get(function.name) is not function:
            return insert_call(self.graph, function, given)
        types = [r.type for r in function.schema.returns]
        return self.graph.insert("prim::CallMethod", given, types, {"name": function.name}).output

    def _given(self, argument: object, t: Type) -> Value | None:
        """The value of an argument of a compiled function; None where the graph can have none."""
        t = T.without_none(t)
        if isinstance(argument, torch.nn.Module):
            path = self.modules.get(id(argument))
            is_known = path is not None and self.owner is not None and hasattr(argument, CLASS_TYPE)
            return self.attribute(path) if is_known and path is not None else None
        if is_container(argument, t):
            return self.containers.argument(argument, t, self._given)
        value = self._level.followed(argument)
        if value is not None or type_of_constant(argument) is None:
            return value
        return self.argument(argument, t)

    def call_python(
        self,
        name: str,
        function: Callable[..., object],
        arguments: Sequence[object],
        free: Mapping[int, Value],
        t: Type,
    ) -> Value:
        """Insert a call of a function that stays Python's.

        Args:
            free: the values of those arguments that differ from run to run, by position. Others are as given.
            t: the type of the result.
        """
        fixed = [None if i in free else a for i, a in enumerate(arguments)]
        node = self.graph.create("prim::PythonOp", free.values(), [t])
        node.attributes["name"] = name
        node.attributes["callable"] = _with_fixed(function, fixed, list(free))
        if getattr(function, "writes_nothing", False):
            node.attributes["writes_nothing"] = 1
        return self.place(node).output


def _with_fixed(
    function: Callable[..., object], arguments: Sequence[object], free: Sequence[int]
) -> Callable[..., object]:
    """A function of the arguments at the positions `free`; the others are as they are in `arguments`."""

    def call(*given: object) -> object:
        complete = list(arguments)
        for position, argument in zip(free, given, strict=True):
            complete[position] = argument
        return function(*complete)

    return call


def drop_unused(graph: Graph) -> None:
    """Remove what only told Python something, such as the sum in `if x.sum() > 0`. That it could raise is no reason.

    What writes running statistics stays, though its schema does not say that it writes.
    """
    for node in reversed(list(graph.all_nodes())):
        is_pure = node.op is not None and node.op.effect is ops.Effect.PURE and not node.blocks
        writes = node.has(Trait.UNMARKED_STATISTICS) or node.has(Trait.KERNEL_STATISTICS)
        if is_pure and not writes and not any(output.has_uses for output in node.outputs):
            node.destroy()
