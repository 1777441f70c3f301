"""Rules for what is not a tensor: sizes and other facts about tensors, arithmetic on them, items and lengths of lists.

A rule is given the operator and what is known about its arguments, and gives what is known about its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitlite.ir.int_codes import holds_object
from jitlite.ir.ops import Op, fn_with_objects
from jitlite.ir.traits import Trait
from jitlite.operators.shape_call import Unclear, dims_of
from jitlite.operators.tensor_lattice import UNKNOWN, Fact, Symbol, Symbols, TensorFact, is_listed

Rule = Callable[[Op, Sequence[Fact], Symbols], Fact]

_LARGEST = 2**62
"""Numbers beyond this are not computed with."""

_LONGEST = 256
"""Of longer lists, the elements are not told apart."""


def _size(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    try:
        dims = dims_of(facts[0])
    except Unclear:
        return UNKNOWN
    if len(facts) == 1:
        return dims
    index = facts[1]
    return dims[index] if type(index) is int and -len(dims) <= index < len(dims) else UNKNOWN


def _of_tensor(read: Callable[[TensorFact], Any]) -> Rule:
    def rule(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
        found = read(facts[0]) if facts and isinstance(facts[0], TensorFact) else None
        return UNKNOWN if found is None else found

    return rule


def _length(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    held = facts[0]
    if isinstance(held, TensorFact):
        return held.dims[0] if held.dims else UNKNOWN
    if is_listed(held):
        return len(held)
    return len(held) if isinstance(held, str) else UNKNOWN


def _item(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    held, index = facts
    if is_listed(held) and type(index) is int and -len(held) <= index < len(held):
        return held[index]
    return UNKNOWN


def _slice(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    held, bounds = facts[0], facts[1:]
    if not is_listed(held) or not all(b is None or type(b) is int for b in bounds) or 0 in bounds[2:]:
        return UNKNOWN
    return held[slice(*bounds)]


def _numel(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    try:
        dims = dims_of(facts[0])
    except Unclear:
        return UNKNOWN
    return math.prod(d for d in dims if type(d) is int) if all(type(d) is int for d in dims) else UNKNOWN


def _are_symbolic(facts: Sequence[Fact]) -> bool:
    """Are these ints, of which one is a symbol?"""
    return all(isinstance(f, Symbol) or type(f) is int for f in facts) and any(isinstance(f, Symbol) for f in facts)


def _arithmetic(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    """Of numbers; the sum of two lists is a list."""
    if all(map(is_listed, facts)):
        joined = sum(facts, ()) if op.name == "aten::add" else ()
        return joined if 0 < len(joined) <= _LONGEST else _computed(op, facts)
    if len(facts) == 2 and op.has(Trait.SYMBOLIC) and _are_symbolic(facts):
        try:
            return symbols.compute(op.name.removeprefix("aten::"), *facts)
        except ZeroDivisionError:
            return UNKNOWN
    return _computed(op, facts)


def _compute(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    return _computed(op, facts)


def _computed(op: Op, facts: Sequence[Fact]) -> Fact:
    """What the operator gives for values that are all known."""
    if op.fn is None or not all(map(_is_plain, facts)):
        return UNKNOWN
    args = [list(f) if isinstance(f, tuple) else f for f in facts]
    fn = fn_with_objects(op) if any(map(holds_object, args)) else op.fn
    assert fn is not None
    try:
        result = fn(*args)
    except Exception:  # the node raises: there is no result
        return UNKNOWN
    return result if _is_plain(result) else UNKNOWN


def _is_plain(fact: Fact) -> bool:
    if is_listed(fact):
        return len(fact) <= _LONGEST and all(map(_is_plain, fact))
    if isinstance(fact, bool | torch.dtype | torch.device | str) or fact is None:
        return True
    return isinstance(fact, int | float) and (fact != fact or abs(fact) < _LARGEST)


def _equality(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Fact:
    """Of numbers that are not known, one is equal to itself."""
    a, b = facts
    if isinstance(a, Symbol) and a == b:
        return op.name == "aten::eq"
    return _computed(op, facts)


NUMBERS: dict[str, Rule] = {
    "aten::size": _size,
    "aten::dim": _of_tensor(lambda t: None if t.dims is None else len(t.dims)),
    "aten::numel": _numel,
    "aten::len": _length,
    "aten::__getitem__": _item,
    "aten::slice": _slice,
    "prim::dtype": _of_tensor(lambda t: t.dtype),
    "prim::device": _of_tensor(lambda t: t.device if t.device is not None and _is_one(t.device) else None),
    "prim::is_cuda": _of_tensor(lambda t: None if t.device is None else t.device.type == "cuda"),
    "aten::is_floating_point": _of_tensor(lambda t: None if t.dtype is None else t.dtype.is_floating_point),
    "aten::is_complex": _of_tensor(lambda t: None if t.dtype is None else t.dtype.is_complex),
    **{f"aten::{name}": _arithmetic for name in ("add", "sub", "mul", "floordiv")},
    **{f"aten::{name}": _equality for name in ("eq", "ne")},
    **{
        f"aten::{name}": _compute
        for name in (
            "remainder", "div", "neg", "lt", "le", "gt", "ge", "__and__", "__or__", "__not__", "__is__", "__isnot__",
            "Int", "Float", "Bool", "abs", "floor", "ceil", "__contains__", "divmod",
        )
    },
    **{f"prim::{name}": _compute for name in ("min", "max", "abs")},
}  # fmt: skip
"""By kind."""


def _is_one(device: torch.device) -> bool:
    """Is it one device, and not any of its kind?"""
    return device.type == "cpu" or device.index is not None
