"""Calls, and the special forms: callables that do not evaluate their arguments in the ordinary way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.base.errors.calls import (
    KNOWN_WHEN_COMPILED,
    NOT_CALLABLE,
    RESULT_TYPE_OF_TOLIST,
    WRONG_ARGUMENTS,
    WRONG_COUNT,
    WRONG_KEYWORD,
)
from jitlite.base.errors.classes import WRONG_METHOD
from jitlite.frontend.emit.assignment import assign_attribute
from jitlite.frontend.emit.attribute_refinement import is_changeable
from jitlite.frontend.emit.branch_refinement import refined_sugar
from jitlite.frontend.emit.chosen_parts import attribute_by_name
from jitlite.frontend.emit.constant_containers import GlobalContainer
from jitlite.frontend.emit.containers import is_module_type
from jitlite.frontend.emit.denotations import BUILTINS
from jitlite.frontend.emit.dict_calls import emit_update
from jitlite.frontend.emit.displays import emit_dict_comprehension, emit_list_comprehension
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.empty_literals import as_wanted
from jitlite.frontend.emit.enum_members import EnumClass
from jitlite.frontend.emit.exception_values import ClassOfModule
from jitlite.frontend.emit.generator_expressions import emit_quantifier
from jitlite.frontend.emit.iterable_values import RangeValue, SliceValue, ZipValue, enumerate_value
from jitlite.frontend.emit.iteration import iterated
from jitlite.frontend.emit.known_keywords import KnownKeywords, emit_starred_keywords
from jitlite.frontend.emit.known_values import KnownValue, LazyIterable, elements_of
from jitlite.frontend.emit.library_calls import (
    emit_iterable_arguments,
    emit_with_digits,
    emit_with_keywords,
    emit_without_operator,
    filtered,
)
from jitlite.frontend.emit.list_types import listed_type
from jitlite.frontend.emit.local_functions import LocalFunction, emit_local_call
from jitlite.frontend.emit.named_fields import by_position
from jitlite.frontend.emit.objects import ObjectDefinition
from jitlite.frontend.emit.sequences import ListAsTuple, with_spread_tail
from jitlite.frontend.emit.sets import listed, with_elements
from jitlite.frontend.emit.shown_values import reading_of
from jitlite.frontend.emit.special_methods import is_object
from jitlite.frontend.emit.super_values import SuperValue
from jitlite.frontend.emit.tensor_reductions import emit_reduction
from jitlite.frontend.emit.type_tests import emit_hasattr, emit_isinstance
from jitlite.frontend.emit.values import (
    BuiltinFunction,
    ConstantValue,
    SimpleValue,
    SpecialForm,
    SugaredTuple,
    SugaredValue,
)
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import Type
from jitlite.operators.conversions import is_empty_literal
from jitlite.operators.overloads import NamedValue

_Form = Callable[[Emitter, tree.Apply, SpecialForm, Type | None], SugaredValue | Value]
_forms: dict[str, _Form] = {}


def form(name: str, least: int, most: int | None = None, keywords: Sequence[str] = ()) -> Callable[[_Form], _Form]:
    """Register a special form that takes `least` to `most` positional arguments (None: any number)."""

    def register(fn: _Form) -> _Form:
        def checked(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
            count = len(call.args)
            if least == most != count:
                raise WRONG_COUNT(f"{name} expected exactly {least} arguments but found {count}", call.range)
            if count < least:
                raise WRONG_COUNT(f"{name} expected at least {least} arguments, got {count}", call.range)
            if most is not None and count > most:
                raise WRONG_COUNT(f"{name} expected at most {most} arguments, got {count}", call.range)
            if call.keywords and not keywords:
                who = f"{name[:1].upper()}{name[1:]}"
                raise WRONG_KEYWORD(f"{who} does not accept any keyword arguments", call.keywords[0].range)
            for keyword in call.keywords:
                if keyword.name.name not in keywords and "*" not in keywords:
                    raise WRONG_KEYWORD(f"{name} takes no keyword argument '{keyword.name.name}'", keyword.range)
            return fn(em, call, special, hint)

        _forms[name] = checked
        return fn

    return register


@expression(tree.Apply)
def emit_call(em: Emitter, expr: tree.Apply, hint: Type | None) -> SugaredValue | Value:
    callee = em.emit_sugared(expr.callee)
    if isinstance(callee, SpecialForm):
        special = _forms.get(callee.form)
        if special is None:
            raise NOT_CALLABLE.unsupported(f"{callee.kind} cannot be called in TorchScript", expr.callee.range)
        return special(em, expr, callee, hint)
    if isinstance(callee, LocalFunction):
        return emit_local_call(em, expr, callee)
    if isinstance(callee, BuiltinFunction):
        return _emit_builtin(em, expr, callee)
    if callee is BUILTINS["len"] and len(expr.args) == 1 and not expr.keywords:
        return _emit_length(em, expr, callee)
    positional, starred = _separate_keywords(expr)
    args = (
        emit_iterable_arguments(em, positional)
        if callee.takes_iterables
        else em.emit_arguments(positional, callee.takes_functions)
    )
    kwargs = em.emit_keywords(expr.keywords, callee.takes_functions)
    kwargs += emit_starred_keywords(em, starred)
    return emit_with_digits(em, expr.range, callee, args, kwargs) or callee.call(em, expr.range, args, kwargs)


def _separate_keywords(expr: tree.Apply) -> tuple[Sequence[tree.Expr], Sequence[tree.Expr]]:
    """The positional arguments of a call, and the `**value`s, which stand behind them."""
    positional = [a for a in expr.args if not isinstance(a, tree.KeywordStarred)]
    return positional, expr.args[len(positional) :]


def _emit_builtin(em: Emitter, expr: tree.Apply, callee: BuiltinFunction) -> SugaredValue | Value:
    if callee in (BUILTINS["any"], BUILTINS["all"]) and len(expr.args) == 1:
        (only,) = expr.args
        generator = only if isinstance(only, tree.ListComp) and only.is_generator else filtered(em, only)
        if generator is None and isinstance(only, tree.Apply):
            found = em.emit_sugared(only)
            generator = elements_of(found, only.range, is_generator=True) if isinstance(found, LazyIterable) else None
            expr = tree.replaced(expr, args=(KnownValue(found, range=only.range),))
        if generator is not None:
            return emit_quantifier(em, expr.range, generator, callee is BUILTINS["any"])
    if (formatted := by_position(em, expr, callee)) is not None:
        return emit_call(em, formatted, None)
    called = emit_update(em, expr, callee) or emit_with_keywords(em, expr, callee)
    return _call_operator(em, expr, callee) if called is None else called


def _emit_length(em: Emitter, expr: tree.Apply, callee: SugaredValue) -> SugaredValue | Value:
    measured = em.emit_sugared(expr.args[0])
    if isinstance(measured, EnumClass | GlobalContainer | KnownKeywords | ListAsTuple | SugaredTuple):
        return measured.length(em, expr.range)
    if isinstance(measured, RangeValue):
        return measured.count(em, expr.range)
    return callee.call(em, expr.range, [em.argument(None, measured, expr.args[0].range, False)], [])


def _call_operator(em: Emitter, expr: tree.Apply, callee: BuiltinFunction) -> SugaredValue | Value:
    """A call of an operator, which takes a list where Python's function takes a tuple or many arguments."""
    positional, starred = _separate_keywords(expr)
    parts = em.emit_parts(positional, reading_of(callee))
    if any(part.spread for part in parts):
        args = with_spread_tail(em, parts, expr.range)
    else:
        args = [NamedValue(None, part.value, range=part.range) for part in parts]
    kwargs = [NamedValue(k.name.name, em.emit_sugared(k.value).as_argument(em, k.value.range), range=k.value.range)
              for k in expr.keywords]  # fmt: skip
    kwargs += emit_starred_keywords(em, starred)
    args = with_elements(em, callee, args, expr.range)
    reduced = emit_reduction(em, expr.range, callee, [*args, *kwargs])
    if reduced is None and not kwargs:
        reduced = emit_without_operator(em, expr.range, callee, args)
    return callee.call(em, expr.range, args, kwargs) if reduced is None else reduced


# -- methods
@form("super", 0, 2)
def emit_super(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    params = em.definition.tree.decl.params
    start = em.definition.defining_class
    if not params or start is None:
        raise WRONG_METHOD("super() works in the methods of classes only", call.range)
    owner = em.lookup(params[0].ident.name, call.range)
    if call.args:
        given = em.resolver.lookup(call.args[0].name.name) if isinstance(call.args[0], tree.Var) else None
        if not isinstance(given, type) or len(call.args) != 2:
            raise WRONG_METHOD("super takes nothing, or a class and self", call.range)
        start = given
        owner = em.emit_sugared(call.args[1])
    value = owner.as_value(em, call.range)
    if not isinstance(value.type, T.ClassType) or not isinstance(value.type.definition, ObjectDefinition):
        raise WRONG_METHOD("super() needs an object", call.range, found=value.type.annotation)
    return SuperValue(value, value.type.definition, start)


# -- types
@form("annotate", 2, 2)
def emit_annotate(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    t = em.parse_type(call.args[0])
    range = call.args[1].range
    value = em.expect(t, em.emit(call.args[1], t), range, f"expected an expression of type {t.annotation}")
    if value.type is T.NONE and T.may_be_none(t):
        return em.constant(None, range, t)
    return value


@form("unchecked_cast", 2, 2)
def emit_unchecked_cast(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    t = em.parse_type(call.args[0])
    value = em.emit(call.args[1])
    if value.node.kind == "prim::unchecked_cast" and value.type is t:
        return value
    return em.cast(value, t)


@form("isinstance", 2, 2)
def emit_isinstance_call(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return emit_isinstance(em, call.args[0], call.args[1]).value


@form("hasattr", 2, 2)
def emit_hasattr_call(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return emit_hasattr(em, call.args[0], call.args[1]).value


@form("callable", 1, 1)
def emit_callable(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    subject = em.emit_sugared(call.args[0])
    has_call = (
        is_object(subject.value) and subject.has_attr(em, call.range, "__call__")
        if isinstance(subject, SimpleValue)
        else subject.is_function
    )
    return em.constant(has_call or _is_module(subject), call.range)


def _is_module(found: SugaredValue) -> bool:
    return isinstance(found, SimpleValue) and is_module_type(found.value.type)


@form("getattr", 2, 3)
def emit_getattr(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    name = call.args[1]
    subject = em.emit_sugared(call.args[0])
    if not isinstance(name, tree.StringLiteral):
        if len(call.args) == 3:
            raise KNOWN_WHEN_COMPILED("getattr with a default needs a name that is written out", name.range)
        return attribute_by_name(em, call.range, subject, em.emit(name))
    if len(call.args) == 3 and not subject.has_attr(em, call.range, name.value):
        return em.emit_sugared(call.args[2])
    return refined_sugar(em, subject.attr(em, call.range, name.value))


@form("setattr", 3, 3)
def emit_setattr(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    owner, written, value = call.args
    name = em.emit(written)
    if not is_constant(name) or name.type is not T.STRING:
        raise KNOWN_WHEN_COMPILED(
            "the name that setattr is given has to be known where the program is compiled", written.range
        )
    assign_attribute(em, owner, str(constant_of(name)), value, call.range)
    return em.constant(None, call.range)


@form("type", 1, 1)
def emit_type(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
    """The class of a value. That of a module is not what it is in eager Python: scripts hold compiled modules."""
    value = em.emit(call.args[0])
    if isinstance(value.type, T.ClassType) and is_module_type(value.type):
        return ClassOfModule(value.type.python_class.__name__)
    return em.node("prim::PythonType", [value], [T.ANY], call.range).output


@form("tolist", 0, 0)
def emit_tolist(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    assert special.subject is not None
    tensor = special.subject.as_value(em, call.range)
    hint = hint or listed_type(tensor)
    if hint is None:
        raise RESULT_TYPE_OF_TOLIST(
            "Expected type hint for result of tolist()", call.range, hint="annotate it: `xs: List[float] = x.tolist()`"
        )
    dims, element = 0, hint
    while isinstance(element, T.ListType):
        dims, element = dims + 1, element.element
    codes: dict[Type, int] = {T.INT: 0, T.FLOAT: 1, T.BOOL: 2, T.COMPLEX: 3}
    if element not in codes:
        raise RESULT_TYPE_OF_TOLIST(
            f"{element.annotation} is not one of the supported element types for tolist: int, float, bool, complex",
            call.range,
            found=hint.annotation,
        )
    inputs = [tensor, em.constant(dims, call.range), em.constant(codes[element], call.range)]
    return em.node("prim::tolist", inputs, [hint], call.range).output


@form("is_tracing", 0, 0)
def emit_is_tracing(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    """False: nothing that records, of torch or of its exporter to ONNX, looks into a script."""
    return em.constant(False, call.range)


@form("is_scripting", 0, 0)
def emit_is_scripting(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    if em.definition.is_for_python:
        return em.constant(False, call.range)
    return em.node("aten::is_scripting", [], [T.BOOL], call.range).output


@form("has_torch_function", 0, None, ["*"])
def emit_has_torch_function(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    # what scripts hold are plain tensors, so the arguments need not even be evaluated
    return em.node("aten::has_torch_function", [], [T.BOOL], call.range).output


# -- iteration
@form("range", 1, 3)
def emit_range(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    return RangeValue(em, call.range, [v.in_graph(em.graph) for v in em.emit_arguments(call.args)])


@form("enumerate", 1, 2, ["start"])
def emit_enumerate(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    start_expr = call.args[1] if len(call.args) == 2 else None
    if call.keywords:
        start_expr = call.keywords[0].value
    start = None if start_expr is None else em.emit(start_expr)
    return enumerate_value(em, call.range, iterated(em, call.args[0]), start)


@form("zip", 1, None, ["strict"])
def emit_zip(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    strict = isinstance(call.keywords[0].value, tree.TrueLiteral) if call.keywords else False
    if call.keywords and not strict and not isinstance(call.keywords[0].value, tree.FalseLiteral):
        raise KNOWN_WHEN_COMPILED(
            "'strict' has to be True or False where the program is compiled", call.keywords[0].range
        )
    return ZipValue(call.range, [iterated(em, a) for a in call.args], strict=strict)


@form("slice", 1, 3)
def emit_slice_object(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    bounds: list[Value | None] = []
    for arg in call.args:
        value = em.emit(arg)
        bounds.append(None if value.type is T.NONE else value)
    if len(bounds) == 1:
        bounds = [None, bounds[0]]
    return SliceValue(bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else None)


# -- containers
@form("tuple", 0, 1)
def emit_tuple_call(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
    if not call.args:
        return em.make_tuple([])
    (source,) = call.args
    if isinstance(source, tree.ListComp) and source.is_generator and not source.clauses:
        return _tuple_of(em, call, iterated(em, source))
    return _tuple_of(em, call, em.emit_sugared(source))


def _tuple_of(em: Emitter, call: tree.Apply, found: SugaredValue) -> SugaredValue | Value:
    """The tuple of what is iterated; where its length is known at run time only, of a list of its own."""
    if isinstance(found, SimpleValue) and isinstance(found.value.type, T.TupleType):
        return em.make_tuple(em.unpack_tuple(found.value))
    found = found.iterate(em, call.range)
    if found.static_length is not None and found.limit(em, call.range) is None:
        parts = [found.element(em, call.range, em.number(i, call.range)) for i in _range(found.static_length)]
        return em.make_tuple([p.as_value(em, call.range) for p in parts])
    if isinstance(found, SimpleValue) and isinstance(found.value.type, T.ListType):
        return ListAsTuple(em.op("aten::list", [found.value], range=call.range))
    (element,), iterable = _temporaries(em, call, found, ["element"])
    comprehension = tree.ListComp(element, element, iterable, range=call.range)
    return ListAsTuple(emit_list_comprehension(em, comprehension, None))


def _copied_list(em: Emitter, call: tree.Apply, value: Value, hint: Type | None) -> Value:
    """A new list of the elements of a list or string; an empty one is of the type that is wanted."""
    if isinstance(hint, T.ListType):
        value = as_wanted(em, value, hint, call.range)
    return em.op("aten::list", [value], range=call.range)


@form("list", 0, 1)
def emit_list_call(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue | Value:
    if not call.args:
        return em.emit_sugared(tree.ListLiteral((), range=call.range), hint)
    source = em.emit_sugared(call.args[0])
    if (elements := listed(em, source, call.range)) is not source:
        return elements
    plain = source.value if isinstance(source, SimpleValue) else None
    if plain is not None and (isinstance(plain.type, T.ListType) or plain.type is T.STRING):
        return _copied_list(em, call, plain, hint)
    parts = source.parts if isinstance(source, SugaredTuple) else ()
    if any(isinstance(p, SimpleValue) and is_module_type(p.value.type) for p in parts):
        return source  # submodules, which are of several types
    # `list(x)` is `[element for element in x]`
    element, iterable = _temporaries(em, call, source, ["element"])
    comprehension = tree.ListComp(element[0], element[0], iterable, range=call.range)
    return emit_list_comprehension(em, comprehension, hint)


@form("dict", 0, 1, ["*"])
def emit_dict_call(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    source = em.emit_sugared(call.args[0]) if call.args else None
    if source is None or (isinstance(source, SimpleValue) and is_empty_literal(source.value)):
        keys = tuple(tree.StringLiteral(k.name.name, range=k.range) for k in call.keywords)
        values = tuple(k.value for k in call.keywords)
        return em.emit(tree.DictLiteral(keys, values, range=call.range), hint)
    if isinstance(source, SimpleValue) and isinstance(source.value.type, T.DictType):
        result = em.op("aten::dict", [source.value], range=call.range)
    else:
        # `dict(pairs)` is `{key: value for key, value in pairs}`
        (key, value), iterable = _temporaries(em, call, source, ["key", "value"])
        target = tree.TupleLiteral((key, value), range=call.range)
        comprehension = tree.DictComp(key, value, target, iterable, range=call.range)
        result = emit_dict_comprehension(em, comprehension, hint)
    for keyword in call.keywords:
        em.op("aten::_set_item", [result, em.constant(keyword.name.name, keyword.range), em.emit(keyword.value)])
    return result


def _temporaries(
    em: Emitter, call: tree.Apply, source: SugaredValue, names: Sequence[str]
) -> tuple[list[tree.Var], tree.Expr]:
    """Variables of our own, one for each of `names`, and the source as an expression."""
    made = [tree.Var(tree.Ident(em.temporary(n), range=call.range), range=call.range) for n in names]
    return made, KnownValue(source, range=call.range)


# -- tensors of a legacy class: torch.FloatTensor(...)
@form("legacy_tensor", 0, None, ["device"])
def emit_legacy_tensor(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    values = [v.in_graph(em.graph) for v in em.emit_arguments(call.args)]
    assert isinstance(special.subject, ConstantValue)
    dtype = NamedValue("dtype", em.constant(special.subject.constant, call.range), range=call.range)
    if values and all(v.type is T.INT for v in values):
        return em.op("aten::empty", [em.make_list(T.INT, values)], [dtype], call.range)
    if not values:
        return em.op("aten::tensor", [em.make_list(T.INT, [])], [dtype], call.range)
    if len(values) == 1:
        return em.op("aten::tensor", values, [dtype], call.range)
    raise WRONG_ARGUMENTS(
        "a legacy tensor class takes sizes, or one list of data: multiple positional arguments that were not all "
        "integers are not supported",
        call.range,
        hint="use torch.tensor",
    )


@form("get_default_dtype", 0, 0)
def emit_default_dtype(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    """The dtype of a tensor for which none is given."""
    empty = em.op("aten::empty", [em.make_list(T.INT, [em.number(0, call.range)])], range=call.range)
    return em.op("prim::dtype", [empty], range=call.range)


# -- fork
@form("fork", 1, None, ["*"])
def emit_fork(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return _emit_deferred(em, call, "prim::forkClosure", T.FutureType.of)


@form("awaitable", 1, None, ["*"])
def emit_awaitable(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return _emit_deferred(em, call, "prim::awaitableClosure", T.AwaitType.of)


def _emit_deferred(em: Emitter, call: tree.Apply, kind: str, result: Callable[[Type], Type]) -> Value:
    """The call as a closure that `closures.py` turns into a subgraph; its arguments are evaluated now."""
    callee = em.emit_sugared(call.args[0])
    args = em.emit_arguments(call.args[1:])
    kwargs = em.emit_keywords(call.keywords)
    closure = em.node("prim::Closure", [], [T.NONE], call.range)
    block = closure.add_block()
    with em.in_loop("none"), em.inside(block, starts_function=True) as frame:
        frame.drop(is_changeable)  # it runs later
        output = callee.call(em, call.range, args, kwargs).as_value(em, call.range)
        block.add_output(output)
    return em.node(kind, [closure.output], [result(output.type)], call.range).output


@form("wait", 1, 1)
def emit_wait(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return em.op("aten::wait", [em.emit(call.args[0])], range=call.range)


@form("awaitable_wait", 1, 1)
def emit_awaitable_wait(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return em.op("prim::awaitable_wait", [em.emit(call.args[0])], range=call.range)


@form("device", 0, 2, ["device", "type", "index"])
def emit_device(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    keywords = {k.name.name: k.value for k in call.keywords}
    given = [*call.args, *(keywords[name] for name in ("device", "type", "index") if name in keywords)]
    return em.op("aten::device", em.emit_arguments(given), range=call.range)


_range = range
"""The builtin, whose name parameters take for a SourceRange."""
