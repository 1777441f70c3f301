"""What loading a hostile archive takes: `__setstate__` without an end, and members that become far larger.

Each is loaded in its own way here; `test_archive_mutations.py` measures memory and time of all damage at random.
"""

from __future__ import annotations

import io
import struct
import time
import zipfile
from collections.abc import Callable

import pytest
import torch
from test_archive_hostile import CODE, archive, name, tensor, text

import jitlite
from jitlite import ArchiveError

SETTER = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  v : Any
  def __setstate__(self: __torch__.M,
    state: Tensor) -> NoneType:
    n = 1
    s = "ab"
    x = state
    l = [1]
    self.training = False
{body}
    return None
  def forward(self: __torch__.M) -> NoneType:
    return None
  def more(self: __torch__.M,
    x: Tensor) -> NoneType:
    _0 = (self).more(x, )
    return None
"""


def stateful(*lines: str) -> bytes:
    code = SETTER.format(body="\n".join(f"    {line}" for line in lines))
    data = b"\x80\x02" + name("__torch__", "M") + b")\x81" + tensor() + b"b."
    return archive({"code/__torch__.py": code.encode(), "data.pkl": data})


def load(content: bytes):
    return jitlite.load(io.BytesIO(content))


def test_setters_that_are_fine():
    state = torch.get_rng_state()
    loaded = load(stateful("r = torch.rand([2])", "torch.set_grad_enabled(False)", "x0 = torch.mul(torch.add(x, 1), r)",
                           "self.v = (x0, torch.nonzero(x), torch.mul(n, 3), torch.add(s, s))"))  # fmt: skip
    assert isinstance(loaded.v[0], torch.Tensor)
    assert loaded.v[2:] == (3, "abab")
    assert torch.equal(torch.get_rng_state(), state), "loading draws no random numbers"
    assert torch.is_grad_enabled()


ENDLESS: dict[str, list[str]] = {
    "a loop": ["for i in range(100000000000):", "  n = torch.add(n, i)", "self.v = n"],
    "while": ["while True:", "  self.v = n"],
    "a recursion": ["_1 = (self).more(x, )"],
    "a text that doubles": ["for i in range(60):", "  s = torch.add(s, s)"],
    "a list that doubles": ["for i in range(60):", "  l = torch.add(l, l)"],
    "a list of itself": ["l0 = torch.mul(l, 100000000000)"],
    "an int that squares itself": ["n = 12345", "for i in range(60):", "  n = torch.mul(n, n)"],
    "a large shift": ["n = torch.__lshift__(n, 1000000000000)"],
    "a large factorial": ["n = torch.factorial(1000000)"],
    "a wide text": ["s0 = torch.ljust(s, 100000000000)"],
    "a replaced text": ["s0 = torch.ljust(s, 100000)", 's1 = torch.replace(s0, " ", s0)'],
    "a large tensor": ["x0 = torch.zeros([1000000, 1000000])"],
    "many tensors": ["l1 = [x]", "for i in range(10000):", "  _1 = torch.append(l1, torch.zeros([1000000]))"],
    "a tensor that doubles": ["for i in range(60):", "  x = torch.cat([x, x])"],
    "an expanded tensor": ["self.v = torch.clone(torch.expand(x, [100000000, 2]))"],
    "a resized tensor": ["x0 = torch.resize_(x, [100000000000])"],
    "counts": ["x0 = torch.bincount(torch.to(torch.mul(x, 1000000000), 4))"],
    "many repeats": ["x0 = torch.repeat_interleave(x, torch.to(torch.mul(x, 1000000000), 4))"],
    "a large product": ["x0 = torch.rand([2000, 2000])", "for i in range(1000):", "  x0 = torch.mm(x0, x0)"],
    "numbers of a large view": ["y = torch.expand(x, [100000000, 2])", "z = annotate(List[List[float]], y.tolist())"],
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_setters_that_would_not_end(kind):
    content = stateful(*ENDLESS[kind])
    start = time.process_time()
    with pytest.raises(ArchiveError, match="(?s)data.pkl.*") as caught:
        load(content)
    assert caught.value.member == "data.pkl"
    assert time.process_time() - start < 8


def test_an_operator_of_a_setter_may_be_allowed():
    content = stateful("self.v = torch.bincount(torch.to(x, 4))")
    with pytest.raises(ArchiveError, match="(?s)bincount.*allow="):
        load(content)
    assert jitlite.load(io.BytesIO(content), allow=["aten::bincount"]).v.tolist() == [0, 0, 1, 1]


# -- members that become large


def remembered(i: int) -> bytes:
    return b"r" + struct.pack("<I", i << 8)


LARGE: dict[str, Callable[[], tuple[str, bytes]]] = {
    "dicts": lambda: ("data.pkl", b"\x80\x02(" + b"}" * 3_000_000 + b"t."),
    "lists": lambda: ("data.pkl", b"\x80\x02(" + b"]" * 3_000_000 + b"t."),
    "objects": lambda: ("data.pkl", b"\x80\x02" + name("__torch__", "M") + b"q\x000" + b"h\x00)\x81" * 100_000 + b"."),
    "a memo": lambda: ("data.pkl", b"\x80\x02N" + b"".join(map(remembered, range(2_000_000))) + b"."),
    "statements": lambda: ("code/__torch__.py", (CODE + "def f():\n  " + "a;" * 500_000).encode()),
    "a list": lambda: ("code/__torch__.py", (CODE + "def f():\n  return [" + "a," * 500_000 + "]").encode()),
    "lines": lambda: ("code/__torch__.py", (CODE + "def f():\n  a\n" + "  a\n" * 250_000).encode()),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_members_that_become_large(kind):
    member, content = LARGE[kind]()
    with pytest.raises(ArchiveError) as caught:
        load(archive({member: content}, zipfile.ZIP_STORED if len(content) > 1 << 20 else zipfile.ZIP_DEFLATED))
    assert caught.value.member == member


def test_texts_of_wide_letters():
    wide = ("a" * 1000 + "\U0001f600").encode()
    data = b"\x80\x02(" + (b"X" + struct.pack("<I", len(wide)) + wide) * 60_000 + b"t."
    with pytest.raises(ArchiveError, match="memory") as caught:
        load(archive({"data.pkl": data}))
    assert caught.value.member == "data.pkl"


def test_a_directory_of_many_members():
    content = bytearray(archive())
    at = content.rindex(b"PK\x05\x06")
    content[at + 12 : at + 16] = struct.pack("<I", 100 << 20)
    with pytest.raises(ArchiveError, match="more members"):
        load(bytes(content))


def test_large_lists_are_read():
    data = b"\x80\x02" + name("__torch__", "M") + b")\x81}(" + text("w") + tensor() + text("training") + b"\x89"
    numbers = b"".join(b"J" + struct.pack("<i", i) for i in range(200_000))
    data += text("n") + b"](" + numbers + b"eub."
    code = CODE.replace("n : int", "n : List[int]")
    assert load(archive({"data.pkl": data, "code/__torch__.py": code.encode()})).n[-1] == 199_999


FUNCTIONS = "def f{i}(x: int) -> int:\n  return torch.add(__torch__.f{last}(x, ), 1)\n"
CLASSES = (
    "class C{i}:\n  a : __torch__.C{last}\n  def m(self: __torch__.C{i}) -> int:\n    a = self.a\n    return (a).m()\n"
)
MADE = (
    "class C{i}:\n  a : __torch__.C{last}\n  def __init__(self: __torch__.C{i},\n      x: int) -> NoneType:\n"
    "    self.a = __torch__.C{last}.__new__(__torch__.C{last})\n    _0 = (self.a).__init__(x, )\n    return None\n"
)
CHAINS = {
    "functions": ("def f0(x: int) -> int:\n  return x\n", FUNCTIONS, "x: int", "__torch__.f{i}(x, )"),
    "methods": (
        "class C0:\n  def m(self: __torch__.C0) -> int:\n    return 0\n", CLASSES, "c: __torch__.C{i}", "(c).m()",
    ),
    "constructors": (
        "class C0:\n  def __init__(self: __torch__.C0,\n      x: int) -> NoneType:\n    return None\n",
        MADE, "x: int", "(__torch__.C{i}.__new__(__torch__.C{i})).__init__(x, )",
    ),
}  # fmt: skip
"""How the first definition reads, one that leans on the one before, what `forward` takes and what it calls."""


def chain(kind: str, length: int) -> bytes:
    """An archive whose definitions lean on one another, each on the one before."""
    first, more, takes, call = CHAINS[kind]
    definitions = first + "".join(more.format(i=i, last=i - 1) for i in range(1, length))
    header = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
    head = f"  def forward(self: __torch__.M,\n    {takes}) -> NoneType:\n    _0 = {call}\n    return None\n"
    code = definitions + header + head.format(i=length - 1)
    data = b"\x80\x02" + name("__torch__", "M") + b")\x81}X\x08\x00\x00\x00training\x88sb."
    return archive({"code/__torch__.py": code.encode(), "data.pkl": data})


@pytest.mark.parametrize("kind", CHAINS)
def test_definitions_that_lean_on_many_others(kind):
    assert "return" in str(load(chain(kind, 100)).graph)


def test_a_chain_of_calls_may_be_long():
    assert load(chain("functions", 2000))(3) is None


@pytest.mark.parametrize("kind", ["methods", "constructors"])
def test_what_leans_on_too_many_is_refused_with_its_place(kind):
    with pytest.raises((jitlite.CompileError, ArchiveError), match="deeply") as refused:
        print(load(chain(kind, 2000)).graph)
    assert "code/__torch__.py:" in str(refused.value) or "in member 'data.pkl'" in str(refused.value)
    assert len(str(refused.value).splitlines()) < 25
