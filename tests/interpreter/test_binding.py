"""Arguments of calls from Python."""

import collections
import enum
from typing import NamedTuple

import numpy as np
import pytest
import torch

from jitlite.interpreter.binding import bind_arguments
from jitlite.ir import types as T
from jitlite.ir.schema import Argument, function_schema, parse_schema
from jitlite.ir.type_parser import parse_type


def bind_one(type, value):
    t = parse_type(type) if isinstance(type, str) else type
    return bind_arguments(function_schema("f", [Argument("x", t)], [t]), [value], {})[0]


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: float


POINT = T.TupleType.of([T.INT, T.FLOAT], ["x", "y"], "__torch__.Point", Point)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("int", 3),
        ("int", True),
        ("int", 2**70),
        ("int", torch.float32),
        ("int", torch.strided),
        ("float", 2),
        ("complex", 1.5),
        ("Scalar", 1j),
        ("bool", False),
        ("str", "a"),
        ("Tensor", torch.ones(2)),
        ("Tensor", torch.nn.Parameter(torch.ones(1))),
        ("Tensor", None),
        ("int?", None),
        ("float?", 3),
        ("Any", object()),
        ("int[]", [1, True]),
        ("float[]", [1, 2.5]),
        ("int[][]", [[1], []]),
        ("Tensor?[]", [None, torch.ones(1)]),
        ("Dict(str, float)", {"a": 1}),
        ("(int, float)", (1, 2)),
        ("(int, int)", torch.Size([1, 2])),
        ("Union(float, str)", "a"),
        (T.EnumType.of("Color", Color, T.INT), Color.RED),
        (POINT, Point(1, 2)),
    ],
)
def test_values_are_passed_as_they_are(type, value):
    assert bind_one(type, value) is value


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("int", np.int64(3), 3),
        ("int", torch.tensor(3), 3),
        ("float", np.float32(0.5), 0.5),
        ("float", torch.tensor(0.5), 0.5),
        ("bool", 1, True),
        ("bool", np.bool_(True), True),
        ("Scalar", torch.tensor(2), 2),
        ("int[]", (1, 2), [1, 2]),
        ("int[]", torch.Size([4, 5]), [4, 5]),
        ("int[]", range(3), [0, 1, 2]),
        ("int[]", np.array([1, 2]), [1, 2]),
        ("int[]", [np.int64(1)], [1]),
        ("(int, int)", [1, 2], (1, 2)),
        ("int[][]", [(1, 2), [3]], [[1, 2], [3]]),
        ("Device", "cpu", torch.device("cpu")),
        (POINT, (1, 2), (1, 2)),
    ],
)
def test_what_torchscript_converts_is_converted(type, value, expected):
    bound = bind_one(type, value)
    assert bound == expected
    assert bound.__class__ is expected.__class__


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("int", 1.5),
        ("int", None),
        ("int", "1"),
        ("int", np.float64(3)),
        ("int", torch.ones(2)),
        ("float", "x"),
        ("float", 1j),
        ("float", torch.float32),
        ("bool", "a"),
        ("str", 1),
        ("Tensor", 1),
        ("int?", "q"),
        ("int[]", ["a"]),
        ("int[]", "ab"),
        ("int[]", torch.tensor([1])),
        ("int[]", {1: 2}),
        ("int[]", None),
        ("Dict(str, float)", {1: 1.0}),
        ("Dict(str, float)", {"a": "b"}),
        ("Dict(str, float)", []),
        ("(int, int)", (1,)),
        ("(int, int)", (1, "a")),
        ("Union(float, str)", 1),
        (T.EnumType.of("Color", Color, T.INT), 1),
        (POINT, collections.namedtuple("P", "a b")(1, 2)),
    ],
)
def test_other_values_are_refused(type, value):
    with pytest.raises(RuntimeError, match=r"f\(\) Expected a value of type"):
        bind_one(type, value)


SCHEMA = parse_schema('f(int x, float[] scale, str mode="max", *, bool flip=False) -> int')


def test_positions_keywords_and_defaults():
    scale = [1.0]
    assert bind_arguments(SCHEMA, [1, scale], {}) == [1, [1.0], "max", False]
    assert bind_arguments(SCHEMA, [1], {"scale": scale, "flip": True})[1] is scale
    assert bind_arguments(SCHEMA, [], {"flip": True, "mode": "a", "scale": scale, "x": 2}) == [2, [1.0], "a", True]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ([1.5, []], {}, "f() Expected a value of type 'int' for argument 'x' but instead found type 'float'.\n"
         f"Position: 0\nValue: 1.5\nDeclaration: {SCHEMA}\n"
         "hint: pass int(x), which cuts off what stands after the point, or annotate the parameter as a float"),
        ([1], {"scale": [1, "a"]}, "f() Expected a value of type 'List[float]' for argument 'scale' but instead found "
         f"type 'list'.\nPosition: 1\nValue: [1, 'a']\nDeclaration: {SCHEMA}\n"
         "Cast error details: element 1 is a 'str' and not a 'float'"),
        ([1], {}, f"f() is missing value for argument 'scale'. Declaration: {SCHEMA}"),
        ([1, [], "m", True], {}, "f() takes 3 positional argument(s) but 4 was/were given. "
         f"Declaration: {SCHEMA}"),
        ([1, [], "m", True, 1], {}, f"f() expected at most 4 argument(s) but received 5 argument(s). "
         f"Declaration: {SCHEMA}"),
        ([1, []], {"x": 2}, f"Argument 'x' specified both as positional and keyword argument. Schema: {SCHEMA}"),
        ([1, []], {"mod": 2}, f"Unknown keyword argument 'mod' for operator 'f'. Schema: {SCHEMA}\n"
         "hint: 'mod': did you mean 'mode'?"),
        ([1], {"scales": []}, f"f() is missing value for argument 'scale'. Declaration: {SCHEMA}\n"
         "hint: 'scales': did you mean 'scale'?"),
    ],
)  # fmt: skip
def test_messages(args, kwargs, message):
    with pytest.raises(RuntimeError) as caught:
        bind_arguments(SCHEMA, args, kwargs)
    assert str(caught.value) == message


def test_parameters_without_annotation_say_so():
    schema = function_schema("f", [Argument("x", T.TENSOR, inferred=True)], [T.TENSOR])
    with pytest.raises(RuntimeError) as caught:
        bind_arguments(schema, [1], {})
    assert "'Tensor (inferred)'" in str(caught.value)
    assert "because it was not annotated with an explicit type" in str(caught.value)
