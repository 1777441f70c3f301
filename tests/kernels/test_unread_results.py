"""What raises in eager Python raises where a kernel runs, too: also where nobody reads the result, or it is empty."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from kernel_law import compared, outcome

import jitlite
from jitlite.base import options
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


def full(x, k, by: float):
    torch.full([3], by)
    return (x * 2).relu()


def full_that_does_not_fit(x, k, by: float):
    torch.full([3], 1e300) + 1
    return (x * 2).relu()


def masked_fill(x, k, by: float):
    x.masked_fill(x > 0, by)
    return (x * 2).relu()


def clamp(x, k, by: float):
    x.clamp(max=by) + 1
    return (x * 2).relu()


def floor_divide(x, k, by: float):
    (k + 1) // k
    return (x * 2).relu()


def index_select(x, k, by: float):
    x.index_select(0, k) * 2
    return (x * 2).relu()


def embedding(x, k, by: float):
    F.embedding(k, x.view(-1, 1))
    return (x * 2).relu()


def in_a_loop(x, k, by: float):
    y = x * 2
    for i in range(3):
        (k + i) % k
        y = y + 1
    return y


def in_a_branch(x, k, by: float):
    y = x * 2
    if by > 0:
        x.new_full([2], by)
        y = y + 1
    return y * 2


def more_than_64_bits(x, k, by: float):
    unread = x * -170141183460469231731687303715884105728
    return (x * unread.numel()).relu()


def read_in_part(x, k, by: float):
    x.clamp(max=by) * x
    read = x.clamp(max=2.0)
    return read + 1


def read(x, k, by: float):
    return (x.clamp(max=by) + x.masked_fill(x > 0, by)).relu() + torch.full_like(x, by)


PROGRAMS = [
    more_than_64_bits,
    full, full_that_does_not_fit, masked_fill, clamp, floor_divide, index_select, embedding, in_a_loop, in_a_branch,
    read_in_part, read,
]  # fmt: skip
NEVER = (full_that_does_not_fit, more_than_64_bits)
"""What raises whatever it is given."""
RAISING = ([1, 7, 0], 1e300)
"""A number that is no float of 32 bits; divisors and indices among which some are wrong."""
GOOD = ([1, 2, 2], 2.0)


def told(function, arguments):
    found = outcome(function, arguments)
    return type(found.result) if isinstance(found.result, Exception) else found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("size", [3, 0])
def test_what_nobody_reads_raises(program, size):
    with options.override(native="now"):
        scripted = jitlite.script(program)
        for numbers, by in (GOOD, RAISING):
            arguments = (torch.ones(size), torch.tensor(numbers[:size], dtype=torch.int64), by)
            expected, got = told(program, arguments), told(scripted, arguments)
            if isinstance(expected, type):
                assert got is expected
            else:
                assert compared(expected, got) is None
        if size and program not in NEVER:
            states = [r.implementation for r in scripted.executor.general.regions if r.implementation is not None]
            assert any(state.runs for state in states), [state.status for state in states]
