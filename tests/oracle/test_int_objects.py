"""dtypes, layouts, memory formats and quantization schemes: ints in types and in text, torch's objects at run time.

Each program compares them, looks for them or keeps them in one way. It runs as a script on every tier, and read back
from what it can be written as, and has to give what eager Python gives; where Python does no arithmetic with such
objects, what torch.jit gives.
"""

import io
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite import ir
from jitlite.base import options
from jitlite.compat.testing import create_function_from_graph
from jitlite.ir.int_codes import INT_CODES, number_of
from oracle.test_archive_lite import without_code

# -- programs: each gives what eager Python does for any dtype `d`


def equal(x: Tensor, d: int):
    return x.dtype == torch.float32, torch.int64 == x.dtype, x.dtype == d, d == torch.float32, d != torch.int64


def is_one(x: Tensor, d: int):
    return x.dtype is torch.float32, x.dtype is not torch.int64


def layouts(x: Tensor, d: int):
    return x.layout == torch.strided, x.layout != torch.sparse_coo, torch.sparse_csr == x.layout


def in_tuple(x: Tensor, d: int):
    return x.dtype in (torch.int64, torch.int32), d in (torch.float32, torch.float16), x.dtype not in (torch.int8, d)


def in_list(x: Tensor, d: int):
    kinds = [torch.int64, d]
    kinds.append(torch.uint8)
    return x.dtype in kinds, torch.uint8 in kinds, len(kinds), kinds.count(x.dtype), kinds.count(torch.int64)


def positions(x: Tensor, d: int):
    kinds = [torch.float32, torch.int64, torch.bfloat16]
    at = kinds.index(x.dtype)
    kinds.remove(x.dtype)
    return at, kinds.index(torch.bfloat16) if torch.bfloat16 in kinds else -1, len(kinds), kinds == [torch.int64]


def lists_equal(x: Tensor, d: int):
    return [x.dtype, d] == [torch.float32, torch.int64], [x.dtype] != [d], [d] == [x.dtype]


def written(x: Tensor, d: int):
    kinds = [x.dtype, d]
    kinds[0] = torch.int64
    kinds.insert(0, d)
    kinds += [x.dtype]
    return kinds.count(torch.int64), kinds.index(torch.int64), x.dtype in kinds[1:], kinds.pop() == torch.float32


def looked_up(x: Tensor, d: int):
    names = {torch.float32: "f", torch.int64: "i", torch.bfloat16: "b"}
    return names[x.dtype], names.get(d, "?"), names.get(torch.float16, "?"), x.dtype in names, d in names


def dict_written(x: Tensor, d: int):
    seen = {torch.float32: 1, d: 2}
    seen[torch.int64] = 3
    seen[x.dtype] = 4
    seen.setdefault(torch.float32, 5)
    seen.update({torch.bfloat16: 6})
    gone = seen.pop(torch.bfloat16)
    kept = len(seen)
    del seen[torch.int64]
    return seen[torch.float32], gone, kept, len(seen), torch.int64 in seen


def counted(x: Tensor, d: int):
    counts: dict[int, int] = {}
    for kind in [x.dtype, d, torch.int64, x.dtype]:
        counts[kind] = counts.get(kind, 0) + 1
    return counts[x.dtype], counts[torch.int64], len(counts)


def branches(x: Tensor, d: int):
    if x.dtype == torch.float32:
        r = 1
    elif x.dtype in (torch.int32, torch.int64):
        r = 2
    elif x.dtype == d:
        r = 3
    else:
        r = 4
    while d != torch.float32:
        d = torch.float32
        r += 10
    return r


def promoted(x: Tensor, d: int):
    wide = torch.promote_types(x.dtype, torch.float64)
    return wide == torch.float64, torch.result_type(x, 1) == x.dtype, torch.result_type(x, 1.5) == torch.float32


def used(x: Tensor, d: int):
    return (x.to(d).dtype == d, torch.zeros(2, dtype=x.dtype).dtype == x.dtype, x.to(torch.float64).dtype,
            torch.empty_like(x, memory_format=torch.preserve_format).dtype, x.new_ones(2, dtype=d))  # fmt: skip


def formats(x: Tensor, d: int):
    chosen = torch.channels_last if x.dtype == torch.float32 else torch.contiguous_format
    y = torch.zeros(2, 2, 2, 2).contiguous(memory_format=chosen)
    return chosen == torch.channels_last, y.is_contiguous(memory_format=torch.channels_last)


def schemes(x: Tensor, d: int):
    chosen = torch.per_tensor_affine if d == torch.float32 else torch.per_channel_affine
    return chosen == torch.per_tensor_affine, chosen in (torch.per_tensor_symmetric, torch.per_channel_affine)


def optional(x: Tensor, d: Optional[int]):
    kind = torch.float32 if d is None else d
    return kind == torch.float32, kind == x.dtype, d is not None and d == torch.int64


def helped(kind: int, others: list[int]) -> bool:
    return kind in others or kind == torch.float32


def passed_on(x: Tensor, d: int):
    return helped(x.dtype, [torch.int64]), helped(d, [x.dtype])


def down(kind: int, n: int) -> bool:
    return kind == torch.int64 if n == 0 else down(kind, n - 1)


def recursive(x: Tensor, d: int):
    return down(x.dtype, 2), down(d, 1)


def with_default(x: Tensor, d: int = torch.float32):
    return x.dtype == d, d == torch.float32


class Spec(NamedTuple):
    kind: int
    size: int


def named(x: Tensor, d: int):
    spec = Spec(x.dtype, 2)
    return spec.kind == torch.float32, spec.kind in [d], spec.size == 2, spec == Spec(d, 2)


def tuples(x: Tensor, d: int):
    pair = (x.dtype, d)
    return pair == (torch.float32, torch.int64), pair[0] == pair[1], pair != (d, d)


def carried(x: Tensor, d: int):
    last = torch.uint8
    for kind in [torch.int64, d, x.dtype]:
        if kind == torch.float32:
            last = kind
    return last == torch.float32, last


def comprehension(x: Tensor, d: int):
    kinds = [k for k in [torch.int64, d, x.dtype] if k != torch.int64]
    return len(kinds), torch.float32 in kinds, {k: 1 for k in kinds} == {}


PROGRAMS: list[Callable[..., Any]] = [
    equal, is_one, layouts, in_tuple, in_list, positions, lists_equal, written, looked_up, dict_written, counted,
    branches, promoted, used, formats, schemes, optional, passed_on, recursive, with_default, named, tuples, carried,
]  # fmt: skip
OURS_ALONE = {recursive, optional}
"""Programs that torch.jit does not take."""


# -- roads


def eager(f: Any) -> Any:
    return f


def scripted(f: Any) -> Any:
    return jitlite.script(f)


def saved(f: Any) -> Any:
    return jitlite.load(_written(jitlite.script(f)))


def _written(scripted: Any, save: Any = jitlite.save) -> io.BytesIO:
    buffer = io.BytesIO()
    save(scripted, buffer)
    buffer.seek(0)
    return buffer


def saved_twice(f: Any) -> Any:
    return jitlite.load(_written(saved(f)))


def read_by_torch(f: Any) -> Any:
    return torch.jit.load(_written(jitlite.script(f)))


def written_by_torch(f: Any) -> Any:
    return jitlite.load(_written(torch.jit.script(f), torch.jit.save))


def as_text(f: Any) -> Any:
    scripted = jitlite.script(f)
    graph = ir.parse(str(scripted.inlined_graph))
    return create_function_from_graph("f", graph)


def as_python(f: Any) -> Any:
    return _run_source(jitlite.to_python(jitlite.script(f)))


def python_of_archive(f: Any) -> Any:
    return _run_source(jitlite.to_python(saved(f)))


def _run_source(program: Any) -> Any:
    names: dict[str, Any] = {"__name__": "written"}
    exec(compile(str(program), "written.py", "exec", dont_inherit=True), names)
    return names["load"]() if "load" in names else names[program.name]


def as_fx(f: Any) -> Any:
    return jitlite.to_fx(saved(f))


ROADS = [scripted, saved, saved_twice, read_by_torch, written_by_torch, as_text]
WAYS_OUT = [as_python, python_of_archive, as_fx]
SWITCHES: list[dict[str, Any]] = [
    {"tier": "python"}, {"tier": "stack"}, {"executor": "off"}, {"executor": "legacy"}, {"specialize_after": 2},
]  # fmt: skip
KINDS = [torch.float32, torch.int64, torch.bfloat16]


def outcome(f: Any, *args: Any) -> Any:
    try:
        return plain(f(*args))
    except Exception as error:
        return type(error).__name__, str(error)


def plain(value: Any) -> Any:
    """The value with a number for each such object."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return value.tolist() if isinstance(value, Tensor) else number_of(value)


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_do_the_same_by_every_road(program, road):
    if program in OURS_ALONE and road in (read_by_torch, written_by_torch):
        pytest.skip("torch.jit does not take it")
    if program is recursive and road is not scripted:
        pytest.skip("functions of archives do not call themselves")
    compiled = road(program)
    for x, d in itertools.product(KINDS, KINDS):
        x = torch.ones(2, dtype=x)
        want = outcome(program, x, d)
        for switches in SWITCHES if road is not read_by_torch else [{}]:
            with options.override(**switches):
                for _ in range(3 if switches.get("specialize_after") else 1):
                    assert outcome(compiled, x, d) == want, (x.dtype, d, switches)
                    if road is not read_by_torch:  # a caller may give the number as well
                        assert outcome(compiled, x, INT_CODES[d]) == want, (x.dtype, d, switches)


@pytest.mark.parametrize("road", WAYS_OUT, ids=lambda road: road.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_do_the_same_as_something_else(program, road):
    if program is recursive and road is not as_python:
        pytest.skip("functions of archives do not call themselves")
    if program is schemes and road is not as_python:
        pytest.skip("nothing in the archive tells that its numbers are objects")
    converted = road(program)
    for x, d in itertools.product(KINDS, KINDS):
        x = torch.ones(2, dtype=x)
        assert outcome(converted, x, d) == outcome(program, x, d), (x.dtype, d)


# -- modules: attributes, constants, classes of their own


class Keeps(torch.nn.Module):
    wide: torch.jit.Final[int]

    def __init__(self) -> None:
        super().__init__()
        self.kind = torch.float32
        self.wide = torch.float64

    def forward(self, x: Tensor, d: int = torch.int64):
        same = x.dtype == self.kind
        if d != self.kind:
            self.kind = d
        return same, self.kind == d, self.kind in [x.dtype], x.to(self.wide).dtype == self.wide, d == torch.int64


class Degrees(torch.nn.Module):
    """As convolutions over graphs do it: the dtype of what is counted with, and of what counts."""

    def forward(self, index: Tensor, size: Optional[int] = None, dtype: Optional[int] = None):
        if dtype is None:
            dtype = torch.float32
        assert index.dtype in (torch.int64, torch.int32), "no indices"
        count = int(index.max()) + 1 if size is None else size
        out = torch.zeros(count, dtype=dtype)
        out.scatter_add_(0, index.to(torch.int64), torch.ones(index.numel(), dtype=out.dtype))
        if out.dtype == torch.float32 or out.dtype == torch.float64:
            out = out.pow(-0.5)
        return out.masked_fill(out == float("inf"), 0.0), dtype == out.dtype


def read_from_lite(module: Any) -> Any:
    return jitlite.load(without_code(torch.jit.script(module)._save_to_buffer_for_lite_interpreter()))


def frozen(module: Any) -> Any:
    return jitlite.freeze(jitlite.script(module).eval(), preserved_attrs=["kind"] if hasattr(module, "kind") else None)


MODULE_ROADS = [*ROADS[:-1], read_from_lite, frozen, as_python, python_of_archive]


@pytest.mark.parametrize("road", MODULE_ROADS, ids=lambda road: road.__name__)
def test_attributes_by_every_road(road):
    for x, d in itertools.product(KINDS, KINDS):
        module = Keeps().eval()
        want = outcome(module, torch.ones(2, dtype=x), d)
        assert outcome(road(Keeps().eval()), torch.ones(2, dtype=x), d) == want, (x, d)
    x = torch.ones(2)
    assert outcome(road(Keeps().eval()), x) == outcome(Keeps(), x)


@pytest.mark.parametrize("road", MODULE_ROADS, ids=lambda road: road.__name__)
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.int64])
def test_a_convolution_over_graphs(road, index, dtype):
    edges = torch.tensor([0, 2, 2, 3], dtype=index)
    assert outcome(road(Degrees()), edges, 5, dtype) == outcome(Degrees(), edges, 5, dtype)


# -- where Python does no arithmetic with such objects, they are their numbers

ARITHMETIC = """
def sums(x: Tensor, d: int):
    return d + 1, 2 * d, d - x.dtype, -d, d // 2, d % 4, abs(d), float(d), d << 1, d ^ 3

def ordered(x: Tensor, d: int):
    return d < 5, x.dtype >= d, d > 4.5, min(d, 5), max(x.dtype, d), d <= x.dtype

def lists(x: Tensor, d: int):
    kinds = [d, x.dtype, 5]
    kinds.sort()
    return kinds, sorted([7, d, 2]), min(kinds), max(kinds), sum(kinds)

def counts(x: Tensor, d: int):
    return [1, 2, 3, 4, 5, 6, 7, 8][d], torch.full([2], d), x + d, torch.tensor(d), torch.zeros(d).size(0)
"""


@pytest.mark.parametrize("name", ["sums", "ordered", "lists", "counts"])
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_arithmetic_is_done_with_numbers(name, switches):
    ours, theirs = (getattr(jit.CompilationUnit(ARITHMETIC), name) for jit in (jitlite, torch.jit))
    for x, d in itertools.product([torch.float32, torch.int64], [torch.float32, torch.int64, torch.int32]):
        x = torch.ones(2, dtype=x)
        with options.override(**switches):
            for _ in range(3):
                assert outcome(ours, x, d) == outcome(theirs, x, d), (x.dtype, d)


def test_every_object_has_torchs_number():
    code = torch.jit.CompilationUnit("def f(d: int) -> int:\n    return d + 0\n").f
    classes = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)
    objects = [v for v in vars(torch).values() if isinstance(v, classes)]
    assert {v: INT_CODES.get(v) for v in objects} == {v: code(v) for v in objects}


def test_objects_stay_objects():
    @jitlite.script
    def f(x: Tensor, d: int):
        kinds = [d, torch.int32]
        if d == 4:
            return d, kinds, str(d), f"{d}"
        return x.dtype, kinds, str(d), f"{x.layout}"

    for executor in ("profiling", "off"):
        with options.override(executor=executor):
            assert f(torch.ones(1), torch.int64) == (
                torch.int64, [torch.int64, torch.int32], "torch.int64", "torch.int64",
            )  # fmt: skip
            assert f(torch.ones(1), 4)[0] == 4
            assert f(torch.ones(1), 5)[0] is torch.float32


def test_dicts_and_lists_of_the_caller():
    @jitlite.script
    def f(names: dict[int, str], kinds: list[int], x: Tensor, k: int):
        names[6] = "changed"
        kinds.remove(4)
        return names[k], k in names, x.dtype in kinds

    names, kinds = {torch.float32: "f", torch.int64: "i"}, [torch.int64, torch.float32]
    assert f(names, kinds, torch.ones(1), 6) == ("changed", True, True)
    assert names == {torch.float32: "changed", torch.int64: "i"} and kinds == [torch.float32]
    assert f({1: "a", 6: "b"}, [4], torch.ones(1), torch.float32) == ("changed", True, False)


def test_programs_of_numbers_do_not_pay():
    @jitlite.script
    def f(n: int, xs: list[int]):
        return n == 3, n in xs, n < 4, xs.index(n)

    assert f(3, [3]) == (True, True, True, 0)
    assert "n == 3, n in xs, n < 4" in f.generated_code
    assert f(torch.int32, [torch.int32]) == (True, True, True, 0)
    assert f(3, [torch.int32]) == (True, True, True, 0)
