"""`jitlite doctor`: what is installed, and does jitlite work with it?

The doctor has to speak where nothing else can be imported, so this module and what it imports need the standard library
alone, and `jitlite/__init__.py` imports nothing else where the doctor is asked
(`base/command_line.py`). torch, and then the rest of jitlite, are imported by processes of their own, which may fail,
crash or hang.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from jitlite.base import torch_internals
from jitlite.cli.terminal import heading, paint

_REQUIRED = ("jitlite", "torch", "networkx")
_OPTIONAL = {
    "llvmlite": "machine code for loops over numbers, for tensors, and for checking the arguments of calls",
    "libcst": "jitlite migrate",
    "numpy": "tensors that share memory with arrays",
    "onnxruntime": "the engine onnxruntime, together with onnx",
    "onnx": "jitlite convert --to onnx, jitlite.to_onnx",
    "iree-base-compiler": "the engine iree, together with iree-base-runtime",
    "iree-base-runtime": "the engine iree, together with iree-base-compiler",
    "hypothesis": "random programs, for those who work on jitlite: make explore",
    "mypy": "types, for those who work on jitlite: make lint",
    "ruff": "style, for those who work on jitlite: make lint",
    "pytest": "tests, for those who work on jitlite: make test",
}
"""Optional packages and what they give."""
_TESTED_PYTHON = ((3, 10), (3, 11), (3, 12), (3, 13))
_LONGEST = 300
"""Seconds that a process may take; importing torch from a cold disk takes one of them tens of seconds."""
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); sys.argv[:] = ['jitlite', {word!r}]; "
_ASK_TORCH = _START.format(word="doctor") + "from jitlite.cli.doctor import print_torch_report as report; report()"
_ASK_JITLITE = (
    _START.format(word="")
    + "from jitlite.cli.self_check import report, tensor_parts as parts, plugin_list as plugins; "
    "print(json.dumps(report()), flush=True); print(json.dumps({'tensor_parts': parts()}), flush=True); "
    "print(json.dumps({'plugins': plugins()}))"
)


@dataclass
class DoctorReport:
    """What the doctor has found.

    Attributes:
        versions: Python's, and those of what jitlite cannot do without.
        optional: those of other packages.
        machine: where it runs.
        internals: the parts of torch that are not documented: how each is found, see `print_torch_report`.
        absent: names that are used in place and that this torch lacks.
        checks: what is wrong with the sample's stages; empty texts where nothing is.
        tensor_parts: what machine code for tensors leans on: each part, whether it is there, and why not.
        native: what machine code is used for: "on", or why it is not.
        plugins: what installed packages add: group, name, value, package, and the reason where it cannot be used.
        error: why torch or jitlite cannot be imported.
    """

    versions: dict[str, str | None]
    optional: dict[str, str | None]
    machine: dict[str, Any]
    internals: dict[str, dict[str, str]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    checks: dict[str, str] = field(default_factory=dict)
    tensor_parts: list[tuple[str, bool, str]] = field(default_factory=list)
    native: dict[str, str] = field(default_factory=dict)
    plugins: list[dict[str, str]] = field(default_factory=list)
    error: str = ""

    @property
    def parts_off(self) -> dict[str, str]:
        """What works less well, or not at all, and why."""
        off: dict[str, list[str]] = {}
        for found in self.internals.values():
            if found["reason"]:
                off.setdefault(found["lost"], []).append(found["reason"])
        if self.absent:
            off["what leans on names that this torch lacks"] = self.absent
        return {lost: "; ".join(reasons) for lost, reasons in off.items()}

    @property
    def untested(self) -> list[str]:
        """What jitlite has not been tried with."""
        found = []
        python, torch = _numbers(self.versions["python"]), _numbers(self.versions["torch"])
        if python not in _TESTED_PYTHON:
            found.append(f"Python {self.versions['python']}")
        if torch < torch_internals.OLDEST:
            oldest = ".".join(map(str, torch_internals.OLDEST))
            found.append(f"torch {self.versions['torch']}, older than {oldest}, the oldest version supported")
        elif torch not in torch_internals.TESTED:
            found.append(f"torch {self.versions['torch']}")
        return found

    @property
    def verdict(self) -> str:
        """In two words: works, untested, part off, or does not work."""
        if self.error or any(self.checks.values()):
            return "does not work"
        return "part off" if self.parts_off else "untested" if self.untested else "works"


def run(as_json: bool = False) -> int:
    """Print versions, parts of torch and a self-check; returns 1 where jitlite does not work."""
    report = examine()
    if as_json:
        judged = {"verdict": report.verdict, "untested": report.untested, "parts_off": report.parts_off}
        print(json.dumps(judged | vars(report), indent=1))
    else:
        _show(report)
    return int(report.verdict == "does not work")


def examine() -> DoctorReport:
    """Look at the installation; nothing that fails in it makes this fail."""
    versions = {"python": platform.python_version(), **{name: _version(name) for name in _REQUIRED}}
    report = DoctorReport(versions, {name: _version(name) for name in _OPTIONAL}, {"platform": platform.platform()})
    if versions["torch"] is None:
        report.error = "torch is not installed"
        return report
    answer, fault = _ask(_ASK_TORCH)
    report.versions |= answer.get("versions", {})
    report.machine |= answer.get("machine", {})
    report.internals, report.absent = answer.get("internals", {}), answer.get("absent", [])
    if fault:
        report.error = f"torch cannot be used: {fault}"
        return report
    answer, fault = _ask(_ASK_JITLITE)
    report.checks, report.native = answer.get("checks", {}), answer.get("native", {})
    report.tensor_parts, report.plugins = answer.get("tensor_parts", []), answer.get("plugins", [])
    report.error = f"jitlite cannot be imported: {fault}" if fault else ""
    return report


def print_torch_report() -> None:
    """Import torch and print what of it jitlite finds, as lines of JSON: what is known before it crashes is out."""
    torch: Any = importlib.import_module("torch")
    _say({"versions": {"torch": torch.__version__}})
    _say({"machine": {"threads": torch.get_num_threads(), "cuda": torch.cuda.is_available()}})
    internals = {}
    for name, declared in torch_internals.INTERNALS.items():
        state = torch_internals.find(declared)
        kind = "found" if state.place else "replaced" if state.usable else "missing"
        internals[name] = {"state": kind, "purpose": declared.purpose, "lost": declared.lost, "reason": state.reason}
    _say({"internals": internals})
    _say({"absent": [name for names in torch_internals.USED_IN_PLACE.values() for name in names if not _exists(name)]})


def _exists(name: str) -> bool:
    try:
        torch_internals.resolve(name)
    except Exception:
        return False
    return True


def _say(part: dict[str, Any]) -> None:
    print(json.dumps(part), flush=True)


def _ask(code: str) -> tuple[dict[str, Any], str]:
    """Run code in a process of its own: the JSON that it printed, and what went wrong."""
    command = [sys.executable, "-c", code, json.dumps(sys.path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, str(error)
    answer: dict[str, object] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            answer |= json.loads(line)
    return answer, _fault(done.returncode, done.stderr)


def _fault(status: int, errors: str) -> str:
    if status == 0:
        return ""
    if status < 0:
        return f"the process was ended by {signal.Signals(-status).name}"
    lines = [line for line in errors.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return lines[-1] if lines else f"exit status {status}: {errors.strip()[-200:]}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "found, without version" if _is_there(name) else None


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _numbers(version: str | None) -> tuple[int, ...]:
    """Major and minor number. What comes before a release has no such version."""
    found = re.match(r"(\d+)\.(\d+)(?:\.\d+)*(?=$|\+)", version or "")
    return (int(found[1]), int(found[2])) if found else (sys.maxsize,)


# -- text


def _show(report: DoctorReport) -> None:
    _show_verdict(report)
    _table("versions", {**report.versions, **report.machine})
    print(heading("optional packages"))
    for name, what in _OPTIONAL.items():
        print(f"{name:18} {(report.optional[name] or 'not installed'):16} {what}")
    if report.internals:
        _show_internals(report.internals)
    if report.checks:
        print(heading("self-check"))
    for name, fault in report.checks.items():
        print(f"{name:12} {paint(fault, 'red') if fault else paint('ok', 'green')}")
    if report.tensor_parts:
        print(heading("machine code for tensors"))
    for name, is_there, why in report.tensor_parts:
        state, color = ("found", "green") if is_there else ("off", "yellow")
        print(f"{paint(state.ljust(12), color)} {name}{why and ': '}{why}")
    if report.native:
        _table("machine code for loops and for calls", {**report.native})
    if report.plugins:
        print(heading("plugins"))
    for plugin in report.plugins:
        state = paint("left out".ljust(12), "red") if plugin["reason"] else paint("found".ljust(12), "green")
        named = f"{plugin['group']}: {plugin['name']} = {plugin['value']} of {plugin['package']}"
        print(f"{state} {named}{plugin['reason'] and ': '}{plugin['reason']}")


def _show_verdict(report: DoctorReport) -> None:
    """The verdict in the first line, then what is off and what that costs: details come after it."""
    color = {"works": "green", "does not work": "red"}.get(report.verdict, "yellow")
    names = (("jitlite", "jitlite"), ("torch", "torch"), ("python", "Python"))
    installed = ", ".join(f"{shown} {report.versions.get(name) or 'not installed'}" for name, shown in names)
    print(f"{paint(report.verdict, color)}: {installed}")
    if report.error:
        print(report.error)
    for stage, fault in report.checks.items():
        if fault:
            print(f"fails: {stage}\n     ({fault})")
    for what in report.untested:
        print(f"untested: {what}")
    for lost, reason in report.parts_off.items():
        print(f"off: {lost}\n     ({reason})")


def _show_internals(internals: dict[str, dict[str, str]]) -> None:
    print(heading("parts of torch that it does not document, by what they are used for"))
    by_purpose: dict[tuple[str, str], list[str]] = {}
    for name, found in internals.items():
        by_purpose.setdefault((found["state"], found["purpose"]), []).append(name)
    for (state, purpose), names in by_purpose.items():
        color = {"found": "green", "replaced": "yellow", "missing": "red"}[state]
        print(f"{paint(state.ljust(12), color)} {purpose} ({', '.join(names)})")


def _table(title: str, rows: dict[str, object]) -> None:
    print(heading(title))
    for name, value in rows.items():
        print(f"{name:12} {paint('not installed', 'red') if value is None else value}")
