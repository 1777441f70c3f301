"""Kinds of programs that archives have had trouble with, written and read by torch.jit and by jitlite."""

from __future__ import annotations

import io
import zipfile
from typing import Any, List, Optional, Union

import pytest
import torch
from hypothesis import given, settings
from shared_objects import build, plans
from torch import Tensor, nn

import jitlite
from oracle.test_archive_both_ways import assert_close, by_jitlite, by_torch, of_torch

WRITERS = [lambda m: jitlite.script(m).save_to_buffer(), lambda m: of_torch(torch.jit.script(m))]


# -- identity


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None, max_examples=15)
@given(plans())
def test_libtorch_finds_the_same_names_of_one_object(found):
    """Tensors, as libtorch gives Python other lists at each access."""
    original, loaded = build(found), by_torch(jitlite.script(build(found)).save_to_buffer())
    for module in (original, loaded):
        assert len({id(p) for p in module.parameters()}) == len({p.data_ptr() for p in original.parameters()})
    assert _memory(loaded) == _memory(original)


def _memory(module: Any) -> list[tuple[Any, ...]]:
    """Which tensors lie on one storage, and where."""
    numbers: dict[int, int] = {}
    return [
        (name, numbers.setdefault(t.untyped_storage().data_ptr(), len(numbers)), t.storage_offset())
        for name, t in sorted([*module.named_parameters(), *module.named_buffers()])
    ]


# -- overloads


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("write", WRITERS, ids=["jitlite", "torch"])
def test_recurrent_modules_keep_their_forward(make, write):
    module, x = make(2, 3).eval(), torch.ones(4, 1, 2)
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(4, 2, 2), torch.tensor([4, 2]))
    loaded = by_jitlite(write(module))
    again = by_jitlite(loaded.save_to_buffer())
    for one in (loaded, again, jitlite.freeze(loaded), by_jitlite(jitlite.freeze(again).save_to_buffer())):
        assert_close(one(x), module(x))
        assert_close(one(packed)[0].data, module(packed)[0].data)


# -- gradients in programs


class Forces(nn.Module):
    """A force field: forces are gradients of an energy."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor):
        x = x.detach().requires_grad_(True)
        energy = (x * x * self.scale).sum()
        (first,) = torch.autograd.grad([energy], [x], None, None, True)
        other = (x**3).sum()
        torch.autograd.backward([other])
        assert first is not None
        return energy, -first, x.grad


@pytest.mark.parametrize("write", WRITERS, ids=["jitlite", "torch"])
def test_gradients_of_programs(write):
    x, data = torch.tensor([1.0, 2.0]), write(Forces())
    for load in (by_jitlite, by_torch):
        assert_close(load(data)(x), Forces()(x))


# -- errors


class Inner(nn.Module):
    def forward(self, x: Tensor):
        return x + 1


class Outer(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor):
        return self.inner(x)


def edited(data: bytes, old: bytes, new: bytes) -> bytes:
    archive, file = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in archive.namelist():
            made.writestr(name, archive.read(name).replace(old, new))
    return file.getvalue()


def test_an_error_in_a_class_names_its_cause_and_what_needs_the_class():
    data = jitlite.script(Outer(Outer(Inner()))).save_to_buffer()
    wrong = edited(data, b"class Inner(Module):\n", b"class Inner(Module):\n  x : Foo\n")
    with pytest.raises(jitlite.CompileError, match="Unknown type name 'Foo'") as error:
        by_jitlite(wrong)
    assert "while the class '__torch__.oracle.test_archive_kinds.Inner' was read" in str(error.value)
    assert "while the class '__torch__.oracle.test_archive_kinds.Outer' was read" in str(error.value)


# -- variables that are one of several types


class Held:
    def __init__(self, t: Tensor):
        self.t = t


Either = Union[Tensor, Held]


def held(x: Either) -> Tensor:
    if isinstance(x, Tensor):
        return x
    else:
        return x.t * 10


class Merges(nn.Module):
    """Variables of several types that branches assign, several at once and one in the other."""

    def forward(self, x: Tensor, outer: bool, wrap: bool, inner: bool):
        e: Either = x
        if wrap:
            e = Held(x + 1)
        weight: Optional[Tensor] = None
        if outer:
            if isinstance(e, Tensor):
                if inner:
                    e, weight = e * 2, e
                else:
                    e = e + 1
            else:
                e, weight = Held(e.t + 5), e.t
        return held(e), weight

    @torch.jit.export
    def loops(self, x: Tensor, n: int, k: int):
        e: Either = x
        count: Union[int, str] = 0
        for i in range(n):
            if isinstance(e, Tensor):
                e = Held(e + 1)
                count = "held"
            else:
                e = e.t
                if isinstance(count, str):
                    count = i
                else:
                    count = k
        return held(e), isinstance(count, int)

    @torch.jit.export
    def numbers(self, flag: bool, x: Tensor):
        n: Union[int, float, Tensor, None] = None
        m: Union[str, List[int]] = "a"
        if flag:
            n, m = 3, [1, 2]
        else:
            if x.sum() > 1:
                n, m = x, "b"
            else:
                n = 2.5
        return n, m


MERGED = [
    ("forward", [(torch.ones(2), a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)]),
    ("loops", [(torch.ones(2), n, k) for n in (0, 1, 2, 3) for k in (1, 2)]),
    ("numbers", [(flag, torch.full((2,), v)) for flag in (True, False) for v in (0.0, 5.0)]),
]


@pytest.mark.parametrize("name, calls", MERGED, ids=[name for name, _ in MERGED])
def test_variables_of_several_types_come_through(name, calls):
    eager = Merges()
    for write in WRITERS:
        data = write(eager)
        again = by_jitlite(data).save_to_buffer()
        for module in (by_jitlite(data), by_jitlite(again), by_torch(again)):
            for arguments in calls:
                assert_close(getattr(module, name)(*arguments), getattr(eager, name)(*arguments))
