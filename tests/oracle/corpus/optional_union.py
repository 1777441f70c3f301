"""Optional, Union and Any: refinement, merging and tests of types."""

from typing import Any, Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor

from . import example


@example((3,), (None,))
def default_when_none(n: Optional[int]) -> int:
    if n is None:
        return 0
    return n + 1


@example((3,), (None,))
def refine_by_not_none(n: Optional[int]) -> int:
    if n is not None:
        n = n * 2
    else:
        n = -1
    return n


@example(("x",), (None,))
def refine_by_ternary(s: Optional[str]) -> str:
    return s if s is not None else "nothing"


@example((4,), (None,))
def refine_by_and(n: Optional[int]) -> bool:
    return n is not None and n > 3


@example((4,), (None,))
def refine_by_or(n: Optional[int]) -> bool:
    return n is None or n > 3


@example((4,))
def refine_by_assert(n: Optional[int]) -> int:
    assert n is not None
    return n * 3


@example((4,))
def refine_by_raise(n: Optional[int]) -> int:
    if n is None:
        raise ValueError("need a number")
    return n + 1


@example((1, 2), (1, None), (None, None))
def refine_two(a: Optional[int], b: Optional[int]) -> int:
    if a is not None and b is not None:
        return a + b
    if a is None:
        return -1
    return a


@example(([1, 5, 9], 4), ([], 4))
def first_above(xs: List[int], limit: int) -> Optional[int]:
    for x in xs:
        if x > limit:
            return x
    return None


@example((True,), (False,))
def optional_from_branches(flag: bool) -> Optional[str]:
    if flag:
        result: Optional[str] = "yes"
    else:
        result = None
    return result


@example((torch.ones(2), None), (torch.ones(2), torch.zeros(2)))
def optional_tensor(x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    if bias is not None:
        x = x + bias
    return x * 2


@example((5,), (None,))
def optional_local(n: Optional[int]) -> int:
    best: Optional[int] = None
    for i in range(3):
        if best is None or i > best:
            best = i
    if best is None:
        return 0
    return best + (n if n is not None else 100)


@example(([1, None, 3],))
def list_of_optionals(xs: List[Optional[int]]) -> int:
    total = 0
    for x in xs:
        if x is not None:
            total += x
    return total


@example(({"a": 1},))
def optional_lookup(d: Dict[str, int]) -> Tuple[int, int]:
    found = d.get("a")
    missing = d.get("b")
    first = found if found is not None else 0
    second = missing if missing is not None else -1
    return first, second


@example((3,), ("three",))
def union_by_isinstance(x: Union[int, str]) -> str:
    if isinstance(x, int):
        return str(x + 1)
    else:
        return x + "!"


@example((3,), (2.5,), ("s",))
def union_of_three(x: Union[int, float, str]) -> str:
    if isinstance(x, str):
        return x
    if isinstance(x, int):
        return str(x * 2)
    return "float"


@example((1,), ([1, 2],))
def union_of_number_and_list(x: Union[int, List[int]]) -> int:
    if isinstance(x, int):
        x = [x]
    return len(x)


@example((None,), (2,), ("b",))
def optional_union(x: Optional[Union[int, str]]) -> str:
    if x is None:
        return "none"
    elif isinstance(x, str):
        return x
    else:
        return str(x)


@example((1,), ("a",), (None,))
def any_by_isinstance(x: Any) -> str:
    if isinstance(x, str):
        return x
    if isinstance(x, int):
        return "int"
    return "other"


@example((True,), (False,))
def union_from_branches(flag: bool) -> Union[int, str]:
    if flag:
        return 1
    return "one"


@example((torch.ones(2),), (3.0,))
def tensor_or_float(x: Union[Tensor, float]) -> float:
    if isinstance(x, Tensor):
        return float(x.sum())
    return x


@example((4,), (None,))
def not_of_none_test(n: Optional[int]) -> int:
    if not (n is None):  # noqa: E714
        return n
    return 7


@example(((1, None),), ((None, 2),))
def tuple_of_optionals(pair: Tuple[Optional[int], Optional[int]]) -> int:
    a, b = pair
    if a is None:
        a = 10
    if b is None:
        b = 20
    return a * b


@example((2,), (None,))
def early_exit_in_loop(limit: Optional[int]) -> int:
    count = 0
    for i in range(5):
        if limit is not None:
            if i >= limit:
                break
        count += 1
    return count


@example(([torch.ones(2), None],))
def optional_tensors(xs: List[Optional[Tensor]]) -> Tensor:
    total = torch.zeros(2)
    for x in xs:
        total = total + (x if x is not None else torch.full([2], 5.0))
    return total
