"""Sizes as formulas: laws, beside the numbers that they stand for."""

from __future__ import annotations

import random

import pytest

from jitlite.engines.stablehlo.sizes import Dim, Size, least, maximum, minimum, product, text_of, value_of, variable

N, M = variable("n", 2), variable("m", 2)
ANY = variable("i", None)


def random_dim(rng: random.Random, depth: int) -> tuple[Dim, str]:
    """A formula, and Python that computes it."""
    if depth == 0:
        name = rng.choice("nmi")
        number = rng.randint(-4, 6)
        return rng.choice([({"n": N, "m": M, "i": ANY}[name], name), (number, f"({number})")])
    (a, left), (b, right) = random_dim(rng, depth - 1), random_dim(rng, depth - 1)
    op = rng.choice(["+", "-", "*", "//", "min", "max"])
    if op in ("min", "max"):
        return (minimum if op == "min" else maximum)(a, b), f"{op}({left}, {right})"
    if op == "//":
        b = rng.choice([1, 2, 3, 5, N, N * M])
        right = {N: "n", N * M: "(n * m)"}.get(b, b)
        return a // b, f"({left} // {right})"
    return {"+": a + b, "-": a - b, "*": a * b}[op], f"({left} {op} {right})"


@pytest.mark.parametrize("seed", range(20))
def test_formulas_are_what_they_stand_for(seed):
    rng = random.Random(seed)
    for _ in range(100):
        dim, code = random_dim(rng, rng.randint(0, 4))
        bound = least(dim)
        for _ in range(5):
            numbers = {"n": rng.randint(2, 9), "m": rng.randint(2, 9), "i": rng.randint(-9, 9)}
            expected = eval(code, {"min": min, "max": max}, numbers)
            assert value_of(dim, numbers) == expected, (code, text_of(dim, {}))
            assert bound is None or bound <= expected, (code, bound)
            assert eval(text_of(dim, {}), {"min": min, "max": max}, numbers) == expected, code


def test_equal_formulas_are_one():
    assert (N + 1) * 2 - N * 2 == 2
    assert N * M * 6 // (M * 2) == N * 3
    assert (N * 4 + 3) // 2 == N * 2 + 1
    assert product([N, 3, M]) == M * N * 3 and N - N == 0
    assert minimum(N, 1) == 1 and maximum(N, 2) == N and minimum(N + 1, N) == N
    assert isinstance(minimum(N, 5), Size) and least(minimum(N, 5)) == 2
    assert text_of(minimum(N * 2, 5), {"n": "x.size(0)"}) == "min(2 * x.size(0), 5)"


def test_division_by_zero_is_python_s():
    with pytest.raises(ZeroDivisionError):
        N // 0
