"""OpInfo samples of operators that have a kernel, each in a small region, as kernels and in eager Python.

    python tests/oracle/kernel_samples.py [--op NAME] [--samples N]

prints what differs, and how often a kernel ran.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))

from kernel_law import SUMS, difference

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels.table import RULES

if __package__:
    from . import opinfo
else:
    import opinfo


UNWRITTEN = ("empty", "empty_like", "new_empty")
"""Operators whose results have elements that nobody has written, but in a mode that fills them."""


def operators() -> list[Any]:
    """Those whose samples say something."""
    return [op for op in opinfo.op_db if op.name not in UNWRITTEN]


@dataclass
class Row:
    """What came of the samples of an operator.

    Attributes:
        runs: how often a kernel ran.
        recorded: in how many calls kernels recorded a gradient.
        failures: what differs from eager.
    """

    runs: int = 0
    recorded: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Row) -> None:
        self.runs += other.runs
        self.recorded += other.recorded
        self.failures += other.failures


def calls(op: Any, dtype: torch.dtype, most: int) -> Iterator[tuple[opinfo.Call, Any]]:
    """Calls of an operator beside another one, so that there is a region, with the function of each."""
    for call in opinfo.calls(op, dtype, most):
        if call.variant == "function" and call.values and isinstance(call.values[0], torch.Tensor):
            names = ", ".join(call.parameters)
            source = f"def call({names}):\n    same = i0 == i0\n    return {call.text}, same\n"
            yield call, opinfo.python_function(source)


def sweep(op: Any, samples: int, dtype: torch.dtype = torch.float32) -> Row:
    """Run the samples of an operator, with and without gradients."""
    row = Row()
    scripts: dict[str, Any] = {}
    for call, python in calls(op, dtype, samples):
        key = f"{call.parameters}{call.text}"
        if key not in scripts:
            scripts[key] = scripted(python)
        if scripts[key] is not None:
            compare(row, call, python, scripts[key])
    for script in filter(None, scripts.values()):
        for _, state in tensor_regions(script.executor):
            row.runs += state.runs
            row.recorded += len(state.recordings or ())
    return row


def scripted(python: Any) -> Any:
    """The compiled function, None where it has no operator with a rule, or is refused."""
    try:
        script = jitlite.script(python)
    except jitlite.CompileError:
        return None
    kinds = {node.kind for node in script.executor.optimized_graph.all_nodes()}
    return script if len(kinds & RULES.keys()) > 1 else None


def compare(row: Row, call: opinfo.Call, python: Any, script: Any) -> None:
    plain = replace(call, with_grad=False)
    for each in (plain, call) if call.with_grad else (plain,):
        with torch.set_grad_enabled(each.with_grad):
            expected, found = opinfo.run(python, each), opinfo.run(script, each)
        if isinstance(expected, TypeError):
            wrong = None  # of eager's parser of arguments; scripts choose among the overloads
        elif isinstance(expected, Exception):
            wrong = None if isinstance(found, Exception) else "it should raise"
        else:
            expected, found = opinfo.plain(opinfo.typed_as(found, expected)), opinfo.plain(found)
            wrong = near(expected, found) if each.with_grad else difference(expected, found, SUMS)
        if wrong is not None:
            shapes = [tuple(v.shape) for v in call.values if isinstance(v, torch.Tensor)]
            row.failures.append(f"{call.text} of {shapes}, gradients {each.with_grad}: {wrong}")


def near(expected: Any, found: Any) -> str | None:
    """None where results and gradients are equal up to rounding, of which sums of much larger numbers leave some."""
    try:
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True)
    except (AssertionError, TypeError) as error:
        return " ".join(str(error).split())
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="", help="only operators with this in their name")
    parser.add_argument("--samples", type=int, default=5, help="samples of each operator (%(default)s)")
    asked = parser.parse_args()
    total = Row()
    warnings.simplefilter("ignore")
    with options.override(native="now", verify=True), opinfo.reproducible():
        for op in operators():
            if asked.op in opinfo.full_name(op):
                row = sweep(op, asked.samples)
                total.add(row)
                for failure in row.failures:
                    print(f"{opinfo.full_name(op)}: {failure[:400]}", flush=True)
    print(f"{total.runs} runs, {total.recorded} recordings, {len(total.failures)} differences")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
