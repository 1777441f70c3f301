"""Arguments of calls of nested functions, and the parameters that take them."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.calls import WRONG_COUNT, WRONG_KEYWORD
from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.known_keywords import KnownKeywords
from jitlite.frontend.emit.values import SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.operators.argument_hints import instead_of_keyword


class LocalArgument(Record, eq=True):
    """An argument of a call; `name` is the keyword."""

    value: SugaredValue
    range: SourceRange
    name: str | None = None


def bind_given(
    callee: str, params: Sequence[tree.Param], given: Sequence[LocalArgument], range: SourceRange
) -> dict[str, LocalArgument]:
    """The arguments that the call gives, by parameter.

    Raises:
        CompileError: where the parameters do not take them.
    """
    values = [g for g in given if g.name is None]
    rest = {p.stars: p.ident.name for p in params if p.stars}
    found = _bind_positional(callee, params, values, range)
    used = len(found)
    others = _bind_named(callee, params, [g for g in given if g.name is not None], found, range)
    if 1 in rest:
        found[rest[1]] = LocalArgument(SugaredTuple([v.value for v in values[used:]]), range)
    if 2 in rest:
        found[rest[2]] = LocalArgument(KnownKeywords(others), range)
    return found


def _bind_positional(
    callee: str, params: Sequence[tree.Param], values: Sequence[LocalArgument], range: SourceRange
) -> dict[str, LocalArgument]:
    """The positional arguments by parameter, without those that `*args` takes."""
    positional = [p.ident.name for p in params if not p.kwarg_only and not p.stars]
    if len(values) > len(positional) and not any(p.stars == 1 for p in params):
        raise WRONG_COUNT(
            f"{callee}() takes {len(positional)} positional arguments but {len(values)} were given", range
        )
    return dict(zip(positional, values, strict=False))


def _bind_named(
    callee: str,
    params: Sequence[tree.Param],
    named: Sequence[LocalArgument],
    found: dict[str, LocalArgument],
    range: SourceRange,
) -> dict[str, SugaredValue]:
    """Add the arguments given by keyword to those `found`; what `**kwargs` takes is returned."""
    names = {p.ident.name for p in params if not p.stars}
    takes_others = any(p.stars == 2 for p in params)
    others: dict[str, SugaredValue] = {}
    for argument in named:
        name = argument.name or ""
        if name not in names:
            if not takes_others:
                hint = instead_of_keyword(name, sorted(names))
                raise WRONG_KEYWORD(f"{callee}() got an unexpected keyword argument '{name}'", range, hint=hint)
            others[name] = argument.value
        elif name in found:
            raise WRONG_COUNT(f"{callee}() got multiple values for argument '{name}'", range)
        else:
            found[name] = argument
    return others
