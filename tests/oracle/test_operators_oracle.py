"""Operators are torch.jit's: the same schemas, and the same results where TorchScript means what Python means."""

import math

import pytest
import torch
from operator_samples import argument_samples

from jitlite.ir import types as T
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

SIMPLE = {"int", "float", "complex", "bool", "str", "Scalar", "int[]", "float[]", "bool[]", "str[]", "int?", "str?"}
DIFFERENT = {
    "aten::divmod.float_int": "torch computes in 32 bits",
    "aten::divmod.int_float": "torch computes in 32 bits",
    "aten::find": "torch refuses positions behind the end",
    "aten::rfind": "torch refuses positions behind the end",
    "aten::startswith": "torch refuses positions behind the end",
    "aten::endswith": "torch refuses positions behind the end",
    "aten::count": "torch does not return for an empty text",
    "aten::replace": "torch puts the text several times at the beginning when an empty text is replaced",
    "aten::zfill": "torch puts zeros before the sign",
    "aten::log.complex_float": "torch has no logarithm to a negative base",
    "aten::log.complex_int": "torch has no logarithm to a negative base",
    "aten::log.float_complex": "torch takes the logarithm of a negative number as a real one",
    "aten::log.int_complex": "torch takes the logarithm of a negative number as a real one",
    "aten::floordiv.float": "torch rounds the quotient, which may have been rounded up",
    "aten::floordiv.int_float": "torch rounds the quotient, which may have been rounded up",
    "prim::rangelist": "torch refuses negative numbers",
    "aten::get_autocast_dtype": "gives dtypes",
    "aten::warn": "torch.ops has only its schema",
    "prim::ReductionSizes": "torch is killed by axes that do not exist",
    "prim::TimePoint": "a clock",
}


JIT_ONLY = set(jit_only_schemas())


def comparable(operator):
    """Can `torch.ops` call it, and is its meaning one of values?"""
    schema = operator.schema
    return (
        operator.fn is not None
        and schema.arguments != ()
        and schema.returns != ()
        and str(schema) in JIT_ONLY
        and {str(a.type) for a in schema.arguments} <= SIMPLE
        and not any(str(r.type) in ("Tensor", "Device") for r in schema.returns)
        and not schema.is_mutable
        and not schema.is_vararg
        and schema.qualified not in DIFFERENT
    )


def ordinary(value):
    """Does it mean the same to TorchScript? Not: beyond 64 bits or ASCII, not finite, the corners of complex powers."""
    if isinstance(value, str):
        return value.isascii()
    if isinstance(value, list | tuple):
        return all(map(ordinary, value))
    if isinstance(value, complex):
        return value != 0 and abs(value.real) < 1e100 and abs(value.imag) < 1e100
    if isinstance(value, float):
        return abs(value) < 1e100
    return not isinstance(value, int) or abs(value) < 2**60


def ordinary_arguments(schema):
    """Samples without the complex numbers of a Scalar, which torch refuses, and negative widths, which kill it."""
    is_text = schema.arguments[0].type is T.STRING
    for arguments in argument_samples(schema, 200):
        if any(a.type is T.NUMBER and type(v) is complex for a, v in zip(schema.arguments, arguments)):
            continue
        if is_text and any(type(v) is int and v < 0 and v != a.default for a, v in zip(schema.arguments, arguments)):
            continue
        if ordinary(arguments):
            yield arguments


def close(a, b):
    if isinstance(a, list | tuple):
        return type(b) in (list, tuple) and len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, str | bool) or isinstance(b, str | bool) or a is None:
        return a == b
    if isinstance(a, complex) or isinstance(b, complex):
        return close(complex(a).real, complex(b).real) and close(complex(a).imag, complex(b).imag)
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)  # torch computes with a Scalar in 32 bits


@pytest.mark.parametrize("operator", list(filter(comparable, DECLARED.values())), ids=lambda o: o.schema.qualified)
def test_results(operator):
    """What Python gives without an error, torch gives too."""
    schema = operator.schema
    namespace, _, base = schema.name.partition("::")
    theirs = getattr(getattr(getattr(torch.ops, namespace), base), schema.overload or "default")
    compared = 0
    for arguments in ordinary_arguments(schema):
        try:
            expected = operator.fn(*arguments)
        except Exception:
            continue
        if ordinary(expected):
            assert close(expected, theirs(*arguments)), arguments
            compared += 1
    assert compared
