"""The tracer: builds a graph from the operators that a Python function calls.

A `Tracer` is told of every operator that Python calls, at the level at which Python calls it (`aten::linear`, not what
the dispatcher makes of it), by `trace_mode.py`. It runs the operator and inserts a node. Values are found by the
identity of tensors, which it keeps alive until it is done:

  inputs                        graph inputs, taken apart
  results of operators          outputs of their nodes
  state of the traced module    `prim::GetAttr` on `self`
  any other tensor              a constant: the tensor itself, or, of one that `torch.tensor` made on the way, a copy

What an operator gives back that is not a tensor is Python's, and fixed. Sizes are followed: see `traced_numbers.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from jitlite.base.dataclass_values import fields_of
from jitlite.base.tracing_state import PythonRun
from jitlite.frontend.tracing.random_state import GeneratorState
from jitlite.frontend.tracing.recorded_modes import ModeRecorder
from jitlite.frontend.tracing.recorder import Path
from jitlite.frontend.tracing.trace_conversions import Conversions
from jitlite.frontend.tracing.trace_methods import parameter_names
from jitlite.frontend.tracing.trace_values import (
    Paused,
    another_object,
    in_schema_order,
    input_type,
    place_of,
    plain_number,
    rebuilt,
    why_not,
    written,
)
from jitlite.frontend.tracing.trace_warnings import SourceLines, TracerWarning, current_place, users_names
from jitlite.frontend.tracing.traced_numbers import NumberNode, node_of, plain
from jitlite.frontend.tracing.traced_objects import TracedObjects
from jitlite.frontend.tracing.traced_values import TracedValues
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.traits import Spelling
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE
from jitlite.operators.overloads import NamedValue, emit_builtin_call

_CONTAINER = (
    "Encountering a {0} at the output of the tracer might cause the trace to be incorrect, this is only valid if the "
    "container structure does not change based on the module's inputs. Consider using a constant container instead "
    "(e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely need this and "
    "know the side effects, pass strict=False to trace() to allow this behavior."
)
_REGISTERED = (
    "torch.tensor results are registered as constants in the trace. You can safely ignore this warning if you use this "
    "function to create tensors out of constant variables that would be the same every time you call this function. In "
    "any other case, this might cause the trace to be incorrect."
)

_RECORDED = frozenset({"Tensor", "List[Tensor]", "Optional[Tensor]"})
"""Types of results of operators that are recorded; what gives others says something to Python."""


# -- the tracer


class Tracer(TracedValues):
    """Records into one graph.

    Args:
        state: the parameters, buffers and other tensors of the traced module by identity, with the path to each.
        objects: what the traced module holds of classes written in C++, with the path to each.
        owner: the type of the traced module, None where a function is traced. It becomes the first input.
        strict: refuse lists and dicts as results.
        out_of_place: record operators that write their first argument as those that do not.
    """

    def __init__(
        self,
        owner: ClassType | None = None,
        state: Mapping[int, Path] | None = None,
        modules: Mapping[int, Path] | None = None,
        objects: Sequence[tuple[object, Path]] = (),
        *,
        strict: bool = True,
        out_of_place: bool = False,
    ) -> None:
        super().__init__(owner, state, modules, objects)
        self.strict = strict
        self.out_of_place = out_of_place
        self.paused = 0
        self._conversions = Conversions()
        self._lines = SourceLines()
        self._objects = TracedObjects(self.recorder)
        self._modes = ModeRecorder(self.builder, is_outermost=True)
        self.generator = GeneratorState(self._record_seed)

    sees_calls = True
    below_autograd = False

    # -- inputs
    def add_input(self, name: str, example: object) -> object:
        """Make an example a graph input; gives what the traced function is to be called with in its place.

        Raises:
            RuntimeError: where it is of no type that can be traced.
        """
        t = input_type(example)
        if t is None:
            raise RuntimeError(why_not(example))
        value = self.graph.add_input(t, name)
        self._varying.add(value)
        return self._take_apart(value, example)

    def _take_apart(self, value: Value, example: Any) -> Any:
        """Bind the parts of a composite value to the parts of what it is now."""
        self._varying.add(value)
        if isinstance(example, torch.Tensor):
            if id(example) in self._values or id(example) in self._state:
                example = example.view_as(example)  # another object for the same memory
            self.bind(example, value)
            return example
        if isinstance(example, dict | list | tuple):
            parts = {key: self._take_apart(p, e) for key, p, e in self.recorder.parts(value, example)}
            return rebuilt(example, parts)
        if type(example) in (int, float):
            return NumberNode(self, value, example).wrapped()
        if isinstance(value.type, T.ClassType) and fields_of(example) is not None:
            return self._objects.take_apart(value, example, self._take_apart)
        return example

    # -- operators
    def same_memory(self, tensor: torch.Tensor, other: torch.Tensor, *, detached: bool = True) -> None:
        """Note that `other` is the tensor's `.data`, or where it is not detached the tensor as of another class."""
        self.recorder.locate(self._lines.of_user())
        value = self.value_of(tensor)
        if detached:
            value = self.graph.insert("aten::detach", [value], [T.TENSOR]).output
        self._varying.add(value)
        self.bind(other, value)

    def called(self, overload: Any, args: Sequence[Any], kwargs: Mapping[str, object]) -> object:
        """Run an operator and record it."""
        plain_args = [plain_number(a) for a in args]
        plain_kwargs = {name: plain_number(a) for name, a in kwargs.items()}
        name = overload.name()
        if name in Spelling.TRACED_AS.by_kind and isinstance(args[0], torch.Tensor):
            result = self._run(overload, plain_args, plain_kwargs)
            self.asked_for(args[0], result, Spelling.TRACED_AS.by_kind[name])
            return result
        if name == "aten::lift_fresh":
            return self._lift(self._run(overload, plain_args, {}))
        if self._is_left_out(overload, args):
            return self._run(overload, plain_args, plain_kwargs)
        self.recorder.locate(self._lines.of_user())
        self._name_values(args)
        self._modes.follow()
        given = self._conversions.linked(in_schema_order(overload, args, kwargs))
        node = self._node(overload, given)
        result = self._run(overload, plain_args, plain_kwargs)
        self.recorder.place(node)
        return self._bind_results(overload, node, args, result)

    def _record_seed(self, seed: object) -> None:
        self.recorder.locate(self._lines.of_user())
        self._modes.follow()
        self.graph.insert("aten::manual_seed", [self.recorder.argument(seed, T.INT)], [])

    def _is_left_out(self, overload: Any, args: Sequence[Any]) -> bool:
        """Is the call nothing to the graph: does it say something to Python, or detach what nothing has used yet?"""
        if any(str(r.type) not in _RECORDED for r in overload._schema.returns):
            return True
        return overload.name() == "aten::detach_" and args[0] in self._made and not self._made.is_used(args[0])

    def _run(self, overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator. Kernels may be written in Python, such as those for meta tensors, and ask for sizes."""
        with self.not_recording():
            return overload(*args, **kwargs)

    def _name_values(self, args: Sequence[object]) -> None:
        """Let values have the names of the variables that hold them."""
        values = {id(a): self._values.get(id(a)) for a in args if isinstance(a, torch.Tensor)}
        unnamed = {i: v for i, v in values.items() if v is not None and not v.has_name}
        if unnamed:
            for held, name in users_names([a for a in args if id(a) in unnamed]).items():
                unnamed[held].set_name(name)

    def _node(self, overload: Any, given: Sequence[Any]) -> Node:
        """The node of a call, not placed yet."""
        node = self.recorder.node(overload.name(), given)
        if self.out_of_place and node.op is not None and any(a.is_write for a in node.op.schema.arguments[:1]):
            self._warn_of_views(given[0], node.kind)
            return self._without_write(node)
        return node

    def _warn_of_views(self, tensor: torch.Tensor, name: str) -> None:
        storage = tensor.untyped_storage()._cdata
        others = {p for p in self._places if p[0] == storage and p != place_of(tensor)}
        if others:
            current_place().warn(
                f"There are {len(others) + 1} live references to the data region being modified when tracing in-place "
                f"operator {name.removeprefix('aten::')}. This might cause the trace to be incorrect, because all "
                "other views that also reference this data will not reflect this change in the trace! On the other "
                "hand, if all other views use the same memory chunk, but are disjoint (e.g. are outputs of "
                "torch.split), this might still be safe."
            )

    def _without_write(self, node: Node) -> Node:
        """The node of the operator that gives what this one writes, if there is one."""
        if not node.kind.endswith("_") or node.kind.endswith("__"):
            return node
        candidate = self.graph.create(node.kind[:-1], node.inputs, [T.TENSOR])
        if candidate.op is None:
            candidate.remove_all_inputs()
            return node
        node.remove_all_inputs()
        return candidate

    def _bind_results(self, overload: object, node: Node, args: Sequence[object], result: object) -> object:
        """Bind what an operator has given; gives what the caller is to get."""
        results = _results_of(node, result)
        varying = any(map(self._varies, node.inputs)) or self._is_random(node)
        self._varying.update(node.outputs if varying else ())
        own = set(map(id, written(overload, args)))
        for position, (output, part) in enumerate(zip(node.outputs, results, strict=True)):
            value = self.recorder.value_of_result(output, part)
            if isinstance(part, torch.Tensor):
                results[position] = part if id(part) in own else _unlike(part, args)
                self.bind(results[position], value)
            elif isinstance(part, list | tuple):
                self._bind_list(value, part, varying)
        if isinstance(result, tuple) and len(node.outputs) != 1:
            return tuple(results)
        return results[0] if results else None

    def _bind_list(self, values: Sequence[Value], tensors: Sequence[torch.Tensor], varying: bool) -> None:
        for value, tensor in zip(values, tensors, strict=True):
            self.bind(tensor, value)
        self._varying.update(values if varying else [])

    def _is_random(self, node: Node) -> bool:
        return node.op is not None and node.op.effect is ops.Effect.RANDOM

    # -- numbers
    def size(self, tensor: torch.Tensor, dim: int, number: int) -> Any:
        """The size of a dimension, as a number that is followed."""
        self.recorder.locate(self._lines.of_user())
        args = [self.value_of(tensor), self.graph.insert_constant(dim)]
        return self._number(self.graph.insert("aten::size", args, [T.INT]).output, number)

    def numel(self, tensor: torch.Tensor, number: int) -> object:
        """The number of elements, as a number that is followed."""
        self.recorder.locate(self._lines.of_user())
        return self._number(self.graph.insert("aten::numel", [self.value_of(tensor)], [T.INT]).output, number)

    def _number(self, value: Value, number: Any) -> object:
        self._varying.add(value)
        return NumberNode(self, value, number).wrapped()

    def scalar_op(self, name: str, operands: list[Any], result: object) -> object:
        """Record a computation on numbers; gives its result as a number to go on with."""
        if self.paused:
            return result
        self.recorder.locate(self._lines.of_user())
        values = [self._operand(o) for o in operands]
        value = emit_builtin_call(self.graph, None, name, [NamedValue(None, v) for v in values])
        if value.type is T.FLOAT and type(result) is int:
            value = self.graph.insert("aten::Int", [value], [T.INT]).output
        return self._number(value, result)

    def _operand(self, operand: object) -> Value:
        node = node_of(operand)
        known = node is not None and node.value is not None
        return node.value if known and node is not None else self.graph.insert_constant(plain(operand))

    def number_as_tensor(self, node: NumberNode) -> torch.Tensor:
        """The number as a tensor without dimensions."""
        value = self.graph.insert("prim::NumToTensor", [node.value], [T.TENSOR]).output
        self._varying.add(value)
        with self.not_recording():
            tensor = torch.tensor(node.number)
        self.bind(tensor, value)
        return tensor

    def own_tensors(self) -> AbstractContextManager[None]:
        """Within the `with`, the traced module has its own tensors, as always."""
        return nullcontext()

    def not_recording(self) -> Paused:
        """Within the `with`, operators just run."""
        return Paused(self)

    # -- what Python asks for
    def converted(self, node: NumberNode, what: str) -> None:
        """Note that Python has asked for the number itself."""
        if node.value is not None and not self.paused:
            self._conversions.add(node.value, node.number, what)

    def asked_for(self, tensor: torch.Tensor, number: object, what: str) -> None:
        """Note that Python has asked a tensor for its contents; `what` says what as, nothing if nobody is told."""
        value = self.known(tensor)
        if value is None and id(tensor) in self._state:
            value = self._state_value(self._state[id(tensor)])
        if value is not None and value in self._varying:
            self._conversions.add(value, number, what)

    def _lift(self, tensor: torch.Tensor) -> torch.Tensor:
        """Note a tensor that torch has made of numbers."""
        place = current_place()
        if self._conversions.drop(place.instruction):
            place.warn(_REGISTERED)
        with self.not_recording():
            self._made.add(tensor)
        self._kept.append(tensor)
        return tensor

    # -- calls of Python and of compiled functions
    def call_python(self, name: str, function: Callable[..., object], arguments: Sequence[object]) -> object:
        """Call a function that stays Python's, and record that; it gives a tensor, or a tuple of tensors."""
        self.recorder.locate(self._lines.of_user())
        self._modes.follow()
        fixed, free = self._python_arguments(arguments)
        with self.not_recording():
            result = function(*fixed)
        t = input_type(result)
        if t is None:
            raise RuntimeError(f"'{name}' gives a {type(result).__name__}, and only tensors can be followed")
        is_written = self.out_of_place and any(result is a for a in arguments)
        value = self.recorder.call_python(name, _refused(name) if is_written else function, fixed, free, t)
        return self._take_apart_result(value, result)

    def record_python(self, run: PythonRun) -> list[torch.Tensor]:
        """Note that Python has been run; gives the results to go on with."""
        self.recorder.locate(self._lines.of_user())
        self._modes.follow()
        fixed, free = self._python_arguments(run.arguments)
        t = T.TupleType.of([T.TENSOR] * len(run.results)) if run.results else T.NONE
        value = self.recorder.call_python(run.name, run.function, fixed, free, t)
        parts = self.builder.unpack_tuple(value) if run.results else []
        return [self._take_apart_result(part, r) for part, r in zip(parts, run.results, strict=True)]

    def _python_arguments(self, arguments: Sequence[object]) -> tuple[list[object], dict[int, Value]]:
        """What Python is called with in the trace, and the values of what differs from run to run, by position."""
        free = {
            i: self.recorder.argument(a, T.ANY)
            for i, a in enumerate(arguments)
            if isinstance(a, torch.Tensor) or node_of(a) is not None
        }
        return [plain(a) for a in arguments], free

    def call_function(self, function: Function, arguments: Sequence[object], run: Callable[[], object]) -> object:
        """Run a compiled function and record the call; where it cannot be recorded, what it does is."""
        self.generator.check()
        self.recorder.locate(self._lines.of_user())
        value = self.recorder.call(function, arguments)
        if value is None:
            return run()
        with self.not_recording():
            result = run()
        self._varying.add(value)
        return self._take_apart_result(value, result)

    def call_module(self, module: torch.nn.Module, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run the `forward` of a module; if it is a submodule of the traced one, the call becomes one of a method."""
        path = self.recorder.modules.get(id(module))
        if not path or self.recorder.owner is None or hasattr(module, CLASS_TYPE):
            return module.forward(*args, **kwargs)
        given = parameter_names(module.forward, args, kwargs)
        names = {self.known(a): n for n, a in given.items() if isinstance(a, torch.Tensor)}
        self.recorder.locate(self._lines.of_user())
        self._modes.follow()
        modes, self._modes = self._modes, ModeRecorder(self.builder)
        try:
            with self._calls.inside(path, {value: n for value, n in names.items() if value is not None}):
                result = module.forward(*args, **kwargs)
                self._modes.leave()
        finally:
            self._modes = modes
        return result

    def make_methods(self) -> list[Graph]:
        """Let the calls of submodules be calls of methods, when all is recorded; gives the methods' graphs."""
        owner = None if self.recorder.owner is None else self.recorder.owner.type
        return self._calls.become_methods(owner, self.recorder.attributes) if isinstance(owner, ClassType) else []

    def _take_apart_result(self, value: Value, result: Any) -> Any:
        if type(result) in (int, float, bool):
            return self._number(value, result)
        if isinstance(result, list | tuple | dict) and not result:
            return result
        if isinstance(result, torch.Tensor) and (id(result) in self._values or id(result) in self._state):
            result = another_object(result)
        return self._take_apart(value, result)

    # -- results
    def finish(self, result: object) -> Type:
        """Make the result of the traced function the graph's; gives its type.

        Raises:
            RuntimeError: where it is of no type that can be traced.
        """
        self._conversions.warn()
        self.generator.check()
        self._objects.check_unchanged()
        self.recorder.locate(None)
        self._modes.leave()
        value = self._output(result)
        self.graph.add_output(value)
        self._made.settle(self.graph, result)
        return value.type

    def _output(self, result: object) -> Value:
        if isinstance(result, torch.Tensor):
            return self.value_of(result)
        if node_of(result) is not None or result is None:
            return self.recorder.argument(result, T.ANY)
        if self.strict:
            _refuse_container(result)
        value = self.recorder.containers.result(result, self._output, _common_type)
        value = self._objects.result(result, self._output) if value is None else value
        if value is None:
            raise RuntimeError(
                f"Type '{type(result).__name__}' cannot be understood by the tracer, only outputs matching tensors "
                "are: Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
                "functions"
            )
        return value


def _unlike(result: torch.Tensor, args: Sequence[object]) -> torch.Tensor:
    """The result as no argument: for other inputs it may be another tensor, so it must not stand for the argument."""
    return another_object(result) if any(result is a for a in args) else result


def _results_of(node: Node, result: object) -> list[Any]:
    """What an operator has given, by output."""
    if len(node.outputs) == 1:
        return [result]
    return [] if result is None else list(result) if isinstance(result, tuple) else [result]


def _refuse_container(result: object) -> None:
    """What `strict` says of results whose length or keys may depend on the inputs."""
    if isinstance(result, dict):
        raise RuntimeError(_CONTAINER.format("dict"))
    if isinstance(result, list):
        warnings.warn(_CONTAINER.format("list"), TracerWarning, stacklevel=3)


def _common_type(values: Sequence[Value], what: str) -> Type:
    found = T.unify_all([v.type for v in values]) if values else T.TENSOR
    if found is None:
        raise RuntimeError(f"the elements of a {what} at the output of the tracer must have a common type")
    return found


def _refused(name: str) -> Callable[..., object]:
    """Stands for a Python function that writes an argument, which has no counterpart that does not."""

    def refuse(*args: object) -> object:
        raise RuntimeError(
            f"inplace {name}: the trace was made without writes (_force_outplace), and {name} writes its argument"
        )

    return refuse
