"""Python's syntax tree to TorchScript's: statements, functions and the ways in.

A function for each class of Python node, entered in a table by its decorator; a node without one is not TorchScript.
Expressions, and the builder that dispatches on the tables, are in `python_expressions`.
What `torch.jit` refuses but has one obvious meaning is built:

  - positional-only parameters are ordinary parameters;
  - keyword-only parameters may have defaults (values of defaults are not part of the tree of a Python function);
  - `f"{x!r:>{n}}"` is `"{!r:>{}}".format(x, n)`: conversions and format specifications stay in the text, fields inside
    a specification are further arguments, and literal braces are doubled;
  - `+x` is a unary plus, `//=` and `@=` are augmented assignments;
  - `x = []  # type: List[int]` annotates like `x: List[int] = []`.

Ranges are TorchScript's: a statement starts with its keyword and covers its parts; a bracketed display starts with its
bracket and ends with its last element; everything built from subtrees covers them.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from jitlite.base.errors import statements as errors
from jitlite.base.errors.type_names import BARE_ANNOTATION
from jitlite.base.source import CompileError, Source, SourceRange
from jitlite.frontend.syntax import match_statements, yields
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.decorators import with_contexts
from jitlite.frontend.syntax.function_source import FunctionSource
from jitlite.frontend.syntax.ignored_blocks import read_ignored_block
from jitlite.frontend.syntax.lambda_source import is_lambda, name_in_programs
from jitlite.frontend.syntax.name_mangling import mangle_private_names, private_owner
from jitlite.frontend.syntax.python_expressions import BINARY, TreeBuilder, expression_builder, statement_builder
from jitlite.frontend.syntax.python_source import (
    Parsed,
    Positions,
    definition_of,
    parse_statements,
    parse_type,
    parsed_source_of,
    plain_function,
    too_deep,
)  # fmt: skip
from jitlite.frontend.syntax.type_comments import apply_comments

R = TypeVar("R")
REGISTERED = (match_statements, yields)
"""Modules that register builders of statements."""


# Statements


@statement_builder(ast.Assign)
def _assign(b: TreeBuilder, node: ast.Assign) -> t.Stmt:
    value, targets = b.expression(node.value), b.expressions(node.targets)
    return t.Assign(targets, value, b.claim(node), range=targets[0].range)


@statement_builder(ast.AnnAssign)
def _annotated_assign(b: TreeBuilder, node: ast.AnnAssign) -> t.Stmt:
    if node.value is None and not isinstance(node.target, ast.Name):
        raise BARE_ANNOTATION.unsupported(
            "annotations of attributes and items without assigned value aren't supported",
            b.at.whole(node),
            hint="assign a value of this type",
        )
    target = node.target
    on_self = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    if on_self and b.function != "__init__":
        raise BARE_ANNOTATION(
            f"Type annotations on instance attributes must be declared in __init__, not '{b.function}'",
            b.at.range(b.at.start(node), b.at.end(node.annotation)),
            hint="annotate the attribute in the class body",
        )
    built = b.expression(target)
    return t.Assign((built,), b.optional(node.value), b.expression(node.annotation), range=built.range)


@statement_builder(ast.AugAssign)
def _augmented_assign(b: TreeBuilder, node: ast.AugAssign) -> t.Stmt:
    target = b.expression(node.target)
    return t.AugAssign(target, BINARY[type(node.op)], b.expression(node.value), range=target.range)


@statement_builder(ast.Return)
def _return(b: TreeBuilder, node: ast.Return) -> t.Stmt:
    place = b.at.first(node, len("return"))
    return t.Return(b.optional(node.value) or t.NoneLiteral(range=place), range=place)


@statement_builder(ast.Raise)
def _raise(b: TreeBuilder, node: ast.Raise) -> t.Stmt:
    place = b.at.first(node, len("raise"))
    if node.exc is None:
        return t.RaiseAgain(range=place)
    if node.cause is not None:
        return t.RaiseFrom(b.expression(node.exc), b.expression(node.cause), range=place)
    return t.Raise(b.expression(node.exc), range=place)


@statement_builder(ast.Try)
def _try(b: TreeBuilder, node: ast.Try) -> t.Stmt:
    place = b.at.first(node, len("try"))
    handlers = tuple(_handler(b, handler) for handler in node.handlers)
    return t.TryStmt(b.body(node.body), handlers, b.body(node.orelse), b.body(node.finalbody), range=place)


def _handler(b: TreeBuilder, node: ast.ExceptHandler) -> t.Handler:
    place = b.at.first(node, len("except"))
    type, name = b.optional(node.type), None
    if node.name is not None and type is not None:
        before = re.compile(r"\bas\s+").search(b.at.source.text, type.range.end)
        name = b.ident(node.name, before.end() if before else place.start)
    return t.Handler(type, name, b.body(node.body), range=place)


@statement_builder(ast.Assert)
def _assert(b: TreeBuilder, node: ast.Assert) -> t.Stmt:
    return t.Assert(b.expression(node.test), b.optional(node.msg), range=b.at.first(node, len("assert")))


@statement_builder(ast.Delete)
def _delete(b: TreeBuilder, node: ast.Delete) -> t.Stmt:
    return t.Delete(b.expressions(node.targets), range=b.at.first(node, len("del")))


@statement_builder(ast.Pass)
def _pass(b: TreeBuilder, node: ast.Pass) -> t.Stmt:
    return t.Pass(range=b.at.whole(node))


@statement_builder(ast.Import)
def _import(b: TreeBuilder, node: ast.Import) -> t.Stmt:
    found = []
    for alias in node.names:
        place = b.at.whole(alias)
        bound = alias.asname or alias.name.partition(".")[0]
        found.append(t.Import(alias.name, "", t.Ident(bound, range=place), range=place))
        if alias.asname is None and bound != alias.name:  # the package is bound, with the module in it
            found.append(t.Import(bound, "", found[-1].name, range=place))
    return _imports(b, node, found)


@statement_builder(ast.ImportFrom)
def _import_from(b: TreeBuilder, node: ast.ImportFrom) -> t.Stmt:
    found = []
    for alias in node.names:
        place = b.at.whole(alias)
        name = t.Ident(alias.asname or alias.name, range=place)
        found.append(t.Import(node.module or "", alias.name, name, level=node.level, range=place))
    return _imports(b, node, found)


def _imports(b: TreeBuilder, node: ast.Import | ast.ImportFrom, found: Sequence[t.Import]) -> t.Stmt:
    if b.is_text:  # nobody knows who wrote it
        place = b.at.first(node, len("import" if isinstance(node, ast.Import) else "from"))
        raise errors.UNSUPPORTED_SYNTAX("import statements aren't supported in a text", place)
    return t.Imports(tuple(found), range=b.at.whole(node))


@statement_builder(ast.Global)
def _global(b: TreeBuilder, node: ast.Global) -> t.Stmt:
    place = b.at.first(node, len("global"))
    return t.Global(tuple(t.Ident(name, range=place) for name in node.names), range=place)


@statement_builder(ast.Break)
def _break(b: TreeBuilder, node: ast.Break) -> t.Stmt:
    return t.Break(range=b.at.whole(node))


@statement_builder(ast.Continue)
def _continue(b: TreeBuilder, node: ast.Continue) -> t.Stmt:
    return t.Continue(range=b.at.whole(node))


@statement_builder(ast.If)
def _if(b: TreeBuilder, node: ast.If) -> t.Stmt:
    """A chain of `elif` is walked, not recursed: it can be long."""
    chain = [node]
    while len(chain[-1].orelse) == 1 and isinstance(chain[-1].orelse[0], ast.If):
        chain.append(chain[-1].orelse[0])
    orelse = b.body(chain[-1].orelse)
    for link in reversed(chain):
        built = t.IfStmt(b.expression(link.test), b.body(link.body), orelse, range=b.at.first(link, len("if")))
        orelse = (built,)
    return built


@statement_builder(ast.While)
def _while(b: TreeBuilder, node: ast.While) -> t.Stmt:
    loop = t.While(b.expression(node.test), b.body(node.body), range=b.at.first(node, len("while")))
    return _with_else(b, loop, node)


@statement_builder(ast.For)
def _for(b: TreeBuilder, node: ast.For) -> t.Stmt:
    targets, iterables = (b.expression(node.target),), (b.expression(node.iter),)
    loop = t.For(targets, iterables, b.body(node.body), range=b.at.first(node, len("for")))
    return _with_else(b, loop, node)


def _with_else(b: TreeBuilder, loop: t.For | t.While, node: ast.For | ast.While) -> t.Stmt:
    return t.LoopElse(loop, b.body(node.orelse), range=loop.range) if node.orelse else loop


@statement_builder(ast.With)
def _with(b: TreeBuilder, node: ast.With) -> t.Stmt:
    if len(node.items) == 1:
        value = b.expression(node.items[0].context_expr)
        if isinstance(value, t.Apply) and value.callee.range.text.endswith("_IgnoreContextManager"):
            block = read_ignored_block(f"$ignored{len(b.ignored)}", value, node.body)
            b.ignored.append(block)
            return block.call(value.range)
    items = tuple(_with_item(b, item) for item in node.items)
    return t.With(items, b.body(node.body), range=b.at.first(node, len("with")))


def _with_item(b: TreeBuilder, node: ast.withitem) -> t.WithItem:
    value, target = b.expression(node.context_expr), b.optional(node.optional_vars)
    if target is not None and not isinstance(target, t.Var):
        raise errors.UNSUPPORTED_SYNTAX("the target of a with item must be a plain name", target.range)
    return t.WithItem(value, target, range=value.range)


# Functions


def _function(
    b: TreeBuilder,
    node: ast.FunctionDef,
    name: str | None = None,
    self_name: str | None = None,
    is_method: bool = False,
) -> t.Def:
    keyword = b.at.first(node, len("def"))
    b.place, b.function = keyword, node.name
    params = _parameters(b, node.args, self_name)
    decl = t.Decl(params, b.optional(node.returns), range=keyword)
    decl = apply_comments(b, node, decl, is_method=is_method or self_name is not None)
    outer_named, b.named = b.named, []
    body = b.body(node.body)
    named, b.named = tuple(b.named), outer_named
    if b.comments:
        comment = b.comments[0]
        place = b.at.range(comment.start, comment.start + len(comment.text))
        raise errors.TYPE_COMMENT(
            "this type comment belongs to no parameter, function or assignment",
            place,
            hint="'# type: (int, str) -> bool' types a function, '# type: int' the parameter or assignment before it",
        )
    start = b.at.source.text.find(node.name, keyword.end)
    place = keyword if start < 0 else b.at.range(start, start + len(node.name))
    ident = t.Ident(name or node.name, range=place)
    return t.Def(ident, decl, body, named=named, range=keyword)


@statement_builder(ast.FunctionDef)
def _nested_function(b: TreeBuilder, node: ast.FunctionDef) -> t.Stmt:
    if node.decorator_list:
        first = node.decorator_list[0]
        hint = "define the function outside"
        raise errors.NO_DECORATOR("decorators of nested functions aren't supported", b.at.whole(first), hint=hint)
    _refuse_stray_jumps(b, node.body)
    assert node.end_lineno is not None
    inside = [c for c in b.comments if node.lineno <= c.line <= node.end_lineno]
    outside = [c for c in b.comments if c not in inside]
    saved = b.function, b.fill_defaults
    b.comments, b.fill_defaults = inside, True
    built = _function(b, node)
    b.comments, (b.function, b.fill_defaults) = outside, saved
    return built


def _refuse_stray_jumps(b: TreeBuilder, statements: Sequence[ast.stmt]) -> None:
    """See that break and continue stand in loops also where a function is never called, and so never compiled."""
    for stmt in statements:
        if isinstance(stmt, ast.Break | ast.Continue):
            raise errors.BAD_SYNTAX(f"SyntaxError: '{type(stmt).__name__.lower()}' outside loop", b.at.whole(stmt))
        loop = isinstance(stmt, ast.For | ast.While)
        if not isinstance(stmt, ast.FunctionDef | ast.ClassDef):
            for name in ("orelse",) if loop else ("body", "orelse", "finalbody"):
                _refuse_stray_jumps(b, getattr(stmt, name, ()))
        for handler in getattr(stmt, "handlers", ()):
            _refuse_stray_jumps(b, handler.body)


@expression_builder(ast.Lambda)
def _lambda(b: TreeBuilder, node: ast.Lambda) -> t.Expr:
    keyword = b.at.first(node, len("lambda"))
    saved, b.fill_defaults = b.fill_defaults, True
    params = _parameters(b, node.args, None)
    b.fill_defaults = saved
    return t.Lambda(t.Decl(params, None, range=keyword), b.expression(node.body), range=keyword)


def _parameters(b: TreeBuilder, node: ast.arguments, self_name: str | None) -> tuple[t.Param, ...]:
    ordinary = [*node.posonlyargs, *node.args]
    defaults = [*[None] * (len(ordinary) - len(node.defaults)), *node.defaults]
    params = [_parameter(b, arg, d, self_name, False) for arg, d in zip(ordinary, defaults, strict=True)]
    params += [] if node.vararg is None else [_starred_parameter(b, node.vararg, 1)]
    params += [_parameter(b, arg, d, self_name, True) for arg, d in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
    params += [] if node.kwarg is None else [_starred_parameter(b, node.kwarg, 2)]
    return tuple(params)


def _starred_parameter(b: TreeBuilder, node: ast.arg, stars: int) -> t.Param:
    start = b.at.start(node)
    ident = b.ident(node.arg, start)
    whole = b.at.range(start - stars, b.at.end(node))
    built = t.Param(ident, b.optional(node.annotation), None, stars == 2, stars=stars, range=whole)
    if b.is_text:
        refuse_stars([built])
    return built


def refuse_stars(params: Sequence[t.Param]) -> None:
    """See that a function that is compiled for any call takes a known number of arguments.

    Raises:
        NotSupportedError: where it has a parameter with a star.
    """
    for param in params:
        if param.stars:
            raise errors.VARIABLE_ARGUMENTS(
                "Compiled functions can't take variable number of arguments",
                param.range,
                hint="take a list, tuple or dict as one parameter" if param.stars == 1 else
                "name each keyword parameter",
            )  # fmt: skip


def _parameter(
    b: TreeBuilder, node: ast.arg, default: ast.expr | None, self_name: str | None, kwarg_only: bool
) -> t.Param:
    ident = b.ident(node.arg, b.at.start(node))
    annotation = b.optional(node.annotation)
    if annotation is None and self_name is not None and node.arg == "self":
        annotation = t.Var(t.Ident(self_name, range=ident.range), range=ident.range)
    value = b.optional(default) if b.fill_defaults else None
    return t.Param(ident, annotation, value, kwarg_only, range=ident.range)


def declaration_of(fn: object) -> t.Decl | None:
    """The declaration of a function whose body is not to be compiled; None where its source cannot be read."""
    try:
        function = plain_function(fn)
        _, parsed = parsed_source_of(function)
        node = definition_of(function, parsed)
        builder = TreeBuilder(parsed.positions, [] if is_lambda(function) else parsed.comments)
        keyword = builder.at.first(node, len("def"))
        decl = t.Decl(_parameters(builder, node.args, None), builder.optional(node.returns), range=keyword)
        return apply_comments(builder, node, decl, is_method=None)
    except CompileError:
        return None


# Entry points


def function_tree(
    fn: object,
    *,
    name: str | None = None,
    self_name: str | None = None,
    is_method: bool = False,
    is_generator: bool = False,
) -> FunctionSource:
    """The tree of a Python function.

    Args:
        fn: a function or method.
        name: the name to give it, when not its own.
        self_name: for a method, the class that an unannotated `self` belongs to.
        is_method: a type comment may leave out the first parameter.
        is_generator: statements may be `yield x`.

    Raises:
        CompileError: there is no source, or it is no definition.
        NotSupportedError: it uses Python that TorchScript does not have.
    """
    function = plain_function(fn)
    name = name or name_in_programs(function)
    is_generator = is_generator or inspect.isgeneratorfunction(function)
    key = name, self_name, is_method, is_generator
    known = _known_trees.setdefault(function, {})
    if known.get("code") is not function.__code__:
        known.clear()
        known["code"] = function.__code__
    if key not in known:  # a method is compiled once for each type that its class has
        source, parsed = parsed_source_of(function)
        node = definition_of(function, parsed)
        owner = private_owner(function.__qualname__)
        if owner is not None:
            mangle_private_names(node, owner)
        builder = TreeBuilder(parsed.positions, parsed.comments)
        builder.is_generator = is_generator
        builder.place = builder.at.first(node, len("def"))
        tree = _guarded(builder, partial(_function, builder, node, name, self_name, is_method))
        known[key] = tree, source, builder.ignored
    tree, source, ignored = known[key]
    definition, contexts = with_contexts(fn, tree)
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    return FunctionSource(definition, source, function, parameters, ignored, contexts)


_known_trees: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
"""What functions were parsed to, while they live and have the same code."""


def parse_functions(text: str, filename: str | None = None, *, is_method: bool = False) -> list[t.Def]:
    """The trees of the function definitions that a text consists of; defaults are part of them.

    Args:
        is_method: the first parameter is `self`, which type comments do not count.

    Raises:
        CompileError: the text is not Python.
        NotSupportedError: it holds something else, or Python that TorchScript does not have.
    """
    source = text_source(text, filename)
    parsed = parse_statements(source)
    definitions = []
    for node, following in zip(parsed.body, [*parsed.body, None][1:], strict=True):
        if not isinstance(node, ast.FunctionDef):
            raise errors.UNSUPPORTED_SYNTAX("expected a function definition", parsed.positions.whole(node))
        refuse_decorators(parsed, node)
        last = following.lineno if following else len(source.text)
        definitions.append(function_in_text(parsed, node, last, is_method=is_method))
    return definitions


def text_source(text: str, filename: str | None) -> Source:
    """A text as source, with the line ends that Python's parser counts."""
    return Source(text.replace("\r\n", "\n").replace("\r", "\n"), filename)


def refuse_decorators(parsed: Parsed, node: ast.FunctionDef | ast.ClassDef) -> None:
    """See that a definition in a text has no decorators, which nothing would apply.

    Raises:
        NotSupportedError: where it has one.
    """
    if node.decorator_list:
        first = node.decorator_list[0]
        raise errors.NO_DECORATOR(
            f"decorators aren't supported in a text: '@{ast.unparse(first)}' of '{node.name}'",
            parsed.positions.whole(first),
            hint="leave it out, or script a Python function that has it",
        )


def function_in_text(parsed: Parsed, node: ast.FunctionDef, last: int, *, is_method: bool) -> t.Def:
    """The tree of a function that stands in a text; type comments before line `last` may belong to it."""
    comments = [c for c in parsed.comments if node.lineno <= c.line < last]
    builder = TreeBuilder(parsed.positions, comments, is_text=True)
    builder.place = builder.at.first(node, len("def"))
    return _guarded(builder, partial(_function, builder, node, is_method=is_method))


def parse_expression(text: str, within: SourceRange | None = None) -> t.Expr:
    """The tree of an expression given as text.

    Args:
        text: the expression, e.g. the value of a string literal used as a type.
        within: the literal, for the tree to stand there.

    Raises:
        CompileError: it is not a Python expression.
        NotSupportedError: it uses Python that TorchScript does not have.
    """
    stripped = text.strip()
    if within is None:
        positions = Positions(Source(stripped), stripped)
    else:
        start = within.source.text.find(stripped, within.start, within.end + 2)
        fixed = within if start < 0 else None
        positions = Positions(within.source, stripped, max(start, 0), fixed=fixed)
    builder = TreeBuilder(positions)
    return _guarded(builder, lambda: builder.expression(parse_type(stripped, positions)))


def _guarded(builder: TreeBuilder, build: Callable[[], R]) -> R:
    try:
        return build()
    except RecursionError:
        raise too_deep(builder.place) from None
