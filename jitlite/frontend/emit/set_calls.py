"""`set(...)` and `frozenset(...)`."""

from __future__ import annotations

from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.constant_containers import made_of
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.library_calls import emit_iterable_arguments
from jitlite.frontend.emit.sets import FROZEN, NEW, hinted, set_of
from jitlite.frontend.emit.values import SpecialForm
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type


@form("set", 0, 1)
def emit_set_call(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return _made(em, call, hint, NEW)


@form("frozenset", 0, 1)
def emit_frozenset_call(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> Value:
    return _made(em, call, hint, FROZEN)


def _made(em: Emitter, call: tree.Apply, hint: Type | None, kind: str) -> Value:
    if not call.args and hinted(hint) is None:
        return em.empty(T.SetType.of(T.ANY, frozen=kind is FROZEN), call.range)
    if not call.args:
        return set_of(em, [], hint, call.range, kind)
    (source,) = emit_iterable_arguments(em, call.args)
    return made_of(em, source.in_graph(em.graph), hint, call.range, kind)
