"""The lines at which the debugger stops, beside those at which Python's own tracing does."""

import contextlib
import io
import re
import sys
from typing import List

import pytest
import torch
from torch import Tensor

import jitlite


def plus(x: Tensor, k: int) -> Tensor:
    y = x + k
    return y


def capped(n: int) -> int:
    if n > 2:
        return n
    return n + 1


def calls_in_calls(x: Tensor, n: int) -> Tensor:
    y = plus(plus(x, capped(n)), capped(n + 1))
    return y


def a_call_over_lines(x: Tensor, n: int) -> Tensor:
    y = plus(
        plus(x, n),
        capped(n),
    )
    return y


# fmt: off
def loops(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x + i
    for i in range(n): x = x * 2  # noqa: E701
    while n > 0:
        n -= 1
    while n < 3: n += 1  # noqa: E701
    return x
# fmt: on


def leaves_loops(x: Tensor, n: int) -> Tensor:
    while n > 0:
        n -= 1
        if n == 4:
            continue
        if n == 2:
            break
    for i in range(n):
        if i == 1:
            return x + i
        x = x * 2
    return x


def loops_in_loops(x: Tensor, n: int) -> Tensor:
    total = 0
    for i in range(n):
        for j in range(i):
            if j == 1:
                continue
            total += j
        else:
            total += 10
    return x + total


def branches(x: Tensor, n: int) -> Tensor:
    if n < 0:
        r = 1
    elif n == 2:
        r = 2
    elif n == 3 and x.dim() == 1:
        r = 3
    else:
        r = 4
    return x + r


def small_statements(x: Tensor, n: int) -> Tensor:
    """Has a docstring."""
    assert n >= 0, "negative"
    pass
    a, b = n, n + 1
    c: int = a
    del a
    c += b
    x.add_(0)
    return x + c


def blocks(x: Tensor, n: int) -> Tensor:
    with torch.no_grad():
        y = x * 2
        z = y + 1
    try:
        if n > 1:
            raise ValueError("big")
        z = z * 2
    except ValueError:
        z = z * 3
    finally:
        z = z + 1
    return z


def lists(x: Tensor, n: int) -> List[Tensor]:
    found: List[Tensor] = []
    for part in x:
        found.append(part)
    for k, part in enumerate(found):
        found[k] = part + n
    return found


PROGRAMS = [
    calls_in_calls, a_call_over_lines, loops, leaves_loops, loops_in_loops, branches, small_statements, blocks, lists,
]  # fmt: skip


def traced_by_python(f, *args):
    """The lines that `sys.settrace` tells of."""
    found = []

    def look(frame, event, arg):
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            found.append((frame.f_lineno, frame.f_code.co_name))
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        f(*args)
    finally:
        sys.settrace(before)
    return found


def stepped_through(f, *args):
    """The lines at which the debugger stops."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        jitlite.debug_with(["step"] * 300, f, *args)
    stops = re.findall(r"(Return value.*\n)?^> .*test_lines\.py\((\d+)\)(\w+)\(\)", shown.getvalue(), re.MULTILINE)
    return [(int(line), name) for returns, line, name in stops if not returns]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="versions of Python differ in where lines begin")
@pytest.mark.parametrize("n", [0, 2, 3, 6])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_the_debugger_stops_where_python_does(f, n):
    wanted = traced_by_python(f, torch.ones(2), n)
    assert stepped_through(f, torch.ones(2), n) == wanted


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_breakpoint_stops_once_for_each_time_that_its_line_begins(f):
    lines = traced_by_python(f, torch.ones(2), 3) if sys.version_info[:2] == (3, 11) else []
    for line in {line for line, name in lines if name == f.__name__}:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            jitlite.debug_with([f"break {line}", *["continue"] * 60], f, torch.ones(2), 3)
        hits = shown.getvalue().count("\nBreakpoint 1: ") - 1  # it is told when it is set
        begun = [at for at, _ in lines].count(line)
        assert hits == begun - (lines[0][0] == line), line  # the debugger stops at the first line anyway
