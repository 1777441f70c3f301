"""The one declaration of arithmetic on numbers that are followed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import jitlite
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant as _type_of
from jitlite.operators.arithmetic import ARITHMETIC, BY_EXPRESSION, BY_FUNCTION, BY_METHOD

NUMBERS = (3, -2, 2.5, 0.25, True)


@pytest.mark.parametrize("arithmetic", ARITHMETIC, ids=lambda a: a.kind)
def test_the_operator_gives_what_is_computed(arithmetic):
    tried = 0
    for count, op in itertools.product((1, 2), ops.lookup(arithmetic.kind)):
        if op.fn is None or len(op.schema.arguments) != count:
            continue
        for given in itertools.product(NUMBERS, repeat=count):
            if all(T.is_subtype(_type_of(g), a.type) for g, a in zip(given, op.schema.arguments, strict=True)):
                try:
                    expected = arithmetic.compute(*given)
                except (ValueError, TypeError):
                    continue
                if isinstance(expected, complex):
                    continue  # typed float in graphs, where it is an error
                assert op.fn(*given) == expected
                tried += 1
    assert tried


def test_each_name_belongs_to_one_computation():
    for table, names in ((BY_FUNCTION, "functions"), (BY_METHOD, "methods"), (BY_EXPRESSION, "expressions")):
        assert len(table) == sum(len(getattr(a, names)) for a in ARITHMETIC)
    assert len({a.kind for a in ARITHMETIC}) == len(ARITHMETIC)


@pytest.mark.parametrize(
    "path", ["frontend/tracing/traced_numbers", "frontend/tracing/symbolic_sizes", "frontend/from_fx/fx_calls",
             "passes/decomposing"]
)  # fmt: skip
def test_those_who_follow_numbers_keep_no_table_of_their_own(path):
    text = (Path(str(jitlite.__file__)).parent / f"{path}.py").read_text()
    assert "operators.arithmetic" in text
    for kind in ("aten::floordiv", "aten::remainder", "prim::max"):
        assert f'"{kind}"' not in text
