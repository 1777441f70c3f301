"""A function that a decorator has put in place of another, as an entry of a program: nothing in the program calls it.

It is called with the parameters of the function that it wraps, as `inspect.signature` says. One that takes `*args` gets
them from a definition that hands them on:

    @doubled                                       def scale(x: Tensor, *, k: int = 1):
    def scale(x: Tensor, *, k: int = 1): ...   =>      return @decorated(x, k=k)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from types import FunctionType

from jitlite.base.errors.statements import VARIABLE_ARGUMENTS
from jitlite.base.source import SourceRange
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.decorators import replaces, without_marks
from jitlite.frontend.syntax.function_source import FunctionSource
from jitlite.frontend.syntax.nested_scopes import first_assignment
from jitlite.frontend.syntax.python_ast import function_tree

DECORATED = "@decorated"
"""The name of what stands in place of a function, in the definition that hands arguments on to it."""


def signed_tree(fn: object, *, is_method: bool = False) -> FunctionSource:
    """The tree of a Python function; of one that stands in place of another, with the other's parameters.

    Raises:
        CompileError: there is no source, or what takes the place takes other arguments according to how it is called.
        NotSupportedError: it uses Python that TorchScript does not have.
    """
    inner = without_marks(fn)
    if replaces(inner) and not isinstance(inner, FunctionType | functools.partial):
        wrapped = signed_tree(vars(inner)["__wrapped__"], is_method=is_method)
        called = inspect.getattr_static(type(inner), "__call__")
        _refuse_questions(function_tree(called, is_method=True).definition, wrapped)
        return _handing_on(fn, wrapped)
    source = function_tree(fn, is_method=is_method)
    if not replaces(inner):
        return source
    wrapped = signed_tree(source.function.__dict__["__wrapped__"], is_method=is_method)
    if any(p.stars for p in source.definition.decl.params):
        _refuse_questions(source.definition, wrapped)
        return _handing_on(fn, wrapped)
    source = _with_types(source, wrapped.definition.decl, is_method)
    return _handing_on(fn, source) if looks_on(source.function) else source


def _with_types(source: FunctionSource, decl: t.Decl, is_method: bool) -> FunctionSource:
    """The function with the types of the parameters of the same names, where it has none itself.

    The first parameter of a method is its object, whatever the name of that is in either.
    """
    own = source.definition.decl.params
    objects = own[:1] if is_method else ()
    types = {p.ident.name: p.type for p in decl.params[len(objects) :]}
    others = (t.replaced(p, type=types.get(p.ident.name)) if p.type is None else p for p in own[len(objects) :])
    params = (*objects, *others)
    definition = t.replaced(source.definition, decl=t.replaced(source.definition.decl, params=params))
    return FunctionSource(
        definition, source.source, source.function, source.parameters, source.ignored, source.contexts
    )


def _handing_on(fn: object, wrapped: FunctionSource) -> FunctionSource:
    """The parameters of what is wrapped, and a call with them of what stands in its place."""
    place = wrapped.definition.name.range
    params = wrapped.definition.decl.params
    positional, named = _all_arguments(params, place)
    callee = t.Var(t.Ident(DECORATED, range=place), range=place)
    call = t.Apply(callee, positional, named, range=place)
    decl = t.Decl(params, None, range=wrapped.definition.decl.range)
    body = (t.Return(call, range=place),)
    definition = t.Def(wrapped.definition.name, decl, body, range=wrapped.definition.range)
    return FunctionSource(
        definition, wrapped.source, wrapped.function, wrapped.parameters, wrapped.ignored, {DECORATED: fn}
    )


def _all_arguments(
    params: Sequence[t.Param], place: SourceRange
) -> tuple[tuple[t.Expr, ...], tuple[t.KeywordArgument, ...]]:
    """The arguments of a call that hands all parameters on, each as it is taken."""

    def name(param: t.Param) -> t.Ident:
        return t.Ident(param.ident.name, range=place)

    def value(param: t.Param) -> t.Expr:
        found = t.Var(name(param), range=place)
        kind = {0: None, 1: t.Starred, 2: t.KeywordStarred}[param.stars]
        return found if kind is None else kind(found, range=place)

    only_named = [p for p in params if p.kwarg_only and not p.stars]
    positional = tuple(value(p) for p in params if p not in only_named)
    return positional, tuple(t.KeywordArgument(name(p), value(p), range=place) for p in only_named)


def _refuse_questions(wrapper: t.Def, wrapped: FunctionSource) -> None:
    """See that what stands in place of a function does the same for an argument that is given and for its default."""
    if not any(p.default is not p.empty for p in wrapped.parameters.values()):
        return
    for param in wrapper.decl.params:
        if param.stars and not _is_only_handed_on(wrapper, param):
            raise VARIABLE_ARGUMENTS(
                f"what stands in place of '{wrapped.definition.name.name}' looks at '{param.ident.name}', in which an "
                "argument that is left to its default is missing",
                param.range,
                hint="compile a function that calls it with the arguments that are meant",
            )


def _is_only_handed_on(wrapper: t.Def, param: t.Param) -> bool:
    name = param.ident.name
    kind = t.Starred if param.stars == 1 else t.KeywordStarred
    whole = _trees(wrapper)
    handed_on = [tree for tree in whole if isinstance(tree, kind) and _is_name(tree.value, name)]
    return len(handed_on) == len(_uses(whole, name))


def _is_name(tree: t.Tree, name: str) -> bool:
    return isinstance(tree, t.Var) and tree.name.name == name


# -- decorators that look on
def looks_on(function: FunctionType) -> bool:
    """Does a function that wraps another give what the other gives for the same arguments, whatever else it does?"""
    wrapper = function_tree(function).definition
    whole = _trees(wrapper)
    calls = [tree for tree in whole if isinstance(tree, t.Apply) and _denotes_wrapped(function, tree.callee)]
    if len(calls) != 1 or any(map(_acts, whole)) or not _hands_all_on(wrapper, calls[0]):
        return False
    returned = [tree for tree in whole if isinstance(tree, t.Return)]
    return returned == [wrapper.body[-1]] and _is_result(wrapper, calls[0], returned[0].value)


def _acts(tree: t.Tree) -> bool:
    """Would a caller see that it is left out?"""
    return isinstance(tree, _ACTS) or _is_name(tree, "print") or _changes_object(tree)


def _hands_all_on(wrapper: t.Def, call: t.Apply) -> bool:
    """Are the arguments of a call the parameters, which are used for nothing else?"""
    params, whole = wrapper.decl.params, _trees(wrapper)
    is_used_once = all(
        len(_uses(whole, p.ident.name)) == 1 and not first_assignment(wrapper, p.ident.name) for p in params
    )
    return is_used_once and (call.args, call.keywords) == _all_arguments(params, wrapper.range)


_ACTS = (t.Raise, t.RaiseFrom, t.Assert, t.TryStmt, t.Global)


def _changes_object(tree: t.Tree) -> bool:
    targets = tree.targets if isinstance(tree, t.Assign | t.Delete) else ()
    changed = tree.target if isinstance(tree, t.AugAssign) else None
    return any(not isinstance(target, t.Var) for target in (*targets, *([] if changed is None else [changed])))


def _trees(wrapper: t.Def) -> list[t.Tree]:
    return [tree for statement in wrapper.body for tree in statement.walk()]


def _uses(whole: Iterable[t.Tree], name: str) -> list[t.Tree]:
    return [tree for tree in whole if _is_name(tree, name)]


def _is_result(wrapper: t.Def, call: t.Apply, found: t.Expr) -> bool:
    """Is an expression the call, or the variable that has been given its result and is used nowhere else?"""
    given = [s.targets for s in wrapper.body if isinstance(s, t.Assign) and s.value is call and len(s.targets) == 1]
    if not given or not isinstance(found, t.Var):
        return found is call
    return given[0][0] == found and len(_uses(_trees(wrapper), found.name.name)) == 2


def _denotes_wrapped(function: FunctionType, callee: t.Expr) -> bool:
    known = inspect.getclosurevars(function).nonlocals
    found = known.get(callee.name.name) if isinstance(callee, t.Var) else None
    return found is not None and without_marks(found) is without_marks(function.__dict__["__wrapped__"])
