"""Faults to plant in passes: each makes one of them wrong in a way that a good test suite notices.

`FAULTS` and `RARE_FAULTS` are pairs of a name and a function that gives a context manager, within which the fault is in
place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Effect
from jitlite.passes import constant_propagation, cse, dce, folding, lower_simple_tuples
from jitlite.passes.alias import AliasDb
from jitlite.passes.effects import effect_of, raises_itself
from jitlite.passes.lower_simple_tuples import elements_read
from jitlite.passes.rules import peephole as rules
from jitlite.passes.value_keys import value_key


def _nobody_writes() -> Any:
    return patch.object(AliasDb, "has_writers", lambda self, values: False)


def _objects_have_no_identity() -> Any:
    def may_merge(self: AliasDb, kept: Sequence[Value], removed: Sequence[Value], repeated: bool = False) -> bool:
        return not self.has_writers(kept) and not self.has_writers(removed)

    return patch.object(AliasDb, "may_merge", may_merge)


def _containers_hold_nothing() -> Any:
    return patch.object(AliasDb, "_escape", lambda self, values: None)


def _views_are_copies() -> Any:
    flow = AliasDb._flow

    def only_control(self: AliasDb, value: Value, sources: Any) -> None:
        if value.node.blocks or value.node.kind.startswith("prim::"):
            flow(self, value, sources)

    return patch.object(AliasDb, "_flow", only_control)


def _visible_writes_are_dead() -> Any:
    return patch.object(AliasDb, "writes_visibly", lambda self, node: False)


def _nothing_raises() -> Any:
    return patch.object(dce, "raises_itself", lambda node: False)


def _bodies_never_raise() -> Any:
    return patch.object(constant_propagation, "may_raise", lambda node: False)


def _forgetful(node: Node) -> Effect:
    found = effect_of(node)
    return Effect.PURE if found is Effect.RANDOM else found


def _draws_are_dead() -> Any:
    def raises(node: Node) -> bool:
        return raises_itself(node) and effect_of(node) is not Effect.RANDOM

    return patch.multiple(dce, effect_of=_forgetful, raises_itself=raises)


def _draws_are_equal() -> Any:
    return patch.object(cse, "effect_of", _forgetful)


def _every_list_is_a_constant() -> Any:
    return patch.object(constant_propagation._Propagator, "may_fold", lambda self, node: True)


def _the_other_branch() -> Any:
    def taken(node: Node, block: Any) -> None:
        other = node.blocks[1] if block is node.blocks[0] else node.blocks[0]
        _put_in_place(node, other)

    _put_in_place = constant_propagation._put_in_place
    return patch.object(constant_propagation, "_put_in_place", taken)


def _signs_of_zero_are_equal() -> Any:
    def unsigned(value: object) -> object:
        return value_key(0.0 if value == 0.0 and type(value) is float else value)

    return patch.object(constant_propagation, "value_key", unsigned)


def _nan_equals_itself() -> Any:
    return patch.object(rules, "_REFLEXIVE", rules._REFLEXIVE | {T.FLOAT})


def _lists_are_never_written() -> Any:
    return patch.object(AliasDb, "is_written", lambda self, value: False)


def _tuples_are_swapped() -> Any:
    def swapped(graph: Graph, node: Node) -> list[Value] | None:
        found = elements_read(graph, node)
        return found and found[::-1]

    return patch.object(lower_simple_tuples, "elements_read", swapped)


def _results_are_rounded() -> Any:
    run = folding._run

    def rounded(node: Node, args: list[Any]) -> Sequence[Any] | None:
        found = run(node, args)
        return found and [round(v) * 1.0 if type(v) is float and abs(v) < 1e9 else v for v in found]

    return patch.object(folding, "_run", rounded)


_Fault = tuple[str, Callable[[], AbstractContextManager[Any]]]

FAULTS: list[_Fault] = [
    ("nobody writes", _nobody_writes),
    ("containers hold nothing", _containers_hold_nothing),
    ("writes that others see are dead", _visible_writes_are_dead),
    ("what may raise is dead", _nothing_raises),
    ("every list is a constant", _every_list_is_a_constant),
    ("the branch that is not taken", _the_other_branch),
    ("lists are never written", _lists_are_never_written),
    ("folded floats are rounded", _results_are_rounded),
    ("the body of a try never raises", _bodies_never_raise),
]
"""Faults that a few hundred random programs find."""

RARE_FAULTS: list[_Fault] = [
    ("objects have no identity", _objects_have_no_identity),
    ("views are copies", _views_are_copies),
    ("random draws are dead", _draws_are_dead),
    ("elements of a tuple are swapped", _tuples_are_swapped),
    ("random draws are equal", _draws_are_equal),
    ("0.0 is -0.0", _signs_of_zero_are_equal),
    ("NaN equals itself", _nan_equals_itself),
]
"""Faults that need a program made for them, as the golden files have."""
