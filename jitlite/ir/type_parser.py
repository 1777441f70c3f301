"""The reader of types, alias marks and defaults, in one grammar for schemas and graph text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NoReturn

import torch

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.code_text import is_identifier
from jitlite.ir.types import Type

_TOKEN = re.compile(
    r"[A-Za-z_]\w*|-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|->|::|\.\.\.|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\S"
)

SIMPLE_TYPES: dict[str, Type] = {
    "Tensor": T.TENSOR, "int": T.INT, "float": T.FLOAT, "bool": T.BOOL, "complex": T.COMPLEX, "str": T.STRING,
    "NoneType": T.NONE, "None": T.NONE, "Scalar": T.NUMBER, "number": T.NUMBER, "Any": T.ANY, "Device": T.DEVICE,
    "Generator": T.GENERATOR, "Stream": T.STREAM, "Storage": T.STORAGE, "Quantizer": T.QUANTIZER,
    "Capsule": T.CAPSULE, "Function": T.FUNCTION, "PyObject": T.PY_OBJECT,
    "Exception": T.EXCEPTION, "list": T.ANY_LIST, "tuple": T.ANY_TUPLE,
    "dict": T.ANY_DICT,
    "set": T.ANY_SET,
    "frozenset": T.ANY_FROZENSET,
    "AnyEnumType": T.ANY_ENUM, "AnyClassType": T.ANY_CLASS, "ScalarType": T.SCALAR_TYPE, "Layout": T.LAYOUT,
    "MemoryFormat": T.MEMORY_FORMAT, "Dimname": T.DIMNAME, "SymInt": T.SYM_INT, "SymFloat": T.SYM_FLOAT,
    "SymBool": T.SYM_BOOL, "ConstQuantizerPtr": T.QUANTIZER,
}  # fmt: skip
"""Names of types without parts, in schemas and graph text."""

_DTYPES = {name: dtype for dtype, name in T.DTYPE_NAMES.items()}
_PART_OF_DEFAULT = re.compile(r'"(?:[^"\\]|\\.)*"|[()\[\]{},]|[^"()\[\]{},]+|.', re.DOTALL)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_SIZED = re.compile(r"\d+$")
_VARIABLE = re.compile(r"t(\d+|[A-Z]\w*)?$")


class AliasInfo(Record, eq=True):
    """`(a! -> b)`: the sets a value belongs to before and after, and whether it is written. `*` is the wildcard."""

    before: frozenset[str]
    after: frozenset[str]
    is_write: bool = False
    text: str = ""

    def __str__(self) -> str:
        return self.text


class SchemaError(ValueError):
    """Text that is no schema or type."""


MOST_NESTED = 100
"""Types within one another that are read. Each spells its whole text, so that memory grows with the square."""

_SHOWN = 60
"""Characters of the text that an error shows on each side of its place."""


class TypeParser:
    """Reads types, alias marks and constants off a text, left to right.

    Args:
        text: what to read.
        named: gives the type of a name that is not built in (a class), or None.
        variables: accept `t`, `t1`, `tVal` as schema variables.
    """

    def __init__(self, text: str, named: Callable[[str], Type | None] | None = None, variables: bool = True) -> None:
        self.text = text
        self.named = named
        self.variables = variables
        self.position = 0
        self._depth = 0
        self._peeked = (-1, "")
        self._skip_blank()

    # -- tokens
    def _skip_blank(self) -> None:
        while self.position < len(self.text) and self.text[self.position] in " \n\t":
            self.position += 1

    def peek(self) -> str:
        """The next token, empty at the end."""
        if self._peeked[0] != self.position:
            found = _TOKEN.match(self.text, self.position)
            self._peeked = (self.position, found.group() if found else "")
        return self._peeked[1]

    def next(self) -> str:
        token = self.peek()
        self.position += len(token)
        self._skip_blank()
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.next()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}")

    def fail(self, message: str) -> NoReturn:
        found = self.peek() or "the end"
        start, end = max(0, self.position - _SHOWN), self.position + _SHOWN
        shown = f"{'...' * (start > 0)}{self.text[start:end]}{'...' * (end < len(self.text))}"
        raise SchemaError(f"{message}, found {found[:_SHOWN]!r} at character {self.position} of: {shown}")

    def list_of(self, item: Callable[[], object], close: str) -> None:
        """Comma-separated items up to and including `close`."""
        if self.accept(close):
            return
        while True:
            item()
            if self.accept(close):
                return
            self.expect(",")

    # -- types
    def type(self) -> Type:
        return self.annotated_type()[0]

    def annotated_type(self) -> tuple[Type, AliasInfo | None, AliasInfo | None, int | None]:
        """A type with its alias mark, its elements' alias mark, and N of `T[N]`."""
        self._depth += 1
        t = self._base_type()
        suffixes = 0
        alias: AliasInfo | None = None
        element_alias: AliasInfo | None = None
        size: int | None = None
        while True:
            token = self.peek()
            suffixes += 1
            if self._depth + suffixes > MOST_NESTED:
                self.fail(f"more than {MOST_NESTED} types are within one another")
            if token == "[":
                self.next()
                if _SIZED.match(self.peek()):
                    size = int(self.next())
                self.expect("]")
                t, element_alias, alias = T.ListType.of(t), alias, None
            elif token == "?":
                self.next()
                t = T.OptionalType.of(t)
            elif token == "(" and alias is None:
                alias = self._alias()
            else:
                self._depth -= 1
                return t, alias, element_alias, size

    def _alias(self) -> AliasInfo:
        start = self.position
        self.expect("(")
        before, is_write = self._alias_sets()
        after = before
        if self.accept("->"):
            after, also_write = self._alias_sets()
            is_write = is_write or also_write
        end = self.position
        self.expect(")")
        return AliasInfo(before, after, is_write, self.text[start : end + 1].strip())

    def _alias_sets(self) -> tuple[frozenset[str], bool]:
        sets = [self.next()]
        is_write = self.accept("!")
        while self.accept("|"):
            sets.append(self.next())
            is_write = self.accept("!") or is_write
        return frozenset(sets), is_write

    def _base_type(self) -> Type:
        token = self.peek()
        if self._depth > MOST_NESTED:
            self.fail(f"more than {MOST_NESTED} types are within one another")
        if token == "(":
            self.next()
            return T.TupleType.of(self._types(")"))
        if not (token[:1].isalpha() or token[:1] == "_"):
            self.fail("expected a type")
        self.next()
        return self._type_called(token)

    def _type_called(self, token: str) -> Type:
        compound = _COMPOUND.get(token)
        if compound is not None:
            return compound(self)
        if token in _DTYPES or (token == "Tensor" and self._shape_follows()):
            return self._tensor_type(None if token == "Tensor" else _DTYPES[token])
        if token in SIMPLE_TYPES and self.peek() != ".":
            return SIMPLE_TYPES[token]
        if self.variables and _VARIABLE.match(token):
            return T.VarType.of(token)
        return self._named_type(token)

    def _types(self, close: str) -> list[Type]:
        found: list[Type] = []
        self.list_of(lambda: found.append(self.type()), close)
        return found

    def _named_type(self, token: str) -> Type:
        name = token
        while self.accept("."):
            name += f".{self.next()}"
        t = self.named(name) if self.named else None
        if t is None:
            if not name.startswith("__torch__"):
                self.fail(f"unknown type {name}")
            return T.ClassType.of(name)
        return t

    def _bracketed(self, count: int | None = None) -> list[Type]:
        close = {"(": ")", "[": "]"}.get(self.peek())
        if close is None:
            self.fail("expected ( or [")
        self.next()
        found = self._types(close)
        if count is not None and len(found) != count:
            self.fail(f"expected {count} type{'s' if count > 1 else ''} in the brackets, not {len(found)}")
        return found

    def _tuple(self) -> Type:
        if re.compile(r"\[\s*\(\s*\)\s*\]").match(self.text, self.position):  # `Tuple[()]` is the empty one
            for token in "[()]":
                self.expect(token)
            return T.TupleType.of(())
        return T.TupleType.of(self._bracketed())

    def _named_tuple(self) -> Type:
        self.expect("(")
        names: list[str] = []
        elements: list[Type] = []
        defaults: list[str | None] = []

        def field() -> None:
            name = self.next()
            if not is_identifier(name) or name.startswith("_") or name in names:
                self.fail(f"{name[:_SHOWN]!r} is no name of a field")
            names.append(name)
            self.expect(":")
            elements.append(self.type())
            defaults.append(self._default_of_field() if self.accept("=") else None)

        self.list_of(field, ")")
        return T.TupleType.of(elements, names, defaults=defaults if any(defaults) else ())

    def _default_of_field(self) -> str:
        """The text of a default, up to the comma or parenthesis after it."""
        self._skip_blank()
        depth, at = 0, self.position
        for part in _PART_OF_DEFAULT.finditer(self.text, self.position):
            token = part.group()
            if depth == 0 and token in (",", ")"):
                break
            depth += (token in _OPENING) - (token in _CLOSING)
            at = part.end()
        found = self.text[self.position : at].rstrip()
        if not found or depth:
            self.fail("expected a default")
        self.position = at
        self._skip_blank()
        return found

    def _angle(self) -> str:
        self.expect("<")
        end = self.text.find(">", self.position)
        if end < 0:
            self.fail("expected a name and >")
        name = self.text[self.position : end].strip()
        self.position = end + 1
        self._skip_blank()
        return name

    def _enum(self) -> Type:
        name = self._angle()
        t = self.named(name) if self.named else None
        return t if isinstance(t, T.EnumType) else T.EnumType.of(name, None, T.ANY)

    def _interface(self) -> Type:
        name = self._angle()
        t = self.named(name) if self.named else None
        return t if isinstance(t, T.InterfaceType) else T.InterfaceType.of(name)

    def _shape_follows(self) -> bool:
        """Is the bracket behind `Tensor` a shape and not an alias mark? A mark is `(a!`, `(a|b`, `(*` or `(a ->`.

        `(*)` is a mark in a schema only.
        """
        rest = self.text[self.position :]
        if not self.variables and re.match(r"\(\s*\*\s*\)", rest):
            return True
        return bool(re.match(r"\((\d|\*,|SS\(|\)|strides=|requires_grad=|device=)", rest))

    def _tensor_type(self, dtype: torch.dtype | None) -> Type:
        strides: list[int | None] | None = None
        device: torch.device | None = None
        requires_grad: bool | None = None
        has_fields = False
        sizes: list[int | None] = []
        symbols: list[int | None] = []
        if self.peek() != "(":
            return T.TensorType.of(dtype)
        self.next()

        def item() -> None:
            nonlocal strides, device, requires_grad, has_fields
            token = self.next()
            if token not in ("strides", "requires_grad", "device"):
                sizes.append(int(token) if token.isdigit() else None)
                symbols.append(self._symbol() if token == "SS" else None)
                return
            self.expect("=")
            has_fields = True
            if token == "strides":
                strides = self._strides()
            elif token == "requires_grad":
                requires_grad = self.next() == "1"
            else:
                device = self._device()

        self.list_of(item, ")")
        # `Long()` is rank 0, and what has strides has sizes
        has_sizes = bool(sizes) or strides is not None or not has_fields
        return T.TensorType.of(dtype, sizes if has_sizes else None, strides, device, requires_grad, symbols)

    def _symbol(self) -> int:
        """The number in the brackets of `SS(-2)`."""
        self.expect("(")
        token = self.next()
        self.expect(")")
        if not re.fullmatch(r"-[1-9]\d*", token):
            self.fail(f"a symbol is SS(-1), SS(-2) and so on, not SS({token})")
        return -int(token)

    def _strides(self) -> list[int | None]:
        self.expect("[")
        strides: list[int | None] = []
        self.list_of(lambda: strides.append(None if self.peek() == "*" and self.next() else int(self.next())), "]")
        return strides

    def _device(self) -> torch.device:
        device = self.next()
        if self.accept(":"):
            device += f":{self.next()}"
        return torch.device(device)

    # -- defaults
    def default(self) -> tuple[object, str]:
        """A default value and its text."""
        start = self.position
        value = self._literal()
        return value, self.text[start : self.position].strip()

    def _literal(self) -> object:
        token = self.next()
        if not token:
            self.fail("expected a default")
        if token == "[":
            items: list[object] = []
            self.list_of(lambda: items.append(self._literal()), "]")
            return items
        if token[:1] in ('"', "'"):
            return ast.literal_eval(token)
        if token in ("True", "False", "None"):
            return ast.literal_eval(token)
        if token == "-":
            inner = self._literal()
            if not isinstance(inner, int | float):
                self.fail("expected a number")
            return -inner
        if token in ("inf", "nan"):
            return float(token)
        try:
            return ast.literal_eval(token)
        except (ValueError, SyntaxError):
            return token  # `Mean`, `contiguous_format` and the like


_COMPOUND: dict[str, Callable[[TypeParser], Type]] = {
    "Dict": lambda p: T.DictType.of(*p._bracketed(2)),
    "Set": lambda p: T.SetType.of(p._bracketed(1)[0]),
    "FrozenSet": lambda p: T.SetType.of(p._bracketed(1)[0], frozen=True),
    "Future": lambda p: T.FutureType.of(*p._bracketed(1)),
    "Await": lambda p: T.AwaitType.of(*p._bracketed(1)),
    "RRef": lambda p: T.RRefType.of(*p._bracketed(1)),
    "Union": lambda p: T.UnionType.of(p._bracketed()),
    "Optional": lambda p: T.OptionalType.of(*p._bracketed(1)),
    "List": lambda p: T.ListType.of(*p._bracketed(1)),
    "Tuple": lambda p: p._tuple(),
    "NamedTuple": lambda p: p._named_tuple(),
    "Enum": lambda p: p._enum(),
    "InterfaceType": lambda p: p._interface(),
}
"""Type constructors and how the rest of each is read."""


def parse_type(text: str, named: Callable[[str], Type | None] | None = None) -> Type:
    """The type written as `text` in a graph or schema.

    Raises:
        SchemaError: where the text is no type.
    """
    parser = TypeParser(text, named)
    t = parser.type()
    if parser.peek():
        parser.fail("expected the end of the type")
    return t
