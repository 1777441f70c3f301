"""Source text that only checked parts get into.

jitlite writes text that something else runs: Python functions, Python files, FX modules, archives. Names and values
from outside (a script, an archive, graph text, attributes of modules) get into it in two ways and no third:

* `identifier` checks a name and makes it an `Identifier`, which stands in the text as it is;
* `literal` writes a value so that it is nothing but that value, a `Literal`.

`code` puts them into a template that stands in jitlite's own source. It takes no other text, so mypy finds what would
come in unchecked; `tests/test_code_text.py` makes sure that templates are literals.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import string
import unicodedata
from collections.abc import Callable, Iterable

from jitlite.base.errors.inside import BAD_SOURCE_PART

_NOT_IN_NAMES = re.compile(r"\W+", re.ASCII)
_OPEN_ENDED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters at which something, somewhere, ends a line, or that cannot be encoded."""


class Text(str):
    """Source text made by this module."""

    __slots__ = ()


EMPTY = Text("")


class Identifier(Text):
    """A name that means itself in Python source. `identifier` makes it, or `made_identifier`."""

    __slots__ = ()


class Literal(Text):
    """A value as Python source. `literal` makes it."""

    __slots__ = ()


def is_identifier(name: object) -> bool:
    """Does the text, put into Python source, mean just itself as a name?

    Keywords do not, nor does what Python folds into another name (`ﬁ` is read as `fi`).
    """
    if not isinstance(name, str) or not str.isidentifier(name) or keyword.iskeyword(name):
        return False
    return name.isascii() or unicodedata.normalize("NFKC", name) == name


def is_dunder(name: str) -> bool:
    """Is it one of the names that Python's own machinery looks for (`__class__`)?"""
    return name.startswith("__") and name.endswith("__") and len(name) > 4


def identifier(name: object, what: str = "a name") -> Identifier:
    """The name, which may stand in source.

    Args:
        what: what it is the name of, for the error.

    Raises:
        NotSupportedError: it is no identifier.
    """
    if not is_identifier(name):
        raise BAD_SOURCE_PART(f"{name!a} cannot stand in source as {what}: it is no identifier of Python")
    return Identifier(name)


def digits(text: str) -> Text:
    """A number that is written as text (the name of an element of a container), as it is.

    Raises:
        NotSupportedError: it is no number.
    """
    if not (text.isdecimal() and text.isascii()):
        raise BAD_SOURCE_PART(f"{text!a} cannot stand in source as a number")
    return Text(text)


def builtin_name(name: str) -> Text:
    """The name of something that Python knows by itself: `len`, and `None`, which is a keyword."""
    return Text(name) if name in ("None", "True", "False") else identifier(name)


def made_identifier(text: str, otherwise: str = "_") -> Identifier:
    """A name made of any text: what cannot stand in one becomes `_`; letters beyond ASCII go.

    Args:
        otherwise: what is put in front where the text does not begin as a name does.
    """
    base = _NOT_IN_NAMES.sub("_", text)
    if not base or base[0].isdigit():
        base = f"{otherwise}{base}"
    return Identifier(f"{base}_" if keyword.iskeyword(base) else base)


def numbered(base: Identifier, number: int) -> Identifier:
    """The name with a number behind it."""
    return Identifier(f"{base}_{number}")


def with_digits(base: Identifier, number: int) -> Identifier:
    """The name with a number at its end."""
    return Identifier(f"{base}{number}")


def private(base: str) -> Identifier:
    """A name made of any text that begins with an underscore."""
    return Identifier(f"_{made_identifier(base)}")


def dotted(path: str, what: str = "a path") -> Text:
    """Names with dots between them.

    Raises:
        NotSupportedError: one of them is no identifier.
    """
    return joined(".", [identifier(part, what) for part in path.split(".")])


def is_quotable(name: str) -> bool:
    """Does a text that others put between quotes stay one text? Then it may be the name of an attribute."""
    return _OPEN_ENDED.search(name) is None and not set(name) & set("\"'`\\{}") and bool(name)


def is_attribute_path_part(name: str) -> bool:
    """Does a writer that is not ours (torch.fx) mean this attribute if it writes `x.name`, or else
    `getattr(x, "name")`?"""
    if name.isidentifier():
        return is_identifier(name) and not is_dunder(name)
    return is_quotable(name) and "." not in name


def literal(value: object) -> Literal:
    """A str, number, bool, None or bytes as source, in ASCII; an int and a float only if Python has a literal for it.

    Raises:
        NotSupportedError: there is no literal for it.
    """
    if value is None or isinstance(value, bool):
        return Literal(repr(value))
    if isinstance(value, str):
        return Literal(ascii(str(value)))
    if type(value) is int or (type(value) is float and math.isfinite(value)) or type(value) is bytes:
        return Literal(repr(value))
    raise BAD_SOURCE_PART(f"a value of the class {type(value).__name__} has no literal in Python")


def shown_literal(value: str) -> Literal:
    """A str as source, with its printable letters as they are."""
    plain = str(value)
    return Literal(repr(plain) if plain.isprintable() else ascii(plain))


ESCAPES = {"\\": "\\\\", '"': '\\"', "'": "\\'", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
           "\t": "\\t", "\v": "\\v"}  # fmt: skip
"""What stands for characters in the text literals of TorchScript."""


def quoted(value: str) -> Literal:
    """A text literal of TorchScript: in double quotes, letters as they are, control characters escaped."""
    return Literal('"' + "".join(map(_quoted_character, value)) + '"')


def plainly_quoted(value: str) -> Literal | None:
    """The same for readers that know no escapes beyond ASCII; None where the text does not mean itself without."""
    if value.isascii():
        return quoted(value)
    return Literal(f'"{value}"') if value.isprintable() and not set(value) & set('"\\') else None


def _quoted_character(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x80:
        return f"\\{number:03o}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def exact_decimal(value: float) -> Literal:
    """A finite float with as many digits as tell it from all others."""
    if not math.isfinite(value):
        raise BAD_SOURCE_PART(f"{value} has no digits")
    return Literal(f"{value:.17g}")


def code(template: str, *parts: Text | int, **named: Text | int) -> Text:
    """The template, a literal in the source of jitlite, with these parts in it; as `str.format` has it."""
    return Text(template.format(*parts, **named))


def fixed(text: str) -> Text:
    """A literal in the source of jitlite, as it is."""
    return Text(text)


def filled(template: Text, *parts: Text | int, **named: Text | int) -> Text:
    """The parts put into the holes of a template that was put together."""
    return Text(template.format(*parts, **named))


def template_parts(template: Text) -> list[tuple[Text, str | None]]:
    """The parts of a template that was put together: text, and the name of the hole after it, if there is one."""
    return [(Text(text), name) for text, name, _, _ in string.Formatter().parse(template)]


def cut(text: Text, start: int, end: int | None = None) -> Text:
    """The part of the text from one position to another."""
    return Text(text[start:end])


def stripped(text: Text) -> Text:
    """The text without blanks at its ends."""
    return Text(text.strip())


def blanks(count: int) -> Text:
    """So many blanks."""
    return Text(" " * count)


def indented(text: Text, level: int) -> Text:
    """The text, so many levels of four blanks further in."""
    return Text("    " * level + text)


def replaced(template: Text, old: str, new: Text) -> Text:
    """The template with something else for each `old`, a literal."""
    return Text(template.replace(old, new))


def substituted(pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], Text], template: Text) -> Text:
    """The template with something else for each match of the pattern."""
    return Text(pattern.sub(replacement, template))


def joined(separator: str, parts: Iterable[Text]) -> Text:
    """The parts with the separator, a literal, between them."""
    return Text(separator.join(parts))


def comment(text: object) -> Text:
    """Text that ends up behind `#` or in a docstring: one line, without quotes or backslashes that could end it."""
    line = _OPEN_ENDED.sub(" ", str(text))
    return Text(line.replace("\\", "/").replace('"""', "'''").rstrip('"'))


def hole(number: int) -> Text:
    """`{0}`: where a template takes an operand."""
    return Text(f"{{{number}}}")


def holes(numbers: Iterable[int]) -> Text:
    """`{0}, {1}`: the operands of a template."""
    return joined(", ", map(hole, numbers))


def named_hole(name: str, number: int) -> Text:
    """`name={0}`: an operand that is passed by name."""
    return code("{}={}", identifier(name, "the name of a parameter"), hole(number))


_SIGNS = frozenset(
    {"+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@", "==", "!=", "<", "<=", ">", ">=", "is", "in"}
) | {"and", "or", "is not", "not in"}


def infix_sign(sign: str) -> Text:
    """One of Python's infix operators.

    Raises:
        NotSupportedError: it is none.
    """
    if sign not in _SIGNS:
        raise BAD_SOURCE_PART(f"{sign!a} is no operator of Python")
    return Text(sign)


def own_source(tree: ast.AST) -> list[Text]:
    """The lines of a function of jitlite's own, whose tree this is."""
    return [Text(line) for line in ast.unparse(tree).splitlines()]


def unparsed(lines: Iterable[Text]) -> list[Text]:
    """The lines of Python as the standard library writes it: without parentheses that are not needed."""
    return own_source(ast.parse("\n".join(lines)))


def doubled(text: Text) -> Text:
    """The text as a part of a template: its braces are no holes."""
    return Text(text.replace("{", "{{").replace("}", "}}"))
