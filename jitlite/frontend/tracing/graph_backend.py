"""The back end of dispatcher-level traces that makes jitlite's graphs.

A node is an operator of torch's dispatcher with all arguments of its schema. Values alias each other when the graph is
run as tensors did in the trace, so writes are the operators that write. Arguments keep their structure; that calls have
the structure, numbers, sizes and dtypes of the example is checked at the start of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from jitlite.base.source import CompileError, Source, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import ContextClass
from jitlite.frontend.tracing.argument_types import argument_type, computed, number_for_tensor
from jitlite.frontend.tracing.trace_backend import Location, TensorArgument, TraceBackend, Traced
from jitlite.frontend.tracing.trace_containers import Containers, is_container
from jitlite.frontend.tracing.trace_regions import with_fixed
from jitlite.frontend.tracing.trace_values import bound_object_path
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function, insert_call
from jitlite.ir.values import CLASS_TYPE
from jitlite.operators.overloads import NamedValue, emit_builtin_call

_NOWHERE = SourceRange(Source(""), 0, 0)
_AGAIN = "trace it again for others"


@dataclass
class _CallCondition:
    """What calls must have in common with the example: a tensor argument."""

    argument: TensorArgument
    strides: bool = False


class GraphBackend(TraceBackend):
    """Makes one graph.

    Args:
        owner: the type of the traced module, None where a function is traced. It becomes the first input.
        modules: the submodules, with the path to each.
        objects: what the traced module holds of classes written in C++, likewise.
        with_gradients: the trace computes gradients itself: none are to flow into the graph.
        functional: all writes come last.
    """

    def __init__(
        self,
        owner: ClassType | None = None,
        modules: Mapping[int, tuple[str, ...]] | None = None,
        objects: Sequence[tuple[Any, tuple[str, ...]]] = (),
        *,
        with_gradients: bool = False,
        functional: bool = False,
    ) -> None:
        self.graph = Graph()
        self.builder = Builder(self.graph)
        self.location = Location()
        self._containers = Containers(self.builder, self.constant)
        self._modules = dict(modules or {})
        self._objects = list(objects)
        self._owner = None if owner is None else self.graph.add_input(owner, "self")
        self._attributes: dict[tuple[str, ...], Value] = {}
        self._constants: dict[tuple[type, str], Value] = {}
        self._lists: dict[tuple[object, ...], Value] = {}
        self._with_gradients = with_gradients
        self._functional = functional
        self._outside = torch.is_grad_enabled()
        self._start: Node | None = None
        self._entered: Value | None = None
        self._checks: list[_CallCondition] = []
        self._ranked: set[Value] = set()

    # -- arguments
    def add_argument(self, name: str, example: object) -> list[TensorArgument]:
        self.signature.add_argument(name, example)
        value = self.graph.add_input(argument_type(example, name), name)
        found: list[TensorArgument] = []
        self._take_apart(name, value, example, found)
        return found

    def _take_apart(self, place: str, value: Value, example: object, found: list[TensorArgument]) -> None:
        if isinstance(example, torch.Tensor):
            found.append(TensorArgument(place, example, self._detached(self._narrowed(value, T.TENSOR))))
        elif example is not None:
            value = self._narrowed(value, argument_type(example, place))
            if isinstance(example, dict | list | tuple):
                for inner, part, part_example in self._parts(place, value, example):
                    self._take_apart(inner, part, part_example, found)
            else:
                self._require_equal(value, example, f"{place}: the trace was made for")
        elif value.type is not T.NONE:
            none = self.graph.insert("aten::__is__", [value, self.constant(None)], [T.BOOL]).output
            self.check(none, f"{place}: the trace was made for None; {_AGAIN}")

    def _parts(
        self, place: str, value: Value, example: dict[Any, Any] | list[Any] | tuple[Any, ...]
    ) -> Iterator[tuple[str, Value, Any]]:
        """The parts of a container, whose length or keys are checked: where each is, its value and its example."""
        if isinstance(example, dict):
            keys = self.op("aten::keys", value) if example else self.op("aten::len", value)
            self._require_equal(keys, list(example) if example else 0, f"{place}: the trace was made for the keys")
            for key, part in example.items():
                yield f"{place}[{key!r}]", self.op("aten::__getitem__", value, key), part
        elif isinstance(example, list):
            text = f"{place}: the trace was made for a list of length"
            self._require_equal(self.op("aten::len", value), len(example), text)
            elements = self.builder.unpack_list(value, len(example)) if example else []
            for i, (element, part) in enumerate(zip(elements, example, strict=True)):
                yield f"{place}[{i}]", element, part
        else:
            elements = self.builder.unpack_tuple(value) if example else []
            names = getattr(type(example), "_fields", None)
            for i, (element, part) in enumerate(zip(elements, example, strict=True)):
                yield f"{place}[{i}]" if names is None else f"{place}.{names[i]}", element, part

    def _narrowed(self, value: Value, t: Type) -> Value:
        """The value, known to be of a type, where it could be of any."""
        if value.type == t:
            return value
        node = self.builder.node("prim::isinstance", [value], [T.BOOL])
        node.attributes["types"] = [t]
        self.check(node.output, f"the trace was made for a {t.annotation} in this place; {_AGAIN}")
        return self.builder.cast(value, t)

    def _require_equal(self, value: Value, wanted: object, text: str) -> None:
        is_nan = wanted != wanted
        equal = self.op("aten::ne", value, value) if is_nan else self.op("aten::eq", value, wanted)
        self.check(equal, f"{text} {wanted}; {_AGAIN}")

    def add_input(self, name: str, example: torch.Tensor) -> Value:
        return self.graph.add_input(T.TENSOR, name)

    def check_arguments(self, arguments: Sequence[TensorArgument], strides: Callable[[TensorArgument], bool]) -> None:
        """Let calls raise where the tensors among the arguments are not like those of the example."""
        for argument in arguments:
            self._checks.append(_CallCondition(argument, strides(argument)))

    # -- state and constants
    def add_parameter(self, name: str, tensor: torch.Tensor, kind: str) -> Value:
        return self._detached(self._attribute(tuple(name.split("."))))

    def _attribute(self, path: tuple[str, ...]) -> Value:
        """An attribute of the traced module, read at the start of the graph."""
        if not path:
            assert self._owner is not None
            return self._owner
        found = self._attributes.get(path)
        if found is None:
            owner = self._attribute(path[:-1])
            assert isinstance(owner.type, ClassType)
            node = self.graph.create("prim::GetAttr", [owner], [owner.type.attributes[path[-1]]])
            node.attributes["name"] = path[-1]
            node.insert_before(self._begin())
            found = self._attributes[path] = node.output
        return found

    def _detached(self, value: Value) -> Value:
        """The value, with no gradients to flow into it if the trace computes them itself."""
        if not self._with_gradients:
            return value
        with nullcontext() if self._start is None else self.inserting_checks():
            return self.graph.insert("aten::detach", [value], [T.TENSOR]).output

    def _begin(self) -> Node:
        """Marks where the arguments have been taken apart, and all else begins."""
        if self._start is None:
            with self.graph.inserting_at_end(self.graph.block):
                self._start = self.graph.insert_constant(None).node
        return self._start

    def add_constant(self, tensor: torch.Tensor) -> Value:
        self._begin()
        return self.graph.insert_constant(tensor)

    def constant(self, value: object) -> Value:
        """A constant; of equal ones there is one in the graph."""
        if isinstance(value, torch.Tensor | torch.Generator):
            return self.graph.insert_constant(value)
        key = type(value), repr(value)
        found = self._constants.get(key)
        if found is None:
            node = self.graph.create_constant(value)
            self.graph.block.prepend(node)
            found = self._constants[key] = node.output
        return found

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

    def set_source_location(self, location: Location) -> None:
        self.location = location
        self.graph.current_range = location.range

    def set_grad_enabled(self, enabled: bool) -> None:
        if self._with_gradients:
            return
        self._begin()
        self._leave()
        if not enabled or not self._outside:
            self._enter(torch.enable_grad if enabled else torch.no_grad)

    def _enter(self, cls: type) -> None:
        context = ContextClass(cls, []).call(self.builder, _NOWHERE, [], []).as_value(self.builder, _NOWHERE)
        self.builder.node("prim::Enter", [context], [T.NONE])
        self._entered = context

    def _leave(self) -> None:
        if self._entered is not None:
            self.builder.node("prim::Exit", [self._entered], [T.NONE])
            self._entered = None

    def fallback(self, op: Any, args: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        self._begin()
        name, _, overload = op.name().partition(".")
        found = next((o for o in ops.lookup(name) if o.schema.overload == overload), None)
        if found is None:
            raise CompileError(f"the graph has no operator {op.name()}", self.location.range)
        node = self._place(self._node(found, args))
        values: list[Any] = []
        for output, result in zip(node.outputs, results, strict=True):
            is_list = isinstance(result, list | tuple)
            values.append(self.builder.unpack_list(output, len(result)) if is_list and result else output)
            if is_list and not result:
                values[-1] = []
        return values

    def _node(self, op: ops.Op, args: Sequence[object]) -> Node:
        """The node of a call, not placed yet. A number in place of a tensor wants the overload for numbers."""
        inputs, exact = [], True
        for formal, argument in zip(op.schema.arguments, args, strict=True):
            number = number_for_tensor(argument) if formal.type is T.TENSOR else None
            exact = exact and number is None
            inputs.append(self.argument(argument, formal.type if number is None else T.ANY))
        node = self.graph.create(op.name, inputs, [r.type for r in op.schema.returns])
        if not exact and node.op is None:
            example = next((a.example for a in args if isinstance(a, Traced)), None)
            for i, formal in enumerate(op.schema.arguments):
                if formal.type is T.TENSOR and not isinstance(inputs[i].type, T.TensorType):
                    node.replace_input(i, self._as_tensor(args[i], example))
            exact = True
        if exact:
            node.set_op(op)
        return node

    def _as_tensor(self, argument: Any, other: Any) -> Value:
        if isinstance(argument, Traced):
            return self.graph.insert("prim::NumToTensor", [argument.value], [T.TENSOR]).output
        dtype = torch.result_type(other, argument) if isinstance(other, torch.Tensor) else None
        return self.graph.insert_constant(torch.tensor(argument, dtype=dtype))

    def _place(self, node: Node) -> Node:
        node.range = self.location.range
        node.call_stack = self.location.stack
        return node.insert_before(self.graph.insert_point)

    def argument(self, argument: object, t: Type) -> Value:
        """The value of an argument whose type is to be `t`."""
        if isinstance(argument, Traced):
            return argument.value if isinstance(argument.value, Value) else self.constant(argument.value)
        element = T.without_none(t)
        if isinstance(argument, list | tuple) and isinstance(element, T.ListType):
            return self._list(argument, element.element)
        if type(argument) is int and element is T.FLOAT:
            argument = float(argument)
        if isinstance(argument, torch.ScriptObject):
            path = bound_object_path(argument, self._objects)
            if path is not None:
                return self._attribute(path)
        if type_of_constant(argument) is None:
            raise CompileError(f"a {type(argument).__name__} cannot be an argument in a graph", self.location.range)
        return self.constant(argument)

    def _list(self, argument: Sequence[object], element: Type) -> Value:
        """A list; of those with the same elements there is one in the graph."""
        values = [self.argument(a, element) for a in argument]
        inner = T.without_none(element)
        kind = inner if inner is not T.TENSOR else element
        key = kind, *(id(v) for v in values)
        if key not in self._lists:
            self._lists[key] = self.builder.make_list(kind, values)
        return self._lists[key]

    # -- detach and copy_ are operators like others
    def copy_(self, destination: Traced, source: Traced) -> Value:
        written: Value = destination.value
        if self._functional and not self._with_gradients and written.has_uses:
            # autograd may have kept what is about to be written
            with self.graph.inserting_before(self._begin()):
                given = [written, self.graph.insert_constant(None)]
                copy = self.graph.insert("aten::clone", given, [T.TENSOR])
            for use in written.uses:
                if use.user is not copy and use.user.is_after(copy):
                    use.user.replace_input(use.offset, copy.output)
            if source.value is written:
                source = Traced(copy.output, source.example)
        value: Value = super().copy_(destination, source)
        return value

    def detach(self, source: Traced, result: torch.Tensor) -> Value:
        value: Value = self.fallback(torch.ops.aten.detach.default, [source], [result])[0]
        return value

    def data(self, source: Traced, result: torch.Tensor) -> Value:
        self._begin()
        return self._place(self.graph.create("prim::data", [source.value], [T.TENSOR])).output

    # -- calls
    def call_function(self, function: Function, args: Sequence[object], results: object) -> Sequence[object] | None:
        self._begin()
        values = [self._given(a, f.type) for a, f in zip(args, function.schema.arguments, strict=True)]
        given = [v for v in values if v is not None]
        if len(given) < len(values):
            return None
        owner = given[0].type if given else None
        if isinstance(owner, ClassType) and owner.methods.get(function.name) is function:
            types = [r.type for r in function.schema.returns]
            result = self.graph.insert("prim::CallMethod", given, types, {"name": function.name}).output
        else:
            result = insert_call(self.graph, function, given)
        found: list[Value] = []
        self._collect(result, results, found)
        return found

    def _given(self, argument: object, t: Type) -> Value | None:
        """The value of an argument of a compiled function; None where the graph can have none."""
        t = T.without_none(t)
        if isinstance(argument, torch.nn.Module):
            path = self._modules.get(id(argument))
            known = path is not None and self._owner is not None and hasattr(argument, CLASS_TYPE)
            return self._attribute(path) if known and path is not None else None
        if is_container(argument, t):
            return self._containers.argument(argument, t, self._given)
        if isinstance(argument, Traced) or type_of_constant(argument) is not None:
            return self.argument(argument, t)
        return None

    def _collect(self, value: Value, example: object, found: list[Value]) -> None:
        """The values of the tensors in a result."""
        if isinstance(example, torch.Tensor):
            known = isinstance(value.type, T.TensorType)
            found.append(value if known else self.builder.cast(value, T.TENSOR))
        elif isinstance(example, dict):
            for key, part in example.items():
                self._collect(self.op("aten::__getitem__", value, key), part, found)
        elif isinstance(example, list | tuple) and example:
            t = T.without_none(value.type)
            is_list = isinstance(t, T.ListType)
            parts = self.builder.unpack_list(value, len(example)) if is_list else self.builder.unpack_tuple(value)
            for element, part in zip(parts, example, strict=True):
                self._collect(element, part, found)

    def call_python(self, name: str, function: Any, args: Sequence[Any], results: object) -> Sequence[object] | None:
        self._begin()
        free = [i for i, a in enumerate(args) if isinstance(a, Traced)]
        parts = results if isinstance(results, tuple) else (results,)
        if not all(isinstance(p, torch.Tensor) for p in parts):
            return None
        t = T.TENSOR if results is not parts else T.TupleType.of([T.TENSOR] * len(parts))
        node = self.builder.node("prim::PythonOp", [self.argument(args[i], T.ANY) for i in free], [t])
        node.attributes["name"] = name
        node.attributes["callable"] = with_fixed(function, [None if i in free else a for i, a in enumerate(args)], free)
        node.call_stack = self.location.stack
        return [node.output] if results is not parts else self.builder.unpack_tuple(node.output)

    # -- sizes
    def add_size(self, source: Traced, dim: int) -> Value:
        if source.value not in self._ranked:
            self._ranked.add(source.value)
            rank = source.example.dim()
            fits = self.op("aten::eq", self.op("aten::dim", source.value), rank)
            self.check(fits, f"the trace was made for a tensor of {rank} dimensions in this place; {_AGAIN}")
        return self.op("aten::size", source.value, dim)

    def compute(self, name: str, operands: Sequence[object]) -> object:
        if not any(isinstance(o, Value) for o in operands):
            return computed(name, operands)
        value = self.op(name, *operands)
        return self.op("aten::Int", value) if value.type is T.FLOAT and name == "aten::pow" else value

    def check(self, condition: object, message: str) -> None:
        if condition is True:
            return
        branch = self.builder.node("prim::If", [self.argument(Traced(condition, None), T.BOOL)], [])
        branch.add_block()
        with self.graph.inserting_at_end(branch.add_block()):
            told = [self.graph.insert_constant(message), self.graph.insert_constant("builtins.ValueError")]
            self.builder.node("prim::RaiseException", told, [])

    def check_no_gradients(self, arguments: Sequence[TensorArgument], name: str) -> None:
        """Let calls raise where gradients are to flow through an autograd function whose operators are recorded."""
        with self.inserting_checks():
            for argument in arguments:
                needed = self.builder.node("prim::requires_grad", [argument.value], [T.BOOL]).output
                enabled = self.op("aten::is_grad_enabled")
                self.check(
                    self.op("aten::__not__", self.op("aten::__and__", needed, enabled)),
                    f"{argument.name} requires grad, and the trace was made for inputs that do not, because of {name}; "
                    f"{_AGAIN}",
                )

    def check_sizes(self, tensor: Traced) -> None:
        sizes = list(tensor.example.shape)
        self.check(
            self.op("aten::eq", self.op("aten::size", tensor.value), sizes),
            f"{self.location}: the size of this tensor depends on data: it was {sizes} when the trace was made, and is "
            f"another now; {_AGAIN}, or leave it to a scripted function",
        )

    # -- the end
    def add_result(self, result: object, value_of: Callable[[torch.Tensor], object]) -> None:
        self.set_source_location(Location())
        self._begin()
        self._leave()
        self.signature.set_result(result)
        self.add_output(self._result(result, value_of))

    def _result(self, result: object, value_of: Callable[[torch.Tensor], Any]) -> Value:
        if isinstance(result, torch.Tensor):
            value: Value = value_of(result)
            return value
        value_of_container = self._containers.result(result, partial(self._result, value_of=value_of), _common)
        if value_of_container is not None:
            return value_of_container
        if type_of_constant(result) is None:
            raise CompileError(
                f"the traced function gives a {type(result).__name__}, which can be no result of a graph",
                hint="give tensors, or tuples, lists and dicts of them",
            )
        return self.constant(result)

    def add_output(self, value: Value) -> None:
        self.graph.add_output(value)

    def finalize(self) -> Graph:
        start = self._begin()
        with self.graph.inserting_before(start):
            for check in self._checks:
                self._check_argument(check)
        start.destroy()
        return self.graph

    def inserting_checks(self) -> Any:
        """Within the `with`, what is inserted comes before all else but the arguments."""
        return self.graph.inserting_before(self._begin())

    def _check_argument(self, check: _CallCondition) -> None:
        argument, shape = check.argument, check.argument.sizes
        value = argument.value
        conditions = [
            self.op("aten::eq", self.builder.node("prim::dtype", [value], [T.INT]).output, argument.dtype),
        ]
        if argument.device.type != "meta":  # an example without contents stands for tensors on any device
            device = self.builder.node("prim::device", [value], [T.DEVICE]).output
            conditions.append(self.op("aten::eq", device, argument.device))
        if all(type(n) is int for n in shape):
            conditions.append(self.op("aten::eq", self.op("aten::size", value), shape))
        else:
            conditions.append(self.op("aten::eq", self.op("aten::dim", value), len(shape)))
            known = [(d, n) for d, n in enumerate(shape) if type(n) is int]
            conditions += [self.op("aten::eq", self.op("aten::size", value, d), n) for d, n in known]
        shown = ", ".join(str(n) if type(n) is int else "*" for n in shape)
        text = (
            f"{argument.name}: the trace was made for a tensor of size [{shown}], {argument.dtype}, {argument.device}"
        )
        strides = argument.strides
        if check.strides and strides and all(type(n) is int for n in strides):
            conditions.append(self.op("aten::eq", self.op("aten::stride", value), strides))
            text += f" and strides {strides}"
        met = conditions[0]
        for condition in conditions[1:]:
            met = self.op("aten::__and__", met, condition)
        self.check(met, f"{text}; {_AGAIN}, or with dynamic_shapes")


def _common(values: Sequence[Value], what: str) -> Type:
    if not values:
        return T.TENSOR
    return T.unify_all([v.type for v in values]) or T.ANY
