"""Trees are those of torch.jit, over the corpus; and the corpus is what it says."""

import ast

import pytest
import torch
from torch.jit.frontend import build_expr, get_jit_def, make_source_context

from jitlite.frontend.syntax.python_ast import function_tree, parse_expression

from .corpus import EXAMPLES

WANTED = 210
IDS = [item.name for item in EXAMPLES]


def test_corpus_is_large_and_distinct():
    assert len(EXAMPLES) >= WANTED
    assert len(set(IDS)) == len(IDS)
    bodies = {function_tree(item.function).definition.body for item in EXAMPLES}
    assert len(bodies) == len(EXAMPLES)


@pytest.mark.parametrize("item", EXAMPLES, ids=IDS)
def test_tree(item):
    expected = get_jit_def(item.function, item.function.__name__)
    assert str(function_tree(item.function).definition) == str(expected).rstrip("\n")


@pytest.mark.parametrize("item", EXAMPLES, ids=IDS)
def test_corpus_runs_and_is_torchscript(item):
    torch.jit.script(item.function)
    calls = list(item.arguments())
    assert calls
    for arguments in calls:
        item.function(*arguments)


RANGES = [
    "a + b * c",
    "(a + b) * (c + d)",
    "f(x)",
    "f(x, k=1)",
    "f()",
    "a.b.c",
    "x[1]",
    "x[1, 2]",
    "x[a:b]",
    "x[f(a)]",
    "x[()]",
    "[a, b]",
    "(a, b)",
    "{a: b}",
    "()",
    "-a",
    "not a",
    "a < b",
    "a not in b",
    "a < b < c",
    "a and b and c",
    "c if a else b",
    "[i for i in x]",
    "{i: j for i, j in x}",
    "'abc'",
    "10.5",
    "None",
    "True",
    "...",
    "f'{a}b'",
    "f(*x)",
]


@pytest.mark.parametrize("text", RANGES)
def test_ranges(text):
    context = make_source_context(text, "t.py", 0, 0, True, "f")
    expected = build_expr(context, ast.parse(text, mode="eval").body).range()
    found = parse_expression(text).range
    assert (found.start, found.end) == (expected.start, expected.end)
