"""Making graphs for arguments of known types, and judging whether that is worth its guard.

What is known of arguments decides conditions (`x.dim() == 4`, `mask is None`, `self.training`) and queries
(`x.size(0)`, `x.dtype`).
A specialized graph is kept only if what it saves takes longer than checking the arguments does, and it is guarded by no
more facts than it owes its gain to.

Time is counted in *steps*: what an operation on numbers takes in generated Python, about 40 ns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from jitlite.analysis.alias import AliasDb
from jitlite.analysis.module_flags import Flag, Reads, flag_reads, may_have_flags, set_flags
from jitlite.base.records import Record
from jitlite.compiler import program as compiler
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.traits import Trait
from jitlite.ir.types import TensorType, Type
from jitlite.ir.unit import Function
from jitlite.passes.guarded import refine_inputs
from jitlite.passes.pipelines import PHASES, SPECIALIZE
from jitlite.passes.registry import PassHook
from jitlite.passes.rules.peephole_tensors import FACTS

_LOOP_TRIPS = 8
"""How often the body of a loop is taken to run."""

_CALL_OF_TORCH = 25
"""Steps that an operator on tensors takes at least."""

_DECISION = _CALL_OF_TORCH
"""Steps that a flag which is read is worth, beside those it decides: operators on either side become neighbours."""

_DISPATCH = 4
"""Steps that a guard takes whatever it asks: a call more, and a counter."""

_LARGEST = 2_000
"""Nodes of a graph beyond which only flags are tried, once: several attempts would take seconds."""

_MOST_TOLD = 3
"""Flags that are named."""

_SECONDS = 0.25
"""How long to look for a guard that asks less."""


class Specialized(Record, eq=True):
    """A graph for arguments of some types.

    Attributes:
        graph: the graph; its inputs have the types.
        types: what to check of each argument; the declared type where nothing is to be checked.
        saved: how many steps fewer a call takes, the guard not counted.
        guard: how many steps the guard takes.
        flags: how flags of modules are set.
    """

    graph: Graph
    types: tuple[Type, ...]
    saved: int
    guard: int
    flags: dict[Flag, bool] = field(default_factory=dict)

    @property
    def gain(self) -> int:
        return self.saved - self.guard

    def wanted(self, inputs: Sequence[Value]) -> str:
        """What the guard asks, in words; empty where nothing.

        Args:
            inputs: those of the general graph.
        """
        types = [f"{v.name} : {t}" for v, t in zip(inputs, self.types, strict=True) if t is not v.type]
        flags = [f"{flag.told(inputs)} = {value}" for flag, value in self.flags.items()]
        more = [f"and {len(flags) - _MOST_TOLD} more flags of modules"] if len(flags) > _MOST_TOLD + 1 else []
        return ", ".join([*types, *(flags[:_MOST_TOLD] if more else flags), *more])


def may_gain(graph: Graph) -> bool:
    """Does the graph ask anything that the types of arguments answer? A quick look, without trying."""
    optional = any(isinstance(v.type, T.OptionalType) and v.has_uses for v in graph.inputs)
    kinds = {node.kind for node in graph.all_nodes()}
    tensors = any(isinstance(T.without_none(v.type), TensorType) and v.has_uses for v in graph.inputs)
    asked = (optional and kinds & Trait.NONE_TEST.kinds) or (tensors and kinds & FACTS.keys())
    return bool(asked) or may_have_flags(graph)


def specialize(
    graph: Graph, seen: Sequence[Type], flags: Mapping[Flag, bool] | None = None, *, with_sizes: bool
) -> Specialized | None:
    """The best graph for arguments of the types `seen`; None where nothing is gained by it.

    Args:
        graph: the general, optimized graph.
        seen: the type of each argument, as refined as it is known.
        flags: how flags are set, as far as it is known.
        with_sizes: may the graph depend on the sizes of dimensions?
    """
    declared = [v.type for v in graph.inputs]
    if sum(1 for _ in graph.all_nodes()) > _LARGEST:
        settings = _Settings(graph, flags or {})
        return attempt(graph, declared, settings) if settings.flags else None
    levels = [
        [T.unshaped(t) if isinstance(d, T.OptionalType) else d for d, t in zip(declared, seen, strict=True)],
        _each(seen, _without_sizes),
        list(seen),
    ]
    settings = _Settings(graph, flags or {})
    best: Specialized | None = None
    for types in levels if with_sizes else levels[:2]:
        made = attempt(graph, types, settings)
        if made.saved > (best.saved if best else 0):
            best = made
    if best is None:
        return None
    best = _least_guarded(graph, best, settings)
    return best if best.gain > 0 else None


class _Settings:
    """How the flags that a graph reads are set."""

    def __init__(self, graph: Graph, flags: Mapping[Flag, bool]) -> None:
        reads: Reads = flag_reads(graph) if flags else {}
        self.flags = {flag: value for flag, value in flags.items() if flag in reads}
        self.values = [(value, is_on) for flag, is_on in self.flags.items() for value in reads[flag]]
        self.worth = worth_of_flags({flag: reads[flag] for flag in self.flags})


def worth_of_flags(reads: Reads) -> int:
    """Steps that flags which are read are worth, beside those that they decide."""
    return _DECISION * sum(map(len, reads.values()))


def guard_of_flags(flags: Iterable[Flag], *, is_alone: bool) -> int:
    """Steps that it takes to ask how flags are set.

    Args:
        is_alone: is nothing else asked of the arguments?
    """
    read = {flag.path[:n] for flag in flags for n in range(1, len(flag.path) + 1)}
    return len(read) + (_DISPATCH if is_alone else 0)


def _least_guarded(graph: Graph, best: Specialized, settings: _Settings) -> Specialized:
    """The most gain, by leaving facts away that little or nothing of it depends on."""
    end = time.monotonic() + _SECONDS
    if settings.flags:
        best = _better(best, attempt(graph, best.types))
        settings = settings if best.flags else _Settings(graph, {})
    for weaken in (_without_place, _without_dtype, _without_sizes):
        if time.monotonic() < end:
            best = _better(best, attempt(graph, _each(best.types, weaken), settings))
    for i, value in enumerate(graph.inputs):
        if best.types[i] is not value.type and time.monotonic() < end:
            weaker = [*best.types[:i], value.type, *best.types[i + 1 :]]
            best = _better(best, attempt(graph, weaker, settings))
    return best


def _better(a: Specialized, b: Specialized) -> Specialized:
    return b if b.gain >= a.gain else a


def _each(types: Sequence[Type], change: Callable[[TensorType], TensorType]) -> list[Type]:
    return [change(t) if isinstance(t, TensorType) else t for t in types]


def _without_sizes(t: TensorType) -> TensorType:
    return T.TensorType.of(t.dtype, t.sizes and (None,) * len(t.sizes), None, t.device, t.requires_grad)


def _without_place(t: TensorType) -> TensorType:
    return T.TensorType.of(t.dtype, t.sizes)


def _without_dtype(t: TensorType) -> TensorType:
    return T.TensorType.of(None, t.sizes, None, t.device, t.requires_grad)


def attempt(graph: Graph, types: Sequence[Type], settings: _Settings | None = None) -> Specialized:
    """The graph for arguments of the given types, and flags that are set so, whatever it gains."""
    made, used, copies = refined(graph, types)
    if settings is not None:
        set_flags(made, [(copies[value], is_on) for value, is_on in settings.values])
    SPECIALIZE(made)
    saved = _SavedSteps(made, copies).saved(graph.block)
    guard = _guard_steps([v.type for v in graph.inputs], used)
    if settings is None or not settings.flags:
        return Specialized(made, used, saved, guard)
    guard += guard_of_flags(settings.flags, is_alone=not guard)
    return Specialized(made, used, saved + settings.worth, guard, settings.flags)


def refined(graph: Graph, types: Sequence[Type]) -> tuple[Graph, tuple[Type, ...], dict[Value, Value]]:
    """A copy whose inputs have the types, as far as the graph leaves them alone; the types; the copy of each value.

    Of a tensor that the graph may write nothing is taken to be known but that it is there: it may be resized.
    """
    copy, copies = graph.copy_with_map()
    db = AliasDb(copy)
    used: list[Type] = []
    for value, t in zip(copy.inputs, types, strict=True):
        if not value.has_uses:
            t = value.type
        elif t is not T.NONE and db.has_writers((value,)):
            t = T.unshaped(t)
        used.append(t)
    refine_inputs(copy, used)
    for value in copy.inputs:
        if isinstance(value.type, T.TupleType):
            _refine_elements(value, value.type)
    return copy, tuple(used), copies


def _refine_elements(value: Value, t: T.TupleType) -> None:
    for use in value.uses:
        if use.user.kind == "prim::TupleUnpack":
            for output, element in zip(use.user.outputs, t.elements, strict=True):
                output.type = element
                if isinstance(element, T.TupleType):
                    _refine_elements(output, element)


# -- what it is worth


def _guard_steps(declared: Sequence[Type], types: Sequence[Type]) -> int:
    """How many steps it takes to check arguments."""
    checked = [t for d, t in zip(declared, types, strict=True) if t is not d]
    return sum(map(_check_steps, checked)) + (_DISPATCH if checked else 0)


def _check_steps(t: Type) -> int:
    if not isinstance(t, TensorType):
        return 0
    facts = [t.dtype, t.device, t.requires_grad]
    steps = sum(fact is not None for fact in facts)
    if t.sizes is not None:
        steps += 2 if all(size is None for size in t.sizes) else 5
    return steps + 1 if steps else 0


class _SavedSteps:
    """How many steps a specialized graph saves: those of the nodes that have gone and would have run."""

    def __init__(self, made: Graph, copies: dict[Value, Value]) -> None:
        self._copies = copies
        own = {copy.node for copy in copies.values()}
        self._added = sum(_steps(node) for node in made.all_nodes() if node.outputs and node not in own)

    def saved(self, block: Block) -> int:
        """The steps saved in the top block of the general graph."""
        return self._in_block(block) - self._added

    def _in_block(self, block: Block) -> int:
        return sum(self._of(node) for node in block.nodes)

    def _of(self, node: Node) -> int:
        own = 0 if self._is_there(node) else _steps(node)
        if not node.blocks:
            return own
        inside = [self._in_block(block) for block in node.blocks]
        if node.kind != "prim::If":
            return own + (_LOOP_TRIPS if node.kind == "prim::Loop" else 1) * sum(inside)
        taken = [n for n, block in zip(inside, node.blocks, strict=True) if self._has_survivors(block)]
        return own + (taken[0] if own and len(taken) == 1 else min(inside))

    def _is_there(self, node: Node) -> bool:
        """Is the node still in the specialized graph? Those without outputs are taken to be where they are."""
        if node.outputs:
            return self._copies[node.outputs[0]].node.block is not None
        return node.kind != "prim::If" or all(map(self._has_survivors, node.blocks))

    def _has_survivors(self, block: Block) -> bool:
        return any(
            (bool(node.outputs) and self._is_there(node)) or any(map(self._has_survivors, node.blocks))
            for node in block.nodes
            if node.kind != "prim::Constant"
        )


def _steps(node: Node) -> int:
    """How many steps the node itself takes."""
    if node.kind in ("prim::Constant", "prim::Uninitialized"):
        return 0
    if node.kind.startswith("aten::") and any(isinstance(v.type, TensorType) for v in node.outputs):
        return _CALL_OF_TORCH
    return 1


def compile_for(graph: Graph, types: Sequence[Type], hook: PassHook | None = None) -> Graph:
    """The graph after all phases of the legacy executor, for arguments of the given types.

    Args:
        graph: the graph after cleanup; it is not changed.
    """
    with compiler.compiling():
        copy = graph.copy()
        PHASES["inline"](copy, hook)
        made, _, _ = refined(copy, types)
        for name, phase in PHASES.items():
            if name != "inline":
                phase(made, hook)
        return made


def fallback_function(graph: Graph, executor: object) -> Function:
    """The function run after a guard failure."""
    arguments = [Argument(v.name, v.type) for v in graph.inputs]
    schema = function_schema("fallback_function", arguments, [v.type for v in graph.outputs])
    function = Function("fallback_function", schema=schema, graph=graph)
    function.compiled = executor
    return function
