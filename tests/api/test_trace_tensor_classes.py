"""Traces of tensors of other layouts, and of classes that inherit from Tensor."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import jitlite
from jitlite.debug.equality import difference
from jitlite.frontend.tracing.trace_warnings import TracerWarning
from jitlite.ir.compare import canonical_text

DENSE = torch.arange(6.0).reshape(2, 3)


def nested(layout=torch.strided):
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)


LAYOUTS = {
    "nested": nested,
    "coo": DENSE.to_sparse,
    "csr": DENSE.to_sparse_csr,
    "csc": DENSE.to_sparse_csc,
    "bsr": lambda: torch.ones(2, 2).to_sparse_bsr((1, 1)),
    "mkldnn": DENSE.to_mkldnn,
    "meta": lambda: DENSE.to("meta"),
}


def double(x):
    return x * 2


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", TracerWarning)
        yield


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_tensor_of_another_layout_is_traced_and_checked(name):
    make = LAYOUTS[name]
    traced = jitlite.trace(double, (make(),))
    assert difference(double(make()), traced(make())) is None


@pytest.mark.parametrize("name", [n for n in LAYOUTS if n != "meta"])
def test_a_constant_of_another_layout_is_traced_and_checked(name):
    constant = LAYOUTS[name]()

    def f(x):
        return x + 1, constant, constant * 2

    traced = jitlite.trace(f, (DENSE,))
    assert canonical_text(traced.graph) and traced(DENSE)[1] is constant
    assert difference(f(DENSE), traced(DENSE)) is None


@pytest.mark.parametrize("name", ["nested", "coo", "csr"])
def test_the_check_sees_what_differs(name):
    make, calls = LAYOUTS[name], []

    def f(x):
        calls.append(x)
        return x * len(calls)

    with pytest.raises(TracerWarning, match="does not match"):
        jitlite.trace(f, (make(),))


def test_differences_of_other_layouts_are_told():
    ones = nested()
    assert "values" in difference(ones, ones * 2)
    assert "shape" in difference(ones, torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(5, 3)]))
    assert "layout" in difference(DENSE.to_sparse_csr(), DENSE)
    assert "values" in difference(DENSE.to_sparse_csr(), (DENSE * 2).to_sparse_csr())


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_is_not_saved(layout, tmp_path):

    class Holds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("t", nested(layout))

        def forward(self, x):
            return x

    with pytest.raises(jitlite.NotSupportedError, match="nested tensor"):
        jitlite.save(jitlite.script(Holds()), tmp_path / "m.pt")


class Named(torch.Tensor):
    """A class without operators of its own."""


class Counted(torch.Tensor):
    """A class that looks at calls of functions."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen += 1
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("cls", [Named, Counted])
def test_results_of_a_class_of_tensors_are_of_that_class(cls):
    def f(x):
        y = x * 2
        assert type(y) is cls
        y.add_(1)
        return torch.relu(y).sum(0), y

    traced = jitlite.trace(f, (DENSE.as_subclass(cls),))
    assert difference([t.as_subclass(torch.Tensor) for t in f(DENSE.as_subclass(cls))], list(traced(DENSE))) is None
    x = torch.ones(2, 3, requires_grad=True)
    traced(x)[0].sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_a_cast_to_a_class_in_a_trace():
    def f(x):
        return torch.cos(x.as_subclass(Named)).as_subclass(torch.Tensor)

    traced = jitlite.trace(f, (DENSE,))
    assert torch.equal(traced(DENSE), DENSE.cos())
    assert [n.kind for n in traced.graph.nodes] == ["aten::cos"]


def test_a_class_with_operators_of_its_own_is_refused():
    two = TwoTensor(DENSE, DENSE)
    with pytest.raises(RuntimeError, match="A TwoTensor, whose class has a __torch_dispatch__, cannot be traced"):
        jitlite.trace(double, (two,))
    with pytest.raises(RuntimeError, match="A TwoTensor"):
        jitlite.trace(lambda x: x + torch.relu(two), (DENSE,))
    assert torch.equal((two * 2).a, DENSE * 2)
