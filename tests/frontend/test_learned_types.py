"""`[]`, `{}` and None have the types that their uses tell, where they do not compile as TorchScript takes them."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

HEAD = """
class P:
    def __init__(self, n: int):
        self.n = n
"""

LITERALS: Table = {
    "append": ("n: int", "xs = []\nxs.append('a')\nys = []\nfor i in range(n):\n ys.append(i)\nreturn xs, ys", [[3]]),
    "put into at one place only": (
        "n: int",
        "xs = []\nif n > 2:\n xs.append((n, 'a'))\nreturn xs, len(xs)",
        [[3], [0]],
    ),
    "extend and add": (
        "n: List[int]",
        "xs = []\nxs.extend(n)\nys = []\nys += n\nzs = []\nzs = zs + n\nxs.insert(0, 7)\nreturn xs, ys, zs",
        [[[3]], [[]]],
    ),
    "several at once": (
        "n: int",
        "xs, ys = [], []\nfor i in range(n):\n xs.append(i)\n ys.append(str(i))\nreturn xs, ys",
        [[3]],
    ),
    "one of two": (
        "xs: List[int]",
        "lo, hi = [], []\nfor x in xs:\n (lo if x < 2 else hi).append(x)\nreturn lo, hi",
        [[[1, 2]]],
    ),
    "list() and dict()": ("n: int", "xs, d = list(), dict()\nxs.append(n)\nd[n] = 'a'\nreturn xs, d", [[3]]),
    "in displays": (
        "n: int",
        "xs = [[], []]\nxs[0].append(n)\nd = {'a': [], 'b': []}\nd['a'].append(n)\nreturn xs, d",
        [[3]],
    ),
    "in comprehensions": (
        "n: int",
        "xs = [[] for _ in range(n)]\nfor i in range(n):\n xs[i].append(i)\nreturn xs",
        [[3], [0]],
    ),
    "lists of lists": (
        "n: int",
        "grid = []\nfor i in range(n):\n row = []\n for j in range(n):\n  row.append(i * j)\n grid.append(row)\n"
        "return grid",
        [[3]],
    ),
    "dicts of lists": (
        "ks: List[str]",
        "d = {}\nfor k in ks:\n if k not in d:\n  d[k] = []\n d[k].append(len(k))\ne = {}\nfor k in ks:\n"
        " e.setdefault(k, []).append(len(k))\ng = {}\nfor k in ks:\n n = len(k)\n if n in g:\n  g[n].append(k)\n"
        " else:\n  g[n] = [k]\nreturn d, e, g",
        [[["a", "b", "a"]], [[]]],
    ),
    "counts": ("ks: List[str]", "d = {}\nfor k in ks:\n d[k] = d.get(k, 0) + 1\nreturn d", [[["a", "b", "a"]]]),
    "dicts of dicts": ("n: int", "d = {}\nfor i in range(n):\n d[i] = {'a': i}\nreturn d", [[3]]),
    "looked into before": (
        "ks: List[str]",
        "seen = []\nfor k in ks:\n if len(seen) > 0 and seen[-1] == k:\n  continue\n if k not in seen:\n"
        "  seen.append(k)\n"
        "return seen, ','.join(seen)",
        [[["a", "bb", "a", "a"]]],
    ),
    "a stack": (
        "n: int",
        "stack = []\nstack.append(n)\nr = []\nwhile stack:\n k = stack.pop()\n r.append(k)\n if k > 1:\n"
        "  stack.append(k - 2)\nreturn r",
        [[5]],
    ),
    "two types that have one in common": (
        "n: int",
        "xs = []\nxs.append(n + 0.5)\nxs.append(2)\nys = []\nys.append(None)\nys.append(n)\nreturn xs[0], ys",
        [[3]],
    ),
    "results": ("n: int", "xs = []\nif n == 0:\n return xs\nif n == 1:\n return []\nreturn [n]", [[0], [1], [2]]),
    "assigned again": ("n: int", "xs = []\nif n > 0:\n xs = [n]\nreturn xs", [[3], [0]]),
    "nested functions": (
        "n: int",
        "xs = []\ndef add(k: int):\n xs.append(k)\nfor i in range(n):\n add(i)\nreturn xs",
        [[3]],
    ),
    "sizes": (
        "x: Tensor",
        "shape = []\nfor d in range(x.dim()):\n shape.append(x.size(d))\npad = []\nfor s in reversed(x.shape):\n"
        " pad += [0, s]\nreturn x.view(shape), F.pad(x, pad), shape",
        [[T34]],
    ),
    "objects": ("n: int", "ps = []\nfor i in range(n):\n ps.append(P(i))\nreturn [p.n for p in ps]", [[3]]),
    "None, then a tensor": (
        "x: Tensor",
        "y = None\nfor r in x:\n if y is None:\n  y = r\n else:\n  y = y + r\nreturn y",
        [[T34], [torch.ones(0)]],
    ),
    "None, then other things": (
        "n: int",
        "prev, best = None, None\nwhile n > 0:\n if prev is not None and prev > n:\n  best = str(prev)\n"
        " prev = n\n n -= 1\n"
        "return prev, best",
        [[3], [0]],
    ),
    "None in a branch": (
        "n: int",
        "msg = None\nif n > 2:\n msg = 'a'\nif msg is not None:\n return msg\nreturn 'none'",
        [[3], [0]],
    ),
}


DISPLAYS: Table = {
    "None, so many times": (
        "n: int, x: Tensor",
        "xs = [None] * n\nfor i in range(n):\n xs[i] = x + i\nreturn xs",
        [[2, T34], [0, T34]],
    ),
    "some of them": ("n: int", "xs = [None] * n\nfor i in range(0, n, 2):\n xs[i] = i\nreturn xs", [[3]]),
    "None, written out": ("n: int", "xs = [None, None]\nxs[1] = 'a'\nys = [None]\nys.append(n)\nreturn xs, ys", [[3]]),
    "None in a comprehension": ("n: int", "xs = [None for _ in range(n)]\nxs[1] = 'a'\nreturn xs", [[3]]),
    "a grid of None": ("n: int", "xs = [[None] * n for _ in range(n)]\nxs[1][0] = n\nreturn xs", [[3]]),
    "asked for None": (
        "x: Tensor",
        "xs = [None] * 4\nfor i, r in enumerate(x):\n if xs[i] is None:\n  xs[i] = r\nreturn xs",
        [[T34]],
    ),
    "dicts of None": (
        "n: int, ks: List[str]",
        "d = {'a': None, 'b': None}\nd['a'] = n\ne = {k: None for k in ks}\ne['c'] = 'b'\nreturn d, e",
        [[3, ["a", "c"]]],
    ),
    "ints, then floats": (
        "v: List[float]",
        "xs = [0] * 2\nxs[0] += v[0]\nxs[1] = xs[0] / 2\nd = {'a': 0}\nd['a'] += v[0]\nreturn xs, d",
        [[[1.5]]],
    ),
    "ints in a comprehension, then floats": (
        "ks: List[str], v: float",
        "d = {k: 0 for k in ks}\nfor k in ks:\n d[k] += v\nreturn d",
        [[["a", "b"], 1.5]],
    ),
    "numbers, then tensors": (
        "ks: List[str], x: Tensor",
        "d = {k: 0.0 for k in ks}\nd['a'] += x.sum()\nd['a'] += x.sum()\nxs = [0] * 2\n"
        "xs[0] += x.sum()\nreturn d['a'], xs",
        [[["a", "b"], T34]],
    ),
}

NUMBERS: Table = {
    "an int, then tensors": (
        "x: Tensor",
        "total = 0\nfor r in x:\n total = total + r.sum()\nreturn total",
        [[T34], [torch.ones(0)]],
    ),
    "added to": ("x: Tensor", "total = 0\nfor r in x:\n total += r.sum()\nreturn total / 3", [[T34], [torch.ones(0)]]),
    "a float, then tensors": (
        "x: Tensor",
        "best = 0.0\nfor r in x:\n if r.sum() > best:\n  best = r.sum()\nreturn best",
        [[T34], [-T34]],
    ),
    "in a branch": ("x: Tensor, c: bool", "y = 1\nif c:\n y = x * 2\nreturn y + x", [[T34, True], [T34, False]]),
    "several": (
        "x: Tensor, w: List[float]",
        "loss, count = 0, 0\nfor i, r in enumerate(x):\n loss = loss + r.mean() * w[i]\n count += (r > 2).sum()\n"
        "loss = loss / count\nreturn loss, count",
        [[T34, [1.0, 2.0, 3.0]]],
    ),
    "annotated": (
        "x: Tensor",
        "total: Union[int, Tensor] = 0\nfor r in x:\n total = total + r.sum()\nreturn total",
        [[T34], [torch.ones(0)]],
    ),
    "what a tensor cannot be": (
        "x: Tensor, c: bool",
        "n = 0\nif c:\n n = x.sum()\nreturn [1] * n",
        [[torch.tensor([1, 2]), True], [T34, False]],
    ),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_displays_of_none_and_of_numbers_may_hold_more_later(name):
    check_case(DISPLAYS, name)


@pytest.mark.parametrize("name", NUMBERS)
def test_variables_that_begin_as_numbers_hold_what_they_are_given(name):
    check_case(NUMBERS, name)


def test_what_is_summed_up_from_zero_has_a_gradient():
    body = "loss = 0.0\nfor r in x:\n loss += (r * r).sum()\nreturn loss"
    scripted = jitlite.script(compile_source(source_of("x: Tensor", body))["f"])
    x = T34.clone().requires_grad_()
    scripted(x).backward()
    assert torch.equal(x.grad, 2 * T34)


def test_libtorch_reads_loops_over_a_number_that_becomes_a_tensor(tmp_path):
    body = "total = 0\nfor r in x:\n total += r.sum()\nreturn total"
    jitlite.save(jitlite.script(compile_source(source_of("x: Tensor", body))["f"]), tmp_path / "f.pt")
    assert torch.jit.load(tmp_path / "f.pt")(T34) == T34.sum()


@pytest.mark.parametrize("name", LITERALS)
def test_uses_tell_the_type_of_what_begins_empty(name):
    check_case(LITERALS, name, head=HEAD)


@pytest.mark.parametrize(
    "body",
    [
        "xs = []\nxs.append('a')\nxs.append(n)",
        "xs = [0] * n\nxs[0] = 'a'",
        "xs = [None] * n\nxs[0] = 'a'\nxs[1] = n",
        "k = 0\nif n > 1:\n k = 'a'",
        "d = {}\nd['a'] = n\nd[n] = n",
        "d = {}\nd['a'] = n\nd['b'] = 'b'",
        "y = None\nfor i in range(n):\n y = 'a'\ny += 1",
        "xs = []\nxs.append(n)\nreturn xs[0].relu()",
        "xs = []\nreturn nothing(xs)",
    ],
)
def test_uses_that_contradict_each_other_are_refused(body):
    function = compile_source(source_of("n: int", body + "\nreturn n"))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)


def test_what_compiles_as_in_torchscript_keeps_its_type():
    scripted = jitlite.script(compile_source(source_of("x: Tensor", "xs = []\nd = {}\nreturn xs, d"))["f"])
    assert str(scripted.schema.returns[0].type) == "Tuple[List[Tensor], Dict[str, Tensor]]"


def test_a_function_that_calls_itself_is_not_emitted_without_end():
    source = "def f(n: int):\n    xs = []\n    if n < 2:\n        return 1\n    return n * f(n - 1)\n"
    with pytest.raises(CompileError, match="called recursively"):
        jitlite.script(compile_source("import jitlite\n" + source)["f"])


AN_INT_STAYS = {
    "in a loop": "total = 0\nfor x in xs:\n total = total + x\nreturn total",
    "in a branch": "m = 1\nif len(xs) > 1:\n m = 0.5\nreturn m",
}


@pytest.mark.parametrize("text", AN_INT_STAYS.values(), ids=AN_INT_STAYS)
def test_a_variable_of_an_int_is_given_no_floats(text):
    with pytest.raises(CompileError, match="type int"):
        jitlite.script(compile_source(source_of("xs: List[float]", text))["f"])
