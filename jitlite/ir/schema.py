"""Schemas: the typed signatures of operators and functions, and their text.

    aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)

`parse_schema` and `str` are inverses on every schema torch prints. `type_parser.py` reads the types in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jitlite.base.computed_once import cached_property
from jitlite.ir import types as T
from jitlite.ir.int_codes import holds_object
from jitlite.ir.type_parser import AliasInfo, TypeParser
from jitlite.ir.types import Type


@dataclass(frozen=True)
class Argument:
    """One parameter or result of a schema.

    `declared_type` is the type as written; `type` is what TorchScript sees (ScalarType, Layout, MemoryFormat and SymInt
    are ints). `size` is N of `int[N]`. `alias` belongs to the value, `element_alias` to the elements of a list.
    """

    name: str
    declared_type: Type
    size: int | None = None
    default_text: str | None = None
    default: object = None
    kwarg_only: bool = False
    alias: AliasInfo | None = None
    element_alias: AliasInfo | None = None
    inferred: bool = False

    @property
    def has_default(self) -> bool:
        return self.default_text is not None

    @cached_property
    def has_plain_default(self) -> bool:
        """Is there a default value without objects such as dtypes, of which those who run a graph have to know?"""
        return self.has_default and not holds_object(self.default)

    @cached_property
    def type(self) -> Type:
        return as_torchscript_type(self.declared_type)

    @property
    def is_write(self) -> bool:
        """Is the argument, or an element of it, written?"""
        return bool((self.alias and self.alias.is_write) or (self.element_alias and self.element_alias.is_write))

    def type_text(self) -> str:
        """The type with alias marks and size."""
        return _decorate(self.declared_type, self.alias, self.element_alias, self.size)

    def __str__(self) -> str:
        text = self.type_text()
        if self.name:
            text += f" {self.name}"
        return f"{text}={self.default_text}" if self.has_default else text


def _decorate(t: Type, alias: AliasInfo | None, element_alias: AliasInfo | None, size: int | None) -> str:
    mark = "" if alias is None else str(alias)
    if isinstance(t, T.OptionalType):
        inner = _decorate(t.element, None, element_alias, size)
        return f"{inner}?{mark}" if isinstance(t.element, T.ListType) else f"{inner}{mark}?"
    if isinstance(t, T.FutureType | T.RRefType):  # graph text writes these with [ ]
        return f"{t.kind}({_decorate(t.element, None, None, None)}){mark}"
    if isinstance(t, T.ListType):
        element = _decorate(t.element, element_alias, None, None)
        return f"{element}[{'' if size is None else size}]{mark}"
    return f"{t}{mark}"


_as_torchscript: dict[Type, Type] = {T.SYM_FLOAT: T.FLOAT, T.SYM_BOOL: T.BOOL, **dict.fromkeys(T.INT_LIKE, T.INT)}


def as_torchscript_type(t: Type) -> Type:
    """The type TorchScript uses for a type of the dispatcher."""
    found = _as_torchscript.get(t)
    return T.cached_on(t, "in TorchScript", _contained_as_torchscript) if found is None else found


def _contained_as_torchscript(t: Type) -> Type:
    parts = t.contained
    return t.with_contained([as_torchscript_type(p) for p in parts]) if parts else t


@dataclass(frozen=True)
class Schema:
    """A signature. `name` is qualified (`aten::add`) for operators, plain for functions."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool = False
    is_varret: bool = False

    @cached_property
    def key(self) -> tuple[str, str]:
        return self.name, self.overload

    @property
    def qualified(self) -> str:
        """`aten::add.Tensor`."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @cached_property
    def is_mutable(self) -> bool:
        """Does the operator write any of its arguments?"""
        return any(a.is_write for a in self.arguments)

    def argument_index(self, name: str) -> int | None:
        for position, argument in enumerate(self.arguments):
            if argument.name == name:
                return position
        return None

    def __str__(self) -> str:
        parts: list[str] = []
        keyword_only = False
        for argument in self.arguments:
            if argument.kwarg_only and not keyword_only:
                keyword_only = True
                parts.append("*")
            parts.append(str(argument))
        if self.is_vararg:
            parts.append("...")
        return f"{self.qualified}({', '.join(parts)}) -> {self._returns_text()}"

    def _returns_text(self) -> str:
        returned = [str(r) for r in self.returns] + (["..."] if self.is_varret else [])
        # a single tuple-typed result keeps an extra pair of brackets, so that it reads back as one result
        if len(returned) == 1 and not returned[0].startswith("("):
            return returned[0]
        return f"({', '.join(returned)})"


def parse_schema(text: str, named: Callable[[str], Type | None] | None = None) -> Schema:
    """Read a schema.

    Raises:
        SchemaError: where the text is no schema.
    """
    parser = TypeParser(text, named or T.ClassType.of)
    name = parser.next()
    while parser.peek() in ("::", "."):
        if parser.peek() == "." and "::" in name:
            break
        name += parser.next() + parser.next()
    overload = parser.next() if parser.accept(".") else ""
    arguments, is_vararg = _parse_arguments(parser)
    parser.expect("->")
    returns, is_varret = _parse_returns(parser)
    if parser.peek():
        parser.fail("expected the end of the schema")
    return Schema(name, overload, tuple(arguments), tuple(returns), is_vararg, is_varret)


def _parse_arguments(parser: TypeParser) -> tuple[list[Argument], bool]:
    arguments: list[Argument] = []
    flags = {"keyword only": False, "variable": False}
    parser.expect("(")

    def item() -> None:
        if parser.accept("*"):
            flags["keyword only"] = True
        elif parser.accept("..."):
            flags["variable"] = True
        else:
            arguments.append(_parse_argument(parser, flags["keyword only"]))

    parser.list_of(item, ")")
    return arguments, flags["variable"]


def _parse_argument(parser: TypeParser, kwarg_only: bool) -> Argument:
    t, alias, element_alias, size = parser.annotated_type()
    name = parser.next()
    value, text = parser.default() if parser.accept("=") else (None, None)
    return Argument(name, t, size, text, value, kwarg_only, alias, element_alias)


def _parse_returns(parser: TypeParser) -> tuple[list[Argument], bool]:
    returns: list[Argument] = []
    varying = False

    def item() -> None:
        nonlocal varying
        if parser.accept("..."):
            varying = True
            return
        t, alias, element_alias, _ = parser.annotated_type()
        token = parser.peek()
        name = parser.next() if token[:1].isalpha() or token[:1] == "_" else ""
        returns.append(Argument(name, t, alias=alias, element_alias=element_alias))

    if parser.peek() == "(":
        parser.next()
        parser.list_of(item, ")")
    else:
        item()
    return returns, varying


def function_schema(name: str, arguments: Iterable[Argument], returns: Iterable[Type]) -> Schema:
    """The schema of a script function."""
    return Schema(name, "", tuple(arguments), tuple(Argument("", t) for t in returns))
