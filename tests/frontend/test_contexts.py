"""`with` on torch's modes: results, what requires grad, and the modes afterwards are eager's."""

from __future__ import annotations

from typing import List

import pytest
import torch
from torch import Tensor

import jitlite


def modes():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
    )


@pytest.fixture(autouse=True)
def same_modes_after():
    before = modes()
    yield
    assert modes() == before


def nested(x: Tensor):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
            with torch.set_grad_enabled(False):
                c = x * 4
            d = x * 5
        e = x * 6
    return [a, b, c, d, e, x * 7]


def by_flag(x: Tensor):
    out: List[Tensor] = []
    for i in range(4):
        with torch.set_grad_enabled(i % 2 == 0):
            out.append(x * i)
        out.append(x + i)
    return out


def two_in_one(x: Tensor):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        y = torch.mm(x, x)
        inside = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    return y, torch.mm(x, x), inside, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")


def named(x: Tensor):
    with torch.no_grad() as nothing:
        y = x + 1
    return y, nothing is None


def left_by_return(x: Tensor):
    for i in range(3):
        with torch.no_grad():
            if i == 1:
                return x * i, torch.is_grad_enabled()
    return x, torch.is_grad_enabled()


def left_by_break(x: Tensor):
    total = x
    for i in range(5):
        with torch.no_grad():
            if i == 3:
                break
            if i == 1:
                continue
            total = total + x * i
    return total, x * 2, torch.is_grad_enabled()


def left_by_break_of_a_while(x: Tensor):
    n = 0
    while True:
        with torch.enable_grad():
            n += 1
            with torch.no_grad():
                x = x + 1
                if n > 3:
                    break
    return x * 2, n, torch.is_grad_enabled()


def left_by_a_caught_exception(x: Tensor):
    seen = False
    try:
        with torch.no_grad():
            with torch.autocast("cpu"):
                if x.sum() < 100:
                    raise ValueError("small")
    except ValueError:
        seen = True
    return x * 2, seen, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")


def helper_without_grad(x: Tensor):
    with torch.no_grad():
        return x * 2


def callee_with_a_mode(x: Tensor):
    return helper_without_grad(x) + x, torch.is_grad_enabled()


def inference(x: Tensor):
    with torch.inference_mode():
        y = x * 2
        a = torch.is_inference_mode_enabled(), y.is_inference()
        with torch.inference_mode(False):
            z = x * 3
            b = torch.is_inference_mode_enabled()
    return y, z, a, b


def equal_computations(x: Tensor):
    """The same expression under different modes must not be computed once."""
    a = x * 2
    with torch.no_grad():
        b = x * 2
        c = x * 2
    return a.requires_grad, b.requires_grad, c.requires_grad, (x * 2).requires_grad


def autocast_nested(x: Tensor):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = torch.mm(x, x)
        with torch.autocast("cpu", enabled=False):
            b = torch.mm(x, x)
        with torch.autocast(device_type="cpu", dtype=torch.float16, cache_enabled=False):
            c = torch.mm(x, x)
            cached = torch.is_autocast_cache_enabled()
        d = torch.mm(a, x)
        kind = torch.get_autocast_dtype("cpu")
    return [a, b, c, d, torch.mm(x, x)], cached, kind


def old_autocast(x: Tensor):
    with torch.cpu.amp.autocast():
        a = torch.mm(x, x)
    with torch.cpu.amp.autocast(enabled=False):
        b = torch.mm(x, x)
    return a, b


def recorded(x: Tensor):
    with torch.autograd.profiler.record_function("part"):
        y = x * 2
    return y


@torch.no_grad()
def decorated(x: Tensor):
    return x * 2


@torch.autocast("cpu", dtype=torch.bfloat16)
def decorated_autocast(x: Tensor):
    if x.sum() > 0:
        return torch.mm(x, x)
    return torch.mm(x, x + 1)


@torch.enable_grad()
@torch.set_grad_enabled(False)
def decorated_twice(x: Tensor):
    return x * 2, torch.is_grad_enabled()


@torch.inference_mode()
def decorated_inference(x: Tensor):
    return torch.is_inference_mode_enabled()


def calls_decorated(x: Tensor):
    return decorated(x), decorated(x) + x, decorated_twice(x), decorated_inference(x)


PROGRAMS = [
    nested, by_flag, two_in_one, named, left_by_return, left_by_break, left_by_break_of_a_while,
    left_by_a_caught_exception, callee_with_a_mode, inference, equal_computations, autocast_nested, recorded,
    decorated, decorated_autocast, decorated_twice, decorated_inference, calls_decorated,
    pytest.param(old_autocast, marks=pytest.mark.filterwarnings("ignore::FutureWarning")),
]  # fmt: skip


def described(value):
    """What is to be equal of a result."""
    if isinstance(value, Tensor):
        return value.tolist(), value.dtype, value.requires_grad, value.is_inference()
    if isinstance(value, list | tuple):
        return [described(v) for v in value]
    return value


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("outer", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_like_eager(program, outer):
    scripted = jitlite.script(program)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with outer():
        inside = modes()
        for _ in range(2):
            assert described(scripted(x)) == described(program(x))
            assert modes() == inside


def raises_inside(x: Tensor, how: int):
    with torch.no_grad():
        with torch.autocast("cpu"), torch.inference_mode():
            for i in range(how + 1):
                with torch.enable_grad():
                    if how == 0:
                        raise KeyError("here")
                    if how == 1:
                        torch.mm(x, x[0])
                    if how == 2:
                        raise_in_callee(x)
    return x


def raise_in_callee(x: Tensor):
    with torch.set_grad_enabled(False):
        raise LookupError("there")


@pytest.mark.parametrize(("how", "error"), [(0, KeyError), (1, RuntimeError), (2, LookupError)])
def test_modes_are_restored_when_a_script_raises(how, error):
    before = modes()
    with pytest.raises(error):
        jitlite.script(raises_inside)(torch.ones(2, 2), how)
    assert modes() == before


def test_set_grad_enabled_as_a_statement_lasts():
    def f(x: Tensor):
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        z = x * 2
        torch.set_grad_enabled(mode=False)
        return y.requires_grad, z.requires_grad

    x = torch.ones(1, requires_grad=True)
    found = []
    for call in (jitlite.script(f), f):
        with torch.enable_grad():
            found.append((call(x), torch.is_grad_enabled()))
    assert found == [((False, True), False)] * 2


def test_compiling_under_a_mode_leaves_nothing_of_it():
    def f(x: Tensor):
        return x * torch.tensor([2.0, 3.0]) + torch.ones(2) * 4

    scripted = jitlite.script(f)
    with torch.inference_mode(), torch.autocast("cpu"):
        scripted(torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    scripted(x).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]


class Decorated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor):
        return self.frozen(x), self.weight * x

    @torch.no_grad()
    def frozen(self, x: Tensor):
        return self.weight * x + self.again(x)

    @torch.enable_grad()
    def again(self, x: Tensor):
        return self.weight + x


def test_decorated_methods():
    module, x = Decorated(), torch.arange(2.0)
    assert described(jitlite.script(module)(x)) == described(module(x))


def test_a_context_needs_a_call():
    def f(x: Tensor):
        with torch.no_grad:
            return x

    with pytest.raises(jitlite.CompileError, match=r"with torch.no_grad\(\)"):
        jitlite.script(f)
