"""The command `list`: what there is in a file, a module or an archive that other commands can be about."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Iterator
from types import ModuleType

import torch

from jitlite.base.shown_paths import shown_location
from jitlite.cli.archives import harmless
from jitlite.cli.commands import argument, command
from jitlite.cli.programs import ALLOW, HELP, OF_MODULES, WHAT, is_graph_text, load_archive, method_names, names_archive
from jitlite.cli.programs import program_of as chosen_program
from jitlite.cli.targets import load_module, programs_in
from jitlite.cli.terminal import paint
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import ScriptModule

Row = tuple[str, str, str, str]
"""What other commands call it, its kind, what it takes or is, and where it stands."""


@command(
    "list",
    "list what is in a file, a module or an archive that other commands can be about",
    argument("target", metavar=f"FILE.py|{WHAT}", help=f"a Python file; or {HELP}"),
    *OF_MODULES,
    ALLOW,
    paged=True,
)
def list_(options: argparse.Namespace) -> int:
    """Print a line for each function, method and module."""
    rows = list(_rows(options))
    if options.json:
        keys = ("program", "kind", "about", "place")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1))
        return 0
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for program, kind, about, place in rows:
        shown = f"{paint(program.ljust(widths[0]), 'bold')}  {kind.ljust(widths[1])}  {about.ljust(widths[2])}  {place}"
        print(harmless(shown.rstrip()))
    return 0


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    target: str = options.target
    if target.endswith(".py"):
        yield from _of_file(target, load_module(target))
        return
    if names_archive(target) and not options.method:
        yield from _of_module(target, load_archive(target, options.allow, None, run_code=False))
        return
    program = chosen_program(options, run_code=False)
    whole = program.whole
    if isinstance(whole, ScriptModule) and not options.method and target.rpartition(".")[2] not in method_names(whole):
        yield from _of_module(target, whole)
        return
    kind = "graph" if is_graph_text(target) else "method" if isinstance(whole, ScriptModule) else "function"
    name = target if not options.method else f"{target} --method {options.method}"
    yield name, kind, str(program.function.schema), _place(program.function)


def _of_file(target: str, module: ModuleType) -> Iterator[Row]:
    for name in programs_in(module):
        found = getattr(module, name)
        program = f"{target}:{name}"
        if isinstance(found, ScriptFunction):
            yield program, "script", str(found.schema), _place(found)
        elif isinstance(found, torch.nn.Module):
            yield program, "module", type(found).__name__, _line_of(type(found))
        else:
            kind = "class" if isinstance(found, type) else "function"
            yield program, kind, _signature(found), _line_of(found)


def _of_module(target: str, module: ScriptModule) -> Iterator[Row]:
    """The methods that are compiled, and the submodules, of which a Python file's can be named."""
    is_file = ":" in target and not names_archive(target)
    for name in method_names(module):
        method = getattr(module, name)
        spelled = f"{target}.{name}" if is_file else f"{target}:{name}"
        yield spelled, "method", str(method.schema), _place(method)
    for name, part in module.named_children():
        yield f"{target}.{name}" if is_file else name, "module", getattr(part, "original_name", type(part).__name__), ""


def _place(function: ScriptFunction) -> str:
    definition = function._origin.definition
    return "" if definition is None else shown_location(definition.tree.range).rpartition(":")[0]


def _signature(found: object) -> str:
    try:
        return str(inspect.signature(found)) if callable(found) else ""
    except (TypeError, ValueError):
        return ""


def _line_of(found: object) -> str:
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(found) if callable(found) else type(found))
    except (OSError, TypeError):
        return ""
    return (
        f"line {first + next((at for at, line in enumerate(lines) if line.lstrip().startswith(('def ', 'class '))), 0)}"
    )
