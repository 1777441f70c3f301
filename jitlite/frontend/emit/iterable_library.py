"""Functions of functools, itertools and operator in the Python that is compiled, as in `python_library.py`."""

# mypy: disable-error-code="operator, return-value, assignment, no-any-return, call-arg, arg-type, attr-defined, misc"
# Python never runs these functions, and types of calls are no types of `typing`.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")


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


def product(*iterables: Iterable[T]) -> list[tuple[T, ...]]:
    """`itertools.product` of up to four iterables."""
    if not iterables[1:]:  # whether a tuple is empty is decided where the call is compiled
        return [(a,) for a in iterables[0]]
    if not iterables[2:]:
        return _product_of_two(iterables[0], iterables[1])
    if not iterables[3:]:
        pairs = _product_of_two(iterables[1], iterables[2])
        return [(a, b, c) for a in list(iterables[0]) for b, c in pairs]
    pairs = _product_of_two(iterables[2], iterables[3])
    return [(a, b, c, d) for a, b in _product_of_two(iterables[0], iterables[1]) for c, d in pairs]


def _product_of_two(first: Iterable[T], second: Iterable[K]) -> list[tuple[T, K]]:
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


def combinations_of_three(iterable: Iterable[T]) -> list[tuple[T, T, T]]:
    """`itertools.combinations` of three."""
    items = list(iterable)
    starts = [(i, j) for i in range(len(items)) for j in range(i + 1, len(items))]
    return [(items[i], items[j], items[k]) for i, j in starts for k in range(j + 1, len(items))]


def combinations_with_replacement(iterable: Iterable[T], r: int) -> list[tuple[T, T]]:
    """`itertools.combinations_with_replacement` of two."""
    items = list(iterable)
    if r != 2:
        raise NotImplementedError("itertools.combinations_with_replacement is compiled for pairs only")
    return [(items[i], items[j]) for i in range(len(items)) for j in range(i, len(items))]


def permutations_of_three(iterable: Iterable[T]) -> list[tuple[T, T, T]]:
    """`itertools.permutations` of three."""
    items = list(iterable)
    starts = [(i, j) for i in range(len(items)) for j in range(len(items)) if i != j]
    return [(items[i], items[j], items[k]) for i, j in starts for k in range(len(items)) if k != i and k != j]


def permutations(iterable: Iterable[T], r: int) -> list[tuple[T, T]]:
    """`itertools.permutations` of two."""
    items = list(iterable)
    if r != 2:
        raise NotImplementedError("itertools.permutations is compiled for pairs only")
    return [(items[i], items[j]) for i in range(len(items)) for j in range(len(items)) if i != j]


def pairwise(iterable: Iterable[T]) -> list[tuple[T, T]]:
    """`itertools.pairwise`."""
    items = list(iterable)
    return [(items[i], items[i + 1]) for i in range(len(items) - 1)]


def islice(iterable: Iterable[T], *bounds: int | None) -> list[T]:
    """`itertools.islice`."""
    items = list(iterable)
    if not bounds[1:]:
        return items[0 : _bound(bounds[0], "Stop argument for islice() must be None or an integer: 0 <= x")]
    message = "Indices for islice() must be None or an integer: 0 <= x"
    start, stop = _bound(bounds[0], message), _bound(bounds[1], message)
    if not bounds[2:]:
        return items[start:stop]
    step = _bound(bounds[2], "Step for islice() must be a positive integer or None")
    if step is not None and step == 0:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return items[start : stop : 1 if step is None else step]


def _bound(bound: int | None, message: str) -> int | None:
    if bound is not None and bound < 0:
        raise ValueError(message)
    return bound


def groupby(iterable: Iterable[T], key: Callable[[T], K] | None = None) -> list[tuple[K, list[T]]]:
    """`itertools.groupby`, with the groups as lists."""
    items = list(iterable)
    keys = [item if key is None else key(item) for item in items]
    starts = [i for i in range(len(items)) if i == 0 or keys[i - 1] != keys[i]]
    ends = [*starts[1:], len(items)]
    return [(keys[start], items[start:end]) for start, end in zip(starts, ends, strict=False)]


def zip_longest(first: Iterable[T], second: Iterable[K], *, fillvalue=None) -> list[tuple[T, K]]:  # type: ignore[no-untyped-def]
    """`itertools.zip_longest` of two iterables."""
    left, right = list(first), list(second)
    length = max(len(left), len(right))
    return [(left[i] if i < len(left) else fillvalue, right[i] if i < len(right) else fillvalue) for i in range(length)]


def takewhile(predicate: Callable[[T], bool], iterable: Iterable[T]) -> list[T]:
    """`itertools.takewhile`."""
    items = list(iterable)
    length = 0
    while length < len(items) and predicate(items[length]):
        length += 1
    return items[:length]


def dropwhile(predicate: Callable[[T], bool], iterable: Iterable[T]) -> list[T]:
    """`itertools.dropwhile`."""
    items = list(iterable)
    length = 0
    while length < len(items) and predicate(items[length]):
        length += 1
    return items[length:]


def filterfalse(predicate: Callable[[T], bool], iterable: Iterable[T]) -> list[T]:
    """`itertools.filterfalse`."""
    return [item for item in iterable if not predicate(item)]


def compress(data: Iterable[T], selectors: Iterable[K]) -> list[T]:
    """`itertools.compress`."""
    return [item for item, selected in zip(list(data), list(selectors), strict=False) if selected]


def repeat(object: T, times: int) -> list[T]:
    """`itertools.repeat` with a number of times."""
    return [object for _ in range(times)]


def getitem(a: Mapping[K, T], b: K) -> T:
    """`operator.getitem`."""
    return a[b]


def setitem(a: MutableMapping[K, T], b: K, c: T) -> None:
    """`operator.setitem`."""
    a[b] = c


def delitem(a: MutableMapping[K, T], b: K) -> None:
    """`operator.delitem`."""
    del a[b]


def concat(a: T, b: K) -> T:
    """`operator.concat`."""
    return a + b


def count_of(a: Iterable[T], b: K) -> int:
    """`operator.countOf`."""
    return sum([1 for item in a if item == b])


def index_of(a: Iterable[T], b: K) -> int:
    """`operator.indexOf`."""
    for position, item in enumerate(a):
        if item == b:
            return position
    raise ValueError("sequence.index(x): x not in sequence")


def index(a: int) -> int:
    """`operator.index`."""
    return a


def positive(a: T) -> T:
    """`operator.pos`."""
    return +a


def truth(a: T) -> bool:
    """`operator.truth`."""
    return bool(a)


def is_same(a: T, b: K) -> bool:
    """`operator.is_`."""
    return a is b


def is_another(a: T, b: K) -> bool:
    """`operator.is_not`."""
    return a is not b


def move_to_end(entries: dict[K, T], key: K, last: bool = True) -> None:
    """`OrderedDict.move_to_end`."""
    value = entries.pop(key)
    if last:
        entries[key] = value
    else:
        others = entries.copy()
        entries.clear()
        entries[key] = value
        entries.update(others)


def fromkeys(iterable: Iterable[K], value=None) -> dict[K, T]:  # type: ignore[no-untyped-def]
    """`dict.fromkeys`."""
    return {key: value for key in iterable}  # noqa: C420 - it is what the name stands for


def contains(items: list[T], wanted: K) -> bool:
    """`wanted in items`, for a number of another kind than the elements are."""
    return any(item == wanted for item in items)
