"""Names of nested functions: each function gets names that no other one uses.

The body of a nested function is emitted where it is called, in the middle of other functions. If its variables, and
those of comprehensions, have names of their own, then a name means the same wherever it is looked up: the variable of
the function in whose text it stands, with the value it has at the moment, which is what it means to Python.

    def scale(x, k):                          def scale(x, k):
        def inner(y):                             def inner(inner.y):
            r = y * k                  =>             inner.r = inner.y * k
            return r                                  return inner.r
        return [inner(r) for r in x]              return [inner(comprehension.r) for comprehension.r in x]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from jitlite.base.source import SourceRange
from jitlite.frontend.syntax import tree

_T = TypeVar("_T", bound=tree.Tree)

OUTSIDE = "$outside."
"""What goes before the names in a function's body that are none of its own, where it is emitted within another one."""


def has_nested_functions(definition: tree.Def) -> bool:
    """Does a function define others?"""
    return any(statement.has_functions for statement in definition.body)


def bound_names(function: tree.Def | tree.Lambda) -> set[str]:
    """The names that are variables of a function itself: its parameters, and what its statements assign."""
    names = {param.ident.name for param in function.decl.params}
    names.update(name for name, _ in _assignments(function))
    return names.union(function.named) if isinstance(function, tree.Def) else names


def first_assignment(function: tree.Def, name: str) -> SourceRange | None:
    """Where a function's statements first assign a variable; None where they do not, so that it is none of its own."""
    return next((at.range for assigned, at in _assignments(function) if assigned == name), None)


def is_assigned_within(function: tree.Def, name: str, range: SourceRange) -> bool:
    """Does a part of a function, such as a loop, assign a variable?"""
    places = (at.range for assigned, at in _assignments(function) if assigned == name)
    return any(range.source is at.source and range.start <= at.start and at.end <= range.end for at in places)


def why_unset(function: tree.Def, name: str) -> tuple[str, str]:
    """Why a variable of a function may have no value where it is read, and a way out."""
    shown = display_name(name)
    found = [at for assigned, at in _assignments(function) if assigned == name]
    deleted = next((at for at in found if isinstance(at, tree.Delete)), None)
    if deleted is not None:
        return f": it is deleted at {deleted.range.location()}", f"drop the del, or give '{shown}' a value after it"
    where = f": it is assigned at {found[0].range.location()}, but not on every way to here" if found else ""
    return where, f"define '{shown}' before"


def _assignments(function: tree.Def | tree.Lambda) -> Iterator[tuple[str, tree.Tree]]:
    waiting: list[tree.Tree] = list(reversed(function.body)) if isinstance(function, tree.Def) else []
    while waiting:
        at = waiting.pop()
        if isinstance(at, tree.Def | tree.Handler | tree.Import) and at.name is not None:
            yield at.name.name, at
        for target in _targets(at):
            for name in names_in_target(target):
                yield name, at
        if not isinstance(at, tree.Def | tree.Expr):
            waiting.extend(reversed(list(at.children())))


def _targets(at: tree.Tree) -> Sequence[tree.Expr]:
    match at:
        case tree.Assign() | tree.Delete() | tree.For():
            return at.targets
        case tree.AugAssign():
            return [at.target]
        case tree.WithItem(target=tree.Expr() as target):
            return [target]
    return ()


def names_in_target(target: tree.Expr) -> Iterator[str]:
    """The variables that an assignment to `target` sets."""
    match target:
        case tree.Var():
            yield target.name.name
        case tree.TupleLiteral() | tree.ListLiteral():
            for element in target.elements:
                yield from names_in_target(element)
        case tree.Starred():
            yield from names_in_target(target.value)


def free_names(function: tree.Def | tree.Lambda) -> set[str]:
    """The names in a function's body that are not its own variables. Its defaults and annotations do not count."""
    body = function.body if isinstance(function, tree.Def) else (function.body,)
    return {name for part in body for name in _used_names(part)} - bound_names(function)


def _used_names(at: tree.Tree) -> set[str]:
    parts: Sequence[tree.Tree] = list(at.children())
    found: set[str] = set()
    match at:
        case tree.Var():
            return {at.name.name}
        case tree.Def() | tree.Lambda():
            found = free_names(at)
            parts = [p.default for p in at.decl.params if p.default is not None]
        case tree.ListComp() | tree.DictComp():
            inside = (_used_names(part) for part in parts if part is not at.iterable)
            found = set().union(*inside).difference(*map(names_in_target, at.targets))
            parts = [at.iterable]
        case tree.Assign():
            parts = [*at.targets, *([] if at.value is None else [at.value])]
    return found.union(*map(_used_names, parts))


def with_own_names(function: tree.Def, prefix: str = "") -> tree.Def:
    """The function with `prefix` before its variables; those of comprehensions get names of their own in any case.

    Its name and the default values of its parameters, which belong to the function around, stay as they are.
    """
    mapping = {name: f"{prefix}{name}" for name in bound_names(function)} if prefix else {}
    renamer = _Renamer(f"{prefix}comprehension.")
    params = tuple(tree.replaced(p, ident=_renamed(p.ident, mapping)) for p in function.decl.params)
    body = tuple(renamer.rename(statement, mapping) for statement in function.body)
    return tree.replaced(function, decl=tree.replaced(function.decl, params=params), body=body)


def with_names_outside(function: tree.Def) -> tree.Def:
    """The function with `OUTSIDE` before the names that are not its own: no variable of another function is meant."""
    mapping = {name: f"{OUTSIDE}{name}" for name in free_names(function)}
    return tree.replaced(function, body=tuple(_plain.rename(statement, mapping) for statement in function.body))


def with_free_names(function: tree.Def, names: Mapping[str, str]) -> tree.Def:
    """The function with other names for variables around it."""
    inside = {old: new for old, new in names.items() if old not in bound_names(function)}
    return tree.replaced(function, body=tuple(_plain.rename(statement, inside) for statement in function.body))


def _renamed(ident: tree.Ident, names: Mapping[str, str]) -> tree.Ident:
    return tree.replaced(ident, name=names.get(ident.name, ident.name))


def with_own_variables(comprehension: _T, prefix: str) -> _T:
    """The comprehension with `prefix` before its variables."""
    return _Renamer(f"{prefix}.").rename(comprehension, {})


class _Renamer:
    """Renames variables in trees. `comprehension` goes before the variables of comprehensions."""

    def __init__(self, comprehension: str) -> None:
        self.comprehension = comprehension

    def rename(self, at: _T, names: Mapping[str, str]) -> _T:
        """The tree with the variables renamed that `names` says."""
        renamed: tree.Tree = at
        match at:
            case tree.Var(name=tree.Ident(name=name)):
                renamed = tree.replaced(at, name=_renamed(at.name, names)) if name in names else at
            case tree.Def() | tree.Lambda():
                renamed = self._function(at, names)
            case tree.ListComp() | tree.DictComp():
                renamed = self._comprehension(at, names)
            case tree.Handler(name=tree.Ident() as ident) | tree.Import(name=ident):
                renamed = tree.replaced(self._parts(at, names), name=_renamed(ident, names))
            case tree.Assign(type=annotation):
                renamed = tree.replaced(self._parts(at, names), type=annotation)
            case _:
                renamed = self._parts(at, names)
        return renamed  # type: ignore[return-value]

    def _parts(self, at: _T, names: Mapping[str, str], leave: Sequence[str] = ()) -> _T:
        changed: dict[str, Any] = {}
        for name in at.parts:
            value = getattr(at, name)
            if name in leave:
                continue
            if isinstance(value, tree.Tree):
                changed[name] = self.rename(value, names)
            elif isinstance(value, tuple):
                changed[name] = tuple(self.rename(v, names) if isinstance(v, tree.Tree) else v for v in value)
        return tree.replaced(at, **changed)

    def _function(self, at: tree.Def | tree.Lambda, names: Mapping[str, str]) -> tree.Tree:
        """A nested function: its variables hide those around it; its parameters' defaults are evaluated outside."""
        params = tuple(
            p if p.default is None else tree.replaced(p, default=self.rename(p.default, names)) for p in at.decl.params
        )
        decl = tree.replaced(at.decl, params=params)
        inside = {old: new for old, new in names.items() if old not in bound_names(at)}
        # its own comprehensions are renamed when it is called
        if isinstance(at, tree.Lambda):
            return tree.replaced(at, decl=decl, body=_plain.rename(at.body, inside))
        return tree.replaced(
            at, name=_renamed(at.name, names), decl=decl, body=tuple(_plain.rename(s, inside) for s in at.body)
        )

    def _comprehension(self, at: tree.ListComp | tree.DictComp, names: Mapping[str, str]) -> tree.Tree:
        own = {name for target in at.targets for name in names_in_target(target)}
        inside = {old: new for old, new in names.items() if old not in own}
        if self.comprehension:
            inside.update((name, f"{self.comprehension}{name}") for name in own)
        return tree.replaced(self._parts(at, inside, leave=["iterable"]), iterable=self.rename(at.iterable, names))


_plain = _Renamer("")
"""Leaves the variables of comprehensions alone."""


def display_name(name: str) -> str:
    """A variable's name as it stands in the program."""
    return name.rpartition(".")[2]
