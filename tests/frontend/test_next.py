"""`next` of a generator expression, and of what `iter` gives, is the first element, as in Python."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, check_module, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

NEXT: Table = {
    "with a default": (
        "xs: List[int]",
        "return next((x for x in xs if x > 3), -1), next(iter(xs), 0), next((x > 2 for x in xs), True)",
        [[[1, 5]], [[]]],
    ),
    "with None": (
        "xs: List[int]",
        "v = next((x for x in xs if x > 3), None)\nreturn 0 if v is None else v",
        [[[1, 5]], [[]]],
    ),
    "without": ("xs: List[int]", "return next(i for i, x in enumerate(xs) if x > 3)", [[[1, 5, 7]], [[1]], [[]]]),
    "of a dict": (
        "d: Dict[str, int]",
        "return next(iter(d)), next(iter(d.values())), next(iter(d.items()))",
        [[{"a": 1, "b": 2}], [{}]],
    ),
    "later elements are not computed": (
        "xs: List[int]",
        "return next((10 // x for x in xs), -1)",
        [[[1, 0]], [[0, 1]]],
    ),
    "of tuples and tensors": (
        "x: Tensor",
        "return next(iter((x, x + 1))), next((y for y in (x, x + 1) if y.sum() > 70), x), next(iter(x))"
        ", next(iter(()), 3)",
        [[T34], [torch.zeros(0)]],
    ),
    "in a loop": (
        "xs: List[int]",
        "t = 0\nfor i in range(3):\n t += next((x for x in xs if x > i), 100)\nreturn t",
        [[[1, 5]], [[]]],
    ),
    "the default comes first": (
        "xs: List[int]",
        "def bump(k: int):\n xs.append(k)\n return k\nreturn next((x for x in xs if x > 2), bump(3)), xs",
        [[[1, 5]], [[]]],
    ),
    "of iterators of Python": (
        "xs: List[int]",
        "return next(enumerate(xs)), next(zip(xs, 'ab')), next(reversed(xs)), next(map(str, xs), ''), "
        "next(filter(lambda x: x > 2, xs), 0)",
        [[[1, 5]], [[]]],
    ),
    "only where it is asked for": (
        "xs: List[int], a: bool",
        "return a or next(x for x in xs) > 2",
        [[[], True], [[], False], [[3], False]],
    ),
}


@pytest.mark.parametrize("name", NEXT)
def test_next_is_the_first_element(name):
    check_case(NEXT, name)


@pytest.mark.parametrize(
    "body",
    ["it = iter(xs)\nreturn next(it)", "return next(xs)", "return next(list(xs))", "return next(iter((1, 'a')), 2)"],
)
def test_iterators_that_are_kept_are_refused(body):
    function = compile_source(source_of("xs: List[int]", body))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)


MODULE = """
import torch
from torch import nn

class M(nn.Module):
    def __init__(self, missing):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm1d(4)])
        self.plain = nn.ReLU()
        self.missing = missing

    def forward(self, x):
        x = x.to(next(self.parameters()).dtype).to(next(iter(self.buffers())).device)
        name, first = next(self.layers[0].named_parameters())
        none = next(self.plain.parameters(), None)
        if self.missing:
            x = next(self.plain.parameters())
        return next(self.layers.children())(x), name, first, none is None, next(self.plain.buffers(), x)
"""


@pytest.mark.parametrize("missing", [False, True])
def test_next_of_what_a_module_goes_through_is_its_first_part(missing):
    check_module(compile_source(MODULE)["M"](missing).eval(), [[T34.double()]])


def test_methods_of_such_a_name_that_give_a_list_are_refused():
    source = MODULE + "\n    def parameters(self):\n        return [torch.ones(1)]\n"
    with pytest.raises(CompileError, match="next takes a generator"):
        jitlite.script(compile_source(source)["M"](False))
