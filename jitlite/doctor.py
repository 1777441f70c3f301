"""`jitlite doctor`: what is installed, and does jitlite work here?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
from collections.abc import Callable
from typing import Any

import torch

from jitlite import sample
from jitlite.api import script
from jitlite.equality import difference
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify
from jitlite.passes import registry
from jitlite.script_function import ScriptFunction
from jitlite.terminal import error_text, heading, paint

_REQUIRED = ("jitlite", "torch", "networkx")
_OPTIONAL = {
    "llvmlite": "machine code for loops over numbers",
    "libcst": "jitlite migrate",
    "numpy": "tensors that share memory with arrays",
    "hypothesis": "random programs: make explore",
    "mypy": "make lint",
    "ruff": "make lint",
    "pytest": "make test",
}
"""Optional packages and what they give."""


def run(as_json: bool = False) -> int:
    """Print versions, optional parts and a self-check; returns 1 if a check fails."""
    versions = {"python": platform.python_version(), **{name: _version(name) for name in _REQUIRED}}
    optional = {name: _version(name) for name in _OPTIONAL}
    machine = {"platform": platform.platform(), "threads": torch.get_num_threads(), "cuda": torch.cuda.is_available()}
    checks = _self_check()
    failed = any(checks.values())
    if as_json:
        print(json.dumps({"versions": versions, "optional": optional, "machine": machine, "checks": checks}, indent=1))
        return 1 if failed else 0
    print(heading("versions"))
    for name, version in versions.items():
        print(f"{name:12} {version or paint('not installed', 'red')}")
    for key, value in machine.items():
        print(f"{key:12} {value}")
    print(heading("optional"))
    for name, what in _OPTIONAL.items():
        print(f"{name:12} {(optional[name] or 'not installed'):16} {what}")
    print(heading("self-check"))
    for name, fault in checks.items():
        print(f"{name:12} {paint(fault, 'red') if fault else paint('ok', 'green')}")
    return 1 if failed else 0


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "found, without version" if importlib.util.find_spec(name) else None


def _self_check() -> dict[str, str]:
    """Send the sample through every stage and tier: check -> what went wrong, empty if nothing."""
    compiled: list[ScriptFunction] = []
    checks: dict[str, Callable[[], str | None]] = {
        "compile": lambda: compiled.append(script(sample.collapse)),
        "stages": lambda: _empty_stage(compiled[0]),
        "verify": lambda: verify(compiled[0].graph),
        "text": lambda: _round_trip(compiled[0]),
        "passes": lambda: _every_pass(compiled[0]),
        "run": lambda: difference(sample.collapse(*sample.arguments()), compiled[0](*sample.arguments())),
    }
    return {name: _fault(check) for name, check in checks.items()}


def _fault(check: Callable[[], Any]) -> str:
    try:
        return check() or ""
    except Exception as error:
        return error_text(error)


def _empty_stage(function: ScriptFunction) -> str | None:
    empty = [name for name, text in function.stages.items() if not text.strip()]
    return f"empty: {', '.join(empty)}" if empty else None


def _round_trip(function: ScriptFunction) -> str | None:
    text = function.graph.to_text(ranges=False)
    return None if parse(text).to_text(ranges=False) == text else "the text of the graph does not read back"


def _every_pass(function: ScriptFunction) -> None:
    for name in registry.names():
        registry.run(function.graph.copy(), name, registry.PassHook(verify=True))
