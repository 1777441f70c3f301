"""Variants: the graph of a model for one kind of arguments, with groups that an engine runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from jitlite.api.core_graphs import (
    CoreGraph,
    DynamicShapes,
    check_dynamic_shapes,
    core_graph_of,
    fixed_sizes,
    has_effects,
    is_from_outside,
    names_of,
)
from jitlite.api.script import script
from jitlite.base import options
from jitlite.base.records import Record
from jitlite.base.source import CompileError
from jitlite.engines.engine import Engine, EngineRefusal, OperatorSet
from jitlite.engines.group_cache import INFERENCE, GroupCache
from jitlite.engines.running import GroupUse
from jitlite.ir.graph import Graph, Node
from jitlite.ir.regions import ENGINE_GROUP
from jitlite.ir.schema import Schema
from jitlite.ir.types import TensorType
from jitlite.objects.function import ScriptFunction, function_of_graph
from jitlite.objects.module import ScriptModule
from jitlite.passes.cluster import cluster
from jitlite.passes.example_facts import attribute_of
from jitlite.passes.registry import run
from jitlite.passes.shapes import refine


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

    def fixed_sizes(self, name: str, tensor: torch.Tensor) -> tuple[int | None, ...]:
        """The sizes of an argument that a variant depends on."""
        return fixed_sizes(self.dynamic_shapes, name, tensor)

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
        check_dynamic_shapes(self.dynamic_shapes, names, examples)

    def refusal(self, names: Sequence[str]) -> str | None:
        """Why a node of these names may not be in a group, as far as it is a matter of names."""
        if self.allow is not None and not set(names) & set(self.allow):
            return "it is not among those that are allowed"
        return "it is denied" if set(names) & set(self.deny) else None


class Variant(Record, frozen=False):
    """The model for one kind of arguments.

    Attributes:
        run: takes the arguments.
        name: of the function.
        owner: the module whose attributes the graph reads, if there is one.
        graph: what is run, with its groups.
        has_effects: may somebody see that it has begun, when it raises?
        left: why nodes are in no group.
        uses: the groups.
    """

    run: Callable[..., object]
    name: str
    owner: tuple[object, ...]
    graph: Graph
    has_effects: bool
    left: dict[Node, str]
    uses: list[GroupUse]
    calls: int = 0

    def explanation(self) -> Iterator[str]:
        """What is in groups, what is not and why, and what calls did."""
        groups = [node.attributes["Subgraph"] for node in groups_of(self.graph)]
        inside = sum(_computes(node) for graph in groups for node in graph.all_nodes())
        outside = sum(_computes(node) for node in self.left)
        share = f"{inside} of {inside + outside} operators on tensors in {len(groups)} groups"
        yield f"a variant, {self.calls} calls: {share}"
        for use in self.uses:
            state = f"run as a graph, for {use.failure.reason}" if use.failure is not None else f"{use.runs} runs"
            yield f"  {use.name}: {state}"
            for why, times in use.refused.copy().items():
                yield f"    refused {times} call{'s'[: times != 1]}, which ran as a graph: {why}"
        for (kind, why), times in Counter((n.kind, why) for n, why in self.left.items()).most_common():
            yield f"  left out: {kind}, {times} time{'s'[: times != 1]}: {why}"


def _computes(node: Node) -> bool:
    return any(isinstance(v.type, TensorType) for v in node.outputs) and not is_from_outside(node)


class VariantMaker(Record):
    """Makes the variants of one model."""

    original: Any
    limits: Limits
    cache: GroupCache

    def make(self, args: Sequence[Any]) -> Variant | str:
        """The variant for arguments like these; why there is none."""
        try:
            scripted = self._of_script() if self.limits.engine.operators is OperatorSet.ANY else None
            return self._of_trace(args) if scripted is None else scripted
        except Exception as why:  # of the model, of the recording, of the engine's `supports`
            if options.current().engine_errors == "raise" and not isinstance(why, EngineRefusal):
                raise
            lines = str(why).strip().splitlines() or [""]
            return lines[0] if isinstance(why, EngineRefusal) else f"{type(why).__name__}: {lines[0]}"

    def _of_script(self) -> Variant | None:
        """The graph of the script, as it is for all arguments; None where there is no script."""
        original = self.original
        owner: tuple[object, ...] = ()
        if isinstance(original, torch.nn.Module):
            try:
                module = original if isinstance(original, ScriptModule) else script(original)
            except CompileError:
                return None
            original, owner = module.forward, (module,)
        if not isinstance(original, ScriptFunction):
            return None
        graph = original.graph.copy()
        run(graph, "inline")
        return self._variant(original.name, owner, graph, original.__jitlite_function__.schema)

    def _of_trace(self, args: Sequence[object]) -> Variant:
        """What the model does with these arguments, recorded on fake tensors and written with core ATen."""
        core = core_graph_of(self.original, args, self.limits.dynamic_shapes)
        if self.limits.engine.keeps_fixed_sizes:
            self._tell_sizes(core, args)
            refine(core.graph, INFERENCE)  # groups take what other nodes give, too
        return self._variant(core.name, () if core.owner is None else (core.owner,), core.graph)

    def _tell_sizes(self, core: CoreGraph, args: Sequence[object]) -> None:
        """Have the types of arguments and attributes say the sizes that are the same in all calls of the variant."""
        inputs = list(core.graph.inputs)
        if core.owner is not None:
            owner = inputs.pop(0)
            for node in core.graph.all_nodes():
                found = attribute_of(node, owner, core.owner)
                if isinstance(found, torch.Tensor):
                    node.output.type = TensorType.of(found.dtype, found.shape, None, found.device)
        for value, name, given in zip(inputs, names_of(self.original), args, strict=False):
            if isinstance(given, torch.Tensor):
                sizes = self.limits.fixed_sizes(name, given)
                value.type = TensorType.of(given.dtype, sizes, None, given.device)

    def _group(self, graph: Graph) -> dict[Node, str]:
        numbered = _numbered(graph)
        engine, limits = self.limits.engine, self.limits

        def supports(node: Node) -> str | None:
            return limits.refusal(numbered[node]) or engine.supports(node)

        return cluster(graph, supports, least=engine.least, errors_may_swap=not has_effects(graph)).left

    def _variant(self, name: str, owner: tuple[object, ...], graph: Graph, like: Schema | None = None) -> Variant:
        left, uses = self._group(graph), []
        for i, node in enumerate(groups_of(graph)):
            place = "" if node.range is None else f", from {node.range.location()} on"
            uses.append(GroupUse(self.cache, f"group {i}{place}"))
            node.attributes["engine"] = uses[-1]
        return Variant(callable_of(name, owner, graph, like), name, owner, graph, has_effects(graph), left, uses)


def callable_of(
    name: str, owner: tuple[object, ...], graph: Graph, like: Schema | None = None
) -> Callable[..., object]:
    """Runs a graph; what it reads attributes of, if anything, is the only item of `owner`. `like` has the defaults."""
    made = function_of_graph(name, graph, like)
    return lambda *given: made(*owner, *given)


def groups_of(graph: Graph) -> list[Node]:
    """The nodes that are groups, in order."""
    return [node for node in graph.all_nodes() if node.kind == ENGINE_GROUP]


def _numbered(graph: Graph) -> dict[Node, tuple[str, str]]:
    """The two names of each node: its kind, and its kind with its number among those of the kind."""
    seen: Counter[str] = Counter()
    names = {}
    for node in graph.all_nodes():
        seen[node.kind] += 1
        names[node] = node.kind, f"{node.kind}@{seen[node.kind]}"
    return names
