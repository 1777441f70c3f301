"""Calls of tensor methods and of torch's functions that are more than the operator of their name."""

from __future__ import annotations

import pytest
import torch

import jitlite
from jitlite.base import options
from jitlite.debug.equality import difference

VECTOR = torch.tensor([3.0, 1.0, 1.0, 2.0, 2.0, 2.0])
MATRIX = torch.arange(9.0).reshape(3, 3).cos()


def stft_centred(x: torch.Tensor):
    return x.stft(4, window=torch.ones(4), return_complex=True)


def stft_not_centred(x: torch.Tensor):
    return x.stft(4, window=torch.ones(4), center=False, return_complex=True)


def unique_values(x: torch.Tensor):
    return x.unique()


def unique_with_counts(x: torch.Tensor):
    return x.unique(sorted=True, return_counts=True)


def runs(x: torch.Tensor):
    return x.unique_consecutive()


def runs_with_inverse_and_counts(x: torch.Tensor):
    return x.unique_consecutive(return_inverse=True, return_counts=True)


def named_norms(x: torch.Tensor):
    return x.norm("nuc"), x.norm("fro", [0, 1])


def norms(x: torch.Tensor):
    return x.norm(), x.norm(2, 0), x.norm(p=1, dim=[1], keepdim=True)


def factors(x: torch.Tensor):
    return x.lu()


def item_by_method(x: torch.Tensor):
    return x.__getitem__(1), x.__getitem__((slice(0, 2), 1)), x.__getitem__(x[0] > 0.5)


def conversions(x: torch.Tensor):
    return x.double(memory_format=torch.contiguous_format), x.int(), x.half(memory_format=torch.preserve_format)


def overloads(x: torch.Tensor):
    return (
        torch.ops.aten.add.Tensor(x, x, alpha=2),
        torch.ops.aten.relu.default(x),
        torch.ops.aten.sum.dim_IntList(x, [0]),
    )


def positions(x: torch.Tensor):
    rows, columns = torch.nonzero(x > 0.5, as_tuple=True)
    return rows, columns, x.nonzero(as_tuple=False)


def factories(x: torch.Tensor, flag: bool = True):
    return (
        torch.zeros(2, requires_grad=True),
        torch.ones(2, requires_grad=False),
        x.new_full([2], 3.0, requires_grad=flag),
    )


def written_results(x: torch.Tensor):
    a, b, c = torch.empty(0), torch.empty(0, dtype=torch.int64), torch.empty(0)
    values, _ = torch.max(x, 0, out=(a, b))
    pair = (torch.empty(0), torch.empty(0, dtype=torch.int64))
    torch.topk(x, 2, out=pair)
    torch.svd(x, out=(torch.empty(0), c, torch.empty(0)))
    return values is a, a, b, pair, c


multiply = torch.ops.aten.mul.Scalar


def overload_by_name(x: torch.Tensor):
    return multiply(x, 2)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (stft_centred, VECTOR), (stft_not_centred, VECTOR), (unique_values, VECTOR), (unique_with_counts, VECTOR),
        (runs, VECTOR), (runs_with_inverse_and_counts, VECTOR), (named_norms, MATRIX), (norms, MATRIX),
        (factors, MATRIX), (positions, MATRIX), (factories, MATRIX), (item_by_method, MATRIX), (conversions, MATRIX),
        (overloads, MATRIX), (overload_by_name, MATRIX), (written_results, MATRIX),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_as_in_eager(function, argument):
    assert difference(function(argument), jitlite.script(function)(argument)) is None


def test_the_operator_is_used_where_it_fits():
    kinds = {node.kind for node in jitlite.script(norms).graph.nodes}
    assert "aten::norm" in kinds and "prim::CallFunction" not in kinds


def test_a_subscript_by_method_evaluates_its_subject_once():
    def f(x: torch.Tensor):
        return x.add_(1).__getitem__(0)

    x = torch.zeros(2)
    assert jitlite.script(f)(x) == 1
    assert x.tolist() == [1, 1]


def test_the_named_overload_is_the_one_that_is_called():
    (node,) = [n for n in jitlite.script(overload_by_name).graph.nodes if n.kind == "aten::mul"]
    assert node.op.schema.overload == "Scalar"


def test_out_takes_as_many_tensors_as_there_are_results():
    def f(x: torch.Tensor):
        return torch.add(x, 1, out=(x, x))

    with pytest.raises(jitlite.CompileError, match="Arguments for call are not valid"):
        jitlite.script(f)


def test_an_overload_does_not_take_what_another_one_would():
    def f(x: torch.Tensor):
        return torch.ops.aten.mul.Tensor(x, "a")

    with pytest.raises(jitlite.CompileError, match="Tensor"):
        jitlite.script(f)


def test_an_unknown_overload_names_the_known_ones():
    def f(x: torch.Tensor):
        return torch.ops.aten.relu.Tensor(x)

    with pytest.raises(jitlite.CompileError, match="has no overload 'Tensor'") as caught:
        jitlite.script(f)
    assert "default" in str(caught.value)


def test_a_flag_that_decides_the_type_is_constant():
    def f(x: torch.Tensor, flag: bool):
        return x.nonzero(as_tuple=flag)

    with pytest.raises(jitlite.CompileError, match="'as_tuple' has to be True or False"):
        jitlite.script(f)


def test_only_factories_take_requires_grad():
    def f(x: torch.Tensor):
        return torch.relu(x, requires_grad=True)

    with pytest.raises(jitlite.CompileError, match="requires_grad"):
        jitlite.script(f)


def test_a_conversion_takes_no_other_argument():
    def f(x: torch.Tensor):
        return x.float(True)

    with pytest.raises(jitlite.CompileError, match="memory_format"):
        jitlite.script(f)


def test_a_method_that_fits_neither_way_says_why():
    def f(x: torch.Tensor):
        return x.unique(3, 4, 5, 6, 7)

    with pytest.raises(jitlite.CompileError):
        jitlite.script(f)


@pytest.mark.parametrize("tier", options.TIERS)
def test_methods_of_python_have_forward_derivatives(tier):
    def f(x: torch.Tensor):
        return x.norm() + x.norm(3.0) + x.norm(dim=0).sum() + x.norm(2, [0, 1]) + x.split(1)[0].sum()

    x = torch.rand(3, 2)
    with options.override(tier=tier):
        got = torch.func.jvp(jitlite.script(f), (x,), (torch.ones_like(x),))
    assert difference(torch.func.jvp(f, (x,), (torch.ones_like(x),)), got) is None
