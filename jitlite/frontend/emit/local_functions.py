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

`closures.inline_local_calls` puts the block in place of the call once exits are removed. Variables of the functions
around are read where the body stands, so they have the values of the moment, as in Python; `nested_scopes.py` keeps the
names of different functions apart.

A nested function can be called, forked, assigned to a variable, passed to another function of the program and returned
by one (`symbolic_values.py`). It is no value of the graph, so containers cannot hold it.

A nested function that calls itself, if only by way of others, has no block to put in place of its calls. It
becomes a script function of its own, once for each tuple of argument types, which takes the variables of the functions
around as its first arguments. While it runs nothing can assign to them, so they have the values of the moment here too:

    def power(n: int) -> int:               def power(x: int, power.n: int) -> int:
        return x * power(n - 1) ...    =>       return x * power(x, power.n - 1) ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from jitlite.base.errors.calls import OPEN_RECURSION, WRONG_COUNT
from jitlite.base.errors.names import NOT_A_VALUE
from jitlite.base.records import Record, replace
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import FunctionValue
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.emitter import Emitter, expression, statement
from jitlite.frontend.emit.known_keywords import emit_starred_keywords
from jitlite.frontend.emit.local_arguments import LocalArgument, bind_given
from jitlite.frontend.emit.open_types import is_open
from jitlite.frontend.emit.return_types import Returned, ReturnTypes
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.symbolic_values import Capturing, emit_results, result_of
from jitlite.frontend.emit.values import Args, ConstantValue, SimpleValue, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import (
    bound_names,
    display_name,
    free_names,
    with_free_names,
    with_own_names,
)
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.operators.overloads import NamedValue


class LocalFunction(Capturing):
    """A nested function or lambda.

    Args:
        defaults: the variables with the values of parameters' defaults, evaluated where the function was defined.
        separate: what its calls call, where it is recursive and this is what it is within itself.
        within: the function whose names mean in it what they mean there.
        is_whole: is it that function?
    """

    is_function = True
    takes_functions = True
    captured: tuple[str, ...] = ()
    """Variables that only this function knows, as it comes from a call or branch that has ended."""

    def __init__(
        self,
        name: str,
        definition: tree.Def,
        defaults: Mapping[str, str],
        separate: Separate | None = None,
        within: Definition | None = None,
        is_whole: bool = False,
    ) -> None:
        self.name = name
        self.definition = definition
        self.defaults = defaults
        self.separate = separate
        self.within = within
        self.is_whole = is_whole
        self.uses = (*(sorted(free_names(definition)) if separate is None else separate.captured), *defaults.values())
        """The variables of the functions around that a call uses."""
        self.kind = "a lambda" if name == "lambda" else f"the nested function '{name}'"

    @property
    def has_declared_result(self) -> bool:
        return self.definition.decl.return_type is not None

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported(
            f"{self.kind} cannot be used as a value", range,
            hint="call it, return it to a function of the program, or pass it to one; it cannot be stored elsewhere",
        )  # fmt: skip

    def with_variables(self, names: Mapping[str, str]) -> LocalFunction:
        definition = with_free_names(self.definition, names)
        defaults = {parameter: names.get(name, name) for parameter, name in self.defaults.items()}
        made = LocalFunction(self.name, definition, defaults, None, self.within, self.is_whole)
        made.captured = tuple(names.values())
        return made

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        assert isinstance(b, Emitter)
        return _emit_call(b, range, self, [_given(b, a, range) for a in (*args, *kwargs)])


def _given(b: Builder, argument: NamedValue, range: SourceRange) -> LocalArgument:
    constant = argument.constant
    value = constant if isinstance(constant, SugaredValue) else SimpleValue(argument.in_graph(b.graph))
    return LocalArgument(value, argument.range or range, argument.name)


class Separate(Record, eq=True):
    """A script function that a recursive nested function has become.

    Attributes:
        captured: the variables of the functions around that are its first arguments.
        types: of its other parameters.
        fixed: its parameters that are functions, which are no arguments: each is the same in all activations.
    """

    function: Function
    captured: Sequence[str]
    types: Mapping[str, Type]
    fixed: Mapping[str, SugaredValue]


# -- definitions
@statement(tree.Def)
def emit_nested_function(em: Emitter, stmt: tree.Def) -> None:
    name = stmt.name.name
    made = LocalFunction(display_name(name), stmt, _defaults(em, stmt.decl), within=em.definition)
    em.assign(name, made, stmt.name.range)


@expression(tree.Lambda)
def emit_lambda(em: Emitter, expr: tree.Lambda, hint: Type | None) -> SugaredValue:
    body = (tree.Return(expr.body, range=expr.body.range),)
    definition = tree.Def(tree.Ident("lambda", range=expr.range), expr.decl, body, range=expr.range)
    return LocalFunction("lambda", definition, _defaults(em, expr.decl), within=em.definition)


def _defaults(em: Emitter, decl: tree.Decl) -> dict[str, str]:
    found: dict[str, str] = {}
    for param in decl.params:
        if param.default is not None:
            hint = None if param.type is None else em.parse_type(param.type)
            name = found[param.ident.name] = unused_variable(em)
            value = em.emit_sugared(param.default, hint)
            em.assign(name, _argument_value(em, value, param.default.range), param.default.range)
    return found


def unused_variable(em: Emitter) -> str:
    """A name for a default."""
    while em.frame.is_defined(name := em.temporary("default")):
        pass  # captured from the function around a recursive one
    return name


# -- calls
def emit_local_call(em: Emitter, call: tree.Apply, function: LocalFunction) -> SugaredValue:
    """A call by expressions, of which some may denote functions."""
    given: list[LocalArgument] = []
    starred = [a for a in call.args if isinstance(a, tree.KeywordStarred)]
    for arg in call.args[: len(call.args) - len(starred)]:
        if isinstance(arg, tree.Starred):
            given += [LocalArgument(p, arg.range) for p in em.emit_sugared(arg.value).as_tuple(em, arg.range)]
        else:
            given.append(LocalArgument(_argument(em, arg), arg.range))
    given += [LocalArgument(_argument(em, k.value), k.value.range, k.name.name) for k in call.keywords]
    given += [_given(em, named, call.range) for named in emit_starred_keywords(em, starred)]
    return _emit_call(em, call.range, function, given)


def _argument(em: Emitter, expr: tree.Expr) -> SugaredValue:
    return _argument_value(em, em.emit_sugared(expr), expr.range)


def _argument_value(em: Emitter, found: SugaredValue, range: SourceRange) -> SugaredValue:
    """A value of the graph for what can be one without doubt; functions and the like stay as they are."""
    is_value = isinstance(found, ConstantValue | SugaredTuple) and not found.is_symbolic
    return SimpleValue(found.as_value(em, range)) if is_value else found


def _emit_call(
    em: Emitter, range: SourceRange, function: LocalFunction, given: Sequence[LocalArgument]
) -> SugaredValue:
    bound = _bind(em, function, given, range)
    if function.within is None or function.within is em.definition:
        return _emit_bound(em, range, function, bound)
    with em.within(function.within):
        return _emit_bound(em, range, function, bound)


def _emit_bound(
    em: Emitter, range: SourceRange, function: LocalFunction, bound: Mapping[str, LocalArgument]
) -> SugaredValue:
    types = {} if function.separate is None else function.separate.types
    arguments = {
        p.ident.name: _converted(em, p, bound[p.ident.name], types.get(p.ident.name))
        for p in function.definition.decl.params
    }
    separate = function.separate or _separate(em, range, function, arguments)
    if separate is not None:
        return _call_separate(em, range, function, separate, arguments)
    key = (function.definition.range, function.captured, *map(_identity, arguments.values()))
    activation = Activation(function.name, key)
    if activation in em.active:
        raise OPEN_RECURSION.unsupported(
            f"{function.kind} calls itself by way of its arguments", range, hint="call it by its own name"
        )
    caller = em.active[-1].name if em.active else em.definition.name
    em.active.append(activation)
    try:
        return _emit_body(em, range, function, list(arguments.values()))
    except CompileError as error:
        error.add_caller(function.name, caller, range)
        raise
    finally:
        em.active.pop()


def _emit_body(
    em: Emitter, range: SourceRange, function: LocalFunction, arguments: Sequence[SugaredValue]
) -> SugaredValue:
    depth = sum(active.name == function.name for active in em.active)
    definition = with_own_names(function.definition, _prefix(function, em.frame, depth))
    declared = definition.decl.return_type
    node = em.node("prim::LocalCall", [], [], range)
    node.attributes["name"] = function.name
    block = node.add_block()
    if declared is not None and is_open(declared, em.resolver):
        definition = tree.replaced(definition, decl=tree.replaced(definition.decl, return_type=None))
        declared = None
    symbolic: list[Returned] = []
    em.returns.append(ReturnTypes(None if declared is None else em.parse_type(declared), symbolic))
    whole = replace(em.definition, tree=definition) if function.is_whole else em.definition
    with em.within(whole), em.in_loop("none"), em.inside(block, starts_function=True):
        _assign_parameters(em, definition, arguments)
        em.emit_statements(definition.body)
        returned = [one for one in symbolic if one.node.block is not None]
        if returned:
            result = emit_results(em, block, returned, function.kind, range)
            em.returns.pop()
        else:
            result = em.finish(definition)
        block.add_output(em.uninitialized(result))
    given = node.add_output(result)
    return result_of(em, returned, em.unpack_tuple(given), range) if returned else SimpleValue(given)


def _assign_parameters(em: Emitter, definition: tree.Def, arguments: Sequence[SugaredValue]) -> None:
    for param, argument in zip(definition.decl.params, arguments, strict=True):
        has_type = not argument.is_symbolic and not param.stars
        annotation = _declared_type(em, param) if has_type else None
        em.assign(param.ident.name, argument, param.ident.range, annotation)


def _prefix(function: LocalFunction, frame: Frame, least: int = 1) -> str:
    """What goes before the names of a function's variables, so that none has the name of one that is seen here."""
    own = bound_names(function.definition)
    candidates = (f"{function.name}{'' if number == 1 else number}." for number in count(least))
    return next(p for p in candidates if not any(frame.is_defined(f"{p}{name}") for name in own))


class Activation(Record, eq=True):
    """A nested function whose call is being emitted. `key` is the same for calls that are emitted the same way."""

    name: str
    key: tuple[object, ...]


def _identity(value: SugaredValue) -> object:
    if isinstance(value, SimpleValue):
        return value.value.type
    return value.definition.range if isinstance(value, LocalFunction) else value.kind


def _bind(
    em: Emitter, function: LocalFunction, given: Sequence[LocalArgument], range: SourceRange
) -> dict[str, LocalArgument]:
    """The argument for each parameter, in order of the parameters."""
    found = bind_given(function.name, function.definition.decl.params, given, range)
    for param in function.definition.decl.params:
        name = param.ident.name
        if name in found or param.stars:
            continue
        if name not in function.defaults:
            raise WRONG_COUNT(f"{function.name}() is missing the argument '{name}'", range)
        found[name] = LocalArgument(em.lookup(function.defaults[name], param.range), param.range)
    return found


def _converted(em: Emitter, param: tree.Param, argument: LocalArgument, wanted: Type | None) -> SugaredValue:
    """The argument as the parameter takes it: of its declared type, or the `wanted` one, if there is one."""
    if param.stars:
        return _argument_value(em, argument.value, argument.range)
    declared = _declared_type(em, param) or wanted
    if declared is None or argument.value.is_symbolic:  # Python heeds no annotation
        return argument.value
    value = argument.value.as_value(em, argument.range)
    message = (
        f"Expected a value of type {declared.annotation} for argument '{param.ident.name}' but instead found type "
        f"{value.type.annotation}"
    )
    return SimpleValue(em.expect(declared, value, argument.range, message))


def _declared_type(em: Emitter, param: tree.Param) -> Type | None:
    """The type that a parameter's annotation tells, None where it tells none."""
    return None if param.type is None or is_open(param.type, em.resolver) else em.parse_type(param.type)


# -- recursive functions
def _types_of_arguments(
    em: Emitter, range: SourceRange, function: LocalFunction, arguments: Mapping[str, SugaredValue]
) -> tuple[dict[str, Type], dict[str, SugaredValue]]:
    """The types of the arguments that the graph has values for, and the arguments that it has none for."""
    types: dict[str, Type] = {}
    fixed: dict[str, SugaredValue] = {}
    for name, argument in arguments.items():
        found = _type_in_graph(em, argument, range)
        if found is not None:
            types[name] = T.unshaped(found)
        else:
            fixed[name] = _without_graph(function, argument, range)
    return types, fixed


def _separate(
    em: Emitter, range: SourceRange, function: LocalFunction, arguments: Mapping[str, SugaredValue]
) -> Separate | None:
    """The script function for a call of a recursive function with these arguments, None for other functions."""
    if function not in _used_variables(em.frame, [function]).values():
        return None
    if not function.has_declared_result:
        if function in _used_variables(em.frame, [function], of_known_result=False).values():
            raise OPEN_RECURSION(
                f"{function.kind} calls itself, and its result type is not known", range,
                hint="define it with an annotated result: def name(...) -> T",
            )  # fmt: skip
        return None  # its calls lead to a function that becomes a script function
    used = _used_variables(em.frame, [function, *(a for a in arguments.values() if isinstance(a, LocalFunction))])
    captured: dict[str, Type] = {}
    variables: dict[str, SugaredValue] = {}
    for name, sugar in used.items():
        found = em.frame.type_of(name) if sugar is None else _type_in_graph(em, sugar, range)
        if found is not None:
            captured[name] = T.unshaped(found)
        elif sugar is not None:
            variables[name] = _without_graph(function, sugar, range)
    types, fixed = _types_of_arguments(em, range, function, arguments)
    key = (function, *captured.items(), None, *variables.items(), None, *types.items(), None, *fixed.items())
    known: Separate | None = em.separate.get(key)
    if known is None:
        known = em.separate[key] = _declared(em, function, captured, variables, types, fixed)
    return known


def _declared(
    em: Emitter,
    function: LocalFunction,
    captured: Mapping[str, Type],
    variables: Mapping[str, SugaredValue],
    types: Mapping[str, Type],
    fixed: Mapping[str, SugaredValue],
) -> Separate:
    """The script function of a recursive function, to be compiled when it is called.

    Args:
        captured: the variables of the functions around that are values.
        variables: those that are not.
        types: the types of the parameters that are values.
        fixed: the arguments that are not.
    """
    prefix = _prefix(function, em.frame)
    definition = with_own_names(function.definition, prefix)
    place = definition.name.range
    params = [tree.Param(tree.Ident(name, range=place), None, None, False, range=place) for name in captured]
    params += [
        tree.replaced(p, default=None, kwarg_only=False)
        for p in definition.decl.params
        if p.ident.name.removeprefix(prefix) in types
    ]
    definition = tree.replaced(definition, decl=tree.replaced(definition.decl, params=tuple(params)))
    inferred = {**captured, **{f"{prefix}{name}": t for name, t in types.items()}}
    inside = {**variables, **{f"{prefix}{name}": sugar for name, sugar in fixed.items()}}
    made = em.program.declare(
        Definition(function.name, definition, em.resolver, {}, inferred=inferred, variables=inside)
    )
    separate = Separate(made, tuple(captured), types, fixed)
    within = LocalFunction(function.name, function.definition, function.defaults, separate)
    inside.update((name, within) for name, sugar in variables.items() if sugar is function)
    return separate


def _call_separate(
    em: Emitter,
    range: SourceRange,
    function: LocalFunction,
    separate: Separate,
    arguments: Mapping[str, SugaredValue],
) -> SugaredValue:
    values = [em.lookup(name, range).as_value(em, range) for name in separate.captured]
    for name, argument in arguments.items():
        if name not in separate.fixed:
            values.append(argument.as_value(em, range))
        elif argument is not separate.fixed[name]:
            raise OPEN_RECURSION.unsupported(
                f"{function.kind} calls itself with another function for '{name}'", range,
                hint="functions must be passed on as they are",
            )  # fmt: skip
    called = em.program.ready(separate.function, range)
    return FunctionValue(called).call(em, range, [NamedValue(None, v, range=range) for v in values], [])


def _used_variables(
    frame: Frame, functions: Sequence[LocalFunction], of_known_result: bool = True
) -> dict[str, SugaredValue | None]:
    """The variables that calls of the functions use, also by way of other functions; None for values of the graph.

    Args:
        of_known_result: whether to go by way of functions with an annotated result too.
    """
    found: dict[str, SugaredValue | None] = {}
    waiting = list(functions)
    while waiting:
        for name in waiting.pop().uses:
            if name not in found and frame.is_defined(name):
                sugar = found[name] = frame.sugar_of(name)
                if isinstance(sugar, LocalFunction) and (of_known_result or not sugar.has_declared_result):
                    waiting.append(sugar)
    return found


def _type_in_graph(em: Emitter, sugar: SugaredValue, range: SourceRange) -> Type | None:
    """The type of what is a value of the graph without doubt, None for the rest."""
    found = _argument_value(em, sugar, range)
    return found.value.type if isinstance(found, SimpleValue) else None


def _without_graph(function: LocalFunction, sugar: SugaredValue, range: SourceRange) -> SugaredValue:
    """What a recursive function uses from around and is no value, if it means the same in another graph."""
    if _holds_values(sugar):
        raise NOT_A_VALUE.unsupported(
            f"{sugar.kind} cannot be used in {function.kind}, which calls itself", range,
            hint="use what it belongs to: `self.method(x)` for `method = self.method`",
        )  # fmt: skip
    return sugar


def _holds_values(part: object) -> bool:
    if isinstance(part, list | tuple):
        return any(map(_holds_values, part))
    if isinstance(part, SugaredValue):
        return any(map(_holds_values, vars(part).values()))
    return isinstance(part, Value | NamedValue)
