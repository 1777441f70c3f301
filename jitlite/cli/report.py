"""The command `report`: every stage of a function on one page."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import jitlite
from jitlite.base.source import CompileError
from jitlite.cli.archives import is_archive
from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.inputs import read_arguments
from jitlite.cli.run import load_archive, method_names
from jitlite.cli.targets import arguments_of, graph_of, load_function, value_of
from jitlite.objects.function import ScriptFunction, function_of_graph


@command(
    "report",
    "write a page that shows every stage of a function, offline, for a browser",
    argument("target", metavar="FILE:FN|FILE:MODULE|MODEL.pt|GRAPH.txt",
             help="a function, a module or its class in a Python file, an archive, or a file with graph text; without "
                  "--example, nothing of an archive is run"),
    argument("--example", action="append", default=[], metavar="ARG",
             help="an argument of a call, as for run, once for each; the function is called with them once"),
    argument("--init", action="append", default=[], metavar="ARG", help="of a class: an argument to make an object"),
    argument("--method", metavar="NAME", default="forward", help="of a module: which one (default: forward)"),
    argument("--allow", action="append", default=[], metavar="NAME", help="of an archive: an operator to allow"),
    argument("-o", "--output", metavar="FILE", default="report.html", help="the page (default: report.html)"),
)  # fmt: skip
def report(options: argparse.Namespace) -> int:
    """Write the page."""
    output = Path(options.output)
    if output.is_dir() or not output.parent.is_dir():
        raise UsageError(f"cannot write {output}: {'it is' if output.is_dir() else 'there is no such'} folder")
    function = function_of(options, is_called=bool(options.example))
    page = _report_of(function, options)
    page.save(output)
    size = output.stat().st_size
    if options.json:
        print(json.dumps({"report": str(output), "bytes": size, "stages": page.stage_names}, indent=1))
    else:
        print(f"{output}: {len(page.stage_names)} stages, {size / 1000:.0f} kB")
    return 0


def _report_of(function: ScriptFunction, options: argparse.Namespace) -> Any:
    args, keywords = call_arguments(options.target, function, options.example)
    if args or keywords:
        try:
            function._bind(args, keywords)
        except RuntimeError as error:
            raise UsageError(f"--example is needed for each argument: {str(error).splitlines()[0]}") from None
    try:
        return function.report(*args, **keywords)
    except CompileError:
        raise
    except Exception as error:  # the function is called
        raise ProgramError from error


def call_arguments(target: str, function: ScriptFunction, words: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that words stand for, of a function in a file or of a method in an archive."""
    return read_arguments(words) if is_archive(target) else arguments_of(function, words)


def function_of(options: argparse.Namespace, is_called: bool) -> ScriptFunction:
    """The function that `target` names, with the options `init`, `method` and `allow`.

    Args:
        is_called: is it to be called? Else nothing of an archive is run.

    Raises:
        UsageError: it names none.
        ProgramError: the user's file, or the class of a module, raises.
    """
    target: str = options.target
    if _is_graph_text(target):
        return function_of_graph(Path(target).stem if target != "-" else "graph", graph_of(target))
    if is_archive(target):
        return _method(load_archive(target, options.allow, None, run_code=is_called), options)
    found = load_function(target)
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        found = _made(found, list(map(value_of, options.init)))
    elif options.init:
        raise UsageError(f"--init is for classes of modules, and '{target}' is none")
    if isinstance(found, torch.nn.Module):
        return _method(jitlite.script(found), options)
    if isinstance(found, ScriptFunction):
        return found
    if not callable(found):
        raise UsageError(f"'{target}' is no function and no module: its type is {type(found).__name__}")
    made: ScriptFunction = jitlite.script(found)
    return made


def _is_graph_text(target: str) -> bool:
    """Is it a file that begins as the text of a graph does? Archives begin as zip files do."""
    if target == "-":
        return True
    path = Path(target)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"graph(")


def _made(cls: type[torch.nn.Module], args: list[Any]) -> torch.nn.Module:
    try:
        return cls(*args)
    except Exception as error:
        raise ProgramError from error


def _method(module: Any, options: argparse.Namespace) -> ScriptFunction:
    found = getattr(module, options.method, None)
    if not isinstance(found, ScriptFunction):
        there = ", ".join(method_names(module)) or "none"
        raise UsageError(f"the module has no compiled method '{options.method}'; there are: {there}")
    return found
