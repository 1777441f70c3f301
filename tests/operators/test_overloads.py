"""Overload resolution: which overload a call means, what is inserted for it, and what is said when none fits."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from jitlite.base.source import CompileError
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value, constant_of
from jitlite.ir.schema import parse_schema
from jitlite.ir.type_parser import parse_type
from jitlite.operators.conversions import conversion, try_convert_to_type
from jitlite.operators.overloads import NamedValue, emit_builtin_call, match_op, match_schema, match_schemas

X = T.TENSOR


class Call:
    """Emits one call; keeps the graph and the result."""

    def __init__(self, name: str, *args: Any, self_value: Any = None, **kwargs: Any) -> None:
        self.graph = Graph()
        this = None if self_value is None else self.named("self", self_value)
        self.result = emit_builtin_call(
            self.graph, None, name, [self.named(None, a) for a in args],
            [self.named(k, a) for k, a in kwargs.items()], this,
        )  # fmt: skip

    def named(self, name: str | None, argument: Any) -> NamedValue:
        if isinstance(argument, str) and argument.startswith(":"):
            return NamedValue(name, self.graph.add_input(parse_type(argument[1:])))
        return NamedValue(name, constant=argument)

    @property
    def node(self) -> Any:
        return self.result.node

    def input(self, name: str) -> Value:
        return self.node.named_input(name)

    @property
    def overload(self) -> str:
        return self.node.op.schema.qualified

    @property
    def kinds(self) -> list[str]:
        return [n.kind for n in self.graph.nodes if n.kind != "prim::Constant"]

    def run(self, *values: Any) -> Any:
        """Evaluate the graph, which must have no lists and tuples in it."""
        found = dict(zip(self.graph.inputs, values, strict=True))
        for node in self.graph.nodes:
            if node.kind == "prim::Constant":
                found[node.output] = constant_of(node.output)
            else:
                found[node.output] = node.op.fn(*(found[v] for v in node.inputs))
        return found[self.result]


def test_exact_types_come_before_conversions():
    assert Call("aten::add", ":int", ":int").overload == "aten::add.int"
    assert Call("aten::add", ":Tensor", ":int").overload == "aten::add.Scalar"


def test_defaults_become_constants_in_schema_order():
    call = Call("aten::add", ":Tensor", ":Tensor")
    assert constant_of(call.input("alpha")) == 1
    pooled = Call("aten::max_pool2d", ":Tensor", 2)
    assert constant_of(pooled.input("stride")) == []
    assert pooled.input("stride").type is T.ListType.of(T.INT)
    assert constant_of(pooled.input("dilation")) == [1, 1]


def test_equal_defaults_are_inserted_once():
    call = Call("aten::zeros", ":int[]")
    assert [n.kind for n in call.graph.nodes] == ["prim::Constant", "aten::zeros"]


def test_nothing_is_left_of_overloads_that_do_not_fit():
    call = Call("aten::sum", ":Tensor", ":(int, int)")
    assert call.kinds == ["prim::TupleUnpack", "prim::ListConstruct", "aten::sum"]


@pytest.mark.parametrize("args", [(":int", ":int"), (":int[]",), (":(int, int)",)])
def test_a_list_may_be_given_as_several_arguments(args):
    call = Call("aten::view", ":Tensor", *args)
    assert call.overload == "aten::view"
    assert call.input("size").type is T.ListType.of(T.INT)


def test_one_number_is_repeated_for_a_sized_list():
    size = Call("aten::max_pool2d", ":Tensor", ":int").input("kernel_size")
    assert [v.type for v in size.node.inputs] == [T.INT, T.INT]
    assert size.node.inputs[0] is size.node.inputs[1]


def test_a_dtype_never_selects_view_dtype():
    with pytest.raises(CompileError):
        Call("aten::view", ":Tensor", dtype=":int")


def test_self_may_be_called_input_in_a_function():
    assert Call("aten::add", input=":Tensor", other=":float").overload == "aten::add.Scalar"


def test_self_is_bound_by_name():
    assert Call("aten::sub", ":int", self_value=":Tensor").overload == "aten::sub.Scalar"


def test_named_results_make_a_named_tuple():
    result = Call("aten::max", ":Tensor", ":int").result.type
    assert isinstance(result, T.TupleType)
    assert result.names == ("values", "indices")
    assert result.python_class is torch.return_types.max


def test_no_result_is_none():
    assert Call("aten::clear", ":int[]").result.type is T.NONE


def test_type_variables_are_bound_by_the_first_use():
    assert Call("aten::append", ":int[]", ":int").result.type is T.ListType.of(T.INT)
    assert Call("aten::append", ":int?[]", ":int").result.type is T.ListType.of(T.OptionalType.of(T.INT))
    with pytest.raises(CompileError, match="'int' for argument 'el' but instead found type 'NoneType'"):
        Call("aten::append", ":int[]", None)


def test_only_used_constants_are_inserted():
    graph = Graph()
    lazy = NamedValue(None, constant=3)
    assert lazy.type is T.INT
    assert not list(graph.nodes)
    assert constant_of(lazy.in_graph(graph)) == 3


def test_a_choice_is_remembered_and_still_right():
    first, second = Call("aten::mul", ":Tensor", ":float"), Call("aten::mul", ":Tensor", ":float")
    assert str(first.graph) == str(second.graph)
    assert Call("aten::mul", ":float", ":float").overload == "aten::mul.float"


# -- conversions


@pytest.mark.parametrize(
    "actual, wanted, kind",
    [
        ("Tensor", "float", "aten::FloatImplicit"),
        ("Tensor", "int", "aten::IntImplicit"),
        ("Tensor", "complex", "aten::ComplexImplicit"),
        ("Tensor", "Scalar", "aten::ScalarImplicit"),
        ("Tensor", "int?", "aten::IntImplicit"),
        ("Float(2, 3)", "int", "aten::IntImplicit"),
        ("Scalar", "float", "aten::Float"),
        ("Scalar", "int", "prim::AsInt"),
        ("bool", "int", "aten::Int"),
        ("bool", "Scalar", "aten::ScalarImplicit"),
        ("str", "Device", "aten::device"),
        ("str", "Device?", "aten::device"),
        ("(int, int)", "int[]", "prim::ListConstruct"),
        ("(int, (int, int))", "(int, int[])", "prim::TupleConstruct"),
    ],
)
def test_conversions(actual, wanted, kind):
    graph = Graph()
    value = graph.add_input(parse_type(actual))
    found = try_convert_to_type(graph, None, parse_type(wanted), value, True)
    assert found.node.kind == kind
    assert T.is_subtype(found.type, parse_type(wanted))


@pytest.mark.parametrize(
    "actual, wanted",
    [("int", "float"), ("float", "int"), ("int", "Tensor"), ("int[]", "float[]"), ("(int, float)", "int[]"),
     ("int?", "int"), ("(int, int)", "(int, int, int)"), ("NoneType", "int")],
)  # fmt: skip
def test_no_conversion(actual, wanted):
    found = conversion(parse_type(wanted), parse_type(actual), True)
    assert found.convert is None
    assert not T.is_subtype(found.type, parse_type(wanted))


def test_only_tuples_are_converted_where_conversions_are_not_allowed():
    assert conversion(T.FLOAT, X, False).convert is None
    assert conversion(T.ListType.of(T.INT), T.TupleType.of([T.INT]), False).convert is not None


def test_an_empty_list_literal_takes_the_type_that_is_wanted():
    graph = Graph()
    literal = graph.insert("prim::EmptyLiteral", [], [T.ListType.of(X)]).output
    numbers = NamedValue(None, graph.add_input(parse_type("int[]")))
    added = emit_builtin_call(graph, None, "aten::add", [numbers, NamedValue(None, literal)])
    assert added.type is added.node.inputs[1].type is T.ListType.of(T.INT)
    made = try_convert_to_type(graph, None, T.ListType.of(T.INT), literal, False)
    assert (made.node.kind, made.type) == ("prim::ListConstruct", T.ListType.of(T.INT))


def test_a_tuple_made_in_sight_is_not_unpacked():
    graph = Graph()
    parts = [graph.add_input(T.INT), graph.add_input(T.INT)]
    made = graph.insert("prim::TupleConstruct", parts, [T.TupleType.of([T.INT, T.INT])]).output
    found = try_convert_to_type(graph, None, T.ListType.of(T.INT), made, False)
    assert list(found.node.inputs) == parts


# -- functions


def test_function_arguments_in_any_order():
    graph = Graph()
    schema = parse_schema("f(Tensor x, int n=3, *, str mode) -> Tensor")
    mode, x = graph.add_input(T.STRING), graph.add_input(X)
    matched = match_schema(schema, graph, None, [NamedValue(None, x)], [NamedValue("mode", mode)])
    assert matched.inputs[0] is x and matched.inputs[2] is mode
    assert constant_of(matched.inputs[1]) == 3
    assert matched.return_types == [X]


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ([], [], "Argument x not provided"),
        ([X, X], [], "Expected at most 1 arguments but found 2 positional arguments"),
        ([T.INT], [], "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"),
        ([X], ["mod"], "Keyword argument mod unknown(.|\n)*did you mean 'mode'"),
        ([X], ["x"], "Keyword argument x specified twice"),
    ],
)
def test_function_arguments_that_do_not_fit(args, kwargs, message):
    graph = Graph()
    schema = parse_schema("f(Tensor x, *, str mode='a') -> Tensor")
    given = [NamedValue(None, graph.add_input(t)) for t in args]
    with pytest.raises(CompileError, match=message):
        match_schema(schema, graph, None, given, [NamedValue(k, constant="b") for k in kwargs])
    assert not list(graph.nodes)


def test_an_int_is_taken_for_a_float_and_stays_one():
    graph = Graph()
    matched = match_schema(parse_schema("f(float x) -> float"), graph, None, [NamedValue(None, constant=1)])
    (given,) = matched.inputs
    assert given.type is T.FLOAT and given.node.kind == "prim::unchecked_cast"


@pytest.mark.parametrize(
    "wanted, actual, is_taken",
    [
        ("float?", "int", True),
        ("float[]", "(int, float)", True),
        ("(float, float?)", "(int, int)", True),
        ("int", "float", False),
        ("float[]", "int[]", False),
        ("str", "int", False),
    ],
)
def test_what_is_taken_for_floats(wanted, actual, is_taken):
    graph = Graph()
    argument = NamedValue(None, graph.add_input(parse_type(actual)))
    schema = parse_schema(f"f({wanted} x) -> float")
    if is_taken:
        assert match_schema(schema, graph, None, [argument]).inputs
        return
    with pytest.raises(CompileError):
        match_schema(schema, graph, None, [argument])


def test_what_takes_ints_as_they_are_comes_first():
    graph = Graph()
    schemas = [parse_schema("f(float x, str y) -> float"), parse_schema("f(int x, str y) -> int")]
    arguments = [NamedValue(None, constant=1), NamedValue(None, constant="a")]
    assert match_schemas(schemas, graph, None, arguments)[0] == 1


def test_overloaded_functions():
    graph = Graph()
    schemas = [parse_schema("f(float x) -> float"), parse_schema("f(int x) -> int")]
    assert match_schemas(schemas, graph, None, [NamedValue(None, constant=1)])[0] == 1
    assert match_schemas(schemas, graph, None, [NamedValue(None, graph.add_input(X))])[0] == 0
    with pytest.raises(CompileError, match="Arguments for call are not valid"):
        match_schemas(schemas, graph, None, [NamedValue(None, constant="a")])


def test_given_candidates_are_the_only_ones():
    graph = Graph()
    x = NamedValue(None, graph.add_input(X))
    only = ops.lookup("aten::add")[:1]
    assert match_op("aten::add", graph, None, [x, x], candidates=only).schema.overload == "Tensor"
    with pytest.raises(CompileError):
        match_op("aten::add", graph, None, [x, NamedValue(None, constant=1)], candidates=only)


# -- errors


def test_unknown_operator():
    with pytest.raises(CompileError, match=r"Unknown builtin op: aten::rellu(.|\n)*'aten::relu'"):
        Call("aten::rellu", ":Tensor")


def test_no_variant_fits():
    with pytest.raises(CompileError) as caught:
        Call("aten::relu", ":int")
    text = str(caught.value)
    assert "Arguments for call are not valid. The following variants are available:" in text
    assert "aten::relu(Tensor self) -> Tensor" in text
    assert (caught.value.expected, caught.value.found) == ("Tensor for 'self'", "int")


def test_the_nearest_variant_is_named_first():
    with pytest.raises(CompileError) as caught:
        Call("aten::add", ":str", ":int")
    assert caught.value.message.startswith("aten::add: Expected a value of type 'str' for argument 'b'")
    assert caught.value.notes[1].strip().startswith("aten::add.str")
    assert not any("out)" in note for note in caught.value.notes)


def test_variants_with_out_are_shown_where_it_is_given():
    with pytest.raises(CompileError) as caught:
        Call("aten::add", ":Tensor", ":str", out=":Tensor")
    assert any("aten::add.out" in note for note in caught.value.notes)


def test_none_of_an_optional_is_hinted_at():
    with pytest.raises(CompileError, match="hint: it may be None here"):
        Call("aten::append", ":int[]", ":int?")


# -- reflected operators and bools: the values of eager Python

OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "remainder": operator.mod, "pow": operator.pow, "__and__": operator.and_,
    "__or__": operator.or_, "__xor__": operator.xor, "__lshift__": operator.lshift, "__rshift__": operator.rshift,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
TENSORS = [
    torch.tensor([1, 2, 3]), torch.tensor([1.5, -2.0]), torch.tensor([True, False]), torch.tensor(3, dtype=torch.uint8),
    torch.tensor([3], dtype=torch.int8),
]  # fmt: skip


def _outcome(thunk) -> Any:
    try:
        return thunk()
    except Exception as error:
        return error


@pytest.mark.parametrize("number, type", [(5, "int"), (2.5, "float"), (True, "bool")])
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_and_tensors_as_in_eager_python(name, number, type):
    for tensor in TENSORS:
        for values, types in (((number, tensor), (type, "Tensor")), ((tensor, number), ("Tensor", type))):
            wanted = _outcome(lambda: OPERATORS[name](*values))
            found = _outcome(lambda: Call(f"aten::{name}", *(f":{t}" for t in types)).run(*values))
            if isinstance(wanted, Exception):
                assert isinstance(found, Exception), (values, wanted, found)
            else:
                assert isinstance(found, torch.Tensor), (values, wanted, found)
                torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("left, right", [(1 + 2j, 2), (2, 1 + 2j), (1 + 2j, 1 + 2j), (2.0, 1j)])
def test_powers_of_complex_numbers(left, right):
    call = Call("aten::pow", *(f":{type(v).__name__}" for v in (left, right)))
    assert call.result.type is T.COMPLEX
    assert call.run(left, right) == left**right


def test_a_bool_stays_a_bool_for_a_tensor():
    filled = Call("aten::where", ":Tensor", ":bool", ":bool").run(torch.tensor([True, False]), False, True)
    assert filled.dtype is torch.bool
    assert filled.tolist() == [False, True]


def test_helpers():
    pair = Call("aten::_pair", ":int").result
    assert pair.type is T.ListType.of(T.INT) and len(pair.node.inputs) == 2
    assert Call("aten::__contains__", ":str", ":str").run("hello", "ell") is True
    assert Call("aten::type", ":Tensor", ":int").node.kind == "aten::to"
    assert Call("prim::ndim", ":Tensor").run(torch.zeros(2, 3)) == 2
    with pytest.raises(AssertionError, match="no"):
        ops.lookup("aten::_assert")[0].fn(False, "no")
    assert ops.lookup("aten::list_with_default")[0].fn([1], [2, 3]) == [1]
