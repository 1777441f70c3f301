"""Types whose texts would be exponentially long are refused, whoever asks for them."""

from __future__ import annotations

import io
import zipfile

import pytest
import torch
from torch import nn

import jitlite
from jitlite.ir import types as T
from jitlite.ir.type_kinds import LONGEST_TEXT

LEVELS = 60
GROWING = {
    "pairs": "    a{0} = (a{1}, a{1})\n",
    "sums": "    a{0} = a{1} + a{1}\n",
    "dicts of pairs": "    a{0} = (({{0: a{1}}}), a{1})\n",
    "lists of pairs": "    a{0} = ([a{1}], a{1})\n",
}


@pytest.mark.parametrize("way", GROWING)
def test_a_program_is_refused_with_its_line(way, tmp_path):
    levels = range(1, 20 if way == "sums" else LEVELS)
    lines = "".join(GROWING[way].format(i, i - 1) for i in levels)
    text = f"def f(n: int) -> int:\n    a0 = (n, n)\n{lines}    return n\n"
    with pytest.raises(jitlite.CompileError, match="over 100,000 characters") as caught:
        jitlite.CompilationUnit(text)
    assert "<--- HERE" in str(caught.value)


@pytest.mark.parametrize("make", [lambda t: T.TupleType.of([t, t]), lambda t: T.TupleType.of([t, t], ["a", "b"], "N")])
def test_a_type_that_is_made_of_large_ones_is_refused(make):
    t = T.INT
    with pytest.raises(jitlite.CompileError, match="over 100,000 characters"):
        for _ in range(LEVELS):
            t = make(t)
    assert len(str(t)) <= 3 * LONGEST_TEXT


class WithState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        return (self.k, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.k = state[0]
        self.training = state[1]


def test_an_archive_that_makes_one_while_it_is_loaded_is_refused():
    saved, changed = io.BytesIO(), io.BytesIO()
    jitlite.save(jitlite.script(WithState()), saved)
    lines = "    a0 = (1, 1)\n" + "".join(f"    a{i} = (a{i - 1}, a{i - 1})\n" for i in range(1, LEVELS))
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(changed, "w") as out:
        for name in archive.namelist():
            text = archive.read(name)
            if name.endswith(".py"):
                head, mark, rest = text.decode().partition("def __setstate__")
                signature, end, body = rest.partition("NoneType:\n")
                text = f"{head}{mark}{signature}{end}{lines}{body}".encode()
            if not name.endswith(".debug_pkl"):
                out.writestr(name, text)
    with pytest.raises(Exception, match="over 100,000 characters"):
        jitlite.load(io.BytesIO(changed.getvalue()))
