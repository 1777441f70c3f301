"""Run the conformance cases, print the rate of every topic, and fail where one that needs no class is below 97 %.

python .ci/conformance.py ../shared/conformance/run.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

REQUIRED = 0.97
NEED_CLASSES = {
    "asynchronous", "classes", "containers", "enums_dataclasses", "hooks", "ignore_export", "interfaces", "modules",
}  # fmt: skip
"""Topics about script classes, nn.Module and what hangs on them: reported, not yet required."""
NEVER = {"crash", "hang", "import"}
"""Phases in which no case may fail, whatever its topic."""


def judge(report: dict) -> list[str]:
    """What is not good enough in a report of the conformance run, one sentence each."""
    faults = []
    for topic, score in report["topics"].items():
        rate = score["passed"] / score["total"]
        if topic not in NEED_CLASSES and rate < REQUIRED:
            faults.append(f"{topic}: {rate:.1%} of the cases pass, {REQUIRED:.0%} are required")
    for case in report["cases"]:
        if case["status"] != "pass" and case["phase"] in NEVER:
            faults.append(f"{case['topic']}.{case['name']}: {case['phase']}")
    return faults


def main(runner: str) -> int:
    """Run, report, judge; gives the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [sys.executable, runner, "--impl", "jitlite", "--jobs", "2", "--json", str(out)]
        status = subprocess.run(command, check=False).returncode
        if not out.exists():
            print(f"the conformance run ended with status {status} and no report")
            return 1
        report = json.loads(out.read_text())
    print("\ntopic                    passed  total   rate")
    for topic, score in report["topics"].items():
        rate, mark = score["passed"] / score["total"], "" if topic not in NEED_CLASSES else "  (needs classes)"
        print(f"{topic:24} {score['passed']:6} {score['total']:6} {rate:6.1%}{mark}")
    faults = judge(report)
    print(*(f"NOT GOOD ENOUGH {fault}" for fault in faults), sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
