"""Slices of lists that are deleted or assigned: `del xs[1:3]`, `xs[::2] = ys`, `xs[1:] += ys`."""

from __future__ import annotations

from jitlite.base.errors.types import NO_ASSIGNMENT
from jitlite.base.source import SourceRange
from jitlite.frontend.emit import python_library as library
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.empty_literals import as_wanted
from jitlite.frontend.emit.iterable_values import SliceValue
from jitlite.frontend.emit.library_calls import call_library
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue


def assign_slice(em: Emitter, range: SourceRange, items: Value, index: SliceValue, value: Value) -> None:
    """`items[index] = value` for a list.

    Raises:
        CompileError: the value is no list of such elements, nor a tuple of some.
    """
    wanted = items.type
    given = as_wanted(em, value, wanted, range)
    if isinstance(given.type, T.TupleType):
        given = em.declared(wanted, given, range)
    if not T.is_subtype(given.type, wanted):
        raise NO_ASSIGNMENT(
            "a slice of a list is assigned the elements of a list of the same type", range,
            expected=wanted.annotation, found=given.type.annotation, hint="make a list of it: `xs[1:] = list(it)`",
        )  # fmt: skip
    _call(em, range, library.set_slice, items, index, given)


def delete_slice(em: Emitter, range: SourceRange, items: Value, index: SliceValue) -> None:
    """`del items[index]` for a list."""
    _call(em, range, library.delete_slice, items, index)


def _call(
    em: Emitter, range: SourceRange, function: library.SliceFunction, items: Value, index: SliceValue, *others: Value
) -> None:
    bounds = [em.constant(None, range) if b is None else b for b in (index.start, index.stop, index.step)]
    given = [NamedValue(None, value, range=range) for value in (items, *bounds, *others)]
    call_library(em, range, function, given, original=function)
