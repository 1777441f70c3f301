"""Lines of kernels, in three languages, and the lines of the source that they come from."""

from __future__ import annotations

import difflib
import re

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.kernels.torch_abi import torch_abi
from jitlite.native.entry import is_ready

pytestmark = pytest.mark.skipif(not is_ready() or torch_abi() is None, reason="no kernels here")


def block(x: Tensor, w: Tensor) -> Tensor:
    y = x * 2.0 + 1.0
    z = y.tanh()
    m = z.mean(1, keepdim=True)
    return (z - m).relu() @ w


def relaxed(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        y = x * 0.5
        if i % 2 == 0:
            x = y.exp() - 1.0
        else:
            x = y.abs().sum(0, keepdim=True) + x
    return x


CASES = {"block": (block, (torch.ones(8, 8), torch.ones(8, 4))), "relaxed": (relaxed, (torch.ones(6, 40), 3))}


@pytest.fixture(scope="module", params=CASES)
def kernel(request):
    function, arguments = CASES[request.param]
    (kernel,) = jitlite.script(function).kernels.compile(*arguments)
    return kernel


def lines_of(placed, function):
    """Numbers of lines behind the head of the function, by text."""
    first = function.__code__.co_firstlineno
    return [(text, {place.line - first for place in places}) for text, places in placed]


def without_addresses(text):
    return re.sub(r"i64 \d{6,}", "i64 ADDRESS", re.sub(r"\$\d{6,}", "$ADDRESS", text))


def test_the_texts_are_those_that_there_are(kernel):
    assert "\n".join(text for text, _ in kernel.placed_loops) == kernel.loops.rstrip("\n")
    shown = [text for text, _ in kernel.placed_llvm]
    assert without_addresses("\n".join(shown)) == without_addresses(kernel.llvm.rstrip("\n"))


def test_the_assembly_is_that_of_what_runs(kernel):
    def instructions(lines):
        return [line.split()[0] for line in lines if line.startswith("\t") and not line.startswith("\t.")]

    placed, ran = instructions(text for text, _ in kernel.placed_asm), instructions(kernel.asm.splitlines())
    # where lines are noted, LLVM may place a block in another order
    assert difflib.SequenceMatcher(None, placed, ran, autojunk=False).ratio() > 0.99
    assert not [text for text, _ in kernel.placed_asm if re.match(r"\s*\.(loc|file|cfi|section\s+\.debug)", text)]


def test_loops_come_from_the_lines_that_they_compute():
    function, arguments = CASES["block"]
    (kernel,) = jitlite.script(function).kernels.compile(*arguments)
    found = lines_of(kernel.placed_loops, function)
    (summed,) = [lines for text, lines in found if "sum over i1 of tanh(" in text]
    (divided,) = [lines for text, lines in found if "div(load" in text]
    (product,) = [lines for text, lines in found if "sum over k" in text]
    assert (summed, divided, product) == ({1, 2, 3}, {3}, {4})
    assert [lines for text, lines in found if text.startswith(("kernel", "  argument", "  give"))] == [set()] * 4


def test_branches_and_loops_have_lines():
    function, arguments = CASES["relaxed"]
    (kernel,) = jitlite.script(function).kernels.compile(*arguments)
    found = lines_of(kernel.placed_loops, function)
    assert next(lines for text, lines in found if text.lstrip().startswith("loop ")) == {1}
    assert next(lines for text, lines in found if text.lstrip().startswith("if ")) == {3}
    assert any("exp(" in text and 4 in lines for text, lines in found)
    assert any("abs(" in text and 6 in lines for text, lines in found)


def test_what_is_stored_has_the_line_that_computes_it():
    def stored(x: Tensor) -> Tensor:
        y = x * 2.0
        y = y + 1.0
        return y.sigmoid()

    (kernel,) = jitlite.script(stored).kernels.compile(torch.ones(4))
    found = lines_of(kernel.placed_loops, stored)
    assert [lines for text, lines in found if "sigmoid(" in text] == [{1, 2, 3}]


@pytest.mark.parametrize("name", CASES)
def test_machine_code_comes_from_every_line_that_computes(name):
    function, arguments = CASES[name]
    (kernel,) = jitlite.script(function).kernels.compile(*arguments)
    wanted = set().union(*(lines for _, lines in lines_of(kernel.placed_loops, function)))
    for placed in (kernel.placed_llvm, kernel.placed_asm):
        found = lines_of(placed, function)
        assert set().union(*(lines for _, lines in found)) == wanted
        assert sum(bool(lines) for _, lines in found) > 50
    vectors = [lines for text, lines in lines_of(kernel.placed_asm, function) if re.match(r"\tv?mulp[sd]\t", text)]
    assert not vectors or any(lines for lines in vectors)
