"""The sample goes through every stage and tier: does jitlite work here? What is machine code used for? `jitlite doctor`
asks a new process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitlite.api.script import script
from jitlite.base import plugins
from jitlite.cli import sample
from jitlite.cli.terminal import error_text
from jitlite.debug.equality import difference
from jitlite.engines.shipped import engine_names
from jitlite.executor.entries import machine_code_report
from jitlite.ir.ops import load_plugins
from jitlite.ir.parser import parse
from jitlite.ir.verify import verify
from jitlite.kernels import torch_abi
from jitlite.objects.function import ScriptFunction
from jitlite.passes import registry


def report() -> dict[str, dict[str, str]]:
    """What the doctor wants to know: checks, and what machine code is used for."""
    return {"checks": checks(), "native": machine_code_report()}


def plugin_list() -> list[dict[str, str]]:
    """What installed packages add, and why some of it cannot be used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reasons are among what is given
        registry.names()
        load_plugins()
        engine_names()
        found = [plugin for group in plugins.GROUPS for plugin in plugins.loaded(group)]
    return [{name: str(getattr(plugin, name)) for name in plugin.field_names if name != "found"} for plugin in found]


def checks() -> dict[str, str]:
    """Send the sample through every stage and tier: check -> what went wrong, empty if nothing."""
    compiled: list[ScriptFunction] = []
    asked: dict[str, Callable[[], str | None]] = {
        "compile": lambda: compiled.append(script(sample.collapse)),
        "stages": lambda: _empty_stage(compiled[0]),
        "verify": lambda: verify(compiled[0].graph),
        "text": lambda: _round_trip(compiled[0]),
        "passes": lambda: _every_pass(compiled[0]),
        "run": lambda: difference(sample.collapse(*sample.arguments()), compiled[0](*sample.arguments())),
    }
    return {name: _fault(check) for name, check in asked.items()}


def tensor_parts() -> list[tuple[str, bool, str]]:
    """What machine code for tensors leans on: each part, whether it is as it should be, and why not."""
    return torch_abi.status()


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
    for name in registry.own_names():
        registry.run(function.graph.copy(), name, registry.PassHook(verify=True))
