"""Operators on numbers, texts and lists whose results can be far larger than what they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.ir.formatting import check_percent, fill_fields, pieces_of


def result_size(operator: str, arguments: Sequence[object]) -> int:
    """About how many bytes the result of a call has, where that can be far more than its arguments have; else 0.

    Args:
        operator: its name, as in `aten::mul`.
    """
    size_of = _SIZES.get(operator)
    if size_of is None:
        return 0
    try:
        return max(size_of(*arguments), 0)
    except (TypeError, ValueError, AttributeError, OverflowError):  # then the operator raises, too
        return 0


def _product(a: object, b: object, *rest: object) -> int:
    """Of a text or list and a number."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, str | list) and isinstance(other, int):
            return len(one) * other * (8 if isinstance(one, list) else 1)
    return 0


def _power(a: object, b: object, *rest: object) -> int:
    """Of ints, which takes far longer than it is long."""
    bits: int = a.bit_length() * b if isinstance(a, int) and isinstance(b, int) else 0
    return bits // 8 * max(bits // 2**20, 1)


def _width(text: object, width: int, *rest: object) -> int:
    return 4 * width


def _replaced(text: str, old: str, new: str, most: int = -1) -> int:
    count = text.count(old)
    return 4 * (min(count, most) if most >= 0 else count) * len(new)


def _formatted(text: str, *values: object) -> int:
    """Each field may show the longest value."""
    fields = sum(piece[1] is not None for piece in pieces_of(text))
    return 4 * (fields * _longest(values) + fill_fields(text, values, 0, False)[1])


def _percent(text: str, *values: object) -> int:
    return 4 * (text.count("%") * _longest(values) + check_percent(text, list(values)))


def _longest(values: Sequence[object]) -> int:
    return max((len(v) for v in values if isinstance(v, str | list | tuple | dict)), default=0)


_SIZES: dict[str, Callable[..., int]] = {
    "aten::mul": _product,
    "aten::mul_": _product,
    "aten::pow": _power,
    "prim::pow": _power,
    "aten::__lshift__": lambda a, b, *_: b // 8,
    "aten::factorial": lambda n, *_: n * n,
    "aten::ldexp": lambda a, b, *_: 0,
    "prim::rangelist": lambda n, *_: 40 * n,
    "aten::ljust": _width,
    "aten::rjust": _width,
    "aten::center": _width,
    "aten::zfill": _width,
    "aten::expandtabs": lambda text, size=8, *_: 4 * text.count("\t") * size,
    "aten::replace": _replaced,
    "aten::join": lambda text, values: 4 * (len(text) * len(values) + sum(map(len, values))),
    "aten::format": _formatted,
    "aten::percentFormat": _percent,
}
"""The bytes of a result by the name of the operator."""
