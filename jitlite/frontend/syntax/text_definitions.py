"""Text that holds functions and classes to trees.

Python's grammar is used, in which TorchScript's text can be read. Of a class, its base says what it is:

    class P(NamedTuple):    class Color(Enum):    class I(Interface):                   class Foo:
        x: int                  RED = 1               def f(self, x: Tensor) -> int:        a: int
        y: Tensor               BLUE = 2                  pass                              def __init__(self, a: int):
                                                                                                self.a = a
"""

from __future__ import annotations

import ast

from jitlite.base.errors.classes import TEXT_CLASS
from jitlite.base.source import Source
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.python_ast import function_in_text, refuse_decorators, text_source
from jitlite.frontend.syntax.python_expressions import TreeBuilder
from jitlite.frontend.syntax.python_source import Parsed, parse_statements


def parse_definitions(text: str, filename: str | None = None) -> list[t.Def | t.ClassDef]:
    """The trees of the functions and classes that a text consists of.

    Raises:
        CompileError: the text is not Python.
        NotSupportedError: it holds something else, or Python that TorchScript does not have.
    """
    source = text_source(text, filename)
    parsed = parse_statements(source)
    definitions: list[t.Def | t.ClassDef] = []
    for node, last in zip(parsed.body, _last_lines(parsed.body, len(source.text)), strict=True):
        if isinstance(node, ast.FunctionDef):
            refuse_decorators(parsed, node)
            definitions.append(function_in_text(parsed, node, last, is_method=False))
        elif isinstance(node, ast.ClassDef):
            definitions.append(_class(parsed, source, node, last))
        else:
            raise TEXT_CLASS.unsupported("expected a function or class definition", parsed.positions.whole(node))
    return definitions


def _last_lines(body: list[ast.stmt], end: int) -> list[int]:
    """For each statement, the line of the next one."""
    return [*(following.lineno for following in body[1:]), end][: len(body)]


def _class(parsed: Parsed, source: Source, node: ast.ClassDef, last: int) -> t.ClassDef:
    keyword = parsed.positions.first(node, len("class"))
    builder = TreeBuilder(parsed.positions, is_text=True)
    refuse_decorators(parsed, node)
    if len(node.bases) > 1 or node.keywords:
        raise TEXT_CLASS.unsupported("a class in a text has one base at most", keyword)
    body: list[t.Stmt] = []
    for statement, until in zip(node.body, _last_lines(node.body, last), strict=True):
        if isinstance(statement, ast.FunctionDef):
            refuse_decorators(parsed, statement)
            body.append(function_in_text(parsed, statement, until, is_method=True))
        elif isinstance(statement, ast.AnnAssign | ast.Assign):
            body.append(_member(parsed, statement, until))
        elif not isinstance(statement, ast.Pass) and not _is_constant(statement):
            raise TEXT_CLASS.unsupported("expected a method or an attribute", builder.at.whole(statement))
    start = source.text.find(node.name, keyword.end)
    superclass = builder.expression(node.bases[0]) if node.bases else None
    return t.ClassDef(builder.ident(node.name, start), superclass, tuple(body), None, None, range=keyword)


def _is_constant(statement: ast.stmt) -> bool:
    """Is it a doc string, or `...`?"""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _member(parsed: Parsed, node: ast.AnnAssign | ast.Assign, last: int) -> t.Assign:
    """`name: T`, `name: T = value` or `name = value`."""
    builder = TreeBuilder(parsed.positions, [c for c in parsed.comments if node.lineno <= c.line < last])
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    place = parsed.positions.whole(node)
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise TEXT_CLASS.unsupported("a member of a class in a text is assigned to one name", place)
    target, value = builder.expression(targets[0]), builder.optional(node.value)
    declared = builder.expression(node.annotation) if isinstance(node, ast.AnnAssign) else builder.claim(node)
    return t.Assign((target,), value, declared, range=place)
