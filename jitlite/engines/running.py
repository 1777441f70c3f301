"""How groups are run: by what their engine has compiled, else as the graphs that they are.

A node `prim::EngineGroup` carries the graph of its group, and in the attribute `engine` a `GroupUse`: the cache of the
model that it is in. A graph that was read from text has none; nothing runs its groups then but the graphs in them.

A group is run as a graph where a gradient is recorded for an input, where the engine refused it, and where the engine
failed, while it compiled or in a call. What failed once is not tried again. The first failure of a group is told in a
warning. A refusal in a call holds for that call alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import field

import torch

from jitlite.base import options
from jitlite.base.records import Record
from jitlite.engines.engine import LARGEST_EMBEDDED, CompiledGroup, EngineRefusal, Operand
from jitlite.engines.group_cache import Failure, GroupCache, key_of
from jitlite.ir.graph import Graph, constant_of
from jitlite.ir.regions import Backend, PlanContext, Region, Runner
from jitlite.ir.types import TensorType

KIND = "engine"


class EngineWarning(UserWarning):
    """An engine failed, and the group runs without it."""


_MOST_KNOWN = 256
"""A group remembers what runs it for at most so many combinations of types."""
_MOST_REASONS = 8
"""A group keeps so many different reasons for which calls were refused."""


class GroupUse(Record, frozen=False):
    """A group of a model, and what has become of it.

    Attributes:
        cache: that of the model.
        name: of the group, for messages.
        runs: how often the engine has run it.
        graph_runs: how often its graph ran instead.
        failure: why the engine does not run it any more.
        refused: why the engine did not take single calls, and how often; the first reasons that there were.
    """

    cache: GroupCache
    name: str
    runs: int = 0
    graph_runs: int = 0
    failure: Failure | None = None
    refused: dict[str, int] = field(default_factory=dict)

    def count_run(self) -> None:
        """Count a call that the engine did."""
        self.runs += 1
        self.cache.counters.runs += 1

    def refuse(self, why: str) -> None:
        """Count a call that the engine did not take."""
        self.cache.counters.fallbacks += 1
        if why in self.refused or len(self.refused) < _MOST_REASONS:
            self.refused[why] = self.refused.get(why, 0) + 1

    def __repr__(self) -> str:
        return self.cache.engine.name


class GroupRunner:
    """Runs one group of a plan."""

    def __init__(self, use: GroupUse, body: Graph, as_graph: Runner, gives_one: bool) -> None:
        self._use = use
        self._as_graph = as_graph
        self._gives_one = gives_one
        self._graph, self._weights = with_weights_as_inputs(body)
        self._key = key_of(self._graph)
        self._results = len(body.outputs)
        self._compiled: dict[tuple[object, ...], CompiledGroup] = {}

    def __call__(self, *inputs: Operand) -> object:
        use = self._use
        if use.failure is not None or (torch.is_grad_enabled() and any(map(_requires_grad, inputs))):
            return self._run_graph(inputs)
        given = (*inputs, *self._weights)
        compiled = self._compiled.get(self._types_of(inputs)) or self._find(inputs, given)
        if compiled is None:
            return self._run_graph(inputs)
        try:
            found = _checked(compiled(given), self._results)
        except EngineRefusal as why:
            use.refuse(str(why))
            return self._run_graph(inputs)
        except Exception as error:
            if options.current().engine_errors == "raise":
                raise
            found_by_graph = self._run_graph(inputs)  # it raises where the arguments are at fault
            self._fail(Failure(f"{type(error).__name__}: {error}", False))
            return found_by_graph
        use.count_run()
        return found[0] if self._gives_one else tuple(found)

    def _types_of(self, inputs: Sequence[Operand]) -> tuple[object, ...]:
        engine = self._use.cache.engine
        if engine.has_dynamic_sizes and not engine.keeps_fixed_sizes:
            return tuple([(v.dtype, v.dim()) if isinstance(v, torch.Tensor) else type(v) for v in inputs])
        return tuple([(v.dtype, v.shape) if isinstance(v, torch.Tensor) else type(v) for v in inputs])

    def _find(self, inputs: Sequence[Operand], given: Sequence[Operand]) -> CompiledGroup | None:
        found = self._use.cache.find(self._graph, self._key, given)
        if isinstance(found, Failure):
            self._fail(found)
            return None
        if len(self._compiled) >= _MOST_KNOWN:
            self._compiled.clear()
        self._compiled[self._types_of(inputs)] = found
        return found

    def _run_graph(self, inputs: Sequence[Operand]) -> object:
        self._use.graph_runs += 1
        return self._as_graph(*inputs)

    def _fail(self, failure: Failure) -> None:
        use = self._use
        use.failure = failure
        use.cache.counters.fallbacks += 1
        if not failure.is_refusal:
            text = f"{use.name} is run without the engine {use.cache.engine.name}, which failed: {failure.reason}"
            warnings.warn(text, EngineWarning, stacklevel=3)


def _checked(found: Sequence[Operand], count: int) -> Sequence[Operand]:
    """What an engine gives, of which nobody knows that it keeps to the contract.

    Raises:
        TypeError: it does not.
    """
    if not isinstance(found, list | tuple) or len(found) != count:
        got = f"{len(found)} values" if isinstance(found, list | tuple) else type(found).__name__
        raise TypeError(f"the engine gave {got}, expected a sequence of {count} values")
    return found


def _requires_grad(value: Operand) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def with_weights_as_inputs(body: Graph) -> tuple[Graph, tuple[torch.Tensor, ...]]:
    """A copy in which larger tensors that are constants are more inputs, and these tensors.

    So equal layers share what is compiled, and it is small.
    """
    graph, weights = body.copy(), []
    for node in list(graph.all_nodes()):
        value = constant_of(node.output) if node.kind == "prim::Constant" else None
        if isinstance(value, torch.Tensor) and value.numel() > LARGEST_EMBEDDED:
            node.output.replace_all_uses_with(graph.add_input(TensorType.from_tensor(value)))
            node.destroy()
            weights.append(value)
    return graph, tuple(weights)


class ObservedGroup(Record):
    """Has a group run as a graph, and shows the graph and each of its inputs to somebody before.

    Attributes:
        observe: is called with them.
    """

    observe: Callable[[Graph, Sequence[Operand]], None]

    def runner(self, body: Graph, as_graph: Runner) -> Runner:
        """What runs the group."""

        def run(*inputs: Operand) -> object:
            self.observe(body, inputs)
            return as_graph(*inputs)

        return run


def _implement(region: Region, context: PlanContext) -> Runner | str:
    use = region.node.attributes.get("engine")
    if isinstance(use, ObservedGroup):
        return use.runner(region.graph(), context.run_graph(region.graph(), context.name))
    if not isinstance(use, GroupUse):
        return "no engine was told of it"
    body = region.graph()
    as_graph = context.run_graph(body, context.name)
    if use.cache.engine.runs_graphs:
        return _Counted(use, as_graph)
    return GroupRunner(use, body, as_graph, not region.gives_tuple)


class _Counted:
    """Runs a group of the engine that runs graphs."""

    def __init__(self, use: GroupUse, as_graph: Runner) -> None:
        self._use = use
        self._as_graph = as_graph

    def __call__(self, *inputs: Operand) -> object:
        self._use.count_run()
        return self._as_graph(*inputs)


ENGINES = Backend(_implement)
