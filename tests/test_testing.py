"""jitlite.testing: functions from graphs, and PyTorch's names."""

import pytest
import torch

import jitlite
from jitlite import testing

TEXT = """graph(%x : Tensor, %n : int):
  %two : int = prim::Constant[value=2]()
  %unused : int = aten::sub(%n, %two)
  %sum : Tensor = aten::add(%x, %n, %two)
  return (%sum)
"""


def test_a_function_from_a_graph():
    function = testing.create_function_from_graph("twice", testing.parse_ir(TEXT))
    assert function(torch.ones(1), 3) == 7 == function(x=torch.ones(1), n=3)
    assert str(function.schema) == "twice(Tensor x, int n) -> Tensor"
    with pytest.raises(RuntimeError, match="missing value for argument 'n'"):
        function(torch.ones(1))


def test_placeholder_tensors():
    text = """graph():
  %x : Long(2, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value=<Tensor>]()
  return (%x)
"""
    function = testing.create_function_from_graph("zeros", testing.parse_ir(text, True))
    assert function().tolist() == [0, 0]


def test_passes_by_the_names_of_torch():
    graph = testing.parse_ir(TEXT)
    assert testing.TORCH_NAMES["torch._C._jit_pass_dce"](graph)
    assert "aten::sub" not in str(graph)
    assert not testing.TORCH_NAMES["torch._C._jit_pass_dce"](graph)


def test_every_pass_named_here_exists():
    for name, found in testing.TORCH_NAMES.items():
        if name.startswith("torch._C._jit_pass_") and hasattr(found, "args"):
            jitlite.passes.find(found.args[0])


def test_errors_under_the_names_of_torch():
    def generator(x):
        yield x

    with pytest.raises(testing.TORCH_NAMES["torch.jit.frontend.UnsupportedNodeError"]):
        jitlite.script(generator)
