"""`explain` tells of the calls that there were, and of the one that it makes."""

from __future__ import annotations

import re
from typing import Optional

import pytest
import torch

import jitlite
from jitlite.base import options
from jitlite.executor.guard_misses import _MOST_NOTED
from jitlite.objects.function import ScriptFunction


def total(x: torch.Tensor, scale: Optional[torch.Tensor] = None):
    n = 0
    for i in range(100):
        if scale is None and x.dim() == 2:
            n += i
    return x * n


def fails(x: torch.Tensor, n: int):
    return x.view(n)


@pytest.fixture(autouse=True)
def without_machine_code():
    with options.override(native="off", specialize_after=2, profiled_runs=1):
        yield


@pytest.fixture
def specialized() -> ScriptFunction:
    function = jitlite.script(total)
    for _ in range(4):
        function(torch.ones(2, 3))
    assert function.executor.specialized is not None
    return function


def calls(function: ScriptFunction) -> str:
    return "\n".join(function.explain().sections["Calls so far"])


def test_without_calls_it_says_so_and_how_to_make_one():
    function = jitlite.script(total)
    for _ in range(2):  # to look makes no call
        assert calls(function).startswith("none: ")
    assert "This call" not in function.explain().sections


def test_calls_are_counted_until_it_is_settled_which_plan_they_take(specialized):
    fresh = jitlite.script(total)
    fresh(torch.ones(2, 3))
    assert "1 call ran the general plan" in calls(fresh)
    told = calls(specialized)
    assert "the first 2 calls were counted, until it was decided" in told
    assert "1 call found a specialized plan" in told and "turned away" not in told


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((torch.ones(2, 3, 4),), r"'x' was Float\(2, 3, 4, .*\), and the plan is for Tensor\(\*, \*\)"),
        ((torch.ones(2, 3), torch.ones(3)), r"'scale' was Float\(3, .*\), and the plan is for NoneType"),
    ],
    ids=["rank", "None"],
)
def test_each_call_that_a_guard_turned_away_has_its_reason(specialized, arguments, reason):
    for _ in range(3):
        specialized(*arguments)
    told = calls(specialized)
    assert "3 calls were turned away by the guard" in told
    (line,) = [line for line in told.splitlines() if line.startswith("turned away")]
    assert re.fullmatch(f"turned away 3 times: {reason}", line)


def test_reasons_are_found_for_some_calls_only_for_that_takes_time(specialized):
    for _ in range(_MOST_NOTED + 5):
        specialized(torch.ones(1, 1, 1))
    misses = specialized.executor.guard_misses
    assert misses is not None and sum(misses.reasons.values()) == _MOST_NOTED


def test_with_arguments_the_call_is_made_and_told_of(specialized):
    ran, ended, _ = specialized.explain(torch.ones(2, 3)).sections["This call"]
    assert ran == "the plan for such arguments ran as generated Python"
    assert ended == "it returned"
    turned_away, _, _ = specialized.explain(torch.ones(3)).sections["This call"]
    assert "turned it away" in turned_away
    assert "2 calls found a specialized plan" in calls(specialized)


def test_a_call_that_raises_is_told_of_too():
    ran, ended, _ = jitlite.script(fails).explain(torch.ones(2), 7).sections["This call"]
    assert "general plan" in ran
    assert ended.startswith("it raised RuntimeError: shape '[7]' is invalid")


@pytest.mark.parametrize("executor", ["off", "debug"])
def test_the_switch_is_named_where_it_decides(executor):
    with options.override(executor=executor):
        function = jitlite.script(total)
        assert f"`executor` is {executor}" in function.explain(torch.ones(2, 3)).sections["This call"][0]
        assert f"`executor` is {executor}" in calls(function)


@pytest.mark.parametrize("executor", ["legacy", "simple"])
def test_other_executors_have_a_story(executor):
    with options.override(executor=executor):
        function = jitlite.script(total)
        function(torch.ones(2, 3))
        function(torch.ones(2, 3))
        assert f"(executor: {executor})" in calls(function)
        assert ("found a specialized plan" in calls(function)) == (executor == "legacy")


def test_the_stack_machine_is_named_where_it_runs_plans():
    with options.override(tier="stack"):
        assert "on the stack machine" in jitlite.script(total).explain(torch.ones(2, 3)).sections["This call"][0]


def test_words_have_a_glossary():
    assert str(jitlite.script(total).explain()).endswith("docs/glossary.md.")
