"""Functions and operators of Python on tensors mean what they mean in Python, not torch's operators of these names."""

from __future__ import annotations

import cmath
import io
import math
import warnings
from typing import Dict, List

import pytest
import torch
from torch import nn

import jitlite
from jitlite.debug.equality import difference

MATRIX = torch.arange(6.0).reshape(2, 3)
VECTORS = [
    torch.arange(3, dtype=torch.int8),
    torch.tensor([True, False]),
    torch.zeros(2),
    torch.ones(1, dtype=torch.half),
]
SINGLE = [torch.tensor(0.5), torch.tensor([2.0]), torch.tensor(3)]


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error)


def sums(x: torch.Tensor):
    return sum(x), sum(x, 1), sum(x, x[0])


def any_of_elements(x: torch.Tensor):
    return any(x)


def all_of_elements(x: torch.Tensor):
    return all(x)


def of_torch(x: torch.Tensor):
    return torch.sum(x), x.sum(), torch.any(x), x.all(), sum(x.shape), any([True]), all([True, False])


@pytest.mark.parametrize("function", [sums, any_of_elements, all_of_elements, of_torch])
@pytest.mark.parametrize("x", [MATRIX, torch.tensor(2.0), *VECTORS], ids=str)
def test_builtins_go_over_rows(function, x):
    assert difference(outcome(function, x), outcome(jitlite.script(function), x)) is None


def test_a_sum_of_rows_has_gradients_and_is_saved():
    class Sums(nn.Module):
        def forward(self, x: torch.Tensor):
            return sum(x), any(x[0] > 4)

    buffer = io.BytesIO()
    jitlite.save(jitlite.script(Sums()), buffer)
    for module in (jitlite.load(io.BytesIO(buffer.getvalue())), torch.jit.load(io.BytesIO(buffer.getvalue()))):
        assert difference(Sums()(MATRIX), module(MATRIX)) is None
    x = MATRIX.clone().requires_grad_()
    jitlite.script(Sums())(x)[0].sum().backward()
    assert torch.equal(x.grad, torch.ones(2, 3))


def of_math(x: torch.Tensor):
    return math.sqrt(x), math.exp(x), math.floor(x), math.isnan(x), math.copysign(x, -1.0), math.fabs(x), math.modf(x)


def of_two(x: torch.Tensor):
    return math.atan2(x, x), math.pow(x, 2.0), math.fmod(x, x)


def of_ints(x: torch.Tensor):
    return math.factorial(x), math.gcd(x, 6), math.ldexp(x, 2)


def of_cmath(x: torch.Tensor):
    return cmath.sqrt(x), cmath.exp(x), cmath.phase(x), cmath.isnan(x)


@pytest.mark.parametrize("function", [of_math, of_two, of_cmath])
@pytest.mark.parametrize("x", SINGLE, ids=str)
def test_functions_of_numbers_give_numbers(function, x):
    assert difference(function(x), jitlite.script(function)(x)) is None


def test_functions_of_ints_give_ints():
    assert difference(of_ints(torch.tensor(3)), jitlite.script(of_ints)(torch.tensor(3))) is None


def test_functions_of_numbers_take_no_tensor_of_many_elements():
    def root(x: torch.Tensor):
        return math.sqrt(x)

    assert outcome(jitlite.script(root), MATRIX) is outcome(root, MATRIX) is ValueError


def test_cmath_gives_complex_numbers():
    def f(x: float, n: int, z: complex):
        return cmath.sqrt(x), cmath.log(n), cmath.sin(z), cmath.isinf(x), cmath.rect(x, n), cmath.log(z, x)

    assert difference(f(-2.0, 3, 1j), jitlite.script(f)(-2.0, 3, 1j)) is None


def test_no_tensor_is_a_dtype():
    def f(x: torch.Tensor):
        return x is torch.int32, x is not torch.int32, x.dtype is torch.float32

    assert jitlite.script(f)(MATRIX) == (False, True, True)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x):
        return self.layers[0, 1](x)


def read(xs: List[int]):
    return xs[1,]


def read_key(d: Dict[int, int]):
    return d[1,]


def written(xs: List[int]):
    xs[1,] = 2


def augmented(d: Dict[int, int]):
    d[1,] += 2


def deleted(d: Dict[int, int]):
    del d[1,]


@pytest.mark.parametrize(
    "program", [Layers(), read, read_key, written, augmented, deleted], ids=lambda p: getattr(p, "__name__", "layers")
)
def test_only_tensors_are_indexed_by_tuples(program):
    with pytest.raises(jitlite.CompileError, match="multidimensional indexing|subscripted|augmented|deletes one item"):
        jitlite.script(program)


def test_tensors_are_indexed_by_tuples_of_one():
    def f(x: torch.Tensor):
        x[0,] += 1
        return x[1,], x[1:,], x[()]

    assert difference(f(MATRIX.clone()), jitlite.script(f)(MATRIX.clone())) is None


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
