"""Calls with values of unions, with functions for what is annotated otherwise, and what torch says of dtypes."""

# ruff: noqa: E501 - a case a line reads better

from __future__ import annotations

import io

import pytest
import torch
from accepted_python import T34, Table, check_case
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError
from jitlite.debug.equality import difference
from jitlite.debug.outcome import observe

IMAGE = torch.arange(16.0).reshape(1, 1, 4, 4)

UNIONS: Table = {
    "operand": ("x: Tensor, u: Union[Tensor, float]", "return x * u, u < x, x - u", [[T34, 2.0], [T34, T34]]),
    "number": ("n: Union[int, float]", "return -n, n > 2, n * n", [[3], [2.5]]),
    "several": (
        "a: Union[Tensor, float], b: Union[Tensor, float], x: Tensor", "return x.clamp(0) + torch.where(x > 3, a, b)",
        [[T34, T34, T34], [1.0, 2.0, T34], [T34, 2.0, T34]],
    ),
    "sizes": (
        "x: Tensor, k: Union[Tuple[int, int], int]", "return F.max_pool2d(x, k)", [[IMAGE, 2], [IMAGE, (1, 2)]],
    ),
    "method": ("x: Tensor, k: Union[List[int], int]", "return x.sum(k)", [[T34, 1], [T34, [0, 1]]]),
    "in place": ("x: Tensor, u: Union[Tensor, float]", "x += u\nreturn x", [[T34, 1.5], [T34, T34]]),
    "results of several types": ("u: Union[List[int], int]", "return u * 2", [[2], [[1, 2]]]),
    "a call, by type": ("k: Union[Tuple[int, int], int]", "return widened(k)", [[2], [(3, 4)]]),
    "a call that gives its argument": ("k: Union[Tuple[int, int], int]", "k = 5\nreturn widened(k), k", [[2], [(3, 4)]]),
}  # fmt: skip

FUNCTIONS: Table = {
    "text or function": ("x: Tensor, n: int", "checked(n > 2, lambda: f'{n} of {x.dim()}')\nreturn x", [[T34, 3], [T34, 1]]),
    "both": ("x: Tensor, n: int", "checked(n > 2, lambda: 'a')\nchecked(n > 0, 'b')\nreturn x", [[T34, 0], [T34, 1], [T34, 3]]),
    "given a name": ("x: Tensor", "g = inc\nreturn called(x, g), called(x, True)", [[T34]]),
    "a branch that leaves": (
        "x: Tensor, c: bool", "def g(h, c: bool):\n    if c:\n        h = h(x)\n        return h + 1\n    return h(x)\nreturn g(inc, c)",
        [[T34, True], [T34, False]],
    ),
    "either branch": (
        "x: Tensor, c: bool", "def g(h, c: bool):\n    if c:\n        h = h(x)\n    else:\n        h = x\n    return h\nreturn g(inc, c)",
        [[T34, True], [T34, False]],
    ),
}  # fmt: skip

LIMITS: Table = {
    "floats": (
        "x: Tensor", "i = torch.finfo(x.dtype)\nreturn i.eps, i.max, i.tiny, i.bits, torch.finfo(x.dtype).min",
        [[T34], [T34.double()], [T34.half()], [T34.bfloat16()], [T34.to(torch.complex64)], [T34.int()]],
    ),
    "ints": (
        "x: Tensor", "return torch.iinfo(x.dtype).max, torch.iinfo(x.dtype).min",
        [[T34.int()], [T34.long()], [T34.byte()], [T34.to(torch.int8)], [T34]],
    ),
    "known": ("x: Tensor", "return torch.finfo(torch.half).eps, torch.iinfo(torch.uint8).max", [[T34]]),
    "of a variable": ("x: Tensor, d: torch.dtype", "return torch.finfo(d).eps", [[T34, torch.float64]]),
    "exporter": ("x: Tensor", "return x + 1 if torch.onnx.is_in_onnx_export() else x", [[T34]]),
}  # fmt: skip

ABSTRACT: Table = {
    "known": (
        "xs: List[int], n: int, s: str, x: Tensor, d: Dict[str, int]",
        "return (isinstance(xs, collections.abc.Sequence), isinstance(n, numbers.Integral), isinstance(s, Iterable),\n"
        "        isinstance(x, collections.abc.Iterable), isinstance(d, Mapping), isinstance(n, (str, Sequence)))",
        [[[1], 2, "a", T34, {"a": 1}]],
    ),
    "of a union": (
        "v: Union[int, float, List[int]]",
        "if isinstance(v, numbers.Integral):\n    return v + 1\nif isinstance(v, Sequence):\n    return len(v)\nreturn 0",
        [[3], [2.5], [[1, 2]]],
    ),
    "annotations": ("n: int", "return torch.signal.windows.hann(n), torch.signal.windows.nuttall(n)", [[4], [1]]),
    "of an Optional": ("v: Optional[List[int]]", "return len(v) if isinstance(v, Sequence) else -1", [[None], [[1]]]),
}  # fmt: skip

INDICES: Table = {
    "tuples": ("x: Tensor", "y = x.clone()\ny[(0, 1), (1, 2)] = 7.0\nreturn x[(0, 2), 1:], y", [[T34]]),
    "a tuple alone": ("x: Tensor", "return x[(0, 1)], x[((0, 1), (2, 3))]", [[T34]]),
    "tuples of tuples": ("x: Tensor", "return x[((0, 1), (1, 2)), 0], x[:, ((0, 1),)]", [[T34]]),
    "tuples behind dots": ("x: Tensor", "return x[..., (0, 1)]", [[T34]]),
    "tuples of bools": ("x: Tensor", "return x[(True, False, True), 0]", [[T34]]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNIONS)
def test_operators_take_values_of_unions(name):
    check_case(UNIONS, name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_given_whatever_the_annotation_says(name):
    check_case(FUNCTIONS, name)


@pytest.mark.parametrize("name", LIMITS)
def test_dtypes_tell_their_limits(name):
    check_case(LIMITS, name)


@pytest.mark.parametrize("name", ABSTRACT)
def test_abstract_classes_are_asked_of_types(name):
    check_case(ABSTRACT, name)


class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(3):
            setattr(self, f"layer{i}", torch.nn.Linear(2, 2) if i else torch.nn.ReLU())
            self.register_buffer(f"scale{i}", torch.tensor(i + 1.0))

    def forward(self, x, n: int):
        for i in range(n):
            x = getattr(self, f"layer{i}")(x) * getattr(self, "scale" + str(i))
        return x, getattr(self, "layer" + "1")(x)


def test_attributes_of_modules_have_names_that_are_computed():
    module = Named()
    scripted = jitlite.script(module)
    buffer = io.BytesIO()
    jitlite.save(scripted, buffer)
    buffer.seek(0)
    x = torch.ones(1, 2)
    for run in (scripted, jitlite.load(buffer)):
        for n in (0, 2, 3):
            assert not difference(module(x, n), run(x, n))
    with pytest.raises(AttributeError, match="'Named' object has no attribute 'layer3'"):
        scripted(x, 4)
    with pytest.raises(AttributeError, match="'Named' object has no attribute 'layer3'"):
        module(x, 4)


class Optionally(torch.nn.Module):
    def __init__(self, deep, width=1):
        super().__init__()
        self.deep, self.width = deep, width
        if deep:
            self.extra = torch.nn.Linear(2, 2)
            self.scale = 3.0

    def forward(self, x):
        if self.deep and x.dim() > 1:
            x = self.extra(x) * self.scale
        if not self.deep or self.width > 5:
            return x
        else:
            y = x + self.scale
        if self.width == 1:
            return y
        return self.wide(y)


@pytest.mark.parametrize("deep", [False, True])
def test_branches_that_are_not_taken_may_read_what_a_module_lacks(deep):
    module = Optionally(deep)
    scripted = jitlite.script(module)
    buffer = io.BytesIO()
    jitlite.save(scripted, buffer)
    buffer.seek(0)
    x = torch.ones(1, 2)
    for run in (scripted, jitlite.load(buffer)):
        assert not difference(module(x), run(x))
    module.deep = scripted.deep = True
    assert not difference(observe(module, [x]).raised, observe(scripted, [x]).raised)
    if not deep:
        with pytest.raises(AttributeError, match="'Optionally' object has no attribute 'extra'"):
            scripted(x)


class Misspelt(Optionally):
    def forward(self, x):
        if self.deep:
            x = self.exrta(x)
        return x


def test_branches_that_are_taken_may_not():
    with pytest.raises(CompileError, match="exrta"):
        jitlite.script(Misspelt(True))
    jitlite.script(Misspelt(False))


@pytest.mark.parametrize("name", INDICES)
def test_tuples_are_indices_as_lists_are(name):
    unsaved = {"tuples of tuples": "list of lists", "tuples behind dots": "behind"}
    check_case(INDICES, name, unsaved)


REFUSED = {
    "one type has no such operator": ("u: Union[int, str]", "return u + 1", "aten::add"),
    "None": ("u: Optional[Tensor], x: Tensor", "return x * u", "Optional"),
    "a function that may be a value": (
        "x: Tensor, c: bool", "h = inc\nif c:\n    h = h(x)\nreturn h", "h is not defined in the false branch",
    ),
    "a function that a loop changes": ("x: Tensor", "h = inc\nfor i in range(2):\n    h = h(x)\nreturn x", "nested block"),
    "a computed name of what is no module": ("x: Tensor, s: str", "return getattr(x, s)", "name that getattr is given"),
    "limits of ints": ("x: Tensor", "return torch.finfo(torch.int32).max", "floating point"),
    "no such limit": ("x: Tensor", "return torch.iinfo(x.dtype).eps", "has no 'eps'"),
    "limits of a tensor": ("x: Tensor", "return torch.iinfo(x).max", "needs a dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_one_meaning_is_refused(name):
    parameters, body, message = REFUSED[name]
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    head = "from typing import *\nimport torch\nfrom torch import Tensor\n\ndef inc(x: Tensor):\n    return x + 1\n\n"
    function = compile_source(f"{head}def f({parameters}):\n{lines}\n")["f"]
    with pytest.raises(CompileError, match=message) as refusal:
        jitlite.script(function)
    assert refusal.value.range is not None
