"""Run the conformance cases, print the rate of every topic, and fail where one falls below 97 %.

    python .ci/conformance.py ../shared/conformance/run.py

Not counted are the cases that were refused because they need a script class or an nn.Module, and those that expect a
value of torch.jit's which jitlite changes on purpose (docs/differences.md). Both are shown in columns of their own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

REQUIRED = 0.97
REFUSED_CLASS = re.compile(
    r"(modules|classes|methods) cannot be scripted yet|is another class, which a script cannot use"
)
"""What the refusal of a class or a module says."""

NEED_CLASSES = {"torch_names.interface_of_torch_jit", "classes.an_object_made_inside_comes_out"}
"""Cases that are refused in other words because the type of an annotation is a class."""

CLASS_TOPICS = {"classes", "containers", "hooks", "interfaces", "modules", "ignore_export", "enums_dataclasses"}
"""Topics about classes and modules: shown, not yet required."""

BY_DESIGN = {
    "control_flow.power_assignment_of_an_int_is_float": "an int stays an int where a float is expected",
    "floats.an_int_argument_is_stored_as_float": "an int stays an int where a float is expected",
    "floats.builtin_pow_of_ints_is_float": "an int stays an int where a float is expected",
    "edges.int_of_a_huge_float": "ints have no largest value",
    "edges.negation_of_the_smallest_int_wraps": "ints have no largest value",
    "ints.overflow_of_add_wraps": "ints have no largest value",
    "ints.overflow_of_mul_wraps": "ints have no largest value",
}
"""Cases whose expected value is torch.jit's alone, and what jitlite has decided."""

NEVER = {"crash", "hang", "import"}
"""Phases in which no case may fail, whatever its topic."""


def verdict(case: dict[str, Any]) -> str:
    """`pass`, `fail`, `class` (not counted: needs one) or `design` (not counted: decided otherwise)."""
    if case["status"] == "pass":
        return "pass"
    name = f"{case['topic']}.{case['name']}"
    if name in BY_DESIGN and case["phase"] == "value":
        return "design"
    return "class" if name in NEED_CLASSES or REFUSED_CLASS.search(case["detail"]) else "fail"


def judge(cases: list[dict[str, Any]]) -> list[str]:
    """Print the table; give what is not good enough, one sentence each."""
    counts: dict[str, Counter[str]] = {}
    faults = []
    for case in cases:
        counts.setdefault(case["topic"], Counter())[verdict(case)] += 1
        if case["status"] != "pass" and case["phase"] in NEVER:
            faults.append(f"{case['topic']}.{case['name']}: {case['phase']}")
    counts["all"] = sum(counts.values(), Counter())
    print(f"\n{'topic':20} {'passed':>7} {'failed':>7} {'class':>7} {'design':>7} {'rate':>8}")
    for topic, count in counts.items():
        rate = count["pass"] / max(1, count["pass"] + count["fail"])
        print(f"{topic:20} " + " ".join(f"{count[k]:7}" for k in ("pass", "fail", "class", "design")) + f" {rate:8.1%}")
        if rate < REQUIRED and topic not in CLASS_TOPICS and topic != "all":
            faults.append(f"{topic}: {rate:.1%} of the cases pass, {REQUIRED:.0%} are required")
    return faults


def main(runner: str) -> int:
    """Run, report, judge; gives the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [sys.executable, runner, "--impl", "jitlite", "--jobs", "2", "--json", str(out)]
        run = subprocess.run(command, check=False, capture_output=True, text=True)
        if not out.exists():
            print(run.stdout[-2000:], run.stderr[-2000:])
            print(f"the conformance run ended with status {run.returncode} and no report")
            return 1
        cases = json.loads(out.read_text())["cases"]
    faults = judge(cases)
    for case in cases:
        if verdict(case) == "fail":
            print(f"failed: {case['topic']}.{case['name']} [{case['phase']}] {' '.join(case['detail'].split())[:200]}")
    print(*(f"NOT GOOD ENOUGH {fault}" for fault in faults), sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
