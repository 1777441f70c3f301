"""Types as the programs of the lite interpreter write them.

They are those of annotations, but a named tuple comes with its fields the first time, and by its name later:

    Dict[str,List[int]]     __torch__.Pair[NamedTuple, [[a, int],[b, Tensor]]]     List[__torch__.Pair]
"""

from __future__ import annotations

import ast
import collections
import re
from collections.abc import Sequence
from typing import Any

from jitlite.archive.errors import ArchiveError
from jitlite.frontend.emit.annotations import parse_type
from jitlite.frontend.syntax.python_ast import parse_expression
from jitlite.ir import types as T
from jitlite.ir.types import ClassType, TupleType, Type

_MEMBER = "bytecode.pkl"
_CUSTOM = "__torch__.torch.classes."
_NAMED_TUPLE = re.compile(r"\s*(__torch__(?:\.\w+)+)\[\s*NamedTuple\s*,\s*(\[.*\])\s*\]\s*", re.ASCII | re.DOTALL)


class LiteTypes:
    """The types of one file."""

    def __init__(self) -> None:
        self.named: dict[str, Type] = {}

    def parse_all(self, texts: Sequence[object]) -> list[Type]:
        """The types of a method, in order.

        Raises:
            ArchiveError: one is none.
        """
        return [self.parse(text) for text in texts]

    def parse(self, text: object) -> Type:
        """The type that a text means.

        Raises:
            ArchiveError: it is none.
        """
        if not isinstance(text, str):
            raise ArchiveError("a type that is no text", _MEMBER)
        try:
            found = _NAMED_TUPLE.fullmatch(text)
            if found is None:
                return parse_type(parse_expression(text), self._named)
            return self._named_tuple(found[1], ast.parse(found[2], mode="eval").body)
        except Exception as error:  # whatever text makes the parser raise
            raise ArchiveError(f"'{text[:100]}' is no type: {str(error).splitlines()[0]}", _MEMBER) from None

    def parse_loosely(self, text: object) -> Type:
        """The type of a parameter or result; Any where it has a part that the file does not define."""
        try:
            return self.parse(text)
        except ArchiveError:
            return T.ANY

    def _named(self, name: str) -> object:
        if name in self.named:
            return self.named[name]
        if name.startswith(_CUSTOM):
            return ClassType.of(name)
        raise LookupError(name)

    def _named_tuple(self, name: str, listed: ast.expr) -> Type:
        fields: dict[str, Type] = {}
        for entry in listed.elts if isinstance(listed, ast.List) else ():
            if not (isinstance(entry, ast.List) and len(entry.elts) == 2 and isinstance(entry.elts[0], ast.Name)):
                raise ValueError("a field is a name and a type")
            fields[entry.elts[0].id] = self.parse(ast.unparse(entry.elts[1]))
        known = self.named.get(name)
        if isinstance(known, TupleType) and dict(zip(known.names or (), known.elements, strict=False)) == fields:
            return known
        module, _, last = name.removeprefix("__torch__.").rpartition(".")
        make: Any = collections.namedtuple
        cls: Any = make(last, list(fields), module=module or "__main__")
        cls.__annotations__ = fields
        made = self.named[name] = TupleType.of(list(fields.values()), list(fields), name, cls)
        return made
