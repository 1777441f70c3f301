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
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")


@functools.cache
def _table() -> dict[Callable[..., object], Callable[..., object]]:
    return {
        functools.reduce: reduce, itertools.accumulate: accumulate, itertools.chain: chain,
        itertools.chain.from_iterable: chain_from_iterable, itertools.product: product, itertools.starmap: starmap,
        itertools.combinations: combinations,
        itertools.pairwise: pairwise, math.prod: prod, math.comb: comb, math.perm: perm, math.isqrt: isqrt,
        math.lcm: lcm, math.isclose: isclose, math.trunc: trunc, operator.getitem: getitem,
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


# -- functools, itertools, operator
def reduce(function: Callable[[T, K], T], iterable: Iterable[K], /, *initial: T) -> T:
    """`functools.reduce`."""
    items = list(iterable)
    if initial:
        result = initial[0]
        for item in items:
            result = function(result, item)
        return result
    if len(items) == 0:
        raise TypeError("reduce() of empty iterable with no initial value")
    first = items[0]
    for item in items[1:]:
        first = function(first, item)
    return first


def accumulate(iterable: Iterable[T], func: Callable[[T, T], T] | None = None, *, initial: T | None = None) -> list[T]:
    """`itertools.accumulate`."""
    items = list(iterable)
    if initial is not None:
        items = [initial, *items]
    for position in range(1, len(items)):
        if func is None:
            items[position] = items[position - 1] + items[position]
        else:
            items[position] = func(items[position - 1], items[position])
    return items


def chain(*iterables: Iterable[T]) -> list[T]:
    """`itertools.chain`."""
    return [item for iterable in iterables for item in iterable]


def chain_from_iterable(iterables: Iterable[Iterable[T]]) -> list[T]:
    """`itertools.chain.from_iterable`."""
    return [item for iterable in iterables for item in iterable]


def product(first: Iterable[T], second: Iterable[K]) -> list[tuple[T, K]]:
    """`itertools.product` of two iterables."""
    left, right = list(first), list(second)
    return [(a, b) for a in left for b in right]


def starmap(function: Callable[..., T], iterable: Iterable[tuple[K, ...]]) -> list[T]:
    """`itertools.starmap`."""
    return [function(*item) for item in iterable]


def combinations(iterable: Iterable[T], r: int) -> list[tuple[T, T]]:
    """`itertools.combinations` of two."""
    items = list(iterable)
    if r != 2:
        raise NotImplementedError("itertools.combinations is compiled for pairs only")
    return [(items[i], items[j]) for i in range(len(items)) for j in range(i + 1, len(items))]


def pairwise(iterable: Iterable[T]) -> list[tuple[T, T]]:
    """`itertools.pairwise`."""
    items = list(iterable)
    return [(items[i], items[i + 1]) for i in range(len(items) - 1)]


def getitem(a: Mapping[K, T], b: K) -> T:
    """`operator.getitem`."""
    return a[b]


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


def trunc(x: float, /) -> int:
    """`math.trunc`."""
    return int(x)


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
