"""Functions calling functions: keywords, defaults, starred arguments, tensors and modules of functions."""

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from . import example


def double(n: int) -> int:
    return 2 * n


def scale(x: Tensor, factor: float = 2.0, shift: float = 0.0) -> Tensor:
    return x * factor + shift


def describe(name: str, *, age: int, city: str) -> str:
    return name + " " + str(age) + " " + city


def unannotated(x, y):
    return x * y + 1


def statistics(xs: List[float]) -> Tuple[float, float]:
    return min(xs), max(xs)


def add_to(xs: List[int], n: int) -> None:
    xs.append(n)


def maybe_half(n: int) -> Optional[int]:
    return n // 2 if n % 2 == 0 else None


def gate(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.sigmoid(F.linear(x, w, b))


@example((5,))
def call_in_expression(n: int) -> int:
    return double(n) + double(double(n + 1))


@example((torch.ones(2),))
def defaults_and_keywords(x: Tensor) -> Tensor:
    return scale(x) + scale(x, 3.0) + scale(x, shift=1.0) + scale(shift=2.0, x=x, factor=0.5)


@example((30,))
def keyword_only(age: int) -> str:
    return describe("Ann", city="Oslo", age=age)


@example((torch.ones(2), torch.full((2,), 3.0)))
def unannotated_callee(a: Tensor, b: Tensor) -> Tensor:
    return unannotated(a, b)


@example((torch.ones(2), torch.full((2,), 3.0)))
def unannotated_parameters(x, y):
    return torch.add(x, y) - unannotated(x, y)


@example(([1.0, 5.0, 3.0],))
def unpack_result(xs: List[float]) -> float:
    low, high = statistics(xs)
    return high - low


@example(([1],))
def callee_changes_list(xs: List[int]) -> List[int]:
    add_to(xs, 2)
    add_to(xs, len(xs))
    return xs


@example((8,), (7,))
def optional_result(n: int) -> int:
    half = maybe_half(n)
    if half is None:
        return -1
    return half


@example((torch.ones(2, 3), torch.ones(4, 3), torch.zeros(4)))
def call_in_loop(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(2, 4)
    for i in range(3):
        total = total + gate(x * i, w, b)
    return total


@example((3,))
def call_in_comprehension(n: int) -> List[int]:
    return [double(i) for i in range(n)]


@example(((1.0, 2.0),))
def starred_tuple(pair: Tuple[float, float]) -> float:
    return math.atan2(*pair)


@example((torch.ones(2), (3.0, 1.0)))
def starred_after_positional(x: Tensor, options: Tuple[float, float]) -> Tensor:
    return scale(x, *options)


@example((torch.ones(1, 1, 4, 4),))
def functional_with_keywords(x: Tensor) -> Tensor:
    y = F.avg_pool2d(x, kernel_size=2, stride=2)
    return F.interpolate(y, scale_factor=2.0, mode="nearest")


@example((torch.tensor([[1.0, 2.0]]), torch.tensor([1])))
def loss_functions(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target) + F.mse_loss(x, torch.zeros_like(x), reduction="sum")


@example((torch.ones(2, 4),))
def dropout_switched_off(x: Tensor) -> Tensor:
    return F.dropout(x, p=0.5, training=False) + F.layer_norm(x, [4])


@example((torch.arange(6).reshape(2, 3),))
def method_and_function_forms(x: Tensor) -> Tensor:
    return x.sum(1) + torch.sum(x, 1) + x.sum(dim=1) + torch.sum(x, dim=[1])


@example((torch.ones(3), 2), (torch.ones(3), -2))
def chain_of_methods(x: Tensor, n: int) -> Tensor:
    return x.mul(n).add(1).relu().neg().abs().sqrt()


@example(({"a": 1, "b": 2}, "b"))
def nested_calls(d: Dict[str, int], key: str) -> int:
    return max(double(d[key]), double(len(str(d[key]))))


def outer(x: Tensor) -> Tensor:
    return middle(x) + 1


def middle(x: Tensor) -> Tensor:
    return scale(x, 10.0)


@example((torch.ones(2),))
def three_levels(x: Tensor) -> Tensor:
    return outer(x) * outer(x + 1)


@example((torch.tensor([4.0, 9.0]),))
def function_of_two_types(x: Tensor) -> Tuple[Tensor, float]:
    return torch.sqrt(x), math.sqrt(4.0)


@example((2, 3))
def swapped_keywords(a: int, b: int) -> int:
    return minus(right=a, left=b)


def minus(left: int, right: int) -> int:
    return left - right


@example((3,), (4,))
def mutual_help(n: int) -> bool:
    return is_even(n) or is_odd(n)


def is_even(n: int) -> bool:
    return n % 2 == 0


def is_odd(n: int) -> bool:
    return not is_even(n)
