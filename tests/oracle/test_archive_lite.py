"""Files of the lite interpreter without their source: jitlite runs their bytecode. torch.jit is the oracle."""

import copy
import io
import pickle
import zipfile
from typing import Any, Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035

import pytest
import torch
from torch import Tensor, nn
from torch.jit.mobile import _backport_for_mobile_to_buffer, _load_for_lite_interpreter

import jitlite
from jitlite.archive.errors import ArchiveError


class Pair(NamedTuple):
    number: int
    value: Tensor


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.scale = nn.Parameter(torch.full((1,), 2.0))
        self.register_buffer("shift", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.scale + self.shift * self.calls


class Flow(nn.Module):
    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = Counting()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x: Tensor, n: int = 3, names: Optional[List[str]] = None, extra: Any = None):
        for layer in self.layers:
            x = torch.relu(layer(x))
        for i in range(n):
            if i % 2 == 0:
                x = self.step.forward(x)
            else:
                x = torch.add(x, x, alpha=2)
        while bool(x.sum() > 100):
            x = x / 2
        found: Dict[str, List[int]] = {}
        if names is not None:
            for name in names:
                found[name] = [len(name), x.dim()]
        kind = "other"
        if isinstance(extra, int):
            kind = "int"
        values, indices = torch.max(x, 1)
        return values, indices, found, kind, (1, "two", 3.5)[1:], x.shape[0] // 2


class Texts(nn.Module):
    def forward(self, x: Tensor, name: str = "a"):
        first = [name, "b"][0]
        return "{}-{}".format(first, x.dtype), "%d" % x.size(0), "b" in {"b": 1}, x.dtype == torch.float32, name.upper()


class Tuples(nn.Module):
    def forward(self, x: Tensor, pair: Tuple[int, float] = (1, 2.0)):
        a, b = pair
        size = x.size()
        return x.to(torch.int32) + a, b, size, x.new_zeros([2], dtype=torch.float64), 0


class Written(nn.Module):
    def forward(self, x: Tensor):
        made = torch.zeros_like(x)
        torch.add(x, x, out=made)
        made[0] = 7.0
        values = [made, x]
        values.append(x + 1)
        return torch.cat(values), torch.div(x, 2, rounding_mode="trunc"), x.clamp(min=0.5)


class Raising(nn.Module):
    def forward(self, x: Tensor):
        if bool(x.sum() > 3):
            raise ValueError("too much")
        assert x.dim() == 2, "two dimensions"
        return x


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.full((2,), 3.0)

    @torch.jit.export
    def __getstate__(self):
        return self.factor * 2, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, bool]):
        self.factor = state[0] / 2
        self.training = state[1]

    def forward(self, x: Tensor):
        return x * self.factor[0]


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.ao.nn.quantized.Linear(3, 2)

    def forward(self, x: Tensor):
        y = self.linear(torch.quantize_per_tensor(x, 0.1, 3, torch.quint8))
        return y.dequantize(), self.linear.weight().dequantize()


class Constants(nn.Module):
    def forward(self, x: Tensor):
        return x + torch.tensor([1.0, 2.0, 3.0]), x.mean(), x.std()


MODULES: Dict[str, Tuple[Any, List[Tuple[Any, ...]]]] = {
    "flow": (Flow, [(), (4, ["x", "yy"]), (2, None, 3), (1, None, "text")]),
    "texts": (Texts, [(), ("zz",)]),
    "tuples": (Tuples, [(), ((5, 0.5),)]),
    "written": (Written, [()]),
    "stateful": (Stateful, [()]),
    "packed": (Packed, [()]),
    "constants": (lambda: torch.jit.trace(Constants(), torch.ones(2, 3)), [()]),
}


def without_code(content: bytes) -> io.BytesIO:
    source, out = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name in source.namelist():
            if "/code/" not in name:
                made.writestr(name, source.read(name))
    out.seek(0)
    return out


def changed(content: bytes, old: bytes, new: bytes) -> io.BytesIO:
    """The file with its bytecode changed."""
    source, out = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("bytecode.pkl"):
                assert old in data
                data = data.replace(old, new)
            if "/code/" not in name:
                made.writestr(name, data)
    out.seek(0)
    return out


def lite(module: nn.Module) -> bytes:
    scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    return scripted._save_to_buffer_for_lite_interpreter()


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, Tensor):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other)
    else:
        assert ours == theirs and type(ours) is type(theirs)


@pytest.mark.parametrize("name", MODULES)
def test_it_runs_as_the_source_does(name):
    make, calls = MODULES[name]
    torch.manual_seed(0)
    content = lite(make())
    for arguments in calls:
        ours, theirs = jitlite.load(without_code(content)), torch.jit.load(io.BytesIO(content))
        mobile = _load_for_lite_interpreter(io.BytesIO(content))
        x = torch.rand(2, 3)
        for _ in range(2):  # what the first call has changed, the second sees
            expected = theirs(x, *copy.deepcopy(arguments))
            same(ours(x, *copy.deepcopy(arguments)), expected)
            same(mobile(x, *copy.deepcopy(arguments)), expected)


@pytest.mark.parametrize("version", [4, 5, 6, 7])
@pytest.mark.parametrize("name", ["tuples", "constants", "flow"])
def test_older_bytecode(name, version):
    make, calls = MODULES[name]
    content = lite(make())
    older = _backport_for_mobile_to_buffer(io.BytesIO(content), version)
    ours, theirs = jitlite.load(without_code(older)), torch.jit.load(io.BytesIO(content))
    x = torch.rand(2, 3)
    for arguments in calls:
        same(ours(x, *arguments), theirs(x, *arguments))


def test_named_tuples_which_torch_itself_cannot_load():
    class Named(nn.Module):
        def forward(self, x: Tensor, n: int = 2):
            pair = Pair(n, x)
            return Pair(pair.number + 1, pair.value * 2)

    result = jitlite.load(without_code(lite(Named())))(torch.ones(1))
    assert (result.number, result.value) == (3, torch.full((1,), 2.0))


def test_keywords_defaults_and_other_methods():
    module = jitlite.load(without_code(lite(Flow())))
    x = torch.rand(2, 3)
    assert module(x, n=0, extra=1)[3] == "int"
    assert module.find_method("forward")(x, 0)[3] == module.run_method("forward", x, 0)[3] == "other"
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        module()
    with pytest.raises(AttributeError, match="no method 'backward'"):
        module.find_method("backward")
    assert "INTERFACE" not in module.forward.__name__ and "OPN" in module.find_method("forward").code


def test_state():
    module = jitlite.load(without_code(lite(Flow())))
    names = {name for name, _ in module.named_parameters()}
    assert names == {"step.scale", *(f"layers.{i}.{kind}" for i in range(2) for kind in ("weight", "bias"))}
    assert [name for name, _ in module.named_buffers()] == ["step.shift"]
    module(torch.rand(2, 3))[0].sum().backward()
    assert module.step.scale.grad is not None and module.step.calls == 2
    other = copy.deepcopy(module)
    other(torch.rand(2, 3))
    assert (module.step.calls, other.step.calls) == (2, 4)
    assert not any(m.training for m in module.eval().modules())
    with pytest.raises(TypeError, match="keep its file"):
        pickle.dumps(module)


def test_exceptions_have_their_types():
    module = jitlite.load(without_code(lite(Raising())))
    with pytest.raises(ValueError, match="too much"):
        module(torch.full((2, 2), 5.0))
    with pytest.raises(AssertionError, match="two dimensions"):
        module(torch.zeros(1))


def test_with_its_source_it_is_a_script_module():
    module = jitlite.load(io.BytesIO(lite(Flow())))
    assert "def forward" in module.code


def test_operators_of_older_versions():
    class Divided(nn.Module):
        def forward(self, x: Tensor, y: Tensor):
            return torch.div(x, y)

    source, out = zipfile.ZipFile(without_code(lite(Divided()))), io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name in source.namelist():
            made.writestr(name, b"3\n" if name.endswith("version") else source.read(name))
    out.seek(0)
    module = jitlite.load(out)
    assert module(torch.tensor([7]), torch.tensor([2])).tolist() == [3]
    assert module(torch.tensor([7.0]), torch.tensor([2])).tolist() == [3.5]


# -- what is refused


def test_unknown_operators_are_listed_all_at_once():
    content = lite(Flow())
    with pytest.raises(ArchiveError, match="aten::rexu, .*aten::maz"):
        jitlite.load(_twice(content, (b"aten::relu", b"aten::rexu"), (b"aten::max", b"aten::maz")))


def _twice(content: bytes, *changes: Tuple[bytes, bytes]) -> io.BytesIO:
    for old, new in changes:
        content = changed(content, old, new).getvalue()
    return io.BytesIO(content)


class Nothing(nn.Module):
    def forward(self, x: Tensor):
        return x


def crafted(instructions: Any, operators: Any = (), constants: Any = (), types: Any = (), registers: Any = 2) -> Any:
    """A file with a method of these instructions."""
    schema = tuple(
        (kind, tuple((("name", n), ("type", "Tensor"), ("default_value", None)) for n in names))
        for kind, names in (("arguments", ("self", "x")), ("returns", ("",)))
    )
    table = (
        ("instructions", tuple(instructions)), ("operators", operators), ("constants", constants), ("types", types),
        ("register_size", registers),
    )  # fmt: skip
    source, out = zipfile.ZipFile(without_code(lite(Nothing()))), io.BytesIO()
    name = pickle_class(source.read("archive/data.pkl"))
    with zipfile.ZipFile(out, "w") as made:
        for member in source.namelist():
            data = source.read(member)
            if member.endswith("bytecode.pkl"):
                data = pickle.dumps((8, (f"{name}.forward", table, schema)), protocol=2)
            made.writestr(member, data)
    out.seek(0)
    return out


def pickle_class(data: bytes) -> str:
    lines = data[3:].split(b"\n")
    return f"{lines[0].decode()}.{lines[1].decode()}"


START = ("STOREN", 1, 2)
END = ("RET", 0, 0)


def test_a_crafted_program_runs():
    assert jitlite.load(crafted([START, ("MOVE", 2, 0), END]))(torch.ones(1)) == 1


@pytest.mark.parametrize(
    "program",
    {
        "a register that is not there": dict(instructions=[START, ("LOAD", 3, 0), END]),
        "register 0": dict(instructions=[START, ("LOAD", 0, 0), END]),
        "too many registers": dict(instructions=[START, ("LOAD", 2, 0), END], registers=1 << 40),
        "a constant": dict(instructions=[START, ("LOADC", 1, 0), END], constants=(1,)),
        "a type": dict(instructions=[START, ("LIST_CONSTRUCT", 0, 0), END]),
        "an operator": dict(instructions=[START, ("OP", -1, 0), END]),
        "a jump out": dict(instructions=[START, ("LOAD", 2, 0), ("JMP", 5, 0), END]),
        "a jump back": dict(instructions=[START, ("LOAD", 2, 0), ("JMP", -9, 0), END]),
        "a jump nowhere": dict(instructions=[START, ("LOAD", 2, 0), ("JMP", 0, 0), END]),
        "no end": dict(instructions=[START, ("LOAD", 2, 0)]),
        "nothing": dict(instructions=[]),
        "an empty stack": dict(instructions=[START, ("DROP", 0, 0), ("LOAD", 2, 0), END]),
        "two results": dict(instructions=[START, ("LOAD", 2, 0), ("LOAD", 2, 0), END]),
        "a tuple of minus one": dict(instructions=[START, ("TUPLE_CONSTRUCT", -1, 0), END]),
        "a short loop": dict(instructions=[START, ("LOAD", 2, 0), ("LOAD", 2, 0), ("LOOP", 1, 1), END]),
        "an instruction of another machine": dict(instructions=[START, ("PY_CALL", 0, 0), END]),
        "a context": dict(instructions=[START, ("LOAD", 2, 0), ("ENTER", 0, 0), END]),
        "a huge number": dict(instructions=[START, ("LOAD", 1 << 40, 0), END]),
        "a file": dict(
            instructions=[START, ("LOAD", 2, 0), ("LOADC", 0, 0), ("OP", 0, 0), ("LOADC", 0, 0), END],
            operators=(("aten::save", "", 2),), constants=("x.pt",),
        ),
        "another library": dict(
            instructions=[START, ("LOAD", 2, 0), ("OP", 0, 0), END], operators=(("os::system", ""),)
        ),
        "a type that is none": dict(instructions=[START, ("LOAD", 2, 0), END], types=("__import__('os').sep",)),
        "a deep type": dict(instructions=[START, ("LOAD", 2, 0), END], types=("List[" * 5000,)),
    }.items(),
    ids=lambda item: item[0],
)  # fmt: skip
def test_programs_that_are_refused(program):
    with pytest.raises(ArchiveError, match="bytecode.pkl"):
        jitlite.load(crafted(**program[1]))


def test_what_a_program_cannot_reach():
    reach = [START, ("LOAD", 2, 0), ("INTERFACE_CALL", 0, 1), END]
    with pytest.raises(TypeError, match="for a module"):
        jitlite.load(crafted(reach, constants=("numpy",)))(torch.ones(1))
    attribute = [START, ("LOAD", 2, 0), ("GET_ATTR", 0, 0), END]
    with pytest.raises(TypeError, match="for a module"):
        jitlite.load(crafted(attribute))(torch.ones(1))
    method = [START, ("LOAD", 1, 0), ("INTERFACE_CALL", 0, 1), END]
    with pytest.raises(AttributeError, match="no method 'state_dict'"):
        jitlite.load(crafted(method, constants=("state_dict",)))(torch.ones(1))
    far = [START, ("LOAD", 1, 0), ("LOADC", 0, 0), ("SET_ATTR", 1 << 30, 0), ("LOAD", 2, 0), END]
    with pytest.raises(IndexError):
        jitlite.load(crafted(far, constants=(1,)))(torch.ones(1))


def test_raising_does_not_end_the_process():
    program = [START, ("LOADC", 0, 0), ("LOADC", 1, 0), ("RAISE_EXCEPTION", 0, 0), ("LOADC", 0, 0), END]
    module = jitlite.load(crafted(program, constants=("bye", "builtins.SystemExit")))
    with pytest.raises(jitlite.Error, match="bye"):
        module(torch.ones(1))


@pytest.mark.parametrize("version", [3, 10])
def test_versions_that_are_not_known(version):
    content = changed(lite(Nothing()), b"\x80\x02K\x08", b"\x80\x02K" + bytes([version]))
    with pytest.raises(ArchiveError, match=f"version {version}"):
        jitlite.load(content)


def test_the_flatbuffer_format_is_named():
    with pytest.raises(ArchiveError, match="flatbuffer"):
        jitlite.load(io.BytesIO(b"\x18\x00\x00\x00PTMF" + bytes(100)))
