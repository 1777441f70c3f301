"""Archives both ways: what jitlite writes, libtorch runs; what libtorch writes, jitlite runs, and all that can be done
with a module can be done with one that was loaded."""

import copy
import importlib
import io
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, Tuple  # noqa: UP035

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.api.opnames import export_opnames
from jitlite.compat.upgrade_names import UPGRADE_NAMES
from jitlite.interpreter.vm import run
from jitlite.loading.upgraders import upgraders

MODELS = Path(__file__).parents[2] / "examples" / "models"
sys.path.insert(0, str(MODELS))

EXAMPLES = sorted(p.stem for p in MODELS.glob("*.py") if p.stem != "training")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def of_torch(module: Any) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


def of_jitlite(module: Any) -> bytes:
    buffer = io.BytesIO()
    jitlite.save(module, buffer)
    return buffer.getvalue()


def by_torch(content: bytes) -> Any:
    return torch.jit.load(io.BytesIO(content))


def by_jitlite(content: bytes) -> Any:
    return jitlite.load(io.BytesIO(content))


def called(module: Any, arguments: Tuple[Any, ...]) -> Any:
    torch.manual_seed(1)
    with torch.no_grad():
        return module(*copy.deepcopy(arguments))


def assert_close(got: Any, expected: Any, exact: bool = True) -> None:
    if isinstance(expected, Tensor):
        assert got.dtype == expected.dtype
        tolerance: Dict[str, float] = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)
    elif isinstance(expected, list | tuple):
        assert len(got) == len(expected)
        for one, other in zip(got, expected):
            assert_close(one, other, exact)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        assert_close(list(got.values()), list(expected.values()), exact)
    else:
        assert got == expected


def members(content: bytes) -> Dict[str, bytes]:
    archive = zipfile.ZipFile(io.BytesIO(content))
    return {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}


# -- the example models


def example(name: str) -> Tuple[nn.Module, Tuple[Any, ...]]:
    found: Any = importlib.import_module(name)
    torch.manual_seed(0)
    batch = found.batches(1)[0]
    return found.build().eval(), {"language_model": (batch,), "transformer": batch}.get(name, batch[:1])


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in ("detector", "transformer")])  # beyond torch.jit
def test_models_that_torch_has_scripted(name):
    model, arguments = example(name)
    content = of_torch(torch.jit.script(model))
    module, expected = by_jitlite(content), called(by_torch(content), arguments)
    assert_close(called(module, arguments), expected)
    all_that_can_be_done(module, arguments, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_models_that_jitlite_has_scripted(name):
    model, arguments = example(name)
    module = by_jitlite(of_jitlite(jitlite.script(model)))
    expected = called(model, arguments)
    assert_close(called(module, arguments), expected)
    all_that_can_be_done(module, arguments, expected)


TRACED = [name for name in EXAMPLES if name not in ("detector", "language_model", "transformer")]


@pytest.mark.parametrize("name", TRACED)
def test_models_that_torch_has_traced(name):
    model, arguments = example(name)
    content = of_torch(torch.jit.trace(model, arguments, check_trace=False))
    module, expected = by_jitlite(content), called(by_torch(content), arguments)
    assert_close(called(module, arguments), expected)
    all_that_can_be_done(module, arguments, expected)


@pytest.mark.parametrize("name", TRACED)
def test_models_that_jitlite_has_traced(name):
    model, arguments = example(name)
    traced = jitlite.trace(model, arguments, check_trace=False)
    expected = called(model, arguments)
    assert_close(called(by_torch(of_jitlite(traced)), arguments), expected)
    assert_close(called(by_jitlite(of_jitlite(traced)), arguments), expected)


def all_that_can_be_done(module: Any, arguments: Tuple[Any, ...], expected: Any) -> None:
    """Shown, optimised, stepped through, copied, frozen, and saved again with the same text and tensors."""
    assert "graph(" in str(module.graph) and "def forward" in module.code
    assert "graph(" in str(module.forward.optimized_graph) and "RET" in module.forward.bytecode
    steps = 0

    def watch(frame: Any) -> None:
        nonlocal steps
        steps += 1

    torch.manual_seed(1)
    with torch.no_grad():
        function = module.forward.__jitlite_function__
        bound = [a.default for a in function.schema.arguments[1 + len(arguments) :]]
        assert_close(run(function, [module, *copy.deepcopy(arguments), *bound], watch=watch), expected)
    assert steps > 10
    assert_close(called(copy.deepcopy(module), arguments), expected)
    assert_close(called(jitlite.freeze(module), arguments), expected, exact=False)
    first = of_jitlite(module)
    second = of_jitlite(by_jitlite(first))
    assert {n: d for n, d in members(first).items() if n.endswith((".py", ".pkl")) or n.startswith("data/")} == {
        n: d for n, d in members(second).items() if n.endswith((".py", ".pkl")) or n.startswith("data/")
    }
    assert_close(called(by_torch(second), arguments), expected)


# -- kinds of things that other tests do not have


class AmpCuda(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.cuda.amp.autocast(enabled=False):
            return torch.mm(x, y)


class AmpCpu(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.cpu.amp.autocast(enabled=True, dtype=torch.bfloat16):
            return torch.mm(x, y)


class Amp(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = torch.mm(x, y)
        return z, torch.mm(x, y)


class AmpDefault(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu"):
            return torch.mm(x, y)


class Fused(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.jit.strict_fusion():
            return x + y


class PackedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.ao.nn.quantized.Conv2d(1, 2, 1)
        self.linear = torch.ao.nn.quantized.Linear(2, 3)

    def forward(self, x: Tensor, y: Tensor):
        weight, bias = self.conv._packed_params.unpack()
        stride, groups = self.conv._packed_params.stride(), self.conv._packed_params.groups()
        return weight.dequantize(), bias, stride, groups, self.linear._packed_params._packed_params.unpack()[1]


class Kinds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("half", "bfloat16", "complex64", "complex128", "int8", "uint8", "bool", "int16"):
            self.register_buffer(f"a_{name}", torch.ones(3).to(getattr(torch, name)))
        self.base = torch.arange(12.0).reshape(3, 4)
        self.view = self.base[1:, ::2]
        self.turned = self.base.t()
        self.empty = torch.zeros(0, 3)
        self.scalar = torch.tensor(2.5)
        self.coo = torch.eye(3).to_sparse()
        self.conj = torch.tensor([1 + 2j]).conj()

    def forward(self, x: Tensor, y: Tensor):
        self.base.add_(1)
        return self.view, self.turned, self.empty, self.scalar, self.coo.to_dense(), self.conj


MADE: Dict[str, Callable[[], nn.Module]] = {
    "cuda amp": AmpCuda, "cpu amp": AmpCpu, "autocast": Amp, "autocast without a dtype": AmpDefault,
    "strict fusion": Fused, "packed weights": PackedWeights, "kinds of tensors": Kinds,
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_both_ways(name):
    arguments = torch.rand(2, 2), torch.rand(2, 2)
    torch.manual_seed(0)
    module = MADE[name]()
    theirs = of_torch(torch.jit.script(copy.deepcopy(module)))
    expected = called(by_torch(theirs), arguments)
    assert_close(called(by_jitlite(theirs), arguments), expected)
    again = of_jitlite(by_jitlite(theirs))
    assert_close(called(by_torch(again), arguments), expected)
    assert_close(called(by_jitlite(again), arguments), expected)
    ours = of_jitlite(jitlite.script(copy.deepcopy(module)))
    assert_close(called(by_torch(ours), arguments), expected)
    assert_close(called(by_jitlite(ours), arguments), expected)


# -- tensors that lie in the file


class Large(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(128, 128)
        self.small = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.small


@pytest.mark.parametrize("save", [torch.jit.save, jitlite.save], ids=["torch", "jitlite"])
def test_mapped_tensors(tmp_path, save):
    path = tmp_path / "model.pt"
    save((torch.jit if save is torch.jit.save else jitlite).script(Large()), str(path))
    before = path.read_bytes()
    module, copied = jitlite.load(path, mmap=True), jitlite.load(path)
    x = torch.rand(2, 128)
    assert_close(called(module, (x,)), called(copied, (x,)))
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    module(x).sum().backward()
    optimizer.step()
    changed = called(module, (x,))
    assert not torch.equal(changed, called(copied, (x,)))
    assert path.read_bytes() == before
    jitlite.save(module, path)  # a new file takes the place of the one that is mapped
    assert_close(called(module, (x,)), changed)
    assert_close(called(jitlite.load(path), (x,)), changed)
    path.unlink()
    assert_close(called(module, (x,)), changed)


def test_what_cannot_be_mapped(tmp_path):
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(Large()), str(path))
    expected = called(jitlite.load(path), (torch.ones(2, 128),))
    with pytest.raises(ValueError, match="path"):
        jitlite.load(io.BytesIO(path.read_bytes()), mmap=True)
    packed = tmp_path / "packed.pt"
    source = zipfile.ZipFile(path)
    for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):  # compressed, and stored where no number may begin
        with zipfile.ZipFile(packed, "w", kind) as made:
            for name in source.namelist():
                made.writestr(name, source.read(name))
        assert_close(called(jitlite.load(packed, mmap=True), (torch.ones(2, 128),)), expected)
    cut = tmp_path / "cut.pt"
    cut.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RuntimeError):
        jitlite.load(cut, mmap=True)


# -- what is in them


def test_names_of_operators():
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x * 2)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor, n: int = 2) -> Tensor:
            return self.inner(x) + x.sum([0]) if n > 1 else x - 1

    expected = [n for n in torch.jit.export_opnames(torch.jit.script(Outer())) if n.startswith("aten::")]
    found = [n for n in export_opnames(jitlite.script(Outer())) if n.startswith("aten::")]
    assert found == sorted(expected)
    with pytest.raises(TypeError, match="script module"):
        export_opnames(Outer())


def test_what_is_known_of_older_operators():
    ours, theirs = UPGRADE_NAMES["torch._C._get_operator_version_map"](), torch._C._get_operator_version_map()
    assert {n: e[0].bumped_at_version for n, e in ours.items()} == {
        n: e[0].bumped_at_version for n, e in theirs.items()
    }
    names = {n: e[0].upgrader_name for n, e in theirs.items()}
    assert all(e[0].upgrader_name in ("", names[n]) for n, e in ours.items())
    assert {e[0].upgrader_name for e in ours.values()} - {""} == set(upgraders())
