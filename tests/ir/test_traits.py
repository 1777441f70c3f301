"""Traits, links and spellings: each belongs to an operator or a declared kind, and says something."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import jitlite
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


def test_no_module_keeps_a_set_of_operators():
    """What operators have in common is a trait, which every module may ask for."""
    package = Path(jitlite.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                assert len(_names_in_sets(node.value)) < 2, f"{path}:{node.lineno}: declare a trait in ir/traits.py"


def _names_in_sets(value: ast.expr) -> set[str]:
    sets = [
        part
        for part in ast.walk(value)
        if isinstance(part, ast.Set) or (isinstance(part, ast.Call) and ast.unparse(part.func) in ("set", "frozenset"))
    ]
    texts = {
        c.value for part in sets for c in ast.walk(part) if isinstance(c, ast.Constant) and isinstance(c.value, str)
    }
    return {text for text in texts if _OPERATOR.fullmatch(text)}


_OPERATOR = re.compile(r"(aten|prim)::\w+(\.\w+)?")
