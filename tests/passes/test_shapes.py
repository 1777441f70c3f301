"""What is known about tensors is true of them: single operators, programs, modes, writes; and it is known at all."""

from __future__ import annotations

import contextlib
import itertools
import random

import pytest
import torch
from computed_sizes import hold_computed_sizes
from fact_law import Untrue, check_run
from operator_calls import call, calls
from strategies import THEMES, compile_source, random_program

import jitlite
from jitlite.analysis import propagation, result_types
from jitlite.analysis.result_types import ModeFacts
from jitlite.ir import types as T
from jitlite.ir.parser import parse
from jitlite.operators import shape_call
from jitlite.operators.tensor_lattice import join
from jitlite.passes.shapes import propagate

PROGRAMS = 60


def weakened(t, chance, names):
    """A type that says a part of what `t` says."""
    if not isinstance(t, T.TensorType) or not chance.randrange(8):
        return T.unshaped(t)
    sizes, symbols = list(t.sizes), [None] * len(t.sizes)
    for i, size in enumerate(sizes):
        if chance.random() < 0.5:
            sizes[i] = None
            if chance.random() < 0.5:
                symbols[i] = names.setdefault(size, len(names) + 1)

    def maybe(fact):
        return fact if chance.random() < 0.7 else None

    known = maybe(sizes)
    return T.TensorType.of(
        maybe(t.dtype), known, None, maybe(t.device), maybe(t.requires_grad), None if known is None else symbols
    )


def types_of(arguments):
    return [T.TensorType.from_tensor(a) if isinstance(a, torch.Tensor) else None for a in arguments]


def hold(graph, arguments, chance, modes=None):
    """Check the law with all that is known about the arguments, and with a part; the number of comparisons."""
    complete = types_of(arguments)
    names = {}
    partial = [None if t is None else weakened(t, chance, names) for t in complete]
    compared = 0
    for given in (complete, partial):
        for used in (modes, ModeFacts()):
            copy = graph.copy()
            propagate(copy, given, used)
            compared += check_run(copy, arguments)
            assert not propagate(copy, None, used), f"a second time, something else is found:\n{copy}"
    return compared + hold_computed_sizes(graph, arguments)


# -- single operators


@pytest.mark.slow
@pytest.mark.parametrize("expression", calls())
def test_operators(expression):
    source, kinds = call(expression)
    graph = jitlite.script(compile_source(source)["f"]).inlined_graph
    chance = random.Random(expression)
    modes = [None, ModeFacts(grad=False, autocast=False, default_dtype=torch.get_default_dtype())]
    for arguments in kinds:
        for used in modes:
            with torch.no_grad() if used else contextlib.nullcontext():
                hold(graph, arguments, chance, used)


# -- programs


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["tensors", "everything"])
def test_programs(theme):
    assert theme in THEMES
    compared = 0
    for number in range(PROGRAMS):
        program = random_program(number, theme)
        graph = jitlite.script(compile_source(program.source)["f"]).inlined_graph
        chance = random.Random(number)
        for arguments in program.inputs:
            compared += hold(graph, arguments, chance)
    assert compared > 2000, "next to nothing is known about the programs"


LOOPS = """
def grows(x: Tensor, n: int):
    y = x
    for i in range(n):
        x = torch.cat([x, y])
        y = x[1:]
    return x, y

def swaps(x: Tensor, y: Tensor, n: int):
    for i in range(n):
        x, y = y, x
    return x, y, x + 1

def turns(x: Tensor, y: Tensor, n: int):
    z = x
    while n > 0:
        z = x.t()
        if n > 1:
            x = z.contiguous()
        n -= 1
    return x, z, torch.zeros_like(z)

def nested(x: Tensor, y: Tensor, n: int):
    for i in range(n):
        k = x.size(0)
        for j in range(i):
            x = torch.cat([x, y])
        if x.size(0) == k:
            y = y.double()
        y = y.unsqueeze(0).squeeze(0)
    return x, y

def resized(x: Tensor, y: Tensor, n: int):
    z = y.clone()
    v = z.view(-1)
    w = v
    for i in range(n):
        w = torch.relu(z)
        z.resize_([i + 1, 2])
    return w, v, z + 0

def quiet(x: Tensor, y: Tensor, n: int):
    with torch.no_grad():
        a = x * y
        b = x.view(-1)
        with torch.enable_grad():
            c = x * y
        if n > 1:
            a.requires_grad_()
    d = a + y
    z = torch.zeros([2, 3])
    z += x
    with torch.no_grad():
        e = x - y
    return a, b, c, d, z, e, x - y
"""


@pytest.mark.parametrize("name", ["grows", "swaps", "turns", "nested", "resized", "quiet"])
@pytest.mark.parametrize("grad", [False, True])
def test_loops_branches_writes_and_modes(name, grad):
    sources = {part.split("(")[0].strip(): f"def f({part.partition('(')[2]}" for part in LOOPS.split("def ")[1:]}
    source = sources[name]
    graph = jitlite.script(compile_source(source)["f"]).inlined_graph
    x, y = torch.ones(2, 3, requires_grad=grad), torch.ones(2, 3)
    for number in range(4):
        arguments = [x, y, number] if "y: Tensor" in source else [x, number]
        assert hold(graph, arguments, random.Random(number))
        square = [torch.ones(3, 3) if isinstance(a, torch.Tensor) else a for a in arguments]
        if name != "quiet":
            hold(graph, square, random.Random(number))


# -- the law can fail


def _ignoring_writes(monkeypatch):
    monkeypatch.setattr(propagation, "_may_write", lambda node: False)


def _ignoring_trips(monkeypatch):
    monkeypatch.setattr(propagation.Propagation, "_widen", lambda self, start, end, older: start)


def _one_branch(monkeypatch):
    monkeypatch.setattr(propagation, "join", lambda a, b, symbols: join(a, b, symbols) if a is propagation.NEVER else a)


def _modes_that_stay(monkeypatch):
    monkeypatch.setitem(propagation._BY_KIND, "prim::Exit", propagation.Propagation._declared)


def _broadcast_of_equal_sizes(monkeypatch):
    monkeypatch.setattr(shape_call, "_broadcast_one", lambda call, a, b: a)


def _views_of_nothing(monkeypatch):
    monkeypatch.setattr(result_types, "_makes_its_results", lambda op: True)


FAULTS = [
    (_ignoring_writes, "resized", False),
    (_ignoring_writes, "quiet", True),
    (_ignoring_trips, "grows", False),
    (_one_branch, "nested", False),
    (_modes_that_stay, "quiet", True),
    (_broadcast_of_equal_sizes, "broadcasts", False),
    (_views_of_nothing, "quiet", True),
]


@pytest.mark.parametrize("plant, name, grad", FAULTS, ids=[f"{f[0].__name__}-{f[1]}" for f in FAULTS])
def test_the_law_finds(plant, name, grad, monkeypatch):
    plant(monkeypatch)
    if name == "broadcasts":
        graph = jitlite.script(compile_source("def f(x: Tensor, y: Tensor):\n    return y[:1] + x\n")["f"]).graph
        x = torch.ones(2, 3)
        with pytest.raises(Untrue):
            hold(graph, [x, x], random.Random(0))
        return
    with pytest.raises(Untrue):
        test_loops_branches_writes_and_modes(name, grad)


IN_ORDER = ["x.index_select(1, i)", "x.gather(0, torch.zeros(1, 2, dtype=torch.int64))", "x.cumsum(0)", "x.softmax(1)"]


@pytest.mark.parametrize("expression", [*IN_ORDER, "torch.embedding(x, i)"])
def test_results_that_are_made_in_order_have_no_gaps(expression):
    """Their strides are known, and where an argument has gaps nothing is said of them."""
    graph = jitlite.script(compile_source(f"def f(x: Tensor, i: Tensor):\n    return {expression}\n")["f"]).graph
    i = torch.tensor([1, 0])
    for x in (torch.ones(2, 3), torch.ones(3, 2).t()):
        propagate(graph, types_of([x, i]))
        known = graph.outputs[0].type
        assert known.strides == (T.TensorType.from_tensor(eval(expression)).strides if x.is_contiguous() else None)
        check_run(graph, [x, i])


@pytest.mark.parametrize("size", [2, 16])
@pytest.mark.parametrize("kernel", [3, 5])
def test_the_dtype_of_a_convolution_in_many_groups_is_known(size, kernel):
    """It takes no stand-in with fewer channels, and one of all sizes would be large."""
    pad = kernel // 2
    call = f"torch.convolution(x, w, None, [1, 1], [{pad}, {pad}], [1, 1], False, [0, 0], 32)"
    source = f"def f(x: Tensor, w: Tensor):\n    return {call}\n"
    graph = jitlite.script(compile_source(source)["f"]).graph
    args = [torch.ones(3, 32, size, size), torch.ones(32, 1, kernel, kernel)]
    propagate(graph, types_of(args), ModeFacts(grad=False, autocast=False))
    assert graph.outputs[0].type.dtype is torch.float32
    check_run(graph, args)


def test_windows_that_are_rounded_up_are_counted_as_torch_counts_them():
    for size, kernel, stride, padding, dilation in itertools.product(
        range(1, 12), (1, 2, 3, 5), (1, 2, 3), (0, 1), (1, 2)
    ):
        if padding > kernel // 2:
            continue
        text = f"""
graph(%x : Float(2, {size}, device=cpu)):
  %k : int[] = prim::Constant[value=[{kernel}]]()
  %s : int[] = prim::Constant[value=[{stride}]]()
  %p : int[] = prim::Constant[value=[{padding}]]()
  %d : int[] = prim::Constant[value=[{dilation}]]()
  %up : bool = prim::Constant[value=1]()
  %y : Tensor = aten::max_pool1d(%x, %k, %s, %p, %d, %up)
  return (%y)
"""
        graph = parse(text)
        propagate(graph)
        try:
            counted = torch.nn.functional.max_pool1d(torch.ones(2, size), kernel, stride, padding, dilation, True)
        except RuntimeError:
            continue
        assert graph.outputs[0].type.sizes == tuple(counted.shape), text


@pytest.mark.parametrize("name", ["_unsafe_view", "view_copy", "_reshape_copy", "expand_copy"])
@pytest.mark.parametrize("rows", [2, 4000])
def test_copies_of_views_keep_the_dtype_whatever_the_sizes(name, rows):
    more = ", implicit=0" if name == "expand_copy" else ""
    text = f"""graph(%x : Float({rows}, 6), %a : int, %b : int):
      %sizes : int[] = prim::ListConstruct(%a, %b)
      %no : bool = prim::Constant[value=0]()
      %y : Tensor = aten::{name}(%x, %sizes{more and ", %no"})
      return (%y)"""
    graph = parse(text)
    propagate(graph)
    assert graph.outputs[0].type.dtype is torch.float32
