"""Views, writes and copies of tensor objects in traces below autograd: every kind of view with every kind of write."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import nn

import jitlite
from jitlite.base.source import CompileError
from jitlite.debug.equality import difference

VIEWS = {
    "itself": lambda x: x,
    "alias": lambda x: torch.ops.aten.alias(x),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(2, 6),
    "select": lambda x: x[1],
    "slice": lambda x: x[:, 1:3],
    "step": lambda x: x[:, ::2],
    "transpose": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "unbind": lambda x: x.unbind(0)[2],
    "split": lambda x: x.split(2, 1)[1],
    "chunk": lambda x: x.chunk(2)[0],
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 2), 1),
    "expand": lambda x: x.expand(1, 3, 4),
    "narrow of select": lambda x: x.select(0, 2).narrow(0, 1, 2),
    "select of transpose": lambda x: x.t()[1:][0],
    "bits": lambda x: x.view(torch.int32).view(torch.float32),
    "complex": lambda x: torch.view_as_complex(x.view(3, 2, 2)),
}  # fmt: skip


def out_of_add(v):
    torch.add(v, v, out=v)


def through_mask(v):
    v[v.abs() > 0.5] = 3.0 if not v.is_complex() else 3j


def set_item(v):
    v[0] = v[1] * 2


def renamed(v):
    v.unsqueeze_(0)
    v.add_(1)


WRITES = {
    "add_": lambda v: v.add_(1),
    "mul_ with itself": lambda v: v.mul_(v),
    "copy_": lambda v: v.copy_(torch.arange(v.numel()).reshape(v.shape) + 0.5),
    "copy_ of one": lambda v: v.copy_(torch.ones(1, dtype=torch.float64)),
    "fill_": lambda v: v.fill_(7),
    "zero_": lambda v: v.zero_(),
    "out": out_of_add,
    "set_item": set_item,
    "twice": lambda v: v.add_(1).mul_(2),
    "masked_fill_": lambda v: v.masked_fill_(torch.ones_like(v, dtype=torch.bool), 5),
    "index_add_": lambda v: v.index_add_(0, torch.tensor([0, 0]), v[:2] * 1),
    "unsqueeze_": renamed,
}
ORDERS = {
    "base": lambda x, v, w: (x * 2,),
    "view": lambda x, v, w: (v * 2, x * 2),
    "other": lambda x, v, w: (w * 2, x * 2, v * 2),
}


def program(view, write, order, through_base):
    def run(x):
        before = x + 0
        v, w = view(x), x[1:, 1:]
        write(x if through_base else v)
        return (before, *order(x, v, w))

    return run


class Holder(nn.Module):
    """Applies a program to a parameter or a buffer."""

    def __init__(self, kind, run, start):
        super().__init__()
        if kind == "parameter":
            self.held = nn.Parameter(start)
        else:
            self.register_buffer("held", start)
        self.run = run

    def forward(self, y):
        with torch.no_grad():
            return self.run(self.held) + (y * 1,)


def start():
    return torch.linspace(-1, 1, 12).reshape(3, 4).clone()


def of_intermediate(run):
    return lambda x: run(x * 1)


def outcome(function, x):
    x = x.clone()
    try:
        return function(x), x
    except Exception as error:
        return type(error), None


def check(kind, run, name, **options):
    if kind in ("parameter", "buffer"):
        eager, module = Holder(kind, run, start()), Holder(kind, run, start())
        expected = outcome(eager, torch.ones(2))
        if isinstance(expected[0], type):
            return
        # a write without gradients into what has some has no functional form
        with torch.set_grad_enabled(not options["functional"]):
            traced = jitlite.trace(module, (torch.ones(2),), level="dispatcher", check_trace=False, **options)
            module.held.data = start()
            assert [m.name for m in traced.mutations] == ["held"] and traced.mutations[0].kind == kind
            assert difference(expected, outcome(traced, torch.ones(2))) is None, name
        assert difference(eager.held.detach(), module.held.detach()) is None, name
        return
    function = of_intermediate(run) if kind == "intermediate" else run
    expected = outcome(function, start())
    if isinstance(expected[0], type):
        return
    traced = jitlite.trace(function, (start(),), level="dispatcher", check_trace=False, **options)
    assert [m.name for m in traced.mutations] == (["x"] if kind == "input" else []), name
    assert difference(expected, outcome(traced, start())) is None, name


@pytest.mark.slow
@pytest.mark.parametrize("functional", [False, True], ids=["aliases", "functional"])
@pytest.mark.parametrize("view", VIEWS)
def test_views_and_writes(view, functional):
    combinations = list(itertools.product(WRITES, ORDERS, [False, True]))
    first = list(VIEWS).index(view)
    for number, (write, order, through_base) in list(enumerate(combinations, first))[first % 5 :: 5]:
        kind = ("input", "intermediate", "buffer", "parameter")[number % 4]
        run = program(VIEWS[view], WRITES[write], ORDERS[order], through_base)
        if functional and not has_functional_form(view, write, through_base, kind):
            continue
        check(kind, run, f"{view}, {write}, {order}, base={through_base}, {kind}", functional=functional)


def has_functional_form(view, write, through_base, kind):
    if write == "unsqueeze_" and view in ("itself",) and kind != "intermediate":
        return False  # makes an argument a view of itself
    return not (write == "unsqueeze_" and through_base and kind != "intermediate")


@pytest.mark.slow
@pytest.mark.parametrize("functional", [False, True], ids=["aliases", "functional"])
@pytest.mark.parametrize("kind", ["input", "intermediate", "buffer", "parameter"])
def test_all_combinations(kind, functional):
    reads = itertools.cycle([*itertools.product(ORDERS, [False, True])][:5])  # no common factor with the writes
    for (view, write), (order, through_base) in zip(itertools.product(VIEWS, WRITES), reads, strict=False):
        if not functional or has_functional_form(view, write, through_base, kind):
            run = program(VIEWS[view], WRITES[write], ORDERS[order], through_base)
            check(kind, run, f"{view}, {write}, {order}, base={through_base}, {kind}", functional=functional)


STEPS = [
    lambda a: a.mul_(2), lambda a: a[0].add_(1), lambda a: a.t(), lambda a: a.detach(), lambda a: a * 1,
    lambda a: a.view(-1)[1:].view(-1), lambda a: a.unsqueeze(0), lambda a: a.sin(), lambda a: a.reshape(-1),
    lambda a: a.data, lambda a: a.exp_(), lambda a: a.clamp_(-1, 1), torch.relu_, lambda a: a.narrow(0, 0, 1),
    lambda a: a.zero_(), lambda a: a.softmax(0), lambda a: a.copy_(a * 2),
]  # fmt: skip


def random_program(seed):
    """Applies steps at random to what there is so far; those that eager refuses are left out."""
    chooser = random.Random(seed)
    plan = [(chooser.choice(STEPS), chooser.random()) for _ in range(7)]

    def run(x):
        values = [x * 1]
        for step, which in plan:
            try:
                values.append(step(values[int(which * len(values))]))
            except CompileError:
                raise
            except (RuntimeError, IndexError):
                continue
        return tuple(values)

    return run


def with_gradients(function):
    x = start().requires_grad_()
    results = function(x)
    wanted = [t for t in results if t.requires_grad]
    try:
        return results, torch.autograd.grad([t.sum() for t in wanted], x, allow_unused=True) if wanted else ()
    except RuntimeError:
        return results, None


@pytest.mark.parametrize("functional", [False, True], ids=["aliases", "functional"])
def test_random_programs_and_their_gradients(functional):
    traces = 0
    for seed in range(60):
        run = random_program(seed)
        example = start().requires_grad_()
        try:
            traced = jitlite.trace(run, example, level="dispatcher", check_trace=False, functional=functional)
        except CompileError as error:
            assert functional and "has no functional form" in str(error)
            continue
        traces += 1
        expected, found = with_gradients(run), with_gradients(traced)
        if expected[1] is None and functional:  # what was kept for the gradients has been written
            expected, found = expected[0], found[0]
        assert difference(expected, found) is None, seed
    assert traces > 20
