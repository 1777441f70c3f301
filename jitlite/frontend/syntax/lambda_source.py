"""Lambdas that are functions of Python: the statement that one stands in, and which of its lambdas it is."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType

from jitlite.frontend.syntax.name_mangling import mangle_private_names, private_owner

LAMBDA = "<lambda>"
"""What Python calls the functions."""


def is_lambda(function: FunctionType) -> bool:
    return function.__code__.co_name == LAMBDA


def name_in_programs(function: FunctionType) -> str | None:
    """What a lambda is called in programs, where names are identifiers; None for functions that have a name."""
    return "lambda_function" if is_lambda(function) else None


def statements_around(function: FunctionType) -> Iterator[tuple[list[str], int]]:
    """The lines of the statements that a lambda stands in, the innermost first, and the numbers of their first lines.

    Raises:
        OSError, TypeError, SyntaxError: there is no source.
    """
    lines, _ = inspect.findsource(function)
    line = function.__code__.co_firstlineno
    around: list[ast.stmt] = []
    for statement in _statements("".join(lines)):  # outer ones come first
        if _first_line(statement) <= line <= (statement.end_lineno or statement.lineno):
            around.append(statement)
    for statement in reversed(around):
        first = _first_line(statement)
        yield lines[first - 1 : statement.end_lineno], first


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min(statement.lineno, *(d.lineno for d in decorators)) if decorators else statement.lineno


@functools.lru_cache(maxsize=4)
def _statements(text: str) -> list[ast.stmt]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]


def lambda_in(function: FunctionType, statements: list[ast.stmt]) -> ast.FunctionDef | None:
    """The definition that says what a lambda does, None where it is not in these statements.

    Lambdas are told apart by what they compile to; where two compile to the same, either will do. So one whose file was
    changed since is not taken for what stands there now.
    """
    lambdas = (node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Lambda))
    found = {node: _as_definition(node) for node in lambdas}
    owner = private_owner(function.__qualname__)
    if owner is not None:
        for definition in found.values():
            mangle_private_names(definition, owner)  # and the lambda, for they have one body
    code, known = function.__code__, function.__globals__
    modules = [name for name in code.co_names if isinstance(known.get(name), ModuleType)]
    for imported in (modules, [], code.co_names):
        for node, definition in found.items():
            if _same_code(_code_of(node, code.co_freevars, imported), code):
                return definition
    return None


def _as_definition(node: ast.Lambda) -> ast.FunctionDef:
    result = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef(LAMBDA, node.args, [result], [])
    return ast.copy_location(ast.fix_missing_locations(made), node)


def _code_of(node: ast.Lambda, outside: Iterable[str], imported: Iterable[str]) -> CodeType | None:
    """What a lambda compiles to in a function that has the variables which it sees from outside.

    Args:
        imported: names that a module imports: Python calls their attributes in another way.
    """
    names = ast.arguments([], [ast.arg(name) for name in outside], None, [], [], None, [])
    imports: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in imported]
    module = ast.Module([*imports, ast.Expr(ast.Lambda(names, node))], [])
    try:
        code = compile(ast.fix_missing_locations(module), LAMBDA, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    outer = next(c for c in code.co_consts if isinstance(c, CodeType))
    return next((c for c in outer.co_consts if isinstance(c, CodeType)), None)


def _same_code(a: CodeType | None, b: CodeType) -> bool:
    """Do they do the same? Where they stand does not matter."""
    if a is None or len(a.co_consts) != len(b.co_consts):
        return False
    heads = [
        (c.co_code, c.co_names, c.co_varnames, c.co_freevars, c.co_cellvars, c.co_argcount, c.co_posonlyargcount,
         c.co_kwonlyargcount)
        for c in (a, b)
    ]  # fmt: skip
    return heads[0] == heads[1] and all(map(_same_constant, a.co_consts, b.co_consts))


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return _same_code(a, b)
    return type(a) is type(b) and repr(a) == repr(b)
