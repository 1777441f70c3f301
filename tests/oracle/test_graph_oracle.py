"""The graph of every function of the corpus has the text that torch.jit gives it, after renumbering, or is listed."""

from __future__ import annotations

import warnings

import pytest
import torch

import jitlite
from jitlite.ir.compare import canonical_text
from jitlite.ir.constants import enum_type
from jitlite.ir.parser import parse
from jitlite.ir.types import Type

from .corpus import EXAMPLES, misc

DIFFERENCES = {
    "control_flow.enumerate_from": "reading the element is not dead code: it may raise",
    "control_flow.static_branches": "is_tracing() is known to be False, so the branch is not compiled",
    "lists.assign_elements": "`x[i] op= e` reads x[i] before e, as Python does",
    "misc.augmented_subscripts": "`x[i] op= e` reads x[i] before e, as Python does",
    "misc.without_gradient": "prim::Exit gives None, not a Tensor",
    "misc.hash_and_order": "hash() of a string depends on the process and is not folded",
    "strings.vowels_removed": "`s in t` has no hidden constants in another order",
    "scalars.exponentials": "math.pow is an operator of its own",
    "tensors.index_by_tensor": "an index with tensors in it is one operation",
    "tensors.index_by_mask": "an index with tensors in it is one operation",
    "tensors.new_axes_and_steps": "an index with slices on both sides of `...` is one operation",
    "tensors.assign_elements": "assigning to elements is an overload of its own",
    "tensors.assign_by_mask": "an index with tensors in it is one operation",
    "tensors.distances": "assigning to elements is an overload of its own",
    "tensors.convolution": "a default that stands for a list is one constant, not a list built at each call",
    "tensors.number_first": "number - tensor is aten::rsub, which is right for unsigned integers too",
}

NAMED: dict[str, Type] = {t.qualified_name: t for cls in (misc.Color, misc.Mode) if (t := enum_type(cls)) is not None}


def _texts(example) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.jit.script(example.function).graph.str(False)
    ours = canonical_text(jitlite.script(example.function).graph)
    return ours, canonical_text(parse(theirs, types=NAMED, placeholder_tensors=True))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_graph_text_equals_that_of_torch_jit(example):
    ours, theirs = _texts(example)
    if example.name in DIFFERENCES:
        assert ours != theirs, "the texts agree now: take it off the list"
    else:
        assert ours == theirs


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_result_equals_eager(example):
    scripted = jitlite.script(example.function)
    for ours, theirs in zip(example.arguments(), example.arguments(), strict=True):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            expected = example.function(*theirs)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            got = scripted(*ours)
        _assert_same(got, expected)
        _assert_same(ours, theirs)


def _assert_same(got, expected) -> None:
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    elif isinstance(expected, list | tuple):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            _assert_same(g, e)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            _assert_same(got[key], expected[key])
    else:
        assert type(got) is type(expected)
        assert got == expected or (got != got and expected != expected)
