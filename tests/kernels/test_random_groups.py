"""Random programs over tensors: as kernels, in generated Python and in eager Python.

`PYTHONPATH=tests/support python tests/kernels/test_random_groups.py 0 20000` runs those of these numbers, and makes
what fails smaller.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import warnings
from collections.abc import Iterator

import pytest
import torch
from kernel_law import SUMS, WHOLE, Outcome, compared, outcome
from kernel_programs import Program, function_of, random_program, smaller

import jitlite
from jitlite.base import options
from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

NOT_OF_FLOATS = {TypeError, NotImplementedError}
"""What `~` of floats raises in Python and in graphs (docs/differences.md)."""
BLOCK = 12
"""Programs of one test."""


def failure_of(program: Program, counts: collections.Counter[str] | None = None) -> str | None:
    """How a program fails; None if it does not."""
    try:
        fn = function_of(program.source)
        with torch.no_grad():
            expected = [outcome(fn, given) for given in program.inputs]
    except Exception:
        return None
    if isinstance(expected[0].result, NameError):
        return None
    for native in ("off", "now"):
        with options.override(native=native):
            try:
                scripted = jitlite.script(fn)
            except jitlite.CompileError:
                return None
            for i in (0, 0, 1, 0):
                found = _run(scripted, program, i)
                reason = compared(expected[i], found, WHOLE if program.is_exact else SUMS)
                if reason is not None and not program.is_exact and _has_singles(program):
                    reason = compared(_as_singles(expected[i]), _as_singles(found), SUMS)
                if isinstance(expected[i].result, Exception) and isinstance(found.result, Exception):
                    same = {type(expected[i].result), type(found.result)}
                    is_told = len(same) == 1 or (same == NOT_OF_FLOATS and "~" in program.source)
                    reason = None if is_told else f"raised {found.result!r}, expected {expected[i].result!r}"
                if reason is not None:
                    return f"native={native}, inputs {i}: {reason}"
    if counts is not None:
        _count(scripted, counts)
    return None


def _has_singles(program: Program) -> bool:
    return any(isinstance(v, torch.Tensor) and v.dtype is torch.float32 for given in program.inputs for v in given)


def _as_singles(told: Outcome) -> Outcome:
    """Doubles as numbers of 32 bits: sums of these, in another order, may have become doubles."""

    def rounded(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.float() if value.dtype is torch.float64 else value
        return type(value)(map(rounded, value)) if isinstance(value, list | tuple) else value

    return Outcome(rounded(told.result), [rounded(v) for v in told.arguments])


def _run(scripted: object, program: Program, i: int) -> Outcome:
    with torch.no_grad():
        return outcome(scripted, program.inputs[i])  # type: ignore[arg-type]


def _count(scripted: object, counts: collections.Counter[str]) -> None:
    counts["programs"] += 1
    with contextlib.suppress(Exception):
        for region in scripted.executor.general.regions:  # type: ignore[attr-defined]
            state = region.implementation
            if state is not None and region.kind == "tensors":
                counts["regions"] += 1
                counts["ran"] += bool(state.runs)
                counts["runs"] += state.runs
                if not state.runs:
                    counts["why: " + state.status.partition("): ")[2][:70]] += 1


@pytest.mark.parametrize("first", range(0, 48, BLOCK))
def test_random_programs(first: int) -> None:
    """Every result, and all that can be told of it, is as in eager Python; and kernels do run."""
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + BLOCK):
        program = random_program(seed)
        reason = failure_of(program, counts)
        assert reason is None, f"program {seed}: {reason}\n{program.source}"
    assert counts["ran"] >= 2


def failures(seeds: range, counts: collections.Counter[str]) -> Iterator[str]:
    """Texts about the programs that fail."""
    for seed in seeds:
        program = random_program(seed)
        reason = failure_of(program, counts)
        if reason is not None:
            least = smaller(program, lambda tried: failure_of(tried) is not None)
            yield f"program {seed}: {failure_of(least)}\n{least.source}{_inputs(least)}"


def _inputs(program: Program) -> str:
    found = []
    for given in program.inputs:
        shapes = [(v.dtype, tuple(v.shape), v.stride()) if isinstance(v, torch.Tensor) else v for v in given]
        found.append(f"    # {shapes}")
    return "\n".join(found)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: collections.Counter[str] = collections.Counter()
    for text in failures(range(*map(int, sys.argv[1:])), found):
        print(text, flush=True)
    for line, times in found.most_common():
        print(times, line)
