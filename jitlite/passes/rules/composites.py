"""Operators that are written as several others where that costs nothing: in machine code.

Run one by one, the parts would take longer than the operator. In a kernel they are loops, and what has a gradient for
each part has one for the whole. `declare_parts` says what an operator is made of, in the way formulas are written:
`f.self` and so on are its arguments. `parts_*.py` beside this file have them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.passes.rules.formula import MISSING, Formula, Sym, always, arguments_of, constants

Write = Callable[[Formula], Sequence[Sym]]
"""Writes the parts; gives what stands for the results."""


class Parts(Record):
    """What an operator is made of.

    Attributes:
        write: inserts the parts.
        when: whether they do what the operator does, for a node of which dtypes and ranks are known.
    """

    write: Write
    when: Callable[[Node], bool]


_parts: dict[str, Parts] = {}


def declare_parts(kind: str, write: Write, when: Callable[[Node], bool] = always) -> None:
    """Declare what an operator, by name, is made of."""
    key = f"aten::{kind}"
    if key in _parts:
        raise ValueError(f"the parts of {key} are declared twice")
    _parts[key] = Parts(write, when)


def composite_kinds() -> Collection[str]:
    """The operators that have parts."""
    return _parts.keys()


def parts_of(node: Node) -> Write | None:
    """What writes the parts of a node, if there are any for its arguments."""
    found = _parts.get(node.kind)
    return found.write if found is not None and found.when(node) else None


# -- conditions


def rank_of(t: T.Type) -> int:
    """How many dimensions a tensor has; -1 where that is not known."""
    return len(t.sizes) if isinstance(t, T.TensorType) and t.sizes is not None else -1


def rank(f: Formula, name: str) -> int:
    """How many dimensions an argument has, which is known."""
    return rank_of(f.arguments[name].type)


def known(*tensors: str, alike: bool = True) -> Callable[[Node], bool]:
    """The condition that these arguments are tensors of known ranks, of one real dtype if they are to be alike, or None
    where the first is none of them."""

    def hold(node: Node) -> bool:
        found = dict(arguments_of(node))
        types = [found[name].type for name in tensors if found[name].type is not T.NONE]
        if found[tensors[0]].type is T.NONE or not all(isinstance(t, T.TensorType) for t in types):
            return False
        if any(t.sizes is None or t.dtype is None for t in types if isinstance(t, T.TensorType)):
            return False
        dtypes = {t.dtype for t in types if isinstance(t, T.TensorType)}
        return not alike or (len(dtypes) == 1 and all(d is not None and d.is_floating_point for d in dtypes))

    return hold


def both(*conditions: Callable[[Node], bool]) -> Callable[[Node], bool]:
    """The condition that all of these hold."""
    return lambda node: all(condition(node) for condition in conditions)


def said(**values: object) -> Callable[[Node], bool]:
    """The condition that arguments are constants of these values."""

    def hold(node: Node) -> bool:
        found = dict(arguments_of(node))
        return all(
            constants(name)(node) and found[name].node.attributes.get("value") == v for name, v in values.items()
        )

    return hold


def number(node: Node, name: str) -> object:
    """The value of an argument that is a constant, else `MISSING`."""
    return dict(arguments_of(node))[name].node.attributes.get("value", MISSING)
