"""Formatting in terms of TorchScript, whose `format` knows `{}` alone, and whose `%` knows no widths.

    "{:.2f}".format(x)      =>   fixed(x, 2)                 a function that is written into the archive
    "{:>5}|{{".format(n)    =>   "{}|{}".format(str(n).rjust(5), "{")
    "%03d" % n              =>   "%s" % str(n).zfill(3)

What has no such form is refused, with its place.
"""

from __future__ import annotations

import functools
import math
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.source import NotSupportedError
from jitlite.compiler.program import Program
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.syntax.python_ast import parse_functions
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.unit import Function, insert_call

_MOST_DIGITS = 15
"""Digits behind the point that `fixed` counts exactly."""
_TEXT = """
def fixed(x: float, digits: int, sign: str) -> str:
    if math.isnan(x):
        return sign + "nan"
    before = "-" if math.copysign(1.0, x) < 0.0 else sign
    size = abs(x)
    if size == inf:
        return before + "inf"
    assert size < 9e18, "a number of over 18 digits cannot be formatted here"
    whole = int(size)
    part = size - float(whole)
    scale = float(10 ** digits)
    product = part * scale
    high = 134217729.0 * part - (134217729.0 * part - part)
    low = part - high
    scale_high = 134217729.0 * scale - (134217729.0 * scale - scale)
    scale_low = scale - scale_high
    missing = ((high * scale_high - product) + high * scale_low + low * scale_high) + low * scale_low
    number = int(product)
    rest = product - float(number)
    last = whole if digits == 0 else number
    if rest > 0.5 or (rest == 0.5 and (missing > 0.0 or (missing == 0.0 and last % 2 == 1))):
        number = number + 1
    if number == int(scale):
        number = 0
        whole = whole + 1
    text = str(whole)
    if digits > 0:
        text = text + "." + str(number).zfill(digits)
    return before + text


def signed(text: str, sign: str) -> str:
    return text if text.startswith("-") else sign + text


def zeroed(text: str, width: int) -> str:
    if text[:1] in ["-", "+", " "]:
        return text[:1] + text[1:].rjust(width - 1, "0")
    return text.rjust(width, "0")


def tupled(text: str, length: int) -> str:
    return "(" + text[1 : len(text) - 1] + (",)" if length == 1 else ")")


def centered(text: str, width: int, fill: str) -> str:
    left = (width - len(text)) // 2
    return text.rjust(len(text) + left, fill).ljust(width, fill)
"""
"""Functions of TorchScript. `fixed` multiplies by splitting both factors in halves, so that what rounding has taken
from the product is known (Dekker): a half is rounded as Python does, by the exact value. libtorch's `zfill` does not
know signs, and its `%f` has the digits of a float32."""


def format_function(name: str) -> Function:
    """A function of TorchScript that puts a text together."""
    return _functions()[name]


@functools.cache
def _functions() -> dict[str, Function]:
    program, resolver = Program(), Resolver({"math": math, "inf": math.inf})
    found = {}
    for definition in parse_functions(_TEXT, "jitlite/formats"):
        name = definition.name.name
        made = program.declare(
            Definition(name, definition, resolver, {}), qualified=f"__torch__.jitlite.formats.{name}"
        )
        found[name] = program.ready(made)
    return found


class Spec(NamedTuple):
    """What a format specification says."""

    fill: str
    align: str
    sign: str
    width: int
    precision: int | None
    kind: str


_SPEC = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>=^]))?(?P<sign>[-+ ])?(?P<zero>0)?(?P<width>\d+)?"
    r"(?:\.(?P<precision>\d+))?(?P<kind>[sdf%F])?",
    re.DOTALL,
)
_PERCENT = re.compile(
    r"%(?P<flags>[-+ 0]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?(?P<kind>[sdifFeEcr%])", re.DOTALL
)  # fmt: skip


def _spec(text: str) -> Spec | None:
    found = _SPEC.fullmatch(text)
    if found is None:
        return None
    fill = found["fill"] or ("0" if found["zero"] else " ")
    align = found["align"] or ("=" if found["zero"] else "")
    precision = found["precision"]
    return Spec(
        fill, align, (found["sign"] or "").strip("-"), int(found["width"] or 0),
        None if precision is None else int(precision), found["kind"] or "",
    )  # fmt: skip


class _Formatted:
    """One call of `format` or `%`, being taken apart.

    Attributes:
        template, values: the call that takes its place.
    """

    def __init__(self, node: Node, placeholder: str) -> None:
        self.node = node
        self.graph = node.graph
        self.placeholder = placeholder
        self.template = ""
        self.values: list[Value] = []

    def refuse(self, what: str) -> NotSupportedError:
        return NOT_IN_ARCHIVE(
            f"TorchScript's format has no {what}, so that it has no place in an archive", self.node.range,
            hint="an archive can have {}, widths of ints and texts, and .2f and the like; or format in Python",
        )  # fmt: skip

    def literal(self, text: str) -> None:
        """Text that stays as it is; braces are given as a value, as the template has no way to say them."""
        if self.placeholder != "{}" and "%" in text.replace("%%", ""):
            raise self.refuse(f"'{text[text.index('%') :][:5]}'")
        if self.placeholder == "{}" and ("{" in text or "}" in text):
            self.put(self.constant(text))
        else:
            self.template += text

    def put(self, value: Value, placeholder: str | None = None) -> None:
        self.template += placeholder or self.placeholder
        self.values.append(value)

    def constant(self, value: str | int) -> Value:
        return self.graph.insert_constant(value)

    def insert(self, kind: str, *inputs: Value, of: T.Type = T.STRING) -> Value:
        return self.graph.insert(kind, list(inputs), [of], range=self.node.range).output

    def call(self, name: str, *inputs: Value) -> Value:
        return insert_call(self.graph, format_function(name), list(inputs), self.node.range)

    def replace(self, kind: str) -> bool:
        values = self.values
        if kind == "aten::percentFormat":
            types = T.TupleType.of([v.type for v in values])
            values = [self.insert("prim::TupleConstruct", *values, of=types)]
        made = self.insert(kind, self.constant(self.template), *values)
        made.copy_metadata(self.node.output)
        self.node.output.replace_all_uses_with(made)
        return True

    # -- one value
    def formatted(self, value: Value, spec: Spec, shown: str) -> Value:
        """The text of a value by a specification."""
        if spec.kind in ("f", "F", "%"):
            return self.padded(self.fixed(value, spec, shown), spec, is_number=True)
        if spec.precision is not None or value.type not in (T.INT, T.STRING):
            raise self.refuse(f"'{shown}' for a value of type {value.type.annotation}")
        is_number = value.type is T.INT
        if spec.kind not in ("", "d" if is_number else "s") or (not is_number and (spec.sign or spec.align == "=")):
            raise self.refuse(f"'{shown}' for a value of type {value.type.annotation}")
        text = self.insert("aten::str", value) if is_number else value
        if spec.sign:
            text = self.call("signed", text, self.constant(spec.sign))
        return self.padded(text, spec, is_number=is_number)

    def fixed(self, value: Value, spec: Spec, shown: str) -> Value:
        digits = 6 if spec.precision is None else spec.precision
        if digits > _MOST_DIGITS or value.type not in (T.FLOAT, T.INT, T.BOOL, T.TENSOR):
            raise self.refuse(f"'{shown}' for a value of type {value.type.annotation}")
        number = value if value.type is T.FLOAT else self.insert("aten::Float", value, of=T.FLOAT)
        if spec.kind == "%":
            number = self.insert("aten::mul", number, self.graph.insert_constant(100.0), of=T.FLOAT)
        text = self.call("fixed", number, self.constant(digits), self.constant(spec.sign))
        return self.insert("aten::add", text, self.constant("%")) if spec.kind == "%" else text

    def padded(self, text: Value, spec: Spec, *, is_number: bool) -> Value:
        if spec.width == 0:
            return text
        width, align = self.constant(spec.width), spec.align or (">" if is_number else "<")
        if align == "=":
            if spec.fill != "0":
                raise self.refuse(f"'{spec.fill}' between sign and digits")
            return self.call("zeroed", text, width)
        fill = self.constant(spec.fill)
        if align == "^":
            return self.call("centered", text, width, fill)
        return self.insert("aten::rjust" if align == ">" else "aten::ljust", text, width, fill)


# -- format


def lower_format(node: Node) -> bool:
    """`"...".format(...)`. Of a template that is no constant nothing is known."""
    pattern, *values = node.inputs
    template = constant_of(pattern) if is_constant(pattern) else None
    if not isinstance(template, str) or _is_plain(template, len(values)):
        return False
    made = _Formatted(node, "{}")
    for literal, value, shown, spec in _fields(made, template, values):
        made.literal(literal)
        if value is not None:
            made.put(value if not spec else made.formatted(value, _known(made, spec, shown), shown))
    return made.replace("aten::format")


def _is_plain(template: str, count: int) -> bool:
    pieces = template.split("{}")
    return len(pieces) == count + 1 and not any("{" in piece or "}" in piece for piece in pieces)


def _known(made: _Formatted, spec: str, shown: str) -> Spec:
    found = _spec(spec)
    if found is None:
        raise made.refuse(f"'{shown}'")
    return found


def _fields(
    made: _Formatted, template: str, values: Sequence[Value]
) -> Iterator[tuple[str, Value | None, str, str]]:  # fmt: skip
    """The parts of a template: text, the value behind it, the field as it stands there, its specification."""
    number = 0
    for literal, name, spec, conversion in string.Formatter().parse(template):
        if name is None:
            yield literal, None, "", ""
            continue
        shown = f"{{{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
        index = number if not name else int(name) if name.isdecimal() else -1
        number += not name
        if not 0 <= index < len(values):
            raise made.refuse(f"'{shown}'")
        value = values[index]
        if conversion is not None:
            if conversion not in "rs" or (conversion == "r" and value.type not in (T.INT, T.BOOL, T.NONE, T.FLOAT)):
                raise made.refuse(f"'{shown}' for a value of type {value.type.annotation}")
            value = made.insert("aten::str", value)
        yield literal, value, shown, spec or ""


# -- %


def lower_percent(node: Node) -> bool:
    """`"..." % values`."""
    pattern, *values = node.inputs
    template = constant_of(pattern) if is_constant(pattern) else None
    if not isinstance(template, str):
        return False
    single = values[0].type if len(values) == 1 else None
    types = list(single.elements) if isinstance(single, T.TupleType) else [v.type for v in values]
    fields = list(_PERCENT.finditer(template))
    if "%" not in _PERCENT.sub("", template) and T.BOOL not in types and all(map(_is_known, fields)):
        return False
    made = _Formatted(node, "%s")
    if isinstance(single, T.TupleType):
        unpacked = node.graph.insert("prim::TupleUnpack", values, types, range=node.range)
        values = list(unpacked.outputs)
    end = 0
    for field in fields:
        made.literal(template[end : field.start()])
        end = field.end()
        if field["kind"] == "%":
            made.literal("%%")
        elif not values:
            raise made.refuse(f"'{field[0]}' without a value")
        else:
            _put_percent(made, field, values.pop(0))
    made.literal(template[end:])
    return made.replace("aten::percentFormat")


def _is_known(field: re.Match[str]) -> bool:
    """Is it one that libtorch has, and gives the same text for?"""
    return not field["flags"] and not field["width"] and field["precision"] is None and field["kind"] in "sdieEc%"


def _put_percent(made: _Formatted, field: re.Match[str], value: Value) -> None:
    kind = field["kind"]
    if value.type is T.BOOL and kind in "eE":
        value = made.insert("aten::Float", value, of=T.FLOAT)
    if _is_known(field) and not (value.type is T.BOOL and kind in "di"):
        made.put(value, f"%{kind}")
        return
    if kind in "eEc" or (kind == "r" and value.type not in (T.INT, T.BOOL, T.FLOAT, T.NONE)):
        raise made.refuse(f"'{field[0]}'")
    if kind in "sr" and value.type is not T.STRING:
        value = made.insert("aten::str", value)
    if kind in "di" and value.type is not T.INT:
        value = made.insert("aten::Int", value, of=T.INT)
    made.put(made.formatted(value, _percent_spec(field), field[0]))


def _percent_spec(field: re.Match[str]) -> Spec:
    """What `%-5d` and the like ask for, in the terms of `format`."""
    flags, kind, precision = field["flags"], field["kind"], field["precision"]
    is_number = kind in "difF"
    zero = "0" in flags and "-" not in flags and is_number
    sign = ("+" if "+" in flags else " " if " " in flags else "") if is_number else ""
    align = "<" if "-" in flags else "=" if zero else ">"
    return Spec(
        "0" if zero else " ", align, sign, int(field["width"] or 0), None if precision is None else int(precision),
        {"i": "d", "r": "s"}.get(kind, kind),
    )  # fmt: skip


LOWERINGS: dict[str, Callable[[Node], bool]] = {"aten::format": lower_format, "aten::percentFormat": lower_percent}
"""What formats are written as, by the kind of the node; each says whether it has put something in its place."""
