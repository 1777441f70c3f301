"""Numbers in place of tensors: what the graph of an engine holds for them has contents, in every call."""

from __future__ import annotations

import pytest
import torch
from engine_checks import assert_engine_computed, small_engine

import jitlite


def first_of_floor_division(x: torch.Tensor) -> torch.Tensor:
    return 1.5 // x


def bool_of_floor_division(x: torch.Tensor) -> torch.Tensor:
    return True // x


def of_remainder(x: torch.Tensor) -> torch.Tensor:
    return 7 % x


def of_difference(x: torch.Tensor) -> torch.Tensor:
    return 2 - x


def of_quotient(x: torch.Tensor) -> torch.Tensor:
    return 2 / x


def of_power(x: torch.Tensor) -> torch.Tensor:
    return 2**x


def of_comparison(x: torch.Tensor) -> torch.Tensor:
    return 2 < x


def second_of_floor_division(x: torch.Tensor) -> torch.Tensor:
    return x // 1.5


FUNCTIONS = [
    first_of_floor_division,
    bool_of_floor_division,
    of_remainder,
    of_difference,
    of_quotient,
    of_power,
    of_comparison,
    second_of_floor_division,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_number_in_place_of_a_tensor(function, dtype):
    for _ in range(2):  # what the first trace leaves behind must not change the second
        fast = jitlite.optimize(function, torch.ones(4, 3, dtype=dtype), small_engine("onnxruntime"), {"x": [0]})
        for n in (4, 2, 5):
            x = torch.arange(1, 1 + n * 3).reshape(n, 3).to(dtype)
            found, expected = fast(x), function(x)
            assert type(found) is torch.Tensor and found.dtype == expected.dtype
            torch.testing.assert_close(found, expected)
        assert_engine_computed(fast, 0.0 if function is of_power and dtype is torch.int64 else 1.0)
