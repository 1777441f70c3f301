"""Types as `prim::isinstance` asks for them when running."""

from __future__ import annotations

from jitlite.ir import types as T
from jitlite.ir.types import Type


def as_at_run_time(wanted: Type, static: Type) -> Type:
    """What to look for where the value has the static type `static` and isinstance asks for `wanted`.

    A value typed float may be an int at run time (and a complex may be either). Where the static type leaves no
    doubt that such a value is meant, the int has to count as the float.
    """
    members = T.members_of(static)
    if wanted not in members or any(m is not wanted and _collapsed(m) is _collapsed(wanted) for m in members):
        return wanted
    return _widened(wanted)


def _widened(t: Type) -> Type:
    if t is T.FLOAT:
        return T.UnionType.of([T.INT, T.FLOAT])
    if t is T.COMPLEX:
        return T.NUMBER
    parts = t.contained
    return t.with_contained([_widened(p) for p in parts]) if parts else t


def _collapsed(t: Type) -> Type:
    if t in (T.INT, T.FLOAT, T.COMPLEX):
        return T.NUMBER
    parts = t.contained
    return t.with_contained([_collapsed(p) for p in parts]) if parts else t
