"""Random programs of operators on tensors, run by engines beside eager, for all numbers of rows and not by jitlite.

`tests/support/engine_programs.py` runs more of them by hand.
"""

from __future__ import annotations

import pytest
from engine_checks import PACKAGES, assert_engine_computed, need
from engine_programs import check_program


@pytest.mark.parametrize("number", range(6))
def test_by_onnxruntime(number):
    need("onnxruntime")
    assert_engine_computed(check_program(number, "onnxruntime"))


def test_by_iree():
    need("iree")
    assert_engine_computed(check_program(3, "iree"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", PACKAGES)
def test_more_of_them(engine):
    need(engine)
    for number in range(10, 40 if engine == "iree" else 100):
        assert_engine_computed(check_program(number, engine), 0.9)
