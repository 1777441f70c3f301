"""Run the conformance cases, print the rate of every topic, and fail where it is too low.

    python .ci/conformance.py ../shared/conformance/run.py

All cases together have to reach 98 %. A topic has to reach 95 %, not counting the cases that expect a value of
torch.jit's which jitlite changes on purpose (docs/differences.md); they have a column of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

REQUIRED, REQUIRED_OF_ALL = 0.95, 0.98

BY_DESIGN = {
    "annotations.bare_list_annotation": "the body tells the type of a result whose annotation leaves it open",
    "control_flow.power_assignment_of_an_int_is_float": "an int stays an int where a float is expected",
    "floats.an_int_argument_is_stored_as_float": "an int stays an int where a float is expected",
    "floats.builtin_pow_of_ints_is_float": "an int stays an int where a float is expected",
    "edges.int_of_a_huge_float": "ints have no largest value",
    "edges.negation_of_the_smallest_int_wraps": "ints have no largest value",
    "ints.overflow_of_add_wraps": "ints have no largest value",
    "ints.overflow_of_mul_wraps": "ints have no largest value",
    "modules.OptionalAttributeIsNotRefined": "attributes that were tested for None are refined",
}
"""Cases whose expected value, or refusal, is torch.jit's alone, and what jitlite has decided."""

NEVER = {"crash", "hang", "import"}
"""Phases in which no case may fail, whatever its topic."""


def verdict(case: dict[str, Any]) -> str:
    """`pass`, `fail` or `design` (decided otherwise)."""
    if case["status"] == "pass":
        return "pass"
    name = f"{case['topic']}.{case['name']}"
    return "design" if name in BY_DESIGN and case["phase"] in ("value", "accepted") else "fail"


def judge(cases: list[dict[str, Any]]) -> list[str]:
    """Print the table; give what is not good enough, one sentence each."""
    counts: dict[str, Counter[str]] = {}
    faults = []
    for case in cases:
        counts.setdefault(case["topic"], Counter())[verdict(case)] += 1
        if case["status"] != "pass" and case["phase"] in NEVER:
            faults.append(f"{case['topic']}.{case['name']}: {case['phase']}")
    print(f"\n{'topic':20} {'passed':>7} {'failed':>7} {'design':>7} {'rate':>8}")
    for topic, count in counts.items():
        rate = count["pass"] / max(1, count["pass"] + count["fail"])
        print(f"{topic:20} " + " ".join(f"{count[k]:7}" for k in ("pass", "fail", "design")) + f" {rate:8.1%}")
        if rate < REQUIRED:
            faults.append(f"{topic}: {rate:.1%} of the cases pass, {REQUIRED:.0%} are required")
    passed = sum(count["pass"] for count in counts.values())
    print(f"{'all':20} {passed:7} of {len(cases)}: {passed / len(cases):.1%}")
    if passed < REQUIRED_OF_ALL * len(cases):
        faults.append(f"{passed / len(cases):.1%} of all cases pass, {REQUIRED_OF_ALL:.0%} are required")
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
