"""Programs of torch.export as modules: what they give, write and refuse is what the programs do."""

from __future__ import annotations

import copy
import io
import re
from collections import namedtuple
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import jitlite

Pair = namedtuple("Pair", ["left", "right"])


class Counting(nn.Module):
    """State of each kind, written on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.register_buffer("calls", torch.zeros(()), persistent=False)
        self.scale = torch.full((4,), 2.0)

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        return self.layers(x) * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0]) + self.calls


class Nested(nn.Module):
    def forward(self, x: Any, d: Any, *, more: Any, flag: Any = True) -> Any:
        y = x + d["b"] if flag else x
        return {"y": [y, d["a"]], "n": (x.shape[0], None, 3, "text"), "m": more[1] * 2}


class Writing(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        x.mul_(2)
        y[0].add_(x)
        return x, y + 1


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            y = self.a(x)
        return self.b(x) + y


class Casting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.inner(x)
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            return y, self.inner(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.inner(x, x, x)


class Names(nn.Module):
    def forward(self, *xs: Any, **named: Any) -> Any:
        return xs[0] + xs[1] * named["scale"]


class Empty(nn.Module):
    def forward(self) -> Any:
        return torch.ones(2)


def t(*sizes: int) -> Any:
    return torch.randn(*sizes)


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "counting": (Counting, (t(5, 3),), {}),
    "counting, eval": (lambda: Counting().eval(), (t(5, 3),), {}),
    "nested": (Nested, (t(2), {"a": t(2), "b": t(2)}), {"more": [t(1), t(1)]}),
    "flag": (Nested, (t(2), {"a": t(2), "b": t(2)}), {"more": [t(1), t(1)], "flag": False}),
    "writing": (Writing, (t(3), t(2, 3)), {}),
    "branching": (Branching, (t(3),), {}),
    "shared": (Shared, (t(2, 3),), {}),
    "casting": (Casting, (t(2, 3),), {}),
    "attention": (lambda: Attention().eval(), (t(2, 5, 4),), {}),
    "names": (Names, (t(2), t(2)), {"scale": t(2)}),
    "no arguments": (Empty, (), {}),
    "empty": (Counting, (torch.randn(4, 3),), {}),
}  # fmt: skip


def exported(name: str) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    make, args, kwargs = PROGRAMS[name]
    return export(make(), args, kwargs), args, kwargs


def alike(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("decomposed", [False, True], ids=["training", "inference"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_does_what_it_did(name, decomposed):
    program, args, kwargs = exported(name)
    if decomposed:
        program = program.run_decompositions()
    expected = copy.deepcopy(program).module()
    made = jitlite.from_exported(copy.deepcopy(program))
    for _ in range(3):
        ours, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        found, wanted = made(*ours[0], **ours[1]), expected(*theirs[0], **theirs[1])
        assert _plain(found) == _plain(wanted)
        alike(_tensors(found), _tensors(wanted))
        alike(_tensors(ours), _tensors(theirs))
        assert [v.requires_grad for v in _tensors(found)] == [v.requires_grad for v in _tensors(wanted)]
    alike(dict(made.named_buffers()), dict(expected.named_buffers()))
    assert made.state_dict().keys() == program.state_dict.keys()


def _tensors(value: Any) -> list[torch.Tensor]:
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def _plain(value: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: None, value)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("names",)])
def test_it_is_saved_and_loaded(name):
    program, args, kwargs = exported(name)
    made = jitlite.from_exported(program)
    file = io.BytesIO()
    jitlite.save(made, file)
    file.seek(0)
    loaded = jitlite.load(file)
    found, wanted = loaded(*copy.deepcopy(args), **copy.deepcopy(kwargs)), made(*copy.deepcopy(args), **kwargs)
    alike(_tensors(found), _tensors(wanted))
    assert [v.requires_grad for v in _tensors(found)] == [v.requires_grad for v in _tensors(wanted)]


def test_state_is_shared_and_has_gradients():
    program, (x,), _ = exported("counting")
    made = jitlite.from_exported(program)

    parameters = dict(made.named_parameters())
    assert {n: id(p) for n, p in parameters.items()} == {n: id(program.state_dict[n]) for n in parameters}
    made(x).sum().backward()
    assert all(p.grad is not None for p in parameters.values())
    assert "calls" not in made.state_dict() and made.calls == 1


def test_a_file_of_torch_export_is_a_module(tmp_path):
    program, (x,), _ = exported("counting")
    torch.export.save(program, tmp_path / "net.pt2")
    read = torch.export.load(tmp_path / "net.pt2")
    expected = copy.deepcopy(read).module()
    alike(jitlite.from_exported(read)(x), expected(x))


def test_what_we_export_comes_back():
    @jitlite.script
    def shrink(x: torch.Tensor):
        if bool(x.sum() > 0):
            x = x * 2
        return x - 1

    program = shrink.to_exported((torch.ones(3),))
    made = jitlite.from_exported(program)
    for x in (torch.ones(3), -torch.ones(3)):
        alike(made(x), shrink(x))


# -- sizes -------------------------------------------------------------------------------------------------------------


class Sized(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x.reshape(-1) + y.repeat(2), x.shape[0] * 2


def test_sizes_that_may_differ_and_how_they_belong_together():
    rows = Dim("rows", min=2, max=9)
    program = export(Sized(), (t(4, 2), t(4)), dynamic_shapes={"x": {0: rows}, "y": {0: rows}})
    made = jitlite.from_exported(program)
    for n in (2, 5, 9):
        found, count = made(t(n, 2), t(n))
        assert found.shape == (2 * n,) and count == 2 * n
    for args, text in [
        ((t(4, 2), t(5)), "size 0 was to be"),
        ((t(1, 2), t(1)), "from 2 to 9"),
        ((t(10, 2), t(10)), "from 2 to 9"),
        ((t(4, 3), t(4)), "size [*, 2]"),
        ((t(4, 2).double(), t(4)), "torch.float32"),
        ((t(4, 2, 1), t(4)), "dimensions"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            made(*args)


def test_sizes_that_are_computed_of_others():
    n = Dim("n", min=2)
    program = export(Sized(), (t(4, 2), t(4)), dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    made = jitlite.from_exported(program)
    assert made(t(7, 2), t(7))[1] == 14

    class Twice(nn.Module):
        def forward(self, x, y):
            return x + y[::2]

    made = jitlite.from_exported(export(Twice(), (t(4), t(8)), dynamic_shapes={"x": {0: n}, "y": {0: 2 * n}}))
    assert made(t(6), t(12)).shape == (6,)
    with pytest.raises(ValueError, match="size 0 was to be 2"):
        made(t(6), t(11))


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_is_no_program():
    with pytest.raises(TypeError, match=r"not a Linear; torch.export.load reads one"):
        jitlite.from_exported(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="not a str"):
        jitlite.from_exported("net.pt2")


class Scaled(torch.Tensor):
    """A tensor with operators of its own."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, meta: Any, size: Any, stride: Any) -> Any:
        return Scaled(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = torch.utils._pytree.tree_map_only(Scaled, lambda s: s.inner, (args, kwargs or {}))
        return torch.utils._pytree.tree_map_only(torch.Tensor, Scaled, func(*plain[0], **plain[1]))


class WithSubclass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(Scaled(torch.ones(2)))

    def forward(self, x: Any) -> Any:
        return x * self.weight


@pytest.mark.parametrize(
    "make, args, text",
    [
        (WithSubclass, (torch.ones(2),), "whose class has operators of its own"),
        (lambda: _Returning(Pair), (torch.ones(2),), None),
    ],
    ids=["subclass", "named tuple"],
)
def test_classes_of_tensors_and_results(make, args, text):
    program = export(make(), args)
    if text is None:
        assert jitlite.from_exported(program)(*args).left.sum() == 2
        return
    with pytest.raises(jitlite.NotSupportedError, match=text) as error:
        jitlite.from_exported(program)
    assert error.value.code == "J0806"


class _Returning(nn.Module):
    def __init__(self, cls: Any) -> None:
        super().__init__()
        self.cls = cls

    def forward(self, x: Any) -> Any:
        return self.cls(x, x + 1)


def test_numbers_that_differ_from_call_to_call():
    class Power(nn.Module):
        def forward(self, x, n):
            return x * n

    program = export(Power(), (torch.ones(2), 3), dynamic_shapes={"x": None, "n": Dim.DYNAMIC})
    with pytest.raises(jitlite.NotSupportedError, match="the argument 'n' is a number that may differ"):
        jitlite.from_exported(program)
    made = jitlite.from_exported(export(Power(), (torch.ones(2), 3)))
    assert made(torch.ones(2), 3).sum() == 6
    with pytest.raises(ValueError, match="n: the trace was made for 3"):
        made(torch.ones(2), 4)
