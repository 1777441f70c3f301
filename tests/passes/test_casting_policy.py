"""Policies for half precision: what is cast to what, and that nothing is without one."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jitlite
from jitlite.compat.testing import create_function_from_graph
from jitlite.passes.casting_policy import AutocastPolicy, CastingOptions, cast_by_policy

HALF, FLOAT = torch.float16, torch.float32
POLICY = CastingOptions(policy=AutocastPolicy())


def tensors(*dtypes):
    return [torch.arange(6.0).reshape(2, 3).add_(1).to(d) for d in dtypes]


def dtype_after(function, options, *inputs):
    """The dtype of the result of the traced function, cast by the options."""
    graph = jitlite.trace(function, tuple(inputs), check_trace=False).graph.copy()
    cast_by_policy(graph, options, inputs)
    result = create_function_from_graph("f", graph)(*inputs)
    return result.dtype


# -- the truth table: what a model written for half precision means

PROGRAMS = {
    "to the other's dtype": (lambda x, y: x.to(torch.float16) + y, HALF, HALF, HALF),
    "to float32": (lambda x, y: x.to(torch.float32) + y, HALF, HALF, FLOAT),
    "zeros": (lambda x, y: torch.zeros(2, 3, dtype=torch.float32) + x, HALF, FLOAT, FLOAT),
    "rand": (lambda x, y: torch.rand(2, 3, dtype=torch.float32) + x, HALF, FLOAT, FLOAT),
}


@pytest.mark.parametrize("half_casts", ["downcast_to_half", "upcast_to_float"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_requests_for_float32_mean_half_or_float(name, half_casts):
    program, if_half, if_float, _ = PROGRAMS[name]
    options = CastingOptions(half_casts=half_casts)
    assert dtype_after(program, options, *tensors(HALF, HALF)) is if_half
    assert dtype_after(program, options, *tensors(FLOAT, HALF)) is if_float


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_is_pytorch(name):
    program, _, _, native = PROGRAMS[name]
    for inputs in (tensors(HALF, HALF), tensors(FLOAT, HALF)):
        assert dtype_after(program, CastingOptions(), *inputs) is program(*inputs).dtype
    assert dtype_after(program, CastingOptions(), *tensors(HALF, HALF)) is native


def test_native_changes_nothing():
    graph = jitlite.trace(lambda x, y: x.to(torch.float32) + y, tuple(tensors(HALF, FLOAT))).graph
    text = str(graph)
    assert not cast_by_policy(graph, CastingOptions(), tensors(HALF, FLOAT))
    assert str(graph) == text


@pytest.mark.parametrize("half_casts, expected", [("downcast_to_half", HALF), ("upcast_to_float", FLOAT)])
def test_mixed_operands(half_casts, expected):
    options = CastingOptions(half_casts=half_casts)
    assert dtype_after(lambda x, y: x + y, options, *tensors(HALF, FLOAT)) is expected
    assert dtype_after(lambda x, y: torch.where(x > 2, x, y), options, *tensors(FLOAT, HALF)) is expected
    assert dtype_after(lambda x, y: torch.cat([x, y]), options, *tensors(FLOAT, HALF)) is expected
    assert dtype_after(lambda x, y: x + y, options, *tensors(FLOAT, FLOAT)) is FLOAT


@pytest.mark.parametrize("half_casts", ["downcast_to_half", "upcast_to_float"])
def test_writes_cast_to_what_is_written(half_casts):
    options = CastingOptions(half_casts=half_casts)
    assert dtype_after(lambda x, y: (x * 1).add_(y), options, *tensors(HALF, FLOAT)) is HALF
    assert dtype_after(lambda x, y: (x * 1).mul_(y), options, *tensors(FLOAT, HALF)) is FLOAT


def test_float16_is_taken_at_its_word():
    options = CastingOptions(half_casts="upcast_to_float")
    assert dtype_after(lambda x, y: x.to(torch.float16), options, *tensors(FLOAT, FLOAT)) is HALF


def test_a_request_that_meets_nothing_is_float32():
    options = CastingOptions(half_casts="downcast_to_half")
    assert dtype_after(lambda x: x.to(torch.float32) * 2, options, *tensors(HALF)) is FLOAT


def test_other_types_are_left_alone():
    options = CastingOptions(half_casts="downcast_to_half")
    assert dtype_after(lambda x, y: x + y, options, *tensors(torch.float64, HALF)) is torch.float64
    assert dtype_after(lambda x, y: x + y, options, *tensors(torch.int64, FLOAT)) is FLOAT
    assert dtype_after(lambda x, y: x + y, options, *tensors(torch.bfloat16, FLOAT)) is FLOAT


# -- running statistics


def torch_dtype_of(cast):
    code = cast.inputs[1].node.attributes["value"]
    return {5: HALF, 6: FLOAT}.get(code, code)


@pytest.mark.parametrize("always, expected", [(True, FLOAT), (False, HALF)])
def test_running_statistics(always, expected):
    norm = nn.BatchNorm1d(3).eval()
    norm.running_mean.fill_(1)
    if always:
        norm.half()
    traced = jitlite.trace(norm, torch.ones(2, 3).half(), check_trace=False)
    graph = traced.graph.copy()
    options = CastingOptions(running_statistics_always_float=always)
    assert cast_by_policy(graph, options, [torch.ones(2, 3).half()], traced)
    casts = [n for n in graph.nodes if n.kind == "aten::to"]
    assert len(casts) == 4
    assert {torch_dtype_of(n) for n in casts} == {expected}
    result = create_function_from_graph("f", graph)(traced, torch.ones(2, 3).half())
    assert result.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("always", [True, False])
def test_statistics_of_a_layer_that_trains_are_cast_and_written_back(always):
    norm = nn.BatchNorm1d(3)
    if always:
        norm.half()
    expected = copy.deepcopy(norm).float()
    traced = jitlite.trace(norm, torch.ones(2, 3).half(), check_trace=False)
    norm.running_mean.zero_(), norm.running_var.fill_(1)
    graph = traced.graph.copy()
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 8.0, 4.0]]).half()
    assert cast_by_policy(graph, CastingOptions(running_statistics_always_float=always), [x], traced)
    assert [n.kind for n in graph.nodes].count("aten::copy_") == 2
    result = create_function_from_graph("f", graph)(traced, x)
    torch.testing.assert_close(result.float(), expected(x.float()), rtol=1e-2, atol=1e-2)
    assert norm.running_mean.dtype is (HALF if always else FLOAT)
    torch.testing.assert_close(norm.running_mean.float(), expected.running_mean, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(norm.running_var.float(), expected.running_var, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_are_written_back_only_where_the_layer_trains(training):
    def normalized(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, training: bool):
        return torch.nn.functional.batch_norm(x, mean, var, None, None, training)

    graph = jitlite.script(normalized).inlined_graph
    third = torch.full((3,), 1 / 3)
    given = [torch.tensor([[1.0, 2.0, 4.0], [3.0, 8.0, 4.0]]).half(), third.clone(), third.clone(), training]
    assert cast_by_policy(graph, CastingOptions(running_statistics_always_float=False), given)
    create_function_from_graph("f", graph)(*given)
    assert torch.equal(given[1], third) is not training  # 1/3 is not rounded to half


# -- the four lists


def test_functions_of_the_lists():
    policy = AutocastPolicy(fp16=frozenset({"matmul"}), fp32=frozenset({"exp"}), demote=frozenset({"mul"}))
    options = CastingOptions(policy=policy)
    assert dtype_after(torch.matmul, options, *tensors(FLOAT)[:1], torch.ones(3, 2)) is HALF
    assert dtype_after(torch.exp, options, *tensors(HALF)) is FLOAT
    assert dtype_after(torch.mul, options, *tensors(HALF, FLOAT)) is HALF
    assert dtype_after(torch.mul, options, *tensors(FLOAT, FLOAT)) is FLOAT
    assert dtype_after(torch.add, options, *tensors(HALF, FLOAT)) is FLOAT  # in no list
    assert dtype_after(lambda x, y: torch.cat([x, y]), POLICY, *tensors(HALF, FLOAT)) is FLOAT
    assert dtype_after(lambda x, y: torch.cat([x, y]), POLICY, *tensors(HALF, HALF)) is HALF


def test_a_name_is_in_one_list():
    with pytest.raises(ValueError, match="add is in more than one list"):
        AutocastPolicy(fp32=frozenset({"add"}), demote=frozenset({"add"}))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, x):
        return F.relu(self.first(x)), self.second(x)


def dtypes_of_net(net, options):
    x = torch.ones(2, 3)
    traced = jitlite.trace(net, x, check_trace=False)
    graph = traced.graph.copy()
    cast_by_policy(graph, options, [x], traced)
    assert all(not n.scope for n in graph.all_nodes())
    return [r.dtype for r in create_function_from_graph("f", graph)(traced, x)]


def test_classes_of_modules():
    class Special(nn.Linear):
        def forward(self, x):
            return super().forward(x).exp()

    net = Net()
    net.second = Special(3, 3)
    policy = AutocastPolicy(fp16=frozenset({Special}))
    assert dtypes_of_net(net, CastingOptions(policy=policy)) == [FLOAT, HALF]
    assert dtypes_of_net(Net(), CastingOptions(policy=AutocastPolicy(fp16=frozenset({nn.Linear})))) == [HALF, HALF]


def test_switched_off_for_a_module_a_function_and_a_block():
    assert dtypes_of_net(Net(), POLICY) == [HALF, HALF]
    net = Net()
    jitlite.autocast(False)(net.second)
    assert dtypes_of_net(net, POLICY) == [HALF, FLOAT]

    @jitlite.autocast(False)
    def off(x):
        with jitlite.autocast(True):
            inner = x @ x
        return x @ x, inner

    x = torch.ones(2, 2)
    graph = jitlite.trace(lambda x: (*off(x), x @ x), x).graph.copy()
    cast_by_policy(graph, POLICY, [x])
    results = create_function_from_graph("f", graph)(x)
    assert [r.dtype for r in results] == [FLOAT, HALF, HALF]


def test_switched_on_where_the_policy_is_off():
    def function(x):
        with jitlite.autocast():
            y = x @ x
        return y, x @ x

    x = torch.ones(2, 2)
    graph = jitlite.trace(function, x).graph.copy()
    cast_by_policy(graph, CastingOptions(policy=AutocastPolicy(enabled=False)), [x])
    assert [r.dtype for r in create_function_from_graph("f", graph)(x)] == [HALF, FLOAT]


def test_control_flow_is_kept():
    @jitlite.script
    def function(x, y, flag: bool):
        if flag:
            z = x @ y
        else:
            z = x + y
        return z

    x = torch.ones(2, 2)
    graph = function.graph.copy()
    cast_by_policy(graph, POLICY, [x, x, True])
    compiled = create_function_from_graph("f", graph)
    assert compiled(x, x, True).dtype is HALF
    assert compiled(x, x, False).dtype is FLOAT
