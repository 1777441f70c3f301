"""Plans, what is counted about them, how many there may be and after how many calls: the data of `executor.py`."""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from jitlite.base import options
from jitlite.base.keywords import checks_keywords
from jitlite.interpreter.code import Code
from jitlite.interpreter.guards import ArgumentSpec
from jitlite.ir.graph import Graph
from jitlite.ir.regions import Implementation, Runner
from jitlite.native.policy import RegionState

FusionStrategy = list[tuple[str, int]]

_strategy: FusionStrategy = [("STATIC", 2), ("DYNAMIC", 10)]


@checks_keywords
def set_fusion_strategy(strategy: FusionStrategy) -> FusionStrategy:
    """Say how often a function may be specialized, and for what; gives the strategy so far.

    Args:
        strategy: pairs of a kind and a number, first those to use first. "STATIC" plans may depend on all sizes,
            "DYNAMIC" ones on ranks only. It holds for functions that are specialized from now on.

    Raises:
        ValueError: where it is not made of such pairs.
    """
    global _strategy
    for pair in strategy:
        if not (isinstance(pair, tuple) and len(pair) == 2 and pair[0] in ("STATIC", "DYNAMIC")):
            raise ValueError(f"expected pairs such as ('STATIC', 2) or ('DYNAMIC', 10), got {pair!r}")
        if not isinstance(pair[1], int) or pair[1] < 0:
            raise ValueError(f"expected a number of specializations, got {pair[1]!r}")
    before, _strategy = _strategy, list(strategy)
    return before


def strategy_at(level: int) -> str | None:
    """The kind of the specialization number `level`; None where there are to be no more."""
    kinds = itertools.chain.from_iterable([kind] * count for kind, count in _strategy)
    return next(itertools.islice(kinds, level, None), None)


@dataclass(frozen=True)
class RegionPlan:
    """What becomes of a region of a plan.

    Attributes:
        kind: of the region.
        place: where in the script it is.
        implementation: what runs it.
        reason: why nothing does, else empty.
    """

    kind: str
    place: str
    implementation: Implementation | None
    reason: str = ""

    @property
    def status(self) -> str:
        """What runs it, or why nothing does, as a sentence."""
        return self.reason if self.implementation is None else self.implementation.status


def take_place(before: Iterable[RegionPlan], now: Iterable[RegionPlan]) -> None:
    """Let regions of a plan take the place of others: they are as hot as the hottest of these."""
    replaced = [region.implementation for region in before if region.implementation is not None]
    spent = max((math.inf if made.is_compiled else made.seconds for made in replaced), default=0.0)
    for region in now:
        if region.implementation is not None:
            region.implementation.warm_up(spent)


def region_states_of(regions: Iterable[RegionPlan]) -> list[RegionState]:
    """What becomes of those regions that can be machine code."""
    made = [region.implementation for region in regions]
    return [state for state in made if isinstance(state, RegionState)]


_NEARLY_ALL = 0.85
"""The part of a plan's operations from which on the others do not count."""


@dataclass
class Plan:
    """An optimized graph and what runs it.

    Attributes:
        graph: what runs.
        last_hit: the number of the last call, of those that found a plan in the cache, that found this one.
        ungrouped: the graph before groups of operators were differentiated, if they were.
        regions: what becomes of the regions of it.
        code: the bytecode, if that is what runs.
    """

    graph: Graph
    run: Runner
    last_hit: int = 0
    ungrouped: Graph | None = None
    regions: Sequence[RegionPlan] = ()
    code: Code | None = None

    def __repr__(self) -> str:
        nodes = sum(1 for _ in self.graph.all_nodes())
        return f"<plan of {nodes} nodes, {len(self.regions)} regions>"

    @property
    def is_left_to_regions(self) -> bool:
        """Are nearly all operations in regions that are machine code, or may become so?"""
        operations = sum(node.kind != "prim::Constant" for node in self.graph.all_nodes())
        return sum(made.operations for made in self._implementations) >= _NEARLY_ALL * operations

    @property
    def has_machine_code(self) -> bool:
        """Has a region become machine code?"""
        return any(made.is_compiled for made in self._implementations)

    @property
    def _implementations(self) -> list[Implementation]:
        return [region.implementation for region in self.regions if region.implementation is not None]

    @property
    def region_states(self) -> list[RegionState]:
        """What becomes of the regions of it that can be machine code."""
        return region_states_of(self.regions)

    @property
    def base(self) -> Graph:
        """The graph that more passes may work on: groups hide from them what is inside."""
        return self.graph if self.ungrouped is None else self.ungrouped


def get_num_profiled_runs() -> int:
    """How many calls are profiled before a function is specialized."""
    return options.current().profiled_runs


@checks_keywords
def optimized_execution(should_optimize: bool) -> AbstractContextManager[object]:
    """A context in which functions run with (True) or without (False) being optimized."""
    if not should_optimize:
        return options.override(executor="off")
    now = options.current().executor
    return options.override(executor="profiling" if now == "off" else now)


class Counter:
    """A number that many threads count up: `bump()` is one step of C."""

    def __init__(self) -> None:
        self._left = itertools.repeat(None, sys.maxsize)
        self.bump: Callable[[], None] = self._left.__next__

    @property
    def value(self) -> int:
        return sys.maxsize - operator.length_hint(self._left)

    def __repr__(self) -> str:
        return str(self.value)


@dataclass
class Counters:
    """What happened to the calls of a function.

    Attributes:
        hits: calls for which there was a specialized plan.
        misses: calls for which a plan had to be made.
        guard_failures: calls that the guard of a specialized plan turned away.
        fallbacks: calls that ran the general plan for want of a specialized one, in functions that have some.
        profiled: calls that were profiled.
        specializations: plans made for some kind of arguments.
        evictions: such plans that were forgotten.
    """

    hits: Counter = field(default_factory=Counter)
    misses: Counter = field(default_factory=Counter)
    guard_failures: Counter = field(default_factory=Counter)
    fallbacks: Counter = field(default_factory=Counter)
    profiled: Counter = field(default_factory=Counter)
    specializations: Counter = field(default_factory=Counter)
    evictions: Counter = field(default_factory=Counter)

    def as_dict(self) -> dict[str, int]:
        """The numbers by name."""
        return {name: counter.value for name, counter in vars(self).items()}


@dataclass(frozen=True)
class ExecutorState:
    """What an executor has, for those who look.

    The numbers are those of `Counters`, and `native_runs` and `native_misses`: how often regions of the plans there are
    ran as machine code, and how often that could not do them, so that Python did.

    Attributes:
        graph: the graph of the function, as the front end left it.
        fallback: the general plan, None until it is made.
        execution_plans: the specialized plans by what they are for.
        counters: numbers by name.
        decision: why the function is run as it is, as a sentence.
    """

    graph: Graph
    fallback: Plan | None
    execution_plans: dict[ArgumentSpec, Plan]
    counters: dict[str, int]
    decision: str

    def __repr__(self) -> str:
        counted = ", ".join(f"{name}={number}" for name, number in self.counters.items() if number)
        plans = f"{1 if self.fallback else 0} general, {len(self.execution_plans)} specialized"
        return f"<{self.decision}; {plans}; {counted or 'no calls'}>"
