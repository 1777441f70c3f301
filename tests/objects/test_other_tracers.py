"""Scripts under tracers that are not ours: torch's own, torch.fx, torch.export, functorch's transforms."""

from __future__ import annotations

import inspect
import io
import warnings
from typing import Any, List  # noqa: UP035

import pytest
import torch
from torch import nn

import jitlite

TORCH_JIT: Any = vars(torch)["jit"]


def traced_by_torch(f: Any, *examples: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TORCH_JIT.trace(f, examples, check_trace=False)


# -- torch's tracer


def loop(x):
    for i in range(x.size(0)):
        x = x + i
    return x


def while_loop(x):
    while x.sum() < 10:
        x = x * 2
    return x


def branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def ternary(x):
    return x + (1.0 if x.dim() == 1 else 2.0)


def uses_size(x):
    return x.view(x.size(0), -1) * 1


def uses_item(x):
    return x * float(x.sum())


def by_dtype(x):
    return x.to(torch.float64 if x.dtype == torch.float32 else torch.int64)


def gives_number(x):
    return x, x.size(0)


def list_of_sizes(x):
    found: List[int] = []
    for d in x.shape:
        found.append(d)
    return torch.zeros(found)


def prints(x):
    print(x.sum())
    return x


def no_grad(x):
    with torch.no_grad():
        return x * 2


def tries(x):
    try:
        return x.view(2)
    except RuntimeError:
        return x


@pytest.mark.parametrize(
    "f",
    [loop, while_loop, branch, ternary, uses_size, uses_item, by_dtype, gives_number, list_of_sizes, prints, no_grad]
    + [tries],
)
def test_torchs_tracer_is_refused_what_it_would_freeze(f):
    scripted = jitlite.script(f)
    with pytest.raises(jitlite.NotSupportedError, match=rf"torch's tracer would lose[\s\S]*{f.__name__}") as error:
        traced_by_torch(lambda x: scripted(x), torch.ones(2))
    assert "torch.jit.load" in str(error.value) and "jitlite.trace" in str(error.value)
    assert error.value.range is not None
    theirs = TORCH_JIT.load(io.BytesIO(saved(scripted))) if f is not tries else None
    if theirs is not None and f is not gives_number:  # the way out
        traced_by_torch(Net(theirs), torch.ones(2))


def saved(scripted: Any) -> bytes:
    buffer = io.BytesIO()
    jitlite.save(scripted, buffer)
    return buffer.getvalue()


def straight(x, k: float = 2.0):
    y = torch.relu(x) * k
    for i in range(3):
        y = y + i
    if y.dim() > 5 or (x.dtype == torch.int64 and x.size(0) > 100):
        raise ValueError("too many")
    y[0] = 7
    return torch.cat([y, x]), {"a": y}["a"]


def test_torchs_tracer_gets_straight_line_code():
    scripted = jitlite.script(straight)
    traced = traced_by_torch(lambda x: scripted(x, 3.0), torch.ones(2, 3))
    for x in (torch.randn(4, 3), torch.randn(2, 5)):
        torch.testing.assert_close(traced(x), straight(x, 3.0))


class Net(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x * 2)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else x

    @jitlite.export
    def other(self, x, k: int = 2):
        return x + k


@pytest.mark.parametrize("training", [True, False])
def test_torchs_tracer_gets_modules_without_control_flow(training):
    part = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout(0.0), nn.BatchNorm1d(2), nn.LayerNorm(2))
    net = Net(jitlite.script(part)).train(training)
    traced = traced_by_torch(net, torch.randn(4, 2))
    x = torch.randn(6, 2)
    net.eval()
    part.eval()
    traced.eval()
    torch.testing.assert_close(net(x), part(x * 2))
    assert dict(traced.named_parameters()).keys() == dict(net.named_parameters()).keys()
    if not training:
        torch.testing.assert_close(traced(x), net(x))
    with pytest.raises(jitlite.NotSupportedError, match=r"branch that depends on the inputs[\s\S]*self.linear\(x\) if"):
        traced_by_torch(Net(jitlite.script(Branching())), torch.ones(1, 2))


# -- torch.fx


def test_fx_records_calls_of_functions_and_modules():
    scripted, part = jitlite.script(loop), jitlite.script(Branching())

    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def forward(self, x):
            y = scripted(x * 2)
            return self.part(y) + self.part.other(x, k=3), scripted(x=y)

    traced = torch.fx.symbolic_trace(Calls())
    kinds = [(node.op, node.target) for node in traced.graph.nodes]
    assert kinds.count(("call_function", scripted)) == 2
    assert ("call_module", "part") in kinds and ("call_method", "other") in kinds
    for x in (torch.ones(3, 2), -torch.ones(5, 2)):
        torch.testing.assert_close(traced(x), Calls()(x))


def test_fx_records_calls_of_functions_from_text():
    unit = jitlite.CompilationUnit("def f(x: Tensor, n: int) -> Tensor:\n    return x + n\n")
    traced = torch.fx.symbolic_trace(lambda x: unit.f(x, 3))
    assert torch.equal(traced(torch.zeros(2)), torch.full((2,), 3.0))


# -- torch.export, transforms, torch.compile


def test_export_runs_scripts_and_names_the_way_out():
    part = jitlite.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    x = torch.randn(3, 2)
    for module in (Net(part), part):
        exported = torch.export.export(module, (x,), strict=False)
        torch.testing.assert_close(exported.module()(x), module(x))
    with pytest.raises(Exception, match=r"data-dependent|Eq\(") as error:
        torch.export.export(Net(jitlite.script(Branching())), (torch.ones(1, 2),), strict=False)
    assert any("jitlite.to_exported" in note for note in getattr(error.value, "__notes__", ["jitlite.to_exported"]))


def test_transforms_see_through_scripts():
    scripted, x = jitlite.script(loop), torch.randn(3, 4)
    torch.testing.assert_close(torch.vmap(scripted)(x), torch.vmap(loop)(x))
    torch.testing.assert_close(torch.func.jacrev(scripted)(x), torch.func.jacrev(loop)(x))
    torch.testing.assert_close(torch.func.jvp(scripted, (x,), (x,)), torch.func.jvp(loop, (x,), (x,)))
    made = torch.fx.experimental.proxy_tensor.make_fx(lambda x: scripted(x) * 2)(x)
    torch.testing.assert_close(made(x), loop(x) * 2)


def scripts() -> dict[str, Any]:
    function, module = jitlite.script(branch), jitlite.script(Branching())
    return {
        "function": lambda x: function(x) * 2,
        "method": lambda x: module.other(x, 2) + 1,
        "module": Net(module),
        "traced": Net(jitlite.trace(nn.Linear(2, 2), torch.ones(2))),
        "loaded": Net(jitlite.load(io.BytesIO(saved(module)))),
    }


@pytest.mark.parametrize("name", scripts())
def test_dynamo_runs_scripts_and_does_not_read_the_interpreter(name):
    from torch._dynamo.utils import counters

    program = scripts()[name]
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(program, backend="eager")
    for x in (torch.ones(2), -torch.ones(2), torch.ones(2)):
        torch.testing.assert_close(compiled(x), program(x))
    assert counters["frames"]["total"] <= 4  # the caller's frames, before and after the script


def test_methods_show_their_parameters_without_the_object():
    assert list(inspect.signature(jitlite.script(Branching()).other).parameters) == ["x", "k"]
