"""Damaged graph text: whatever becomes of it is refused in words, or runs as what it says."""

from __future__ import annotations

import builtins
import random
import re
import signal
from contextlib import contextmanager

import pytest
import torch

from jitlite import ir
from jitlite.base.source import CompileError, Error
from jitlite.codegen.python.python_tier import translate
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.ir.unit import Function
from jitlite.ir.verify import VerifyError
from jitlite.operators.python_forms import CannotTranslate

CALL = "__import__('builtins').hostile_text_ran.append(1)"

SEEDS = [
    "graph(%x : Tensor, %n : int):\n  %1 : bool = prim::Constant[value=1]()\n  %2 : int = prim::Constant[value=2]()\n"
    "  %y : Tensor = prim::Loop(%n, %1, %x)\n    block0(%i : int, %p : Tensor):\n"
    "      %q : Tensor = aten::add(%p, %i, %2)\n      -> (%1, %q)\n  return (%y)\n",
    "graph(%x : Tensor, %c : bool):\n  %y : Tensor = prim::If(%c)\n    block0():\n"
    "      %a : Tensor = aten::relu(%x)\n      -> (%a)\n    block1():\n      -> (%x)\n  return (%y)\n",
    "graph(%t : (int, str, float), %d : Dict(str, int[])):\n  %u : (int, str) = prim::TupleSlice[beg=0, end=2](%t)\n"
    '  %k : str = prim::Constant[value="a\\nb"]()\n  %l : int[] = aten::__getitem__(%d, %k)\n'
    "  %v : (int[], (int, str)) = prim::TupleConstruct(%l, %u)\n  return (%v)\n",
    "graph(%s : str):\n  %1 : Device = prim::Constant[value=\"cpu\"]()\n  %2 : float = prim::Constant[value=1e-05]()\n"
    "  %3 : int[] = prim::Constant[value=[1, 2, 3]]()\n  %4 : Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu)"
    " = prim::Constant[value= 1  2  3  4 [ CPUFloatType{2,2} ]]()\n"
    "  %5 : complex = prim::Constant[value=1.5-2.j]()\n  %6 : bool = prim::isinstance[types=[int, str]](%s)\n"
    "  %7 : Dict(str, int) = prim::Constant[value={\"a\": 1}]()\n  return (%1, %2, %3, %4, %5, %6, %7)\n",
    "graph(%x : Tensor):\n  %a : Tensor, %b : Tensor = prim::ConstantChunk[chunks=2, dim=0](%x)\n"
    "  %f : Future(Tensor) = prim::fork_0(%a)\n  %r : Tensor = aten::wait(%f)\n  return (%r, %b)\n"
    "with prim::fork_0 = graph(%z : Tensor):\n  %w : Tensor = aten::neg(%z)\n  return (%w)\n",
    "graph(%o : __torch__.M, %x : Tensor):\n  %w : Tensor = prim::GetAttr[name=\"weight\"](%o)\n"
    "   = prim::SetAttr[name=\"weight\"](%o, %x)\n"
    "  %y : Tensor = prim::CallMethod[name=\"run\"](%o, %w)\n  return (%y)\n",
    "graph(%x : Tensor?, %e : Enum<__torch__.Color>, %u : Union(int, str)):\n  %n : NoneType = prim::Constant()\n"
    "  %i : bool = aten::__isnot__(%x, %n)\n  %p : NamedTuple(a : int, b : Tensor?) = prim::TupleConstruct(%n, %x)\n"
    "   = prim::Print(%i, %p)\n  return (%i)\n",
]  # fmt: skip

TOKENS = [
    "(", ")", "[", "]", "{", "}", ",", ":", "=", "->", "%", "%x", "%9", "?", "[]", ".", "::", "^f", "return", "with",
    "graph", "block0", "prim::If", "prim::Loop", "prim::Constant", "prim::TupleSlice", "prim::CallMethod", "Tensor",
    "int", "str", "NamedTuple(a : int, a : int)", "Tuple[()]", "Dict(int, int)", "Union(int)", "Enum<", "SS(-1)",
    "value", "name", "beg", "-2147483648", "9" * 30, "9" * 5000, "1e999", "nan", "-inf", "1.j", "True", "None", '"',
    "'", '"\\', f'"{CALL}"', f'"x {CALL} x"', "torch.device(\"x\")", "torch.Generator(device=\"cpu\", seed=-1)",
    "annotate(int[], [])", "<Tensor>", "{1}", "[ CPUFloatType{9} ]", "Float(1000000, 1000000)", "\n", "#", "\x00",
    "\u2028", "é", "__torch__.M", "__class__", "aten::add", "aten::to", "aten::__getitem__", "scope: a",
]  # fmt: skip
_TOKEN = re.compile(r"\w+(?:::\w+)*|\s+|.", re.DOTALL)


def mutated(rng: random.Random) -> str:
    """A seed, or parts of two, with tokens taken out, doubled, exchanged or put in."""
    tokens = _TOKEN.findall(rng.choice(SEEDS))
    if rng.random() < 0.1:
        other = _TOKEN.findall(rng.choice(SEEDS))
        tokens = tokens[: rng.randrange(len(tokens))] + other[rng.randrange(len(other)) :]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(tokens))
        kind = rng.randrange(6)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[rng.randrange(len(tokens))])
        elif kind == 2:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 3:
            tokens[at] = rng.choice(TOKENS)
        elif kind == 4:
            tokens.insert(at, rng.choice(TOKENS))
        else:
            tokens[at : at + 1] = [tokens[at]] * rng.choice((2, 50, 3000))
        tokens = tokens or ["graph"]
    return "".join(tokens)


REFUSED = (CompileError, VerifyError, CannotTranslate)


@contextmanager
def at_most(seconds: int):
    """An exception in what takes longer."""

    def over(number, frame):
        raise AssertionError(f"takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(text: str) -> str:
    """Do all that can be done with a text; gives how far it came.

    Raises:
        AssertionError: an error of another kind than the one that is promised there.
    """
    try:
        graph = ir.parse(text)
    except CompileError:
        return "refused"
    except Exception as error:
        raise AssertionError(f"parse: {error!r}") from error
    try:
        ir.verify(graph)
    except VerifyError:
        return "not well formed"
    except Exception as error:
        raise AssertionError(f"verify: {error!r}") from error
    try:
        ir.parse(str(graph))
    except CompileError as error:
        if "not in the text" not in str(error) and "elements" not in str(error):
            raise AssertionError(f"what is printed is not read: {error}") from error
    for make in (
        lambda: translate(graph, "f", lambda called: None),
        lambda: lower(graph, "f"),
        lambda: Function("f", graph=graph),
    ):
        try:
            make()
        except REFUSED:
            pass
        except Exception as error:
            raise AssertionError(f"generate: {error!r}") from error
    return "well formed"


def run(text: str) -> None:
    """Run a well-formed text on values of its types; what it raises is a program's own business."""
    graph = ir.parse(text)
    examples = {"Tensor": torch.ones(2), "int": 2, "bool": True, "str": "s", "float": 1.5}
    arguments = [examples.get(str(v.type)) for v in graph.inputs]
    for make in (
        lambda: translate(graph, "f", lambda called: None).run(*arguments),
        lambda: vm.run(lower(graph, "f"), arguments, lambda called: None),
    ):
        try:
            make()
        except (*REFUSED, Error):
            pass
        except Exception:
            pass


@pytest.fixture(autouse=True)
def nothing_runs():
    builtins.hostile_text_ran = []
    yield
    ran = builtins.hostile_text_ran
    del builtins.hostile_text_ran
    assert not ran


def sweep(first: int, count: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for seed in range(first, first + count):
        text = mutated(random.Random(seed))
        try:
            with at_most(20):
                stage = check(text)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n{text[:2000]}") from error
        if stage == "well formed" and "Loop" not in text:  # a loop may go on for ever
            with at_most(20):
                run(text)
        found[stage] = found.get(stage, 0) + 1
    return found


def test_damaged_graph_text(capsys):
    found = sweep(0, 400)
    assert set(found) == {"refused", "not well formed", "well formed"}


@pytest.mark.slow
def test_much_damaged_graph_text(capsys):
    sweep(1000, 20_000)


@pytest.mark.parametrize(
    "text",
    [
        "graph(%x : " + "(" * 5000 + "int" + ")" * 5000 + "):\n  return (%x)\n",
        "graph(%x : int" + "[]" * 20_000 + "):\n  return (%x)\n",
        "graph(%x : int" + "[]?" * 20_000 + "):\n  return (%x)\n",
        "graph(%x : " + "Dict(int, " * 5000 + "int" + ")" * 5000 + "):\n  return (%x)\n",
        "graph():\n  %1 : int = prim::Constant[value=" + "[" * 5000 + "]" * 5000 + "]()\n  return (%1)\n",
        "graph():\n  %1 : int = prim::Constant[value=" + "(" * 5000 + "]()\n  return (%1)\n",
        "graph():\n  %1 : int = prim::Constant[value=" + "annotate(int, " * 5000 + "]()\n  return (%1)\n",
        "graph(%c : bool):\n" + "= prim::If(%c)\n block0():\n" * 3000 + "return ()\n",
        "graph():\n  %1 : Float(100000, 100000) = prim::Constant[value={1}]()\n  return (%1)\n",
        "graph():\n  %" + "9" * 5000 + " : int = prim::Constant[value=1]()\n  return ()\n",
        "graph():\n  %1 : int = prim::Constant[value=" + "9" * 5000 + "]()\n  return (%1)\n",
    ],
)
def test_depth_and_size_have_bounds(text):
    with at_most(20), pytest.raises(CompileError) as caught:
        ir.parse(text)
    assert len(str(caught.value)) < 200_000
