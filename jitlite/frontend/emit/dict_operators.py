"""Operators of sets and dicts: `a | b`, `a |= b` and the like."""

from __future__ import annotations

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.empty_literals import as_wanted
from jitlite.frontend.emit.sets import augment, operate
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.conversions import is_empty_literal


def operate_on_containers(b: Builder, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left op right` of sets or dicts; None for other values."""
    return operate(b, range, op, left, right) or merged(b, range, op, left, right)


def augment_container(b: Builder, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left op= right` of sets or dicts; None for other values."""
    return augment(b, range, op, left, right) or merged_into(b, range, op, left, right)


def merged(b: Builder, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left | right`, a new dict; None for other values."""
    if not _are_dicts(op, left, right):
        return None
    if is_empty_literal(left):
        left = as_wanted(b, left, right.type, range)
    return merged_into(b, range, op, b.op("aten::copy", [left], range=range), right)


def merged_into(b: Builder, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left |= right`: the left dict, which is changed; None for other values."""
    if not _are_dicts(op, left, right):
        return None
    b.op("aten::update", [left, as_wanted(b, right, left.type, range)], range=range)
    return left


def _are_dicts(op: str, left: Value, right: Value) -> bool:
    return op == "|" and isinstance(left.type, T.DictType) and isinstance(right.type, T.DictType)
