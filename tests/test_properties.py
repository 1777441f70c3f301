"""Programs made at random do the same in eager Python and in jitlite, whatever passes run (see laws.py).

`make test` runs the same 1,000 programs every time, each with some of the passes. `make explore` runs new ones with all
passes until its time is over; a program that fails is printed as short as Hypothesis can make it.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from laws import EVERY, check
from strategies import THEMES, programs, random_program

PROGRAMS_PER_THEME = 150
EXPLORE_SECONDS = float(os.environ.get("EXPLORE_SECONDS", "0"))
_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


@pytest.mark.parametrize("theme", THEMES)
def test_programs_do_what_they_do_in_eager(theme):
    done = 0

    @settings(max_examples=PROGRAMS_PER_THEME, derandomize=True, database=None, **_COMMON)
    @given(programs(theme), st.integers(0, 1 << 30))
    def holds(program, order_seed):
        nonlocal done
        check(program, seed=order_seed)
        done += 1

    holds()
    assert done >= PROGRAMS_PER_THEME, f"only {done} programs were made"


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_longer_programs(theme):
    """Larger programs, made without Hypothesis, with all passes, for half a minute each."""
    end, number = time.monotonic() + 30, 0
    while time.monotonic() < end:
        check(random_program(number, theme, size=40), EVERY, seed=number)
        number += 1
    print(f"{number} programs about {theme}")


@pytest.mark.skipif(not EXPLORE_SECONDS, reason="random: make explore")
def test_explore():
    end, done = time.monotonic() + EXPLORE_SECONDS, 0
    while time.monotonic() < end:
        theme, start = random.choice(list(THEMES)), random.getrandbits(32)
        print(f"\rprograms: {done}", end="", flush=True)

        @seed(start)
        @settings(max_examples=200, phases=[Phase.generate, Phase.shrink], database=None, **_COMMON)
        @given(programs(theme, size=random.choice([6, 12, 24])), st.integers(0, 1 << 30))
        def holds(program, order_seed):
            check(program, EVERY, seed=order_seed)

        holds()
        done += 200
