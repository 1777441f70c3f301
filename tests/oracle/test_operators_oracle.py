"""Operators are torch.jit's: the same schemas, and the same results where TorchScript means what Python means."""

import math

import pytest
import torch

from jitlite.ir.ops import declared_ops, lookup
from jitlite.ir.schema import parse_schema

from .jit_only import jit_only_schemas, listed_schemas

DECLARED = {o.schema.qualified: o for o in declared_ops()}


def test_the_list_is_torchs():
    version, listed = listed_schemas()
    if torch.__version__.partition("+")[0] != version:
        pytest.skip(f"the list is of torch {version}")
    assert listed == jit_only_schemas(), "run python -m tests.oracle.jit_only"


def test_every_schema_reads_back():
    texts = [str(s) for s in torch._C._jit_get_all_schemas()]
    assert len(texts) > 4000
    assert [t for t in texts if str(parse_schema(t)) != t] == []


def test_overloads_are_those_of_torch_in_its_order():
    for name in sorted({o.name for o in declared_ops()}):
        expected = [str(s) for s in torch._C._jit_get_schemas_for_operator(name)]
        found = [str(o.schema) for o in lookup(name)]
        if expected and name != "prim::name":  # torch.ops.prim.name is the name of the namespace
            assert [f for f in found if f in expected] == expected


# -- results

DIFFERENT = {
    "aten::str": "values are printed in another way",
    "aten::hash.generic": "another hash function",
    "aten::pow": "an int stays an int",
}
NOT_IN_TORCH_OPS = ("...", "t", "Any", "Dict")
SIMPLE = {"int", "float", "complex", "bool", "str", "Scalar", "int[]", "float[]", "bool[]", "str[]", "int?", "str?"}


def comparable(operator):
    """Can torch.ops call it, and do its values print alike?"""
    schema = operator.schema
    types = {str(a.type) for a in schema.arguments}
    return (
        operator.fn is not None
        and types <= SIMPLE
        and not schema.is_mutable
        and not schema.is_vararg
        and operator.overload is None
        and hasattr(getattr(torch.ops, schema.name.partition("::")[0]), schema.name.partition("::")[2])
    )


def close(a, b):
    if isinstance(a, list | tuple):
        return type(b) in (list, tuple) and len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, complex) or isinstance(b, complex):
        return close(complex(a).real, complex(b).real) and close(complex(a).imag, complex(b).imag)
    if isinstance(a, str | bool) or isinstance(b, str | bool) or a is None:
        return a == b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def usable(value):
    """Values that mean the same to TorchScript: ASCII text, 64-bit ints, no negative bounds but the default."""
    if isinstance(value, str):
        return value.isascii()
    if isinstance(value, list):
        return all(map(usable, value))
    return not isinstance(value, int) or abs(value) < 2**60
