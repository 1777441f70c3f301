"""An attribute that an object lacks although its class assigns it: in a branch, or in a method that was not called."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType

_BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.Match)
"""Statements whose bodies may not run."""


def hint_where_assigned(cls: type, name: str) -> str | None:
    """Where methods of a class assign this attribute, and what to do; None where none does."""
    for base in cls.__mro__:
        for method, function in vars(base).items():
            if inspect.isfunction(function) and (found := _assignment(function, name)) is not None:
                line, is_in_branch = found
                return _told(method, name, line, is_in_branch)
    return None


def _told(method: str, name: str, line: int, is_in_branch: bool) -> str:
    if method != "__init__":
        return f"the method {method} assigns it (line {line}): call that before, or assign it in __init__"
    if is_in_branch:
        return (
            f"__init__ assigns it in a branch only (line {line}): assign it always, None where there is none, and test "
            f"`if self.{name} is not None`"
        )
    return f"__init__ assigns it (line {line}), and somebody has deleted it"


def _assignment(function: FunctionType, name: str) -> tuple[int, bool] | None:
    """The line in its file where a method assigns an attribute of its first parameter; is it in a branch?"""
    try:
        lines, first = inspect.getsourcelines(function)
        (definition,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return None  # there is no source, or something that stands within a line
    parameters = definition.args.posonlyargs + definition.args.args if isinstance(definition, ast.FunctionDef) else []
    if not isinstance(definition, ast.FunctionDef) or not parameters:
        return None
    for statement, is_in_branch in _statements(definition.body, False):
        for target in _targets(statement):
            owner = target.value if isinstance(target, ast.Attribute) and target.attr == name else None
            if isinstance(owner, ast.Name) and owner.id == parameters[0].arg:
                return first + statement.lineno - 1, is_in_branch
    return None


def _statements(body: list[ast.stmt], is_in_branch: bool) -> Iterator[tuple[ast.stmt, bool]]:
    for statement in body:
        yield statement, is_in_branch
        for part in ast.iter_child_nodes(statement):
            inner = part.body if isinstance(part, ast.ExceptHandler | ast.match_case) else [part]
            yield from _statements(
                [s for s in inner if isinstance(s, ast.stmt)], is_in_branch or isinstance(statement, _BRANCHES)
            )


def _targets(statement: ast.stmt) -> Iterator[ast.expr]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        if isinstance(target, ast.expr):
            yield from target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
