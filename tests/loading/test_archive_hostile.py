"""Archives that are damaged, or made to harm: an error that names the member, and nothing else happens."""

from __future__ import annotations

import copy
import io
import pathlib
import pickle
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitlite
from jitlite import ArchiveError, CompileError
from jitlite.compat.torch_names import interpret_graph

MUTATED = 300
"""Archives with changed bytes that are tried."""

CODE = """class M(Module):
  __parameters__ = ["w", ]
  __buffers__ = []
  w : Tensor
  training : bool
  n : int
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    w = self.w
    return torch.add(torch.mul(x, w), CONSTANTS.c0)
"""


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def name(module: str, symbol: str) -> bytes:
    return f"c{module}\n{symbol}\n".encode()


def tensor(key: str = "0", count: int = 2, offset: int = 0, size: bytes = b"K\x02\x85", stride: bytes = b"K\x01\x85"):
    storage = b"(" + text("storage") + name("torch", "FloatStorage") + text(key) + text("cpu") + number(count) + b"tQ"
    hooks = name("collections", "OrderedDict") + b")R"
    return (
        name("torch._utils", "_rebuild_tensor_v2")
        + b"("
        + storage
        + number(offset)
        + size
        + stride
        + b"\x89"
        + hooks
        + b"tR"
    )


def number(value: int) -> bytes:
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


def module(**attributes: bytes) -> bytes:
    state = b"".join(text(key) + value for key, value in attributes.items())
    return b"\x80\x02" + name("__torch__", "M") + b")\x81}(" + state + b"ub."


GOOD: dict[str, bytes] = {
    "data.pkl": module(w=tensor(), training=b"\x89", n=b"K\x07"),
    "data/0": struct.pack("<2f", 2.0, 3.0),
    "code/__torch__.py": CODE.encode(),
    "constants/0": struct.pack("<2f", 1.0, 1.0),
    "constants.pkl": b"\x80\x02" + tensor() + b"\x85.",
    "version": b"3\n",
}


def archive(changes: dict[str, bytes | None] | None = None, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for member, content in {**GOOD, **(changes or {})}.items():
            if content is not None:
                file.writestr(f"m/{member}", content)
    return buffer.getvalue()


def load(content: bytes) -> Any:
    return jitlite.load(io.BytesIO(content))


def run(content: bytes) -> Any:
    return load(content)(torch.ones(2))


def refused(content: bytes, member: str | None, match: str = "") -> None:
    with pytest.raises(ArchiveError, match=match or None) as caught:
        run(content)
    assert caught.value.member == member
    assert member is None or member in str(caught.value)


def test_the_good_one():
    assert run(archive()).tolist() == [3.0, 4.0]
    assert run(archive(compression=zipfile.ZIP_DEFLATED)).tolist() == [3.0, 4.0]


# -- pickles


class Gadget:
    def __reduce__(self) -> Any:
        return pathlib.Path.touch, (pathlib.Path("/tmp/jitlite-was-here"),)


def nested(depth: int) -> bytes:
    return b"]" * depth + b"a" * (depth - 1)


def doubled(times: int) -> bytes:
    """A tuple that holds itself twice, `times` deep, so that whoever walks it takes for ever."""
    return b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(times))


PICKLES: dict[str, tuple[bytes, str]] = {
    "a gadget of pickle": (pickle.dumps(Gadget(), protocol=2), "names"),
    "os.system": (b"\x80\x02" + name("os", "system") + text("true") + b"\x85R.", "names os.system"),
    "builtins.eval": (b"\x80\x02" + name("builtins", "eval") + text("1") + b"\x85R.", "names builtins.eval"),
    "torch.load": (b"\x80\x02" + name("torch", "load") + text("x") + b"\x85R.", "names torch.load"),
    "a dotted name": (b"\x80\x02" + name("torch", "os.system") + text("x") + b"\x85R.", "names torch"),
    "a class of Python": (b"\x80\x02" + name("torch.nn", "Linear") + b")\x81}b.", "names torch.nn"),
    "an opcode for extensions": (b"\x80\x02\x82\x01.", "opcode"),
    "an instance by opcode": (b"\x80\x02(ios\nsystem\n.", "opcode"),
    "a stack global": (b"\x80\x04" + text("os") + text("system") + b"\x93.", "opcode"),
    "nothing": (b"", "ends"),
    "no end": (b"\x80\x02}", "ends"),
    "an empty stack": (b"\x80\x02.", "missing"),
    "no mark": (b"\x80\x02t.", "mark"),
    "a mark as a value": (b"\x80\x02(.", "missing"),
    "a value that is not there": (b"\x80\x02h\x05.", "no value"),
    "a text of four gigabytes": (b"\x80\x02X\xff\xff\xff\xff.", "ends"),
    "a text of many exabytes": (b"\x80\x02\x8d" + b"\xff" * 8 + b".", "ends"),
    "a number of 255 bytes": (b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".", "number"),
    "no UTF-8": (b"\x80\x02X\x02\x00\x00\x00\xff\xfe.", "UTF-8"),
    "an unhashable key": (b"\x80\x02}](K\x01u.", ""),
    "a key that takes for ever": (b"\x80\x02}" + doubled(60) + b"K\x01s.", "many times"),
    "a tuple as a key": (b"\x80\x02})K\x01s.", "key"),
    "a call of a number": (b"\x80\x02K\x01)R.", "called"),
    "state for a number": (b"\x80\x02K\x01}b.", "state"),
    "an object with arguments": (b"\x80\x02" + name("__torch__", "M") + b"K\x01\x85\x81}b.", "arguments"),
    "a class called": (b"\x80\x02" + name("__torch__", "M") + b")R.", ""),
    "an unknown class": (b"\x80\x02" + name("__torch__.a.b", "C") + b")\x81}b.", "code/__torch__/a/b.py"),
    "a path for a class": (b"\x80\x02" + name("__torch__.../../etc", "C") + b")\x81}b.", "Unknown type name"),
    "a library's class": (b"\x80\x02" + name("__torch__.torch.classes.evil", "C") + b")\x81}b.", "library"),
    "a torch class with no state": (
        b"\x80\x02" + name("__torch__.torch.classes.quantized", "Conv2dPackedParamsBase") + b")\x81)b.", ""),
    "attributes missing": (module(), "missing"),
    "an attribute of another type": (module(w=b"K\x01", training=b"\x89", n=b"K\x07"), "'w'"),
    "a deep attribute": (module(w=tensor(), training=b"\x89", n=nested(100_000)), "deep"),
    "a state that is no dict": (b"\x80\x02" + name("__torch__", "M") + b")\x81K\x01b.", "dict"),
    "a record elsewhere": (module(w=tensor("../../../etc/passwd"), training=b"\x89", n=b"K\x07"), ""),
    "a view beyond the storage": (module(w=tensor(offset=1), training=b"\x89", n=b"K\x07"), "beyond"),
    "a negative offset": (module(w=tensor(offset=-1), training=b"\x89", n=b"K\x07"), "offset"),
    "a negative stride": (module(w=tensor(stride=number(-1) + b"\x85"), training=b"\x89", n=b"K\x07"), "strides"),
    "a huge size": (module(w=tensor(size=number(2**62) + b"\x85"), training=b"\x89", n=b"K\x07"), "beyond"),
    "sizes without strides": (module(w=tensor(size=b")"), training=b"\x89", n=b"K\x07"), "strides"),
    "a negative count": (module(w=tensor(count=-1), training=b"\x89", n=b"K\x07"), "elements"),
    "a tensor without storage": (
        b"\x80\x02" + name("torch._utils", "_rebuild_tensor_v2") + b"(K\x01K\x00))\x89}tR.", "storage"),
    "a storage that is none": (b"\x80\x02K\x01Q.", "storage"),
    "a device that is none": (b"\x80\x02" + name("torch", "device") + text("nowhere") + b"\x85R.", "damaged"),
    "a deep type": (
        b"\x80\x02" + name("torch.jit._pickle", "restore_type_tag") + b"]"
        + text("List[" * 20_000 + "__torch__.M" + "]" * 20_000) + b"\x86R.", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", PICKLES)
def test_a_hostile_pickle(kind):
    content, match = PICKLES[kind]
    changed = archive({"data.pkl": content})
    with pytest.raises((ArchiveError, CompileError), match=match or None) as caught:
        load(changed)
    assert isinstance(caught.value, CompileError) or caught.value.member in ("data.pkl", "data/../../../etc/passwd")
    assert not pathlib.Path("/tmp/jitlite-was-here").exists()


def test_a_huge_storage_is_not_allocated():
    refused(archive({"data.pkl": module(w=tensor(count=2**50), training=b"\x89", n=b"K\x07")}), "data/0", "bytes")


def test_what_holds_itself():
    code = CODE.replace("n : int", "n : List[Any]").encode()
    for itself in (b"]q\x09h\x09a", b"]q\x09(h\x09e", b"]q\x09h\x09\x85a", b"]q\x09}(K\x01h\x09u0h\x09h\x09a"):
        changed = archive({"data.pkl": module(w=tensor(), training=b"\x89", n=itself), "code/__torch__.py": code})
        with pytest.raises(ArchiveError, match="in use"):
            load(changed)


# -- containers


def test_members_that_are_missing():
    for member in ("data.pkl", "constants.pkl", "version", "data/0", "constants/0"):
        refused(archive({member: None}), member)
    with pytest.raises(ArchiveError, match="code/__torch__.py") as caught:
        load(archive({"code/__torch__.py": None}))
    assert caught.value.member == "data.pkl"


@pytest.mark.parametrize(
    ("content", "match"),
    [(b"11\n", "newer"), (b"0\n", "version 0"), (b"x", "no version"), (b"", "no version"), (b"9" * 5000, "newer|known"),
     ("٣".encode(), "no version")],
)  # fmt: skip
def test_versions(content, match):
    refused(archive({"version": content}), "version", match)


def test_a_zip_bomb():
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        for member, content in GOOD.items():
            file.writestr(f"m/{member}", content)
        file.writestr("m/code/bomb.py", b" " * 50_000_000)
    refused(bomb.getvalue(), "code/bomb.py", "bomb")


def test_a_size_that_lies():
    content = bytearray(archive())
    at = content.rindex(b"PK\x01\x02", 0, content.rindex(b"m/data/0"))
    content[at + 20 : at + 28] = struct.pack("<II", 2**31, 2**31)
    refused(bytes(content), "data/0")


def test_two_members_of_a_name():
    buffer = io.BytesIO(archive())
    with pytest.warns(UserWarning), zipfile.ZipFile(buffer, "a") as file:
        file.writestr("m/data.pkl", b"other")
    refused(buffer.getvalue(), "data.pkl", "two members")


def test_a_changed_byte_of_a_record():
    content = archive()
    at = content.index(GOOD["data/0"])
    refused(content[:at] + b"\x99" + content[at + 1 :], "data/0", "CRC")


OTHER_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "text": (b"hello world", "no ZIP file"),
    "pickle": (pickle.dumps({"a": 1}, protocol=2), "torch.load"),
    "flatbuffer": (b"\x00\x00\x00\x00PTMF" + b"\x00" * 40, "flatbuffer"),
    "cut off": (archive()[:-30], "incompletely"),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_other_files(kind):
    refused(OTHER_FILES[kind][0], None, OTHER_FILES[kind][1])


def members(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for member in names:
            file.writestr(member, b"3\n")
    return buffer.getvalue()


def test_archives_of_other_kinds():
    checkpoint = io.BytesIO()
    torch.save(torch.nn.Linear(1, 1).state_dict(), checkpoint)
    refused(checkpoint.getvalue(), None, "(?s)state_dict.*torch.load")
    refused(members("m/version", "m/bytecode.pkl", "m/constants.pkl"), None, "lite interpreter")
    refused(members("m/version", "m/bytecode.pkl", "m/constants.pkl", "m/data.pkl"), "bytecode.pkl", "pickle")
    refused(members("m/archive_format", "m/archive_version", "m/models/model.json"), None, "torch.export.load")
    refused(members("serialized_exported_program.json", "version"), None, "torch.export.load")
    refused(members("m/version", "m/model.json", "m/tensors/0"), None, "first format")
    refused(members("m/.data/python_version", "m/.data/version"), None, "torch.package")
    refused(members("a.txt"), None, "no TorchScript archive")


def test_things_that_are_no_files():
    with pytest.raises(TypeError):
        jitlite.load(3)
    with pytest.raises(FileNotFoundError):
        jitlite.load("/nowhere/at/all.pt")
    with pytest.raises((TypeError, ArchiveError)):
        jitlite.load(io.StringIO("text"))


# -- code


def with_code(code: str) -> bytes:
    return archive({"code/__torch__.py": code.encode()})


def with_body(body: str) -> bytes:
    return with_code(CODE[: CODE.index("    w = self.w")] + f"    return {body}\n")


REFUSED = [
    "torch.save(x, '/tmp/jitlite-was-here')", "torch.from_file('/etc/passwd')", "ops.prim.PythonOp(x)",
    "ops.evil.run(x)", "ops.c10d.barrier(x)", "ops.prim.rpc_sync('a', 'b')", "ops.prim.CallPython(x)",
]  # fmt: skip
"""Operators that touch files, processes, networks or Python, or are of libraries."""


@pytest.mark.parametrize("body", REFUSED)
def test_operators_that_are_refused(body):
    loaded = load(with_body(body))
    with pytest.raises(jitlite.NotSupportedError, match="(?s)code/__torch__.py.*allow=") as caught:
        loaded(torch.ones(2))
    assert caught.value.range is not None
    assert not pathlib.Path("/tmp/jitlite-was-here").exists()


PYTHON = [
    "open('/etc/passwd')", "__import__('os')", "eval('1')", "os.system('true')", "globals()", "self.__class__",
    "self.forward.__globals__", "torch.os.system('x')", "torch.hub.load('x')", "torch._C", "exec('1')", "input()",
    "CONSTANTS.c9", "CONSTANTS.__class__", "__torch__.os.system('true')", "getattr(self, '__dict__')",
    "ops.prim.__class__", "torch.ops.aten.add(x, x)", "lambda: x", "().__class__.__bases__", "breakpoint()",
]  # fmt: skip
"""Python that no program of an archive has."""


@pytest.mark.parametrize("body", PYTHON)
def test_python_is_out_of_reach(body):
    loaded = load(with_body(body))
    with pytest.raises((CompileError, ArchiveError)):
        loaded(torch.ones(2))


def test_operators_may_be_allowed(tmp_path):
    target = tmp_path / "saved.pt"
    body = f"torch.save(x, '{target}')"
    allowed = jitlite.load(io.BytesIO(with_body(body)), allow=["aten::save"])
    with pytest.raises((RuntimeError, NotImplementedError)):  # it gives None, which is no Tensor
        allowed(torch.ones(2))
    with pytest.raises(TypeError, match="list of names"):
        jitlite.load(io.BytesIO(with_body(body)), allow="aten::save")


def test_raising_does_not_end_the_process():
    loaded = load(
        with_code(CODE.replace("w = self.w", "ops.prim.RaiseException('no', 'builtins.SystemExit')\n    w = self.w"))
    )
    with pytest.raises(Exception, match="no"):
        loaded(torch.ones(2))


CODES: dict[str, str] = {
    "no Python": "class M(:",
    "a null character": "class M(Module):\n  x : int\x00\n",
    "a statement": CODE + "import os\nos.system('true')\n",
    "a class twice": CODE + CODE,
    "a base that is none": CODE.replace("(Module)", "(dict)"),
    "two bases": CODE.replace("(Module)", "(Module, Module)"),
    "a decorator": CODE.replace("  def", "  @torch.no_grad()\n  def"),
    "a type that is none": CODE.replace("n : int", "n : os.system"),
    "a class that is not there": CODE.replace("n : int", "n : __torch__.Missing"),
    "a class of classes": CODE.replace("n : int", "n : __torch__.A") + "class A(NamedTuple):\n  a : __torch__.A\n",
    "parentheses": CODE.replace("n : int", "n : " + "(" * 5000 + "int" + ")" * 5000),
    "brackets": CODE.replace("n : int", "n : " + "List[" * 90 + "int" + "]" * 90),
    "an empty enum": CODE.replace("n : int", "n : __torch__.E") + "class E(Enum):\n  pass\n",
    "a hook that is not there": CODE.replace("  __buffers__", "  __forward_hooks__ = ['h', ]\n  __buffers__"),
    "a hook that takes less": CODE.replace("  __buffers__", "  __forward_hooks__ = ['forward', ]\n  __buffers__"),
    "a default that is none": CODE.replace("x: Tensor)", "x: Tensor=torch.rand([2]))"),
    **{
        f"an attribute {n}": CODE.replace("n : int", f"n : int\n  {n} : Any")
        for n in (
            "_parameters",
            "_modules",
            "_forward_hooks",
            "__class__",
            "__dict__",
            "__jitlite_type__",
            "__raw_state__",
        )
    },
    "a constant __class__": CODE.replace("n : int", "n : int\n  __class__ : int = 3"),
    "an argument for more": CODE.replace("x: Tensor)", "*x: Tensor)"),
}


@pytest.mark.parametrize("kind", CODES)
def test_hostile_code(kind):
    with pytest.raises((ArchiveError, CompileError)) as caught:
        run(with_code(CODES[kind]))
    assert "code/__torch__.py" in str(caught.value) or "data.pkl" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    ["x" + " + x" * 3_000, "torch.neg(" * 150 + "x" + ")" * 150, "-" * 3000 + "1", "[" * 150 + "x" + "]" * 150,
     "x" + ".T" * 3_000, "x == " * 20_000 + "x"],
)  # fmt: skip
def test_deep_expressions(body):
    try:
        run(with_body(body))
    except (ArchiveError, CompileError, RuntimeError, RecursionError):
        pass


def test_chains_of_classes():
    chain = (
        "".join(f"class C{i}:\n  next : Optional[__torch__.C{i + 1}]\n" for i in range(3000))
        + "class C3000:\n  x : int\n"
    )
    with pytest.raises((ArchiveError, CompileError)):
        load(with_code(CODE.replace("n : int", "n : __torch__.C0") + chain))


def test_recursive_types_are_fine():
    code = (
        CODE.replace("n : int", "n : Optional[__torch__.Node]")
        + "class Node:\n  next : Optional[__torch__.Node]\n  v : int\n"
    )
    inner = name("__torch__", "Node") + b")\x81}(" + text("next") + b"N" + text("v") + b"K\x05ub"
    outer = name("__torch__", "Node") + b")\x81}(" + text("next") + inner + text("v") + b"K\x04ub"
    loaded = load(
        archive({"code/__torch__.py": code.encode(), "data.pkl": module(w=tensor(), training=b"\x89", n=outer)})
    )
    assert (loaded.n.v, loaded.n.next.v, loaded.n.next.next) == (4, 5, None)


# -- damage at random


def flipped(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)


def cut(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    del data[start : start + chance.randint(1, 40)]


def repeated(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    data[start:start] = data[start : start + chance.randint(1, 40)]


HARM: tuple[Callable[[bytearray, random.Random], None], ...] = (flipped, cut, repeated)
INPUT = torch.ones(2)


def attempt(content: bytes) -> None:
    """Load and run: what comes is a result, or an error of the kinds that say what is wrong."""
    try:
        loaded = load(content)
        loaded(INPUT)
    except (ArchiveError, CompileError):
        return
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError, NotImplementedError, jitlite.Error):
        assert "loaded" in locals(), "loading may only raise ArchiveError and CompileError"


@pytest.mark.parametrize("part", range(4))
def test_mutated_members(part):
    """Changes within members, whose checksums are right again."""
    chance = random.Random(part)
    small = {k: bytearray(v) for k, v in GOOD.items()}
    for _ in range(MUTATED // 4):
        member = chance.choice(list(small))
        changed = bytearray(small[member])
        chance.choice(HARM)(changed, chance)
        attempt(archive({member: bytes(changed)}))


@pytest.mark.parametrize("part", range(2))
def test_mutated_files(part):
    """Changes anywhere in the file."""
    chance = random.Random(100 + part)
    for _ in range(MUTATED // 4):
        content = bytearray(archive())
        chance.choice(HARM)(content, chance)
        attempt(bytes(content))


# -- names that nn.Module, or jitlite, call on a module

CALLED = [
    "state_dict", "modules", "named_modules", "children", "named_children", "parameters", "named_parameters", "buffers",
    "train", "eval", "apply", "_apply", "_save_to_state_dict", "_call_impl", "named_buffers", "get_extra_state",
]  # fmt: skip
WAYS = {
    "python": jitlite.to_python,
    "fx": jitlite.to_fx,
    "exported": lambda m: jitlite.to_exported(m, (torch.ones(2),)),
    "frozen": lambda m: jitlite.freeze(m.eval()),
    "copied": copy.deepcopy,
    "saved": lambda m: m.save_to_buffer(),
    "state": lambda m: m.state_dict(),
}


@pytest.mark.parametrize("name", CALLED)
def test_methods_of_archives_are_not_called_in_place_of_those_of_modules(name, capsys):
    method = f'  def {name}(self: __torch__.M) -> int:\n    print("the archive runs")\n    return 1\n'
    module = jitlite.load(io.BytesIO(with_code(CODE + method)), run_code=False)
    for way in WAYS.values():
        way(module)
    assert "the archive runs" not in capsys.readouterr().out


@pytest.mark.parametrize("name", [*CALLED, "_jitlite_method", "_jitlite_bound", "__jitlite_type__", "__class__"])
def test_attributes_of_archives_hide_no_method(name):
    with pytest.raises(CompileError, match="name"):
        load(with_code(CODE.replace("  n : int\n", f"  n : int\n  {name} : int\n")))


# -- graph text

OUTSIDE = ["aten::save(%k, %n)", "prim::rpc_sync(%n)", "aten::from_file(%n)"]


@pytest.mark.parametrize("call", OUTSIDE)
def test_graph_text_touches_no_files(call):
    with pytest.raises(CompileError, match="touches files or networks"):
        jitlite.ir.parse(
            'graph(%k : int):\n  %n : str = prim::Constant[value="/tmp/file"]()\n'
            f"  %r : Tensor = {call}\n  return (%r)\n"
        )


@pytest.mark.parametrize("cls", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"])
def test_graph_text_ends_no_process(cls):
    graph = jitlite.ir.parse(
        'graph(%x : Tensor):\n  %m : str = prim::Constant[value="x"]()\n'
        f'  %c : str = prim::Constant[value="builtins.{cls}"]()\n   = prim::RaiseException(%m, %c)\n  return (%x)\n'
    )
    with pytest.raises(jitlite.Error, match="x"):
        interpret_graph(graph, [torch.ones(1)])
