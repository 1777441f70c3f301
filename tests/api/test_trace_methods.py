"""Traces of modules keep the hierarchy: the calls of submodules are calls of methods."""

import copy
import io
from typing import Optional

import pytest
import torch
from torch import nn

import jitlite


def kinds(graph):
    return [n.kind for n in graph.nodes]


def calls(graph):
    return [
        n.attributes["name"] for n in graph.nodes if n.kind == "prim::CallMethod" and "forward" in n.attributes["name"]
    ]


def assert_same(traced, module, *inputs):
    """Results and gradients, also after a round through an archive."""
    file = io.BytesIO()
    jitlite.save(traced, file)
    file.seek(0)
    for made in (traced, copy.deepcopy(traced), jitlite.load(file)):
        ours, wanted = [[i.clone().requires_grad_() for i in inputs] for _ in range(2)]
        result, expected = made(*ours), module(*wanted)
        torch.testing.assert_close(result, expected)
        result.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close([i.grad for i in ours], [i.grad for i in wanted])


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x, offset: Optional[torch.Tensor] = None):
        scaled = x * self.weight
        return scaled if offset is None else scaled + offset


def test_each_call_is_a_method():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        def forward(self, x):
            return self.scale(self.scale(x), offset=x)

    module = Twice()
    traced = jitlite.trace(module, torch.ones(2))
    assert calls(traced.graph) == ["forward", "forward1"]
    types = traced.scale._c._type().inner
    assert [a.name for a in types.methods["forward"].schema.arguments] == ["self", "x"]
    assert [a.name for a in types.methods["forward1"].schema.arguments] == ["self", "x", "offset"]
    assert kinds(traced.scale.graph) == ["prim::GetAttr", "aten::mul"]
    assert_same(traced, module, torch.randn(3, 2))


def test_nested_modules_and_constants():
    shared = torch.full((2,), 3.0)

    class Inner(nn.Module):
        def forward(self, x):
            return x + shared

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(Scale(), Inner(), nn.Identity(), nn.ModuleList([Inner()])[0])

        def forward(self, x):
            return self.layers(x) * shared

    module = Outer()
    traced = jitlite.trace(module, torch.ones(2))
    assert calls(traced.graph) == ["forward"]
    assert calls(traced.layers.graph) == ["forward"] * 3  # nothing happens in the identity
    assert_same(traced, module, torch.randn(3, 2))


def test_values_that_leave_by_a_side_door():
    class Left(nn.Module):
        def forward(self, x):
            self.kept = x * 2
            self.rows = x.size(0)
            return x + 1

    class Right(nn.Module):
        def __init__(self, left):
            super().__init__()
            self.__dict__["left"] = left

        def forward(self, x):
            return (x + self.left.kept).view(self.left.rows, -1)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.left = Left()
            self.right = Right(self.left)

        def forward(self, x):
            return self.right(self.left(x))

    traced = jitlite.trace(Both(), torch.ones(3, 2))
    x = torch.randn(5, 2)
    assert torch.equal(traced(x), x + 1 + x * 2)


def test_state_is_found_by_the_shortest_way():
    class Reads(nn.Module):
        def __init__(self, other):
            super().__init__()
            self.__dict__["other"] = other

        def forward(self, x):
            return x * self.other.weight

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()
            self.reads = Reads(self.scale)

        def forward(self, x):
            return self.reads(x)

    module = Both()
    traced = jitlite.trace(module, torch.ones(2))
    schema = traced.reads._c._type().inner.methods["forward"].schema
    assert len(schema.arguments) == 3  # the weight of another module is handed in
    assert_same(traced, module, torch.randn(2))


def test_grad_mode_around_and_inside_of_calls():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        def forward(self, x):
            with torch.no_grad():
                y = self.scale(x)
                with torch.enable_grad():
                    z = self.scale(x, offset=y)
            return y, z, self.scale(y)

    module = Frozen()
    traced = jitlite.trace(module, torch.ones(2))
    x = torch.randn(2, requires_grad=True)
    assert [r.requires_grad for r in traced(x)] == [r.requires_grad for r in module(x)] == [False, True, True]


def test_hooks_belong_to_the_caller():
    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()
            self.scale.register_forward_hook(lambda m, i, o: o * 3)

        def forward(self, x):
            return self.scale(x)

    module = Hooked()
    traced = jitlite.trace(module, torch.ones(2))
    assert "aten::mul" in kinds(traced.graph)
    assert_same(traced, module, torch.randn(2))


def test_an_exception_on_the_way():
    class Raises(nn.Module):
        def forward(self, x):
            x.add(1)
            raise ValueError

    class Catches(nn.Module):
        def __init__(self):
            super().__init__()
            self.raises = Raises()

        def forward(self, x):
            try:
                return self.raises(x)
            except ValueError:
                return x * 2

    traced = jitlite.trace(Catches(), torch.ones(2))
    assert kinds(traced.graph)[-1] == "aten::mul"


def test_several_methods_of_one_module():
    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()

        def forward(self, x):
            return self.scale(x)

        def twice(self, x):
            return self.scale(self.scale(x))

    module = Several()
    traced = jitlite.trace_module(module, {"forward": torch.ones(2), "twice": torch.ones(2)})
    assert traced.scale._c._method_names() == ["forward", "forward1", "forward2"]
    x = torch.randn(2)
    assert torch.equal(traced.twice(x), module.twice(x))


def test_compiled_submodules_are_called():
    class Loops(nn.Module):
        def forward(self, x):
            for _ in range(x.size(0)):
                x = x + 1
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.loops = jitlite.script(Loops())

        def forward(self, x):
            return self.loops(x) * 2

    module = Outer()
    traced = jitlite.trace(module, torch.ones(2))
    assert calls(traced.graph) == ["forward"]
    assert_same(traced, module, torch.randn(5))


def test_exported_methods_are_compiled():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()
            self.times = 2

        def forward(self, x):
            return self.scale(x)

        def helper(self, x):
            return self.scale(x)

        @torch.jit.export
        def repeated(self, x, n: int):
            for _ in range(n * self.times):
                x = self.helper(x)
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x)

        @torch.jit.export
        def again(self, x):
            return self.inner.repeated(x, 3)

    module = Outer()
    with torch.no_grad():
        module.inner.scale.weight.mul_(2)
    traced = jitlite.trace(module, torch.ones(2))
    x = torch.randn(2)
    assert torch.equal(traced.again(x), module.again(x))
    assert_same(traced, module, x)


def test_submodules_cannot_be_called_from_python():
    traced = jitlite.trace(nn.Sequential(Scale()), torch.ones(2))
    with pytest.raises(RuntimeError, match="Trace submodules cannot be called"):
        traced[0](torch.ones(2))

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.traced = traced

        def forward(self, x):
            return self.traced(x)

    assert torch.equal(jitlite.script(Uses())(torch.ones(2)), torch.ones(2))


def test_values_have_the_names_of_variables():
    def function(x):
        brown_fox = x * 2
        return brown_fox + 1

    graph = jitlite.trace(function, torch.ones(2)).graph
    assert "%brown_fox : Tensor = aten::mul" in str(graph)


def test_python_functions_that_write_have_no_counterpart():
    class Writes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx, grad):
            return grad

    traced = jitlite.trace(lambda x: Writes.apply(x), torch.ones(2), _force_outplace=True, check_trace=False)
    with pytest.raises(RuntimeError, match="inplace Writes"):
        traced(torch.ones(2))
