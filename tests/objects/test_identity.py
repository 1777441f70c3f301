"""Two objects stay two where a program can tell."""

from __future__ import annotations

import pytest
import torch

import jitlite


def equal_lists() -> bool:
    a = torch.ones(2)
    b = torch.ones(2)
    return [a, b] == [b, a]


def found_in_list() -> int:
    a = torch.zeros(3)
    b = torch.zeros(3)
    return [a].index(b)


@pytest.mark.parametrize("function", [equal_lists, found_in_list])
def test_elements_are_equal_to_themselves_but_compared_by_value_to_others(function):
    with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
        function()
    with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
        jitlite.script(function)()
