"""What errors say about names, annotations and attributes, and what they underline."""

from __future__ import annotations

from typing import Any, List

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import jitlite
from jitlite import CompileError, NotSupportedError


class Shift(torch.nn.Module):
    AMOUNT = 3

    @staticmethod
    def shifted(x):
        return x + 3

    def forward(self, x):
        return Shift.shifted(x) * Shift.AMOUNT


class Hidden(torch.nn.Module):
    __jit_ignored_attributes__ = ["secret"]

    def __init__(self) -> None:
        super().__init__()
        self.secret = 1

    def forward(self, x):
        return x + self.secret


def error_of(program: Any) -> CompileError:
    with pytest.raises(CompileError) as caught:
        jitlite.script(program)
    return caught.value


def test_static_methods_and_constants_of_module_classes():
    x = torch.ones(2)
    assert torch.equal(jitlite.script(Shift())(x), Shift()(x))


def test_no_module_is_made_in_a_script():
    def make(x):
        return Shift()

    error = error_of(make)
    assert isinstance(error, NotSupportedError) and "inherits from nn.Module" in str(error)


def test_other_members_of_module_classes_are_refused():
    def call(x):
        return Shift.forward(x)

    assert "the class Shift has no static method or constant 'forward'" in str(error_of(call))


def test_ignored_attributes_are_called_so():
    assert "attribute was ignored during compilation" in str(error_of(Hidden()))


def test_a_parameter_without_annotation_is_named():
    def narrowed(x, start):
        return x.narrow(0, start, 1) + x.sum(start)

    error = error_of(narrowed)
    assert error.hint is not None and "annotate it, such as `start: int`" in error.hint


def test_an_annotated_parameter_is_not():
    def repeated(x, times: torch.Tensor):
        return x.sum(times)

    assert "Inferred" not in str(error_of(repeated))


@pytest.mark.parametrize(
    "tensor, annotation",
    [
        (torch.tensor([True, False]), List[bool]),
        (torch.tensor([1j, 2j]), List[complex]),
        (torch.tensor([1, 2]), List[int]),
        (torch.tensor([1.5]), List[float]),
    ],
)
def test_tolist_gives_each_kind_of_element(tensor, annotation):
    def listed(x: torch.Tensor):
        return jitlite.annotate(annotation, x.tolist())

    assert jitlite.script(listed)(tensor) == tensor.tolist()


def test_tolist_checks_its_annotation():
    def wrong_kind(x: torch.Tensor) -> List[int]:
        return jitlite.annotate(List[int], x.tolist())

    def untyped(x: torch.Tensor):
        return x.tolist()

    with pytest.raises(RuntimeError, match="element type must match for tolist"):
        jitlite.script(wrong_kind)(torch.ones(2))
    with pytest.raises(RuntimeError, match="list dimension and runtime tensor dimension must match"):
        jitlite.script(wrong_kind)(torch.tensor(1))
    assert "Expected type hint for result of tolist()" in str(error_of(untyped))


def test_the_place_is_underlined_and_marked():
    def undefined(x):
        return x + nothing_like_it  # noqa: F821

    lines = str(error_of(undefined)).splitlines()
    place = next(i for i, line in enumerate(lines) if line.strip().startswith("return"))
    start = lines[place].index("nothing_like_it")
    assert lines[place + 1] == " " * start + "~" * len("nothing_like_it") + " <--- HERE"


def test_an_empty_list_of_pairs_makes_an_empty_dict():
    def empty() -> dict[str, int]:
        found: dict[str, int] = dict([])
        found["a"] = 1
        return found

    assert jitlite.script(empty)() == {"a": 1}


def _mapped(x: torch.Tensor):
    return torch.vmap(lambda row: row.sum())(x)


def _gradient(x: torch.Tensor):
    return torch.func.grad(lambda v: v.sum())(x)


def _jacobian(x: torch.Tensor):
    return torch.autograd.functional.jacobian(torch.sin, x)


def _compiled(x: torch.Tensor):
    return torch.compile(torch.sin)(x)


def _checkpointed(x: torch.Tensor):
    return checkpoint(torch.sin, x)


@pytest.mark.parametrize(
    ("program", "way_out"),
    [
        (_mapped, "apply it to the script: torch.vmap(script)"),
        (_gradient, "apply it to the script: grad(script)"),
        (_jacobian, "apply it to the script: jacobian(script)"),
        (_compiled, "a script is compiled as it is"),
        (_checkpointed, "call the script under it: checkpoint(script, x)"),
    ],
)
def test_what_transforms_functions_is_refused_where_it_is_named(program, way_out):
    error = error_of(program)
    assert "makes another Python function of one" in str(error)
    assert error.range.filename == __file__
    assert way_out in error.hint


def _product(x: torch.Tensor):
    return (x.sin() * x).sum()


def test_the_way_out_of_transforms_works():
    script, x = jitlite.script(_product), torch.randn(3, 4)
    torch.testing.assert_close(torch.vmap(script)(x), (x.sin() * x).sum(1))
    torch.testing.assert_close(torch.func.grad(script)(x), x.cos() * x + x.sin())
    torch.testing.assert_close(torch.autograd.functional.jacobian(script, x), x.cos() * x + x.sin())
    leaf = x.clone().requires_grad_()
    checkpoint(script, leaf, use_reentrant=False).backward()
    torch.testing.assert_close(leaf.grad, x.cos() * x + x.sin())
