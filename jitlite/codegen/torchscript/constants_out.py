"""The text of constants, and the table of those that have none (`CONSTANTS.c0`)."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import torch

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.source import SourceRange
from jitlite.codegen.torchscript.type_names import TypeNames, archive_identifier
from jitlite.ir import types as T
from jitlite.ir.code_text import EMPTY, Text, code, exact_decimal, fixed, joined, literal, quoted
from jitlite.ir.constants import INT64_MAX, INT64_MIN
from jitlite.ir.int_codes import INT_CODES, INT_OBJECTS
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.ir.values import type_of_value, value_has_type

SMALLEST_INT, LARGEST_INT = INT64_MIN, INT64_MAX
"""What TorchScript's int can be."""


class ConstantTable:
    """The constants that `code/` refers to by number."""

    def __init__(self) -> None:
        self.values: list[tuple[Any, Type]] = []

    def add(self, value: object, type: Type) -> Text:
        """Enter a value, unless an equal tensor is there; gives the text that means it."""
        for number, (known, _) in enumerate(self.values):
            if known is value or (isinstance(value, torch.Tensor) and _same_tensor(known, value)):
                return code("CONSTANTS.c{}", number)
        self.values.append((value, type))
        return code("CONSTANTS.c{}", len(self.values) - 1)


def _same_tensor(known: object, value: torch.Tensor) -> bool:
    if (
        not isinstance(known, torch.Tensor)
        or known.layout != value.layout
        or known.requires_grad != value.requires_grad
    ):
        return False
    if known.dtype != value.dtype or known.device != value.device or known.shape != value.shape or value.is_meta:
        return False
    if value.layout is not torch.strided or value.is_quantized or known.stride() != value.stride():
        return False
    return bool(_bytes_of(known).equal(_bytes_of(value)))  # as numbers, 0. and -0. would be equal


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def checked_int(value: int, what: str, range: SourceRange | None = None) -> int:
    """The int, if TorchScript's int can be it.

    Raises:
        NotSupportedError: where it has over 64 bits.
    """
    if SMALLEST_INT <= value <= LARGEST_INT:
        return value
    raise NOT_IN_ARCHIVE(
        f"{what} is {value}, which has over 64 bits: an archive cannot hold it", range, hint="make it a float or a str"
    )


def int_code(value: object) -> int:
    """The int that a dtype, layout, memory format or quantisation scheme is in TorchScript."""
    return INT_CODES[value]


def member_of(type: Type, value: object) -> Type:
    """The type, among those that a value of a type such as Union or Any may be of, that this one is of."""
    if isinstance(type, T.OptionalType):
        return T.NONE if value is None else member_of(type.element, value)
    if isinstance(type, T.UnionType):
        return next((m for m in type.members if value_has_type(value, m)), type_of_value(value))
    if type in (T.ANY, T.NUMBER, T.ANY_LIST, T.ANY_TUPLE, T.ANY_DICT, T.ANY_ENUM, T.ANY_CLASS):
        return type_of_value(value)
    return type


def is_told_by_members(element: Type) -> bool:
    """Does a list's text tell its type, by what stands in it?"""
    return element not in (T.NUMBER, T.ANY) and not isinstance(element, T.UnionType | T.InterfaceType)


class ConstantWriter:
    """Writes constants of one archive.

    Args:
        declare: is told of each named thing that a text mentions.
    """

    def __init__(self, names: TypeNames, table: ConstantTable, declare: Callable[[object], None]) -> None:
        self.names = names
        self.table = table
        self.declare = declare

    def text(self, value: object, type: Type, range: SourceRange | None = None) -> Text:
        """The text that means the value.

        Raises:
            NotSupportedError: where an archive cannot hold it.
        """
        type = member_of(type, value)
        if isinstance(value, Function):
            self.declare(value)
            return self.names.name(value)
        if isinstance(value, torch.Tensor) or isinstance(type, T.ClassType) or needs_table(value):
            return self.table.add(value, type)
        for kinds, write in _WRITERS:
            if isinstance(value, kinds):
                return write(self, value, type, range)
        raise NOT_IN_ARCHIVE(f"a constant of the class {value.__class__.__name__} has no place in an archive", range)

    def _simple(self, value: object, type: Type, range: SourceRange | None) -> Text:
        if isinstance(value, enum.Enum):
            self.declare(type)
            return code("{}.{}", self.names.name(type), archive_identifier(value.name, "a member of an enum"))
        if isinstance(value, torch.device):
            return code("torch.device({})", quoted(str(value)))
        return literal(value)

    def _int(self, value: Any, type: Type, range: SourceRange | None) -> Text:
        if isinstance(value, INT_OBJECTS):
            value = int_code(value)
        if type is T.FLOAT:
            return float_text(float(value))
        return literal(checked_int(int(value), "a constant", range))

    def _list(self, value: list[object], type: Type, range: SourceRange | None) -> Text:
        known = type if isinstance(type, T.ListType) else T.ListType.of(T.TENSOR)
        items = joined(", ", [self.text(v, known.element, range) for v in value])
        if value and is_told_by_members(known.element):
            return code("[{}]", items)
        return code("annotate({}, [{}])", self.names.text(known, range), items)

    def _dict(self, value: dict[object, object], type: Type, range: SourceRange | None) -> Text:
        known = type if isinstance(type, T.DictType) else T.DictType.of(T.STRING, T.TENSOR)
        pairs = ((self.text(k, known.key, range), self.text(v, known.value, range)) for k, v in value.items())
        items = joined(", ", [code("{}: {}", key, item) for key, item in pairs])
        if value and is_told_by_members(known.value):
            return code("{{{}}}", items)
        return code("annotate({},{{{}}})", self.names.text(known, range), items)

    def _tuple(self, value: tuple[object, ...], type: Type, range: SourceRange | None) -> Text:
        fits = isinstance(type, T.TupleType) and len(type.elements) == len(value)
        types = type.elements if fits and isinstance(type, T.TupleType) else tuple(map(type_of_value, value))
        items = [self.text(v, t, range) for v, t in zip(value, types, strict=True)]
        named = isinstance(type, T.TupleType) and type.names is not None and type.qualified_name is not None
        if named:
            self.declare(type)
        name = self.names.name(type) if named else EMPTY
        return code("{}({},)" if len(items) == 1 else "{}({})", name, joined(", ", items))

    def _complex(self, value: complex, type: Type, range: SourceRange | None) -> Text:
        real, imaginary = float_text(value.real), float_text(value.imag)
        return code("{}{}j" if imaginary.startswith("-") else "{}+{}j", real, imaginary)


_WRITERS: tuple[tuple[Any, Callable[[ConstantWriter, Any, Type, SourceRange | None], Text]], ...] = (
    ((bool, type(None), enum.Enum, torch.device), ConstantWriter._simple),
    ((int, *INT_OBJECTS), ConstantWriter._int),
    (float, lambda writer, value, type, range: float_text(value)),
    (complex, ConstantWriter._complex),
    (str, lambda writer, value, type, range: quoted(value)),
    (list, ConstantWriter._list),
    (dict, ConstantWriter._dict),
    (tuple, ConstantWriter._tuple),
)


def float_text(value: float) -> Text:
    """`2.`, `0.5`, `1e-08`, `inf`: what reads back as the same float."""
    if math.isnan(value):
        return fixed("nan")
    if math.isinf(value):
        return fixed("inf" if value > 0 else "-inf")
    if abs(value) < 1e10 and value == int(value):
        return code("-{}." if math.copysign(1, value) < 0 else "{}.", abs(int(value)))
    text = exact_decimal(value)
    return text if "." in text or "e" in text else code("{}.", text)


def needs_table(value: object) -> bool:
    """Would the text of the value, or of a part of it, not read back as the same in every reader?"""
    if isinstance(value, str):
        return not value.isascii()
    if isinstance(value, float):
        return value == 0 and math.copysign(1, value) < 0  # read as 0.
    if isinstance(value, complex):
        return any(not math.isfinite(p) or needs_table(p) for p in (value.real, value.imag))
    if isinstance(value, int):
        return value == SMALLEST_INT  # read as the negative of a number that there is not
    if isinstance(value, list | tuple):
        return any(map(needs_table, value))
    if isinstance(value, dict):
        return any(map(needs_table, value)) or any(map(needs_table, value.values()))
    return False
