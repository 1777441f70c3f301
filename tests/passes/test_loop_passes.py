"""Passes over loops, branches and reads: programs made to be hard for them do what they do in eager Python.

Golden files show what each pass does; here is what it must not change, for passes alone, in the order of a pipeline,
and in others, and that code does not grow without bound.
"""

from __future__ import annotations

import random
from typing import Dict, List, Optional

import pytest
import torch
from laws import observe, run_graph

import jitlite
from jitlite.debug.equality import difference
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph
from jitlite.ir.parser import parse
from jitlite.passes.loop_copies import size_of
from jitlite.passes.peephole import peephole
from jitlite.passes.registry import PassHook, run
from jitlite.passes.thread_jumps import DEEPEST, LARGEST_COPY

PASSES = (
    "counted_loops", "load_elimination", "thread_jumps", "peephole", "constant_propagation", "refine_conditions",
    "refine_integer_values", "refine_list_lengths", "loop_peeling", "hoist_loop_invariants", "remove_noops",
    "loop_unrolling", "constant_loop_unrolling", "cse", "dce",
)  # fmt: skip


def count_up(n: int, m: int):
    i = m
    total = 0
    while i < n:
        total = total * 3 + i
        i += 1
    return i, total


def count_down_by_three(n: int, m: int):
    i = n
    seen: List[int] = []
    while i >= m:
        seen.append(i)
        i -= 3
    return seen


def at_least_one_round(n: int, m: int):
    i = m
    while True:
        i += 1
        if not i < n:
            break
    return i


def search(n: int, m: int):
    found = -1
    rounds = 0
    for i in range(n):
        rounds += 1
        if i == m:
            found = i
            break
        if i == m + 7 or i * i == m:
            continue
        rounds += 100
    return found, rounds


def short_cut(n: int, m: int):
    x = 1.5
    k = 0
    while k < n and x * x < 1000.0:
        x = x * 1.5 + float(m)
        k += 1
    return k, x


def short_cut_that_raises(n: int, m: int):
    values = [3, 1, 4, 1, 5, 9, 2, 6]
    k = 0
    while k < n and values[k] != m:
        k += 1
    return k


def early_returns(n: int, m: int):
    for i in range(n):
        for j in range(n):
            if i * j == m:
                return i, j, "product"
            if i + j == m and i > j:
                return i, j, "sum"
    return n, m, "none"


def first_round(n: int, m: int):
    first = True
    text = ""
    for i in range(n):
        if first:
            text += "("
        else:
            text += ", "
        text += str(i * m)
        first = False
    return text, first


def previous_value(n: int, m: int):
    previous: Optional[int] = None
    changes = 0
    for i in range(n):
        current = (i * m) % 5
        if previous is None:
            changes += 1000
        elif previous != current:
            changes += 1
        previous = current
    return changes, previous


def invariant_that_raises(n: int, m: int):
    total = 0
    for i in range(n):
        total += 100 // m + i
    return total


def invariant_behind_a_print(n: int, m: int):
    for i in range(n):
        print("round", i)
        print(7 % m)
    return n


def invariant_of_an_optional(n: int, m: int):
    limit: Optional[int] = None
    if m > 0:
        limit = m
    total = 0
    for i in range(n):
        if limit is not None:
            total += limit * 2
        total += i
    return total


def lists(n: int, m: int):
    values = [0] * 8
    other = values
    for i in range(n):
        values[i % 8] += i
        other[(i + m) % 8] = values[i % 8] * 2
        if values[i % 8] > 10:
            other.append(values[i % 8])
        values[i % 8] -= len(other)
    return values, other


def counts(n: int, m: int):
    found: Dict[int, int] = {}
    for i in range(n):
        key = (i * i) % 7
        if key in found:
            found[key] = found[key] + m
        else:
            found[key] = 1
        found[key] = found[key] * 2 + found[key]
    return found


def equal_to_constants(n: int, m: int):
    if n == 3:
        a = n * m
    elif m == 0 or n == 1:
        a = n - m
    else:
        a = m
    if not (n != 5 and m != 2):
        a += n * m
    return a, n if n == 4 else 4


def checked(n: int, m: int):
    if n != 3:
        raise ValueError("three")
    return n * m + len([n] * n)


def nested_flags(n: int, m: int):
    a = n > 2
    b = m > 2 or a
    c = a and not b or n == m
    result = 0
    if b:
        result += 1
    if c or not a:
        result += 10
    if a and b and not c:
        print("all")
        result += 100
    return result


def leaves_in_many_ways(n: int, m: int):
    total = 1
    for i in range(n):
        for j in range(i):
            total += j
            if j == m:
                break
        else:
            if i == 2:
                continue
            if i == 5:
                return -total * 2
            total += 10
        total = total % 1000 * 2
    return total


def caught(n: int, m: int):
    total = 0
    for i in range(n):
        try:
            total += 10 // (i - m)
            total += 12 // m
        except ZeroDivisionError:
            total += 1000
    return total


FUNCTIONS = (
    count_up, count_down_by_three, at_least_one_round, search, short_cut, short_cut_that_raises, early_returns,
    first_round, previous_value, invariant_that_raises, invariant_behind_a_print, invariant_of_an_optional, lists,
    counts, equal_to_constants, checked, nested_flags, leaves_in_many_ways, caught,
)  # fmt: skip
SMALL = (-3, 0, 1, 2, 3, 5, 8, 17)
ORDERS = (
    *((name,) for name in PASSES),
    PASSES,
    PASSES[::-1],
    *(tuple(random.Random(seed).sample(PASSES, len(PASSES))) for seed in range(6)),
    ("peephole", "constant_propagation", "hoist_loop_invariants"),
    ("peephole", "cse", "counted_loops", "thread_jumps", "load_elimination", "hoist_loop_invariants", "peephole"),
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_program_does_what_it_does_in_eager(function):
    graph = jitlite.script(function).graph
    inputs = [[n, m] for n in SMALL for m in SMALL]
    wanted = [observe(function, arguments).told for arguments in inputs]
    seen = set()
    for order in ORDERS:
        optimized = graph.copy()
        run(optimized, order, PassHook(verify=True))
        text = optimized.to_text(ranges=False)
        if text in seen:
            continue
        seen.add(text)
        runs = run_graph(optimized)
        for arguments, expected in zip(inputs, wanted):
            found = difference(expected, observe(runs, arguments).told, "outcome")
            assert not found, f"{function.__name__}{tuple(arguments)} after {', '.join(order)}: {found}\n{text}"


def test_numbers_beyond_64_bits_are_counted():
    graph = jitlite.script(count_up).graph
    run(graph, "counted_loops,dce", PassHook(verify=True))
    assert "aten::lt" not in str(graph)
    assert run_graph(graph)(2**70 + 2, 2**70) == count_up(2**70 + 2, 2**70)


def test_random_draws_stay_where_dropout_is_on():
    def f(x: torch.Tensor):
        y = torch.dropout(x, 0.5, False)
        z = torch.dropout(y, 0.0, True)
        return torch.dropout(z, 0.5, True) + torch.rand(3)

    graph = jitlite.script(f).graph
    run(graph, "remove_noops", PassHook(verify=True))
    assert str(graph).count("aten::dropout") == 1
    found = difference(observe(f, [torch.ones(3)]).told, observe(run_graph(graph), [torch.ones(3)]).told, "outcome")
    assert not found, found


# -- the size of code


def _loops_within_loops(depth: int) -> Graph:
    lines = ["graph(%x : int):", "  %t : bool = prim::Constant[value=1]()", "  %n : int = prim::Constant[value=60]()"]
    for level in range(depth):
        indent = "  " * (2 * level + 1)
        carried = "%x" if level == 0 else f"%p{level - 1}"
        lines.append(f"{indent}%r{level} : int = prim::Loop(%n, %t, {carried})")
        lines.append(f"{indent}  block0(%i{level} : int, %p{level} : int):")
    innermost = "  " * (2 * depth + 1)
    lines.append(f"{innermost}%q : int = aten::add(%p{depth - 1}, %i0)")
    for level in reversed(range(depth)):
        result = "%q" if level == depth - 1 else f"%r{level + 1}"
        lines.append(f"{'  ' * (2 * level + 3)}-> (%t, {result})")
    return parse("\n".join([*lines, "  return (%r0)", ""]))


@pytest.mark.parametrize("name", ["loop_unrolling", "constant_loop_unrolling"])
def test_unrolling_is_bounded(name):
    graph = _loops_within_loops(4)
    run(graph, name, PassHook(verify=True))
    assert size_of(graph.block) <= 100_000


def test_threading_at_most_doubles_the_code():
    source = ["def f(n: int, m: int) -> int:", "    total = 0", "    flag = n == 0"]
    for k in range(60):
        source += [f"    flag = flag or n == {k}", "    if flag:", f"        total += {k} * n", f"    total -= m * {k}"]
    source += ["    return total"]
    graph = jitlite.CompilationUnit("\n".join(source)).f.graph
    size = size_of(graph.block)
    run(graph, "thread_jumps", PassHook(verify=True))
    assert size_of(graph.block) <= 2 * size + LARGEST_COPY
    assert _depth(graph.block) <= DEEPEST


def _depth(block: Block) -> int:
    return 1 + max((_depth(inner) for node in block.nodes for inner in node.blocks), default=0)


def test_threading_keeps_ifs_out_of_each_other_at_some_depth():
    chain = "graph(%a : bool, %x : int):\n  %true : bool = prim::Constant[value=1]()\n"
    for k in range(100):
        before = "%a" if k == 0 else f"%f{k - 1}"
        chain += f"  %f{k} : bool = prim::If({before})\n    block0():\n      -> (%true)\n    block1():\n"
        chain += f"      %e{k} : bool = aten::eq(%x, %x)\n      -> (%e{k})\n"
    graph = parse(chain + "  return (%f99)\n")
    assert run(graph, "thread_jumps", PassHook(verify=True))
    assert 10 < _depth(graph.block) <= DEEPEST


def test_no_if_gives_a_function():
    """A constant that stands between two ifs and is used behind them stays a constant, whatever it is."""
    graph = parse("""graph(%a : bool, %n : int):
  %one : int = prim::Constant[value=1]()
  %x : int = prim::If(%a)
    block0():
      -> (%one)
    block1():
      -> (%n)
  %f : Function = prim::Constant[name="g"]()
  %two : int = prim::Constant[value=2]()
  %s : str = aten::str(%x)
   = prim::Print(%s)
  %y : int = prim::If(%a)
    block0():
      %z : int = aten::add(%x, %two)
      -> (%z)
    block1():
      -> (%x)
  %u : int = prim::CallFunction(%f, %y)
  %v : int = prim::CallFunction(%f, %two)
  %w : int = aten::add(%u, %v)
  return (%w)
""")
    assert run(graph, "thread_jumps", PassHook(verify=True))
    (branch,) = [node for node in graph.block.nodes if node.kind == "prim::If"]
    assert [v.type for v in branch.outputs] == [T.INT]
    assert all(node.inputs[0].node.kind == "prim::Constant" for node in graph.block.nodes if node.kind.endswith("Call"))


# -- options


def test_peephole_without_what_tensor_types_tell():
    text = """graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %a : int = aten::dim(%x)
  return (%a)
"""
    graph = parse(text)
    assert not peephole(graph, disable_shape_peepholes=True)
    assert peephole(graph)
    assert "aten::dim" not in str(graph)
