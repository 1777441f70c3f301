"""Ranges that are indexed, sliced, compared and chosen, as Python's are. A range is no value of a graph."""

from __future__ import annotations

from jitlite.base.errors.types import NO_INDEX
from jitlite.base.source import SourceRange
from jitlite.frontend.emit import python_library as library
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.iterable_values import RangeValue, SliceValue
from jitlite.frontend.emit.library_calls import call_library
from jitlite.frontend.emit.values import SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue


def subscript_range(em: Emitter, at: SourceRange, base: RangeValue, index: Value | SliceValue) -> SugaredValue:
    """`range(...)[index]`: an element, or the range of a slice."""
    if isinstance(index, SliceValue):
        bounds = [em.constant(None, at) if v is None else v for v in (index.start, index.stop, index.step)]
        found = call_library(em, at, library.range_slice, _named(at, *base.bounds, *bounds))
        return RangeValue(em, at, em.unpack_tuple(found.as_value(em, at)))
    index = em.convert(T.INT, em.enum_value(index, at), at)
    if index.type is not T.INT:
        raise NO_INDEX("the index of a range must be an integer", at, found=index.type.annotation)
    return call_library(em, at, library.range_item, _named(at, *base.bounds, index))


def _named(at: SourceRange, *values: Value) -> list[NamedValue]:
    return [NamedValue(None, value, range=at) for value in values]
