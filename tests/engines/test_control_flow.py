"""Branches and loops that depend on what is in tensors, as ONNX."""

from __future__ import annotations

import re

import pytest
import torch
from control_flow_models import of_growing_sizes, of_one_size
from engine_checks import assert_engine_computed
from torch import Tensor

import jitlite

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NAMES = [*of_one_size(), "grows"]


def case(name: str):
    return of_growing_sizes() if name == "grows" else of_one_size()[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_as_onnx(name):
    model, calls, varying = case(name)
    made = jitlite.to_onnx(model, calls[0], dynamic_shapes={n: [0] for n in varying})
    onnx.checker.check_model(made, full_check=True)
    assert {n.op_type for n in made.graph.node} & {"If", "Loop"}
    session = onnxruntime.InferenceSession(made.SerializeToString())
    names = [i.name for i in session.get_inputs()]
    for args in calls:
        tensors = [a.numpy() for a in args if isinstance(a, Tensor)]
        found = [torch.from_numpy(a) for a in session.run(None, dict(zip(names, tensors, strict=True)))]
        with torch.no_grad():
            expected = model(*args)
        wanted = [torch.as_tensor(v) for v in (expected if isinstance(expected, tuple) else (expected,))]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_runs_it_whole(name):
    model, calls, varying = case(name)
    fast = jitlite.optimize(model, calls[0], engine="onnxruntime", dynamic_shapes={n: [0] for n in varying})
    with torch.no_grad():
        for args in calls:
            torch.testing.assert_close(fast(*args), model(*args), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert_engine_computed(fast, most_compiled=1)


@jitlite.script
def changes_rank(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        x = x[0]
    return x + 1


@jitlite.script
def raises(x: Tensor) -> Tensor:
    while bool(x.sum() < 10):
        if bool((x < 0).any()):
            raise ValueError("negative")
        x = x + 1
    return x * 2


@jitlite.script
def of_a_float(x: Tensor) -> Tensor:
    for _ in range(int(x.sum())):
        x = x * 2
    return x + 1


REFUSED = {
    "rank": (changes_rank, "prim::If, 1 time: dtype and rank", 0),
    "raises": (raises, "prim::RaiseException", 3),
    "an int of a float": (of_a_float, "aten::Int, 1 time: it makes an int of a float", 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused_with_its_line(name):
    f, says, _ = REFUSED[name]
    with pytest.raises(jitlite.NotSupportedError, match=says) as info:
        jitlite.to_onnx(f, torch.ones(2, 3))
    assert info.value.code == "J0812" and re.search(r"test_control_flow\.py:\d+", str(info.value))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_runs_outside_of_groups(name):
    f = REFUSED[name][0]
    fast = jitlite.optimize(f, torch.ones(2, 3), engine="onnxruntime")
    for x in (torch.ones(2, 3), torch.zeros(2, 3), torch.ones(2, 3) * 2):
        torch.testing.assert_close(fast(x), f(x))
    if name == "raises":
        with pytest.raises(Exception, match="negative"):
            fast(torch.ones(2, 3) - 2)


def test_a_tensor_of_several_elements_is_no_condition():
    def f(x: Tensor) -> Tensor:
        if x > 0:
            x = x + 1
        return x.sin() * 2

    fast = jitlite.optimize(f, torch.ones(1), engine="onnxruntime", dynamic_shapes={"x": [0]})
    torch.testing.assert_close(fast(torch.ones(1)), f(torch.ones(1)))
    with pytest.raises(RuntimeError, match="more than one value"):
        fast(torch.ones(2))


@pytest.mark.without_engine
def test_a_write_in_a_branch_is_refused_with_its_line():
    @jitlite.script
    def writes(x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            x.mul_(2)
        return x + 1

    with pytest.raises(jitlite.NotSupportedError, match=r"aten::mul_ \(.*test_control_flow.py:\d+"):
        jitlite.to_onnx(writes, torch.ones(3))
    fast = jitlite.optimize(writes, torch.ones(3), engine="onnxruntime")
    x = torch.ones(3)
    assert torch.equal(fast(x), torch.full((3,), 3.0)) and torch.equal(x, torch.full((3,), 2.0))


def decided(x: Tensor, flag: bool) -> tuple[Tensor, bool]:
    """A bool is made of tensors, one is used with tensors, and both decide a branch that jitlite runs."""
    large = bool(x.abs().max() > 1)
    y = torch.where(torch.tensor(flag), x + 1, x * 2)
    if large and flag:
        y = y * 2
    return y.sin() + 1, large


@pytest.mark.parametrize("engine", ["reference", "onnxruntime", "iree"])
def test_bools_go_into_groups_and_come_out(engine):
    if engine == "iree":
        pytest.importorskip("iree.compiler")
    fast = jitlite.optimize(
        jitlite.script(decided), (torch.ones(3), True), engine=engine, deny=["prim::If"], dynamic_shapes={"x": [0]}
    )
    for x in (torch.ones(4), torch.ones(2) * 3):
        for flag in (True, False):
            found, expected = fast(x, flag), decided(x, flag)
            torch.testing.assert_close(found[0], expected[0])
            assert found[1] is expected[1]
    told = fast.explain()
    assert "a value of it that is no tensor or number" not in told and not fast.counters.fallbacks, told
    assert "the model as it was" not in told and "group 0" in told, told
