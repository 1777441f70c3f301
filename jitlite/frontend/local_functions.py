"""Nested functions and lambdas: functions that exist while another one is compiled.

torch.jit refuses them. Here one is a sugared value, emitted anew by each call, so that parameters without annotation
have the types of that call's arguments. A call

    inner(y)

becomes a block with the body, which assigns the arguments to the parameters and returns to the call:

    %2 : Tensor = prim::LocalCall[name="inner"]()
      block0():
        prim::Store[name="inner.y"](%y)
        ...
        prim::ReturnStmt(%r)
        -> (%1)

`closures.inline_local_calls` puts the block in the place of the call once exits are removed. Variables of the functions
around are read where the body stands, so they have the values of the moment, as in Python; `local_names.py` keeps the
names of different functions apart.

A nested function can be called, forked, assigned to a variable and passed to another nested function. It is no value of
the graph: it cannot be returned, put into a container, passed to other functions or depend on a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitlite.frontend import tree
from jitlite.frontend.builder import Builder
from jitlite.frontend.emitter import Emitter, ReturnTypes, expression, statement
from jitlite.frontend.local_names import display_name, with_own_names
from jitlite.frontend.values import Args, ConstantSugar, SimpleValue, SugaredTuple, SugaredValue
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.source import CompileError, NotSupportedError, SourceRange


class LocalFunction(SugaredValue):
    """A nested function or lambda.

    Args:
        defaults: the values of parameters' defaults, evaluated where the function was defined.
    """

    def __init__(self, name: str, definition: tree.Def, defaults: dict[str, SugaredValue]) -> None:
        self.name = name
        self.definition = definition
        self.defaults = defaults
        self.kind = "a lambda" if name == "lambda" else f"the nested function '{name}'"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NotSupportedError(
            f"{self.kind} cannot be used as a value", range,
            hint="call it, or pass it to another nested function; it cannot be returned, stored or passed elsewhere",
        )  # fmt: skip

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        assert isinstance(b, Emitter)
        given = [_Given(SimpleValue(a.in_graph(b.graph)), a.range or range, a.name) for a in (*args, *kwargs)]
        return _emit_call(b, range, self, given)


@dataclass(frozen=True)
class _Given:
    """An argument of a call; `name` is the keyword."""

    value: SugaredValue
    range: SourceRange
    name: str | None = None


# -- definitions
@statement(tree.Def)
def emit_nested_function(em: Emitter, stmt: tree.Def) -> None:
    name = stmt.name.name
    em.assign(name, LocalFunction(display_name(name), stmt, _defaults(em, stmt.decl)), stmt.name.range)


@expression(tree.Lambda)
def emit_lambda(em: Emitter, expr: tree.Lambda, hint: Type | None) -> SugaredValue:
    body = (tree.Return(expr.body, range=expr.body.range),)
    definition = tree.Def(tree.Ident("lambda", range=expr.range), expr.decl, body, range=expr.range)
    return LocalFunction("lambda", definition, _defaults(em, expr.decl))


def _defaults(em: Emitter, decl: tree.Decl) -> dict[str, SugaredValue]:
    found: dict[str, SugaredValue] = {}
    for param in decl.params:
        if param.default is not None:
            hint = None if param.type is None else em.parse_type(param.type)
            value = em.emit_sugared(param.default, hint)
            found[param.ident.name] = value if isinstance(value, LocalFunction) else SimpleValue(
                value.as_value(em, param.default.range)
            )  # fmt: skip
    return found


# -- calls
def emit_local_call(em: Emitter, call: tree.Apply, function: LocalFunction) -> SugaredValue:
    """A call by expressions, of which some may denote functions."""
    given: list[_Given] = []
    for arg in call.args:
        if isinstance(arg, tree.Starred):
            given += [_Given(p, arg.range) for p in em.emit_sugared(arg.value).as_tuple(em, arg.range)]
        else:
            given.append(_Given(_argument(em, arg), arg.range))
    given += [_Given(_argument(em, k.value), k.value.range, k.name.name) for k in call.keywords]
    return _emit_call(em, call.range, function, given)


def _argument(em: Emitter, expr: tree.Expr) -> SugaredValue:
    found = em.emit_sugared(expr)
    is_value = isinstance(found, ConstantSugar | SugaredTuple)
    return SimpleValue(found.as_value(em, expr.range)) if is_value else found


def _emit_call(em: Emitter, range: SourceRange, function: LocalFunction, given: Sequence[_Given]) -> SugaredValue:
    bound = _bind(function, given, range)
    arguments = [_converted(em, p, bound[p.ident.name]) for p in function.definition.decl.params]
    activation = Activation(function.name, (function.definition.range, *map(_identity, arguments)))
    if activation in em.active:
        raise NotSupportedError(
            f"{function.kind} calls itself", range, hint="define it outside of the function, with an annotated result"
        )
    caller = em.active[-1].name if em.active else em.definition.name
    em.active.append(activation)
    try:
        return _emit_body(em, range, function, arguments)
    except CompileError as error:
        error.add_caller(function.name, caller, range)
        raise
    finally:
        em.active.pop()


def _emit_body(
    em: Emitter, range: SourceRange, function: LocalFunction, arguments: Sequence[SugaredValue]
) -> SugaredValue:
    depth = sum(active.name == function.name for active in em.active)
    definition = with_own_names(function.definition, f"{function.name}{depth}." if depth > 1 else f"{function.name}.")
    declared = definition.decl.return_type
    node = em.node("prim::LocalCall", [], [], range)
    node.attributes["name"] = function.name
    block = node.add_block()
    em.returns.append(ReturnTypes(None if declared is None else em.parse_type(declared)))
    with em.in_loop("none"), em.inside(block, starts_function=True):
        for param, argument in zip(definition.decl.params, arguments, strict=True):
            annotation = None if param.type is None else em.parse_type(param.type)
            em.assign(param.ident.name, argument, param.ident.range, annotation)
        em.emit_statements(definition.body)
        result = em.finish(definition)
        block.add_output(em.uninitialized(result))
    return SimpleValue(node.add_output(result))


@dataclass(frozen=True)
class Activation:
    """A nested function whose call is being emitted. `key` is the same for calls that are emitted the same way."""

    name: str
    key: tuple[object, ...]


def _identity(value: SugaredValue) -> object:
    if isinstance(value, SimpleValue):
        return value.value.type
    return value.definition.range if isinstance(value, LocalFunction) else value.kind


def _bind(function: LocalFunction, given: Sequence[_Given], range: SourceRange) -> dict[str, _Given]:
    """The argument for each parameter, in order of the parameters."""
    params = function.definition.decl.params
    positional = [p.ident.name for p in params if not p.kwarg_only]
    found: dict[str, _Given] = {}
    values = [g for g in given if g.name is None]
    if len(values) > len(positional):
        raise CompileError(
            f"{function.name}() takes {len(positional)} positional arguments but {len(values)} were given", range
        )
    found.update(zip(positional, values, strict=False))
    names = {p.ident.name for p in params}
    for argument in given:
        if argument.name is None:
            continue
        if argument.name not in names:
            raise CompileError(f"{function.name}() got an unexpected keyword argument '{argument.name}'", range)
        if argument.name in found:
            raise CompileError(f"{function.name}() got multiple values for argument '{argument.name}'", range)
        found[argument.name] = argument
    missing = [p for p in params if p.ident.name not in found and p.ident.name not in function.defaults]
    if missing:
        raise CompileError(f"{function.name}() is missing the argument '{missing[0].ident.name}'", range)
    default = {p.ident.name: _Given(function.defaults[p.ident.name], p.range) for p in params
               if p.ident.name in function.defaults}  # fmt: skip
    return {p.ident.name: found.get(p.ident.name) or default[p.ident.name] for p in params}


def _converted(em: Emitter, param: tree.Param, argument: _Given) -> SugaredValue:
    """The argument as the parameter takes it: of its declared type, if it has one."""
    if param.type is None:
        return argument.value
    declared = em.parse_type(param.type)
    value = argument.value.as_value(em, argument.range)
    message = (
        f"Expected a value of type {declared.annotation} for argument '{param.ident.name}' but instead found type "
        f"{value.type.annotation}"
    )
    return SimpleValue(em.expect(declared, value, argument.range, message))
