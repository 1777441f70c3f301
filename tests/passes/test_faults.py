"""A test suite is worth what it finds: every fault planted in a pass is found by the random programs."""

from __future__ import annotations

import pytest
from faults import FAULTS
from laws import Broken, check
from strategies import THEMES, random_program

ENOUGH = 150
"""Programs of each theme that are tried before a fault counts as not found."""


@pytest.mark.slow
@pytest.mark.parametrize("name, plant", FAULTS, ids=[name for name, _ in FAULTS])
def test_the_random_programs_find(name, plant):
    for number in range(ENOUGH):
        for theme in THEMES:
            program = random_program(number, theme)
            try:
                with plant():
                    check(program, seed=number)
            except Broken:
                check(program, seed=number)  # without the fault all is well
                return
    pytest.fail(f"{len(THEMES) * ENOUGH} programs did not find the fault {name!r}")
