"""Enums, globals, type comments, `with`, printing, dtypes and other corners."""

import enum
from typing import Dict, List, Optional, Tuple  # noqa: F401 - also named in type comments

import torch
from torch import Tensor

from . import example


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@example((Color.RED,), (Color.GREEN,))
def enum_parameter(c: Color) -> str:
    if c == Color.RED:
        return "red"
    return "not red"


@example((Color.GREEN,))
def enum_value_and_name(c: Color) -> Tuple[int, str]:
    return c.value + 10, c.name


@example((True,), (False,))
def enum_result(fast: bool) -> Mode:
    return Mode.FAST if fast else Mode.SLOW


@example((1, 2))
def comment_signature(a, b):
    # type: (int, int) -> int
    return a * b


@example(([1, 2], None), ([], 5))
def comment_per_parameter(
    xs,  # type: List[int]
    extra=None,  # type: Optional[int]
):
    # type: (...) -> int
    total = sum(xs)
    if extra is not None:
        total += extra
    return total


@example((3,))
def string_annotations(n: "int") -> "List[int]":
    xs: "List[int]" = [n]
    return xs


@example(([1, 2],))
def builtin_generics(xs: list[int]) -> dict[str, tuple[int, int]]:
    return {"ends": (xs[0], xs[-1])}


@example((3,), (None,))
def pipe_union(n: int | None) -> int:
    return 0 if n is None else n


@example((torch.ones(2, requires_grad=True),))
def without_gradient(x: Tensor) -> bool:
    with torch.no_grad():
        y = x * 2
    return y.requires_grad


@example((torch.float64,), (torch.int32,))
def dtype_parameter(dtype: torch.dtype) -> Tensor:
    return torch.zeros(2, dtype=dtype)


@example((torch.device("cpu"),))
def device_parameter(device: torch.device) -> Tuple[str, Tensor]:
    return device.type, torch.ones(1, device=device)


@example((3,))
def doc_string_and_comments(n: int) -> int:
    """A doc string is a statement."""
    # and a comment is none
    n += 1  # nor at the end of a line
    return n


@example((1, 2, 3))
def long_expression_over_lines(
    a: int,
    b: int,
    c: int,
) -> int:
    return (
        a
        + b * c  # products first
        - (a - b) // (c + 1)
    )


@example((4,))
def semicolons(n: int) -> int:
    a = n; b = a + 1  # fmt: skip # noqa: E702
    return a * b


@example((4,))
def one_line_bodies(n: int) -> int:
    if n > 3: n = 1  # fmt: skip # noqa: E701
    while n < 10: n += 4  # fmt: skip # noqa: E701
    return n


@example(([1, 2, 3],))
def generator_expression(xs: List[int]) -> int:
    return sum(x * x for x in xs)


@example((3,))
def annotated_locals(n: int) -> float:
    total: float = 0.0
    names: List[str] = []
    table: Dict[int, float] = {}
    for i in range(n):
        names.append("n")
        table[i] = float(i)
    for v in table.values():
        total += v
    return total + len(names)


@example((2,))
def rebind_to_another_type(n: int) -> str:
    x = n + 1
    x = str(x)
    return x + "!"


@example((5,))
def underscore_names(_n: int) -> int:
    __private = _n + 1
    _ = __private * 2
    return _


@example((torch.tensor([1, 2, 3]),))
def tolist_of_tensor(x: Tensor) -> List[int]:
    values: List[int] = x.tolist()
    return values


@example((torch.ones(2),))
def annotate_call(x: Tensor) -> List[Tensor]:
    xs = torch.jit.annotate(List[Tensor], [])
    xs.append(x)
    return xs


@example(([], [torch.zeros(1)]), ([1], []))
def annotate_in_expression(a: List[int], b: List[Tensor]) -> int:
    return len(a + torch.jit.annotate(List[int], [])) + len(b)


@example((1.5,))
def scripting_branch(x: float) -> float:
    if torch.jit.is_scripting():
        y = x
    else:
        y = x
    return y * 2


@example((3, 4))
def default_values(a: int, b: int, scale: float = 0.5, names: Tuple[str, str] = ("x", "y")) -> str:
    return names[0] + str(a) + names[1] + str(int(b * scale))


@example((3,))
def nested_comprehension(n: int) -> List[List[int]]:
    return [[i + j for j in range(i)] for i in range(n)]


@example(([3, 1, 2],))
def hash_and_order(xs: List[int]) -> Tuple[bool, int]:
    return hash("a") == hash("a"), ord("a") + len(chr(98))


@example((torch.arange(3),))
def print_nothing_of_note(x: Tensor) -> int:
    print("sum", int(x.sum()), True, [1, 2])
    return x.numel()


@example((6,))
def membership_in_displays(n: int) -> Tuple[bool, bool, bool]:
    return n in [1, 2, 6], n not in [3, 4], str(n) in {"6": 1}


@example((torch.tensor(5),))
def tensor_as_index(i: Tensor) -> int:
    xs = [0, 1, 2, 3, 4, 5]
    return xs[int(i)]


@example(([0, 0, 0],))
def augmented_subscripts(xs: List[int]) -> List[int]:
    for i in range(len(xs)):
        xs[i] += i
        xs[i] -= 2 * i
        xs[-1] |= 4
    return xs


@example((2, 3))
def several_statements_of_each_kind(a: int, b: int) -> int:
    result = 0
    pairs = [(a, b), (b, a)]
    for x, y in pairs:
        while x > 0:
            x -= 1
            if x == y:
                continue
            result += y
    assert result >= 0
    del pairs[0]
    return result + len(pairs)
