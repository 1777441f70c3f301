"""Objects of an archive before they have their state, and archives that are read without running their code."""

from __future__ import annotations

import copy
import io
import struct

import pytest
import torch
from archive_mutations import members_of, packed
from archive_specimens import SPECIMENS
from test_archive_bounds import stateful
from test_archive_hostile import CODE, archive, module, name, number, tensor, text

import jitlite
from jitlite import ArchiveError
from jitlite.cli import main

NATIVE = name("__torch__.torch.classes.quantized", "LinearPackedParamsBase") + b")\x81"
MODULE = name("__torch__", "M") + b")\x81"
COMPLEX, ENUM = name("builtins", "complex"), name("__torch__", "E")
STORAGE = b"(" + text("storage") + name("torch", "FloatStorage") + text("0") + text("cpu") + number(2) + b"tQ"

USES: dict[str, bytes] = {
    "the root": b"OBJ.",
    "a key": b"}OBJK\x01s.",
    "a value": b"}K\x01OBJs.",
    "keys": b"}(OBJK\x01OBJK\x02u.",
    "elements of a tuple": b"OBJ\x85.",
    "elements of two": b"K\x01OBJ\x86.",
    "elements of three": b"OBJK\x01K\x02\x87.",
    "elements of many": b"(OBJK\x01K\x02K\x03t.",
    "an element of a list": b"]OBJa.",
    "elements of a list": b"](OBJOBJe.",
    "a list at once": b"(OBJl.",
    "an attribute": MODULE + b"}(" + text("w") + b"OBJub.",
    "a state": MODULE + b"OBJb.",
    "its own state": b"OBJq\x000h\x00h\x00b.",
    "its own state in a tuple": b"OBJq\x00h\x00\x85b.",
    "another one's state": b"OBJOBJb.",
    "arguments of an object": name("__torch__", "M") + b"OBJ\x81.",
    "an argument of complex": COMPLEX + b"OBJK\x01\x86R.",
    "the arguments of complex": COMPLEX + b"OBJR.",
    "the value of an enum": ENUM + b"OBJR.",
    "a callee": b"OBJ)R.",
    "a class": b"OBJ)\x81.",
    "a tensor's storage": name("torch._utils", "_rebuild_tensor_v2") + b"(OBJK\x00K\x02\x85K\x01\x85\x89}tR.",
    "a tensor's size": name("torch._utils", "_rebuild_tensor_v2") + b"(" + STORAGE + b"K\x00OBJK\x01\x85\x89}tR.",
    "a tensor's scale": name("torch._utils", "_rebuild_qtensor") + b"(" + STORAGE + b"K\x00)" + b")OBJ\x89}tR.",
    "a sparse tensor's indices": name("torch._utils", "_rebuild_sparse_tensor") + b"(K\x01K\x02\x85OBJ" + tensor()
    + b"tR.",
    "a persistent id": b"OBJQ.",
    "part of a persistent id": b"(" + text("storage") + b"OBJ" + text("0") + text("cpu") + number(2) + b"tQ.",
    "a list with a type": name("torch.jit._pickle", "build_tensorlist") + b"]OBJa\x85R.",
    "a tagged value": name("torch.jit._pickle", "restore_type_tag") + b"OBJ" + text("__torch__.M") + b"\x86R.",
    "a remembered value": b"OBJq\x000]h\x00a.",
    "remembered behind a state that is used": b"OBJq\x00h\x00\x85q\x010h\x01.",
}  # fmt: skip
"""Pickles in which an object, for which OBJ stands, is used before it has its state."""


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", [NATIVE, MODULE], ids=["of C++", "of the archive"])
def test_an_object_without_its_state(use, made):
    content = archive({"data.pkl": b"\x80\x02" + USES[use].replace(b"OBJ", made)})
    for read in (load, lambda content: load(content, run_code=False)):
        with pytest.raises(ArchiveError) as caught:
            read(content)
        assert caught.value.member == "data.pkl"


@pytest.mark.parametrize("use", USES)
def test_an_object_without_its_state_among_the_constants(use):
    content = archive({"constants.pkl": b"\x80\x02" + USES[use].replace(b"OBJ", NATIVE)})
    with pytest.raises(ArchiveError, match="constants.pkl"):
        load(content)


def test_an_object_is_the_same_wherever_it_was_remembered():
    """The object that has got its state stands where its placeholder was remembered."""
    state = b"}(" + text("w") + tensor() + text("training") + b"\x89" + text("n") + b"K\x07ub"
    found = load(archive({"data.pkl": b"\x80\x02" + MODULE + b"q\x00" + state + b"h\x00\x86."}))
    assert found[0] is found[1]
    assert found[0].n == 7


def load(content: bytes, **options):
    return jitlite.load(io.BytesIO(content), **options)


# -- archives whose code does not run


def test_code_that_does_not_run():
    content = stateful("self.v = torch.add(x, 1)", "while True:", "  n = 2")
    loaded = load(content, run_code=False)
    assert torch.equal(loaded.__raw_state__, torch.tensor(struct.unpack("<2f", struct.pack("<2f", 2.0, 3.0))))
    for use in (
        loaded,
        lambda: loaded.v,
        lambda: loaded.more(torch.ones(1)),
        lambda: jitlite.save(loaded, io.BytesIO()),
    ):
        with pytest.raises(ArchiveError, match="(?s)__torch__.M.*run_code=False.*hint"):
            use()
    assert "return" in str(loaded.graph)


def test_what_needs_no_code_is_all_there():
    for specimen in ("tree", "traced"):
        x = torch.ones(1, 2)
        content = SPECIMENS[specimen]()
        one, other = (load(content, run_code=run) for run in (True, False))
        assert str(one(x)) == str(other(x))


COUNTER = """class Counter:
  count : int
  def __setstate__(self: __torch__.Counter,
    state: Tuple[int, int]) -> NoneType:
    self.count = (state)[0]
    return None
  def step(self: __torch__.Counter) -> int:
    return self.count
"""


def test_parts_that_have_no_state():
    code = CODE.replace("n : int", "n : __torch__.Counter").replace("CONSTANTS.c0", "(self.n).step()") + COUNTER
    counter = name("__torch__", "Counter") + b")\x81K\x05K\x06\x86b"
    content = archive({"data.pkl": module(w=tensor(), training=b"\x89", n=counter), "code/__torch__.py": code.encode()})
    assert load(content)(torch.ones(2)).tolist() == [7.0, 8.0]
    loaded = load(content, run_code=False)
    assert loaded.n.__raw_state__ == (5, 6)
    for use in (loaded.n.step, lambda: loaded(torch.ones(2)), lambda: copy.deepcopy(loaded)(torch.ones(2))):
        with pytest.raises(ArchiveError, match=r"(?s)Counter.*run_code=False"):
            use()
    with pytest.raises(AttributeError, match="nothing"):
        loaded.n.nothing  # noqa: B018


def test_objects_of_classes_in_cpp():
    loaded = load(SPECIMENS["quantized"](), run_code=False)
    assert "LinearPackedParamsBase" in repr(loaded.packed)
    assert isinstance(loaded.packed.__raw_state__, tuple)
    with pytest.raises(ArchiveError, match="run_code=False"):
        loaded.packed.unpack()
    with pytest.raises((RuntimeError, TypeError)):
        loaded(torch.ones(1, 2))


def test_files_of_the_lite_interpreter():
    content = SPECIMENS["lite with a state"]()
    loaded = load(content, run_code=False)
    assert "__raw_state__" in vars(loaded)
    assert loaded.find_method("forward").code
    with pytest.raises(ArchiveError, match="run_code=False"):
        loaded(torch.ones(2, 2))


def test_the_command_runs_no_code_where_it_need_not(tmp_path, capsys):
    endless = tmp_path / "endless.pt"
    endless.write_bytes(stateful("while True:", "  n = 2"))
    assert main(["show", str(endless)]) == main(["show", "--graph", str(endless)]) == 0
    assert main(["convert", str(endless), "--to", "python", "-o", str(tmp_path / "endless.py")]) != 0
    assert "steps" in capsys.readouterr().err
    for specimen, expected in (("tree", 0), ("stateful", 0)):
        path = tmp_path / f"{specimen}.pt"
        path.write_bytes(SPECIMENS[specimen]())
        assert main(["convert", str(path), "--to", "fx", "-o", str(tmp_path / f"{specimen}_fx.pt")]) == expected


# -- values that no walk over them would come to the end of


def doubled(times: int, start: bytes = b")", brackets: bytes = b"\x86") -> bytes:
    return start + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + brackets for i in range(times))


def listed(times: int) -> bytes:
    """The same of lists."""
    return b"]" + b"".join(b"q" + bytes([i]) + b"0](h" + bytes([i]) + b"h" + bytes([i]) + b"e" for i in range(times))


ENDLESS: dict[str, bytes] = {
    "a list in itself": b"]q\x00h\x00a",
    "a list in its tuple": b"]q\x00h\x00\x85a",
    "a dict in itself": b"}q\x00K\x01h\x00s",
    "a list in a dict in itself": b"]q\x00}K\x01h\x00sa",
    "doubled tuples": doubled(60),
    "doubled texts": doubled(60, text("a" * 200)),
    "doubled lists": listed(60),
    "tripled tuples": b")" + b"".join(b"q%ch%ch%c\x87" % (i, i, i) for i in range(40)),
    "doubled dicts": b"}" + b"".join(b"q%c0}(K\x01h%cK\x02h%cu" % (i, i, i) for i in range(60)),
    "deep lists": b"]" * 5000 + b"a" * 4999,
    "deep tuples": b")" + b"\x85" * 1_000_000,
    "a long text many times": text("a" * 10_000) + b"q\x000(" + b"h\x00" * 100_000 + b"t",
    "a list handed out many times": b"](" + b"K\x01" * 60_000 + b"eq\x000"
    + (name("torch.jit._pickle", "build_intlist") + b"h\x00\x85R0") * 2000 + b"N",
}  # fmt: skip
"""Values in a pickle."""
PLACES: dict[str, tuple[str, bytes]] = {
    "the root": ("data.pkl", b"VALUE."),
    "an attribute": ("data.pkl", MODULE + b"}(" + text("n") + b"VALUEub."),
    "the constants": ("constants.pkl", b"VALUE\x85."),
    "the value of an enum": ("data.pkl", name("__torch__", "E") + b"VALUER."),
    "hooks": ("data.pkl", name("collections", "OrderedDict") + b"VALUE\x85R."),
    "a size": ("data.pkl", name("torch._utils", "_rebuild_tensor_v2") + b"(NK\x00VALUEK\x01\x85\x89}tR."),
    "a count": (
        "data.pkl", b"(" + text("storage") + name("torch", "FloatStorage") + text("0") + text("cpu") + b"VALUEtQ."),
}  # fmt: skip


@pytest.mark.parametrize("value", ENDLESS)
@pytest.mark.parametrize("place", PLACES)
def test_values_without_an_end(value, place, tmp_path, capsys):
    member, pickle = PLACES[place]
    content = archive({member: b"\x80\x02" + pickle.replace(b"VALUE", ENDLESS[value])})
    with pytest.raises(ArchiveError) as caught:
        load(content)
    assert caught.value.member == member
    if member == "data.pkl":
        (tmp_path / "m.pt").write_bytes(content)
        assert main(["show", str(tmp_path / "m.pt")]) == 1
        assert "data.pkl" in capsys.readouterr().err


@pytest.mark.parametrize("value", ENDLESS)
def test_bytecode_without_an_end(value, tmp_path):
    content = packed({**members_of(SPECIMENS["lite"]()), "bytecode.pkl": b"\x80\x02" + ENDLESS[value] + b"."})
    (tmp_path / "m.ptl").write_bytes(content)
    assert main(["show", str(tmp_path / "m.ptl")]) == 1
    with pytest.raises(ArchiveError, match="bytecode.pkl"):
        load(content)
