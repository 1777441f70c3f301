"""Freezing: frozen modules give what the modules they were made of give, and hold what they still need."""

from __future__ import annotations

import copy
import importlib
import itertools
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite import options
from jitlite.archive.alternatives import restore_alternatives
from jitlite.freeze.freeze import freeze_module
from jitlite.ir.verify import verify
from jitlite.passes import run

CONVOLUTIONS = [
    (nn.Conv1d, nn.BatchNorm1d, 1), (nn.Conv2d, nn.BatchNorm2d, 2), (nn.Conv3d, nn.BatchNorm3d, 3),
    (nn.ConvTranspose1d, nn.BatchNorm1d, 1), (nn.ConvTranspose2d, nn.BatchNorm2d, 2),
    (nn.ConvTranspose3d, nn.BatchNorm3d, 3),
]  # fmt: skip
TOLERANCE = {torch.float32: {}, torch.float64: {}, torch.bfloat16: {"atol": 5e-2, "rtol": 5e-2}}


def frozen(module: nn.Module, *names: str, **options: Any) -> Any:
    """The frozen module; every graph of it is well formed."""
    made = jitlite.freeze(jitlite.script(module.eval()), list(names), **options)
    for method in type_of(made).methods.values():
        verify(method.graph)
    return made


def type_of(module: Any) -> Any:
    return vars(module)["__jitlite_type__"]


def attributes(module: Any) -> set[str]:
    return set(type_of(module).attributes)


def randomized(module: nn.Module) -> nn.Module:
    """The module with statistics that differ from channel to channel."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            nn.init.uniform_(part.running_mean)
            nn.init.uniform_(part.running_var, 0.5, 2)
            if part.affine:
                nn.init.uniform_(part.weight)
                nn.init.uniform_(part.bias)
    return module.eval()


class Combine(nn.Module):
    """`x op value`."""

    def __init__(self, value: Any, op: str) -> None:
        super().__init__()
        self.value = value
        self.op: jitlite.Final[str] = op

    def forward(self, x: Tensor) -> Tensor:
        if self.op == "add":
            return x + self.value
        elif self.op == "sub":
            return x - self.value
        elif self.op == "mul":
            return x * self.value
        else:
            return x / self.value


# -- folding


@pytest.mark.parametrize(("convolution", "norm", "dims"), CONVOLUTIONS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_batch_norms_go_into_convolutions(convolution, norm, dims, dtype):
    for bias, affine, groups in itertools.product((True, False), (True, False), (1, 2)):
        parts = nn.Sequential(convolution(4, 6, 3, bias=bias, groups=groups), norm(6, affine=affine))
        module = randomized(parts).to(dtype)
        made, x = frozen(module), torch.rand(2, 4, *[5] * dims, dtype=dtype)
        torch.testing.assert_close(made(x), module(x), **TOLERANCE[dtype])
        assert not list(made.parameters()) and not list(made.buffers())
        if dims > 1:
            assert "batch_norm" not in str(made.graph)


def test_a_convolution_without_batch_is_normalized_as_before():
    module = randomized(nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)))
    made, x = frozen(module), torch.rand(4, 8)
    torch.testing.assert_close(made(x), module(x))
    with pytest.raises(RuntimeError):
        made(torch.rand(4, 9))


def test_a_linear_layer_is_normalized_along_dimension_one():
    module = randomized(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)))
    made = frozen(module)
    for shape in ((2, 3), (2, 5, 3)):
        x = torch.rand(shape)
        torch.testing.assert_close(made(x), module(x))


@pytest.mark.parametrize(("convolution", "norm", "dims"), CONVOLUTIONS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_arithmetic_goes_into_convolutions(convolution, norm, dims, op):
    ones = [1] * dims
    values = [2.5, 3, torch.tensor(2), torch.rand(1, 6, *ones) + 1, torch.rand(6, *ones) + 1, torch.rand(1, 1) + 1]
    for value, groups in itertools.product(values, (1, 2)):
        module = nn.Sequential(convolution(4, 6, 3, bias=groups == 1, groups=groups), Combine(value, op)).eval()
        made = frozen(module)
        assert f"aten::{op}(" not in str(made.graph)
        for shape in ((2, 4), (4,)):
            x = torch.rand(*shape, *[5] * dims)
            torch.testing.assert_close(made(x), module(x))


@pytest.mark.parametrize(
    "value", [torch.rand(6, 1, 3), torch.rand(3), torch.rand(6, 1, 1, dtype=torch.float64), torch.tensor([1j])]
)
def test_arithmetic_that_is_of_another_shape_or_dtype_stays(value):
    module = nn.Sequential(nn.Conv2d(4, 6, 3), Combine(value, "add")).eval()
    made, x = frozen(module), torch.rand(2, 4, 5, 5)
    assert "aten::add(" in str(made.graph)
    torch.testing.assert_close(made(x), module(x))


def test_several_operations_go_into_one_convolution():
    parts = [nn.Conv2d(3, 4, 3), Combine(2, "mul"), Combine(1.5, "add"), nn.BatchNorm2d(4), Combine(3, "div")]
    module = randomized(nn.Sequential(*parts))
    made, x = frozen(module), torch.rand(2, 3, 6, 6)
    torch.testing.assert_close(made(x), module(x))
    kinds = [node.kind for node in made.graph.nodes]
    assert kinds.count("aten::conv2d") == 1
    assert not {"aten::mul", "aten::add", "aten::batch_norm", "aten::div"} & set(kinds)


def test_numbers_stay_unless_they_may_change():
    module = randomized(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    made, x = frozen(module, optimize_numerics=False), torch.rand(2, 3, 6, 6)
    assert "batch_norm" in str(made.graph)
    assert torch.equal(made(x), module(x))
    jitlite.run_frozen_optimizations(made)
    assert "batch_norm" not in str(made.graph)


def test_the_original_is_left_as_it_was():
    module = randomized(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout()))
    scripted = jitlite.script(module)
    before, text = copy.deepcopy(module.state_dict()), str(scripted.graph)
    jitlite.freeze(scripted)
    assert str(scripted.graph) == text
    assert all(torch.equal(a, b) for a, b in zip(before.values(), module.state_dict().values(), strict=True))
    assert all(p.requires_grad for p in module.parameters())
    assert "dropout" in str(jitlite.script(module.train()).inlined_graph)


# -- what stays


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.step = 2
        self.total = torch.zeros(2)
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.count += self.step
        self.total += x
        self.seen.append(self.count)
        return x * self.count + self.total + len(self.seen)


def test_what_is_written_stays():
    module = Counter().eval()
    made = frozen(copy.deepcopy(module))
    assert attributes(made) == {"count", "total", "seen"}
    for _ in range(3):
        assert torch.equal(made(torch.ones(2)), module(torch.ones(2)))
    assert made.count == module.count == 6 and made.seen == [2, 4, 6]


class Views(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.whole = torch.arange(6.0)
        self.rows = self.whole.view(2, 3)
        self.held = {"x": [self.whole]}
        self.other = torch.ones(6)

    def forward(self, x: Tensor) -> Tensor:
        self.rows[0] += x
        return self.whole.sum() + self.held["x"][0].sum() + self.other.sum()


def test_what_shares_memory_with_what_is_written_stays():
    module = Views().eval()
    made = frozen(copy.deepcopy(module))
    assert attributes(made) == {"whole", "rows", "held"}
    for _ in range(2):
        assert torch.equal(made(torch.ones(3)), module(torch.ones(3)))


class Elements(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.ones(2)]
        self.pair = (torch.ones(2), 3)

    def forward(self, x: Tensor) -> Tensor:
        self.held[0].add_(x)
        self.pair[0].mul_(2)
        return self.held[0] + self.pair[0]


def test_elements_count():
    module = Elements().eval()
    made = frozen(copy.deepcopy(module))
    assert attributes(made) == {"held", "pair"}
    for _ in range(2):
        assert torch.equal(made(torch.ones(2)), module(torch.ones(2)))


class Inner(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * self.weight

    @jitlite.export
    def rescale(self, by: float) -> float:
        self.scale *= by
        return self.scale


class Swapping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Inner(2.0)
        self.second = Inner(3.0)
        self.current = self.first
        self.third = Inner(5.0)
        self.n = 0

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        if self.n % 2 == 0:
            self.current = self.second
        else:
            self.current = self.first
        return self.current(x) + self.third(x)


def test_modules_that_are_exchanged():
    module = Swapping().eval()
    made = frozen(copy.deepcopy(module))
    assert attributes(made) == {"first", "second", "current", "n"}
    for _ in range(3):
        torch.testing.assert_close(made(torch.ones(2)), module(torch.ones(2)))


class Either(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Inner(2.0)
        self.second = Inner(3.0)

    def forward(self, x: Tensor, first: bool) -> Tensor:
        chosen = self.first if first else self.second
        chosen.weight.data.add_(1)
        return self.first(x) - self.second(x)


def test_a_write_through_one_of_two_modules():
    module = Either().eval()
    made = frozen(copy.deepcopy(module))
    for first in (True, False, True):
        assert torch.equal(made(torch.ones(2), first), module(torch.ones(2), first))


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = Inner(2.0)
        self.b = Inner(3.0)
        self.name = "parts"

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) + self.b(x)

    @jitlite.export
    def describe(self, n: int) -> str:
        return self.name + str(n)


def test_what_is_asked_for_stays():
    x = torch.ones(2)
    made = frozen(Parts(), "name", "describe", "a.scale", "b.rescale")
    assert attributes(made) == {"name", "a", "b"}
    assert attributes(made.a) == attributes(made.b) == {"scale"}
    assert made.describe(3) == "parts3"
    assert torch.equal(made(x), 5 * x)
    made.a.scale = 4.0
    assert made.b.rescale(2.0) == 6.0
    assert torch.equal(made(x), 10 * x)


def test_a_submodule_that_is_asked_for_stays_whole():
    made = frozen(Parts(), "a")
    assert attributes(made) == {"a"}
    assert torch.equal(made.a(torch.ones(2)), torch.full((2,), 2.0))
    with torch.no_grad():
        made.a.weight.add_(1)
    assert torch.equal(made(torch.ones(2)), torch.full((2,), 7.0))


class Gives(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner(2.0)
        self.xs = [1, 2]
        self.table = {"a": torch.ones(1)}

    def forward(self):
        return self.inner, self.xs, self.table


def test_what_is_returned():
    made = frozen(Gives())
    assert attributes(made) == {"inner"}
    inner, xs, table = made()
    assert inner(torch.ones(2)).tolist() == [2.0, 2.0]
    xs.append(3)
    table.clear()
    assert made()[1] == [1, 2] and list(made()[2]) == ["a"]


class Box:
    def __init__(self, size: int) -> None:
        self.size = size

    def grow(self, by: int) -> int:
        self.size += by
        return self.size


class Boxes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = Box(2)
        self.grown = Box(3)

    def forward(self, x: int) -> int:
        return x * self.kept.size + self.grown.grow(x)


def test_objects_of_classes():
    module = Boxes().eval()
    made = frozen(copy.deepcopy(module))
    assert [made(1), made(2)] == [module(1), module(2)]
    assert attributes(made) == {"grown"}


class Fixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.box = Box(4)

    def forward(self, x: int) -> int:
        return x * self.box.size


def test_an_object_that_is_only_read_goes():
    made = frozen(Fixed())
    assert not attributes(made) and made(3) == 12
    assert "GetAttr" not in str(made.graph)


class Forks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner(2.0)
        self.total = torch.zeros(2)

    def add(self, x: Tensor) -> Tensor:
        self.total += x
        return self.total

    def forward(self, x: Tensor) -> Tensor:
        first = jitlite.fork(self.inner, x)
        second = jitlite.fork(self.add, x)
        return jitlite.wait(first) + jitlite.wait(second)


def test_forked_calls():
    module = Forks().eval()
    made = frozen(module)
    assert attributes(made) == {"total"}
    assert torch.equal(made(torch.ones(2)), torch.full((2,), 3.0))
    assert torch.equal(made(torch.ones(2)), torch.full((2,), 4.0))


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = 2

    def forward(self, n: int) -> int:
        if n <= 0:
            return 0
        return self.step + self.again(n - 1)

    def again(self, n: int) -> int:
        if n <= 0:
            return 0
        return self.step + self.again(n - 1)


def test_methods_that_call_themselves_keep_what_they_need():
    made = frozen(Recursive())
    assert made(3) == 6
    made.step = 5
    assert made(3) == 15


class LeavesToPython(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 3

    @jitlite.ignore
    def outside(self, x: int) -> int:
        self.factor += 1
        return x

    def forward(self, x: int) -> int:
        return self.outside(x) * self.factor


def test_what_python_may_change_stays():
    module = LeavesToPython().eval()
    made = frozen(copy.deepcopy(module))
    assert [made(1), made(1)] == [module(1), module(1)] == [4, 5]


def test_one_tensor_in_two_places_stays_one():
    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.ones(2)
            self.b = self.a

        def forward(self, x: Tensor) -> bool:
            return self.a is self.b

    assert frozen(Same())(torch.ones(1)) is True


# -- interfaces


@jitlite.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 2

    def forward(self, x: Tensor) -> Tensor:
        return x * self.n


class Steps(nn.Module):
    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = Twice()

    def forward(self, x: Tensor) -> Tensor:
        return self.step.forward(x)

    @jitlite.export
    def exchange(self) -> None:
        self.step = self.step


def test_the_module_behind_an_interface_is_built_in():
    made = frozen(Steps())
    assert not attributes(made) and torch.equal(made(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(RuntimeError, match="uses interface attributes"):
        freeze_module(jitlite.script(Steps().eval()), freeze_interfaces=False)


def test_an_interface_that_is_exchanged_is_refused():
    with pytest.raises(RuntimeError, match="Freezing does not support SetAttr on an interface type"):
        frozen(Steps(), "exchange")


# -- modes, errors and the object itself


def test_training_mode_keeps_parameters():
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Dropout(), nn.BatchNorm2d(2)).train()
    scripted = jitlite.script(module)
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        jitlite.freeze(scripted)
    made = freeze_module(scripted)
    names = {name for name, _ in made.named_parameters()}
    assert names == {name for name, _ in module.named_parameters()}
    assert "training" in attributes(getattr(made, "1"))
    module.eval()
    made = freeze_module(scripted, preserve_parameters=True)
    assert {name for name, _ in made.named_parameters()} == names and not hasattr(made, "training")


def test_errors():
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input"):
        jitlite.freeze(nn.Linear(1, 1).eval())
    with pytest.raises(RuntimeError, match="expects a ScriptModule as input"):
        jitlite.optimize_for_inference(nn.Linear(1, 1).eval())
    for name in ("nothing", "a.nothing", "nothing.a"):
        with pytest.raises(RuntimeError, match=f"Unknown name: {name}"):
            frozen(Parts(), name)

    class Itself(nn.Module):
        def forward(self):
            return self

    with pytest.raises(RuntimeError, match="attempted to freeze a module that return itself"):
        frozen(Itself())


def test_the_frozen_module_is_a_module():
    made = frozen(randomized(nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))))
    assert isinstance(made, jitlite.RecursiveScriptModule) and isinstance(made, nn.Module)
    assert made.state_dict() == {} and not list(made.children()) and not hasattr(made, "training")
    assert made.code == made.graph.to_text(ranges=False)
    x = torch.rand(1, 1, 2, 2)
    for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(copied(x), made(x))
    outer = jitlite.script(nn.Sequential(made, nn.ReLU()))
    assert torch.equal(outer(x), made(x).relu())


def test_state_of_copies_is_their_own():
    made = frozen(Counter())
    copied = copy.deepcopy(made)
    made(torch.ones(2))
    assert copied.count == 0 and copied.seen == [] and not copied.total.any()


def test_the_handle():
    handle = frozen(Parts(), "a.scale", "describe")._c
    assert handle.hasattr("a") and not handle.hasattr("b") and handle.a.hasattr("scale")
    assert handle._has_method("describe") and handle.describe(1) == "parts1"
    assert torch.equal(handle.forward(torch.ones(2)), torch.full((2,), 5.0))
    handle.a.scale = 1.0
    assert torch.equal(handle(torch.ones(2)), torch.full((2,), 4.0))
    with pytest.raises(AttributeError, match="does not have a field with name 'state_dict'"):
        handle.state_dict()


# -- for this machine


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.bias = torch.rand(width, 1, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.relu(self.norm(self.a(x)))
        z = torch.sigmoid(self.b(y)) * 2.0 + y
        w = nn.functional.max_pool2d(z + self.bias, 2)
        return nn.functional.hardswish(w) + w, z.add_(1)


needs_mkldnn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")


@needs_mkldnn
@pytest.mark.parametrize("shape", [(2, 4, 6, 6), (4, 6, 6), (0, 4, 6, 6)])
def test_onednn(shape):
    module = randomized(Residual(4))
    if len(shape) == 3:
        module.norm = nn.Identity()
    made, x = frozen(module), torch.rand(shape)
    run(made.graph, "convert_to_mkldnn")
    verify(made.graph)
    assert "prim::mkldnn_convolution" in str(made.graph)
    for _ in range(2):  # nothing that stays is written over
        torch.testing.assert_close(made(x), module(x))


SHAPES = [(2, 4, 6, 6), (1, 4, 1, 1), (4, 6, 6), (0, 4, 6, 6), (1, 4, 3, 1), (2, 4, 1, 5)]


@pytest.mark.parametrize("shape", SHAPES)
def test_channels_last_gives_strides_as_before(shape):
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Conv2d(4, 6, 3, padding=1)
            self.b = nn.Conv2d(6, 6, 3, padding=1, groups=6)
            self.c = nn.Conv2d(6, 6, 1)
            self.single = nn.Conv2d(6, 1, 1)
            self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)

        def forward(self, x: Tensor) -> list[Tensor]:
            y = nn.functional.hardswish(self.a(x * 0.5))
            z = torch.relu_(self.b(y)) + y
            pooled = nn.functional.adaptive_avg_pool2d(z, 1)
            scaled = z * torch.sigmoid(self.c(pooled))
            return [y, z, pooled.flatten(-3), scaled.view(-1), torch.cat([scaled, z], -3), self.single(z), self.up(z)]

    module, x = Layers().eval(), torch.rand(shape)
    made = frozen(module)
    run(made.graph, "convert_to_channels_last")
    verify(made.graph)
    assert "aten::clone" in str(made.graph)
    for found, expected in zip(made(x), module(x), strict=True):
        torch.testing.assert_close(found, expected, check_stride=True)


def test_calls_run_in_the_usual_way_until_another_one_has_won():
    large = jitlite.script(randomized(Residual(32)))
    made, x = jitlite.optimize_for_inference(large), torch.rand(2, 32, 6, 6)
    assert "mkldnn" not in str(made.graph) and "batch_norm" not in str(made.graph)
    told = "Which graph runs"
    assert made.forward.explain(x).sections[told] == ["such arguments: not decided yet"]
    with options.override(background=False):
        for _ in range(20):
            for found, expected in zip(made(x), large(x), strict=True):
                torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4, check_stride=True)
        (said,) = made.forward.explain(x).sections[told]
    assert "as it is" in said and "convert_to_channels_last" in said
    assert jitlite.optimize_for_inference(made) is made


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m)), "load"])
def test_copies_are_optimized_for_inference_too(again, tmp_path):
    made = jitlite.optimize_for_inference(jitlite.script(randomized(Residual(4))))
    if again == "load":
        made.save(str(tmp_path / "made.pt"))
        copied = jitlite.load(str(tmp_path / "made.pt"))
        assert torch.jit.load(str(tmp_path / "made.pt"))(torch.rand(1, 4, 6, 6))
    else:
        copied = again(made)
    assert copied.forward.executor.alternatives.passes == made.forward.executor.alternatives.passes


def test_an_archive_asks_for_what_is_known_only():
    made = jitlite.optimize_for_inference(jitlite.script(randomized(Residual(4))))
    restore_alternatives("\n \nforward batch_mm convert_to_mkldnn\nnothing cse\n", type_of(made), ["convert_to_mkldnn"])
    assert type_of(made).methods["forward"].alternatives == ("convert_to_mkldnn",)


# -- models

MODELS = Path(__file__).parents[2] / "examples" / "models"

RESULTS = {"detector": lambda module, batch: module(batch[0], None)[1]}
"""What to compare of models that have no loss in eval mode."""


@pytest.mark.parametrize("name", ["detector", "language_model", "mobilenet", "resnet", "transformer"])
def test_models(name, monkeypatch):
    monkeypatch.syspath_prepend(str(MODELS))
    model = importlib.import_module(name)
    for loaded in {name, "training"} & set(sys.modules):
        monkeypatch.delitem(sys.modules, loaded)
    torch.manual_seed(0)
    module = randomized(model.build())
    made = frozen(module)
    result = RESULTS.get(name, model.loss_of)
    for batch in model.batches(2):
        with torch.no_grad():
            torch.testing.assert_close(result(made, batch), result(module, batch), atol=1e-4, rtol=1e-4)
    assert not list(made.parameters())
