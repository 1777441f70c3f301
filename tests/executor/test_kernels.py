"""`fn.kernels` and what `fn.explain` says of tensor regions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite import options
from jitlite.kernels.torch_abi import torch_abi
from jitlite.native.entry import is_ready

pytestmark = pytest.mark.skipif(not is_ready() or torch_abi() is None, reason="no kernels here")
SECTION = "Machine code for tensors"


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))


def relax(x: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        x = x + 0.1 * torch.sin(x)
    return x


def solved(a: Tensor, b: Tensor) -> Tensor:
    return (torch.linalg.inv(a) @ b).relu() * 2


def inverse(a: Tensor) -> Tensor:
    return torch.linalg.inv(a)


def told(function: Any, *arguments: object) -> list[str]:
    sections: dict[str, list[str]] = function.explain(*arguments).sections
    return sections[SECTION]


def test_compile_needs_no_heat_and_every_stage_prints() -> None:
    function, x = jitlite.script(gelu), torch.linspace(-3, 3, 64).reshape(4, 16)
    assert len(function.kernels) == 0 and "not compiled yet" in str(function.kernels)
    (kernel,) = function.kernels.compile(x)
    assert kernel.facts == "(f32[*, *])" and kernel.place.startswith(__file__)
    assert "nest i0 <" in kernel.loops and "erf" in kernel.loops and kernel.loops in str(kernel)
    assert "define" in kernel.llvm
    assert "native:" in kernel.asm or ".text" in kernel.asm or "ret" in kernel.asm
    assert (kernel.runs, kernel.bailouts, kernel.misses) == (1, 0, 0)
    torch.testing.assert_close(function(x), gelu(x))


def test_the_graph_has_the_regions_and_the_optimized_graph_stays_as_it_is() -> None:
    function = jitlite.script(relax)
    before = str(function.optimized_graph)
    text = str(function.kernels.graph)
    assert 'prim::Region[kind="tensors"]' in text and "prim::Region" not in before
    assert str(function.optimized_graph) == before


def test_each_kind_of_arguments_has_its_kernel_and_explain_which_calls_counts_for_each() -> None:
    function = jitlite.script(relax)
    function.kernels.compile(torch.ones(3), 2)
    kernels = function.kernels.compile(torch.ones(2, 2).double(), 2)
    assert {kernel.facts for kernel in kernels} == {"(int, f32[*])", "(int, f64[*, *])"}
    assert [type(k) for k in kernels[:1]] == [type(kernels[0])]
    sentences = told(function, torch.ones(3), 2)
    assert "of 4 operations: machine code for 2 kinds of arguments" in sentences[0]
    assert any(s.startswith("a kernel for (int, f32[*]): it ran twice, gave up never") for s in sentences)


def test_facts_without_a_kernel_are_told_with_the_reason() -> None:
    function = jitlite.script(relax)
    function.kernels.compile(torch.ones(3), 2)
    kernels = function.kernels.compile(torch.ones(3, dtype=torch.int64), 2)  # becomes a tensor of floats in the loop
    assert [kernel.facts for kernel in kernels] == ["(int, f32[*])"]
    assert any("no kernel for (int, i64[*]): " in s for s in told(function, torch.ones(3), 2))


def test_operators_in_no_region_are_named_with_the_reason_and_place() -> None:
    function = jitlite.script(solved)
    (sentence,) = [s for s in told(function, torch.eye(2), torch.ones(2, 1)) if s.startswith("not ")]
    assert sentence.startswith(f"not aten::linalg_inv at {__file__}:")
    assert sentence.endswith(": there is no kernel for aten::linalg_inv")


def test_loops_over_tensors_are_not_told_of_as_loops_over_numbers() -> None:
    function = jitlite.script(relax)
    assert function.explain(torch.ones(2), 1).sections["Machine code"] == []


@pytest.mark.parametrize(
    ("switches", "reason"),
    [
        ({"native": "off"}, "the switch `native` is off"),
        ({"tier": "stack"}, "the stack machine runs operators one by one"),
        ({"executor": "off"}, "the switch `executor` is off"),
    ],
    ids=["native", "tier", "executor"],
)
def test_switches_that_leave_no_kernels_are_named(switches: dict[str, Any], reason: str) -> None:
    with options.override(**switches):
        function = jitlite.script(gelu)
        assert function.kernels.compile(torch.ones(2)).why == f"no kernels: {reason}"
        assert told(function, torch.ones(2)) == [f"no: {reason}"]


def test_where_no_region_is_formed_the_first_reason_is_told() -> None:
    kernels = jitlite.script(inverse).kernels.compile(torch.eye(2))
    assert not kernels and "there is no kernel for aten::linalg_inv" in str(kernels)


def test_arguments_that_want_gradients_are_compiled_for_without_recording() -> None:
    function, x = jitlite.script(gelu), torch.ones(3, requires_grad=True)
    (kernel,) = function.kernels.compile(x)
    assert function(x).grad_fn is not None and kernel.runs == 1
    assert torch.is_grad_enabled()


def test_methods_and_modules_have_kernels() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return (x * self.scale + 1.0).relu()

    module = jitlite.script(Block())
    assert len(module.kernels.compile(torch.ones(2, 4))) == 1
    assert len(module.forward.kernels) == 1
