"""Archives that torch.jit writes, read by jitlite: the same results, the same state. torch.jit is the oracle."""

import copy
import enum
import gc
import io
import math
import pickle
import struct
import warnings
import weakref
import zipfile
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

import pytest
import torch
from torch import Tensor, nn

import jitlite

# -- classes that archives hold


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Point(NamedTuple):
    x: int
    label: Optional[str] = None


class Scaled:
    def __init__(self, values: List[float], scale: int = 2):
        self.values = values
        self.scale = scale

    def get(self, i: int = 0) -> float:
        return self.values[i] * self.scale

    def __lt__(self, other: "Scaled") -> bool:
        return self.scale < other.scale


class Switched:
    def __init__(self) -> None:
        self.log: List[str] = []

    def __enter__(self) -> "Switched":
        self.log.append("in")
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.log.append("out")


@torch.jit.interface
class Operation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class AddOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def scaled_by(x: Tensor, k: int = 3, note: str = 'a "quoted"\n text') -> Tensor:
    return x * k


# -- modules, one for each kind of thing


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten())
        self.out = nn.ModuleList([nn.Linear(18, 4), nn.Linear(4, 2)])
        self.rnn = nn.LSTM(2, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = self.net(x)
        for layer in self.out:
            y = layer(y)
        z, (h, c) = self.rnn(y.unsqueeze(1))
        return z, h + c


class Control(nn.Module):
    def forward(self, x: Tensor, n: int = 3, names: Optional[List[str]] = None):
        total = 0.0
        for i in range(n):
            if i % 2 == 0:
                x = x + i
            else:
                total += float(x.sum()) * 1e-3
        while x.sum() > 50:
            x = x / 2
        found: Dict[str, Tensor] = {}
        if names is not None:
            for name in names:
                found[name] = x * len(name)
        kinds = torch.jit.annotate(List[Optional[int]], [])
        kinds.append(None)
        return x, total, found, kinds, math.inf, -1e-7, (1, "two", 3.5)[1:]


class Values(nn.Module):
    points: List[Point]
    nested: Dict[str, List[Tuple[int, float]]]
    maybe: Optional[Tensor]
    mixed: Union[int, str]
    count: Final[int]

    def __init__(self) -> None:
        super().__init__()
        self.points = [Point(1, "a"), Point(2)]
        self.nested = {"é": [(1, 0.1)], "": []}
        self.maybe = None
        self.mixed = "text"
        self.count = 7
        self.color = Color.BLUE
        self.level = Level.HIGH
        self.device = torch.device("cpu")
        self.dtype = torch.float64
        self.number = 2**40
        self.negative = -(2**35)
        self.ratio = 0.1
        self.whole = 3 + 4j
        self.flags = [True, False]
        self.tensors = [torch.ones(2), torch.zeros(1)]

    def forward(self, x: Tensor):
        same = x.dtype == torch.float32
        return (
            self.points, self.nested, self.maybe, self.count, self.color, self.level, x.to(self.dtype),
            self.number + self.negative, self.ratio, self.whole, self.flags, self.tensors, same, "naïve ☃", self.mixed,
        )  # fmt: skip


class Objects(nn.Module):
    operation: Operation

    def __init__(self) -> None:
        super().__init__()
        self.operation = AddOne()
        self.held = Scaled([1.0, 2.0])
        self.color = Color.RED

    def forward(self, x: Tensor) -> Tuple[Tensor, float, List[str], int, bool, float]:
        made = Scaled([5.0], 4)
        with Switched() as switched:
            x = self.operation.forward(x)
        with torch.no_grad():
            x = x * 2
        order = sorted([made, self.held])
        self.held.scale += 1
        return scaled_by(x), made.get(), switched.log, order[0].scale, self.color == Color.RED, self.held.get(1)


class Forked(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        later = torch.jit.fork(scaled_by, x, k=4)
        return torch.jit.wait(later), x


class Raising(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            raise ValueError("positive")
        assert x.numel() == 2, "two are wanted"
        return x


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.ones(2)
        self.n = 1

    @torch.jit.export
    def __getstate__(self) -> Tuple[Tensor, int, bool]:
        return self.w * 2, self.n + 1, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, int, bool]) -> None:
        self.w = state[0] + 1
        self.n = state[1] * 10
        self.training = state[2]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w + self.n


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = AddOne()

        def before(module, input: Tuple[Tensor]) -> Tuple[Tensor]:
            return (input[0] * 2,)

        def after(module, input: Tuple[Tensor], output: Tensor) -> Tensor:
            return output - input[0]

        self.register_forward_pre_hook(before)
        self.inner.register_forward_hook(after)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * 3


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight
        base = torch.arange(12.0)
        self.register_buffer("base", base)
        self.register_buffer("view", base.view(3, 4).t()[1:, ::2])
        self.shared = [base, base]

    def forward(self, x: Tensor) -> Tensor:
        self.base.add_(1)
        return self.b(self.a(x)).sum() + self.view.sum() + self.shared[0].sum() + self.shared[1].sum()


class Kinds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for dtype in (torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int8, torch.bool):
            self.register_buffer(f"b_{str(dtype)[6:]}", torch.tensor([0, 1, 1]).to(dtype))
        self.register_buffer("empty", torch.empty(0, 3))
        self.register_buffer("scalar", torch.tensor(3.5))
        self.register_buffer("sparse", torch.eye(3).to_sparse())
        self.register_buffer("rows", torch.eye(3).to_sparse_csr())
        self.register_buffer("quantized", torch.quantize_per_tensor(torch.arange(3.0), 0.1, 2, torch.qint8))
        scales, zeros = torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
        self.register_buffer("channels", torch.quantize_per_channel(torch.ones(2, 2), scales, zeros, 0, torch.quint8))
        self.register_buffer("conjugate", torch.tensor([1 + 2j]).conj())
        self.register_buffer("nothing", None)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.sparse.to_dense().sum() + self.quantized.dequantize().sum() + self.channels.dequantize().sum()
        return x + parts + self.rows.to_dense().sum()


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weight = torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(x, self.packed)


class Constant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tensor([1.0, 2.0]) + 1


class Several(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.twice(x, 2)

    @torch.jit.export
    def twice(self, x: Tensor, k: int = 2) -> Tensor:
        return x * k

    @torch.jit.export
    def text(self, what: str = "ÿ") -> str:
        return what + "!"


SCRIPTED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "layers": (Layers, (torch.ones(2, 1, 3, 3),)),
    "control": (Control, (torch.ones(3), 5, ["a", "bcd"])),
    "values": (Values, (torch.ones(2),)),
    "objects": (Objects, (torch.ones(2),)),
    "forked": (Forked, (torch.ones(2),)),
    "raising": (Raising, (-torch.ones(2),)),
    "stateful": (Stateful, (torch.ones(2),)),
    "hooked": (Hooked, (torch.ones(2),)),
    "tied": (Tied, (torch.ones(3),)),
    "kinds": (Kinds, (torch.ones(3),)),
    "constant": (Constant, (torch.ones(2),)),
    "several": (Several, (torch.ones(2),)),
    "two layers of one kind": (lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3, bias=False)), (torch.ones(2),)),
}


def saved(module: Any, **files: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer, **files)
    buffer.seek(0)
    return buffer


def both(module: Any) -> tuple[Any, Any]:
    """What torch.jit and what jitlite read of the archive of a module."""
    content = saved(module).getvalue()
    return torch.jit.load(io.BytesIO(content)), jitlite.load(io.BytesIO(content))


def assert_same(expected: Any, got: Any) -> None:
    if isinstance(expected, Tensor):
        assert (expected.dtype, expected.layout, expected.shape) == (got.dtype, got.layout, got.shape)
        assert expected.requires_grad == got.requires_grad and expected.is_conj() == got.is_conj()
        if expected.is_quantized:
            assert expected.qscheme() == got.qscheme()
            expected, got = expected.dequantize(), got.dequantize()
        if expected.layout is torch.strided:
            assert expected.stride() == got.stride()
        torch.testing.assert_close(expected.to_dense(), got.to_dense(), equal_nan=True)
    elif isinstance(expected, dict):
        assert list(expected) == list(got)
        for key, value in expected.items():
            assert_same(value, got[key])
    elif isinstance(expected, list | tuple):
        assert len(expected) == len(got)
        if hasattr(expected, "_fields"):  # torch.jit gives plain tuples for those in a list
            assert got._fields == expected._fields
        for one, other in zip(expected, got, strict=True):
            assert_same(one, other)
    elif isinstance(expected, enum.Enum):
        assert (expected.name, expected.value) == (got.name, got.value)
    else:
        assert type(expected) is type(got) and expected == got


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_scripted_module(name):
    make, arguments = SCRIPTED[name]
    torch.manual_seed(3)
    theirs, ours = both(torch.jit.script(make()))
    assert_same(theirs.state_dict(), ours.state_dict())
    assert [n for n, _ in theirs.named_parameters()] == [n for n, _ in ours.named_parameters()]
    assert [n for n, _ in theirs.named_modules()] == [n for n, _ in ours.named_modules()]
    assert theirs.training == ours.training and theirs.original_name == ours.original_name
    for _ in range(2):  # what a call leaves behind counts as well
        assert_same(theirs(*copy.deepcopy(arguments)), ours(*copy.deepcopy(arguments)))
    assert_same(theirs.state_dict(), ours.state_dict())
    assert set(theirs._c._method_names()) == set(ours._c._method_names())


@pytest.mark.parametrize("name", ["layers", "constant", "kinds"])
def test_a_traced_module(name):
    make, arguments = SCRIPTED[name]
    theirs, ours = both(torch.jit.trace(make().eval(), arguments, check_trace=False))
    assert_same(theirs(*arguments), ours(*arguments))
    assert_same(theirs.state_dict(), ours.state_dict())


def test_a_quantized_module():
    theirs, ours = both(torch.jit.script(Packed()))
    assert_same(theirs(torch.ones(1, 3)), ours(torch.ones(1, 3)))


def test_a_script_function():
    content = saved(torch.jit.script(scaled_by)).getvalue()
    theirs, ours = torch.jit.load(io.BytesIO(content)), jitlite.load(io.BytesIO(content))
    assert_same(theirs(torch.ones(2), 4, "n"), ours(torch.ones(2), 4, "n"))


def test_a_frozen_module():
    theirs, ours = both(torch.jit.freeze(torch.jit.script(Layers().eval())))
    assert_same(theirs(torch.ones(2, 1, 3, 3)), ours(torch.ones(2, 1, 3, 3)))


def test_exceptions_have_their_types():
    _, ours = both(torch.jit.script(Raising()))
    with pytest.raises(ValueError, match="positive"):
        ours(torch.ones(2))
    with pytest.raises(AssertionError, match="two are wanted"):
        ours(-torch.ones(3))


def test_tied_weights_stay_tied():
    _, ours = both(torch.jit.script(Tied()))
    assert ours.a.weight is ours.b.weight
    assert ours.view.untyped_storage().data_ptr() == ours.base.untyped_storage().data_ptr()
    assert ours.shared[0] is ours.shared[1]


def test_other_methods():
    theirs, ours = both(torch.jit.script(Several()))
    assert ours.text() == theirs.text() == "ÿ!"
    assert_same(theirs.twice(torch.ones(1), k=5), ours.twice(torch.ones(1), k=5))
    assert ours.schema.arguments[1].name == "x"
    assert "torch.mul" in ours.twice.code and "aten::mul" in str(ours.twice.graph)


def test_errors_show_the_original_file():
    _, ours = both(torch.jit.script(Layers()))
    with pytest.raises(RuntimeError) as caught:
        ours(torch.ones(2, 5, 3, 3))
    notes = "".join(getattr(caught.value, "__notes__", ()))
    assert __file__ in notes and "y = self.net(x)" in notes and "conv.py" in notes


@pytest.mark.parametrize("compiler", [torch.jit, jitlite])
@pytest.mark.parametrize("traced", [False, True])
def test_nodes_have_the_lines_of_the_original_file(compiler, traced):
    made = compiler.trace(Thrice(), torch.ones(2)) if traced else compiler.script(Thrice())
    graph = jitlite.load(io.BytesIO(made.save_to_buffer())).graph
    (place,) = [n.range for n in graph.nodes if n.kind == "aten::mul"]
    assert place.location().startswith(f"{__file__}:{Thrice.forward.__code__.co_firstlineno + 1}:")


class Thrice(nn.Module):
    def forward(self, x):
        return x * 3


def test_a_trained_module_goes_on():
    _, ours = both(torch.jit.script(nn.Linear(2, 1)))
    before = ours.weight.detach().clone()
    optimizer = torch.optim.SGD(ours.parameters(), 0.1)
    ours(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(ours.weight.detach(), before - 0.3)


def test_copies_and_freezing():
    _, ours = both(torch.jit.script(Layers().eval()))
    x = torch.ones(2, 1, 3, 3)
    expected = ours(x)
    assert_same(expected, copy.deepcopy(ours)(x))
    assert copy.deepcopy(ours).rnn.weight_ih_l0 is not ours.rnn.weight_ih_l0
    assert copy.copy(ours).rnn is ours.rnn
    frozen = jitlite.freeze(ours)
    torch.testing.assert_close([t.detach() for t in expected], [t.detach() for t in frozen(x)])
    assert not list(frozen.parameters())


def test_pickling():
    _, ours = both(torch.jit.script(Tied()))
    again = pickle.loads(pickle.dumps(ours))
    assert_same(ours.state_dict(), again.state_dict())
    assert_same(ours(torch.ones(3)), again(torch.ones(3)))
    assert again.a.weight is again.b.weight


def test_what_is_saved_again_is_the_same():
    for name in ("layers", "control", "values", "objects", "forked", "raising", "tied", "kinds", "constant", "several"):
        make, arguments = SCRIPTED[name]
        theirs, ours = both(torch.jit.script(make()))
        buffer = io.BytesIO()
        jitlite.save(ours, buffer)
        again = torch.jit.load(io.BytesIO(buffer.getvalue()))
        assert_same(theirs(*copy.deepcopy(arguments)), again(*copy.deepcopy(arguments)))
        assert theirs.code == again.code


def test_a_loaded_module_within_another():
    class Outer(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) + 1

    _, ours = both(torch.jit.script(AddOne()))
    assert_same(torch.full((2,), 3.0), jitlite.script(Outer(ours))(torch.ones(2)))


def test_containers_stay_containers():
    _, ours = both(torch.jit.script(Layers()))
    assert len(ours.out) == 2 and [type(m) for m in ours.out] == [type(ours.out[0]), type(ours.out[1])]
    assert len(ours.net) == 4


# -- files


def test_from_a_path_a_buffer_and_the_middle_of_a_file(tmp_path):
    module = torch.jit.script(Constant())
    path = tmp_path / "constant.pt"
    module.save(str(path))
    x = torch.ones(2)
    for source in (str(path), path):
        assert_same(module(x), jitlite.load(source)(x))
    with path.open("rb") as file:
        assert_same(module(x), jitlite.load(file)(x))
    middle = io.BytesIO(b"before" + path.read_bytes())
    middle.seek(6)
    assert_same(module(x), jitlite.load(middle)(x))


def test_a_file_that_cannot_be_searched():
    class Pipe:
        def __init__(self, content: bytes) -> None:
            self.content = content

        def read(self) -> bytes:
            return self.content

    assert_same(torch.full((2,), 2.0), jitlite.load(Pipe(saved(torch.jit.script(AddOne())).getvalue()))(torch.ones(2)))


def test_the_file_is_let_go():
    buffer = saved(torch.jit.script(Constant()))
    kept = weakref.ref(buffer)
    loaded = jitlite.load(buffer)
    del buffer
    gc.collect()
    assert kept() is None
    assert_same(torch.tensor([2.0, 3.0]), loaded(torch.ones(2)))


def test_extra_files():
    buffer = saved(torch.jit.script(AddOne()), _extra_files={"note.txt": b"hello", "a/b": "text"})
    theirs = {"note.txt": "", "a/b": "", "missing": "default"}
    ours = dict(theirs)
    torch.jit.load(io.BytesIO(buffer.getvalue()), _extra_files=theirs)
    jitlite.load(buffer, _extra_files=ours)
    assert ours == theirs and ours["note.txt"] == b"hello"


def test_map_location():
    module = jitlite.load(saved(torch.jit.script(nn.Linear(2, 2))), map_location="meta")
    assert module.weight.is_meta
    assert jitlite.load(saved(torch.jit.script(nn.Linear(2, 2))), torch.device("cpu")).weight.device.type == "cpu"
    with pytest.raises(ValueError, match="map_location"):
        jitlite.load(saved(torch.jit.script(nn.Linear(2, 2))), map_location=3)


def rewritten(buffer: io.BytesIO, change: Any, top: str = "archive") -> io.BytesIO:
    """The archive with other members, written by a plain ZIP library: `change` gives the new content, None for none."""
    result = io.BytesIO()
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            name = info.filename.partition("/")[2]
            content = change(name, old.read(info))
            if content is not None:
                new.writestr(f"{top}/{name}", content)
    result.seek(0)
    return result


def test_an_archive_rewritten_by_another_program():
    buffer = saved(torch.jit.script(Layers().eval()))
    dropped = (".data/serialization_id", "byteorder")
    again = rewritten(
        buffer, lambda n, c: None if n in dropped or n.endswith(".debug_pkl") else c, top="other name"
    )  # fmt: skip
    x = torch.ones(2, 1, 3, 3)
    assert_same(torch.jit.load(io.BytesIO(buffer.getvalue()))(x), jitlite.load(again)(x))


def test_numbers_in_the_other_byte_order():
    def swapped(name: str, content: bytes) -> bytes:
        if name == "byteorder":
            return b"big"
        if name == "data/0":
            return struct.pack(f">{len(content) // 4}f", *struct.unpack(f"<{len(content) // 4}f", content))
        return content

    module = torch.jit.script(nn.Linear(3, 2, bias=False))
    assert_same(module.weight.detach(), jitlite.load(rewritten(saved(module), swapped)).weight.detach())


OLD_CODE = """op_version_set = 1
class W(Module):
  __parameters__ = []
  __annotations__ = []
  training : bool
  def forward(self: __torch__.W,
    x: Tensor) -> Tensor:
    return {body}
"""


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ("torch.div(x, 2)", 3), ("torch.div(x, 2)", 4), ("torch.div(torch.to(x, 3), torch.to(x, 3))", 2),
        ("torch.div(x, x, out=torch.to(x, 3))", 1), ("torch.div_(torch.to(x, 3), 2)", 3),
        ("torch.full([2], 1)", 4), ("torch.full([2], 1)", 5), ("torch.full([2], 1, dtype=4)", 2),
        ("torch.linspace(0, 10, None)", 7), ("torch.logspace(0, 1, None, 2.)", 8), ("torch.gelu(x)", 9),
        ("ops.prim.data(torch.detach(x))", 1), ("torch.unsqueeze(x, 0)", 1),
    ],
)  # fmt: skip
def test_operators_of_older_versions(body, version):
    class W(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    def old(name: str, content: bytes) -> bytes | None:
        if name.startswith("code/"):
            return OLD_CODE.format(body=body).encode() if name == "code/__torch__.py" else None
        if name == "data.pkl":
            return b"\x80\x02c__torch__\nW\nq\x00)\x81}(X\x08\x00\x00\x00trainingq\x01\x88ub."
        return f"{version}\n".encode() if name.endswith("version") else content

    archive = rewritten(saved(torch.jit.script(W())), old).getvalue()
    x = torch.tensor([3.7, -5.2])
    try:
        expected = torch.jit.load(io.BytesIO(archive))(x.clone())
    except RuntimeError:
        with pytest.raises(RuntimeError):
            jitlite.load(io.BytesIO(archive))(x.clone())
        return
    assert_same(expected, jitlite.load(io.BytesIO(archive))(x.clone()))


def test_in_a_drop_in():
    buffer = saved(torch.jit.script(AddOne()))
    with jitlite.drop_in():
        assert isinstance(torch.jit.load(buffer), jitlite.ScriptModule)
