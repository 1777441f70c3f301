"""`==` and `!=` of tuples that hold tensors or objects: element by element, as far as Python would look."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import jitlite


class Counted:
    def __init__(self, value: int):
        self.value = value
        self.asked = 0

    def __eq__(self, other: Counted) -> bool:
        self.asked += 1
        return self.value == other.value


def tensors_second(a: Tensor, b: Tensor, n: int):
    return (n, a) == (1, b), (n, a) != (1, b)


def tensor_first(a: Tensor, b: Tensor):
    return (a, 1) == (b, 1)


def objects(m: int):
    a, b = Counted(1), Counted(m)
    same = (a, 1) == (a, 1)
    different = (1, a, b) == (2, b, a)
    equal = (a, b, 0.5) == (b, a, 0.5)
    return same, different, equal, a.asked, b.asked


def numbers(x: float):
    return (x, 1) == (x, 1), (x, "a") != (x, "a")


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("other", [1.0, 0.0])
def test_one_element(n, other):
    arguments = torch.ones(1), torch.full((1,), other), n
    assert jitlite.script(tensors_second)(*arguments) == tensors_second(*arguments)


def test_several_elements_have_no_truth_unless_they_are_the_same_tensor():
    scripted, a = jitlite.script(tensor_first), torch.ones(2)
    assert scripted(a, a) is True
    with pytest.raises(RuntimeError, match="ambiguous"):
        scripted(a, torch.ones(2))
    assert jitlite.script(tensors_second)(a, torch.zeros(2), 2) == (False, True)


@pytest.mark.parametrize("m", [1, 2])
def test_objects_are_asked_as_often_as_in_python(m):
    assert jitlite.script(objects)(m) == objects(m)


def test_numbers():
    assert jitlite.script(numbers)(1.5) == numbers(1.5)
    assert jitlite.script(numbers)(math.inf) == numbers(math.inf)
