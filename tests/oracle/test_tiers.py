"""Every operator with samples does the same on the stack machine, in generated Python and in eager, to the last bit.

Samples are those of `opinfo.py`: functions, methods, operators and in-place forms, with literals and with variables.
Operators that write into tensors given for their results are called with one `out`, and by the names that their
schemas have for several.

    python -m tests.oracle.test_tiers [NAME] [SAMPLES]

prints what differs, for the operators with NAME in theirs.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import jitlite
from jitlite.codegen.python.python_tier import translate
from jitlite.compiler import program as compiler
from jitlite.executor.executor import code_for, executor_of
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.ir import ops

DTYPES = (
    torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip
SLICES = 12


@pytest.fixture(scope="module")
def opinfo() -> types.ModuleType:
    """The samples; their import takes seconds."""
    from . import opinfo

    return opinfo


def out_calls(opinfo: Any, op: Any, dtype: torch.dtype, most: int) -> Iterator[tuple[Any, str]]:
    """Calls with tensors for the results: the call for scripts, and its text for eager."""
    if not op.supports_out or "." in op.name and not op.name.startswith(("linalg.", "special.", "fft.")):
        return
    for call in list(opinfo.calls(op, dtype, most)):
        if not call.variant.startswith("function") or " " in call.variant or "out=" in call.text:
            continue
        without_grad = dataclasses.replace(call, with_grad=False, values=[_detached(v) for v in call.values])
        result = opinfo.run(opinfo.python_function(call.source), without_grad)
        outs = [result] if isinstance(result, torch.Tensor) else list(result) if isinstance(result, tuple) else []
        if not outs or not all(isinstance(o, torch.Tensor) and o.layout is torch.strided for o in outs):
            continue
        names = [f"o{i}" for i in range(len(outs))]
        made = dataclasses.replace(
            without_grad,
            parameters=[*call.parameters, *names],
            values=[*without_grad.values, *(torch.empty_like(o) for o in outs)],
        )
        head = call.text[:-1]
        one = names[0] if len(names) == 1 else f"({', '.join(names)})"
        eager = f"{head}, out={one})"
        yield dataclasses.replace(made, variant="out", text=eager), eager
        for formals in _names_of_outs(op, len(outs)):
            given = ", ".join(f"{formal}={name}" for formal, name in zip(formals, names, strict=True))
            yield dataclasses.replace(made, variant="named outs", text=f"{head}, {given})"), eager


def _names_of_outs(op: Any, count: int) -> list[list[str]]:
    """What the schemas of an operator call its tensors for results, where there are several."""
    found = []
    for overload in ops.lookup(f"aten::{op.name.replace('.', '_')}"):
        names = [a.name for a in overload.schema.arguments if a.is_write and a.kwarg_only]
        if len(names) == count and count > 1 and names not in found:
            found.append(names)
    return found


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return [_detached(v) for v in value] if isinstance(value, list | tuple) else value


def tiers(function: Any) -> dict[str, Any]:
    """What runs the graph of a compiled function on each tier, as it is and optimized."""
    found = {}
    plain = function.graph
    for name, graph in (("", plain), (" optimized", compiler.optimized(plain))):
        code = lower(graph)
        found[f"stack machine{name}"] = lambda *args, code=code: vm.run(code, args, code_for)
        found[f"Python{name}"] = translate(graph, "call", lambda f: executor_of(f).general.run).run
    return found


def bits(value: Any) -> Any:
    """A value that is equal only to what has the same bits, in the same places."""
    if isinstance(value, torch.Tensor):
        about = (value.dtype, value.shape, value.layout, value.requires_grad)
        if value.layout is not torch.strided:
            return *about, bits(value.detach().to_dense())
        if value._is_zerotensor():
            return *about, "zeros"
        if value.is_quantized:
            return *about, bits(value.detach().int_repr())
        content = value.detach().resolve_conj().resolve_neg().flatten().clone(memory_format=torch.contiguous_format)
        shown = content.view(torch.uint8) if content.numel() else content
        return *about, value.stride(), shown.numpy().tobytes() if content.numel() else b""
    if isinstance(value, list | tuple):
        return [bits(v) for v in value]
    return type(value), repr(value)


def differences(opinfo: Any, op: Any, samples: int, dtypes: Any = DTYPES) -> Iterator[str]:
    """Says of each call that is not the same everywhere where it differs."""
    compiled: dict[str, Any] = {}
    for dtype in dtypes:
        pairs = [(call, call.text) for call in opinfo.calls(op, dtype, samples)]
        pairs += list(out_calls(opinfo, op, dtype, samples))
        for call, eager in pairs:
            python = opinfo.python_function(dataclasses.replace(call, text=eager).source)
            expected = opinfo.run(python, call)
            if isinstance(expected, Exception):
                continue
            if call.source not in compiled:
                compiled[call.source] = _compiled(opinfo, call)
            for tier, run in compiled[call.source].items():
                got = opinfo.run(run, call)
                same = not isinstance(got, Exception) and bits(opinfo.typed_as(got, expected)) == bits(got)
                if not same:
                    yield f"{dtype} {tier}: {call.text}: {_shown(got)}, eager gives {_shown(expected)}"


def _compiled(opinfo: Any, call: Any) -> dict[str, Any]:
    try:
        return tiers(jitlite.script(opinfo.python_function(call.source)))
    except jitlite.CompileError:
        return {}  # what scripts refuse is another test's


def _shown(value: Any) -> str:
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {str(value).strip().splitlines()[0] if str(value).strip() else ''}"
    return " ".join(repr(value).split())[:300]


def check(opinfo: Any, chosen: Any, samples: int, dtypes: Any = DTYPES) -> None:
    with opinfo.reproducible():
        found = [d for op in chosen for d in differences(opinfo, op, samples, dtypes)]
    assert found == []


FEW = 15
"""Of so many operators, one is tried each time."""

SEVERAL_RESULTS = "max.reduction_with_dim sort topk kthvalue cummax frexp linalg.svd aminmax".split()
"""Operators that write into several tensors, called by the names of the schema."""


def test_a_few_operators(opinfo):
    check(opinfo, opinfo.op_db[3::FEW], 1, (torch.float32, torch.bfloat16))


@pytest.mark.parametrize("name", "add sub mul div pow".split())
def test_numbers_in_place(opinfo, name):
    with opinfo.reproducible():
        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.int32):
            x = torch.arange(1, 40).to(dtype)
            for number in (3, 0.3333):
                if dtype.is_floating_point or (type(number) is int and name != "div"):
                    text = f"i0.clone().{name}_({number})"
                    call = opinfo.Call("inplace", text, ["i0"], [x], False)
                    expected = bits(opinfo.run(opinfo.python_function(call.source), call))
                    for tier, run in _compiled(opinfo, call).items():
                        assert bits(opinfo.run(run, call)) == expected, (dtype, text, tier)


def test_out_tensors_by_name(opinfo):
    chosen = [op for op in opinfo.op_db if opinfo.full_name(op) in SEVERAL_RESULTS]
    named = [c for op in chosen for c, _ in out_calls(opinfo, op, torch.float32, 1) if c.variant == "named outs"]
    assert len(chosen) == len(SEVERAL_RESULTS) and len(named) >= 6
    check(opinfo, chosen, 1, (torch.float32,))


def test_differences_are_seen(opinfo, monkeypatch):
    op = next(op for op in opinfo.op_db if op.name == "neg")

    def doubled(function):
        return {"doubled": lambda *args: function(*args) * 2}

    monkeypatch.setattr(sys.modules[__name__], "tiers", doubled)
    assert list(differences(opinfo, op, 1, (torch.float32,)))


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(SLICES))
def test_every_operator(opinfo, number):
    check(opinfo, opinfo.op_db[number::SLICES], 5)


def main(name: str = "", samples: str = "2") -> None:
    """Print what differs."""
    from tests.oracle import opinfo

    with opinfo.reproducible():
        for op in opinfo.op_db:
            if name in op.name:
                found = list(differences(opinfo, op, int(samples)))
                if found:
                    print(f"{opinfo.full_name(op)}: {len(found)}: {found[0]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
