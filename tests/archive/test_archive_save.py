"""Saving: files, refusals, and the bytes of an archive. That libtorch loads them is shown in tests/oracle."""

from __future__ import annotations

import enum
import io
import os
import pickletools
import stat
import threading
import zipfile
from typing import Any, Dict, List, Tuple

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.archive.pickling import PickleStream
from jitlite.codegen.torchscript.constants_out import float_text
from jitlite.codegen.torchscript.type_names import TypeNames
from jitlite.ir import types as T


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


def double(x: Tensor) -> Tensor:
    return x * 2


def members(data: bytes) -> List[str]:
    return zipfile.ZipFile(io.BytesIO(data)).namelist()


def code(data: bytes, name: str = "code/__torch__/test_archive_save.py") -> str:
    archive = zipfile.ZipFile(io.BytesIO(data))
    return next(archive.read(n).decode() for n in archive.namelist() if n.endswith(name))


def refused(compiled: Any, match: str) -> str:
    with pytest.raises(jitlite.NotSupportedError, match=match) as error:
        compiled.save_to_buffer()
    return str(error.value)


# -- files


def test_members_and_their_alignment(tmp_path):
    path = tmp_path / "model.v1.pt"
    jitlite.script(Small()).save(path, _extra_files={"a": "text"})
    data = path.read_bytes()
    archive = zipfile.ZipFile(path)
    assert archive.testzip() is None
    assert [n.removeprefix("model.v1/") for n in archive.namelist()] == [
        "extra/a", "data/0", "data.pkl", "code/__torch__/test_archive_save.py",
        "code/__torch__/test_archive_save.py.debug_pkl", "constants.pkl", "version", "byteorder",
        ".data/serialization_id",
    ]  # fmt: skip
    for info in archive.infolist():
        start = (
            info.header_offset
            + 30
            + len(info.filename)
            + int.from_bytes(data[info.header_offset + 28 : info.header_offset + 30], "little")
        )
        assert start % 64 == 0
    assert archive.read("model.v1/data/0") == torch.arange(3.0).numpy().tobytes()
    assert len(archive.read("model.v1/.data/serialization_id")) == 40


def test_save_takes_paths_and_files(tmp_path):
    module = jitlite.script(Small())
    jitlite.save(module, str(tmp_path / "a.pt"))
    jitlite.save(module, tmp_path / "a2.pt", _extra_files={"x": b"1"})
    buffer = io.BytesIO()
    jitlite.save(module, buffer)
    assert buffer.getvalue() == module.save_to_buffer()
    assert any(n.endswith("extra/x") for n in zipfile.ZipFile(tmp_path / "a2.pt").namelist())
    with pytest.raises(TypeError, match=r"call jitlite\.script on it first"):
        jitlite.save(Small(), buffer)


def test_a_function_is_the_forward_of_a_module():
    scripted = jitlite.script(double)
    assert scripted.archive_code == "def double(x: Tensor) -> Tensor:\n  return torch.mul(x, 2)\n"
    text = code(scripted.save_to_buffer(), "code/__torch__.py")
    assert text == (
        "class PlaceholderModule(Module):\n"
        "  __parameters__ = []\n"
        "  __buffers__ = []\n"
        "  training : bool\n"
        "  def forward(self: __torch__.PlaceholderModule,\n"
        "    x: Tensor) -> Tensor:\n"
        "    return torch.mul(x, 2)\n"
    )


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"before")
    os.chmod(path, 0o640)

    class Bad(Small):
        def __init__(self) -> None:
            super().__init__()
            self.zz = [2**70]

        def forward(self, x: Tensor) -> Tensor:
            return x + self.zz[0]

    with pytest.raises(jitlite.NotSupportedError):
        jitlite.script(Bad()).save(path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["model.pt"]
    with open(path, "rb") as reader:  # keeps what it has opened
        jitlite.script(Small()).save(path)
        assert reader.read() == b"before"
    assert zipfile.is_zipfile(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["model.pt"]


def test_new_files_have_the_usual_permissions_and_links_stay(tmp_path):
    target, link = tmp_path / "target.pt", tmp_path / "link.pt"
    target.write_bytes(b"")
    link.symlink_to(target)
    jitlite.script(Small()).save(link)
    assert link.is_symlink()
    assert zipfile.is_zipfile(target)
    assert zipfile.ZipFile(target).namelist()[0].startswith("link/")
    (tmp_path / "plain").write_bytes(b"")
    jitlite.script(Small()).save(tmp_path / "new.pt")
    assert (tmp_path / "new.pt").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_is_no_regular_file_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: List[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    jitlite.script(Small()).save(pipe)
    reader.join(10)
    assert zipfile.is_zipfile(io.BytesIO(found[0]))


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="Parent directory .*none does not exist"):
        jitlite.script(Small()).save(tmp_path / "none" / "model.pt")


def test_equal_modules_give_equal_bytes():
    assert jitlite.script(Small()).save_to_buffer() == jitlite.script(Small()).save_to_buffer()


# -- refusals


def test_ints_of_over_64_bits_are_refused():
    class Big(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sizes = {"a": [1, 2**63]}

        def forward(self, x: Tensor) -> Tensor:
            return x + self.sizes["a"][0]

    refused(jitlite.script(Big()), r"the module\.sizes\['a'\]\[1\] is 9223372036854775808, which has over 64 bits")


def test_python_functions_are_refused_at_their_place():
    class Ignoring(nn.Module):
        @jitlite.ignore
        def helper(self, x: Tensor) -> Tensor:
            return x

        def forward(self, x: Tensor) -> Tensor:
            return self.helper(x)

    text = refused(jitlite.script(Ignoring()), "Could not export Python function call 'helper'")
    assert "return self.helper(x)" in text


def test_try_is_refused_at_its_place():
    def careful(x: List[int]) -> int:
        try:
            return x[3]
        except IndexError:
            return 0

    text = refused(jitlite.script(careful), "TorchScript has no try statement")
    assert "test_archive_save.py" in text
    assert "hint: test for what may go wrong" in text


def test_getstate_needs_setstate():
    class Half(nn.Module):
        @jitlite.export
        def __getstate__(self) -> int:
            return 3

        def forward(self, x: Tensor) -> Tensor:
            return x

    refused(jitlite.script(Half()), "no __setstate__")


def test_inference_mode_is_refused():
    def infer(x: Tensor) -> Tensor:
        with torch.inference_mode():
            return x + 1

    refused(jitlite.script(infer), "TorchScript has no inference_mode")


# -- text and lowering


def test_one_name_is_one_thing():
    def make(n: int) -> Any:
        class Twin:
            def __init__(self) -> None:
                self.value = n

            def get(self) -> int:
                return self.value

        return Twin

    one, two = make(1), make(2)

    def both() -> Tuple[int, int]:
        return one().get(), two().get()

    data = jitlite.script(both).save_to_buffer()
    names = [n for n in members(data) if n.endswith(".py")]
    assert [n for n in names if "___torch_mangle_" in n]
    assert sum(code(data, n).count("class Twin") for n in names) == 2


def test_mangled_names_count_on():
    names = TypeNames()
    types = [T.ClassType.new("__torch__.a.C") for _ in range(3)]
    again = T.ClassType.new("__torch__.a.___torch_mangle_7.C")
    assert [names.name(t) for t in types] == [
        "__torch__.a.C", "__torch__.a.___torch_mangle_0.C", "__torch__.a.___torch_mangle_1.C",
    ]  # fmt: skip
    assert names.name(again) == "__torch__.a.___torch_mangle_7.C"
    assert names.name(T.ClassType.new("__torch__.a.___torch_mangle_7.C")) == "__torch__.a.___torch_mangle_8.C"
    assert names.name(T.ClassType.new("__torch__.größe.class.C")) == "__torch__.gr__e.class_.C"


def test_what_torchscript_says_otherwise_is_lowered():
    def flags(x: Tensor, b: bool, n: int) -> Tensor:
        torch._assert(n > 0, "n must be positive")
        last = 0
        for i in range(n):
            if i == 3:
                break
            last = i
        return x + b + last

    text = jitlite.script(flags).archive_code
    assert 'ops.prim.RaiseException("n must be positive", "builtins.AssertionError")' in text
    assert "int(b)" in text
    assert "while " in text


def test_long_lines_are_split_in_the_order_of_evaluation():
    def ordered(x: Tensor, names: List[str]) -> Tuple[Tensor, Tensor, str]:
        return x.add_(1), (x + 1) * (x + 2) * (x + 3) * (x + 4), names.pop()

    lines = jitlite.script(ordered).archive_code.splitlines()
    first = next(i for i, line in enumerate(lines) if "torch.add_(x, 1)" in line)
    last = next(i for i, line in enumerate(lines) if "torch.mul(" in line)
    assert first < last


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1."), (-0.5, "-0.5"), (1e10, "10000000000."), (1e16, "10000000000000000."), (1e17, "1e+17"),
     (0.1, "0.10000000000000001"), (float("inf"), "inf"), (float("-inf"), "-inf"), (float("nan"), "nan"),
     (5e-324, "4.9406564584124654e-324")],
)  # fmt: skip
def test_text_of_floats(value, text):
    assert float_text(value) == text
    if value == value and abs(value) != float("inf"):
        assert float(text) == value


def test_pickle_of_ints_and_memo():
    stream = PickleStream()
    with stream.marked_tuple():
        for number in (0, 255, 256, 65535, 65536, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)):
            stream.integer(number)
        for _ in range(2):
            for i in range(300):
                stream.string(f"s{i}")
    ops = list(pickletools.genops(stream.finish()))
    names = [op.name for op, _, _ in ops]
    assert [arg for op, arg, _ in ops if "INT" in op.name and op.name.startswith("BININT") or op.name == "LONG1"] == [
        0, 255, 256, 65535, 65536, -1, 2**31, -(2**31), 2**63 - 1, -(2**63),
    ]  # fmt: skip
    assert names.count("BINUNICODE") == 300
    assert names.count("LONG_BINGET") == 300 - 256


class Side(enum.Enum):
    LEFT = "l"


def test_declarations():
    class Holder(nn.Module):
        table: Dict[str, Side]

        def __init__(self) -> None:
            super().__init__()
            self.table = {"a": Side.LEFT}

        def forward(self, x: Tensor) -> Tuple[Tensor, bool]:
            return x, self.table["a"] == Side.LEFT

    text = code(jitlite.script(Holder()).save_to_buffer())
    assert "  table : Dict[str, __torch__.test_archive_save.Side]\n" in text
    assert 'class Side(Enum):\n  LEFT = "l"\n' in text
    assert "_0 = __torch__.test_archive_save.Side.LEFT\n" in text
    assert 'torch.eq(table["a"], _0)' in text


def test_places_in_the_program_survive_being_saved_again():
    class Product(torch.nn.Module):
        def forward(self, x, w):
            return torch.mm(x, w.t())

    module, places = jitlite.script(Product()), []
    for _ in range(3):
        (node,) = [n for n in module.graph.all_nodes() if n.kind == "aten::mm"]
        places.append(node.range.location())
        file = io.BytesIO()
        jitlite.save(module, file)
        module = jitlite.load(io.BytesIO(file.getvalue()))
    assert "test_archive_save.py" in places[0] and len(set(places)) == 1
