"""Dictionaries: displays, methods, iteration, comprehensions and key types."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor

from . import example


@example(("one",), ("none",))
def lookup_with_default(key: str) -> int:
    table = {"one": 1, "two": 2}
    return table.get(key, -1)


@example(("a",), ("z",))
def lookup_optional(key: str) -> Optional[int]:
    table = {"a": 1}
    return table.get(key)


@example(({"a": 1, "b": 2},))
def sum_of_values(d: Dict[str, int]) -> int:
    total = 0
    for v in d.values():
        total += v
    return total


@example(({"a": 1, "b": 2},))
def keys_of(d: Dict[str, int]) -> List[str]:
    return [k for k in d.keys()]


@example(({"a": 1, "b": 2},))
def items_of(d: Dict[str, int]) -> List[Tuple[str, int]]:
    out: List[Tuple[str, int]] = []
    for k, v in d.items():
        out.append((k + "!", v * 2))
    return out


@example(({1: "x", 2: "y"},))
def iterate_over_keys(d: Dict[int, str]) -> str:
    text = ""
    for k in d:
        text += str(k) + d[k]
    return text


@example((4,))
def dict_comprehension(n: int) -> Dict[int, int]:
    return {i: i * i for i in range(n)}


@example((["x", "yy"],))
def lengths_by_word(words: List[str]) -> Dict[str, int]:
    return {w: len(w) for w in words}


@example(({"a": 1},))
def set_and_overwrite(d: Dict[str, int]) -> Dict[str, int]:
    d["b"] = 2
    d["a"] += 10
    d["b"] *= 3
    return d


@example(({"a": 1}, "a"), ({"a": 1}, "b"))
def membership(d: Dict[str, int], key: str) -> Tuple[bool, bool]:
    return key in d, key not in d


@example(({"a": 1, "b": 2},))
def delete_and_pop(d: Dict[str, int]) -> Tuple[int, Dict[str, int]]:
    del d["a"]
    value = d.pop("b")
    other = d.pop("c", 7)
    return value + other, d


@example(({"a": 1},))
def setdefault_both_ways(d: Dict[str, int]) -> Tuple[int, int, int]:
    return d.setdefault("a", 5), d.setdefault("b", 6), len(d)


@example(({"a": 1}, {"a": 2, "b": 3}))
def update_with(d: Dict[str, int], other: Dict[str, int]) -> Dict[str, int]:
    d.update(other)
    return d


@example(({"a": 1},))
def copy_of_dict(d: Dict[str, int]) -> Tuple[Dict[str, int], Dict[str, int]]:
    e = d.copy()
    e["new"] = 0
    return d, e


@example(({"a": 1},))
def clear_dict(d: Dict[str, int]) -> int:
    before = len(d)
    d.clear()
    return before * 10 + len(d)


@example((["a", "b", "a"],))
def group_positions(words: List[str]) -> Dict[str, List[int]]:
    groups: Dict[str, List[int]] = {}
    for i, w in enumerate(words):
        if w not in groups:
            groups[w] = torch.jit.annotate(List[int], [])
        groups[w].append(i)
    return groups


@example((2.5,))
def float_keys(x: float) -> Dict[float, str]:
    return {x: "x", 2 * x: "twice"}


@example((True,), (False,))
def bool_keys(flag: bool) -> str:
    return {True: "yes", False: "no"}[flag]


@example((torch.ones(2),))
def tensors_by_name(x: Tensor) -> Dict[str, Tensor]:
    out = {"sum": x.sum(), "double": x * 2}
    out["both"] = out["sum"] + out["double"]
    return out


@example(({"a": {"x": 1}, "b": {"y": 2}},))
def nested_dicts(d: Dict[str, Dict[str, int]]) -> int:
    total = 0
    for inner in d.values():
        for v in inner.values():
            total += v
    d["a"]["z"] = total
    return len(d["a"]) + total


@example(({"a": 1}, {"a": 1}), ({"a": 1}, {"b": 1}))
def same_keys(a: Dict[str, int], b: Dict[str, int]) -> bool:
    if len(a) != len(b):
        return False
    for k in a:
        if k not in b:
            return False
    return True


@example(({3: 1, 1: 2},))
def sorted_keys(d: Dict[int, int]) -> List[int]:
    return sorted(list(d.keys()))


@example(([1, 2, 2, 3, 3, 3],))
def most_common(xs: List[int]) -> int:
    counts: Dict[int, int] = {}
    for x in xs:
        counts[x] = counts.get(x, 0) + 1
    best, best_count = 0, 0
    for value, count in counts.items():
        if count > best_count:
            best, best_count = value, count
    return best


@example((12,))
def memoised_fibonacci(n: int) -> int:
    known: Dict[int, int] = {0: 0, 1: 1}
    for i in range(2, n + 1):
        known[i] = known[i - 1] + known[i - 2]
    return known[n]


@example(([("a", 1), ("b", 2)],))
def dict_from_pairs(pairs: List[Tuple[str, int]]) -> Dict[str, int]:
    return dict(pairs)
