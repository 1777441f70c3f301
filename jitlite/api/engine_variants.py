"""Variants: the graph of a model for one kind of arguments, with groups that an engine runs."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import re
import types
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from jitlite.analysis import effects
from jitlite.analysis.alias import AliasDb
from jitlite.api.script import script
from jitlite.api.trace import trace
from jitlite.base import options
from jitlite.base.records import Record
from jitlite.base.source import did_you_mean
from jitlite.engines.engine import Engine, EngineRefusal, OperatorSet
from jitlite.engines.group_cache import GroupCache
from jitlite.engines.running import GroupUse
from jitlite.frontend.tracing.trace_warnings import TracerWarning
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Effect
from jitlite.ir.regions import ENGINE_GROUP
from jitlite.ir.types import TensorType
from jitlite.objects.function import ScriptFunction, function_of_graph
from jitlite.objects.module import ScriptModule
from jitlite.passes.cluster import cluster
from jitlite.passes.example_facts import facts_of
from jitlite.passes.registry import run
from jitlite.passes.to_core_aten import lower_to_core_aten

DynamicShapes = Mapping[str, Sequence[int]] | bool


class Limits(Record, frozen=False):
    """What an engine may be asked for.

    Attributes:
        engine: who runs groups.
        dynamic_shapes: the sizes that vary: all, none, or dimensions by the name of the argument.
        allow, deny: kinds of nodes, or single ones (`aten::conv2d@3`); `allow=None` allows all.
    """

    engine: Engine
    dynamic_shapes: DynamicShapes
    allow: tuple[str, ...] | None
    deny: tuple[str, ...]

    def fixed_sizes(self, name: str, tensor: torch.Tensor) -> Hashable:
        """The sizes of an argument that a variant depends on; None for one that varies, and is not 0 or 1.

        Those are special to torch: a size of 1 is broadcast, strides of empty tensors do not count.
        """
        varies = self._varying(name, tensor.dim())
        return tuple(None if d in varies and n > 1 else n for d, n in enumerate(tensor.shape))

    def _varying(self, name: str, rank: int) -> set[int]:
        if isinstance(self.dynamic_shapes, Mapping):
            return {d % max(rank, 1) for d in self.dynamic_shapes.get(name, ())}
        return set(range(rank)) if self.dynamic_shapes else set()

    def check(self, names: Sequence[str], examples: Sequence[object]) -> None:
        """See that what is said fits the model.

        Raises:
            ValueError: a name is no parameter's, a dimension is none of its argument, or a kind is written otherwise.
        """
        for kind in (*(self.allow or ()), *self.deny):
            if not re.fullmatch(r"\w+::\w+(@\d+)?", kind):
                raise ValueError(
                    f"{kind!r} is no kind of node, such as 'aten::conv2d', nor one of them, 'aten::conv2d@3'"
                )
        given = dict(zip(names, examples, strict=False))
        if isinstance(self.dynamic_shapes, Mapping):
            for name, dims in self.dynamic_shapes.items():
                _check_dimensions(name, dims, names, given.get(name))

    def refusal(self, names: Sequence[str]) -> str | None:
        """Why a node of these names may not be in a group, as far as it is a matter of names."""
        if self.allow is not None and not set(names) & set(self.allow):
            return "it is not among those that are allowed"
        return "it is denied" if set(names) & set(self.deny) else None


def _check_dimensions(name: str, dims: Sequence[int], names: Sequence[str], value: object) -> None:
    if name not in names:
        hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
        raise ValueError(f"dynamic_shapes: there is no parameter {name!r}; {hint}")
    rank = value.dim() if isinstance(value, torch.Tensor) else 0
    if not all(-rank <= d < rank for d in dims):
        raise ValueError(f"dynamic_shapes: {name!r} has no dimensions {list(dims)}")


class Variant(Record, frozen=False):
    """The model for one kind of arguments.

    Attributes:
        run: takes the arguments.
        graph: what is run, with its groups.
        has_effects: may somebody see that it has begun, when it raises?
        left: why nodes are in no group.
        uses: the groups.
    """

    run: Callable[..., Any]
    graph: Graph
    has_effects: bool
    left: dict[Node, str]
    uses: list[GroupUse]
    calls: int = 0

    def explanation(self) -> Iterator[str]:
        """What is in groups, what is not and why, and what calls did."""
        groups = [node.attributes["Subgraph"] for node in self.graph.all_nodes() if node.kind == ENGINE_GROUP]
        inside = sum(_computes(node) for graph in groups for node in graph.all_nodes())
        outside = sum(_computes(node) for node in self.left)
        share = f"{inside} of {inside + outside} operators on tensors in {len(groups)} groups"
        yield f"a variant, {self.calls} calls: {share}"
        for use in self.uses:
            state = f"run as a graph, for {use.failure.reason}" if use.failure is not None else f"{use.runs} runs"
            yield f"  {use.name}: {state}"
        for (kind, why), times in Counter((n.kind, why) for n, why in self.left.items()).most_common():
            yield f"  left out: {kind}, {times} time{'s'[: times != 1]}: {why}"


def _computes(node: Node) -> bool:
    return any(isinstance(v.type, TensorType) for v in node.outputs) and not _is_from_outside(node)


class VariantMaker(Record):
    """Makes the variants of one model."""

    original: Any
    limits: Limits
    cache: GroupCache

    def make(self, args: Sequence[Any]) -> Variant | str:
        """The variant for arguments like these; why there is none."""
        try:
            if self.limits.engine.operators is OperatorSet.ANY:
                return self._of_script(args)
            return self._of_trace(args)
        except Exception as why:  # of the model, of the recording, of the engine's `supports`
            if options.current().engine_errors == "raise" and not isinstance(why, EngineRefusal):
                raise
            lines = str(why).strip().splitlines() or [""]
            return lines[0] if isinstance(why, EngineRefusal) else f"{type(why).__name__}: {lines[0]}"

    def _of_script(self, args: Sequence[object]) -> Variant:
        """The graph of the script, as it is for all arguments."""
        original = self.original
        owner: tuple[object, ...] = ()
        if isinstance(original, torch.nn.Module):
            module = original if isinstance(original, ScriptModule) else script(original)
            original, owner = module.forward, (module,)
        if not isinstance(original, ScriptFunction):
            raise EngineRefusal("it is no function of one graph")
        graph = original.graph.copy()
        run(graph, "inline")
        left = self._group(graph)
        made = function_of_graph(original.name, graph)
        return self._variant(graph, lambda *given: made(*owner, *given), left)

    def _of_trace(self, args: Sequence[object]) -> Variant:
        """What the model does with these arguments, recorded on fake tensors and written with core ATen.

        A copy of the modules is recorded, with the same parameters: others may call the model meanwhile.
        """
        recorded, results = _RecordedModel.of(self.original), list[object]()
        traced = recorded.trace(args, self.limits.dynamic_shapes, results)
        if not all(map(_is_plain_result, results)):
            raise EngineRefusal("it gives something else than tensors, numbers, and tuples, lists and dicts of these")
        module = traced if isinstance(traced, torch.nn.Module) else None
        function = traced if module is None else traced.forward
        graph = function.graph.copy()
        with torch.no_grad():
            run(graph, "inline")
            _decide_training(graph)
            if _shares_memory(graph):
                raise EngineRefusal("a result shares memory with an argument, a parameter or another result")
            lower_to_core_aten(graph, args, module=module, strict=False)
            if _has_effects(graph):
                raise EngineRefusal("it writes what it is given, draws random numbers, or has other effects")
            for value, t in facts_of(graph, args, module).items():
                value.type = _rank_and_dtype(t) if isinstance(t, TensorType) else value.type
        left = self._group(graph)
        made = function_of_graph(function.name, graph)
        owner = () if module is None else (module,)
        return self._variant(graph, lambda *given: made(*owner, *given), left)

    def _group(self, graph: Graph) -> dict[Node, str]:
        numbered = _numbered(graph)
        engine, limits = self.limits.engine, self.limits

        def supports(node: Node) -> str | None:
            return limits.refusal(numbered[node]) or engine.supports(node)

        return cluster(graph, supports, least=engine.least, errors_may_swap=not _has_effects(graph)).left

    def _variant(self, graph: Graph, run: Callable[..., Any], left: dict[Node, str]) -> Variant:
        uses = []
        for i, node in enumerate(n for n in graph.all_nodes() if n.kind == ENGINE_GROUP):
            place = "" if node.range is None else f", from {node.range.location()} on"
            uses.append(GroupUse(self.cache, f"group {i}{place}"))
            node.attributes["engine"] = uses[-1]
        return Variant(run, graph, _has_effects(graph), left, uses)


class _RecordedModel(Record):
    """What is recorded of a model: a copy whose modules share parameters and buffers with it, or the function."""

    target: Callable[..., object]

    @staticmethod
    def of(original: Callable[..., object]) -> _RecordedModel:
        if isinstance(original, ScriptModule):
            return _RecordedModel(_Calls(original))
        if not isinstance(original, torch.nn.Module):
            return _RecordedModel(original)
        tensors = {id(t): t for t in (*original.parameters(), *original.buffers())}
        return _RecordedModel(copy.deepcopy(original, tensors))

    def trace(
        self, args: Sequence[object], dynamic_shapes: Mapping[str, Sequence[int]] | bool, results: list[object]
    ) -> Any:
        """Record it; what it gives is added to `results`.

        Raises:
            EngineRefusal: it prints.
        """
        printed = io.StringIO()
        if isinstance(self.target, torch.nn.Module):
            self.target.register_forward_hook(lambda module, given, result: results.append(result))
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore", TracerWarning)
            found = trace(
                self.target, tuple(args), check_trace=False, level="dispatcher", functional=True, fake=True,
                dynamic_shapes=dynamic_shapes,
            )  # fmt: skip
        if printed.getvalue():
            raise EngineRefusal("it prints")
        return found


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


def _is_from_outside(node: Node) -> bool:
    return node.kind in ("prim::GetAttr", "prim::Constant")


def _shares_memory(graph: Graph) -> bool:
    """May a result share memory with what comes from outside, or with another result?"""
    db = AliasDb(graph)
    outside = [*graph.inputs] + [n.output for n in graph.all_nodes() if _is_from_outside(n)]
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


def _numbered(graph: Graph) -> dict[Node, tuple[str, str]]:
    """The two names of each node: its kind, and its kind with its number among those of the kind."""
    seen: Counter[str] = Counter()
    names = {}
    for node in graph.all_nodes():
        seen[node.kind] += 1
        names[node] = node.kind, f"{node.kind}@{seen[node.kind]}"
    return names


def _decide_training(graph: Graph) -> None:
    """Let all modules be in evaluation mode: calls run the model as it was unless they are."""
    for node in list(graph.all_nodes()):
        if node.kind == "prim::GetAttr" and node.attributes.get("name") == "training" and node.output.type is T.BOOL:
            with graph.inserting_before(node):
                node.output.replace_all_uses_with(graph.insert_constant(False))
            node.destroy()
    run(graph, "constant_propagation,dce")


def _has_effects(graph: Graph) -> bool:
    """May a run that raises have done what can be seen: printed, drawn numbers, written what others have?"""
    return any(effects.effect_of(node) in _SEEN and node.kind not in _UNSEEN for node in graph.all_nodes())


_SEEN = (Effect.SIDE, Effect.RANDOM, Effect.WRITE)
_UNSEEN = (ENGINE_GROUP, "prim::RaiseException")
"""Kinds with an effect that nobody sees before the call has ended."""


def _rank_and_dtype(t: TensorType) -> T.Type:
    sizes = None if t.sizes is None else [None] * len(t.sizes)
    return TensorType.of(t.dtype, sizes, None, t.device)
