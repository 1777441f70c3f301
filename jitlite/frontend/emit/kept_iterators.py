"""Iterators in variables: what is left of them when they have been gone through.

`zip`, `enumerate`, `map`, `filter`, `reversed`, generator expressions and what itertools gives can be gone through once
in Python. A script computes their elements anew for each loop. So a variable that holds one may be read once on each
way through the function; a second time is refused.
"""

from __future__ import annotations

import itertools

from jitlite.base.errors.types import NOT_ITERABLE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.iterable_values import RangeValue
from jitlite.frontend.emit.known_values import LazyIterable
from jitlite.frontend.emit.read_once import KeptIterator, are_exclusive, is_repeated
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax import tree

_BUILTINS = (filter, map, zip, reversed, enumerate)


def note_iterator(em: Emitter, name: str, made_by: tree.Expr, value: SugaredValue) -> None:
    """Note that a variable was given an iterator, if it was; one by another name is the same, and has not been read."""
    same = _kept(em, made_by.name.name) if isinstance(made_by, tree.Var) else None
    if same is not None:
        same.reads.pop()
        em.frame.iterators[name] = same
    elif _is_iterator(em, made_by, value):
        em.frame.iterators[name] = KeptIterator(em.frame.block)


def _is_iterator(em: Emitter, made_by: tree.Expr, value: SugaredValue) -> bool:
    if isinstance(value, LazyIterable):
        return type(value) is not RangeValue
    if isinstance(made_by, tree.ListComp):
        return made_by.is_generator
    if not isinstance(made_by, tree.Apply):
        return False
    callee = _python_object(em, made_by.callee)
    return callee in _BUILTINS or getattr(callee, "__module__", None) == itertools.__name__ or (
        getattr(callee, "__self__", None) is itertools.chain
    )  # fmt: skip


def _python_object(em: Emitter, expr: tree.Expr) -> object:
    """What a dotted name means in Python; None for variables and other expressions."""
    if isinstance(expr, tree.Select):
        return getattr(_python_object(em, expr.value), expr.name.name, None)
    if not isinstance(expr, tree.Var) or em.frame.is_defined(expr.name.name):
        return None
    try:
        return em.resolver.lookup(expr.name.name)
    except LookupError:
        return None


def _kept(em: Emitter, name: str) -> KeptIterator | None:
    return next((frame.iterators[name] for frame in em.frame.chain() if name in frame.iterators), None)


def check_read(em: Emitter, name: str, range: SourceRange) -> None:
    """Refuse to read a variable whose iterator may have been gone through before.

    Raises:
        CompileError: it has been read before on this way, or is read in a loop that began after it was assigned.
    """
    kept = _kept(em, name)
    if kept is None:
        return
    block = em.frame.block
    before = [where for at, where in kept.reads if at not in em.leaving and not are_exclusive(at, block)]
    kept.reads.append((block, range))
    again = before[0] if before else range if is_repeated(block, kept.home) else None
    if again is not None:
        told = "in a loop" if again is range else f"in line {again.line} already"
        raise NOT_ITERABLE(
            f"the iterator {name} is gone through {told}: in Python nothing is left of it then", range,
            hint=f"keep a list: {name} = list(...)",
        )  # fmt: skip
