"""A model for one kind of arguments as one graph: recorded on fake tensors, without writes, written with core ATen."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from jitlite.analysis import effects
from jitlite.analysis.alias import AliasDb
from jitlite.api.script import script
from jitlite.api.script_graphs import decide_by_arguments, decide_by_types, sink_unset
from jitlite.api.trace import trace
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.records import Record
from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.engines.engine import EngineRefusal
from jitlite.export.to_fx.fx_graph import to_fx
from jitlite.frontend.tracing.trace_warnings import TracerWarning
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Effect
from jitlite.ir.regions import ENGINE_GROUP
from jitlite.ir.types import TensorType
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import ScriptModule
from jitlite.passes.example_facts import facts_of
from jitlite.passes.registry import run
from jitlite.passes.to_core_aten import CoreAtenReport, lower_to_core_aten

ExampleInputs = torch.Tensor | Sequence[object]
"""Example arguments: a tuple of them, or a single tensor."""

DynamicShapes = Mapping[str, Sequence[int] | Mapping[int, str]] | bool
"""Which sizes may vary: all, none, or dimensions by the name of the argument; these may have names."""


def fixed_sizes(dynamic_shapes: DynamicShapes, name: str, tensor: torch.Tensor) -> tuple[int | None, ...]:
    """The sizes of an argument; None for one that varies, and is not 0 or 1.

    Those are special to torch: a size of 1 is broadcast, strides of empty tensors do not count.
    """
    varies, rank = set(range(tensor.dim())) if dynamic_shapes else set(), max(tensor.dim(), 1)
    if isinstance(dynamic_shapes, Mapping):
        varies = {d % rank for d in dynamic_shapes.get(name, ())}
    return tuple(None if d in varies and n > 1 else n for d, n in enumerate(tensor.shape))


def _fixed_type(dynamic_shapes: DynamicShapes, name: str, value: object) -> TensorType | None:
    """The type of an argument that is a tensor, with the sizes that do not vary."""
    if not isinstance(value, torch.Tensor):
        return None
    return TensorType.of(value.dtype, fixed_sizes(dynamic_shapes, name, value), None, value.device)


def check_dynamic_shapes(dynamic_shapes: DynamicShapes, names: Sequence[str], examples: Sequence[object]) -> None:
    """See that what is said of sizes fits the model.

    Raises:
        TypeError: it is written in another form, as that of torch.export.
        ValueError: a name is no parameter's, or a dimension is none of its argument.
    """
    given = dict(zip(names, examples, strict=False))
    if isinstance(dynamic_shapes, bool):
        return
    if not isinstance(dynamic_shapes, Mapping):
        raise TypeError(f"dynamic_shapes: found {type(dynamic_shapes).__name__}; {_FORM}")
    for name, dims in dynamic_shapes.items():
        _check_dimensions(name, dims, names, given.get(name))


_FORM = "expected True, or dimensions by the name of the argument, {'x': [0]} or {'x': {0: 'batch'}}"


def _are_dimensions(dims: object) -> bool:
    if isinstance(dims, Mapping) and any(type(called) is not str for called in dims.values()):
        return False
    return isinstance(dims, Sequence | Mapping) and all(type(d) is int for d in dims)


def _check_dimensions(name: str, dims: Sequence[int] | Mapping[int, str], names: Sequence[str], value: object) -> None:
    if not _are_dimensions(dims):
        raise TypeError(f"dynamic_shapes: found {dims!r} for {name!r}; {_FORM}")
    if name not in names:
        hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
        raise ValueError(f"dynamic_shapes: there is no parameter {name!r}; {hint}")
    rank = value.dim() if isinstance(value, torch.Tensor) else 0
    if not all(-rank <= d < rank for d in dims):
        raise ValueError(f"dynamic_shapes: {name!r} has no dimensions {list(dims)}")


class CoreGraph(Record):
    """What a model does with some arguments.

    Attributes:
        name: of the function.
        graph: its nodes know rank and dtype of their results.
        owner: the module whose attributes the graph reads, if it is that of a method; its first input then.
        report: what lowering did.
    """

    name: str
    graph: Graph
    owner: torch.nn.Module | None
    report: CoreAtenReport


def core_graph_of(
    original: Callable[..., object],
    args: Sequence[object],
    dynamic_shapes: DynamicShapes,
    *,
    results_are_used_alone: bool = False,
) -> CoreGraph:
    """Record a model, and write it with core ATen.

    A copy of the modules is recorded, with the same parameters: others may call the model meanwhile.

    Args:
        original: the model.
        args: what it is called with.
        dynamic_shapes: which sizes may vary.
        results_are_used_alone: may a result share memory with an argument or another result? It may not where
            somebody can write to both.

    Raises:
        EngineRefusal: the model does what cannot be recorded.
        Exception: what the model raises for these arguments.
    """
    traced = _traced(original, args, dynamic_shapes)
    module = traced if isinstance(traced, torch.nn.Module) else None
    function = traced if module is None else traced.forward
    graph = function.graph.copy()
    with torch.no_grad():
        run(graph, "inline")
        _decide_training(graph)
        if isinstance(traced, ScriptModule | ScriptFunction):
            named = zip(names_of(original), args, strict=False)
            types = [_fixed_type(dynamic_shapes, name, value) for name, value in named]
            decide_by_arguments(graph, args, types, module)
        if not results_are_used_alone and _shares_memory(graph):
            raise EngineRefusal("a result shares memory with an argument, a parameter or another result")
        report = lower_to_core_aten(graph, args, module=module, strict=False)
        if isinstance(traced, ScriptModule | ScriptFunction):
            decide_by_types(graph, types, module)
            sink_unset(graph)
        if has_effects(graph):
            raise EngineRefusal(
                f"it writes what it is given, draws random numbers, or has other effects: {_seen_in(graph)}"
            )
        for value, t in facts_of(graph, args, module).items():
            value.type = _rank_and_dtype(t, value.type)
    return CoreGraph(function.name, graph, module, report)


def _traced(original: Callable[..., object], args: Sequence[object], dynamic_shapes: DynamicShapes) -> Any:
    """Record a model on fake tensors.

    Of a script, each operator is recorded that it comes to for these arguments, if no branch or loop depends on what is
    in tensors. Else it is the script, and of a module in Python one that is made of it.

    Raises:
        EngineRefusal: it prints, or gives other objects than tensors, numbers and containers of these.
    """
    target = original
    if isinstance(original, ScriptModule | ScriptFunction):
        try:
            return _of_script(original, args, dynamic_shapes)
        except EngineRefusal:
            raise
        except Exception:  # control flow of tensors, among much else: what is wrong is told by the other way
            target = _Calls(original) if isinstance(original, ScriptModule) else original
    elif isinstance(original, torch.nn.Module):
        tensors = {id(t): t for t in (*original.parameters(), *original.buffers())}
        target = copy.deepcopy(original, tensors)
    try:
        return _ModelRecording(target, names_of(original)).trace(args, dynamic_shapes)
    except CompileError as why:
        scripted = _with_control_flow(original) if why.code == NO_TRACE.code else None
        if scripted is None:
            raise
        return scripted


def _with_control_flow(original: Callable[..., object]) -> ScriptModule | ScriptFunction | None:
    """The script of a model that cannot be recorded; None if none can be made of it."""
    if isinstance(original, ScriptModule | ScriptFunction):
        return original
    with contextlib.suppress(CompileError, TypeError):
        found = script(original)
        return found if isinstance(found, ScriptModule | ScriptFunction) else None
    return None


def _of_script(original: ScriptModule | ScriptFunction, args: Sequence[object], dynamic_shapes: DynamicShapes) -> Any:
    """Record the operators that a script comes to, with their lines in the script."""
    module = to_fx(original)
    found = _ModelRecording(module, names_of(original)).trace(args, dynamic_shapes)
    places = {node.name: node.meta.get("source_range") for node in module.graph.nodes}
    graph: Graph = getattr(found, "forward", found).graph
    for node in graph.all_nodes():
        place: SourceRange | None = node.range
        if place is not None and (place.filename or "").startswith("<eval_with_key>"):
            line = place.source.line_text(place.source.line_index(place.start))
            node.range = places.get(line.partition("=")[0].partition(":")[0].strip())
            node.call_stack = ()
    return found


def names_of(model: Callable[..., object]) -> list[str]:
    """The names of the parameters of a model."""
    return list(parameters_of(model))


def parameters_of(model: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a model, by name."""
    function = model.forward if isinstance(model, torch.nn.Module) else model
    return inspect.signature(function).parameters


class _ModelRecording(Record):
    """What is recorded of a model, and the names that the model has for the arguments."""

    target: Callable[..., object]
    names: Sequence[str]

    def trace(self, args: Sequence[object], dynamic_shapes: DynamicShapes) -> Any:
        """Record it.

        Raises:
            EngineRefusal: it prints, assigns attributes, or gives other objects.
        """
        printed, results = io.StringIO(), list[object]()
        before, after = dict[str, object](), dict[str, object]()
        if isinstance(self.target, torch.nn.Module):
            names = _tensor_names(self.target)
            self.target.register_forward_pre_hook(lambda module, given: before.update(_attributes(module, names)))
            self.target.register_forward_hook(lambda module, given, result: results.append(result))
            self.target.register_forward_hook(lambda module, given, result: after.update(_attributes(module, names)))
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore", TracerWarning)
            found = trace(
                self.target, tuple(args), check_trace=False, level="dispatcher", functional=True, fake=True,
                dynamic_shapes=self._varying(dynamic_shapes),
            )  # fmt: skip
        if printed.getvalue():
            raise EngineRefusal("it prints")
        if assigned := sorted(n for n in before.keys() | after.keys() if not _is_same(before.get(n), after.get(n))):
            raise EngineRefusal(f"it changes {', '.join(assigned)}, which later calls would have to see")
        if not all(map(_is_plain_result, results)):
            raise EngineRefusal("it gives something else than tensors, numbers, and tuples, lists and dicts of these")
        return found

    def _varying(self, dynamic_shapes: DynamicShapes) -> dict[str, list[int]] | bool:
        """The dimensions that vary, by the names of the target's parameters."""
        if not isinstance(dynamic_shapes, Mapping):
            return dynamic_shapes
        own = dict(zip(self.names, names_of(self.target), strict=False))
        return {own[name]: list(dims) for name, dims in dynamic_shapes.items()}


def _tensor_names(module: torch.nn.Module) -> dict[int, str]:
    """The paths of parameters and buffers, by identity."""
    found = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {id(tensor): name for name, tensor in reversed(found)}


def _attributes(module: torch.nn.Module, names: Mapping[int, str]) -> dict[str, object]:
    """What a module and those in it have, by path: parameters, buffers, and what else its code may assign.

    A layer may keep its parameters in a list as well. While it is recorded they are fake tensors: those in containers
    are known by their names, so that the list is the same with either.

    Args:
        names: of the tensors that the module had before it was recorded.
    """
    known, found = {**names, **_tensor_names(module)}, dict[str, object]()
    for path, part in module.named_modules():
        own = {n: v for n, v in vars(part).items() if not (n.startswith("_") and n in _BASE_ATTRIBUTES)}
        for name, value in {**own, **part._parameters, **part._buffers, **part._modules}.items():
            is_container = isinstance(value, list | tuple | dict)
            found[f"{path}.{name}" if path else name] = _parts_of(value, known) if is_container else value
    return found


_BASE_ATTRIBUTES = frozenset(vars(torch.nn.Module()))


def _parts_of(value: object, names: Mapping[int, str]) -> object:
    """What is in a container now; in place of a tensor that has a name, or a weak reference to one, that name."""
    if isinstance(value, dict):
        return [*value, *(_parts_of(v, names) for v in value.values())]
    if isinstance(value, list | tuple):
        return [_parts_of(v, names) for v in value]
    target = value() if isinstance(value, weakref.ref) else value
    return names.get(id(target), value)


def _is_same(before: object, after: object) -> bool:
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_is_same, before, after))
    return before is after or (type(before) is type(after) in (int, float, str) and before == after)


class _Calls(torch.nn.Module):
    """A module that calls a script: scripts themselves are not recorded."""

    def __init__(self, script: ScriptModule) -> None:
        super().__init__()
        self.script = script
        self.train(script.training)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(script.forward).parameters.values()

        def forward(self: _Calls, *args: object) -> object:
            return self.script(*args)

        forward.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
        vars(self)["forward"] = types.MethodType(forward, self)


def _is_plain_result(value: object) -> bool:
    if type(value) in (tuple, list):
        return all(map(_is_plain_result, cast(Sequence[object], value)))
    if type(value) is dict:
        return all(map(_is_plain_result, value.values()))
    return value is None or isinstance(value, torch.Tensor) or type(value) in (bool, int, float, str)


def is_from_outside(node: Node) -> bool:
    """Is it a constant or an attribute?"""
    return node.kind in ("prim::GetAttr", "prim::Constant")


def _shares_memory(graph: Graph) -> bool:
    """May a result share memory with what comes from outside, or with another result?"""
    db = AliasDb(graph)
    outside = [*graph.inputs] + [n.output for n in graph.all_nodes() if is_from_outside(n)]
    seen = 0
    for value in outside:
        seen |= db.locations(value)
    for value in _results(graph):
        found = db.locations(value)
        if found & seen:
            return True
        seen |= found
    return False


def _results(graph: Graph) -> Iterator[Value]:
    """The tensors among what a graph gives, those in tuples and lists too."""
    waiting = list(graph.outputs)
    while waiting:
        value = waiting.pop()
        if isinstance(value.type, TensorType):
            yield value
        elif value.node.kind.endswith("Construct"):
            waiting += value.node.inputs


def _decide_training(graph: Graph) -> None:
    """Let all modules be in evaluation mode: calls run the model as it was unless they are."""
    for node in list(graph.all_nodes()):
        if node.kind == "prim::GetAttr" and node.attributes.get("name") == "training" and node.output.type is T.BOOL:
            with graph.inserting_before(node):
                node.output.replace_all_uses_with(graph.insert_constant(False))
            node.destroy()
    run(graph, "constant_propagation,dce")


def has_effects(graph: Graph) -> bool:
    """May a run that raises have done what can be seen: printed, drawn numbers, written what others have?"""
    return next(_nodes_with_effects(graph), None) is not None


def _nodes_with_effects(graph: Graph) -> Iterator[Node]:
    found = (n for n in graph.all_nodes() if effects.effect_of(n) in _SEEN and n.kind not in _UNSEEN)
    return (n for n in found if not effects.writes_nothing(n))


def _seen_in(graph: Graph) -> str:
    """The nodes with effects, and their lines."""
    found = {n: "" if n.range is None else f" ({n.range.location()})" for n in _nodes_with_effects(graph)}
    return ", ".join(dict.fromkeys(f"{node.kind}{place}" for node, place in found.items()))


_SEEN = (Effect.SIDE, Effect.RANDOM, Effect.WRITE)
_UNSEEN = (ENGINE_GROUP, "prim::RaiseException")
"""Kinds with an effect that nobody sees before the call has ended."""


def _rank_and_dtype(t: T.Type, otherwise: T.Type) -> T.Type:
    """What is known of a tensor, and of those in a tuple; of all else what was known before."""
    if isinstance(t, T.TupleType):
        return t.with_contained([_rank_and_dtype(part, part) for part in t.elements])
    if not isinstance(t, TensorType):
        return otherwise
    sizes = None if t.sizes is None else [0 if n == 0 else None for n in t.sizes]  # others may be of other calls
    return TensorType.of(t.dtype, sizes, None, t.device)
