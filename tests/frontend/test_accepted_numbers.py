"""Numbers that come out of tensors: an int is an int, and a float is never cut off where an int is wanted."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite

TWO, FLOAT, TRUE = torch.tensor(2), torch.tensor(1.7), torch.tensor(True)

INDICES: Table = {
    "rows": ("x: Tensor, t: Tensor", "i = t.item()\nreturn x[i], x[t.sum().item()]", [[T34, TWO], [T34, FLOAT]]),
    "several": (
        "x: Tensor, t: Tensor",
        "return x[0, t.item()], x[..., t.item()], x[:, t.item() :], x[None, t.item()]",
        [[T34, TWO], [T34, FLOAT]],
    ),
    "written": ("x: Tensor, t: Tensor", "x = x.clone()\nx[t.item()] = 1\nreturn x", [[T34, TWO], [T34, FLOAT]]),
    "of lists": (
        "xs: List[int], t: Tensor",
        "n = t.item()\nxs[n] += 5\nreturn xs[n], xs[t.item() :], xs[:n], [0] * n",
        [[[1, 2, 3], TWO], [[1, 2, 3], FLOAT], [[1, 2, 3], TRUE]],
    ),
    "the largest": ("x: Tensor", "i = x.argmax().item()\nreturn x.flatten()[i], x[0, x[0].argmin().item()]", [[T34]]),
    "a bound that is no int": ("x: Tensor, t: Tensor", "return x[: t.item()]", [[T34, TWO], [T34, FLOAT]]),
}

SIZES: Table = {
    "ranges": (
        "t: Tensor",
        "n = t.max().item()\ns = 0\nfor i in range(n + 1):\n  s += i\n"
        "return s, [i for i in range(n)], sum(range(1, n)), list(range(n, 9, n))",
        [[TWO], [FLOAT]],
    ),
    "a range of a bool": ("t: Tensor", "return [i for i in range(t.item())]", [[TRUE]]),
    "enumerate": (
        "t: Tensor, xs: List[int]",
        "return [i for i, _ in enumerate(xs, t.item())]",
        [[TWO, [1]], [FLOAT, [1]]],
    ),
    "factories": (
        "t: Tensor",
        "n = t.item() + 1\nreturn torch.zeros(n, 2), torch.zeros((n, 2)), torch.zeros([2, t.item()]), torch.ones(n)",
        [[TWO], [FLOAT]],
    ),
    "methods": (
        "x: Tensor, t: Tensor",
        "n = t.item()\nreturn x.view(n, -1), x.reshape((n, 6)), x.select(0, n), x.narrow(0, 0, n)",
        [[T34, TWO], [T34, FLOAT]],
    ),
    "bits": ("t: Tensor", "return t.item() & 1, t.item() << 1, chr(t.item()), hex(t.item())", [[TWO], [FLOAT]]),
}

ARITHMETIC: Table = {
    "divmod": (
        "t: Tensor, v: float",
        "a, b = divmod(t.item(), 2)\nreturn a, b, divmod(7, t.item()), divmod(v, t.item()), divmod(v, 2)",
        [[TWO, 7.5], [FLOAT, 2.0]],
    ),
    "membership": (
        "t: Tensor, v: float, xs: List[int], d: Dict[int, str]",
        "return t.item() in xs, t.item() in [1, 2], t.item() not in (1, 2), v in xs, v in [1, 2], t.item() in d, "
        "t.item() in (1.5, 2.0)",
        [[TWO, 1.0, [1, 2], {2: "a"}], [FLOAT, 1.5, [1, 2], {1: "a"}]],
    ),
    "a declared int": ("t: Tensor", "n: int = t.item()\nreturn n + 1", [[TWO], [TRUE]]),
}


@pytest.mark.parametrize("name", INDICES)
def test_indices(name):
    check_case(INDICES, name)


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    check_case(SIZES, name)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name):
    check_case(ARITHMETIC, name)


@pytest.mark.parametrize("body", [
    "n: int = t.item()\nreturn n",
    "def g(n: int):\n    return n + 1\nreturn g(t.item())",
    "def g(x: Tensor) -> int:\n    return x.item()\nreturn g(t)",
    "xs: List[int] = []\nxs.append(t.item())\nreturn xs",
    "d: Dict[int, int] = {}\nd[t.item()] = 1\nreturn d",
])  # fmt: skip
def test_a_float_is_refused_where_an_int_is_declared(body):
    # Python would go on with the float; a program whose type says int cannot
    function = jitlite.script(compile_source(source_of("t: Tensor", body))["f"])
    function(TWO)
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        function(FLOAT)


def test_a_bool_adds_no_dimension():
    function = jitlite.script(compile_source(source_of("x: Tensor, t: Tensor", "return x[t.item()]"))["f"])
    with pytest.raises(IndexError, match="this number is a bool"):
        function(T34, TRUE)


def test_a_list_that_may_hold_floats_is_no_size():
    source = source_of("t: Tensor", "n = [t.item(), 2]\nreturn torch.zeros(n)")
    with pytest.raises(jitlite.CompileError, match="a list that may hold ints and floats") as raised:
        jitlite.script(compile_source(source)["f"])
    assert "int(n)" in str(raised.value)
