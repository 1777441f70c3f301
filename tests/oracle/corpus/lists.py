"""Lists: displays, methods, slices, comprehensions, nesting and aliasing."""

from typing import List, Tuple

import torch
from torch import Tensor

from . import example


@example((3,), (0,))
def squares(n: int) -> List[int]:
    return [i * i for i in range(n)]


@example(([1, 2, 3],))
def append_and_extend(xs: List[int]) -> List[int]:
    xs.append(4)
    xs.extend([5, 6])
    xs += [7]
    return xs


@example(([5, 3, 9, 1],), ([],))
def bubble_sort(xs: List[int]) -> List[int]:
    n = len(xs)
    for i in range(n):
        for j in range(n - 1 - i):
            if xs[j] > xs[j + 1]:
                xs[j], xs[j + 1] = xs[j + 1], xs[j]
    return xs


@example(([1, 3, 5, 7, 9], 7), ([1, 3, 5], 4))
def binary_search(xs: List[int], wanted: int) -> int:
    low, high = 0, len(xs) - 1
    while low <= high:
        middle = (low + high) // 2
        if xs[middle] == wanted:
            return middle
        if xs[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1


@example(([1, 2, 3, 4, 5],))
def list_slices(xs: List[int]) -> List[List[int]]:
    return [xs[1:3], xs[:-1], xs[::2], xs[-2:], xs[:]]


@example(([1, 2, 3, 4],))
def assign_elements(xs: List[int]) -> List[int]:
    xs[0] = 10
    xs[-1] += 5
    xs[1] *= xs[2]
    return xs


@example(([3, 1, 2],))
def insert_and_remove(xs: List[int]) -> Tuple[List[int], int]:
    xs.insert(1, 9)
    xs.remove(3)
    last = xs.pop()
    first = xs.pop(0)
    return xs, last - first


@example(([1, 2, 1],))
def find_and_count(xs: List[int]) -> Tuple[int, int, bool, bool]:
    return xs.index(2), xs.count(1), 2 in xs, 5 not in xs


@example(([3, 1, 2],))
def sort_in_place(xs: List[int]) -> List[int]:
    xs.sort()
    xs.reverse()
    return xs


@example(([3, 1, 2],))
def sorted_copy(xs: List[int]) -> Tuple[List[int], List[int]]:
    return sorted(xs), xs


@example(([2.5, -1.0],))
def sort_descending(xs: List[float]) -> List[float]:
    xs.sort(reverse=True)
    return xs


@example(([1, 2],))
def copy_is_independent(xs: List[int]) -> Tuple[List[int], List[int]]:
    ys = xs.copy()
    ys.append(3)
    return xs, ys


@example(([1, 2],))
def alias_is_shared(xs: List[int]) -> Tuple[List[int], int]:
    ys = xs
    ys.append(3)
    return xs, len(xs)


@example(([1, 2],))
def clear_and_refill(xs: List[int]) -> List[int]:
    xs.clear()
    for i in range(3):
        xs.append(i)
    return xs


@example(([1, 2], [3]))
def join_and_repeat(a: List[int], b: List[int]) -> List[int]:
    return a + b + [0] * 3 + a * 2


@example(([1, 2], [1, 2]), ([1], [2]))
def compare_lists(a: List[int], b: List[int]) -> Tuple[bool, bool]:
    return a == b, a != b


@example(([1, 2, 3],))
def reversed_by_index(xs: List[int]) -> List[int]:
    out: List[int] = []
    for i in range(len(xs) - 1, -1, -1):
        out.append(xs[i])
    return out


@example((3, 2))
def matrix_of_products(rows: int, columns: int) -> List[List[int]]:
    table: List[List[int]] = []
    for i in range(rows):
        row: List[int] = []
        for j in range(columns):
            row.append(i * j)
        table.append(row)
    return table


@example(([[1, 2], [3, 4], [5, 6]],))
def transpose(m: List[List[int]]) -> List[List[int]]:
    return [[row[j] for row in m] for j in range(len(m[0]))]


@example(([[1, 2], [], [3]],))
def flatten(nested: List[List[int]]) -> List[int]:
    out: List[int] = []
    for inner in nested:
        out.extend(inner)
    return out


@example((20,), (2,))
def sieve(n: int) -> List[int]:
    crossed = [False] * (n + 1)
    primes: List[int] = []
    for i in range(2, n + 1):
        if crossed[i]:
            continue
        primes.append(i)
        for k in range(i * i, n + 1, i):
            crossed[k] = True
    return primes


@example(([1, 2, 3], [4, 5, 6]))
def dot_product(a: List[int], b: List[int]) -> int:
    total = 0
    for x, y in zip(a, b):
        total += x * y
    return total


@example((["a", "b"], [1, 2]))
def zip_into_pairs(names: List[str], values: List[int]) -> List[Tuple[str, int]]:
    return [(n, v) for n, v in zip(names, values)]


@example(([1.5, 2.5, 4.0],))
def mean_and_variance(xs: List[float]) -> Tuple[float, float]:
    mean = sum(xs) / len(xs)
    return mean, sum([(x - mean) ** 2 for x in xs]) / len(xs)


@example(([True, False],), ([],))
def any_and_all(flags: List[bool]) -> Tuple[bool, bool]:
    return any(flags), all(flags)


@example(([1, 2, 3],))
def unpack_list(xs: List[int]) -> int:
    a, b, c = xs
    return a * 100 + b * 10 + c


@example(([1, 2, 3, 4],))
def delete_elements(xs: List[int]) -> List[int]:
    del xs[0]
    del xs[-1]
    return xs


@example((4,))
def list_of_tensors(n: int) -> Tensor:
    pieces = [torch.full([2], i) for i in range(n)]
    return torch.cat(pieces)


@example(([0, 1, 2, 3, 4, 5],))
def evens_and_odds(xs: List[int]) -> Tuple[List[int], List[int]]:
    evens: List[int] = []
    odds: List[int] = []
    for x in xs:
        (evens if x % 2 == 0 else odds).append(x)
    return evens, odds


@example(([1, 1, 2, 3, 3],), ([],))
def without_repeats(xs: List[int]) -> List[int]:
    out: List[int] = []
    for x in xs:
        if len(out) == 0 or out[-1] != x:
            out.append(x)
    return out


@example(([3, 4],), ([],))
def emptiness(xs: List[int]) -> str:
    if xs:
        return "has " + str(len(xs))
    return "none"


@example((list("abc"),))
def list_from_list(xs: List[str]) -> List[str]:
    ys = list(xs)
    ys[0] = "z"
    return ys + xs


@example((3,))
def list_of_range(n: int) -> List[int]:
    return list(range(n)) + list(range(10, 0, -n))
