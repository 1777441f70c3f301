"""`a, *b = t` gives a list, and `(1,) * 3` is a tuple, as eager Python has them."""

from __future__ import annotations

import pytest
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

STARRED: Table = {
    "of a tuple": ("t: Tuple[int, int, int]", "a, *b = t\n*c, d = t\nreturn a, b, c, d", [[(1, 2, 3)]]),
    "a new list": (
        "t: Tuple[int, int, int]",
        "*r, last = t\nr.append(4)\nr[0] = 7\nr += [last]\nreturn r, isinstance(r, list), str(r), t",
        [[(1, 2, 3)]],
    ),
    "of nested targets": ("n: int", "(a, *b), *rest = (n, 2, 3), 4, 5\nreturn a, b, rest", [[1]]),
    "of nothing": ("n: int, s: str", "a, *b = (n,)\nc, *d = (s,)\nreturn a, b, c, d", [[1, "x"]]),
    "of tensors": ("x: Tensor", "a, *b = (x, x + 1, x + 2)\nreturn torch.stack(b), b", [[T34]]),
    "in loops": (
        "n: int",
        "t = 0\nfor a, *b in [(1, 2, n), (4, 5, 6)]:\n t += a * len(b) + sum(b)\n"
        "return t, [b for a, *b in [(1, 2), (n, 4)]]",
        [[3]],
    ),
    "of functions": ("x: Tensor", "f, *fs = torch.relu, torch.sin, inc\nreturn f(x), [g(x) for g in fs]", [[T34]]),
    "of several types, taken apart": (
        "t: Tuple[int, str, float]",
        "a, *b = t\nreturn len(b), b[0], b[-1], [str(v) for v in b]",
        [[(1, "a", 2.5)]],
    ),
    "spread": ("n: int", "a, *b = n, 2\nreturn keyword_only(*b, y=a), (*b, a)", [[1]]),
    "made a tuple": (
        "t: Tuple[int, str, int]",
        "a, *b = t\nc, *d = t\nreturn a, tuple(b), tuple(b)[1], (*d, c), tuple(d) == tuple(b)",
        [[(1, "a", 2)]],
    ),
    "with None": (
        "x: Tensor, y: Optional[Tensor]",
        "a, *b = x, y, 3\nif b[0] is None:\n return a\nreturn b[0] + b[1]",
        [[T34, None], [T34, T34]],
    ),
}
REPEATED: Table = {
    "tuples": (
        "t: Tuple[int, str], n: int",
        "return (n,) * 3, 2 * t, t * 0, t * -1, () * 3, (0,) * len(t), ((1,) * 2 + (n,)) * 2",
        [[(1, "a"), 5]],
    ),
    "as sizes": ("x: Tensor", "return x.expand((2,) + (-1,) * 2), x.view(*(1,) * 2, -1)", [[T34]]),
}
TABLES = {"starred": STARRED, "repeated": REPEATED}
CASES = [(kind, name) for kind, table in TABLES.items() for name in table]


@pytest.mark.parametrize("kind, name", CASES)
def test_means_what_it_means_to_python(kind, name):
    check_case(TABLES[kind], name)


@pytest.mark.parametrize("body", ["a, *b = x, 's', 2.5\n return b", "a, *b = x, 's', 2.5\n b[0] = 't'\n return len(b)"])
def test_a_list_of_several_types_is_refused(body):
    namespace = compile_source(source_of("x: int", body.replace("\n ", "\n")))
    with pytest.raises(CompileError, match="would hold values of several types") as caught:
        jitlite.script(namespace["f"])
    assert "HERE" in str(caught.value)
