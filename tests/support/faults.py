"""Faults to plant in passes: each makes one of them wrong in a way that a good test suite notices.

`FAULTS` and `RARE_FAULTS` are pairs of a name and a function that gives a context manager, within which the fault is in
place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from jitlite.analysis import folding
from jitlite.analysis.alias import AliasDb
from jitlite.analysis.effects import effect_of, raises_itself
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.ops import Effect
from jitlite.ir.value_keys import attributes_key, value_key
from jitlite.passes import constant_pooling, constant_propagation, cse, dce, loop_unrolling, lower_simple_tuples
from jitlite.passes.lower_simple_tuples import elements_read
from jitlite.passes.rules import peephole as rules


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


@contextmanager
def _visible_writes_are_dead() -> Iterator[None]:
    with (
        patch.object(AliasDb, "writes_visibly", lambda self, node: False),
        patch.object(dce, "_writes_what_came_in", lambda graph, node, op: False),
    ):
        yield


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


def _arguments_are_swapped() -> Any:
    inline_call = Graph.inline_call

    def swapped(self: Graph, callee: Graph, arguments: Sequence[Value], visit: Any = None) -> list[Value]:
        same = len({v.type for v in arguments}) == 1
        return inline_call(self, callee, arguments[::-1] if same else arguments, visit)

    return patch.object(Graph, "inline_call", swapped)


def _pooled_zeros_have_no_sign() -> Any:
    def unsigned(node: Node) -> object:
        value = node.attributes.get("value")
        return (0.0,) if type(value) is float and value == 0.0 else attributes_key(node)

    return patch.object(constant_pooling, "attributes_key", unsigned)


def _modes_do_not_matter() -> Any:
    return patch.object(cse, "changes_modes", lambda node: False)


def _loops_run_once() -> Any:
    return patch.object(cse, "_is_repeated", lambda node, first: False)


def _attributes_do_not_count() -> Any:
    return patch.object(cse, "attributes_key", lambda node: ())


def _writes_that_are_read_are_dead() -> Any:
    return patch.object(dce._Liveness, "_keep_writers", lambda self, writers: False)


def _errors_are_zero() -> Any:
    run = folding._run

    def forgiving(node: Node, args: list[Any]) -> Sequence[Any] | None:
        found = run(node, args)
        return [0] if found is None and len(node.outputs) == 1 and node.output.type is T.INT else found

    return patch.object(folding, "_run", forgiving)


def _unrolled_values_are_swapped() -> Any:
    insert_copy = loop_unrolling.insert_copy

    def swapped(graph: Graph, body: Any, values: Sequence[Value]) -> list[Value]:
        condition, *carried = insert_copy(graph, body, values)
        return [condition, *(carried[::-1] if len({v.type for v in carried}) == 1 else carried)]

    return patch.object(loop_unrolling, "insert_copy", swapped)


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
    ("arguments of an inlined call are swapped", _arguments_are_swapped),
    ("pooled zeros have no sign", _pooled_zeros_have_no_sign),
    ("modes do not matter", _modes_do_not_matter),
    ("what a loop makes is made once", _loops_run_once),
    ("attributes do not count", _attributes_do_not_count),
    ("writes that are read are dead", _writes_that_are_read_are_dead),
    ("what raises is 0", _errors_are_zero),
    ("values of an unrolled loop are swapped", _unrolled_values_are_swapped),
]
"""Faults that need a program made for them, as the golden files have."""
