"""Did an engine compute, or did jitlite do without it? A fallback gives the right result, so a test has to ask."""

from __future__ import annotations

import copy
import re
from typing import NamedTuple, Protocol

import pytest

from jitlite.engines.engine import Engine
from jitlite.engines.group_cache import EngineCounters
from jitlite.engines.shipped import engine_of

PACKAGES = {"onnxruntime": ("onnx", "onnxruntime"), "iree": ("iree.compiler", "iree.runtime")}


class Optimized(Protocol):
    """What `jitlite.optimize` gives, as far as it is looked at here."""

    @property
    def counters(self) -> EngineCounters: ...

    def explain(self) -> str: ...


class Share(NamedTuple):
    """How much of a model is in groups, and what calls did, of all its variants together."""

    inside: int
    everything: int
    groups: int
    calls: int
    calls_as_it_was: int


def share_of(fast: Optimized) -> Share:
    """Read what an optimized model tells of itself."""
    told = fast.explain()
    variants = r"a variant, (\d+) calls: (\d+) of (\d+) operators on tensors in (\d+) groups"
    found = [tuple(map(int, numbers)) for numbers in re.findall(variants, told)]
    as_it_was = sum(map(int, re.findall(r"(\d+) calls? ran the model as it was", told)))
    calls, inside, everything, groups = map(sum, zip(*found, strict=True)) if found else (0, 0, 0, 0)
    return Share(inside, everything, groups, calls, as_it_was)


def assert_engine_computed(
    fast: Optimized,
    share: float = 1.0,
    *,
    fallbacks: int = 0,
    as_it_was: bool = False,
    most_compiled: int | None = None,
) -> None:
    """See that the engine has run the groups of each call.

    Args:
        share: at least this part of the operators on tensors has to be in groups.
        fallbacks: how often a group may have run as a graph.
        as_it_was: may calls have run the model as it was?
        most_compiled: how many compilations there may have been; None for any number.
    """
    told, found, counters = fast.explain(), share_of(fast), fast.counters
    assert found.groups and found.inside >= share * found.everything, told
    assert found.calls and counters.runs, told
    assert counters.fallbacks == fallbacks, told
    assert as_it_was or not found.calls_as_it_was, told
    if not fallbacks:  # in loops a group runs several times in a call, in branches it may not run
        assert counters.runs >= found.calls, told
    assert most_compiled is None or 0 < counters.compiled <= most_compiled, told


def need(name: str) -> None:
    """Skip the test where a shipped engine is not installed."""
    for package in PACKAGES.get(name, ()):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'jitlite[onnx,iree]'")


def small_engine(name: str) -> Engine:
    """A shipped engine, for groups of one node; the test is skipped where it is not installed."""
    need(name)
    made = copy.copy(engine_of(name))
    made.least = 1
    return made
