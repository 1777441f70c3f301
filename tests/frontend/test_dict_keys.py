"""Dicts keyed by what Python hashes: tuples, members of enums, None, devices."""

from __future__ import annotations

import io

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError, NotSupportedError

HEAD = """
BY_COLOR = {Color.RED: "red", Color.BLUE: "blue"}
BY_PAIR = {(1, 2): 3, (3, 4): 5}

class Grid:
    def __init__(self):
        self.cells: Dict[Tuple[int, int], float] = {}

    def __getitem__(self, at: Tuple[int, int]) -> float:
        return self.cells[at]

    def __setitem__(self, at: Tuple[int, int], value: float) -> None:
        self.cells[at] = value
"""

KEYS: Table = {
    "every method": (
        "d: Dict[Tuple[int, int], float]",
        "d[1, 3] = 2.0\nd[1, 3] += 1\nd[(0, 0)] = d.get((1, 3), 0.5)\ndel d[1, 3]\ne = d.copy()\n"
        "e.update({(4, 4): 1.0})\ne.setdefault((5, 5), 2.0)\np = e.pop((5, 5)), e.pop((7, 7), 0.5), e.get((8, 8))\n"
        "n = 0\nfor (a, b), v in e.items():\n n += a * b\nq = e.popitem()\nfor k in d:\n n += k[0]\nr = dict(d)\n"
        "same = r == d\nd.clear()\nreturn e, p, q, n, r, d, same, len(e), list(e), list(e.keys()), list(e.values()), "
        "(4, 5) in e, {**e, (0, 0): 1.0}, max(e), sorted(e.items())",
        [[{(1, 2): 1.5}], [{}]],
    ),
    "a missing key": ("d: Dict[Tuple[int, str], int]", "return d[1, 'a'], d[(2, 'b')]", [[{(1, "a"): 2}]]),
    "tensors as values": (
        "x: Tensor, n: int",
        "d = {(i, j): x * i + j for i in range(n) for j in range(2)}\nd[0, 1] += 1\nd[1, 1].add_(1)\n"
        "return d, d.pop((0, 0)), [k for k in d if k[1] == 1]",
        [[T34, 2], [T34, 0]],
    ),
    "tuples in tuples": (
        "n: int",
        "d = {((n, 'a'), 1.5): n}\nd[(n, 'b'), 2.5] = 4\nreturn d, ((n, 'a'), 1.5) in d, [a for (a, b), c in d]",
        [[3]],
    ),
    "a table that is written out": (
        "n: int, s: str",
        "table = {('a', 1): 5, ('b', 2): n}\ntotal = 0\nfor i in range(3):\n total += table.get((s, i), 0)\n"
        "return total, table[s, n], sorted(table), ('a', 1) in table, table['a', 1]",
        [[1, "a"], [2, "b"], [3, "a"]],
    ),
    "a global table": (
        "n: int",
        "return BY_PAIR[1, 2], BY_PAIR[(3, 4)], BY_PAIR.get((0, 0), 7), (1, 2) in BY_PAIR, "
        "[a + b for a, b in BY_PAIR], BY_PAIR.get((n, 2)), BY_PAIR[n, n + 1]",
        [[1], [3], [4]],
    ),
    "None": (
        "n: Optional[int]", "d = {None: 1, 2: 5}\nd[n] = 7\nreturn d, d[None], d.get(n), None in d", [[None], [3]]
    ),
    "devices": (
        "x: Tensor", "d = {x.device: [x]}\nd[torch.device('cpu')].append(x)\nreturn d, x.device in d", [[T34]]
    ),
    "members of an enum": (
        "n: int",
        "d = {Color.RED: n, Color.BLUE: n + 1}\nd[Color.RED] += 1\ne = {c: [c.value] for c in d}\n"
        "e[Color.BLUE].append(n)\nreturn d[Color.RED], len(d), Color.BLUE in d, [k.name for k in d], list(e.values()), "
        "{k.name: v for k, v in d.items()}, BY_COLOR[Color.RED]",
        [[3]],
    ),
    "members of an enum, given and returned": (
        "d: Dict[Color, int], c: Color",
        "d[c] = d.get(c, 0) + 1\nreturn d, BY_COLOR[c], list(d.items())",
        [[{}, None]],
    ),
    "objects that are asked for tuples": (
        "n: int", "g = Grid()\ng[n, 2] = 3.0\ng[n, 2] += 1\nreturn g[n, 2], g.cells", [[1]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_dicts_are_keyed_by_what_python_hashes(name):
    unsaved = {n: "has no form in an archive" for n in KEYS}
    check_case(KEYS, name, unsaved, HEAD)


@pytest.mark.parametrize(
    "body",
    [
        "d = {[n]: 1}",
        "d = {(n, [n]): 1}",
        "d: Dict[List[int], int] = {}",
        "d: Dict[Tuple[Tensor, int], int] = {}",
        "d = {1: 2}\nreturn d[1, 2]",
        "d = {(n, n): 1}\nreturn d[n]",
        "d = {(n, n): 1}\nreturn d[n:2, n]",
    ],
)
def test_what_has_no_hash_or_another_type_is_refused_as_a_key(body):
    function = compile_source(source_of("n: int", body + "\nreturn n"))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)


class Tables(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {(1, "a"): 2.0}
        self.seen: dict[tuple[int, str], int] = {}

    def forward(self, n: int, name: str):
        self.seen[n, name] = len(self.seen)
        return self.scales.get((n, name), 1.0)


def test_attributes_may_be_keyed_so_and_stay_out_of_archives():
    module = Tables()
    scripted = jitlite.script(module)
    assert [scripted(1, "a"), scripted(2, "a"), scripted(1, "a")] == [2.0, 1.0, 2.0]
    assert scripted.seen == {(1, "a"): 2, (2, "a"): 1}
    with pytest.raises(NotSupportedError, match="keys of type"):
        jitlite.save(scripted, io.BytesIO())
