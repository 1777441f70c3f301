"""`trace` and `trace_module`: graphs from what functions and modules do with example inputs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, ParamSpec, TypeVar, overload

import torch

from jitlite.api.dispatch_inputs import named_arguments
from jitlite.api.dispatch_trace import DispatcherOptions, trace_dispatched, trace_methods
from jitlite.api.trace_checks import TracingCheckError, check_shapes_of, check_trace_of, copied
from jitlite.api.trace_classes import declare_dataclasses
from jitlite.api.trace_halves import Floats, trace_of_halves
from jitlite.api.traced_module import (
    TopLevelTracedModule,
    TracedFunction,
    TracedModule,
    add_exported,
    bound_objects,
    finish_module,
    note_modes,
    paths,
    store_inputs,
    traced_copy,
    traced_type,
)
from jitlite.base import options as switches
from jitlite.base.dataclass_values import fields_of
from jitlite.base.keywords import checks_keywords, unexpected_keyword
from jitlite.base.tracebacks import HiddenFrames
from jitlite.executor.engine import ENGINE
from jitlite.frontend.emit.casting_blocks import autocast
from jitlite.frontend.tracing.recorder import drop_unused
from jitlite.frontend.tracing.torch_scripts import converted, is_torch_script_module, with_converted_submodules
from jitlite.frontend.tracing.trace import Tracer
from jitlite.frontend.tracing.trace_mode import recording
from jitlite.frontend.tracing.trace_warnings import TracerWarning
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import ScriptModule
from jitlite.passes.registry import run as run_passes

if TYPE_CHECKING:
    from jitlite.api.script import HasForward, TypedFunction, TypedModule

_P = ParamSpec("_P")
_R = TypeVar("_R")

__all__ = [
    "TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "autocast", "trace", "trace_module",
]  # fmt: skip

Inputs = Sequence[Any] | Mapping[str, Any]


@overload
def trace(
    func: HasForward[_P, _R],
    example_inputs: object = None,
    optimize: object = None,
    check_trace: bool = True,
    check_inputs: Sequence[object] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    **options: Any,
) -> TypedModule[_P, _R]: ...
@overload
def trace(
    func: Callable[_P, _R],
    example_inputs: object = None,
    optimize: object = None,
    check_trace: bool = True,
    check_inputs: Sequence[object] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    **options: Any,
) -> TypedFunction[_P, _R]: ...
def trace(
    func: Any,
    example_inputs: object = None,
    optimize: object = None,
    check_trace: bool = True,
    check_inputs: Sequence[object] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: object = None,
    _compilation_unit: object = None,
    example_kwarg_inputs: Mapping[str, object] | None = None,
    _store_inputs: object = True,
    check_shapes: bool = False,
    level: str = "python",
    halves_as_float: bool = False,
    **options: Any,
) -> Any:
    """Record what a function or module does with example inputs: a function or module that does it with any inputs.

    Every operator that the function calls becomes a node, in order; what Python does between them is gone. Sizes of
    tensors that depend on the inputs are followed through arithmetic, so that they may differ in later calls. Where
    Python asks for a number, such as in `if x.sum() > 0`, it gets the one of the example, and a TracerWarning tells
    that the trace holds for such inputs only.

    Args:
        func: a function of tensors, ints and floats, and of tuples, lists and dicts of these; an nn.Module, of which
            `forward` is traced, or its bound `forward`.
        example_inputs: the arguments, a tuple of them or a single tensor. They are not copied: what the function
            writes into them is written.
        optimize: not used; kept for callers of torch.jit.trace.
        check_trace: run and trace the function again on copies of the example inputs, and compare. What differs between
            the results is warned about.
        check_inputs: a list of further inputs to compare with instead.
        check_tolerance: how much floating-point results may differ, relatively.
        strict: refuse a list or dict as result, of which later calls would give one of the same length or keys.
        _force_outplace: record operators that write their argument as those that give a new tensor. Views of the
            argument then do not change with it.
        example_kwarg_inputs: arguments by keyword, in place of `example_inputs`.
        _store_inputs: of a module, keep the example inputs, and write them into its archives, as torch.jit.trace does.
        check_shapes: try other sizes of the dimensions of the inputs, too, and say what the trace has frozen.
        level: "python" records the operators that Python calls; "dispatcher" those that reach the dispatcher, below
            autograd, for inputs like the examples only.
        halves_as_float: float32 tensors stand for half arguments, parameters and buffers while the function is traced.
            The trace takes and has the halves, and its `halves` names them; `cast_by_policy` says where they are cast.
        options: of traces at the dispatcher; see `DispatcherOptions`.

    Raises:
        RuntimeError: where an input or result is of no type that can be traced, or a tensor that requires grad would be
            a constant.
        TracingCheckError: where a second trace gives another graph, or the trace does not hold for other sizes.
        NameError: where `example_kwarg_inputs` names no parameter.
    """
    if not switches.current().enabled:
        return func
    func = converted(func) if is_torch_script_module(func) else func
    if isinstance(func, ScriptModule):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.",
            stacklevel=2,
        )
        return func
    __tracebackhide__ = True
    if halves_as_float:
        chosen = {"check_trace": check_trace, "check_tolerance": check_tolerance, "strict": strict, "level": level}
        chosen |= {"_force_outplace": _force_outplace, "_store_inputs": False, "check_shapes": check_shapes}
        return _trace_halves(func, (example_inputs, example_kwarg_inputs, check_inputs), chosen, bool(_store_inputs))
    with HiddenFrames():
        if _is_dispatched(level, options):
            check = check_trace, check_tolerance
            return trace_dispatched(func, example_inputs, example_kwarg_inputs, check, options)
        by_keyword = example_kwarg_inputs is not None
        given = _by_keyword(example_kwarg_inputs) if example_inputs is None else example_inputs
        module = _module_of(func)
        if module is not None:
            checks = [{"forward": inputs} for inputs in check_inputs] if check_inputs is not None else None
            return trace_module(
                module, {"forward": given}, None, check_trace, checks, check_tolerance, strict,
                _force_outplace, _module_class, _compilation_unit, by_keyword, _store_inputs, check_shapes=check_shapes,
            )  # fmt: skip
        inputs, *others = map(_unchanged if by_keyword else _as_tuple, [given, *(check_inputs or ())])
        compared = [inputs] if check_inputs is None else others
        again = partial(_trace_function, func, strict=strict, out_of_place=_force_outplace)
        comparison = _Checks(compared if check_trace else [], check_shapes, check_tolerance)
        return comparison.run(func, again(inputs), inputs, again)


def _trace_halves(
    func: Callable[..., object],
    given: tuple[object, Mapping[str, object] | None, object],
    options: Mapping[str, object],
    stores: bool,
) -> object:
    """A trace that is made on float32 tensors instead of halves.

    Args:
        given: the examples by position and by keyword, and those to check the trace with.
        options: those of `trace`.
        stores: is a traced module to keep the examples?
    """
    if options["level"] != "python":
        raise ValueError("halves_as_float: a trace at the dispatcher holds for dtypes like those of its examples")
    positional, by_keyword, compared = given
    module = _module_of(func)
    if by_keyword is None:
        arguments, _ = named_arguments(func if module is None else module.forward, _as_tuple(positional), {})
        examples = dict(arguments)
    else:
        examples = dict(by_keyword)

    def traced(floats: Floats) -> object:
        keywords, checks = floats(by_keyword, ""), floats(compared, "")
        return _trace(func, floats(positional, ""), check_inputs=checks, example_kwarg_inputs=keywords, **options)

    made = trace_of_halves(traced, module, examples)
    if stores and isinstance(made, TopLevelTracedModule):
        inputs = by_keyword if by_keyword is not None else positional
        store_inputs(made, {"forward": inputs}, by_keyword=by_keyword is not None)
    return made


class _Checks(NamedTuple):
    """What a trace is compared with.

    Attributes:
        compared: the inputs to run and trace the function again with.
        shapes: try other sizes, too.
    """

    compared: Sequence[Inputs]
    shapes: bool
    tolerance: float

    def run(self, function: Any, made: Any, inputs: Inputs, again: Callable[[Any], object]) -> Any:
        """Compare a trace with the function; gives the trace."""
        for arguments in self.compared:
            check_trace_of(function, made, arguments, again, self.tolerance)
        if self.shapes:
            check_shapes_of(function, made, inputs, again, self.tolerance)
        return made


def _module_of(func: Any) -> torch.nn.Module | None:
    """The module whose `forward` is to be traced; None for a function.

    Raises:
        AttributeError: for another method of a module.
    """
    if isinstance(func, torch.nn.Module):
        return func
    owner = getattr(func, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return None
    if func.__name__ != "forward":
        raise AttributeError("trace doesn't support compiling individual module's functions.\nPlease use trace_module")
    return owner


def _by_keyword(given: object) -> dict[str, Any]:
    """The example inputs where there are none by position."""
    if not isinstance(given, Mapping):
        raise RuntimeError("without example_inputs, example_kwarg_inputs should be a dict: there must be an example")
    return dict(given)


def _unchanged(inputs: object) -> Any:
    return inputs


@checks_keywords
def trace_module(
    mod: torch.nn.Module,
    inputs: Mapping[str, object],
    optimize: object = None,
    check_trace: bool = True,
    check_inputs: Sequence[Mapping[str, Any]] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: object = None,
    _compilation_unit: object = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: object = True,
    check_shapes: bool = False,
    level: str = "python",
    **options: Any,
) -> Any:
    """Trace several methods of a module: a module with these methods, sharing the state.

    Args:
        inputs: the example inputs by the name of the method; see `trace`. `forward` is traced with the hooks of the
            module.
        example_inputs_is_kwarg: the inputs of each method are dicts of arguments by keyword.
        check_shapes, level, options: as in `trace`.

    Raises:
        AttributeError: where `mod` is no module or `inputs` no dict.
        ValueError: where a module has backward hooks.
        RuntimeError, TracingCheckError, NameError: as `trace` does.
    """
    if not switches.current().enabled:
        return mod
    if not isinstance(mod, torch.nn.Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    if _is_dispatched(level, options):
        given = {n: ((), i) if example_inputs_is_kwarg else (_as_tuple(i), {}) for n, i in inputs.items()}
        return trace_methods(mod, given, DispatcherOptions(**options))
    made = _trace_methods(mod, inputs, strict, _force_outplace, example_inputs_is_kwarg)
    by_keyword = example_inputs_is_kwarg
    as_inputs = _unchanged if by_keyword else _as_tuple
    if _store_inputs:
        store_inputs(made, inputs, by_keyword=by_keyword)
    for name in inputs:
        again = partial(_again, mod, name, strict, _force_outplace, by_keyword)
        function = mod if name == "forward" else getattr(mod, name)
        compared = [inputs] if check_inputs is None else check_inputs
        checks = _Checks([as_inputs(i[name]) for i in compared] if check_trace else [], check_shapes, check_tolerance)
        checks.run(function, made._jitlite_method(name), as_inputs(inputs[name]), again)
    return made


def _again(
    module: torch.nn.Module, name: str, strict: bool, out_of_place: bool, by_keyword: bool, copies: object
) -> Any:
    """Another trace of one method."""
    return _trace_methods(module, {name: copies}, strict, out_of_place, by_keyword)._jitlite_method(name)


def trace_graph(
    f: Any,
    args: object = (),
    kwargs: Mapping[str, Any] | None = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
) -> tuple[Any, ...]:
    """The graph of a function or module, whose parameters and buffers are inputs of it, and the result.

    With `return_inputs`, also copies of the arguments as they were before.

    Raises:
        RuntimeError: as `trace` does.
    """
    arguments = args if isinstance(args, tuple) else (args,)
    before = copied(arguments)
    tracer = Tracer(strict=strict, out_of_place=_force_outplace)
    given = [tracer.add_input(f"input_{i}", a) for i, a in enumerate(arguments)]
    if isinstance(f, torch.nn.Module):
        for name, tensor in f.state_dict(keep_vars=True).items():
            if tracer.known(tensor) is None:
                tracer.bind(tensor, tracer.graph.add_input(name=name.replace(".", "_")))
    tracer.generator.own.watch(f)
    with recording(tracer):
        result = f(*given, **(kwargs or {}))
    tracer.finish(result)
    drop_unused(tracer.graph)
    run_passes(tracer.graph, "normalize_ops,dce")
    return (tracer.graph, result, before) if return_inputs else (tracer.graph, result)


_trace: Callable[..., object] = trace


# -- making them


def _is_dispatched(level: str, options: Mapping[str, object]) -> bool:
    if level not in ("python", "dispatcher"):
        raise ValueError(f"level is 'python' or 'dispatcher', not {level!r}")
    if options and level == "python":
        _refuse_option(next(iter(options)))
    return level == "dispatcher"


def _refuse_option(name: str) -> NoReturn:
    if name in DispatcherOptions.__annotations__:
        raise TypeError(f"{name} is an option of traces with level='dispatcher'")
    raise unexpected_keyword(trace, name)


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    is_one = isinstance(inputs, torch.Tensor | dict) or fields_of(inputs) is not None
    return (inputs,) if is_one else tuple(inputs)


def _trace_function(func: Callable[..., object], inputs: Inputs, strict: bool, out_of_place: bool) -> TracedFunction:
    tracer = Tracer(strict=strict, out_of_place=out_of_place)
    name = getattr(func, "__name__", type(func).__name__).replace("<lambda>", "lambda")
    parameters = [] if isinstance(func, ScriptFunction) else argument_names(func)
    schema = _record(tracer, func, name, parameters, inputs)
    return TracedFunction(Function(name, schema=schema, graph=tracer.graph, engine=ENGINE), func)


def _trace_methods(
    module: torch.nn.Module, inputs: Mapping[str, object], strict: bool, out_of_place: bool, by_keyword: bool
) -> Any:
    with with_converted_submodules(module):
        return _trace_methods_of(module, inputs, strict, out_of_place, by_keyword)


def _trace_methods_of(
    module: torch.nn.Module, inputs: Mapping[str, Any], strict: bool, out_of_place: bool, by_keyword: bool
) -> Any:
    types: dict[int, ClassType] = {}
    owner = traced_type(module, types)
    add_exported(module, types, inputs)
    made = traced_copy(module, types, {})
    tensors, modules = paths(module)
    for name, given in inputs.items():
        function = module if name == "forward" else getattr(module, name)
        objects = bound_objects(modules, module)
        tracer = Tracer(owner, tensors, modules, objects, strict=strict, out_of_place=out_of_place)
        names = argument_names(getattr(module, name))
        arguments: Inputs = given if by_keyword else _as_tuple(given)
        if isinstance(arguments, Mapping):
            _check_keywords(arguments, names)
        schema = _record(tracer, function, name, names, arguments, owner)
        qualified = f"{owner.qualified_name}.{name}"
        owner.methods[name] = Function(name, qualified_name=qualified, schema=schema, graph=tracer.graph, engine=ENGINE)
    assert vars(made)[CLASS_TYPE] is owner
    finish_module(made)
    note_modes(made, module)
    return made


def _check_keywords(given: Mapping[str, object], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise NameError(
                f"'{name}' is not in forward() method's arguments,\nvalid arguments name are [{','.join(names)}]"
            )


def _input_names(parameters: Sequence[str], inputs: Inputs) -> list[str]:
    """The names of the inputs: those of the parameters, as far as these are known."""
    if isinstance(inputs, Mapping):
        return [n for n in parameters if n in inputs] or list(inputs)
    known = len(parameters) >= len(inputs)
    return list(parameters[: len(inputs)]) if known else [f"argument_{i}" for i in range(len(inputs))]


def _record(
    tracer: Tracer,
    func: Callable[..., object],
    name: str,
    parameters: Sequence[str],
    inputs: Inputs,
    owner: ClassType | None = None,
) -> Any:
    """Call the function with the inputs and record it; gives the schema of what is recorded."""
    declare_dataclasses(inputs)
    names = _input_names(parameters, inputs)
    given = [inputs[n] for n in names] if isinstance(inputs, Mapping) else inputs
    made = [tracer.add_input(n, a) for n, a in zip(names, given, strict=True)]
    tracer.generator.own.watch(func)
    with recording(tracer):
        result = func(**dict(zip(names, made, strict=True))) if isinstance(inputs, Mapping) else func(*made)
    declare_dataclasses(result)
    returned = tracer.finish(result)
    drop_unused(tracer.graph)
    for graph in [*tracer.make_methods(), tracer.graph]:
        run_passes(graph, "normalize_ops,dce")
    first = [] if owner is None else [Argument("self", owner)]
    values = tracer.graph.inputs[len(first) :]
    formals = [Argument(n, value.type) for n, value in zip(names, values, strict=True)]
    return function_schema(name, [*first, *formals], [returned])


def argument_names(function: Callable[..., object]) -> list[str]:
    """The names of a function's ordinary parameters."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
