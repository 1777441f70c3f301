"""Values in few words, and where these words stand: at the prompt of the debugger, in errors of the stack machine."""

from __future__ import annotations

import contextlib
import io
import itertools

import pytest
import torch

import jitlite
from jitlite import options
from jitlite.interpreter.value_words import in_brief, short_repr

LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        ([1, 2, 3], "[1, 2, 3]"),
        (torch.ones(2), "tensor([1., 1.])"),
        ({"a": [torch.ones(1)]}, "{'a': [tensor([1.])]}"),
        ([1] * 5000, "[1, 1, 1, 1, 1, 1, ...]"),
        (LOOP, "[...]"),
    ],
    ids=["int", "list", "tensor", "dict", "long", "cycle"],
)
def test_a_short_value_has_its_own_text(value, shown):
    if value is LOOP:
        assert len(short_repr(value)) < 100
    else:
        assert short_repr(value) == shown


@pytest.mark.parametrize(
    "value",
    [
        [torch.rand(100) for _ in range(50)],
        [[torch.rand(9)] * 20] * 20,
        {str(i): list(range(50)) for i in range(200)},
        "x" * 100_000,
        [["x" * 10_000] * 9] * 9,
        tuple(range(10**6)),
        10**3000,
        set(range(5000)),
        [torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(100)])],
    ],
    ids=["tensors", "nested", "dict", "text", "texts", "tuple", "int", "set", "module"],
)
def test_whatever_is_long_is_shown_short(value):
    assert len(short_repr(value)) < 5000
    assert short_repr(value).count("\n") < 20


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.ones(2, 3, dtype=torch.int8), "int8[2, 3]"),
        (torch.ones(()), "float32[]"),
        ([torch.ones(1)], "list of 1: Float(1, strides=[1], requires_grad=0, device=cpu)"),
        (None, "None"),
    ],
)
def test_a_tensor_on_its_own_is_dtype_and_sizes(value, words):
    assert in_brief(value) == words


def one(x: torch.Tensor) -> torch.Tensor:
    return x.view(7)


def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.matmul(x, y)


def three(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.add(x, y)


def several(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.addmm(x, y, y)


def listed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y], 5)


@pytest.mark.parametrize("function", [one, two, three, several])
@pytest.mark.parametrize("executor", ["profiling", "off"])
def test_an_error_of_the_stack_machine_tells_what_its_operator_was_given(function, executor):
    arguments = [torch.ones(2, 3), torch.ones(5, 4, dtype=torch.float64)][: function.__code__.co_argcount]
    with options.override(tier="stack", executor=executor), pytest.raises(RuntimeError) as raised:
        jitlite.script(function)(*arguments)
    (note,) = raised.value.__notes__
    (told,) = [line for line in note.details if line.startswith("with ")]
    assert note.endswith("\n".join(note.details)) and "float32[2, 3]" in told
    assert len(arguments) == 1 or "float64[5, 4]" in told


def test_explain_tells_what_the_call_and_the_operator_that_raised_were_given():
    for tier in ("stack", "python"):
        with options.override(tier=tier):
            _, ended, given = jitlite.script(one).explain(torch.ones(2)).sections["This call"]
        assert "it raised RuntimeError" in ended and ended.endswith("float32[2])")
        assert given == "it was given x: float32[2]"


def rebound(x: torch.Tensor) -> torch.Tensor:
    y = x
    x = x.sum(0)
    z = y * x
    return z


def test_a_name_that_was_bound_again_tells_the_value_that_the_node_takes():
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        jitlite.debug_with(["next"] * 5, rebound, torch.ones(2, 3))
    told = output.getvalue().partition("source")[2]
    (node,) = {line for line in told.splitlines() if "aten::mul(" in line}
    (words,) = {after for line, after in itertools.pairwise(told.splitlines()) if line == node}
    assert "%x.1: float32[2, 3]" in words and "float32[3]" in words
