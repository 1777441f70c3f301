"""Objects of dataclasses as inputs and results of traces."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import pytest
import torch
from torch import Tensor

import jitlite


@dataclass
class Pair:
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Batch:
    pair: Pair
    many: List[Tensor]
    named: Dict[str, Tensor]
    scale: float = 2.0
    size: int = 2
    mask: Optional[Tensor] = None
    mode: str = "sum"
    training: bool = False


def pair(start: float = 1.0) -> Pair:
    return Pair(torch.arange(3.0) + start, torch.ones(3) * start)


def batch(**given) -> Batch:
    values = {"pair": pair(), "many": [torch.ones(3), torch.full((3,), 2.0)], "named": {"a": torch.ones(3)}}
    return Batch(**{**values, **given})


def of_batch(b: Batch) -> Tensor:
    total = b.pair.x * b.scale + b.many[1] + b.named["a"] + b.size
    if b.mask is not None:
        total = total * b.mask
    if b.training:
        total = total + 1
    return total.sum() if b.mode == "sum" else total


def swapped(p: Pair) -> Pair:
    return Pair(p.y * 2, p.x)


def again(p: Pair, k: int) -> Pair:
    return p


def with_total(p: Pair):
    return p.x.sum(), Pair(p.x, p.x + p.y)


def test_fields_are_followed():
    traced = jitlite.trace(of_batch, (batch(),))
    others = batch(pair=pair(5.0), scale=0.5, size=7, named={"a": torch.full((3,), 9.0)})
    assert torch.equal(traced(others), of_batch(others))


def test_an_example_need_not_be_in_a_tuple():
    traced = jitlite.trace(swapped, pair())
    found, expected = traced(pair(4.0)), swapped(pair(4.0))
    assert type(found) is Pair and torch.equal(found.x, expected.x) and torch.equal(found.y, expected.y)


@pytest.mark.parametrize("mode", ["sum", "none"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("mask", [None, torch.tensor([1.0, 0.0, 1.0])])
def test_what_decides_is_checked_in_later_calls(mode, training, mask):
    given = batch(mode=mode, training=training, mask=mask)
    traced = jitlite.trace(of_batch, (given,))
    assert torch.equal(traced(given), of_batch(given))
    with pytest.raises(ValueError, match="Batch.mode was"):
        traced(batch(mode="other", training=training, mask=mask))
    with pytest.raises(ValueError, match="Batch.training was"):
        traced(batch(mode=mode, training=not training, mask=mask))
    with pytest.raises(ValueError, match="Batch.mask was"):
        traced(batch(mode=mode, training=training, mask=None if mask is not None else torch.ones(3)))


def test_an_input_that_is_given_back_is_the_same_object():
    traced = jitlite.trace(again, (pair(), 3))
    given = pair()
    assert traced(given, 3) is given


def test_results_among_others():
    traced = jitlite.trace(with_total, (pair(),))
    total, made = traced(pair(2.0))
    assert torch.equal(total, pair(2.0).x.sum()) and torch.equal(made.y, pair(2.0).x + pair(2.0).y)


def test_gradients_reach_the_fields():
    given = pair()
    given.x.requires_grad_()
    jitlite.trace(swapped, (pair(),))(given).y.sum().backward()
    assert torch.equal(given.x.grad, torch.ones(3))


def test_a_module_takes_them_too():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, p: Pair):
            return self.layer(p.x) + p.y.sum()

    net = Net()
    traced = jitlite.trace(net, (pair(),))
    assert torch.equal(traced(pair(3.0)), net(pair(3.0)))
    kept = io.BytesIO()
    jitlite.save(traced, kept)
    kept.seek(0)
    assert "Pair" in jitlite.load(kept).code
    kept.seek(0)
    assert "Pair" in str(torch.jit.load(kept).graph)


def test_the_same_object_twice():
    traced = jitlite.trace(lambda p, q: p.x + q.y, (pair(), pair()))
    one = pair(6.0)
    assert torch.equal(traced(one, one), one.x + one.y)


def test_by_keyword_and_with_checks_of_shapes():
    traced = jitlite.trace(swapped, example_kwarg_inputs={"p": pair()}, check_shapes=True)
    assert torch.equal(traced(pair(2.0)).x, swapped(pair(2.0)).x)


def test_functions_that_set_a_field_are_refused():
    def sets(p: Pair) -> Tensor:
        p.x = p.x + 1
        return p.x

    given = pair()
    with pytest.raises(RuntimeError, match="sets 'x' of an argument of the class Pair"):
        jitlite.trace(sets, (given,))
    assert torch.equal(given.x, pair().x), "the example is as it was"


def test_a_tensor_of_a_field_that_is_written_is_written():
    def writes(p: Pair) -> Tensor:
        p.x.add_(1)
        return p.x * p.y

    traced = jitlite.trace(writes, (pair(),), check_trace=False)
    given = pair(2.0)
    traced(given)
    assert torch.equal(given.x, pair(3.0).x)


# -- below autograd


def test_fields_are_followed_at_the_dispatcher():
    traced = jitlite.trace(of_batch, (batch(),), level="dispatcher")
    others = batch(pair=pair(5.0), named={"a": torch.full((3,), 9.0)})
    assert torch.equal(traced(others), of_batch(others))
    with pytest.raises((ValueError, RuntimeError), match="b.scale: the trace was made for 2.0"):
        traced(batch(scale=3.0))
    with pytest.raises((ValueError, RuntimeError), match="b.mode: the trace was made for sum"):
        traced(batch(mode="none"))
    with pytest.raises((ValueError, RuntimeError), match="b.mask: the trace was made for None"):
        traced(batch(mask=torch.ones(3)))


def test_results_and_inputs_given_back_at_the_dispatcher():
    traced = jitlite.trace(swapped, (pair(),), level="dispatcher")
    found, expected = traced(pair(4.0)), swapped(pair(4.0))
    assert type(found) is Pair and torch.equal(found.x, expected.x) and torch.equal(found.y, expected.y)
    given = pair()
    assert jitlite.trace(again, (pair(), 3), level="dispatcher")(given, 3) is given
    total, made = jitlite.trace(with_total, (pair(),), level="dispatcher")(pair(2.0))
    assert torch.equal(total, pair(2.0).x.sum()) and torch.equal(made.y, pair(2.0).x + pair(2.0).y)


def test_sizes_that_vary_within_objects():
    traced = jitlite.trace(swapped, (pair(),), level="dispatcher", dynamic_shapes={"p.x": [0], "p.y": [0]})
    given = Pair(torch.arange(5.0), torch.ones(5))
    assert torch.equal(traced(given).x, swapped(given).x)


def test_functions_that_set_a_field_are_refused_at_the_dispatcher():
    def sets(p: Pair) -> Tensor:
        p.x = p.x + 1
        return p.x

    with pytest.raises(RuntimeError, match="sets 'x' of an argument of the class Pair"):
        jitlite.trace(sets, (pair(),), level="dispatcher")


@dataclass
class Odd:
    x: Tensor
    where: torch.device


def test_a_field_that_cannot_be_an_input_is_named():
    with pytest.raises(RuntimeError, match=r"Odd.where: Type 'Device' cannot be traced"):
        jitlite.trace(lambda odd: odd.x + 1, (Odd(torch.ones(1), torch.device("cpu")),))


@dataclass
class Counted:
    x: Tensor
    counts: List[int] = field(default_factory=list)


def test_a_list_that_is_empty_is_refused_as_elsewhere():
    with pytest.raises(RuntimeError, match=r"Counted.counts: .*must have elements"):
        jitlite.trace(lambda given: given.x + 1, (Counted(torch.ones(1)),))


@dataclass
class Linked:
    x: Tensor
    more: Optional[Pair] = None


@pytest.mark.parametrize("level", ["python", "dispatcher"])
def test_objects_that_are_part_of_themselves_are_refused(level):
    linked = Linked(torch.ones(1))
    linked.more = linked
    for function, given in ((lambda given: given.x + 1, linked), (lambda x: linked, torch.ones(1))):
        with pytest.raises(RuntimeError, match="a Linked that is part of itself cannot be traced"):
            jitlite.trace(function, (given,), level=level)


@dataclass
class Measured:
    x: Tensor
    count: int
    share: float = 0.5
    name: str = "a"


@pytest.mark.parametrize("level", ["python", "dispatcher"])
def test_fields_of_a_result_may_be_constants(level):
    def f(x):
        return Measured(x + 1, 3)

    def g(x):
        return Measured(x + 1, x.shape[0], 2.5, "b")

    assert jitlite.trace(f, torch.ones(2), level=level)(torch.zeros(2)).count == 3
    traced = jitlite.trace(g, torch.ones(2), level=level)
    other = torch.ones(2 if level == "dispatcher" else 5)  # sizes are followed at Python's level
    found, wanted = traced(other), g(other)
    assert torch.equal(found.x, wanted.x)
    assert (found.count, found.share, found.name) == (wanted.count, wanted.share, wanted.name)


def test_back_ends_of_other_kinds_refuse_what_is_part_of_itself():
    from jitlite.frontend.tracing.trace_backend import TraceBackend

    class Nothing(TraceBackend):
        def add_input(self, name, example):
            return name

        def add_parameter(self, name, tensor, kind):
            return name

        def add_constant(self, tensor):
            return tensor

        def add_output(self, value):
            pass

        def fallback(self, op, args, results):
            return [None] * len(results)

        def finalize(self):
            return None

    circle = [torch.ones(2)]
    circle.append(circle)
    for f, given in ((lambda many: many[0] + 1, circle), (lambda x: circle, torch.ones(2))):
        with pytest.raises(RuntimeError, match="list that is part of itself"):
            jitlite.trace(f, (given,), level="dispatcher", backend=Nothing(), check_trace=False)
