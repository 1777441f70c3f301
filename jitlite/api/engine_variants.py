"""Variants: the graph of a model for one kind of arguments, with groups that an engine runs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch

from jitlite.analysis import effects
from jitlite.api.trace import trace
from jitlite.base.records import Record
from jitlite.base.source import Error
from jitlite.engines.engine import Engine, EngineRefusal, OperatorSet
from jitlite.engines.group_cache import GroupCache
from jitlite.engines.running import GroupUse
from jitlite.frontend.tracing.trace_warnings import TracerWarning
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node
from jitlite.ir.ops import Effect
from jitlite.ir.regions import ENGINE_GROUP
from jitlite.ir.types import TensorType
from jitlite.objects.function import ScriptFunction, function_of_graph
from jitlite.objects.module import ScriptModule
from jitlite.passes.cluster import cluster
from jitlite.passes.example_facts import facts_of
from jitlite.passes.registry import run
from jitlite.passes.to_core_aten import lower_to_core_aten


class Limits(Record, frozen=False):
    """What an engine may be asked for.

    Attributes:
        engine: who runs groups.
        dynamic_shapes: the sizes that vary: all, none, or dimensions by the name of the argument.
        allow, deny: kinds of nodes, or single ones (`aten::conv2d@3`); `allow=None` allows all.
    """

    engine: Engine
    dynamic_shapes: Mapping[str, Sequence[int]] | bool
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

    def refusal(self, names: Sequence[str]) -> str | None:
        """Why a node of these names may not be in a group, as far as it is a matter of names."""
        if self.allow is not None and not set(names) & set(self.allow):
            return "it is not among those that are allowed"
        return "it is denied" if set(names) & set(self.deny) else None


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
    return any(isinstance(v.type, TensorType) for v in node.outputs) and node.kind not in (
        "prim::GetAttr",
        "prim::Constant",
    )


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
        except (EngineRefusal, Error, RuntimeError, ValueError, TypeError) as why:
            return f"{type(why).__name__}: {str(why).strip().splitlines()[0]}"

    def _of_script(self, args: Sequence[Any]) -> Variant:
        """The graph of the script, as it is for all arguments."""
        script = self.original
        owner: tuple[Any, ...] = ()
        if isinstance(script, ScriptModule):
            script, owner = script.forward, (script,)
        if not isinstance(script, ScriptFunction):
            raise EngineRefusal("it is no function of one graph")
        graph = script.graph.copy()
        run(graph, "inline")
        left = self._group(graph)
        made = function_of_graph(script.name, graph)
        return self._variant(graph, lambda *given: made(*owner, *given), left)

    def _of_trace(self, args: Sequence[Any]) -> Variant:
        """What the model does with these arguments, recorded and written with core ATen."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TracerWarning)
            traced = trace(
                self.original, tuple(args), check_trace=False, level="dispatcher", functional=True,
                dynamic_shapes=self.limits.dynamic_shapes,
            )  # fmt: skip
        module = traced if isinstance(traced, torch.nn.Module) else None
        function = traced if module is None else traced.forward
        graph = function.graph.copy()
        with torch.no_grad():
            run(graph, "inline")
            lower_to_core_aten(graph, args, module=module, strict=False)
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


def _numbered(graph: Graph) -> dict[Node, tuple[str, str]]:
    """The two names of each node: its kind, and its kind with its number among those of the kind."""
    seen: Counter[str] = Counter()
    names = {}
    for node in graph.all_nodes():
        seen[node.kind] += 1
        names[node] = node.kind, f"{node.kind}@{seen[node.kind]}"
    return names


def _has_effects(graph: Graph) -> bool:
    """May a run that raises have done what can be seen: printed, drawn numbers, written what others have?"""
    return any(effects.effect_of(node) in _SEEN and node.kind not in _UNSEEN for node in graph.all_nodes())


_SEEN = (Effect.SIDE, Effect.RANDOM, Effect.WRITE)
_UNSEEN = (ENGINE_GROUP, "prim::RaiseException")
"""Kinds with an effect that nobody sees before the call has ended."""


def _rank_and_dtype(t: TensorType) -> T.Type:
    sizes = None if t.sizes is None else [None] * len(t.sizes)
    return TensorType.of(t.dtype, sizes, None, t.device)
