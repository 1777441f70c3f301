"""Branches, loops, early exits, and what is known statically."""

from typing import List, Tuple

import torch
from torch import Tensor

from . import example


@example((5,), (-5,), (0,))
def if_elif_else(n: int) -> str:
    if n > 0:
        kind = "positive"
    elif n < 0:
        kind = "negative"
    else:
        kind = "zero"
    return kind


@example((3,), (30,))
def early_return(n: int) -> int:
    if n > 10:
        return n
    n *= 2
    return n + 1


@example((7,), (12,), (100,))
def nested_returns(n: int) -> int:
    if n > 5:
        if n > 10:
            if n > 50:
                return 3
            return 2
        return 1
    return 0


@example((10,), (0,))
def break_out(n: int) -> int:
    total = 0
    for i in range(n):
        if i == 5:
            break
        total += i
    return total


@example((10,))
def continue_on(n: int) -> int:
    total = 0
    for i in range(n):
        if i % 3 == 0:
            continue
        total += i
    return total


@example((10,), (3,))
def break_and_continue(n: int) -> List[int]:
    out: List[int] = []
    for i in range(n):
        if i == 1:
            continue
        if i > 6:
            break
        out.append(i)
    return out


@example((20,), (2,))
def return_from_loop(n: int) -> int:
    for i in range(n):
        if i * i > 50:
            return i
    return -1


@example(([[1, 2], [3, 4]], 3), ([[1]], 9))
def return_from_nested_loops(m: List[List[int]], wanted: int) -> Tuple[int, int]:
    for i in range(len(m)):
        for j in range(len(m[i])):
            if m[i][j] == wanted:
                return i, j
    return -1, -1


@example((5,))
def while_true(n: int) -> int:
    count = 0
    while True:
        count += n
        if count > 17:
            break
    return count


@example((5,), (0,))
def while_countdown(n: int) -> List[int]:
    out: List[int] = []
    while n > 0:
        n -= 1
        if n == 2:
            continue
        out.append(n)
    return out


@example((3, 4))
def nested_loops_with_break(rows: int, columns: int) -> int:
    total = 0
    for i in range(rows):
        for j in range(columns):
            if j > i:
                break
            total += 1
        else_value = i
        total += else_value
    return total


@example((2, 9, 3), (9, 2, -3))
def range_with_step(start: int, stop: int, step: int) -> List[int]:
    return [i for i in range(start, stop, step)]


@example((["a", "b"],))
def enumerate_list(xs: List[str]) -> List[str]:
    out: List[str] = []
    for i, x in enumerate(xs):
        out.append(x + str(i))
    return out


@example((["a", "b"],))
def enumerate_from(xs: List[str]) -> int:
    total = 0
    for i, _ in enumerate(xs, 5):
        total += i
    return total


@example(([1, 2], [3, 4], [5, 6]))
def zip_three(a: List[int], b: List[int], c: List[int]) -> int:
    total = 0
    for x, (y, z) in zip(a, zip(b, c)):
        total += x * y + z
    return total


@example((3,))
def loop_variable_kept(n: int) -> int:
    i = -1
    for i in range(n):
        pass
    return i


@example((True,), (False,))
def ternaries(flag: bool) -> int:
    a = 1 if flag else 2
    return (a if a > 1 else -a) + (10 if not flag else 20)


@example((0, 5), (3, 5))
def short_circuit(a: int, b: int) -> bool:
    return a != 0 and b % a == 2 or b > 100


@example((15,), (3,), (5,), (7,))
def fizz_buzz(n: int) -> str:
    if n % 15 == 0:
        return "FizzBuzz"
    elif n % 3 == 0:
        return "Fizz"
    elif n % 5 == 0:
        return "Buzz"
    else:
        return str(n)


@example((4,))
def nothing_returned(n: int) -> None:
    if n > 3:
        return
    n += 1


@example((torch.tensor([1.0, -1.0]), 3))
def tensor_loop(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i % 2 == 0:
            x = x * 2
        else:
            x = x - i
    return x


@example((torch.ones(3), True), (torch.ones(3), False))
def both_branches_assign(x: Tensor, flag: bool) -> Tensor:
    if flag:
        y = x + 1
        z = y * 2
    else:
        z = x
        y = x - 1
    return y + z


@example((3,), (7,))
def raise_in_branch(n: int) -> int:
    if n > 10:
        raise ValueError("too large")
    elif n < 0:
        raise RuntimeError(f"negative: {n}")
    return n * 2


@example((4,))
def assertion(n: int) -> int:
    assert n > 0, "n must be positive"
    assert n < 100
    return n


@example((2,))
def raise_instead_of_return(n: int) -> str:
    if n == 1:
        return "one"
    elif n == 2:
        return "two"
    else:
        raise NotImplementedError("only one and two")


@example((torch.ones(2),))
def static_branches(x: Tensor) -> Tensor:
    if torch.jit.is_tracing():
        return x * 0
    if isinstance(x, Tensor):
        x = x + 1
    return x


@example((6,))
def accumulate_in_while_and_for(n: int) -> List[int]:
    triangle: List[int] = []
    row = 0
    while row < n:
        total = 0
        for k in range(row + 1):
            total += k
        triangle.append(total)
        row += 1
    return triangle


@example((12, 18))
def loop_with_two_exits(a: int, b: int) -> int:
    k = min(a, b)
    while k > 0:
        if a % k == 0:
            if b % k == 0:
                return k
        k -= 1
    return 0


@example((5,))
def shadowed_in_loop(n: int) -> int:
    x = 0
    for x in range(n):
        y = x
        x = y + 1
    return x


@example(([3, 1, 2],))
def insertion_sort(xs: List[int]) -> List[int]:
    for i in range(1, len(xs)):
        j = i
        while j > 0 and xs[j - 1] > xs[j]:
            xs[j - 1], xs[j] = xs[j], xs[j - 1]
            j -= 1
    return xs


@example((3,))
def empty_bodies(n: int) -> int:
    if n > 0:
        pass
    else:
        pass
    for _ in range(n):
        pass
    return n
