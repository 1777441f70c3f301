"""What engines have compiled for one model: each group once for each combination of types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import field

import torch

from jitlite.analysis.result_types import ModeFacts
from jitlite.base import options
from jitlite.base.locks import Lock
from jitlite.base.records import Record
from jitlite.engines.engine import CompiledGroup, Engine, EngineRefusal, Operand
from jitlite.ir import types as T
from jitlite.ir.compare import canonical_text, constant_key
from jitlite.ir.graph import Graph, constant_of
from jitlite.ir.types import TensorType, Type
from jitlite.passes.shapes import propagate

_MOST_VARIANTS = 16
"""A group is compiled for at most so many combinations of types. Calls with others run its graph."""


class EngineCounters(Record, frozen=False):
    """What has happened.

    Attributes:
        compiled: how many groups were compiled.
        hits: how often a group found that an equal one had been compiled.
        fallbacks: how often a group ran as a graph because its engine failed or refused.
        runs: how often an engine has run a group.
    """

    compiled: int = 0
    hits: int = 0
    fallbacks: int = 0
    runs: int = 0


class Failure(Record):
    """Why a group was not compiled.

    Attributes:
        reason: the text of the exception.
        is_refusal: did the engine refuse, or did it fail?
    """

    reason: str
    is_refusal: bool


_lock = Lock("engines")


class GroupCache(Record, frozen=False):
    """What an engine has compiled, by the text of groups, dtypes, ranks and known sizes."""

    engine: Engine
    counters: EngineCounters = field(default_factory=EngineCounters)
    compiled: dict[Hashable, CompiledGroup | Failure] = field(default_factory=dict)
    variants: Counter[Hashable] = field(default_factory=Counter)

    def find(self, graph: Graph, key: Hashable, inputs: Sequence[Operand]) -> CompiledGroup | Failure:
        """What runs the graph for inputs of these types.

        Args:
            graph: of a group; it is not changed.
            key: `key_of` it.
            inputs: of a call.
        """
        types = types_of(self.engine, graph, inputs)
        whole = key, tuple((t.dtype, t.sizes, t.device) if isinstance(t, TensorType) else str(t) for t in types)
        with _lock:
            known = self.compiled.get(whole)
            if known is not None:
                self.counters.hits += 1
                return known
            if self.variants[key] >= _MOST_VARIANTS:
                return Failure(f"it was compiled for {_MOST_VARIANTS} combinations of dtypes and ranks before", True)
            self.variants[key] += 1
        made = compile_for(self.engine, graph, types)
        with _lock:
            self.counters.compiled += whole not in self.compiled and not isinstance(made, Failure)
            return self.compiled.setdefault(whole, made)


def compile_for(engine: Engine, graph: Graph, types: Sequence[Type]) -> CompiledGroup | Failure:
    """Have an engine compile a graph for inputs of these types.

    Args:
        engine: that compiles.
        graph: it is not changed.
        types: of the inputs, see `type_of`.
    """
    typed = graph.copy()
    try:
        for value, t in zip(typed.inputs, types, strict=True):
            value.type = t
        if not all(_is_known(v.type) for node in typed.all_nodes() for v in node.outputs):
            propagate(typed, types, INFERENCE)
        return engine.compile(typed)
    except EngineRefusal as why:
        return Failure(str(why), True)
    except Exception as error:
        if options.current().engine_errors == "raise":
            raise
        return Failure(f"{type(error).__name__}: {error}", False)


INFERENCE = ModeFacts(grad=False, autocast=False)


def key_of(graph: Graph) -> Hashable:
    """The same for graphs that compute the same in the same way, constants included."""
    constants = [constant_of(n.output) for n in graph.all_nodes() if n.kind == "prim::Constant"]
    return canonical_text(graph), tuple(constant_key(c) for c in constants if isinstance(c, torch.Tensor))


def _is_known(t: Type) -> bool:
    return not isinstance(t, TensorType) or (t.dtype is not None and t.sizes is not None)


def types_of(engine: Engine, graph: Graph, inputs: Sequence[Operand]) -> list[Type]:
    """The types that a graph is compiled for, where its inputs are these."""
    return [_type_of(engine, given.type, value) for given, value in zip(graph.inputs, inputs, strict=True)]


def _type_of(engine: Engine, told: Type, value: Operand) -> Type:
    if not isinstance(value, torch.Tensor):
        return T.BOOL if isinstance(value, bool) else T.INT if isinstance(value, int) else T.FLOAT
    sizes: list[int | None] = list(value.shape)
    if engine.has_dynamic_sizes:
        fixed = _fixed_sizes(told, value) if engine.keeps_fixed_sizes else [None] * value.dim()
        sizes = [n if n == wanted else None for n, wanted in zip(value.shape, fixed, strict=True)]
    return TensorType.of(value.dtype, sizes, None, value.device, False)


def _fixed_sizes(told: Type, value: torch.Tensor) -> list[int | None]:
    """Those that a type says, and those that are 0 or 1, which is never broadcast to one that varies."""
    known: Sequence[int | None] = [None] * value.dim()
    if isinstance(told, TensorType) and told.sizes is not None and len(told.sizes) == value.dim():
        known = told.sizes
    return [n if n <= 1 else wanted for n, wanted in zip(value.shape, known, strict=True)]
