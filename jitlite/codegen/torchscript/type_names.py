"""The names that classes, interfaces, enums, named tuples and functions have in one archive.

A file says what a name means, so no two things may have one name, though two Python classes may. The second one gets a
mangled name, as in TorchScript: `__torch__.a.___torch_mangle_0.C`.
"""

from __future__ import annotations

import keyword
import re
from typing import Any

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.source import SourceRange
from jitlite.codegen.torchscript.unknown_containers import unknown_container
from jitlite.ir import types as T
from jitlite.ir.code_text import Identifier, Text, code, cut, dotted, fixed, identifier, joined, made_identifier
from jitlite.ir.types import Type
from jitlite.ir.unit import Function

Named = Any
"""A type that has a name, or a Function."""

ROOT = "__torch__"
BOUND_CLASSES = "__torch__.torch.classes."
"""How the names of classes begin that C++ has bound: their declarations are in no archive."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]")
_MANGLED = re.compile(r"___torch_mangle_(\d+)")
_UNKNOWN_TO_TORCH: dict[Type, str] = {
    T.EXCEPTION: "a caught exception", T.PY_OBJECT: "a Python object", T.CAPSULE: "a capsule",
    T.ANY_SET: "a set", T.ANY_FROZENSET: "a frozenset",
}  # fmt: skip


def is_identifier(name: str) -> bool:
    """Can the name stand in TorchScript text? Only ASCII letters can, and no keywords."""
    return _IDENTIFIER.fullmatch(name) is not None and not keyword.iskeyword(name)


def archive_identifier(name: str, what: str, range: SourceRange | None = None) -> Identifier:
    """The name, which may stand in TorchScript text.

    Raises:
        NotSupportedError: it may not; `what` says what it is the name of.
    """
    if not is_identifier(name):
        raise NOT_IN_ARCHIVE(f"{what} cannot have the name {name!a} in an archive", range)
    return identifier(name, what)


def valid_identifier(name: str) -> Identifier:
    """The name with everything replaced that cannot stand in text."""
    start = "_" if not name or name[0].isdigit() else ""
    return made_identifier(start + _NOT_IN_IDENTIFIER.sub("_", name))


def is_named(type: Type) -> bool:
    """Is it a type that an archive declares?"""
    if isinstance(type, T.TupleType):
        return type.names is not None and type.qualified_name is not None
    return isinstance(type, T.ClassType | T.InterfaceType | T.EnumType)


class TypeNames:
    """Gives each named thing its name in the archive."""

    def __init__(self) -> None:
        self._names: dict[Named, Text] = {}
        self._used: set[str] = set()
        self._mangled = 0

    def name(self, named: Named) -> Text:
        """The qualified name of a named type or a function."""
        found = self._names.get(named)
        if found is None:
            owner = _class_of_hook(named)
            if owner is None:
                wanted = _qualified(_flat_name(named))
            else:
                wanted = code("{}.{}", self.name(owner), archive_identifier(named.name, "a function", named.range))
            found = self._names[named] = self._unique(wanted)
            self._used.add(found)
        return found

    def _unique(self, name: Text) -> Text:
        if name.startswith(BOUND_CLASSES):
            return name
        unique = name
        while unique in self._used:
            unique = self._mangle(name)
        return unique

    def _mangle(self, name: Text) -> Text:
        found = _MANGLED.search(name)
        number = self._mangled = max(self._mangled, int(found.group(1)) + 1 if found else 0)
        self._mangled += 1
        if found:
            return code("{}___torch_mangle_{}{}", cut(name, 0, found.start()), number, cut(name, found.end()))
        dot = name.rindex(".")
        return code("{}.___torch_mangle_{}{}", cut(name, 0, dot), number, cut(name, dot))

    def text(self, type: Type, range: SourceRange | None = None) -> Text:
        """The type as an annotation.

        Raises:
            NotSupportedError: where TorchScript has no such type.
        """
        if is_named(type):
            return self.name(type)
        unknown = unknown_container(type) or _UNKNOWN_TO_TORCH.get(type)
        if unknown is not None:
            raise NOT_IN_ARCHIVE(f"{unknown} has no type in an archive", range)
        parts = joined(", ", [self.text(part, range) for part in type.contained])
        if isinstance(type, T.TupleType):
            return code("Tuple[{}]", parts or fixed("()"))
        if isinstance(type, T.UnionType) and not isinstance(type, T.OptionalType):
            return code("Union[{}]", parts)
        return code("{}[{}]", identifier(type.kind), parts) if parts else dotted(type.annotation)


def _class_of_hook(named: Named) -> Type | None:
    """The class of a module that a function is a hook of; its name is inside that of the class."""
    if not isinstance(named, Function) or not named.schema.arguments:
        return None
    owner = named.schema.arguments[0].type
    is_hook = isinstance(owner, T.ClassType) and named.qualified_name == f"{owner.qualified_name}.{named.name}"
    return owner if is_hook else None


def _flat_name(named: Named) -> str:
    """The qualified name without the classes and functions around a definition: in an archive, nothing is inside a
    class but its methods."""
    origin = named.python_function if isinstance(named, Function) else getattr(named, "python_class", None)
    if origin is None or "." not in getattr(origin, "__qualname__", ""):
        return str(named.qualified_name)
    module = "" if origin.__module__ == "__main__" else f"{origin.__module__}."
    return f"{ROOT}.{module}{origin.__name__}"


def _qualified(name: str) -> Text:
    path = joined(".", map(valid_identifier, name.split(".")))
    return path if path.partition(".")[0] == ROOT else code("{}.{}", fixed("__torch__"), path)
