"""`match` as a chain of ifs.

    match command:                       if command in ("go",):
        case "go":                           ...
            ...                   =>     else:
        case [x, *rest] if x > 0:            if <has at least 1 element> and <with x = command[0]: x > 0>:
            ...                                  x = command[0]; rest = list(command[1:]); ...

A subject that is no variable is evaluated once, into one that no program can spell; the elements of a tuple that is
written out, each into its own. What a pattern asks comes in its order, and what it captures is assigned where the whole
pattern fits, and for the guard.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitlite.base.errors.statements import UNSUPPORTED_SYNTAX
from jitlite.base.source import SourceRange
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.nested_scopes import OUTSIDE
from jitlite.frontend.syntax.python_expressions import TreeBuilder, statement_builder
from jitlite.frontend.syntax.tree_base import HIDDEN, part


class MatchStmt(t.Stmt):
    """What a `match` is: `assigns` keep its subject, `chain` decides."""

    kind = "match"
    assigns: tuple[t.Stmt, ...]
    chain: tuple[t.Stmt, ...]


class HasLength(t.Expr):
    """Is `value` a list or tuple of `length` elements, or at least so many?"""

    kind = "has length"
    value: t.Expr
    length: int = part(HIDDEN)
    at_least: bool = part(HIDDEN)


class IsOneOf(t.Expr):
    """Is `value` equal to one of the literals?"""

    kind = "is one of"
    value: t.Expr
    literals: t.Expr


class PositionalField(t.Expr):
    """What a pattern `cls(...)` compares with its positional pattern number `position`."""

    kind = "positional field"
    value: t.Expr
    cls: t.Expr
    position: int = part(HIDDEN)


class WithCaptures(t.Expr):
    """`value`, where the assignments have been made."""

    kind = "with captures"
    captures: tuple[t.Stmt, ...]
    value: t.Expr


class _Subject:
    """What a pattern is compared with; `parts` are those of a tuple that is written out."""

    def __init__(self, value: t.Expr, parts: Sequence[_Subject] | None = None) -> None:
        self.value = value
        self.parts = parts


@statement_builder(ast.Match)
def _match(b: TreeBuilder, node: ast.Match) -> t.Stmt:
    assigns: list[t.Stmt] = []
    subject = _subject(b, node.subject, assigns)
    cases = [_Case(b, subject, case) for case in node.cases]
    chain: tuple[t.Stmt, ...] = ()
    for case in reversed(cases):
        chain = case.before(chain)
    return MatchStmt(tuple(assigns), chain, range=b.at.first(node, len("match")))


def _subject(b: TreeBuilder, node: ast.expr, assigns: list[t.Stmt]) -> _Subject:
    if isinstance(node, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in node.elts):
        parts = [_subject(b, element, assigns) for element in node.elts]
        return _Subject(t.TupleLiteral(tuple(p.value for p in parts), range=b.at.first(node, 1)), parts)
    built = b.expression(node)
    if isinstance(built, t.Var):
        return _Subject(built)
    variable = t.Var(t.Ident(f"$match{built.range.start}", range=built.range), range=built.range)
    assigns.append(t.Assign((variable,), built, None, range=built.range))
    return _Subject(variable)


class _Case:
    """One case: what has to be true, and what it assigns."""

    def __init__(self, b: TreeBuilder, subject: _Subject, node: ast.match_case) -> None:
        self.b = b
        self.tests: list[t.Expr] = []
        self.captures: list[t.Stmt] = []
        self.range = b.at.first(node.pattern, 1)
        self._add(node.pattern, subject)
        if node.guard is not None:
            guard = b.expression(node.guard)
            self.tests.append(WithCaptures(tuple(self.captures), guard, range=guard.range) if self.captures else guard)
        self.body = (*self.captures, *b.body(node.body))

    def before(self, others: tuple[t.Stmt, ...]) -> tuple[t.Stmt, ...]:
        """The chain of this case and the `others` after it."""
        if not self.tests:
            return self.body
        return (t.IfStmt(_all_of(self.tests), self.body, others, range=self.range),)

    def _add(self, pattern: ast.pattern, subject: _Subject) -> None:
        place = self.b.at.first(pattern, 1)
        match pattern:
            case ast.MatchValue():
                self.tests.append(self._is_one_of([pattern], subject, place))
            case ast.MatchSingleton():
                literal = self.b.expression(ast.copy_location(ast.Constant(pattern.value), pattern))
                self.tests.append(t.BinOp("is", subject.value, literal, range=place))
            case ast.MatchSequence():
                self._add_sequence(pattern.patterns, subject, place)
            case ast.MatchMapping():
                self._add_mapping(pattern, subject, place)
            case ast.MatchClass():
                self._add_class(pattern, subject, place)
            case ast.MatchAs():
                if pattern.pattern is not None:
                    self._add(pattern.pattern, subject)
                self._capture(pattern.name, subject.value, place)
            case ast.MatchOr():
                self.tests.append(self._any_of(pattern.patterns, subject, place))

    def _capture(self, name: str | None, value: t.Expr, place: SourceRange) -> None:
        if name is not None:
            self.captures.append(t.Assign((_variable(name, place),), value, None, range=place))

    def _is_one_of(self, patterns: Sequence[ast.pattern], subject: _Subject, place: SourceRange) -> t.Expr:
        values = tuple(self.b.expression(p.value) for p in patterns if isinstance(p, ast.MatchValue))
        return IsOneOf(subject.value, t.TupleLiteral(values, range=place), range=place)

    def _any_of(self, patterns: Sequence[ast.pattern], subject: _Subject, place: SourceRange) -> t.Expr:
        if all(isinstance(p, ast.MatchValue) for p in patterns):
            return self._is_one_of(patterns, subject, place)
        found: t.Expr | None = None
        outside = self.tests, self.captures
        for pattern in patterns:
            self.tests, self.captures = [], []
            self._add(pattern, subject)
            if self.captures:
                raise UNSUPPORTED_SYNTAX(
                    "a pattern with `|` that captures names isn't supported", place, hint="write a case for each"
                )
            test = _all_of(self.tests) if self.tests else t.TrueLiteral(range=place)
            found = test if found is None else t.BinOp("or", found, test, range=place)
        self.tests, self.captures = outside
        assert found is not None, "Python's grammar has two at least"
        return found

    def _add_sequence(self, patterns: Sequence[ast.pattern], subject: _Subject, place: SourceRange) -> None:
        star = next((i for i, p in enumerate(patterns) if isinstance(p, ast.MatchStar)), None)
        if subject.parts is not None and star is None:
            if len(subject.parts) != len(patterns):
                self.tests.append(t.FalseLiteral(range=place))
                return
            for pattern, element in zip(patterns, subject.parts, strict=True):
                self._add(pattern, element)
            return
        least = len(patterns) - (star is not None)
        self.tests.append(HasLength(subject.value, least, star is not None, range=place))
        for position, pattern in enumerate(patterns):
            if isinstance(pattern, ast.MatchStar):
                after = len(patterns) - position - 1
                rest = t.SliceExpr(
                    _number(position, place), _number(-after, place) if after else None, None, range=place
                )
                value = t.Subscript(subject.value, (rest,), range=place)
                self._capture(pattern.name, _call("list", [value], place), place)
            else:
                index = position if star is None or position < star else position - len(patterns)
                self._add(pattern, _Subject(t.Subscript(subject.value, (_number(index, place),), range=place)))

    def _add_mapping(self, pattern: ast.MatchMapping, subject: _Subject, place: SourceRange) -> None:
        if pattern.rest is not None:
            raise UNSUPPORTED_SYNTAX("a pattern with `**rest` isn't supported", place, hint="copy the dict in the body")
        self.tests.append(_call("isinstance", [subject.value, _outside("dict", place)], place))
        for node, value in zip(pattern.keys, pattern.patterns, strict=True):
            key = self.b.expression(node)
            self.tests.append(t.BinOp("in", key, subject.value, range=place))
            self._add(value, _Subject(t.Subscript(subject.value, (key,), range=place)))

    def _add_class(self, pattern: ast.MatchClass, subject: _Subject, place: SourceRange) -> None:
        cls = self.b.expression(pattern.cls)
        self.tests.append(_call("isinstance", [subject.value, cls], place))
        for position, value in enumerate(pattern.patterns):
            self._add(value, _Subject(PositionalField(subject.value, cls, position, range=place)))
        for name, value in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            self._add(value, _Subject(t.Select(subject.value, t.Ident(name, range=place), range=place)))


def _all_of(tests: Sequence[t.Expr]) -> t.Expr:
    result, *others = tests
    for test in others:
        result = t.BinOp("and", result, test, range=result.range)
    return result


def _variable(name: str, place: SourceRange) -> t.Var:
    return t.Var(t.Ident(name, range=place), range=place)


def _outside(name: str, place: SourceRange) -> t.Var:
    """A builtin of Python, whatever the program calls so."""
    return _variable(f"{OUTSIDE}{name}", place)


def _call(name: str, args: Sequence[t.Expr], place: SourceRange) -> t.Expr:
    return t.Apply(_outside(name, place), tuple(args), (), range=place)


def _number(value: int, place: SourceRange) -> t.Expr:
    return t.Const(str(value), value, range=place)
