"""Tuples and named tuples."""

from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor

from . import example


class Point(NamedTuple):
    x: float
    y: float


class Result(NamedTuple):
    value: Tensor
    count: int
    label: str


@example((1, "a"))
def make_pair(n: int, s: str) -> Tuple[int, str]:
    return n, s


@example(((1, 2.5, "x"),))
def index_tuple(t: Tuple[int, float, str]) -> Tuple[str, float, int]:
    return t[2], t[1], t[-3]


@example(((1, 2, 3, 4),))
def slice_tuple(t: Tuple[int, int, int, int]) -> Tuple[Tuple[int, int], Tuple[int, int, int]]:
    return t[1:3], t[:-1]


@example((1, 2))
def swap(a: int, b: int) -> Tuple[int, int]:
    a, b = b, a
    return a, b


@example(((1, (2, 3)),))
def unpack_nested(t: Tuple[int, Tuple[int, int]]) -> int:
    a, (b, c) = t
    return a + b * 10 + c * 100


@example(((1, 2, 3, 4),))
def unpack_starred(t: Tuple[int, int, int, int]) -> Tuple[int, List[int], int]:
    first, *middle, last = t
    return first, [middle[0], middle[1]], last


@example(((1, 2), (1, 2)), ((1, 2), (2, 2)))
def compare_tuples(a: Tuple[int, int], b: Tuple[int, int]) -> Tuple[bool, str]:
    return a == b, "different" if a != b else "same"


@example(((1, 2), (3,)))
def join_tuples(a: Tuple[int, int], b: Tuple[int]) -> Tuple[int, int, int]:
    return a + b


@example(((4, 5, 6),))
def loop_over_tuple(t: Tuple[int, int, int]) -> int:
    total = 0
    for x in t:
        total = total * 10 + x
    return total


@example(((1, 2, 3), 1))
def index_by_variable(t: Tuple[int, int, int], i: int) -> int:
    return t[i] + len(t)


@example(([(1, "a"), (2, "b")],))
def list_of_tuples(pairs: List[Tuple[int, str]]) -> str:
    text = ""
    for n, s in pairs:
        text += s + str(n)
    return text


@example((3, 4))
def chained_targets(a: int, b: int) -> int:
    x = y, z = a, b
    return x[0] * y + z


@example((5.0, 12.0))
def named_tuple_fields(x: float, y: float) -> float:
    p = Point(x, y)
    return (p.x**2 + p.y**2) ** 0.5


@example((1.0, 2.0))
def named_tuple_by_keyword(x: float, y: float) -> Point:
    return Point(y=y, x=x)


@example((Point(1.0, 2.0), 3.0))
def named_tuple_parameter(p: Point, factor: float) -> Point:
    return Point(p.x * factor, p[1] * factor)


@example((Point(1.5, 2.5),))
def named_tuple_unpacked(p: Point) -> float:
    x, y = p
    return x - y


@example((torch.arange(4),))
def named_tuple_of_several_types(t: Tensor) -> Result:
    return Result(t * 2, t.numel(), "doubled")


@example(([Point(0.0, 1.0), Point(2.0, 3.0)],))
def list_of_named_tuples(points: List[Point]) -> Tuple[float, float]:
    x = 0.0
    y = 0.0
    for p in points:
        x += p.x
        y += p.y
    return x, y


@example((2,))
def single_element_tuple(n: int) -> Tuple[int]:
    return (n,)


@example((7, 2))
def tuple_in_condition(a: int, b: int) -> str:
    q, r = divmod(a, b)
    if (q, r) == (3, 1):
        return "three remainder one"
    return "other"


@example((torch.tensor([3.0, 1.0, 2.0]),))
def several_results_of_an_operator(x: Tensor) -> Tuple[Tensor, Tensor]:
    values, indices = torch.sort(x)
    return values, indices


@example((torch.tensor([[3.0, 1.0], [2.0, 5.0]]),))
def one_of_several_results(x: Tensor) -> Tensor:
    return torch.max(x, dim=1)[0] + x.min(0)[0]


@example((1, 2))
def tuples_as_lists(a: int, b: int) -> List[int]:
    t = (a, b, a + b)
    return list(t)


@example((True, 1), (False, 1))
def tuple_from_branches(flag: bool, n: int) -> Tuple[int, str]:
    if flag:
        result = (n, "plus")
    else:
        result = (-n, "minus")
    return result
