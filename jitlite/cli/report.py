"""The command `report`: every stage of a function on one page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jitlite.base import options as switches
from jitlite.base.source import CompileError, did_you_mean
from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.inputs import check_can_be_written, read_arguments
from jitlite.cli.programs import ALLOW, EXAMPLES, OF_MODULES, WHAT, names_archive, program_of
from jitlite.cli.targets import arguments_of, check_call, run_program
from jitlite.cli.terminal import working
from jitlite.objects.function import ScriptFunction
from jitlite.objects.run_report import INDEX, report_run
from jitlite.objects.two_settings import page_of_two


@command(
    "report",
    "write a page that shows every stage of a function, offline, for a browser",
    argument("target", metavar=WHAT,
             help="a function, a module or its class in a Python file, an archive, or a file with graph text; without "
                  "arguments, nothing of an archive is run"),
    EXAMPLES,
    argument("--example", action="append", default=[], metavar="ARG",
             help="the same as ARG, once for each; the function is called with them once"),
    *OF_MODULES,
    ALLOW,
    argument("--all", action="store_true",
             help="write a folder: a page for each function that is compiled, and an index of them; FILE.py without a "
                  "name is run as a program, with each ARG"),
    argument("--compare", action="append", default=[], metavar="SWITCH=VALUE,...",
             help="show what two sets of switches make of it side by side: these, and those of a second --compare, or "
                  "the switches as they are; jitlite options lists them"),
    argument("-o", "--output", metavar="FILE", help="the page (default: report.html), with --all the folder (report)"),
)  # fmt: skip
def report(options: argparse.Namespace) -> int:
    """Write the page."""
    options.example = [*options.args, *options.example]
    options.compare = _settings(options.compare)
    if options.all:
        if options.compare:
            raise UsageError("--compare is for one function, and --all for a whole run")
        return _report_all(options, Path(options.output or "report"))
    output = Path(options.output or "report.html")
    check_can_be_written(output)
    function = program_of(options, run_code=bool(options.example)).function
    with working(f"writing {output}"):
        page = _report_of(function, options)
    page.save(output)
    size = output.stat().st_size
    if options.json:
        print(json.dumps({"report": str(output), "bytes": size, "stages": page.stage_names}, indent=1))
    else:
        print(f"{output}: {len(page.stage_names)} stages, {size / 1000:.0f} kB")
    return 0


def _report_all(options: argparse.Namespace, folder: Path) -> int:
    """Write a folder about all that is compiled.

    Raises:
        UsageError: there is a file of that name.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"cannot write the folder {folder}: it is a file; name another one with -o")
    failed: BaseException | None = None
    try:
        with report_run(folder, " ".join([options.target, *options.example])):
            _run_all(options)
    except (UsageError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        failed = error
    if (folder / INDEX).is_file():
        pages = len(list(folder.glob("*.html"))) - 1
        about = json.dumps({"report": str(folder / INDEX), "pages": pages}, indent=1)
        print(about if options.json else f"{folder / INDEX}: {pages} pages")
    if isinstance(failed, CompileError | ProgramError):
        raise failed
    if failed is not None and not (isinstance(failed, SystemExit) and not failed.code):
        raise ProgramError from failed
    return 0


def _run_all(options: argparse.Namespace) -> None:
    """Run a program, or compile a function or module and call it where there are arguments."""
    path = Path(options.target)
    if path.suffix == ".py" and path.is_file():
        run_program(path, options.example)
        return
    function = program_of(options, run_code=bool(options.example)).function
    args, keywords = call_arguments(options.target, function, options.example)
    if args or keywords:
        function(*args, **keywords)


def _report_of(function: ScriptFunction, options: argparse.Namespace) -> Any:
    args, keywords = call_arguments(options.target, function, options.example)
    if args or keywords:
        check_call(function, args, keywords, "an ARG is needed for each argument: ")
    try:
        if options.compare:
            return page_of_two(function, options.compare, args, keywords)
        return function.report(*args, **keywords)
    except CompileError:
        raise
    except Exception as error:  # the function is called
        raise ProgramError from error


def _settings(words: Sequence[str]) -> tuple[dict[str, object], dict[str, object]] | None:
    """The two sets of switches that are compared, None where none are.

    Raises:
        UsageError: there are more of them, or a switch or its value is not known.
    """
    if not words:
        return None
    if len(words) > 2:
        raise UsageError("--compare is given once, to compare with the switches as they are, or twice")
    found = [_switches(word) for word in words]
    return ({}, found[0]) if len(found) == 1 else (found[0], found[1])


def _switches(words: str) -> dict[str, object]:
    variables = {name: variable for name, variable, _ in switches.describe()}
    found: dict[str, object] = {}
    for word in words.split(","):
        name, equals, value = word.strip().partition("=")
        if name not in variables:
            hint = did_you_mean(name, variables) or "jitlite options lists them"
            raise UsageError(f"--compare {word}: there is no switch {name!r}; {hint}")
        if not equals:
            raise UsageError(f"--compare {word}: write {name}=VALUE")
        try:
            found[name] = getattr(switches.Options.from_environment({variables[name]: value}), name)
        except ValueError as error:
            raise UsageError(f"--compare {word}: {str(error).rpartition(': ')[2]}") from None
    return found


def call_arguments(target: str, function: ScriptFunction, words: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that words stand for, of a function in a file or of a method in an archive."""
    return read_arguments(words) if names_archive(target) else arguments_of(function, words)
