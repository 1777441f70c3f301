"""Operators on strings: Python's methods and formatting, over Unicode text.

TorchScript fills in default arguments as constants, so a default cannot be told from the same value written out. Two
of its defaults have a meaning of their own here, the one of Python's default: an `end` of -1 is the end of the string,
and the default characters of `strip` are all white space. Other negative positions count from the end as in Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from jitlite.ir.formatting import format_by_position, format_with_percent
from jitlite.ir.ops import op
from jitlite.ir.traits import Trait, known

_DEFAULT_STRIPPED = " \n\t\f\v"
"""The default of `strip` in the schemas; Python's default strips all white space."""

_CASES = {
    "capitalize": "With the first character in upper case and the others in lower case.",
    "lower": "In lower case.",
    "swapcase": "With upper and lower case exchanged.",
    "title": "With the first character of each word in upper case.",
    "upper": "In upper case.",
}
for _name, _doc in _CASES.items():
    op(f"aten::{_name}(str self) -> str", total=True, doc=f"`self.{_name}()`: {_doc[0].lower()}{_doc[1:]}")(
        getattr(str, _name)
    )

_TESTS = "isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper"
for _name in _TESTS.split():
    op(f"aten::{_name}(str self) -> bool", total=True, doc=f"`self.{_name}()`.")(getattr(str, _name))


# -- searching


def _bounded(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of str, with an `end` of -1 for the end of the string."""

    def search(self: str, substr: str, start: int, end: int) -> Any:
        return method(self, substr, start, None if end == -1 else end)

    return search


_SEARCHES = {
    "count": ("int", "How often the text occurs without overlap."),
    "find": ("int", "Where the text first occurs, or -1."),
    "rfind": ("int", "Where the text last occurs, or -1."),
    "index": ("int", "Where the text first occurs; a ValueError where it does not."),
    "rindex": ("int", "Where the text last occurs; a ValueError where it does not."),
    "startswith": ("bool", "Does it begin with the text?"),
    "endswith": ("bool", "Does it end with the text?"),
}
for _name, (_result, _doc) in _SEARCHES.items():
    _overload = ".str" if _name == "index" else ""
    op(
        f"aten::{_name}{_overload}(str self, str substr, int start=0, int end=-1) -> {_result}",
        total="index" not in _name,
        doc=f"{_doc} An end of -1 is the end of the string.",
    )(_bounded(getattr(str, _name)))


# -- cutting, joining, converting


@op("aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str")
def slice_string(string: str, start: int | None, end: int | None, step: int) -> str:
    """`string[start:end:step]`. A step of 0 is a ValueError."""
    return string[start:end:step]


@op("aten::__getitem__.str(str s, int index) -> str")
@op("prim::StringIndex(str string, int index) -> str")
def string_index(s: str, index: int) -> str:
    """`s[index]`: one character. A position outside is an IndexError."""
    return s[index]


def _stripping(method: Callable[..., str]) -> Callable[..., str]:
    """The method of str, with the schema's default for Python's."""

    def strip(self: str, chars: str) -> str:
        return method(self, None if chars == _DEFAULT_STRIPPED else chars)

    return strip


for _method in (str.strip, str.lstrip, str.rstrip):
    _name = _method.__name__
    _doc = f"`self.{_name}(chars)`; the default is all white space."
    op(f'aten::{_name}(str self, str chars=" \\n\\t\\f\\v") -> str', total=True, doc=_doc)(_stripping(_method))

_METHODS: tuple[tuple[str, Callable[..., Any], bool, str], ...] = (
    ("aten::split.str(str self, str? separator=None, int max=-1) -> str[]", str.split, False,
     "`self.split(separator, max)`; None separates at runs of white space."),
    ('aten::rsplit(str self, str separator=" ", int max=-1) -> str[]', str.rsplit, False,
     "`self.rsplit(separator, max)`."),
    ("aten::splitlines(str self, bool keepends=False) -> str[]", str.splitlines, True,
     "`self.splitlines(keepends)`: the lines."),
    ("aten::partition(str self, str separator) -> (str, str, str)", str.partition, False,
     "`self.partition(separator)`: the text before, the first separator, the text behind it."),
    ("aten::rpartition(str self, str separator) -> (str, str, str)", str.rpartition, False,
     "`self.rpartition(separator)`: the text before, the last separator, the text behind it."),
    ("aten::replace(str self, str old, str new, int max=-1) -> str", str.replace, False,
     "`self.replace(old, new, max)`; a negative max is no limit."),
    ("aten::join(str self, str[] values) -> str", str.join, True, "`self.join(values)`."),
    ("aten::list(str t) -> str[]", list, True, "`list(t)`: the characters."),
    ("aten::len.str(str s) -> int", len, True, "`len(s)`: the number of characters."),
    ("aten::add.str(str a, str b) -> str", operator.add, True, "`a + b`."),
    ("aten::zfill(str self, int width) -> str", str.zfill, False, "`self.zfill(width)`: zeros behind the sign."),
    ("aten::expandtabs(str self, int tabsize=8) -> str", str.expandtabs, False, "`self.expandtabs(tabsize)`."),
    ("aten::bin(int i) -> str", bin, True, "`bin(i)`: `0b101`."),
    ("aten::oct(int i) -> str", oct, True, "`oct(i)`: `0o17`."),
    ("aten::hex(int i) -> str", hex, True, "`hex(i)`: `0xff`."),
    ("aten::chr(int i) -> str", chr, False, "`chr(i)`: the character with this code, else a ValueError."),
    ("aten::ord(str string) -> int", ord, False, "`ord(string)`: the code of one character, else a TypeError."),
)  # fmt: skip
"""Schema, meaning, whether it cannot raise, documentation."""

for _schema, _fn, _total, _doc in _METHODS:
    op(_schema, total=_total, doc=_doc)(_fn)

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for _name, _sign in _COMPARISONS.items():
    op(f"aten::{_name}.str(str a, str b) -> bool", total=True, doc=f"`a {_sign} b`, by code point.")(
        getattr(operator, _name)
    )


# -- padding

for _name, _where in (("center", "on both sides"), ("ljust", "on the right"), ("rjust", "on the left")):
    op(
        f'aten::{_name}(str self, int width, str fillchar=" ") -> str',
        doc=f"`self.{_name}(width, fillchar)`: filled {_where}. A fill of several characters is a TypeError.",
    )(getattr(str, _name))


# -- formatting


@op("aten::str(t elem) -> str", traits=(Trait.RUNS_METHODS, Trait.SHOWS))
def to_string(elem: object) -> str:
    """`str(elem)`, as Python writes it: `1.0`, `[1, 'a']`."""
    return str(elem)


op("aten::format(str self, ...) -> str",
   doc="`self.format(*args)`, with Python's positions, conversions and format specifications. A field that reaches into"
   " a value (`{0.x}`) is a ValueError, and so is a width or precision of over a million.",
   traits=(Trait.RUNS_METHODS, Trait.SHOWS))(
    format_by_position
)  # fmt: skip
op("aten::percentFormat(str self, ...) -> str",
   doc="`self % args`. A single argument stands for itself, so a tuple gives the values to put in. A width or precision"
   " of over a million is a ValueError.",
   traits=(Trait.RUNS_METHODS, Trait.SHOWS))(format_with_percent)  # fmt: skip


# -- what lists of scripts are in Python, to be shown


@op("python::Size(Any value) -> Any")
def size_of(value: object) -> object:
    """A list of sizes as the `torch.Size` that it is in Python, to be shown."""
    return torch.Size(value) if isinstance(value, list) else value


@op("python::tuple(Any value) -> Any", total=True)
def tuple_of(value: object) -> object:
    """A list as the tuple that it is in Python, to be shown."""
    return tuple(value) if isinstance(value, list) else value


@op("python::dict_keys(Any value) -> Any", total=True)
def keys_of(value: object) -> object:
    """A list of keys as `d.keys()` is in Python, to be shown."""
    return dict.fromkeys(value).keys() if isinstance(value, list) else value


@op("python::dict_values(Any value) -> Any", total=True)
def values_of(value: object) -> object:
    """A list of values as `d.values()` is in Python, to be shown."""
    return dict(enumerate(value)).values() if isinstance(value, list) else value


@op("python::dict_items(Any value) -> Any", total=True)
def items_of(value: object) -> object:
    """A list of pairs as `d.items()` is in Python, to be shown."""
    return dict(value).items() if isinstance(value, list) else value


@op("python::range(int start, int stop, int step) -> Any")
def range_of(start: int, stop: int, step: int) -> object:
    """A range as it is in Python, to be shown."""
    return range(start, stop, step)


SHOWN = ("python::Size", "python::tuple", "python::dict_keys", "python::dict_values", "python::dict_items")
"""What makes lists what they are in Python, to be shown."""


# -- what is known of operators that are declared in families

known("aten::center", Trait.GROWING)
known("aten::expandtabs", Trait.GROWING)
known("aten::ljust", Trait.GROWING)
known("aten::rjust", Trait.GROWING)
known("aten::zfill", Trait.GROWING)
known("aten::ord", Trait.PLAIN_INT)
