"""Values from the text of arguments, and nothing but values."""

from __future__ import annotations

import math

import pytest
import torch

from jitlite.base.source import CompileError
from jitlite.cli.literals import parse_value
from jitlite.debug.equality import difference


@pytest.mark.parametrize(
    "text, value",
    [
        ("3", 3),
        ("-2.5", -2.5),
        ("'a b'", "a b"),
        ("[1, 2 * 3, -4]", [1, 6, -4]),
        ("(1, 'x', None)", (1, "x", None)),
        ("{'a': [True, False]}", {"a": [True, False]}),
        ("inf", math.inf),
        ("float64", torch.float64),
        ("torch.int32", torch.int32),
        ("ones(2, 3)", torch.ones(2, 3)),
        ("torch.arange(6).float().reshape(2, 3) + 1", torch.arange(1.0, 7.0).reshape(2, 3)),
        ("tensor([[1, 2]], dtype=float32)", torch.tensor([[1.0, 2.0]])),
        ("[zeros(1), full((2,), 7.0)]", [torch.zeros(1), torch.tensor([7.0, 7.0])]),
        ("1 + 2j", 1 + 2j),
    ],
)
def test_values(text, value):
    assert difference(value, parse_value(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "x", "__import__('os')", "open('f')", "().__class__", "tensor.__class__", "ones(1).__class__", "lambda: 1",
        "[c for c in (1,)]", "torch.load('f')", "ones(1).numpy()", "(1).real", "f''", "1 if 1 else 2", "2 ** 9", "1 +",
        "tensor(", "ones(-1)", "1 / 0", "'a' + 1", "",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(CompileError):
        parse_value(text)


def test_a_misspelt_name_gets_a_hint():
    with pytest.raises(CompileError, match="ones"):
        parse_value("onse(2)")


@pytest.mark.parametrize(
    "a, b",
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(2, 1)),
        (torch.ones(2), torch.ones(2).requires_grad_()),
        (ValueError("a"), KeyError("a")),
        (ValueError("a"), None),
        ([torch.zeros(1), 1], [torch.zeros(1), 2]),
    ],
)
def test_what_differs(a, b):
    assert difference(a, b)
    assert difference(a, a) is None


def test_nan_is_nan():
    assert difference([math.nan, torch.tensor([math.nan])], [math.nan, torch.tensor([math.nan])]) is None
