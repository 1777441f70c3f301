"""Calls with a look at everything: what each value was, what each line cost, and that the call is one call."""

from __future__ import annotations

import copy
from typing import Dict, List, Optional

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.base import options
from jitlite.executor.executor import executor_of
from jitlite.executor.observed_call import in_words, observe


def observed(fn, *args):
    """What was seen, as pairs of the line that computes a value and what it was, and the call."""
    made = fn if isinstance(fn, jitlite.ScriptFunction) else jitlite.script(fn)
    with torch.no_grad():
        call = observe(executor_of(made.__jitlite_function__), made._bind(args, {}))
    lines = [(v.node.range.source.line_text(v.node.range.line - v.node.range.source.first_line).strip()
              if v.node.range else "", words) for v, words in call.seen.items()]  # fmt: skip
    return lines, call


def looped(x: Tensor, n: int, names: List[str], scale: Optional[float]) -> Dict[str, Tensor]:
    found: Dict[str, Tensor] = {}
    for i in range(n):
        x = torch.cat([x, x])
        if i > 0:
            found[names[i]] = x
    if scale is not None:
        x = x * scale
    return found


def test_values_of_loops_branches_and_containers_are_seen():
    lines, call = observed(looped, torch.ones(2, 3), 2, ["a", "b"], None)
    seen = dict(lines)
    words = [said for _, said in lines]
    assert "2" in words and "list of 2: 'a', 'b'" in words and "None" in words
    assert "0, then 1" in words, "the number of the iteration"
    grown = seen["x = torch.cat([x, x])"]
    assert grown.startswith("Float(4, 3") and ", then Float(8, 3" in grown
    assert "x = x * scale" not in seen, "a branch that did not run"
    counts = {cost.text.strip(): cost.count for cost in call.lines}
    assert counts["x = torch.cat([x, x])"] == 2 and counts["found[names[i]] = x"] == 1
    assert 0 < sum(cost.own_seconds for cost in call.lines) <= call.seconds * 1.001


def test_more_than_three_different_things_are_not_all_told():
    def grown(x: Tensor) -> Tensor:
        for _ in range(7):
            x = torch.cat([x, x])
        return x

    lines, _ = observed(grown, torch.ones(1))
    words = dict(lines)["x = torch.cat([x, x])"]
    assert words.count("then") == 3 and words.endswith(", then others")


def written(x: Tensor, log: List[int]) -> Tensor:
    y = x.mul_(2.0) + 1.0
    y.add_(x).relu_()
    log.append(len(log))
    print("called")
    return y * torch.rand(2) + x.exp().tanh().sigmoid()


def summed(x: Tensor, log: List[int]) -> int:
    total = 0
    for i in range(len(log) + 100):
        total = total + i * i % 7
    log.append(total)
    return total


def recursive(x: Tensor, log: List[int]) -> Tensor:
    log.append(1)
    return x if len(log) > 4 else recursive(x + 1, log)


@pytest.mark.parametrize("tier", ["python", "stack"])
@pytest.mark.parametrize("fn", [written, summed, recursive], ids=["written", "summed", "recursive"])
def test_a_report_calls_the_function_once(fn, tier, capsys):
    ours, theirs = (torch.ones(2), [5]), (torch.ones(2), [5])
    torch.manual_seed(0)
    fn(*theirs)
    printed, state = capsys.readouterr().out, torch.get_rng_state()
    torch.manual_seed(0)
    with options.override(tier=tier):
        page = jitlite.script(fn).report(*ours)
    assert capsys.readouterr().out == printed
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1]
    assert "lines" in page.stage_names and "Float(2" in page.html


def test_statistics_of_modules_are_written_once():
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    other = copy.deepcopy(net)
    x = torch.randn(2, 3, 5, 5)
    with torch.no_grad():
        other(x)
    scripted = jitlite.script(net)
    page = scripted.forward.report(x)
    for ours, theirs in zip(scripted.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert "2, 4, 5, 5" in page.html


def test_an_exception_is_the_calls():
    def fails(x: Tensor) -> Tensor:
        return x.view(7)

    with pytest.raises(RuntimeError, match="shape"):
        jitlite.script(fails).report(torch.ones(2))


def test_time_of_making_machine_code_belongs_to_no_line():
    def chain(x: Tensor) -> Tensor:
        return ((x * 2.0 + 1.0).tanh() * x).exp()

    made = jitlite.script(chain)
    _, call = observed(made, torch.ones(8))
    assert sum(cost.own_seconds for cost in call.lines) <= call.seconds * 1.001
    assert {cost.key.is_region for cost in call.lines} == {False}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "True"),
        (2**64, "an int of 65 bits"),
        (10**5000, "an int of 16610 bits"),
        (float("nan"), "nan"),
        ("a" * 100, "'" + "a" * 40 + "'…"),
        ([], "list of 0"),
        ((1, "x"), "tuple of 2: 1, 'x'"),
        ([[1], [[2]]], "list of 2: list of 1: 1, list of 1: list of 1"),
        ({"a": torch.ones(1)}, "dict of 1: 'a': Float(1, strides=[1], requires_grad=0, device=cpu)"),
        (list(range(9)), "list of 9: 0, 1, 2, …"),
        (torch.ones(2).to_sparse(), "Float(2, requires_grad=0, device=cpu)"),
        (object(), "an object of object"),
    ],
    ids=["bool", "int", "long", "nan", "text", "empty", "tuple", "deep", "dict", "list", "sparse", "object"],
)
def test_values_in_words(value, words):
    assert in_words(value) == words
