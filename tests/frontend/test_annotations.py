"""Types as users write them."""

import collections
import enum
import typing
import typing as t
from typing import Any, Dict, Final, List, NamedTuple, Optional, Sequence, Tuple, Union

import pytest
import torch
from torch import Tensor

from jitlite.base.source import CompileError, Source, SourceRange
from jitlite.frontend.emit.annotations import parse_parameter_type, parse_type, type_from_python
from jitlite.frontend.syntax.python_ast import parse_expression
from jitlite.ir.types import (
    ANY,
    ANY_DICT,
    ANY_LIST,
    ANY_TUPLE,
    FLOAT,
    INT,
    NUMBER,
    STREAM,
    STRING,
    TENSOR,
    ClassType,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
)

PLACE = SourceRange(Source("annotation"), 0, 10)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Mixed(enum.Enum):
    A = 1
    B = "b"


class Point(NamedTuple):
    x: int
    y: "Optional[Tensor]"
    inner: List["Color"]


Plain = collections.namedtuple("Plain", ["a", "b"])


class Custom:
    pass


Alias = List[float]


def here(name):
    return eval(name, globals())


def read(text, **options):
    return parse_type(parse_expression(text), here, **options)


# A spelling, and the annotation text of the type it means. Read both as an expression and as an object.
SPELLINGS = {
    "Tensor": "Tensor",
    "torch.Tensor": "Tensor",
    "torch.FloatTensor": "Tensor",
    "torch.LongTensor": "Tensor",
    "torch.nn.Parameter": "Tensor",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "complex": "complex",
    "None": "NoneType",
    "Any": "Any",
    "torch.device": "Device",
    "torch.dtype": "int",
    "torch.layout": "int",
    "torch.memory_format": "int",
    "torch.Generator": "Generator",
    "torch.Stream": "Stream",
    "List[int]": "List[int]",
    "list[int]": "List[int]",
    "t.List[t.List[int]]": "List[List[int]]",
    "typing.Dict[str, List[Tensor]]": "Dict[str, List[Tensor]]",
    "dict[int, Tuple[int, float]]": "Dict[int, Tuple[int, float]]",
    "Dict[torch.device, int]": "Dict[Device, int]",
    "Tuple[()]": "Tuple[()]",
    "tuple[()]": "Tuple[()]",
    "Tuple[int]": "Tuple[int]",
    "tuple[int, str]": "Tuple[int, str]",
    "Optional[int]": "Optional[int]",
    "Optional[Optional[int]]": "Optional[int]",
    "Union[int, None]": "Optional[int]",
    "Union[int, str]": "Union[int, str]",
    "Union[int, Union[str, bool]]": "Union[int, str, bool]",
    "Union[int, float, complex]": "number",
    "Union[int]": "int",
    "int | str": "Union[int, str]",
    "int | None": "Optional[int]",
    "List[int] | list[str] | None": "Union[List[int], List[str], NoneType]",
    "List['int']": "List[int]",
    "'int'": "int",
    "'List[Optional[Tensor]]'": "List[Optional[Tensor]]",
    "Alias": "List[float]",
    "Optional[Alias]": "Optional[List[float]]",
    "torch.futures.Future[int]": "Future[int]",
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_spelling(text):
    expected = SPELLINGS[text]
    assert read(text).annotation == expected
    assert type_from_python(text, PLACE, here).annotation == expected  # a string annotation
    if "Future" not in text:
        assert type_from_python(here(text), PLACE, here).annotation == expected


NAMES_OF_TORCHSCRIPT = {
    "Tensor": "Tensor",
    "torch.Tensor": "Tensor",
    "torch.HalfTensor": "Tensor",
    "List[Dict[str, Tensor]]": "List[Dict[str, Tensor]]",
    "typing.Optional[int]": "Optional[int]",
    "number": "number",
    "Device": "Device",
    "Stream": "Stream",
    "Generator": "Generator",
    "Capsule": "Capsule",
    "NoneType": "NoneType",
    "Future[int]": "Future[int]",
    "Await[int]": "Await[int]",
    "Await": "Await[Any]",
    "RRef[Tensor]": "RRef[Tensor]",
    "torch.jit.Future[int]": "Future[int]",
}


@pytest.mark.parametrize("text", NAMES_OF_TORCHSCRIPT)
def test_names_python_does_not_know_are_torchscripts(text):
    assert parse_type(parse_expression(text)).annotation == NAMES_OF_TORCHSCRIPT[text]

    def unknown(name):
        raise NameError(name)

    assert parse_type(parse_expression(text), unknown).annotation == NAMES_OF_TORCHSCRIPT[text]


def test_python_decides_what_a_name_means():
    names = {"Tensor": int, "L": List, "Thing": ClassType.of("__torch__.Thing")}
    assert parse_type(parse_expression("L[Tensor]"), names.get) is ListType.of(INT)
    assert parse_type(parse_expression("Thing"), names.get) is names["Thing"]


def test_named_tuple_keeps_class_and_names():
    found = read("Point")
    assert isinstance(found, TupleType)
    assert found.names == ("x", "y", "inner")
    assert found.python_class is Point
    assert found.qualified_name == f"__torch__.{__name__}.Point"
    assert found.elements[:2] == (INT, OptionalType.of(TENSOR))
    assert isinstance(found.elements[2], ListType) and isinstance(found.elements[2].element, EnumType)
    assert type_from_python(Plain, PLACE).elements == (TENSOR, TENSOR)


def test_enum_knows_the_type_of_its_values():
    assert read("Color") is EnumType.of(f"__torch__.{__name__}.Color", Color, INT)
    with pytest.raises(CompileError, match="values of several types"):
        read("Mixed")


class Parameterized(dict):
    pass


def test_classes_are_asked_for():
    made = ClassType.of("__torch__.Custom")
    classes = {Custom: made}
    assert read("List[Custom]", class_types=classes.get) is ListType.of(made)
    assert type_from_python(Optional[Custom], PLACE, class_types=classes.get) is OptionalType.of(made)
    with pytest.raises(CompileError, match="'Parameterized' is not a TorchScript type"):
        type_from_python(Parameterized, PLACE, class_types=classes.get)


def test_final_is_for_class_level():
    assert type_from_python(Final[int], PLACE) is INT
    with pytest.raises(CompileError, match="Final is only for attributes"):
        read("Final[int]")


def test_bare_containers_in_isinstance():
    for text, expected in {"list": ANY_LIST, "List": ANY_LIST, "dict": ANY_DICT, "tuple": ANY_TUPLE}.items():
        assert read(text, bare_containers=True) is expected
        assert parse_type(parse_expression(text), bare_containers=True) is expected


def test_streams_of_a_backend():
    assert type_from_python(torch.cuda.Stream, PLACE) is STREAM


@pytest.mark.parametrize(
    "text, annotation, broadcast",
    [
        ("BroadcastingList2[int]", "List[int]", 2),
        ("BroadcastingList1[float]", "List[float]", 1),
        ("torch._jit_internal.BroadcastingList3[int]", "List[int]", 3),
        ("Optional[BroadcastingList2[int]]", "Optional[List[int]]", 2),
        ("_size_2_t", "List[int]", 2),
        ("List[int]", "List[int]", None),
    ],
)
def test_parameters_that_broadcast(text, annotation, broadcast):
    found = parse_parameter_type(parse_expression(text), here if text[0] != "_" else None)
    assert (found.type.annotation, found.broadcast) == (annotation, broadcast)


ERRORS = {  # text: what is underlined, a part of the message
    "List": ("List", "Attempted to use List without a contained type"),
    "typing.List": ("typing.List", "Attempted to use typing.List without a contained type"),
    "list": ("list", "Please add a contained type, e.g. list[int]"),
    "Dict": ("Dict", "Attempted to use Dict without contained types"),
    "Tuple": ("Tuple", "Attempted to use Tuple without a contained type"),
    "Optional": ("Optional", "Attempted to use Optional without a contained type"),
    "List[Optional]": ("Optional", "Attempted to use Optional"),
    "Tensr": ("Tensr", "Unknown type name 'Tensr'"),
    "List[Tensr]": ("Tensr", "did you mean 'Tensor'"),
    "Lst[int]": ("Lst", "Unknown type constructor Lst"),
    "List[int, str]": ("List[int, str]", "expected: 1 type"),
    "Dict[str]": ("Dict[str]", "expected: 2 types"),
    "Dict[List[int], int]": ("Dict[List[int], int]", "Cannot create dict for key type 'List[int]'"),
    "Tuple[int, ...]": ("Tuple[int, ...]", "length of a tuple must be known"),
    "Sequence[int]": ("Sequence", "use List[T]"),
    "set": ("set", "without a contained type"),
    "torch": ("torch", "module torch"),
    "int()": ("int", "this is not a type"),
    "1": ("1", "this is not a type"),
    "List[BroadcastingList2[int]]": ("BroadcastingList2[int]", "can only be the type of a parameter"),
    "bytes": ("bytes", "use str"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error(text):
    underlined, message = ERRORS[text]
    with pytest.raises(CompileError) as error:
        read(text)
    assert message in str(error.value)
    assert error.value.range is not None and error.value.range.text == underlined


def test_errors_of_objects_stand_at_the_place_given():
    for annotation in (List, Sequence[int], Tuple[int, ...], Dict[List[int], int], [int], 3, t.TypeVar("X")):
        with pytest.raises(CompileError) as error:
            type_from_python(annotation, PLACE)
        assert error.value.range is PLACE


def test_broadcasting_takes_numbers():
    with pytest.raises(CompileError, match="takes int or float"):
        parse_parameter_type(parse_expression("BroadcastingList2[str]"))


def test_types_are_the_singletons():
    assert read("Union[float, complex, int]") is NUMBER
    assert read("str") is STRING
    assert read("float") is FLOAT
    assert read("Any") is type_from_python(Any, None) is ANY
    assert type_from_python(Union[int, None], None) is OptionalType.of(INT)
    assert type_from_python(typing.ForwardRef("int"), None) is INT
