"""The names that statements read and set."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
)  # fmt: skip
"""Nodes with variables of their own."""


def mangled(name: str, class_name: str | None) -> str:
    """A name as Python has it within a class, where those that begin with `__` are private."""
    if class_name is None or not name.startswith("__") or name.endswith("__"):
        return name
    return f"_{class_name.lstrip('_')}{name}"


def read_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that are read, those within functions and comprehensions among them."""
    for start in nodes:
        for node in ast.walk(start):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target.id


def stored_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The variables that are set or deleted, those of functions within left out."""
    for node in walk_scope(nodes):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name


def walk_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes but those within functions, classes and comprehensions. A walrus in a comprehension sets outside."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)
        else:
            yield from (n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr))


def carried_in(body: Sequence[ast.stmt]) -> frozenset[str]:
    """The names that statements may read before they set them, as in a loop, where they are what the last pass set."""
    exposed: set[str] = set()
    _assigned(body, frozenset(), exposed)
    return frozenset(exposed)


def _assigned(body: Sequence[ast.stmt], known: frozenset[str], exposed: set[str]) -> frozenset[str]:
    """The names that are certain to be set behind statements; notes in `exposed` what is read where it is not."""
    for statement in body:
        heads, blocks = _parts(statement)
        exposed.update(set(read_in(heads)) - known)
        inside = known | frozenset(stored_in(heads))
        behind = [_assigned(block, inside, exposed) for block in blocks]
        match statement:
            case ast.If():
                known = behind[0] & behind[1]
            case ast.With():
                known = behind[0]
            case _ if not blocks:
                known = inside
    return known


def _parts(statement: ast.stmt) -> tuple[list[ast.AST], list[list[ast.stmt]]]:
    """What a statement evaluates itself, and the blocks of statements that it has."""
    if isinstance(statement, SCOPES):
        return [statement], []
    owners = [statement, *getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    fields = [getattr(owner, field) for owner in owners for field in _BLOCKS if hasattr(owner, field)]
    heads = [
        child for owner in owners for child in ast.iter_child_nodes(owner)
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
    ]  # fmt: skip
    return (heads, fields) if fields else ([statement], [])


_BLOCKS = ("body", "orelse", "finalbody")
