"""Programs as Python source: it needs only torch, and does what the program does."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import io
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from oracle.corpus import EXAMPLES
from strategies import THEMES, compile_source, random_program
from torch import Tensor, nn

import jitlite
from jitlite.debug.equality import difference
from jitlite.debug.outcome import observe

MODELS = Path(__file__).parents[2] / "examples" / "models"
sys.path.insert(0, str(MODELS))


def names(program: jitlite.PythonProgram) -> dict[str, Any]:
    """What the source defines, without anything of jitlite available."""
    code = program.source.partition('"""\n')[2]
    assert "jitlite" not in code and "torch.jit" not in code and "__torch__" not in code
    found: dict[str, Any] = {"__name__": "written"}
    exec(compile(program.source, "written.py", "exec"), found)
    return found


def rebuilt(obj: Any) -> Any:
    """The function or module that the source is."""
    program = jitlite.to_python(obj)
    found = names(program)
    if not isinstance(obj, nn.Module):
        if "load" in found:
            found["load"](stored(program.weights))
        return found[program.name]
    return found["load"](stored(program.weights))


def stored(weights: dict[str, Tensor]) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    buffer.seek(0)
    return buffer


def plain(value: Any) -> Any:
    """Without the classes that are written anew."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return (type(value).__name__, value.name, value.value) if isinstance(value, enum.Enum) else value


def assert_same(one: Any, other: Any, arguments: tuple[Any, ...]) -> None:
    expected, got = (plain(observe(f, arguments).told) for f in (one, other))
    assert difference(expected, got) is None


# -- functions


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_the_corpus(example):
    function = jitlite.script(example.function)
    written = rebuilt(function)
    for arguments in example.arguments():
        if not any(isinstance(a, enum.Enum) for a in arguments):
            assert_same(function, written, arguments)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("number", range(12))
def test_random_programs(theme, number):
    made = random_program(number, theme)
    function = jitlite.script(compile_source(made.source)["f"])
    written = rebuilt(function)
    for arguments in made.inputs:
        assert_same(function, written, arguments)


def source_of(function: Any) -> str:
    return jitlite.script(function).to_python().source


def test_loops_and_branches_are_statements():
    def f(x: Tensor, n: int) -> Tensor:
        for i in range(n):
            if i > 2:
                x = x * i
        while bool(x.sum() > 100):
            x = x / 2
        return x

    text = source_of(f)
    assert "for i in range(n):" in text
    assert re.search(r"while bool\(.*> ?100|while bool\(torch.gt", text)
    assert "x = x * i" in text


def test_names_of_parameters_stay_and_hide_nothing():
    def f(list: List[int], torch: int, math: float, len: int) -> Tuple[int, float]:
        found = sorted(list)
        return found[torch] + len, math**0.5 + float(sum(list))

    scripted = jitlite.script(f)
    for arguments in (([3, 1, 2], 1, 2.0, 5), ([1], 0, 0.25, -1)):
        assert_same(scripted, rebuilt(scripted), arguments)
    assert rebuilt(scripted)(list=[1, 2], torch=0, math=4.0, len=1) == (2, 5.0)


def test_contexts_are_with_statements():
    def f(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
        return y + x

    text = source_of(f)
    assert "with torch.no_grad():" in text
    x = torch.ones(2, requires_grad=True)
    written = rebuilt(jitlite.script(f))
    written(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0]


def test_exceptions_keep_their_class_and_text():
    def f(n: int) -> int:
        if n > 3:
            raise ValueError(f"{n} is too large")
        assert n != 2, "not two"
        return 10 // n

    written = rebuilt(jitlite.script(f))
    with pytest.raises(ValueError, match="5 is too large"):
        written(5)
    with pytest.raises(AssertionError, match="not two"):
        written(2)
    with pytest.raises(ZeroDivisionError):
        written(0)


def test_try_is_a_try_statement():
    def f(d: Dict[str, int], key: str) -> int:
        try:
            found = d[key]
        except KeyError:
            found = -1
        return found

    scripted = jitlite.script(f)
    for arguments in (({"a": 1}, "a"), ({"a": 1}, "b")):
        assert_same(scripted, rebuilt(scripted), arguments)


def test_constants_that_are_tensors():
    table = torch.randn(5, 5)
    small = torch.tensor([1.5, float("inf"), -0.0])

    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", table)
            self.small = small

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.table + self.small[0]

    frozen = jitlite.freeze(jitlite.script(M()).eval())
    program = jitlite.to_python(frozen)
    assert any("constant" in name for name in program.weights)
    assert_same(frozen, rebuilt(frozen), (torch.randn(2, 5),))


def test_functions_left_to_python_are_refused_by_name():
    @jitlite.ignore
    def secret(x: Tensor) -> Tensor:
        return x + 1

    def f(x: Tensor) -> Tensor:
        return secret(x)

    with pytest.raises(jitlite.NotSupportedError, match="secret") as caught:
        jitlite.script(f).to_python()
    assert caught.value.range is not None


def test_what_is_not_compiled_is_a_type_error():
    with pytest.raises(TypeError, match="compile it first"):
        jitlite.to_python(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="method"):
        jitlite.to_python(jitlite.script(nn.Linear(2, 2)).forward)


# -- modules


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Pair(NamedTuple):
    left: Tensor
    right: int = 3


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, n: int = 1) -> int:
        self.count += n
        return self.count


@jitlite.interface
class Scaler(nn.Module):
    def scale(self, x: Tensor) -> Tensor:
        pass


class Doubler(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.full((2,), factor))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x)

    @jitlite.export
    def scale(self, x: Tensor) -> Tensor:
        return x * self.factor * self.weight


class Everything(nn.Module):
    scaler: Scaler
    names: List[str]

    def __init__(self) -> None:
        super().__init__()
        self.scaler = Doubler(1.5)
        self.first = Doubler(2.0)
        self.second = Doubler(3.0)
        self.alias = self.first
        self.tied = nn.Linear(2, 2)
        self.other = nn.Linear(2, 2)
        self.other.weight = self.tied.weight
        self.none = None
        self.register_parameter("missing", None)
        self.register_buffer("kept", torch.arange(2.0))
        self.register_buffer("passing", torch.arange(12.0).reshape(3, 4)[:, ::2], persistent=False)
        self.frozen = nn.Parameter(torch.ones(2, dtype=torch.float64), requires_grad=False)
        self.names = ["a", "b"]
        self.table: Dict[str, List[int]] = {"x": [1, 2], "y": []}
        self.color = Color.GREEN
        self.pair = Pair(torch.ones(2), 7)
        self.counter = Counter(5)
        self.dropout = nn.Dropout(0.5).eval()
        self.size: Tuple[int, float] = (3, float("nan"))
        self.layers = nn.ModuleDict({"in": nn.Linear(2, 2), "out": nn.Sequential(nn.Linear(2, 2), nn.Tanh())})

    def forward(self, x: Tensor, scale: Optional[float] = None) -> Tuple[Tensor, int]:
        x = self.scaler.scale(x)
        x = self.first(x) + self.second(x) + self.alias(x)
        x = self.other(self.tied(x)) + self.kept + self.passing.sum()
        for name, layer in self.layers.items():
            x = layer(x) * len(name)
        if self.color == Color.GREEN and scale is not None:
            x = x * scale
        self.table["y"].append(len(self.names))
        return self.dropout(F.relu(x)) + self.pair.left, self.counter.add(self.pair.right) + len(self.table["y"])


@pytest.fixture(scope="module")
def everything():
    torch.manual_seed(0)
    return jitlite.script(Everything())


def test_a_module_of_everything(everything):
    written = rebuilt(everything)
    for arguments in ((torch.randn(3, 2),), (torch.randn(1, 2), 0.5)):
        assert_same(everything, written, arguments)  # the second time too: the state changes


def test_state_is_the_same(everything):
    written = rebuilt(everything)
    ours, theirs = everything.state_dict(), written.state_dict()
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]) and value.dtype == theirs[name].dtype
        assert value.stride() == theirs[name].stride()
    assert [n for n, p in everything.named_parameters() if p.requires_grad] == [
        n for n, p in written.named_parameters() if p.requires_grad
    ]
    assert {n: m.training for n, m in everything.named_modules()} == {n: m.training for n, m in written.named_modules()}


def test_what_is_shared_is_shared(everything):
    written = rebuilt(everything)
    assert written.alias is written.first
    assert written.other.weight is written.tied.weight
    assert len(list(written.parameters())) == len(list(everything.parameters()))


def test_what_objects_of_a_class_differ_in_is_given_to_it(everything):
    text = everything.to_python().source
    assert text.count("class Doubler") == 1
    assert "self.first = Doubler(factor=2.0" in text
    assert "nn.Dropout()" in text and "nn.Linear(2, 2)" in text and "self.dropout.training = False" in text


def test_it_trains_alike(everything):
    written, x = rebuilt(everything), torch.randn(4, 2)
    for module in (everything, written):
        module.zero_grad()
        module(x)[0].sum().backward()
    expected = {n: p.grad for n, p in everything.named_parameters()}
    assert difference(expected, {n: p.grad for n, p in written.named_parameters()}) is None


def test_from_an_archive(everything):
    loaded = jitlite.load(io.BytesIO(everything.save_to_buffer()))
    assert_same(loaded, rebuilt(loaded), (torch.randn(3, 2),))


class Signed:
    """A class with operators, a property that is set, and a name that Python changes within classes."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.__hidden = 1

    @property
    def double(self) -> float:
        return self.value * 2

    @double.setter
    def double(self, value: float) -> None:
        self.value = value / 2

    def __add__(self, other: "Signed") -> "Signed":
        return Signed(self.value + other.value)

    def __lt__(self, other: "Signed") -> bool:
        return self.value < other.value


def test_a_module_without_weights_reads_no_file(tmp_path):
    program = jitlite.to_python(jitlite.script(torch.nn.ReLU()), tmp_path / "relu.py")
    assert not program.weights and not (tmp_path / "relu_weights.pt").exists()
    names: dict = {"__file__": str(tmp_path / "relu.py")}
    exec((tmp_path / "relu.py").read_text(), names)
    assert torch.equal(names["load"]()(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))


def test_copied_helpers_keep_their_own_variables():
    def moved(x: Tensor, device: Optional[torch.device] = None) -> Tensor:
        return torch.zeros(1, device=torch.device("cpu")) + x.to(device)

    program = jitlite.to_python(jitlite.script(moved))
    names: dict = {}
    exec(program.source, names)
    assert torch.equal(names[program.name](torch.ones(2)), torch.ones(2))


def test_script_classes():
    def f(x: float) -> Tuple[float, float, float]:
        found = Signed(x) + Signed(1.0)
        found.double = found.double + 3
        ordered = sorted([Signed(3.0), found, Signed(-1.0)])
        return found.value, found.double, ordered[0].value

    scripted = jitlite.script(f)
    assert_same(scripted, rebuilt(scripted), (2.5,))


def test_forked_calls_and_memory_that_is_shared():
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = torch.arange(6.0)
            self.register_buffer("head", whole[:4])
            self.register_buffer("tail", whole[2:])

        def forward(self, x: Tensor) -> Tensor:
            self.head.add_(1)
            return jitlite.wait(jitlite.fork(scaled, self.tail, x))

    scripted = jitlite.script(M())
    assert_same(scripted, rebuilt(scripted), (torch.tensor(2.0),))


def scaled(x: Tensor, by: Tensor) -> Tensor:
    return x * by


def test_modules_with_several_signatures():
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4)
            self.attention = nn.MultiheadAttention(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            x, _ = self.lstm(x)
            return self.attention(x, x, x)[0]

    scripted = jitlite.script(M())
    text = scripted.to_python().source
    assert "self.lstm = nn.LSTM(3, 4)" in text and "nn.MultiheadAttention(" in text
    assert_same(scripted, rebuilt(scripted), (torch.randn(2, 1, 3),))
    whole = jitlite.script(nn.LSTM(2, 3))
    assert type(rebuilt(whole)) is nn.LSTM


def test_hooks():
    def before(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
        return (input[0] + 1,)

    def after(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
        return output * 2

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.ReLU()
            self.inner.register_forward_pre_hook(before)
            self.inner.register_forward_hook(after)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    scripted = jitlite.script(Outer())
    written = rebuilt(scripted)
    x = torch.randn(5)
    assert_same(scripted, written, (x,))
    assert torch.equal(written.inner(x), F.relu(x + 1) * 2)


def test_a_module_that_only_looks_like_that_of_torch():
    class Linear(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return F.linear(input, self.weight, self.bias) + 1

    Linear.__module__, Linear.__qualname__ = nn.Linear.__module__, "Linear"
    scripted = jitlite.script(nn.Sequential(Linear(2, 2)))
    assert "nn.Linear(2, 2)" not in scripted.to_python().source
    assert_same(scripted, rebuilt(scripted), (torch.randn(1, 2),))


def test_traced_modules():
    traced = jitlite.trace(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval(), torch.ones(1, 1, 5, 5)
    )
    assert_same(traced, rebuilt(traced), (torch.randn(2, 1, 6, 6),))


@pytest.mark.parametrize("name", ["detector", "language_model", "mobilenet", "resnet", "transformer"])
def test_the_example_models(name, without_kernels):
    example = importlib.import_module(name)
    torch.manual_seed(0)
    model, batch = jitlite.script(example.build()), example.batches(1)[0]
    arguments = batch if name == "transformer" else (batch,) if name == "language_model" else batch[:1]
    assert_same(model, rebuilt(model), tuple(arguments))
    loaded = jitlite.load(io.BytesIO(model.save_to_buffer()))
    assert_same(loaded, rebuilt(loaded), tuple(arguments))


def test_an_object_in_two_places_of_containers_is_refused():
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inner = [1]
            self.lists = [inner, inner]

        def forward(self) -> int:
            return len(self.lists)

    with pytest.raises(jitlite.NotSupportedError, match="one object"):
        jitlite.script(M()).to_python()


def test_names_that_are_no_identifiers():
    module = nn.Module()
    module.add_module("a-b", nn.ReLU())
    outer = nn.Sequential()
    outer.add_module("first one", nn.Linear(2, 2))
    outer.add_module("0'); import os; ('", nn.ReLU())
    scripted = jitlite.script(outer)
    assert_same(scripted, rebuilt(scripted), (torch.randn(1, 2),))


# -- files


def test_files(tmp_path, everything):
    program = everything.to_python(tmp_path / "net.py")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.py", "net_weights.pt"]
    spec = importlib.util.spec_from_file_location("net", tmp_path / "net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert_same(jitlite.load(io.BytesIO(everything.save_to_buffer())), module.load(), (torch.randn(1, 2),))
    assert program.name == "Everything"
    with pytest.raises(ValueError, match=r"\.py"):
        program.save(tmp_path / "net.txt")


def test_weights_are_read_without_pickle(everything):
    weights = torch.load(stored(everything.to_python().weights), weights_only=True)
    assert set(everything.state_dict()) <= set(weights)


def test_the_same_program_gives_the_same_text(everything):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert everything.to_python().source == everything.to_python().source
