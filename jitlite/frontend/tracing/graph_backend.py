"""The back end of dispatcher-level traces that makes jitlite's graphs.

A node is an operator of torch's dispatcher with all arguments of its schema. Values alias each other when the graph is
run as tensors did in the trace, so writes are the operators that write. Arguments keep their structure; that calls have
the structure, numbers, sizes and dtypes of the example is checked at the start of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, reduce
from typing import Any

import torch

from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.records import Record
from jitlite.frontend.tracing.argument_types import argument_type, computed, number_for_tensor
from jitlite.frontend.tracing.dispatched_calls import PythonOfKinds
from jitlite.frontend.tracing.recorded_modes import ContextRecorder
from jitlite.frontend.tracing.recorder import Path, Recorder
from jitlite.frontend.tracing.trace_backend import Location, TensorArgument, TraceBackend, Traced
from jitlite.frontend.tracing.traced_objects import TracedObjects
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function

_AGAIN = "trace it again for others"


class _CallCondition(Record, frozen=False):
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
        modules: Mapping[int, Path] | None = None,
        objects: Sequence[tuple[object, Path]] = (),
        *,
        with_gradients: bool = False,
        functional: bool = False,
    ) -> None:
        self.recorder = Recorder(self, owner, modules, objects, shares=True)
        self.graph = self.recorder.graph
        self.builder = self.recorder.builder
        self.op = self.recorder.op
        self.location = Location()
        self._contexts = ContextRecorder(self.builder)
        self._objects = TracedObjects(self.recorder)
        self._with_gradients = with_gradients
        self._functional = functional
        self._outside = torch.is_grad_enabled()
        self._start: Node | None = None
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
                self._check_form(place, value, example)
                for key, part, part_example in self.recorder.parts(value, example):
                    self._take_apart(_place_of_part(place, example, key), part, part_example, found)
            elif isinstance(value.type, T.ClassType):
                self._take_object_apart(place, value, example, found)
            else:
                self._require_equal(value, example, f"{place}: the trace was made for")
        elif value.type is not T.NONE:
            none = self.graph.insert("aten::__is__", [value, self.recorder.constant(None)], [T.BOOL]).output
            self.check(none, f"{place}: the trace was made for None; {_AGAIN}")

    def _take_object_apart(self, place: str, value: Value, example: object, found: list[TensorArgument]) -> None:
        for name, read, field in self.recorder.fields(value, example):
            self._take_apart(f"{place}.{name}", read, field, found)
        self._objects.note(example, value)

    def _check_form(self, place: str, value: Value, example: object) -> None:
        """Let calls raise where a container has other keys or another length than the example."""
        if isinstance(example, dict):
            keys = self.op("aten::keys", value) if example else self.op("aten::len", value)
            self._require_equal(keys, list(example) if example else 0, f"{place}: the trace was made for the keys")
        elif isinstance(example, list):
            text = f"{place}: the trace was made for a list of length"
            self._require_equal(self.op("aten::len", value), len(example), text)

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
        return self._detached(self.recorder.attribute(tuple(name.split("."))))

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

    # -- what the recorder asks
    def followed(self, argument: object) -> Value | None:
        """The value that an argument stands for; None for what is the same in each run."""
        if not isinstance(argument, Traced):
            return None
        return argument.value if isinstance(argument.value, Value) else self.recorder.constant(argument.value)

    def number_of(self, argument: object) -> object:
        """The number that stands in place of a tensor; None where there is a tensor."""
        return number_for_tensor(argument)

    def place_of_attributes(self) -> Node:
        """Attributes are read at the start of the graph."""
        return self._begin()

    def refused(self, message: str) -> Exception:
        """The error to raise for what cannot be recorded."""
        return NO_TRACE(message, self.location.range)

    # -- operators
    def set_source_location(self, location: Location) -> None:
        self.location = location
        self.recorder.locate(location.range, location.stack)

    def set_grad_enabled(self, enabled: bool) -> None:
        if self._with_gradients:
            return
        self._begin()
        self._contexts.leave()
        if not enabled or not self._outside:
            self._contexts.enter(torch.enable_grad if enabled else torch.no_grad, [])

    def set_seed(self, seed: object) -> None:
        self._begin()
        self.graph.insert("aten::manual_seed", [self.recorder.argument(seed, T.INT)], [])

    def fallback(self, op: Any, args: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        self._begin()
        node = self.recorder.place(self.recorder.node(op.name(), args))
        return [self.recorder.value_of_result(o, r) for o, r in zip(node.outputs, results, strict=True)]

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
        return self.recorder.place(self.graph.create("prim::data", [source.value], [T.TENSOR])).output

    # -- calls
    def call_function(self, function: Function, args: Sequence[object], results: object) -> Sequence[object] | None:
        self._begin()
        value = self.recorder.call(function, args)
        if value is None:
            return None
        found: list[Value] = []
        self._collect(value, results, found)
        return found

    def _collect(self, value: Value, example: object, found: list[Value]) -> None:
        """The values of the tensors in a result."""
        if isinstance(example, torch.Tensor):
            known = isinstance(value.type, T.TensorType)
            found.append(value if known else self.builder.cast(value, T.TENSOR))
        elif isinstance(example, dict | list | tuple):
            for _, part, part_example in self.recorder.parts(value, example):
                self._collect(part, part_example, found)

    def call_python(self, name: str, function: Any, args: Sequence[Any], results: object) -> Sequence[object] | None:
        self._begin()
        is_tuple = isinstance(results, tuple)
        parts: Any = results if is_tuple else (results,)
        if not all(isinstance(p, torch.Tensor) for p in parts):
            return None
        types = [T.TENSOR] * len(parts)
        if isinstance(function, PythonOfKinds):
            types = [T.TensorType.of(dtype, [None] * rank, None, device) for dtype, device, rank in function.kinds]
        t = types[0] if not is_tuple else T.TupleType.of(types) if parts else T.NONE
        free = {i: self.recorder.argument(a, T.ANY) for i, a in enumerate(args) if isinstance(a, Traced)}
        value = self.recorder.call_python(name, function, args, free, t)
        return self.builder.unpack_tuple(value) if is_tuple and parts else [value][: len(parts)]

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
        branch = self.builder.node("prim::If", [self.recorder.argument(Traced(condition, None), T.BOOL)], [])
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
        self._contexts.leave()
        self._objects.check_unchanged()
        self.signature.set_result(result)
        self.add_output(self._result(result, value_of))

    def _result(self, result: object, value_of: Callable[[torch.Tensor], Any]) -> Value:
        if isinstance(result, torch.Tensor):
            value: Value = value_of(result)
            return value
        of_part = partial(self._result, value_of=value_of)
        made = self.result_of(result, of_part) or self._objects.result(result, of_part)
        if made is not None:
            return made
        if type_of_constant(result) is None:
            raise NO_TRACE(
                f"the traced function gives a {type(result).__name__}, which can be no result of a graph",
                hint="give tensors, or tuples, lists and dicts of them",
            )
        return self.recorder.constant(result)

    def result_of(self, result: object, value_of: Callable[[object], Value]) -> Value | None:
        """The value of a list, tuple or dict, of the values of its parts; None for anything else."""
        return self.recorder.containers.result(result, value_of, _common)

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
        argument = check.argument
        sizes = ", ".join(str(n) if type(n) is int else "*" for n in argument.sizes)
        text = (
            f"{argument.name}: the trace was made for a tensor of size [{sizes}], {argument.dtype}, {argument.device}"
        )
        conditions = [*self._kind_conditions(argument), *self._size_conditions(argument)]
        strides = argument.strides
        if check.strides and strides and all(type(n) is int for n in strides):
            conditions.append(self.op("aten::eq", self.op("aten::stride", argument.value), strides))
            text += f" and strides {strides}"
        met = reduce(partial(self.op, "aten::__and__"), conditions)
        self.check(met, f"{text}; {_AGAIN}, or with dynamic_shapes")

    def _kind_conditions(self, argument: TensorArgument) -> Iterator[Value]:
        """Has an argument the dtype and device of the example?"""
        yield self.op("aten::eq", self.builder.node("prim::dtype", [argument.value], [T.INT]).output, argument.dtype)
        if argument.device.type != "meta":  # an example without contents stands for tensors on any device
            device = self.builder.node("prim::device", [argument.value], [T.DEVICE]).output
            yield self.op("aten::eq", device, argument.device)

    def _size_conditions(self, argument: TensorArgument) -> Iterator[Value]:
        """Has an argument the sizes of the example, as far as they are fixed?"""
        value, shape = argument.value, argument.sizes
        if all(type(n) is int for n in shape):
            yield self.op("aten::eq", self.op("aten::size", value), shape)
            return
        yield self.op("aten::eq", self.op("aten::dim", value), len(shape))
        for dim, size in enumerate(shape):
            if type(size) is int:
                yield self.op("aten::eq", self.op("aten::size", value, dim), size)


def _place_of_part(place: str, example: object, key: object) -> str:
    names = getattr(type(example), "_fields", None)
    return f"{place}[{key!r}]" if names is None else f"{place}.{names[key]}"


def _common(values: Sequence[Value], what: str) -> Type:
    if not values:
        return T.TENSOR
    return T.unify_all([v.type for v in values]) or T.ANY
