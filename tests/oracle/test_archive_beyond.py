"""What jitlite takes and torch.jit does not: saved, it is the same for libtorch, or it is refused with its line."""

from __future__ import annotations

import copy
import io
import math
import random
import sys
import textwrap

import pytest
import torch

import jitlite
from oracle.beyond_torch_jit import PROGRAMS, REFUSED, compiled
from oracle.test_archive_both_ways import assert_close, by_jitlite, by_torch, called, example

LOADERS = [by_jitlite, by_torch]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program, calls", PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
def test_saved_programs_are_the_same_or_refused(program, calls):
    script = compiled(program)
    if program.__name__ in REFUSED:
        with pytest.raises(jitlite.NotSupportedError, match=r"beyond_torch_jit\.py:\d+:\d+: "):
            script.save_to_buffer()
        return
    data = script.save_to_buffer()
    for load in LOADERS:
        eager, loaded = copy.deepcopy(script) if isinstance(program, type) else program, load(data)
        for arguments in calls:
            assert_close(loaded(*copy.deepcopy(arguments)), eager(*copy.deepcopy(arguments)))


def test_the_model_with_what_torch_jit_does_not_take():
    for name in ("detector", "transformer"):
        model, arguments = example(name)
        data = jitlite.script(model).save_to_buffer()
        assert_close(called(by_torch(data), arguments), called(model, arguments), exact=False)


# -- formats

VALUES = {
    "int": [0, 7, -7, 123456, 10**15],
    "str": ["", "a", "abcd", "a{b}%"],
    "float": [
        0.0, -0.0, 1.5, -2.675, 1.005, 0.125, 1e-9, 99.995, 0.5, 2.5, 1e15 + 0.3, math.inf, -math.inf, math.nan
    ],
    "bool": [True],
}  # fmt: skip
SPECS = {
    "int": "{:5} {:>5} {:<5} {:^6} {:*^7} {:05d} {:+d} {:03} {:.1f} {:>+6d} {!r} {!s:>4} {{{}}} }}{0}{0}",
    "str": "{:5} {:>5} {:<5} {:^6} {:_^7} {:s} {!s:>4} {{{}}}",
    "float": "{:.2f} {:8.3f} {:08.3f} {:+.1f} {:<9.0f} {:.0%} {:.15f} {:f}",
    "bool": "{} {!r}",
}
PERCENTS = {
    "int": "%s %5s %-5s %d %03d %+d %5d %-5d %.1f %r %%%i",
    "str": "%s %5s %-5s",
    "float": "%.2f %8.3f %08.2f %f",
    "bool": "%s %d %e",
}
FORMATS = [
    (kind, f"{template!r}{call}")
    for kind in VALUES
    for templates, call in ((SPECS, ".format(x)"), (PERCENTS, " % x"), (PERCENTS, " % (x,)"))
    for template in (f"{one}|" for one in templates[kind].split(" "))
]
NO_FORMATS = [
    ("int", "'{:,}'.format(x)"), ("int", "'{:x}'.format(x)"), ("int", "'%x' % x"), ("float", "'{:e}'.format(x)"),
    ("float", "'{:10}'.format(x)"), ("float", "'{:.3}'.format(x)"), ("float", "'{:.20f}'.format(x)"),
    ("str", "'{:.2}'.format(x)"), ("str", "'{!r}'.format(x)"), ("str", "'%r' % x"), ("bool", "'{:5}'.format(x)"),
    ("int", "'{:=+5}'.format(x)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """A function for each of the formats."""
    folder = tmp_path_factory.mktemp("formats")
    lines = [f"def f{i}(x: {kind}) -> str:\n    return {e}\n" for i, (kind, e) in enumerate([*FORMATS, *NO_FORMATS])]
    (folder / "with_formats.py").write_text("\n".join(lines))
    sys.path.insert(0, str(folder))
    yield __import__("with_formats")
    sys.path.remove(str(folder))


@pytest.mark.parametrize("kind", VALUES)
def test_formats_are_those_of_python(functions, kind):
    for i, (of, text) in enumerate(FORMATS):
        if of == kind:
            function = getattr(functions, f"f{i}")
            data = jitlite.script(function).save_to_buffer()
            for loaded in [load(data) for load in LOADERS]:
                for value in VALUES[kind]:
                    assert loaded(value) == function(value), (text, value)


@pytest.mark.parametrize("number", range(len(NO_FORMATS)), ids=[text for _, text in NO_FORMATS])
def test_other_formats_are_refused(functions, number):
    function = getattr(functions, f"f{len(FORMATS) + number}")
    with pytest.raises(jitlite.NotSupportedError, match=r"with_formats\.py:\d+:\d+: TorchScript's format has no '"):
        jitlite.script(function).save_to_buffer()


def two_digits(x: float) -> str:
    return f"{x:.2f}"


def test_digits_are_rounded_as_python_rounds_them():
    formatted = by_torch(jitlite.script(two_digits).save_to_buffer())
    draw = random.Random(1)
    for _ in range(500):
        for x in (
            draw.uniform(-10, 10),
            round(draw.uniform(0, 100), 3),
            draw.randrange(1000) / 8,
            10 ** draw.uniform(-5, 15),
        ):
            assert formatted(x) == f"{x:.2f}"


# -- defaults

DEFAULTS = [
    ("Tuple[Tensor, Tensor]", "(ZEROS, ZEROS)"), ("Tuple[int, Tensor, str]", "(1, ZEROS, 'x')"),
    ("Tuple[int, float]", "(2, 0.5)"), ("Tuple[int, int]", "(-1, -2)"), ("float", "math.inf"), ("float", "-math.inf"),
    ("float", "math.nan"), ("Tuple[float, Tuple[float, bool]]", "(math.nan, (-math.inf, False))"),
    ("Optional[List[int]]", "None"), ("Optional[List[int]]", "(-1, 2)"), ("complex", "1+2j"),
    ("complex", "complex(-1, -0.5)"), ("complex", "complex(0, math.inf)"), ("Tuple[complex, complex]", "(1j, -1-2j)"),
    ("str", "'a\\'\"b\\n\\\\'"), ("str", "'\\u00e4'"), ("Color", "Color.RED"), ("Mode", "Mode.B"),
    ("Tuple[Color, Optional[int]]", "(Color.BLUE, None)"), ("Optional[Color]", "Color.RED"), ("int", "torch.float32"),
    ("Tuple[int, int]", "(torch.float32, torch.int64)"), ("Tuple[Tuple[int, str], bool]", "((1, 'x'), True)"),
    ("Tuple[int, Optional[Tensor]]", "(1, None)"), ("torch.device", "torch.device('cpu')"),
    ("Tuple[torch.device, int]", "(torch.device('cuda:1'), 1)"), ("Pair", "Pair(ZEROS, 5)"),
    ("Numbers", "Numbers(-1, 2.5)"), ("Tuple[Numbers, int]", "(Numbers(1, -2.0), 3)"),
    ("Optional[Tuple[int, int]]", "(1, 2)"), ("Union[int, str]", "'x'"), ("Union[int, str, None]", "3"),
    ("int", "-(2**63)"), ("int", "2**63 - 1"), ("float", "-0."), ("Tuple[int]", "(1,)"),
    ("Any", "3"), ("Optional[Tensor]", "ZEROS"), ("Tensor", "torch.tensor(-1.5)"), ("List[int]", "()"),
]  # fmt: skip
HEAD = """
import enum
import math
from typing import *

import torch
from torch import Tensor, nn

ZEROS = torch.zeros(2)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Mode(enum.Enum):
    A = "a"
    B = "b"


class Pair(NamedTuple):
    x: Tensor
    n: int = 3


class Numbers(NamedTuple):
    x: int
    n: float


def told(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.tolist()
    if isinstance(x, enum.Enum):
        return x.name
    if isinstance(x, (list, tuple)):
        return [told(part) for part in x]
    codes = {torch.float32: 6, torch.int64: 4}
    return repr(codes[x] if isinstance(x, torch.dtype) else x)
"""


@pytest.fixture(scope="module")
def with_defaults(tmp_path_factory):
    folder = tmp_path_factory.mktemp("defaults")
    modules = [
        textwrap.dedent(f"""
        class Inner{i}(nn.Module):
            def forward(self, x: Tensor, value: {kind} = {default}):
                return {"value.name" if kind in ("Color", "Mode") else "x" if "Color" in kind else "value"}


        class Outer{i}(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner{i}()

            def forward(self, x: Tensor):
                return self.inner(x)
        """)
        for i, (kind, default) in enumerate(DEFAULTS)
    ]
    (folder / "with_defaults.py").write_text(HEAD + "\n\n".join(modules))
    sys.path.insert(0, str(folder))
    yield __import__("with_defaults")
    sys.path.remove(str(folder))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(DEFAULTS)), ids=[": ".join(d) for d in DEFAULTS])
def test_defaults_of_all_kinds_come_through(with_defaults, number):
    made = getattr(with_defaults, f"Outer{number}")
    x = torch.ones(1)
    expected = with_defaults.told(made()(x))
    for_torch = io.BytesIO()
    torch.jit.save(torch.jit.script(made()), for_torch)
    for data in (jitlite.script(made()).save_to_buffer(), for_torch.getvalue()):
        for load in LOADERS:
            module = load(data)
            assert with_defaults.told(module(x)) == expected == with_defaults.told(module.inner(x))
