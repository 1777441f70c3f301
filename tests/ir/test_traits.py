"""Traits, links and spellings: each belongs to an operator or a declared kind, and says something."""

from __future__ import annotations

import pytest

from jitlite.ir import ops
from jitlite.ir.traits import Link, Spelling, Trait, declared_kinds, known


def test_kinds_with_traits_are_operators():
    for kind in declared_kinds():
        name, _, overload = kind.partition(".")
        has_schema = any(not overload or op.schema.overload == overload for op in ops.lookup(name))
        assert has_schema != (kind in Trait.WITHOUT_SCHEMA.kinds), kind


def test_links_lead_to_operators():
    for link in Link:
        for kind, other in link.by_kind.items():
            assert ops.lookup(other), f"{link} of {kind}"


@pytest.mark.parametrize("group", [Trait, Link, Spelling])
def test_each_is_declared_for_some_kind(group):
    for member in group:
        kinds = member.kinds if isinstance(member, Trait) else member.by_kind
        assert kinds, member


@pytest.mark.parametrize("trait", [t for t in Trait if t.value.startswith("of ")])
def test_a_special_trait_implies_the_general_one(trait):
    general = Trait[trait.value.removeprefix("of ").partition(":")[0]]
    assert trait.kinds <= general.kinds


def test_opposites_and_mirrored_comparisons_lead_back():
    for link in (Link.OPPOSITE, Link.MIRRORED):
        assert all(link.of(other) == kind for kind, other in link.by_kind.items())


def test_a_kind_has_one_text_of_each_sort():
    with pytest.raises(ValueError, match="two texts"):
        known("aten::lt", Link.OPPOSITE("aten::gt"))
    assert Link.OPPOSITE.of("aten::lt") == "aten::ge"


def test_spellings_that_are_read_backwards_mean_one_kind():
    for spelling in (Spelling.BINARY, Spelling.UNARY, Spelling.AUGMENTED, Spelling.TENSOR_PROPERTY):
        assert len(spelling.kind_of) == len(spelling.by_kind)
