"""Indexing of tensors means what it means in eager Python, whatever the index is, on each tier."""

from __future__ import annotations

import io
import random
import warnings

import pytest
import torch
from index_programs import random_program
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.base.source import NotSupportedError
from jitlite.debug.equality import difference
from jitlite.debug.outcome import observe
from jitlite.ir import parse, verify
from jitlite.ir.verify import VerifyError
from jitlite.operators.python_forms import CannotTranslate, form_of

PROGRAMS = 280


def check(source, inputs, ways=("stack", "python")):
    """Hold a program to what it does in eager Python, on the tiers and by the graph as the front end left it."""
    function = compile_source(source)["f"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of uint8 masks, which go out of use
        expected = [observe(function, arguments) for arguments in inputs]
        for tier in ways:
            with options.override(tier=tier):
                scripted = jitlite.script(function)
                for arguments, wanted in zip(inputs, expected, strict=True):
                    got = observe(scripted, arguments)
                    if wanted.raised and got.raised and has_several_faults(arguments):
                        continue
                    found = difference(wanted.told, got.told, "(result, exception, arguments, printed, sharing)")
                    assert not found, f"{tier}: {found}\n{source}\n{arguments}\n{scripted.graph}"


def has_several_faults(arguments):
    """Is a number among them that may not fit? Which fault of a wrong index is told first may then differ."""
    return arguments[2] not in (0.5, 2.0) or 1 << 70 in arguments[5:7]


@pytest.mark.parametrize("part", range(4))
def test_indices_mean_what_they_mean_in_eager(part):
    chance = random.Random(part)
    for _ in range(PROGRAMS // 4):
        check(*random_program(chance.randrange))


def means_the_same_in_torchscript(arguments):
    """TorchScript indexes by numbers of the type bool in a way of its own; an empty list of bools is a mask there, and
    dimensions of size 1 in front of a value are an error."""
    is_number = [not t.dim() and t.dtype in (torch.bool, torch.uint8) for t in arguments[3:5]]
    if any(is_number) or arguments[1].shape[:1] == (1,):
        return False
    return bool(arguments[8]) and not has_several_faults(arguments)


def roads(scripted):
    """The program by other roads: as Python source, as an FX graph, as an archive if TorchScript can say it."""
    namespace = {}
    exec(jitlite.to_python(scripted).source, namespace)
    yield "to_python", namespace["f"]
    yield "to_fx", jitlite.to_fx(scripted)
    buffer = io.BytesIO()
    try:
        jitlite.save(scripted, buffer)
    except NotSupportedError as refusal:
        assert refusal.range is not None
        return
    buffer.seek(0)
    yield "load", jitlite.load(buffer)


@pytest.mark.filterwarnings("ignore")
def test_indices_mean_the_same_by_other_roads():
    chance = random.Random(7)
    saved = 0
    for _ in range(60):
        source, inputs = random_program(chance.randrange, calls=8)
        if "9223372036854775808" in source:
            continue
        function = compile_source(source)["f"]
        for name, run in roads(jitlite.script(function)):
            saved += name == "load"
            for arguments in inputs:
                if not means_the_same_in_torchscript(arguments):
                    continue
                wanted, got = observe(function, arguments), observe(run, arguments)
                if wanted.raised and got.raised:
                    continue
                found = difference(wanted.told[:4], got.told[:4], "(result, exception, arguments, printed)")
                assert not found, f"{name}: {found}\n{source}\n{arguments}"
    assert saved > 30


@jitlite.script
def mixed(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor):
    x[i, :, j] = 7
    x[i] += 1
    u = x[:, i]
    u.add_(5)
    return x[i, :, j], x[:, j, None]


@pytest.mark.parametrize("i", [1, [0, 1]])
@pytest.mark.parametrize("j", [0, [1, 0]])
def test_a_view_that_is_written_stays_one_in_an_archive(i, j):
    buffer = io.BytesIO()
    jitlite.save(mixed, buffer)
    buffer.seek(0)
    arguments = [torch.arange(27.0).reshape(3, 3, 3), torch.tensor(i), torch.tensor(j)]
    wanted, got = observe(mixed, arguments), observe(jitlite.load(buffer), arguments)
    assert not difference(wanted.told[:4], got.told[:4], "(result, exception, arguments, printed)")


def test_what_torchscript_cannot_say_is_refused_with_its_line():
    @jitlite.script
    def behind_dots(x: torch.Tensor, i: torch.Tensor):
        return x[..., i]

    assert behind_dots(torch.arange(6).reshape(2, 3), torch.tensor(1)).tolist() == [1, 4]
    with pytest.raises(NotSupportedError, match="behind") as refusal:
        jitlite.save(behind_dots, io.BytesIO())
    assert "x[..., i]" in str(refusal.value)


NUMBERS = [1e300, -1e300, 300, -1, -129, 2.5, float("nan"), float("inf"), 1j, 1 + 0j, True, 1 << 63, 1 << 70, 70000.0]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16,
          torch.int64, torch.bool, torch.complex64]  # fmt: skip


@pytest.mark.parametrize("tier", options.TIERS)
@pytest.mark.parametrize("target", ["x[0]", "x[...]", "x[1:]", "x[i]", "x[i > 0]", "x[i, None]"])
def test_numbers_that_are_assigned_have_to_fit(target, tier):
    with options.override(tier=tier):
        for kind in ("float", "int", "complex", "bool"):
            source = f"def f(x: Tensor, i: Tensor, n: {kind}):\n    {target} = n\n    return x\n"
            function = compile_source(source)["f"]
            scripted = jitlite.script(function)
            for number in (n for n in NUMBERS if type(n).__name__ == kind):
                for dtype in DTYPES:
                    arguments = [torch.zeros(2, dtype=dtype), torch.tensor([0, 1]), number]
                    wanted, got = observe(function, arguments), observe(scripted, arguments)
                    assert not difference(wanted.told[:3], got.told[:3], "n"), (source, number, dtype)


def test_graph_text_says_how_an_index_is_written_and_no_more():
    text = """graph(%x : Tensor, %i : Tensor):
  %y : Tensor = prim::TensorItem[index="_, :"](%x, %i)
  return (%y)
"""
    graph = parse(text)
    verify(graph)
    for wrong in ('__import__("os")', "_, _", "", "_ , :", "_]; x[_"):
        next(graph.block.nodes).attributes["index"] = wrong
        with pytest.raises(VerifyError):
            verify(graph)
        with pytest.raises(CannotTranslate):
            form_of(next(graph.block.nodes))
