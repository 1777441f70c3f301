"""`bisect` names the pass at fault and shows it with a small graph: for faults planted in passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import List, Tuple

import pytest
import torch
from faults import FAULTS, RARE_FAULTS
from torch import Tensor

import jitlite
from jitlite import cli
from jitlite.debug.outcome import observe
from jitlite.debug.reduce import Reproducer, reduce
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.unit import Function
from jitlite.passes import registry

PLANTED = dict(FAULTS + RARE_FAULTS)
SWEEPING = ("dce", "constant_propagation", "lower_simple_tuples")
"""Passes that drop dead code, by what `dce` knows."""
SMALL = 10
"""Nodes that a reproducer may have, constants not counted."""


@dataclass(frozen=True)
class Case:
    """A program that a fault changes.

    Attributes:
        guilty: the passes that may be blamed.
        passes: the pipeline, if it is not the usual one.
    """

    program: Callable[..., object]
    arguments: tuple[object, ...]
    guilty: tuple[str, ...]
    passes: str | None = None
    seconds: float = field(default=10.0)


def lengths(xs: List[int], n: int):
    total = 0
    for i in range(n):
        total += i * 3 - 1
    before = len(xs)
    xs.append(total)
    after = len(xs)
    text = "n" + str(total)
    return before, after, text


def held_and_written(x: Tensor, n: int):
    fresh = x * 2
    held: List[Tensor] = []
    for _ in range(n):
        held.append(fresh)
    before = float(fresh.sum())
    held[0].add_(1)
    return before, float(fresh.sum())


def appended(xs: List[int], n: int) -> int:
    for i in range(n):
        xs.append(i)
    return n * 2


def unused_error(n: int, x: Tensor):
    y = x.relu()
    _ = 10 // n
    return y + 1


def lists_in_a_loop(n: int):
    made: List[List[int]] = []
    for i in range(n):
        xs = [1, 2]
        xs.append(i)
        made.append(xs)
    return made


def chosen(flag: bool) -> int:
    if flag:
        return 1
    return 2


def takes_a_branch(n: int):
    return chosen(True) + n, chosen(False) * n


def written_list(a: int, b: int):
    xs = [a, b]
    xs[0] = b + 1
    return xs[0] * 2, a


def scaled(a: float) -> float:
    return a * 1.7


def folds_floats(x: float):
    return scaled(0.3) + x, x * 2


def caught(n: int, m: int) -> int:
    result = m + 1
    try:
        result = 10 // n
    except ZeroDivisionError:
        result = -1
    return result


def two_lists(n: int):
    xs = [n, 1]
    ys = [n, 1]
    return xs, ys, n + 1


def writes_a_view(x: Tensor):
    y = x * 2
    before = float(y.sum())
    row = y[0]
    row.add_(1)
    return before, float(y.sum())


def draws_twice(n: int):
    _ = torch.rand(n)
    return torch.rand(n) + 1


def draws_the_same(n: int):
    return float(torch.rand(1)), float(torch.rand(1)), n


def pair(a: int, b: int) -> Tuple[int, int]:
    return a, b


def takes_a_pair(a: int, b: int):
    p, q = pair(a, b * 2)
    return p - q


def zero_or_minus_zero(c: bool, x: float):
    if c:
        zero = 0.0
    else:
        zero = -0.0
    return zero, x * 2


def equals_itself(x: float, n: int):
    return x == x, n + 1


def minus(a: int, b: int) -> int:
    return a - b


def calls(a: int, b: int):
    return minus(a, b) * 2


def two_zeros(x: float):
    return x * -0.0, x * 0.0, x


def without_gradient(x: Tensor):
    y = x * 3
    with torch.no_grad():
        a = y * 2
    b = y * 2
    return a.requires_grad, b.requires_grad


def made_in_a_loop(n: int, m: int):
    made: List[List[int]] = []
    first = [m]
    text = str(first)
    for i in range(n):
        made.append([m])
    return made, text


def slices(t: Tuple[int, int], n: int):
    return t[0:1], t[1:2], n


def counts_appended(n: int):
    xs = [n]
    xs.append(n)
    return len(xs) * n


def divided(a: int, b: int) -> int:
    return a // b


def divides_by_zero(n: int):
    return divided(10, 0) + n


def steps(n: int):
    a, b = n, 1
    for _ in range(3):
        a = a + 1
        b = b * 2
    return a, b


CASES = {
    "nobody writes": Case(lengths, ([1, 2], 3), ("cse", "peephole")),
    "containers hold nothing": Case(held_and_written, (torch.ones(2), 2), ("cse",)),
    "writes that others see are dead": Case(appended, ([], 3), SWEEPING),
    "what may raise is dead": Case(unused_error, (0, torch.ones(2)), SWEEPING),
    "every list is a constant": Case(lists_in_a_loop, (3,), ("constant_propagation",)),
    "the branch that is not taken": Case(takes_a_branch, (3,), ("constant_propagation",)),
    "lists are never written": Case(written_list, (1, 2), ("peephole",)),
    "folded floats are rounded": Case(folds_floats, (1.0,), ("constant_propagation",)),
    "the body of a try never raises": Case(caught, (0, 1), ("constant_propagation",)),
    "objects have no identity": Case(two_lists, (3,), ("cse",)),
    "views are copies": Case(writes_a_view, (torch.ones(2, 2),), ("cse", "dce")),
    "random draws are dead": Case(draws_twice, (2,), SWEEPING),
    "elements of a tuple are swapped": Case(takes_a_pair, (1, 2), ("lower_simple_tuples",)),
    "random draws are equal": Case(draws_the_same, (2,), ("cse",)),
    "0.0 is -0.0": Case(zero_or_minus_zero, (False, 1.0), ("constant_propagation",)),
    "NaN equals itself": Case(equals_itself, (float("nan"), 1), ("peephole",)),
    "arguments of an inlined call are swapped": Case(calls, (5, 2), ("inline",)),
    "pooled zeros have no sign": Case(two_zeros, (1.0,), ("constant_pooling",)),
    "modes do not matter": Case(without_gradient, (torch.ones(2, requires_grad=True),), ("cse",)),
    "what a loop makes is made once": Case(made_in_a_loop, (2, 7), ("cse",)),
    "attributes do not count": Case(slices, ((1, 2), 3), ("cse",)),
    "writes that are read are dead": Case(counts_appended, (3,), SWEEPING),
    "what raises is 0": Case(divides_by_zero, (1,), ("constant_propagation",)),
    "values of an unrolled loop are swapped": Case(
        steps, (3,), ("loop_unrolling",), "inline,cse,dce,loop_unrolling,constant_propagation,peephole,dce"
    ),
}


def test_there_is_a_case_for_at_least_twenty_faults():
    assert len(CASES.keys() & PLANTED.keys()) >= 20


@pytest.mark.parametrize("name", CASES)
def test_bisect_finds_the_guilty_pass_and_a_small_graph(name):
    case = CASES[name]
    function = jitlite.script(case.program)
    assert jitlite.bisect(function, *case.arguments, passes=case.passes) is None, "without the fault all is well"
    with PLANTED[name]():
        found = jitlite.bisect(function, *case.arguments, passes=case.passes, seconds=case.seconds)
        assert found is not None, "no pass was found"
        assert found.pass_name in case.guilty, found
        assert found.reproducer.size <= SMALL, found
        assert_shows_the_fault(found)
    assert f"'{found.pass_name}' is at fault" in str(found)


def assert_shows_the_fault(found):
    """The text of the small graph reads back, and the pass alone does wrong with it."""
    constants = [node.attributes.get("value") for node in found.reproducer.graph.all_nodes()]
    functions = {value.name: value for value in constants if isinstance(value, Function)}
    read = parse(found.reproducer.graph.to_text(ranges=False), functions=functions)
    again = jitlite.bisect(read, *found.reproducer.arguments, passes=found.pass_name, seconds=0)
    assert again is not None and again.pass_name == found.pass_name


def test_a_pass_that_breaks_the_graph_is_found(monkeypatch):
    def broken(graph: Graph) -> bool:
        node = next((n for n in graph.nodes if n.kind == "aten::add"), None)
        if node is not None:
            node.move_after(graph.block.return_node._prev)
            node.move_before(next(iter(graph.nodes)))
        return node is not None

    registry.find("peephole")
    monkeypatch.setitem(registry._passes, "peephole", broken)

    def f(n: int, m: int):
        a = n * m
        b = a + 1
        return b * 2

    found = jitlite.bisect(f, 3, 4)
    assert found is not None and found.pass_name == "peephole"
    assert found.reproducer.size <= 3
    monkeypatch.setitem(registry._passes, "peephole", lambda graph: 1 // 0)
    found = jitlite.bisect(f, 3, 4)
    assert found is not None and found.pass_name == "peephole" and "ZeroDivisionError" in found.fault


def test_the_arguments_are_left_alone():
    xs = [1]

    def f(xs: List[int]):
        xs.append(2)
        return len(xs)

    assert jitlite.bisect(f, xs) is None
    assert xs == [1]


def test_graphs_can_be_bisected():
    graph = parse("graph(%n : int):\n  %1 : int = aten::add(%n, %n)\n  return (%1)")
    assert jitlite.bisect(graph, 3) is None
    with pytest.raises(TypeError, match="takes 1 argument"):
        jitlite.bisect(graph)


def test_reduce_makes_a_long_program_short():
    def long(x: Tensor, n: int):
        total = 0
        for i in range(n):
            y = x * i
            if i > 2:
                total += int(y.sum())
        z = x.relu() + 1
        z = z.sigmoid().tanh() * total
        xs = [1, 2, 3]
        xs.append(total)
        return z, len(xs) * 2, torch.atan2(z, x)

    graph = jitlite.script(long).graph

    def has_atan2(reproducer: Reproducer) -> bool:
        return any(node.kind == "aten::atan2" for node in reproducer.graph.all_nodes())

    small = reduce(Reproducer(graph, (torch.ones(2), 4)), has_atan2)
    assert small.size == 1 and str(graph) == str(jitlite.script(long).graph)
    assert len(small.arguments) == len(small.graph.inputs)


def test_observe_notes_everything():
    def f(xs, y):
        print("seen")
        xs.append(y)
        return xs

    outcome = observe(f, ([], 3))
    assert (outcome.result, outcome.printed, outcome.arguments, outcome.raised) == ([3], "seen\n", [[3], 3], "")
    assert observe(lambda: 1 // 0, ()).raised == "ZeroDivisionError"


def test_the_command(tmp_path, capsys):
    program = tmp_path / "program.py"
    program.write_text("def f(n: int):\n    xs = [n]\n    xs[0] = 4\n    return xs[0]\n")
    assert cli.main(["bisect", f"{program}:f", "--input", "3"]) == 0
    assert "no pass" in capsys.readouterr().out
    with PLANTED["lists are never written"]():
        assert cli.main(["bisect", f"{program}:f", "--input", "3"]) == 1
        text = capsys.readouterr().out
        assert "is at fault" in text and "graph(" in text
    assert cli.main(["bisect", f"{program}:f", "--input", "3", "4"]) == 2
    assert cli.main(["bisect", f"{program}:f", "--input", "3", "-p", "nonsense"]) == 2
    graph = tmp_path / "graph.txt"
    graph.write_text("graph(%n : int):\n  %1 : int = aten::add(%n, %n)\n  return (%1)")
    assert cli.main(["bisect", str(graph), "--input", "3"]) == 0
