"""From a Python function, or text, to Python's own syntax tree, without losing where things stand in the file.

Nothing is dedented: text that starts indented is parsed as the body of an `if`, so lines that stand further left
(comments, continued strings) need no care, columns are the file's, and long strings keep their blanks.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from types import FunctionType
from weakref import WeakKeyDictionary

from jitlite.base.errors.statements import BAD_SYNTAX, NO_SOURCE, TOO_DEEP, TYPE_COMMENT, UNSUPPORTED_SYNTAX
from jitlite.base.records import Record
from jitlite.base.source import CompileError, Source, SourceRange
from jitlite.frontend.syntax.decorators import without_marks
from jitlite.frontend.syntax.indented_lines import lines_of_definition
from jitlite.frontend.syntax.lambda_source import is_lambda, lambda_in, statements_around
from jitlite.ir.compiling import make_room

_WRAPPER = "if 1:\n"
_TYPE_COMMENT = re.compile(r"#\s*type\s*:")
_FAULTS = (
    (re.compile("unterminated|EOL while scanning|EOF while scanning|unexpected character"), "expected a valid token"),
    (re.compile("is an illegal expression for augmented"), "augmented assignment can only have one LHS expression"),
    (re.compile("cannot assign to .* here"), "unexpected expression"),
    (re.compile("cannot assign to"), "Cannot pack a tuple into a non-variable"),
)
"""What Python's parser says of a text that is none, and the words that torch.jit has for it."""
_IGNORED = re.compile(r"\s*ignore(?![A-Za-z0-9_])")


class Positions:
    """Turns the places Python's parser gives into ranges of the source.

    `text`, which was parsed, is the source from character `base` on, with `lines_before` lines put before it. With
    `fixed`, everything stands there: for code whose characters cannot be found in the source.
    """

    def __init__(
        self, source: Source, text: str, base: int = 0, lines_before: int = 0, fixed: SourceRange | None = None
    ):
        self.source = source
        self.base = base
        self.fixed = fixed
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.lines_before = lines_before
        self.is_ascii = text.isascii()

    def offset(self, line: int, byte: int) -> int:
        """Offset in the source of byte `byte` (of UTF-8) of the 1-based `line` of what was parsed."""
        index = line - 1 - self.lines_before
        if self.is_ascii and 0 <= index < len(self.lines):
            return self.base + self.starts[index] + byte
        index = min(max(index, 0), len(self.lines) - 1)
        text = self.lines[index]
        column = len(text.encode()[:byte].decode(errors="ignore"))
        return self.base + self.starts[index] + min(column, len(text))

    def range(self, start: int, end: int) -> SourceRange:
        """Characters `start` to `end` of the source."""
        return self.fixed or SourceRange(self.source, start, max(start, end))

    def start(
        self, node: ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern
    ) -> int:
        """Offset of the first character of a node."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias) -> int:
        """Offset behind the last character of a node."""
        if node.end_lineno is None or node.end_col_offset is None:
            return self.start(node)
        return self.offset(node.end_lineno, node.end_col_offset)

    def whole(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias) -> SourceRange:
        """All of a node."""
        return self.range(self.start(node), self.end(node))

    def first(self, node: ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.pattern, length: int) -> SourceRange:
        """The first `length` characters of a node, such as its keyword."""
        start = self.start(node)
        return self.range(start, start + length)


class TypeComment(Record, eq=True):
    """`# type: text`, `text` standing at offset `start`; `line` is the line as the parser counts."""

    text: str
    start: int
    line: int


class Parsed(Record, eq=True):
    """Python statements, and how to find them in the source."""

    body: list[ast.stmt]
    positions: Positions
    comments: list[TypeComment]


def parse_statements(source: Source) -> Parsed:
    """Parse source text holding statements.

    Raises:
        CompileError: it is not Python, or a type comment is spelled wrongly.
    """
    text = source.text
    indented = re.match(r"(\s*#.*\n|\s*\n)*[ \t]+\S", text) is not None
    parsed = _WRAPPER + text if indented else text
    positions = Positions(source, text, lines_before=1 if indented else 0)
    module = _parse(parsed, "exec", positions)
    assert isinstance(module, ast.Module)
    body = module.body
    if indented and isinstance(body[0], ast.If):
        body = body[0].body
    return Parsed(body, positions, _type_comments(parsed, positions) if _TYPE_COMMENT.search(text) else [])


def parse_type(text: str, positions: Positions) -> ast.expr:
    """Parse an expression; line breaks and blanks around it do not matter."""
    tree = _parse(text, "eval", positions)
    assert isinstance(tree, ast.Expression)
    return tree.body


def parse_signature(text: str, positions: Positions) -> ast.FunctionType:
    """Parse `(types) -> type`."""
    tree = _parse(text, "func_type", positions)
    assert isinstance(tree, ast.FunctionType)
    return tree


def _parse(text: str, mode: str, positions: Positions) -> ast.AST:
    try:
        tree = ast.parse(text, mode=mode)
        make_room(_depth_of(tree))  # what reads it goes down into it
        return tree
    except SyntaxError as error:
        line, column = error.lineno or 1, max(0, (error.offset or 1) - 1)
        index = min(max(line - 1 - positions.lines_before, 0), len(positions.lines) - 1)
        place = positions.base + positions.starts[index] + min(column, len(positions.lines[index]))
        words = next((words for pattern, words in _FAULTS if pattern.search(error.msg)), "invalid Python")
        raise BAD_SYNTAX(f"{words}: {error.msg}", positions.range(place, place + 1)) from None
    except (RecursionError, MemoryError):
        raise too_deep(positions.range(positions.base, positions.base + 1)) from None
    except ValueError as error:  # a null character
        raise BAD_SYNTAX(f"invalid Python: {error}", positions.range(positions.base, positions.base + 1)) from None


def _depth_of(tree: ast.AST) -> int:
    """How many levels the tree has; those below names, constants and the like are not counted."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        below: list[ast.AST] = []
        for node in level:
            for name in node._fields:
                value = getattr(node, name, None)
                if type(value) is list:
                    below += [child for child in value if isinstance(child, ast.AST) and type(child) not in _FLAT]
                elif isinstance(value, ast.AST) and type(value) not in _FLAT:
                    below.append(value)
        level = below
    return depth


_FLAT = frozenset(
    [ast.Name, ast.Constant, ast.Load, ast.Store, *ast.operator.__subclasses__(), *ast.cmpop.__subclasses__()]
)
"""Half of all nodes, which have nothing below them."""


def too_deep(place: SourceRange) -> CompileError:
    """The error for code that nests deeper than Python's own stack allows."""
    return TOO_DEEP("this code is nested too deeply", place, hint="split the expression, naming intermediate results")


def _type_comments(parsed: str, positions: Positions) -> list[TypeComment]:
    """Type comments in order, without `# type: ignore`.

    Raises:
        CompileError: a comment means to be one, but Python's own tools would not see it as one (`#type:`).
    """
    found = []
    for token in tokenize.generate_tokens(io.StringIO(parsed).readline):
        match = _TYPE_COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        if match is None or _IGNORED.match(token.string, match.end()):
            continue
        line, column = token.start
        start = positions.base + positions.starts[line - 1 - positions.lines_before] + column
        place = positions.range(start, start + len(token.string))
        if match.group() != "# type:":
            raise TYPE_COMMENT(
                f"The annotation prefix in line {place.line} is probably invalid. It must be '# type:'", place
            )
        text = token.string[match.end() :].split("#")[0]
        blanks = len(text) - len(text.lstrip())
        found.append(TypeComment(text.strip(), start + match.end() + blanks, line))
    return found


def plain_function(fn: object) -> FunctionType:
    """The function under methods, and under decorators that do not replace it.

    Raises:
        CompileError: there is none, as for a builtin.
    """
    inner = without_marks(fn)
    if not isinstance(inner, FunctionType):
        name = getattr(fn, "__qualname__", None) or repr(fn)
        raise NO_SOURCE(
            f"'{name}' is not a Python function but {type(fn).__name__}, so there is no source to compile",
            hint="pass a function made with def",
        )
    return inner


_carried: WeakKeyDictionary[FunctionType, Source] = WeakKeyDictionary()
"""The sources of functions that were pickled with them, as Python cannot find them again."""


def carry_source(function: FunctionType, source: Source) -> None:
    """Say what the source of a function is that Python does not know."""
    _carried[function] = source


def source_of(function: FunctionType) -> Source:
    """The source of a function, decorators included.

    Raises:
        CompileError: Python does not know it.
    """
    carried = _carried.get(function)
    if carried is not None:
        return carried
    try:
        lines, first_line = (
            next(_lambda_sources(function)) if is_lambda(function) else inspect.getsourcelines(function.__code__)
        )
        filename = inspect.getsourcefile(function)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError) as error:
        code = function.__code__
        raise NO_SOURCE(
            f"Can't get source for '{function.__qualname__}' ({code.co_filename}:{code.co_firstlineno}): {error}",
            hint="functions made with exec or typed at the plain prompt have no source; put them into a file",
        ) from None
    return Source("".join(lines), filename, first_line)


def _lambda_sources(function: FunctionType) -> Iterator[tuple[list[str], int]]:
    """The lines of the smallest statement around a lambda that is one by itself: `else: f = lambda x: x` is not."""
    for lines, first_line in statements_around(function):
        with suppress(CompileError):
            parse_statements(Source("".join(lines), None, first_line))
            yield lines, first_line
    raise OSError("could not find the lambda")


def parsed_source_of(function: FunctionType) -> tuple[Source, Parsed]:
    """The source of a function, decorators included, and its statements.

    Raises:
        CompileError: Python does not know the source, it is no Python, or a type comment is spelled wrongly.
    """
    likely = _indented_source(function)
    if likely is not None:
        with suppress(CompileError):
            return likely, parse_statements(likely)
    source = source_of(function)
    return source, parse_statements(source)


def _indented_source(function: FunctionType) -> Source | None:
    """The source as indentation tells, if it does. That takes less time than Python's own way by tokens; where it is
    wrong, the source does not parse."""
    if function in _carried or is_lambda(function):
        return None
    try:
        lines, before = inspect.findsource(function)
        filename = inspect.getsourcefile(function)
    except (OSError, TypeError, SyntaxError):
        return None
    found = lines_of_definition(lines, before)
    return None if found is None else Source("".join(found), filename, before + 1)


def definition_of(function: FunctionType, parsed: Parsed) -> ast.FunctionDef:
    """The definition in the source of a function.

    Raises:
        NotSupportedError: it is an async function.
        CompileError: it is not there, for the file has changed.
    """
    if is_lambda(function):
        found = lambda_in(function, parsed.body)
        if found is not None:
            return found
    node = parsed.body[0] if len(parsed.body) == 1 else None
    name = function.__code__.co_name
    if isinstance(node, ast.FunctionDef) and node.name == name:
        return node
    place = parsed.positions.whole(parsed.body[0]) if parsed.body else parsed.positions.range(0, 1)
    if isinstance(node, ast.AsyncFunctionDef):
        raise UNSUPPORTED_SYNTAX(
            "async function definitions aren't supported",
            parsed.positions.first(node, len("async def")),
            hint="use torch.jit.fork and torch.jit.wait to run code concurrently",
        )
    raise NO_SOURCE(
        f"the source of '{function.__qualname__}' is not a definition of {name}",
        place,
        hint="has the file been changed since it was imported?",
    )
