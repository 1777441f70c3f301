"""Types of parameters without annotations, from example inputs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

import jitlite


def plus(a, b):
    return a + b


def half(x):
    return x // 2


def halves(xs, step=1):
    return [half(x) + step for x in xs]


def either(x) -> Any:
    if isinstance(x, int):
        return x + 1
    return x


def or_none(x) -> int:
    return 0 if x is None else x


class Scale(torch.nn.Module):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x, name):
        return self.scaled(x) if name == "scale" else x

    def scaled(self, x):
        return [v * self.factor for v in x]

    @jitlite.export
    def times(self, n):
        return n * self.factor


class Adder:
    def __init__(self, start: int) -> None:
        self.start = start

    def add(self, n):
        return self.start + n


def use(adder, n):
    return adder.add(n)


@pytest.mark.parametrize(
    "function, examples, schema",
    [
        (plus, [(1, 2)], "plus(int a, int b) -> int"),
        (plus, [("a", "b")], "plus(str a, str b) -> str"),
        (plus, [(torch.ones(2), 1.5)], "plus(Tensor a, float b) -> Tensor"),
        (halves, [([2, 4],)], "halves(int[] xs, int step=1) -> int[]"),
        (halves, [([],), ([3],)], "halves(int[] xs, int step=1) -> int[]"),
        (either, [(1,), ("a",), ([1.0],)], "either(Any x) -> Any"),
        (or_none, [(None,), (3,)], "or_none(int? x) -> int"),
    ],
)
def test_examples_give_the_types_of_parameters(function, examples, schema):
    scripted = jitlite.script(function, example_inputs=examples)
    assert str(scripted.schema) == schema
    for arguments in examples:
        torch.testing.assert_close(scripted(*arguments), function(*arguments)) if schema.endswith("Tensor") else None
        assert schema.endswith("Tensor") or scripted(*arguments) == function(*arguments)


def test_without_examples_the_types_are_forgotten():
    jitlite.script(plus, example_inputs=[(1, 2)])
    assert str(jitlite.script(plus).schema) == "plus(Tensor a, Tensor b) -> Tensor"


def test_modules_and_their_methods():
    module = Scale(3)
    scripted = jitlite.script(module, example_inputs={module: [([1, 2], "scale")], module.times: [(2,)]})
    assert scripted([1, 2], "scale") == [3, 6] and scripted.times(5) == 15


def test_classes_take_their_methods_examples():
    class Counter:
        def __init__(self) -> None:
            self.seen = 0

        def count(self, words, wanted):
            for word in words:
                if word == wanted:
                    self.seen += 1
            return self.seen

    counter = Counter()
    jitlite.script(Counter, example_inputs={counter.count: [(["a"], "a")]})

    def run() -> int:
        return Counter().count(["x", "y", "x"], "x")

    assert jitlite.script(run)() == 2


def test_objects_of_script_classes_as_examples():
    scripted = jitlite.script(use, example_inputs=[(Adder(1), 2)])
    assert scripted(Adder(10), 5) == 15


def test_an_error_in_an_example_is_the_callers():
    profile = sys.getprofile()
    with pytest.raises(ZeroDivisionError):
        jitlite.script(lambda x: 1 // x, example_inputs=[(0,)])
    assert sys.getprofile() is profile


@pytest.mark.parametrize("wrong", [(1, 2), [1, 2], {plus: (1, 2)}])
def test_examples_are_lists_of_tuples(wrong):
    with pytest.raises(ValueError, match=r"such as \[\(1, 2\)\]"):
        jitlite.script(plus, example_inputs=wrong)
