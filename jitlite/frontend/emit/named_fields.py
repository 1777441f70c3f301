"""`"{x:.2f}".format(x=1.5)`: the fields of a known format string that name keywords become fields by position."""

from __future__ import annotations

import string
from collections.abc import Iterator

from jitlite.base.errors.calls import WRONG_KEYWORD
from jitlite.base.source import did_you_mean
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.values import BuiltinFunction
from jitlite.frontend.syntax import tree
from jitlite.ir.formatting import field_into_value
from jitlite.ir.graph import constant_of
from jitlite.operators.overloads import NamedValue


def by_position(em: Emitter, expr: tree.Apply, callee: BuiltinFunction) -> tree.Apply | None:
    """The call with a value for each field, in the order of the fields; None where that is not known, or not needed.

    Raises:
        CompileError: a field has no value.
    """
    subject = callee.self_value
    text = constant_of(subject.value, None) if subject is not None and subject.value is not None else None
    starred = any(isinstance(a, tree.Starred | tree.KeywordStarred) for a in expr.args)
    if callee.name != "aten::format" or not expr.keywords or starred or not isinstance(text, str):
        return None
    fields = _Fields(len(expr.args), [k.name.name for k in expr.keywords])
    try:
        template = "".join(fields.numbered(text))
    except (ValueError, LookupError) as error:
        said = error.args[0]
        raise WRONG_KEYWORD(f"the format string and its values do not fit: {said}", expr.range,
                            hint=did_you_mean(str(said), fields.names)) from None  # fmt: skip
    if field_into_value(template) is not None:
        return None
    given = [*expr.args, *(k.value for k in expr.keywords)]
    found = [KnownValue(em.emit_sugared(g), range=g.range) for g in given]
    changed = BuiltinFunction(callee.name, NamedValue("self", em.constant(template, expr.range), range=expr.range))
    args = tuple(found[position] for position in fields.positions)
    return tree.Apply(KnownValue(changed, range=expr.callee.range), args, (), range=expr.range)


class _Fields:
    """The values that the fields of a format string show, in their order."""

    def __init__(self, count: int, names: list[str]) -> None:
        self.count, self.names = count, names
        self.positions: list[int] = []
        self._next = 0
        self._is_manual = False

    def numbered(self, text: str) -> Iterator[str]:
        """The text with fields that are numbered by their order.

        Raises:
            ValueError: the text is no format string.
            LookupError: a field has no value.
        """
        for literal, field, spec, conversion in string.Formatter().parse(text):
            yield literal.replace("{", "{{").replace("}", "}}")
            if field is None:
                continue
            name = field.partition(".")[0].partition("[")[0]
            self.positions.append(self._position(name))
            yield "{" + field[len(name) :] + (f"!{conversion}" if conversion else "")
            yield (":" + "".join(self.numbered(spec)) if spec else "") + "}"

    def _position(self, name: str) -> int:
        if name and not name.isdecimal():
            if name not in self.names:
                raise LookupError(name)
            return self.count + self.names.index(name)
        if self._next and bool(name) is not self._is_manual:
            raise ValueError("cannot switch between automatic and manual numbering of fields")
        found = int(name) if name else self._next
        self._is_manual, self._next = bool(name), self._next + 1
        if found >= self.count:
            raise LookupError(f"there is no value at position {found}")
        return found
