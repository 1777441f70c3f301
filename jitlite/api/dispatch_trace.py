"""`trace(..., level="dispatcher")`: graphs of the operators that reach the dispatcher, below autograd.

`frontend/dispatch_trace.py` intercepts them and tells a back end; here functions and modules are called under it, on
real or fake tensors, with their gradients if that is wanted, and what the graph back end has made becomes a
`ScriptFunction` or a traced module.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from jitlite.api.dispatch_inputs import ExampleArguments, State, by_tensor, named_arguments, own_tensors, state_of
from jitlite.api.trace_checks import check_trace_of
from jitlite.api.trace_classes import check_finite, declare_dataclasses
from jitlite.api.traced_module import (
    TracedFunction,
    bound_objects,
    finish_module,
    note_modes,
    paths,
    traced_copy,
    traced_type,
)
from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NO_TRACE, SYMBOLIC_SIZE
from jitlite.executor.engine import ENGINE
from jitlite.frontend.tracing.dispatch_trace import DispatchTracer
from jitlite.frontend.tracing.graph_backend import GraphBackend
from jitlite.frontend.tracing.kept_operators import catching
from jitlite.frontend.tracing.places_in_memory import storage_of
from jitlite.frontend.tracing.recorder import drop_unused
from jitlite.frontend.tracing.recurrent_layers import RecurrentLayersInParts
from jitlite.frontend.tracing.resized_images import ResizedImages
from jitlite.frontend.tracing.trace_backend import Signature, Sizes, TensorArgument, TraceBackend
from jitlite.frontend.tracing.trace_mode import recording
from jitlite.frontend.tracing.trace_places import UserFrames
from jitlite.frontend.tracing.trace_values import tensors
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE
from jitlite.passes.registry import run as run_passes


@dataclass(frozen=True)
class DispatcherOptions:
    """Options of traces at the dispatcher.

    Attributes:
        keep: composite operators to keep whole, such as "aten::linear" or "aten::scaled_dot_product_attention"; "all"
            keeps all that Python calls.
        exclude: a frame of Python's stack is no place for a node if its file's name contains one of these; by default,
            frames in torch.
        backward: trace the backward pass too. The result is then a tuple of the function's result and the gradients:
            those of all inputs and parameters that require grad, or of those named here. If the result is not one
            scalar that requires grad, there is one more argument for each tensor in it that does, the gradient of it.
        backend: who is told of the operators, if not jitlite's graphs. `trace` gives what its `finalize` gives.
        fake: run on fake tensors: nothing is computed, and nothing allocated or written.
        functional: record no writes. What the function writes of its arguments and the module's state is copied there
            at the end.
        dynamic_shapes: sizes may differ from call to call: True, or the dimensions by the name of the argument
            (`{"x": [0]}`). What the function takes for granted about them is checked by calls. Implies `fake`.
    """

    keep: Sequence[str] | str = ()
    exclude: Sequence[str] | None = None
    backward: bool | Sequence[str] = False
    backend: TraceBackend | None = None
    fake: bool = False
    functional: bool = False
    dynamic_shapes: bool | Mapping[str, Sequence[int]] = False

    def __post_init__(self) -> None:
        if self.keep and self.backward:
            raise ValueError("keep: operators that are kept whole have no backward pass in the trace")


@dataclass
class _Session:
    """One trace: a function, its arguments by name, and what is known of the module that it belongs to."""

    function: Callable[..., Any]
    args: list[tuple[str, Any]]
    kwargs: dict[str, Any]
    options: DispatcherOptions
    backend: TraceBackend
    module: torch.nn.Module | None = None
    signature: Signature = field(default_factory=Signature)
    _seed_count: int = 0

    def run(self) -> Any:
        """Call the function, tell the back end; gives what that makes of it."""
        self.backend.signature = self.signature
        declare = declare_dataclasses if isinstance(self.backend, GraphBackend) else check_finite
        declare([*(example for _, example in self.args), *self.kwargs.values()])
        fake_mode, sizes = self._fake_mode()
        with ExitStack() as stack:
            state = stack.enter_context(state_of(self.module, fake_mode))
            tracer = DispatchTracer(
                self.backend, state, keep=self.options.keep,
                places=UserFrames(self.options.exclude, _traced_call.__code__),
                functional=self.options.functional, sizes=sizes, with_gradients=bool(self.options.backward),
                own_tensors=partial(own_tensors, self.module, state),
            )  # fmt: skip
            tracer.generator.own.watch(self.function)
            args, kwargs = self._arguments(tracer, fake_mode, sizes)
            leaves = [*(a.example for a in self.signature.arguments), *(t for _, _, t in state.values())]
            before = [(t, t.grad) for t in leaves if t.is_leaf]
            result = self._call(tracer, fake_mode, sizes, args, kwargs, state)
            _check_grads(before, self._names(state))
            declare(result)
            self.signature.mutations = tracer.finish(result)
        return self._finalize(tracer, sizes, result)

    def _fake_mode_of_arguments(self) -> Any:
        given = tensors([[a for _, a in self.args], self.kwargs])
        return next((t.fake_mode for t in given if hasattr(t, "fake_mode")), None)

    def _fake_mode(self) -> tuple[Any, Sizes | None]:
        """The mode that makes fake tensors, if any, and the symbols of sizes."""
        known = self._fake_mode_of_arguments()
        if known is None and not self.options.fake and not self.options.dynamic_shapes:
            return None, None
        if known is not None and self.options.dynamic_shapes:
            raise ValueError("dynamic_shapes: give real tensors as examples, which get symbolic sizes then")
        # torch takes seconds to import its part of this
        symbolic = importlib.import_module("jitlite.frontend.tracing.symbolic_sizes")
        if self.options.dynamic_shapes:
            sizes = symbolic.SymbolicSizes(self.backend, self.options.dynamic_shapes)
            return sizes.mode, sizes
        return known or torch_internals.FakeTensorMode(allow_non_fake_inputs=True), None

    def _arguments(
        self, tracer: DispatchTracer, fake_mode: object, sizes: Sizes | None
    ) -> tuple[list[Any], dict[str, Any]]:
        prepare = ExampleArguments(fake_mode, sizes, bool(self.options.backward))
        args = [prepare(example, name) for name, example in self.args]
        kwargs = {name: prepare(example, name) for name, example in self.kwargs.items()}
        given = [*zip((n for n, _ in self.args), args, strict=True), *kwargs.items()]
        for name, example in given:
            self.signature.arguments += self.backend.add_argument(name, example)
        for argument in self.signature.arguments:
            self._introduce(tracer, sizes, argument)
        return args, kwargs

    @staticmethod
    def _introduce(tracer: DispatchTracer, sizes: Sizes | None, argument: TensorArgument) -> None:
        tracer.add_argument(argument)
        if sizes is not None:
            sizes.bind(argument)

    def _call(
        self, tracer: DispatchTracer, fake_mode: Any, sizes: Sizes | None, args: object, kwargs: object, state: State
    ) -> Any:
        with ExitStack() as stack:
            if fake_mode is not None:
                stack.enter_context(fake_mode)
                stack.enter_context(RecurrentLayersInParts())
                stack.enter_context(ResizedImages())
            stack.enter_context(recording(tracer))
            stack.enter_context(tracer.mode())
            if tracer.kept:
                stack.enter_context(catching(list(tracer.kept), tracer.called))
            result = self._followed_call(sizes, args, kwargs)
            if not self.options.backward:
                return result
            seeds = self._seeds(tracer, sizes, result)
            wanted = self._wanted(state)
            return result, _gradients(result, seeds, list(wanted.values()))

    def _followed_call(self, sizes: Sizes | None, args: Any, kwargs: Any) -> Any:
        try:
            return _traced_call(self.function, args, kwargs)
        except RuntimeError as error:
            if sizes is None or not any(text in str(error) for text in _NOT_FOLLOWED):
                raise
            raise SYMBOLIC_SIZE(
                f"torch cannot follow sizes through all of this: {str(error).splitlines()[0]}",
                hint="trace without dynamic_shapes, or name the dimensions that differ: dynamic_shapes={'x': [0]}",
            ) from error

    def _seeds(self, tracer: DispatchTracer, sizes: Sizes | None, result: object) -> list[torch.Tensor] | None:
        """The gradients of the results, as further arguments; None for one scalar."""
        found = _differentiable(result)
        if not found:
            raise NO_TRACE("backward=True: no result of the traced function requires grad")
        if len(found) == 1 and found[0].numel() == 1 and len(tensors(result)) == 1:
            return None
        seeds = []
        for i, output in enumerate(found):
            with tracer.not_recording(), torch.no_grad():
                seed = torch.ones_like(output, memory_format=torch.contiguous_format)
            (argument,) = self.backend.add_argument(f"gradient_{i}", seed)
            self.signature.arguments.append(argument)
            self._introduce(tracer, sizes, argument)
            tracer.make_contiguous(seed)
            seeds.append(seed)
        self._seed_count = len(seeds)
        return seeds

    def _wanted(self, state: State) -> dict[str, torch.Tensor]:
        """What gradients are wanted of, by name."""
        given = self.signature.arguments[: len(self.signature.arguments) - self._seed_count]
        found = {a.name: a.example for a in given}
        by_id = {name: tensor for tensor, (_, name, _) in by_tensor(self.module, state)}
        found |= {name: t for name, t in by_id.items() if name not in found}
        if self.options.backward is True:
            found = {name: t for name, t in found.items() if t.requires_grad}
        else:
            found = _chosen(found, self.options.backward)
        self.signature.gradient_names = list(found)
        return found

    def _names(self, state: State) -> dict[int, str]:
        return {id(a.example): a.name for a in self.signature.arguments} | {id(t): n for _, n, t in state.values()}

    def _finalize(self, tracer: DispatchTracer, sizes: Sizes | None, result: object) -> Any:
        backend = self.backend
        if not isinstance(backend, GraphBackend):
            if sizes is not None:
                sizes.check()
            return backend.finalize()
        outputs = {storage_of(t) for t in tensors(result)}
        written = tracer.values.written
        inputs = {storage_of(a.example) for a in self.signature.arguments}
        exact = bool(written & (inputs | tracer.copies))
        backend.check_arguments(self.signature.arguments, lambda a: exact or storage_of(a.example) in outputs)
        if sizes is not None:
            with backend.inserting_checks():
                sizes.forget_computed()
                sizes.check()
        if tracer.assumed:
            backend.check_no_gradients(self.signature.arguments, tracer.assumed[0])
        _settle_constants(tracer, written | outputs)
        graph = backend.finalize()
        drop_unused(graph)
        run_passes(graph, "normalize_ops,dce")
        return graph


_NOT_FOLLOWED = ("symbolic sizes", "INTERNAL ASSERT", "expected to contain only concrete integers")
"""What torch says where it cannot go on with symbolic sizes."""


def _traced_call(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    return function(*args, **kwargs)


# -- gradients


def _chosen(found: Mapping[str, torch.Tensor], names: Any) -> dict[str, torch.Tensor]:
    """The tensors that `backward` names: one of them, or several."""
    wanted = [names] if isinstance(names, str) else list(names)
    missing = [n for n in wanted if n not in found or not found[n].requires_grad]
    if missing:
        raise ValueError(f"backward: {missing[0]} is no argument or parameter that requires grad")
    return {name: found[name] for name in wanted}


def _differentiable(result: object) -> list[torch.Tensor]:
    return [t for t in {id(t): t for t in tensors(result)}.values() if t.requires_grad]


def _gradients(result: object, seeds: list[torch.Tensor] | None, wanted: list[torch.Tensor]) -> tuple[Any, ...]:
    outputs = _differentiable(result)
    return torch.autograd.grad(outputs, wanted, seeds, allow_unused=True) if wanted else ()


def _check_grads(before: Sequence[tuple[torch.Tensor, Any]], names: Mapping[int, str]) -> None:
    for tensor, grad in before:
        if tensor.grad is not grad:
            tensor.grad = grad
            raise NO_TRACE(
                f"the traced function sets the .grad of {names.get(id(tensor), 'a tensor')}, which is no result of it",
                hint="trace with backward=True, or use torch.autograd.grad",
            )


# -- graphs


def _settle_constants(tracer: DispatchTracer, changed: set[int | None]) -> None:
    """Use constants themselves where nothing can change them; else each call has a copy."""
    for value, tensor, constant in tracer.lifted:
        if storage_of(tensor) not in changed and value.node.kind == "aten::clone":
            value.replace_all_uses_with(constant)
            value.node.destroy()


def _schema(name: str, graph: Graph, names: Sequence[str], owner: ClassType | None) -> Any:
    first = [] if owner is None else [Argument("self", owner)]
    values = graph.inputs[len(first) :]
    formals = [Argument(n, value.type) for n, value in zip(names, values, strict=True)]
    return function_schema(name, [*first, *formals], [o.type for o in graph.outputs])


def trace_function(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], options: DispatcherOptions
) -> Any:
    """The traced function, or what the back end of the options makes of it.

    Raises:
        CompileError: where something cannot be traced; it names the user's line.
        TypeError: where the function takes no such arguments.
    """
    given, keywords = named_arguments(function, args, kwargs)
    backend = options.backend or GraphBackend(with_gradients=bool(options.backward), functional=options.functional)
    session = _Session(function, given, keywords, options, backend)
    made = session.run()
    if options.backend is not None:
        return made
    name = getattr(function, "__name__", type(function).__name__).replace("<lambda>", "lambda")
    schema = _schema(name, made, session.signature.names, None)
    traced = TracedFunction(Function(name, schema=schema, graph=made, engine=ENGINE), function)
    traced.mutations, traced.gradient_names = session.signature.mutations, session.signature.gradient_names
    return traced


def trace_methods(
    module: torch.nn.Module,
    inputs: Mapping[str, tuple[Sequence[Any], Mapping[str, Any]]],
    options: DispatcherOptions,
) -> Any:
    """The traced module, which shares the state; or what the back end of the options makes of its only method.

    Args:
        inputs: the arguments, positional and by keyword, by the name of the method.

    Raises:
        CompileError, TypeError: as `trace_function` does.
    """
    if options.backend is not None and len(inputs) != 1:
        raise ValueError("backend: one method at a time can be traced for a back end")
    types: dict[int, ClassType] = {}
    owner = traced_type(module, types)
    made = traced_copy(module, types, {})
    _, modules = paths(module)
    for name, (args, kwargs) in inputs.items():
        method = getattr(module, name)
        given, keywords = named_arguments(method, args, kwargs)
        backend = options.backend or GraphBackend(
            owner,
            modules,
            bound_objects(modules, module),
            with_gradients=bool(options.backward),
            functional=options.functional,
        )
        session = _Session(module if name == "forward" else method, given, keywords, options, backend, module)
        graph = session.run()
        if options.backend is not None:
            return graph
        schema = _schema(name, graph, session.signature.names, owner)
        qualified = f"{owner.qualified_name}.{name}"
        owner.methods[name] = Function(name, qualified_name=qualified, schema=schema, graph=graph, engine=ENGINE)
        vars(made).setdefault("mutations", []).extend(session.signature.mutations)
        vars(made).setdefault("gradient_names", []).extend(session.signature.gradient_names)
    assert vars(made)[CLASS_TYPE] is owner
    finish_module(made)
    note_modes(made, module)
    return made


def trace_dispatched(
    func: Any,
    example_inputs: Any,
    example_kwarg_inputs: Mapping[str, object] | None,
    check: tuple[bool, float],
    options: Mapping[str, Any],
) -> Any:
    """`trace` at the level of the dispatcher.

    Args:
        func: a function or module, or the bound method of a module.
        example_inputs: the arguments, a tuple of them or a single one.
        example_kwarg_inputs: further arguments by keyword.
        check: whether to compare the trace with the function on copies of the inputs, and the tolerance.
        options: those of `DispatcherOptions`.

    Raises:
        CompileError, TypeError: as `trace_function` does.
        TracingCheckError: where another trace gives another graph.
    """
    chosen = DispatcherOptions(**options)
    args = _as_tuple(example_inputs)
    kwargs = dict(example_kwarg_inputs or {})
    owner = func if isinstance(func, torch.nn.Module) else getattr(func, "__self__", None)
    name = "forward" if owner is func else getattr(func, "__name__", "")

    def traced(given: Any) -> Any:
        positional = tuple(given) if not kwargs else args
        keywords = given if kwargs else {}
        if isinstance(owner, torch.nn.Module):
            return trace_methods(owner, {name: (positional, keywords)}, chosen)
        return trace_function(func, positional, keywords, chosen)

    def compared(made: Any) -> Any:
        return made._jitlite_method(name) if isinstance(owner, torch.nn.Module) else made

    made = traced(kwargs or args)
    if check[0] and _is_comparable(chosen, args, kwargs):
        python = owner if name == "forward" and isinstance(owner, torch.nn.Module) else func
        check_trace_of(python, compared(made), kwargs or args, lambda copies: compared(traced(copies)), check[1])
    return made


def _is_comparable(options: DispatcherOptions, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """Can the trace be called with copies of its inputs, to give what the function gives?"""
    if options.backend is not None or options.backward or (args and kwargs):
        return False
    return not any(hasattr(t, "fake_mode") for t in tensors([args, kwargs]))


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    if inputs is None:
        return ()
    return tuple(inputs) if type(inputs) in (tuple, list) else (inputs,)
