"""Expressions of Python's syntax tree to TorchScript's.

A function for each class of Python node, entered in a table by its decorator; a node without one is not TorchScript.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jitlite.base.errors.statements import BAD_SYNTAX, FORMAT_FIELD, UNSUPPORTED_SYNTAX
from jitlite.base.source import NotSupportedError, SourceRange
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.ignored_blocks import IgnoredBlock
from jitlite.frontend.syntax.python_source import Positions, TypeComment, parse_type

N = TypeVar("N", bound=ast.AST)

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "floordiv",
    ast.Mod: "%",
    ast.MatMult: "@",
    ast.Pow: "pow operator",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.BitOr: "|",
}
_UNARY: dict[type[ast.unaryop], tuple[str, str]] = {  # the operator and its text
    ast.Not: ("not", "not"),
    ast.USub: ("unary minus", "-"),
    ast.UAdd: ("unary plus", "+"),
    ast.Invert: ("~", "~"),
}
_COMPARISON: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "<",
    ast.LtE: "le",
    ast.Gt: ">",
    ast.GtE: "ge",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "in",  # under a "not"
}
_CONSTANTS: dict[object, type[t.TrueLiteral | t.FalseLiteral | t.NoneLiteral | t.Dots]] = {
    True: t.TrueLiteral,
    False: t.FalseLiteral,
    None: t.NoneLiteral,
    ...: t.Dots,
}
_UNSUPPORTED: dict[str, tuple[str, str, str | None]] = {  # node: (what, its first word, a way out)
    "AsyncFunctionDef": ("async function definitions", "async def", "use torch.jit.fork and torch.jit.wait"),
    "AsyncFor": ("async for loops", "async for", None),
    "AsyncWith": ("async with statements", "async with", None),
    "Await": ("await expressions", "await", "use torch.jit.wait"),
    "ClassDef": ("class definitions", "class", "move the class to module level"),
    "Nonlocal": ("nonlocal variables", "nonlocal", "pass the value as a parameter and return it"),
    "TryStar": ("exception groups", "try", "use except"),
    "TypeAlias": ("type statements", "type", "define the alias at module level"),
    "Yield": ("yield expressions", "yield", "append to a list and return it"),
    "YieldFrom": ("yield expressions", "yield from", "append to a list and return it"),
    "TemplateStr": ("template strings", "", "use an f-string"),
}


def _unsupported(b: TreeBuilder, node: ast.expr | ast.stmt) -> NotSupportedError:
    name = type(node).__name__
    what, word, hint = _UNSUPPORTED.get(name, (name, "", None))
    place = b.at.first(node, len(word)) if word else b.at.whole(node)
    return UNSUPPORTED_SYNTAX(f"{what} aren't supported", place, hint=hint)


class TreeBuilder:
    """Builds trees for the nodes of one source. `comments` are type comments that no node has claimed yet.

    `is_text` says that the source is a text, whose ranges are those of torch.jit's parser of texts, and whose trees
    hold the defaults of parameters. `named` are the variables that expressions of the function have set so far.
    """

    def __init__(self, positions: Positions, comments: Sequence[TypeComment] = (), *, is_text: bool = False):
        self.at = positions
        self.comments = list(comments)
        self.is_text = is_text
        self.fill_defaults = is_text
        self.is_generator = False
        self.ignored: list[IgnoredBlock] = []
        self.named: list[str] = []
        self.function = ""
        self.place = positions.range(positions.base, positions.base + 1)

    def expression(self, node: ast.expr) -> t.Expr:
        """The tree of an expression.

        Sums, calls of methods on calls of methods and the like lean left and can be very long, so that spine is
        walked, not recursed.
        """
        spine: list[tuple[ast.expr, Callable[[TreeBuilder, Any, t.Expr], t.Expr]]] = []
        while (link := _SPINES.get(type(node))) is not None:
            spine.append((node, link[1]))
            node = getattr(node, link[0])
        build = _EXPRESSIONS.get(type(node))
        if build is None:
            raise _unsupported(self, node)
        built = build(self, node)
        for outer, extend in reversed(spine):
            built = extend(self, outer, built)
        return built

    def expressions(self, nodes: Sequence[ast.expr]) -> tuple[t.Expr, ...]:
        """The trees of expressions."""
        return tuple(map(self.expression, nodes))

    def optional(self, node: ast.expr | None) -> t.Expr | None:
        """The tree of an expression that need not be there."""
        return None if node is None else self.expression(node)

    def body(self, nodes: Sequence[ast.stmt]) -> tuple[t.Stmt, ...]:
        """The trees of statements."""
        return tuple(map(self.statement, nodes))

    def statement(self, node: ast.stmt) -> t.Stmt:
        """The tree of a statement."""
        build = _STATEMENTS.get(type(node))
        if build is None:
            raise _unsupported(self, node)
        self.place = self.at.first(node, 1)
        return build(self, node)

    def ident(self, name: str, start: int) -> t.Ident:
        """A name standing at an offset."""
        return t.Ident(name, range=self.at.range(start, start + len(name)))

    def claim(self, node: ast.stmt) -> t.Expr | None:
        """The type in the comment at the end of a statement."""
        for comment in self.comments:
            if comment.line == node.end_lineno:
                self.comments.remove(comment)
                return comment_type(self, comment)
        return None


_EXPRESSIONS: dict[type[ast.AST], Callable[[TreeBuilder, Any], t.Expr]] = {}
_STATEMENTS: dict[type[ast.AST], Callable[[TreeBuilder, Any], t.Stmt]] = {}
_SPINES: dict[type[ast.AST], tuple[str, Callable[[TreeBuilder, Any, t.Expr], t.Expr]]] = {}

BuildExpr = Callable[[TreeBuilder, N], t.Expr]
BuildStmt = Callable[[TreeBuilder, N], t.Stmt]
BuildSpine = Callable[[TreeBuilder, N, t.Expr], t.Expr]


def expression_builder(node: type[N]) -> Callable[[BuildExpr[N]], BuildExpr[N]]:
    """Enter a function as the builder of a class of expressions."""

    def register(build: BuildExpr[N]) -> BuildExpr[N]:
        _EXPRESSIONS[node] = build
        return build

    return register


def statement_builder(node: type[N]) -> Callable[[BuildStmt[N]], BuildStmt[N]]:
    """Enter a function as the builder of a class of statements."""

    def register(build: BuildStmt[N]) -> BuildStmt[N]:
        _STATEMENTS[node] = build
        return build

    return register


def _spine(node: type[N], first: str) -> Callable[[BuildSpine[N]], BuildSpine[N]]:
    """Enter a function as the builder of expressions that start with another, given to it already built."""

    def register(build: BuildSpine[N]) -> BuildSpine[N]:
        _SPINES[node] = (first, build)
        return build

    return register


def comment_type(b: TreeBuilder, comment: TypeComment) -> t.Expr:
    """The type in a comment."""
    inner = TreeBuilder(Positions(b.at.source, comment.text, comment.start))
    return inner.expression(parse_type(comment.text, inner.at))


# Expressions


@expression_builder(ast.Name)
def _name(b: TreeBuilder, node: ast.Name) -> t.Expr:
    place = b.at.whole(node)
    if node.id.startswith("__jit"):
        raise UNSUPPORTED_SYNTAX("names of variables used in JIT-ed functions can't start with __jit", place)
    if node.id == "Ellipsis":
        return t.Dots(range=place)
    return t.Var(t.Ident(node.id, range=place), range=place)


@expression_builder(ast.Constant)
def _constant(b: TreeBuilder, node: ast.Constant) -> t.Expr:
    value, place = node.value, b.at.whole(node)
    if value is None or value is ... or isinstance(value, bool):
        return _CONSTANTS[value](range=place)
    if isinstance(value, str):
        if not b.is_text:
            place = b.at.first(node, min(len(value) + 1, place.end - place.start))
        return t.StringLiteral(value, range=place)
    if isinstance(value, (int, float, complex)):
        try:
            return t.Const(str(value), value, range=place)
        except ValueError as error:  # an int of more digits than Python likes to print
            raise BAD_SYNTAX(str(error), place) from None
    what = type(value).__name__
    raise UNSUPPORTED_SYNTAX(f"{what} literals aren't supported", place, hint="use a str or a tensor of torch.uint8")


@_spine(ast.Attribute, "value")
def _attribute(b: TreeBuilder, node: ast.Attribute, value: t.Expr) -> t.Expr:
    return t.Select(value, b.ident(node.attr, b.at.end(node) - len(node.attr)), range=value.range)


@_spine(ast.Call, "func")
def _call(b: TreeBuilder, node: ast.Call, callee: t.Expr) -> t.Expr:
    keywords = tuple(_keyword(b, k.arg, k) for k in node.keywords if k.arg is not None)
    starred = tuple(t.KeywordStarred(b.expression(k.value), range=b.at.whole(k)) for k in node.keywords if not k.arg)
    place = callee.range
    if b.is_text and not node.args and not node.keywords:
        place = b.at.range(place.start, b.at.source.text.find("(", place.end) + 1)
    return t.Apply(callee, (*b.expressions(node.args), *starred), keywords, range=place)


def _keyword(b: TreeBuilder, name: str, node: ast.keyword) -> t.KeywordArgument:
    ident = b.ident(name, b.at.start(node))
    return t.KeywordArgument(ident, b.expression(node.value), range=ident.range)


@expression_builder(ast.NamedExpr)
def _named(b: TreeBuilder, node: ast.NamedExpr) -> t.Expr:
    b.named.append(node.target.id)
    target = b.expression(node.target)
    assert isinstance(target, t.Var)
    return t.NamedExpr(target, b.expression(node.value), range=b.at.whole(node))


@expression_builder(ast.Set)
def _set(b: TreeBuilder, node: ast.Set) -> t.Expr:
    return t.SetLiteral(b.expressions(node.elts), range=b.at.whole(node))


@_spine(ast.BinOp, "left")
def _binary(b: TreeBuilder, node: ast.BinOp, left: t.Expr) -> t.Expr:
    return t.BinOp(BINARY[type(node.op)], left, b.expression(node.right), range=left.range)


@expression_builder(ast.UnaryOp)
def _unary(b: TreeBuilder, node: ast.UnaryOp) -> t.Expr:
    op, text = _UNARY[type(node.op)]
    return t.UnaryOp(op, b.expression(node.operand), range=b.at.first(node, len(text)))


@expression_builder(ast.BoolOp)
def _boolean(b: TreeBuilder, node: ast.BoolOp) -> t.Expr:
    op = "and" if isinstance(node.op, ast.And) else "or"
    result, *others = b.expressions(node.values)
    for operand in others:
        result = t.BinOp(op, result, operand, range=result.range)
    return result


@expression_builder(ast.Compare)
def _compare(b: TreeBuilder, node: ast.Compare) -> t.Expr:
    """A chain is an `and` of comparisons; the operands in the middle occur twice."""
    operands = b.expressions([node.left, *node.comparators])
    result: t.Expr | None = None
    for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
        comparison: t.Expr = t.BinOp(_COMPARISON[type(op)], left, right, range=left.range)
        if isinstance(op, ast.NotIn):
            comparison = t.UnaryOp("not", comparison, range=b.at.range(left.range.end, right.range.start))
        result = comparison if result is None else t.BinOp("and", result, comparison, range=result.range)
    assert result is not None
    return result


@expression_builder(ast.IfExp)
def _ternary(b: TreeBuilder, node: ast.IfExp) -> t.Expr:
    cond = b.expression(node.test)
    return t.TernaryIf(cond, b.expression(node.body), b.expression(node.orelse), range=cond.range)


@_spine(ast.Subscript, "value")
def _subscript(b: TreeBuilder, node: ast.Subscript, value: t.Expr) -> t.Expr:
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    indices = tuple(_slice(b, i, value) if isinstance(i, ast.Slice) else b.expression(i) for i in items)
    if not indices:
        indices = (t.TupleLiteral((), range=b.at.whole(node.slice)),)
    end = max(index.range.end for index in indices) + 1  # the bracket
    has_comma = isinstance(node.slice, ast.Tuple)
    return t.Subscript(value, indices, has_comma=has_comma, range=b.at.range(value.range.start, end))


def _slice(b: TreeBuilder, node: ast.Slice, value: t.Expr) -> t.Expr:
    return t.SliceExpr(b.optional(node.lower), b.optional(node.upper), b.optional(node.step), range=value.range)


@expression_builder(ast.List)
def _list(b: TreeBuilder, node: ast.List) -> t.Expr:
    return t.ListLiteral(b.expressions(node.elts), range=b.at.first(node, 1))


@expression_builder(ast.Tuple)
def _tuple(b: TreeBuilder, node: ast.Tuple) -> t.Expr:
    return t.TupleLiteral(b.expressions(node.elts), range=b.at.first(node, 1))


@expression_builder(ast.Dict)
def _dict(b: TreeBuilder, node: ast.Dict) -> t.Expr:
    keys: list[t.Expr] = []
    values: list[t.Expr] = []
    for key, value in zip(node.keys, node.values, strict=True):
        built = b.expression(value)
        values.append(t.KeywordStarred(built, range=built.range) if key is None else built)
        keys.append(values[-1] if key is None else b.expression(key))
    return t.DictLiteral(tuple(keys), tuple(values), range=b.at.first(node, 1))


@expression_builder(ast.ListComp)
def _list_comprehension(b: TreeBuilder, node: ast.ListComp) -> t.Expr:
    return _collect(b, node.elt, node.generators, b.at.first(node, 0))


@expression_builder(ast.GeneratorExp)
def _generator_expression(b: TreeBuilder, node: ast.GeneratorExp) -> t.Expr:
    return t.replaced(_collect(b, node.elt, node.generators, b.at.first(node, 0)), is_generator=True)


def _collect(b: TreeBuilder, element: ast.expr, generators: list[ast.comprehension], place: SourceRange) -> t.ListComp:
    target, iterable, clauses = _generators(b, generators)
    return t.ListComp(b.expression(element), target, iterable, clauses, range=place)


@expression_builder(ast.SetComp)
def _set_comprehension(b: TreeBuilder, node: ast.SetComp) -> t.Expr:
    """`{*[element for target in iterable]}`"""
    place = b.at.first(node, 0)
    elements = t.Starred(_collect(b, node.elt, node.generators, place), range=place)
    return t.SetLiteral((elements,), range=place)


@expression_builder(ast.DictComp)
def _dict_comprehension(b: TreeBuilder, node: ast.DictComp) -> t.Expr:
    key, value = b.expression(node.key), b.expression(node.value)
    target, iterable, clauses = _generators(b, node.generators)
    return t.DictComp(key, value, target, iterable, clauses, range=b.at.first(node, 0))


_Clauses = tuple[t.ComprehensionFor | t.ComprehensionIf, ...]


def _generators(b: TreeBuilder, generators: list[ast.comprehension]) -> tuple[t.Expr, t.Expr, _Clauses]:
    """The target and the iterable of the first loop of a comprehension, and its further loops and conditions."""
    loops: list[t.ComprehensionFor] = []
    clauses: list[t.ComprehensionFor | t.ComprehensionIf] = []
    for loop in generators:
        if loop.is_async:
            raise UNSUPPORTED_SYNTAX("async comprehensions aren't supported", b.at.whole(loop.target))
        place = b.at.whole(loop.target)
        loops.append(t.ComprehensionFor(b.expression(loop.target), b.expression(loop.iter), range=place))
        clauses.append(loops[-1])
        for condition in loop.ifs:
            clauses.append(t.ComprehensionIf(b.expression(condition), range=b.at.whole(condition)))
    return loops[0].target, loops[0].iterable, tuple(clauses[1:])


@expression_builder(ast.Starred)
def _starred(b: TreeBuilder, node: ast.Starred) -> t.Expr:
    return t.Starred(b.expression(node.value), range=b.at.first(node, 1))


@expression_builder(ast.JoinedStr)
def _f_string(b: TreeBuilder, node: ast.JoinedStr) -> t.Expr:
    place, args = b.at.first(node, 1), list[t.Expr]()
    text = "".join(_f_string_piece(b, value, args, depth=0) for value in node.values)
    method = t.Select(t.StringLiteral(text, range=place), t.Ident("format", range=place), range=place)
    return t.Apply(method, tuple(args), (), range=place)


def _f_string_text(b: TreeBuilder, node: ast.Constant, depth: int) -> str:
    text = str(node.value)
    if depth and ("{" in text or "}" in text):
        raise FORMAT_FIELD("braces in a format specification aren't supported", b.at.whole(node))
    return text.replace("{", "{{").replace("}", "}}")


def _f_string_piece(b: TreeBuilder, node: ast.expr, args: list[t.Expr], depth: int) -> str:
    """The text in the format string for a piece of an f-string; what it refers to is added to `args`."""
    if isinstance(node, ast.Constant):
        return _f_string_text(b, node, depth)
    if not isinstance(node, ast.FormattedValue):
        raise _unsupported(b, node)
    if depth > 1:  # str.format goes no deeper
        raise FORMAT_FIELD("fields nested twice in a format specification aren't supported", b.at.whole(node))
    args.append(b.expression(node.value))
    conversion = "" if node.conversion == -1 else "!" + chr(node.conversion)
    if node.format_spec is None:
        return "{" + conversion + "}"
    assert isinstance(node.format_spec, ast.JoinedStr)
    spec = "".join(_f_string_piece(b, value, args, depth + 1) for value in node.format_spec.values)
    return "{" + conversion + ":" + spec + "}"
