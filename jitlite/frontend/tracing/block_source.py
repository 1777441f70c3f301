"""The statements under `with jitlite.on_cpu():` as a function, made from the source of the function that runs."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import NamedTuple

from jitlite.base.errors.statements import NO_SOURCE
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.source import Source, SourceRange
from jitlite.frontend.tracing.block_names import SCOPES, carried_in, mangled, read_in, stored_in, walk_scope

_NAME = "on_cpu"
_WAY_OUT = "put the block into a function of its own under @jitlite.on_cpu(), which returns what the block gives"


class BlockSource(NamedTuple):
    """A block.

    Attributes:
        range: its first line.
        body: its statements.
        class_name: the class in whose body they stand, which names that begin with `__` are private to.
        read, stored: the names that it reads and sets.
        used_outside: the names that the rest of the function reads.
        carried: those that may be read in the block before they are set there.
    """

    range: SourceRange
    body: list[ast.stmt]
    class_name: str | None
    read: frozenset[str]
    stored: frozenset[str]
    used_outside: frozenset[str]
    carried: frozenset[str]

    def function(self, frame: FrameType, parameters: Collection[str], results: Collection[str]) -> FunctionType:
        """The block as a function, with the globals of the frame and the lines of the file."""
        returned = ast.Tuple([ast.Name(name, ast.Load()) for name in results], ast.Load())
        formals = ast.arguments([], [ast.arg(name) for name in parameters], None, [], [], None, [])
        made = ast.FunctionDef(_NAME, formals, [*self.body, ast.Return(returned)], [])
        owner = ast.ClassDef(self.class_name or "_Owner", [], [], [made], [])
        for node in (made, owner):
            for field in {"type_params"}.intersection(node._fields):  # since Python 3.12
                setattr(node, field, [])
            ast.copy_location(node, self.body[0])
        module = ast.fix_missing_locations(ast.Module([owner], []))
        code = _function_code(compile(module, frame.f_code.co_filename, "exec"))
        return FunctionType(code, frame.f_globals, frame.f_code.co_name)


def _function_code(module: CodeType) -> CodeType:
    """The code of the function within the class within the module."""
    (owner,) = (c for c in module.co_consts if isinstance(c, CodeType))
    (function,) = (c for c in owner.co_consts if isinstance(c, CodeType))
    return function


def block_at(frame: FrameType) -> BlockSource:
    """The block that a frame is about to enter.

    Raises:
        CompileError: where there is no source, or the block does what a function could not do in its place.
    """
    return _block(frame.f_code, frame.f_lineno)


@lru_cache(maxsize=256)
def _block(code: CodeType, line: int) -> BlockSource:
    try:
        text = "".join(inspect.findsource(code)[0])
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError) as error:
        message = f"Can't get source for the block under on_cpu() in '{code.co_name}': {error}"
        raise NO_SOURCE(message, hint=_WAY_OUT) from None
    source = Source(text, code.co_filename, 1)
    around = _innermost(tree, code, line)
    block, class_name = around.block, around.class_name
    if block is None:
        raise NO_TRACE(f"no `with jitlite.on_cpu():` stands in line {line} of {code.co_filename}", hint=_WAY_OUT)
    start = source.line_start(block.lineno - 1)
    range = SourceRange(source, start + block.col_offset, start + len(source.line_text(block.lineno - 1)))
    body = _body(block)
    _check(body, range)
    inside = {id(node) for statement in body for node in ast.walk(statement)}
    outside = (n for n in ast.walk(around.function) if id(n) not in inside)
    found = read_in(body), stored_in(body), read_in([n for n in outside if isinstance(n, ast.Name)]), carried_in(body)
    names = (frozenset(mangled(n, class_name) for n in part) for part in found)
    return BlockSource(range, body, class_name, *names)


class _Around(NamedTuple):
    function: ast.AST
    block: ast.With | None
    class_name: str | None


def _innermost(tree: ast.Module, code: CodeType, line: int) -> _Around:
    """The block in a line, the function that it stands in and the class that that stands in."""
    found = _Around(tree, None, None)
    waiting: list[tuple[ast.AST, _Around]] = [(tree, found)]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.ClassDef):
            around = around._replace(class_name=node.name)
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            around = around._replace(function=node)
        elif isinstance(node, ast.With) and _begins_in(node, line) and _item(node) is not None:
            return around._replace(block=node)
        waiting += [(child, around) for child in ast.iter_child_nodes(node)]
    return found


def _begins_in(block: ast.With, line: int) -> bool:
    last = block.items[-1].context_expr
    return block.lineno <= line <= (last.end_lineno or last.lineno)


def _item(block: ast.With) -> int | None:
    """Which of the managers of a `with` is ours."""
    for i, item in enumerate(block.items):
        callee = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
        name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
        if name == _NAME:
            return i
    return 0 if len(block.items) == 1 and not isinstance(block.items[0].context_expr, ast.Call) else None


def _body(block: ast.With) -> list[ast.stmt]:
    """The statements within, under the managers that come behind ours."""
    index = _item(block)
    assert index is not None
    others = block.items[index + 1 :]
    if not others:
        return block.body
    return [ast.copy_location(ast.With(others, block.body), block)]


# -- what it may not do


def _check(body: list[ast.stmt], range: SourceRange) -> None:
    """Refuse what a function in place of the block could not do."""
    for node in walk_scope(body):
        match node:
            case ast.Return() | ast.Yield() | ast.YieldFrom() | ast.Await():
                _refuse(f"'{type(node).__name__.lower()}' leaves a block under on_cpu()", range)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                _refuse(f"a block under on_cpu() sets {names[0]}, which is no variable of its own", range)
            case ast.Name(id="super"):
                _refuse("a block under on_cpu() calls super()", range)
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                _refuse(f"a block under on_cpu() sets the attribute {name}", range)
    for jump in _jumps(body):
        _refuse(f"'{type(jump).__name__.lower()}' leaves a block under on_cpu()", range)


def _jumps(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Each `break` and `continue` of a loop around the block."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break | ast.Continue):
            yield node
        elif isinstance(node, ast.For | ast.While):
            waiting += node.orelse
        elif not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)


def _refuse(what: str, range: SourceRange) -> None:
    raise NO_TRACE(f"{what}, so a trace cannot leave it to Python", range, hint=_WAY_OUT)
