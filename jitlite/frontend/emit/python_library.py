"""Functions of Python's library, in the Python that is compiled: what scripts call in place of those in C.

`library_of` tells which function stands for which. Each means what Python's does; a parameter whose type no annotation
tells has the type that the call gives (`open_calls.py`).
"""

# mypy: disable-error-code="operator, return-value, assignment, no-any-return, call-arg, arg-type, attr-defined, misc"
# Python never runs these functions, and types of calls are no types of `typing`.

from __future__ import annotations

import functools
import itertools
import math
import operator
import types
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from jitlite.frontend.emit import iterable_library as iterables

T = TypeVar("T")
K = TypeVar("K")


_OF_ITERTOOLS: tuple[types.FunctionType, ...] = (
    iterables.accumulate, iterables.chain, iterables.product, iterables.starmap, iterables.combinations,
    iterables.combinations_with_replacement, iterables.permutations, iterables.pairwise, iterables.islice,
    iterables.groupby, iterables.zip_longest, iterables.takewhile, iterables.dropwhile, iterables.filterfalse,
    iterables.compress, iterables.repeat,
)  # fmt: skip


@functools.cache
def _table() -> dict[Callable[..., object], Callable[..., object]]:
    return {
        **{getattr(itertools, f.__name__): f for f in _OF_ITERTOOLS},
        itertools.chain.from_iterable: iterables.chain_from_iterable, functools.reduce: iterables.reduce,
        operator.getitem: iterables.getitem, operator.setitem: iterables.setitem, operator.delitem: iterables.delitem,
        operator.concat: iterables.concat, operator.countOf: iterables.count_of, operator.indexOf: iterables.index_of,
        operator.index: iterables.index, operator.pos: iterables.positive, operator.truth: iterables.truth,
        operator.is_: iterables.is_same, operator.is_not: iterables.is_another,
        math.prod: prod, math.comb: comb, math.perm: perm, math.isqrt: isqrt,
        math.lcm: lcm, math.isclose: isclose, math.trunc: trunc,
        str.removeprefix: removeprefix, str.removesuffix: removesuffix, str.isascii: isascii,
        int.bit_length: bit_length, int.bit_count: bit_count, float.is_integer: is_integer,
    }  # fmt: skip


def library_of(found: object) -> Callable[..., object] | None:
    """The function that is compiled in place of one of Python's; None for others."""
    try:
        return _table().get(found) if callable(found) else None
    except TypeError:  # not hashable
        return None


def _complaint(function: Callable[[list[int]], int]) -> str:
    """What Python says of the largest or smallest of nothing."""
    try:
        return str(function([]))
    except ValueError as error:
        return str(error)


NO_LARGEST, NO_SMALLEST = _complaint(max), _complaint(min)


# -- math
def prod(iterable: Iterable[T], /, *, start: T = 1) -> T:
    """`math.prod`."""
    items = list(iterable)
    if isinstance(items, list[float]):
        product: float = start
        for item in items:
            product = product * item
        return product
    result = start
    for item in items:
        result = result * item
    return result


def perm(n: int, k: int | None = None) -> int:
    """`math.perm`."""
    if k is None:
        return math.factorial(n)
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    result = 1
    if k > n:
        return 0
    for factor in range(n - k + 1, n + 1):
        result *= factor
    return result


def comb(n: int, k: int, /) -> int:
    """`math.comb`."""
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    if k > n:
        return 0
    result = 1
    for factor in range(min(k, n - k)):
        result = result * (n - factor) // (factor + 1)
    return result


def isqrt(n: int, /) -> int:
    """`math.isqrt`."""
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    if n == 0:
        return 0
    root, better = n, (n + 1) // 2
    while better < root:
        root, better = better, (better + n // better) // 2
    return root


def lcm(*integers: int) -> int:
    """`math.lcm`."""
    result = 1
    for n in integers:
        if n == 0:
            return 0
        result = result // math.gcd(result, n) * abs(n)
    return result


def isclose(a: float, b: float, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> bool:
    """`math.isclose`."""
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = math.fabs(b - a)
    return difference <= math.fabs(rel_tol * b) or difference <= math.fabs(rel_tol * a) or difference <= abs_tol


def power_modulo(base: int, exp: int, mod: int) -> int:
    """`pow(base, exp, mod)` for an exponent that is not negative, else of the inverse of the base."""
    if mod == 0:
        raise ValueError("pow() 3rd argument cannot be 0")
    factor, rest = base % mod, exp
    if exp < 0:
        factor, rest = _inverse(base % abs(mod), abs(mod)) % mod, -exp
    result = 1 % mod
    while rest > 0:
        if rest % 2 == 1:
            result = result * factor % mod
        factor, rest = factor * factor % mod, rest // 2
    return result


def _inverse(n: int, mod: int) -> int:
    """The number whose product with n is 1, modulo mod."""
    (a, b), (s, t) = (n, mod), (1, 0)
    while b > 0:
        quotient = a // b
        a, b, s, t = b, a % b, t, s - quotient * t
    if a != 1:
        raise ValueError("base is not invertible for the given modulus")
    return s


def rounded_int(number: int, ndigits: int) -> int:
    """`round(number, ndigits)` of an int."""
    if ndigits >= 0:
        return number
    unit = 1
    for _ in range(-ndigits):
        unit = unit * 10
    quotient, rest = number // unit, number % unit
    if rest * 2 > unit or (rest * 2 == unit and quotient % 2 == 1):
        quotient += 1
    return quotient * unit


MOST_DIGITS, LEAST_DIGITS = 323, -308
"""Rounding to more digits changes no float, to fewer gives 0."""


def rounded_float(number: float, ndigits: int) -> float:
    """`round(number, ndigits)` of a float: its decimal digits are rounded exactly, half to even."""
    if ndigits > MOST_DIGITS or not math.isfinite(number):
        return number
    if ndigits < LEAST_DIGITS:
        return 0.0 * number
    if ndigits >= 0:
        return float(("%." + str(ndigits) + "f") % number)
    # a float that is no whole number lies behind its whole part, so the part is told apart from a tie
    whole, unit = int(math.fabs(number)), 1
    for _ in range(-ndigits):
        unit = unit * 10
    quotient, rest = whole // unit, whole % unit
    beyond_tie = math.fabs(number) > whole or quotient % 2 == 1
    if rest * 2 > unit or (rest * 2 == unit and beyond_tie):
        quotient += 1
    if quotient * unit >= 2**1024:
        raise OverflowError("rounded value too large to represent")
    return math.copysign(float(quotient * unit), number)


def repeated(text: str, times: int) -> str:
    """`text * times`."""
    return "".join([text] * times)


def trunc(x: float, /) -> int:
    """`math.trunc`."""
    return int(x)


# -- methods of strings and numbers
def removeprefix(text: str, prefix: str, /) -> str:
    """`text.removeprefix(prefix)`."""
    return text[len(prefix) :] if text.startswith(prefix) else text


def removesuffix(text: str, suffix: str, /) -> str:
    """`text.removesuffix(suffix)`."""
    return text[: len(text) - len(suffix)] if text.endswith(suffix) else text


def isascii(text: str, /) -> bool:
    """`text.isascii()`."""
    return all(ord(letter) < 128 for letter in text)


def bit_length(n: int, /) -> int:
    """`n.bit_length()`."""
    bits, rest = 0, abs(n)
    while rest > 0:
        bits, rest = bits + 1, rest // 2
    return bits


def bit_count(n: int, /) -> int:
    """`n.bit_count()`."""
    bits, rest = 0, abs(n)
    while rest > 0:
        bits, rest = bits + rest % 2, rest // 2
    return bits


def is_integer(x: float, /) -> bool:
    """`x.is_integer()`."""
    return math.isfinite(x) and x == math.floor(x)


# -- torch.nn
def list_with_default(out_size: list[int | None], defaults: list[int]) -> list[int]:
    """`torch.nn.modules.utils._list_with_default`: the sizes, a default where one is None."""
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    found = defaults[len(defaults) - len(out_size) :]
    for position, size in enumerate(out_size):
        if size is not None:
            found[position] = size
    return found


# -- what has a keyword or takes what the operator does not
def sorted_list(iterable: Iterable[T], *, reverse: bool = False) -> list[T]:
    """`sorted` without a key."""
    items = list(iterable)
    items.sort(reverse=reverse)
    return items


def sorted_by_key(iterable: Iterable[T], *, key: Callable[[T], K], reverse: bool = False) -> list[T]:
    """`sorted` by a key; what has equal keys stays in order."""
    items = list(iterable)
    sign = -1 if reverse else 1
    order = [(key(item), sign * position) for position, item in enumerate(items)]
    order.sort(reverse=reverse)
    return [items[sign * place] for _, place in order]


def sort_by_key(items: list[T], *, key: Callable[[T], K], reverse: bool = False) -> None:
    """`list.sort` by a key."""
    for position, item in enumerate(sorted_by_key(items, key=key, reverse=reverse)):
        items[position] = item


def extreme(iterable: Iterable[T], *default: T, largest: bool, key: Callable[[T], K] | None = None) -> T:
    """`max` if `largest`, else `min`, of what `>` and `<` compare."""
    items = list(iterable)
    if default and len(items) == 0:
        return default[0]
    if len(items) == 0:
        raise ValueError(NO_LARGEST if largest else NO_SMALLEST)
    best = items[0]
    best_key = best if key is None else key(best)
    for item in items[1:]:
        found = item if key is None else key(item)
        if found > best_key if largest else found < best_key:
            best, best_key = item, found
    return best


def check_length(items: list[T], least: int) -> None:
    """What Python checks where a list is unpacked into names of which one takes the rest."""
    if len(items) < least:
        raise ValueError(f"not enough values to unpack (expected at least {least}, got {len(items)})")


# -- slices of lists
SliceFunction = Callable[..., None]


def delete_slice(items: list[T], start: int | None, stop: int | None, step: int | None) -> None:
    """`del items[start:stop:step]`."""
    going = [False] * len(items)
    for position in list(range(len(items)))[start : stop : 1 if step is None else step]:
        going[position] = True
    kept = [item for item, goes in zip(items, going, strict=False) if not goes]
    items.clear()
    items.extend(kept)


def set_slice(items: list[T], start: int | None, stop: int | None, step: int | None, values: list[T]) -> None:
    """`items[start:stop:step] = values`."""
    if step is None or step == 1:
        begin = 0 if start is None else len(items[:start])
        end = len(items) if stop is None else len(items[:stop])
        changed = items[:begin] + values + items[max(begin, end) :]
        items.clear()
        items.extend(changed)
    else:
        positions, given = list(range(len(items)))[start:stop:step], list(values)
        if len(positions) != len(given):
            raise ValueError(
                f"attempt to assign sequence of size {len(given)} to extended slice of size {len(positions)}"
            )
        for position, value in zip(positions, given, strict=False):
            items[position] = value


# -- ranges
def range_item(start: int, stop: int, step: int, index: int) -> int:
    """`range(start, stop, step)[index]`."""
    length = len(range(start, stop, step))
    position = index + length if index < 0 else index
    if position < 0 or position >= length:
        raise IndexError("range object index out of range")
    return start + position * step


def _clipped(bound: int, length: int, least: int, most: int) -> int:
    """The bound of a slice as a position, where a negative one counts from the end."""
    return max(bound + length, least) if bound < 0 else min(bound, most)


def range_slice(
    start: int, stop: int, step: int, first: int | None, last: int | None, by: int | None
) -> tuple[int, int, int]:
    """The start, end and step of `range(start, stop, step)[first:last:by]`."""
    length = len(range(start, stop, step))
    stride = 1 if by is None else by
    if stride == 0:
        raise ValueError("slice step cannot be zero")
    least, most = (0, length) if stride > 0 else (-1, length - 1)
    begin = (least if stride > 0 else most) if first is None else _clipped(first, length, least, most)
    end = (most if stride > 0 else least) if last is None else _clipped(last, length, least, most)
    return start + begin * step, start + end * step, step * stride


# -- sum
def sum_from(items: list[T], start: K) -> K:
    """`sum(items, start)`, of what no operator adds up."""
    result = start
    for item in items:
        result = result + item
    return result


# -- the order of lists
def _differ(left: T, right: K) -> bool:
    """Do elements differ, to Python, for which one and the same NaN is equal to itself?"""
    if isinstance(left, float):
        return right not in [left]
    return left != right


def less(left: list[T], right: list[K]) -> bool:
    """`left < right`."""
    for position in range(min(len(left), len(right))):
        if _differ(left[position], right[position]):
            return left[position] < right[position]
    return len(left) < len(right)


def less_or_equal(left: list[T], right: list[K]) -> bool:
    """`left <= right`."""
    for position in range(min(len(left), len(right))):
        if _differ(left[position], right[position]):
            return left[position] <= right[position]
    return len(left) <= len(right)


def greater(left: list[T], right: list[K]) -> bool:
    """`left > right`."""
    return less(right, left)


def greater_or_equal(left: list[T], right: list[K]) -> bool:
    """`left >= right`."""
    return less_or_equal(right, left)


def equal_dicts(left: dict[K, T], right: dict[K, T]) -> bool:
    """`left == right`."""
    if len(left) != len(right):
        return False
    return all(key in right and not _differ(value, right[key]) for key, value in left.items())


class ListComparison(NamedTuple):
    """Python's comparison, and the function that stands for it where both sides are lists."""

    original: Callable[[int, int], bool]
    of_lists: Callable[..., bool]


@functools.cache
def orders() -> dict[str, ListComparison]:
    """The comparisons that `<`, `<=`, `>` and `>=` are, by the operator of the syntax tree."""
    return {
        "<": ListComparison(operator.lt, less), "le": ListComparison(operator.le, less_or_equal),
        ">": ListComparison(operator.gt, greater), "ge": ListComparison(operator.ge, greater_or_equal),
    }  # fmt: skip
