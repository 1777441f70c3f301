"""Arithmetic on sizes that is known, or simpler than it looks, while a kernel is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from jitlite.kernels.loop_ir import Operand, Scalar, SizeArithmetic

FOLD: dict[str, Callable[..., Operand]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b,
    "min": min, "max": max, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a,
    "select": lambda c, a, b: a if c else b,
}  # fmt: skip
CONDITIONS = frozenset({"eq", "ne", "lt", "le", "and", "or", "not"})
COMMUTES = frozenset({"add", "mul", "min", "max", "eq", "ne", "and", "or"})


def simplified(op: str, given: Sequence[Operand]) -> Operand | None:
    """The value of an operation that one known operand decides, or leaves the other one as it is."""
    if op == "select":
        return None if isinstance(given[0], Scalar) else given[1] if given[0] else given[2]
    if len(given) < 2:
        return None
    a, b = given
    if op in ("eq", "le"):
        return True if a is b else None
    if op in ("and", "or"):
        return _logic(op, a, b)
    return _arithmetic(op, a, b, *(None if isinstance(o, Scalar) else o for o in given))


_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1}


def _arithmetic(op: str, a: Operand, b: Operand, left: float | None, right: float | None) -> Operand | None:
    neutral = _NEUTRAL.get(op)
    if op == "mul" and 0 in (left, right):
        return 0
    if neutral is not None and right == neutral:
        return a
    return b if op in ("add", "mul") and left == neutral else None


def _logic(op: str, a: Operand, b: Operand) -> Operand | None:
    for x, y in ((a, b), (b, a)):
        if not isinstance(x, Scalar):
            return (y if x else False) if op == "and" else (True if x else y)
    return None


Definitions = Mapping[Scalar, SizeArithmetic]
"""The operation that computes a scalar."""


def opposite(condition: Operand, definitions: Definitions) -> Operand | None:
    """What a condition is not of, if it is that."""
    made = definitions.get(condition) if isinstance(condition, Scalar) else None
    return made.operands[0] if made is not None and made.op == "not" else None


def equalities(condition: Operand, definitions: Definitions) -> Iterator[tuple[Operand, Operand]]:
    """Which operands are equal where a condition holds."""
    made = definitions.get(condition) if isinstance(condition, Scalar) else None
    if made is not None and made.op == "and":
        for part in made.operands:
            yield from equalities(part, definitions)
    elif made is not None and made.op == "eq":
        a, b = made.operands
        yield a, b
