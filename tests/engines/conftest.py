"""A test of engines fails where no engine has computed, whatever the results are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from engine_checks import Optimized, share_of

import jitlite


@pytest.fixture(autouse=True)
def engines_compute(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each optimized model that is called is run by its engine, unless the test is marked `without_engine`."""
    made: list[Optimized] = []
    optimize = jitlite.optimize

    def recorded(*args: object, **kwargs: object) -> object:
        made.append(optimize(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(jitlite, "optimize", recorded)
    yield
    if request.node.get_closest_marker("without_engine") is not None:
        return
    for fast in made:
        found = share_of(fast)
        assert fast.counters.runs or not found.calls + found.calls_as_it_was, f"no engine computed: {fast.explain()}"
