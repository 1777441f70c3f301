"""Schemas and types: text that is read prints as it was, and what is read means what it says."""

import collections
from typing import NamedTuple

import pytest
import torch

from jitlite.ir import types as T
from jitlite.ir.ops import lookup
from jitlite.ir.schema import parse_schema
from jitlite.ir.type_parser import SchemaError, parse_type


def dispatcher_schemas():
    for qualified in torch._C._dispatch_get_all_op_names():
        name, _, overload = qualified.partition(".")
        if torch._C._dispatch_has_kernel(qualified):
            yield str(torch._C._get_schema(name, overload))


def test_every_dispatcher_schema_reads_back():
    schemas = list(dispatcher_schemas())
    assert len(schemas) > 2000
    assert [s for s in schemas if str(parse_schema(s)) != s] == []


@pytest.mark.parametrize(
    "text",
    [
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        "aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)",
        "aten::items.str(Dict(str, t) self) -> ((str, t)[])",
        "aten::get.int(Dict(int, t) self, int key) -> t(*)?",
        "aten::divmod.int(int x, int y) -> (int, int)",
        'aten::lstrip(str self, str chars=" \\n\\t\\f\\v") -> str',
        "aten::clear.t(t[](a!) self) -> ()",
        "aten::wait(Future(t) self) -> t",
        "prim::Print(...) -> ()",
        "prim::TupleUnpack(Any tup) -> ...",
        "f(int x, Dict(str, Tensor[])? d=None) -> (int, str)",
    ],
)
def test_reads_back(text):
    assert str(parse_schema(text)) == text


def test_parts():
    schema = parse_schema(
        "aten::foo.bar(Tensor(a!) self, int[2] size=0, *, ScalarType? dtype=None) -> (Tensor(a!) out, int n)"
    )
    assert (schema.name, schema.overload, schema.qualified) == ("aten::foo", "bar", "aten::foo.bar")
    self, size, dtype = schema.arguments
    assert self.is_write and self.alias.before == {"a"} and schema.is_mutable
    assert (size.type, size.size, size.default, size.has_default) == (T.ListType.of(T.INT), 2, 0, True)
    assert dtype.kwarg_only and dtype.type is T.OptionalType.of(T.INT)
    assert dtype.declared_type is T.OptionalType.of(T.SCALAR_TYPE)
    assert [r.name for r in schema.returns] == ["out", "n"]
    assert schema.argument_index("dtype") == 2 and schema.argument_index("other") is None


@pytest.mark.parametrize(
    "text",
    ["", "aten::foo", "aten::foo(", "aten::foo(int x)", "aten::foo(int x) -> int int x", "aten::foo(1 x) -> int"],
)
def test_no_schema(text):
    with pytest.raises(SchemaError):
        parse_schema(text)


@pytest.mark.parametrize(
    "text",
    [
        "int", "Tensor", "int[]", "Tensor?[]", "(int, str?)", "Dict(str, Tensor[])", "Union(int, str)",
        "Future[Tensor]",
        "Float(2, *, strides=[3, 1], requires_grad=0, device=cpu)", "Long()", "()", "t[]",
        "NamedTuple(a : int, b : str)", "__torch__.module.Class",
    ],
)  # fmt: skip
def test_types_read_back(text):
    assert str(parse_type(text)) == text


def test_types_are_interned():
    assert parse_type("Dict(str, int[])") is T.DictType.of(T.STRING, T.ListType.of(T.INT))


def test_dispatcher_operators_are_found_in_torch_order():
    overloads = [o.schema.overload for o in lookup("aten::max")]
    assert overloads[:3] == [name.replace("default", "") for name in torch.ops.aten.max.overloads()][:3]
    assert lookup("aten::no_such_operator") == () and lookup("nonsense") == ()


class Point(NamedTuple):
    x: int | None = None
    names: tuple[str, ...] = ("a", "b, (c = ")
    table: dict[str, int] = {"a": 1}  # noqa: RUF012


def test_types_of_named_tuples_show_defaults():
    t = T.TupleType.of([T.INT, T.STRING, T.INT], ["x", "names", "table"], "m.Point", Point)
    assert str(t) == 'NamedTuple(x : int = None, names : str = (a, "b, (c = "), table : int = {a: 1})'
    read = parse_type(f"({t}, NamedTuple(y : int, z : float = [1.0, 2.0])[])")
    assert str(read) == f"({t}, NamedTuple(y : int, z : float = [1.0, 2.0])[])"
    assert read.elements[0].with_contained([T.FLOAT] * 3).defaults == t.defaults
    assert T.TupleType.of([T.INT], ["x"]) is not T.TupleType.of([T.INT], ["x"], defaults=["1"])


@pytest.mark.parametrize("text", ["NamedTuple(x : int = )", "NamedTuple(x : int = (1)", "NamedTuple(x : int = 1"])
def test_defaults_of_named_tuples_end(text):
    with pytest.raises(SchemaError):
        parse_type(text)


def test_a_default_that_holds_itself_ends():
    loop = []
    loop.append(loop)
    Loop = collections.namedtuple("Loop", ["x"], defaults=[loop])
    assert "<list>" in str(T.TupleType.of([T.INT], ["x"], "m.Loop", Loop))
