"""Commands that look at a function, or run it."""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from jitlite.base.errors.catalog import all_kinds, kind_of_code
from jitlite.base.source import did_you_mean
from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.programs import ALLOW, HELP, OF_MODULES, WHAT, program_of
from jitlite.cli.targets import arguments_of, check_call
from jitlite.cli.terminal import colored_graph, diff, heading, paint
from jitlite.debug.equality import difference
from jitlite.executor.kernels import Kernels
from jitlite.executor.stages import ABOUT_STAGES
from jitlite.ir.analysis import to_dot
from jitlite.objects.function import ScriptFunction

STAGES = {name.replace(" ", "-"): about for name, about in ABOUT_STAGES.items()}
"""What each stage is, by its name without blanks. Headings have these names, and `--stage` takes them."""

SHORT_STAGES = {"opt": "optimized", "code": "bytecode"}
"""Other names that `--stage` takes."""

ALL_STAGES = "all"

KERNEL_STAGES = {"regions": "graph", "kernels": "loops", "llvm": "llvm", "asm": "asm"}
"""Stages of tensor regions, and what of `ScriptFunction.kernels` or of its elements each of them is."""

GRADIENT_STAGE = "gradient"
"""The graphs of the gradients, of which a function has those of its groups of operators."""

_PLACE = re.compile(r" +# \S+:\d+:\d+$", re.M)
_TEXT_STAGES = ("tree", "bytecode", "python")
"""Stages that are no graphs, so that a diff with their neighbours would say nothing."""


def show_function(options: argparse.Namespace) -> int:
    if options.dot and (options.stage not in ("graph", "optimized") or options.diff or options.json):
        raise UsageError("--dot prints --stage graph or optimized, without --diff and --json")
    if options.example and options.stage not in KERNEL_STAGES:
        raise UsageError(f"arguments are for --stage {', '.join(KERNEL_STAGES)}")
    if options.full and options.stage != ALL_STAGES:
        raise UsageError("--full goes with --stage all")
    function = program_of(options, run_code=bool(options.example)).function
    if options.stage in KERNEL_STAGES and not options.diff:
        return _show_kernels(options, function)
    if options.stage == GRADIENT_STAGE and not options.diff:
        return _show_text(options, str(function.gradient_graph))
    if options.dot:
        graph = function.optimized_graph if options.stage == "optimized" else function.graph
        print(to_dot(graph))
        return 0
    texts = _wanted_stages(options, stages_of(function))
    if options.json:
        print(json.dumps({"function": options.target, "stages": texts}, indent=1))
    elif options.diff:
        _show_diffs(texts)
    else:
        show_stages(texts if options.full else changing_stages(texts))
    return 0


def stages_of(function: ScriptFunction) -> dict[str, str]:
    """The text of each stage, in order; of what was made from a graph, those from the graph on."""
    try:
        return {name.replace(" ", "-"): text for name, text in function.stages.items()}
    except AttributeError:  # there is no tree
        pass
    optimized = str(function.optimized_graph)
    return {"graph": str(function.graph), "optimized": optimized, "bytecode": function.bytecode,
            "python": function.generated_code}  # fmt: skip


def changing_stages(stages: Mapping[str, str]) -> dict[str, str]:
    """The stages whose text is not that of the graph before, and what to say of the others."""
    found: dict[str, str] = {}
    last = None
    for name, text in stages.items():
        if name in _TEXT_STAGES:
            found[name] = text
        elif without_places(text) != last:
            found[name], last = text, without_places(text)
    return found


def without_places(text: str) -> str:
    return _PLACE.sub("", text)


def _show_kernels(options: argparse.Namespace, function: ScriptFunction) -> int:
    """The graph with its regions, or what becomes of them in a call with these arguments."""
    if options.stage == "regions":
        texts = [str(function.kernels.graph)]
    else:
        args, keywords = arguments_of(function, options.example)
        check_call(function, args, keywords, f"--stage {options.stage} needs an ARG for each argument: ")
        kernels = _compiled_kernels(function, args, keywords)
        if not kernels:
            print(kernels.why, file=sys.stderr)
            return 1
        name = KERNEL_STAGES[options.stage]
        texts = [f"# {kernel.place}, for {kernel.facts}\n{getattr(kernel, name)}" for kernel in kernels]
    return _show_text(options, "\n".join(texts))


def _show_text(options: argparse.Namespace, text: str) -> int:
    """Print one stage."""
    if options.json:
        print(json.dumps({"function": options.target, "stages": {options.stage: text}}, indent=1))
    else:
        print(text)
    return 0


def _compiled_kernels(function: ScriptFunction, args: list[object], keywords: dict[str, object]) -> Kernels:
    try:
        return function.kernels.compile(*args, **keywords)
    except Exception as error:  # the function is called
        raise ProgramError from error


def _wanted_stages(options: argparse.Namespace, stages: dict[str, str]) -> dict[str, str]:
    if options.stage == ALL_STAGES or options.diff:
        return stages
    if options.stage not in stages:
        raise UsageError(f"'{options.target}' has no stage '{options.stage}'; it has: {', '.join(stages)}")
    return {options.stage: stages[options.stage]}


def show_stages(texts: Mapping[str, str]) -> None:
    """Print stages, each under its name and what it is; one by itself."""
    if len(texts) == 1:
        print(*map(colored_graph, texts.values()))
        return
    for name, text in texts.items():
        print(stage_heading(name) + colored_graph(text.rstrip()), "", sep="\n")


def stage_heading(name: str) -> str:
    """The name of a stage, set off, and what it is."""
    return f"{heading(name)}\n{STAGES[name]}\n"


def _show_diffs(stages: dict[str, str]) -> None:
    """The first graph in full, then what each stage changed."""
    graphs = [(name, text) for name, text in stages.items() if name not in _TEXT_STAGES]
    print(heading(graphs[0][0]), graphs[0][1].rstrip(), sep="\n")
    for (before, old), (after, new) in itertools.pairwise(graphs):
        print(heading(after), diff(old, new, before, after) or "(no change)", sep="\n")


def run_function(options: argparse.Namespace) -> int:
    program = program_of(options)
    original, function = program.original, program.function
    args, keywords = arguments_of(function, options.args)
    check_call(function, args, keywords)
    expected = None
    if options.check:
        if original is None:
            raise UsageError(f"--check: '{options.target}' has no Python function to compare with")
        torch.manual_seed(options.seed)
        expected = _outcome(original, *copy.deepcopy((args, keywords)))
    torch.manual_seed(options.seed)
    got = _outcome(function, args, keywords)
    if expected is not None:
        differs = difference(expected, got)
        if differs:
            raise ProgramError from AssertionError(f"eager Python and jitlite differ: {differs}")
    raised = got["raised"]
    if raised is not None:
        raise ProgramError from raised
    if options.json:
        print(json.dumps({"result": repr(got["result"]), "checked": expected is not None}, indent=1))
    else:
        print(repr(got["result"]))
        if expected is not None:
            print(paint("eager Python gives the same", "green"), file=sys.stderr)
    return 0


def _outcome(function: Callable[..., object], args: list[object], keywords: dict[str, object]) -> dict[str, Any]:
    """What a call did: its result or exception, and its arguments afterwards."""
    result, raised = None, None
    try:
        result = function(*args, **keywords)
    except Exception as error:
        raised = error
    return {"result": result, "raised": raised, "arguments": (args, keywords)}


_ERROR_CODE = re.compile(r"[Jj]\d{1,4}")
"""The code of an error, or how some of them begin."""


@command(
    "explain",
    "say in sentences what is done to a function, and what is not and why; or what an error is about",
    argument("target", metavar=f"{WHAT}|CODE", help=f"{HELP}; or the code of an error, such as J0101"),
    argument("args", nargs="*", metavar="ARG", help="as for run; with arguments, the function is called once"),
    *OF_MODULES,
    ALLOW,
    paged=True,
)
def explain_(options: argparse.Namespace) -> int:
    if _ERROR_CODE.fullmatch(options.target):
        return _explain_error(options)
    function = program_of(options).function
    args, keywords = arguments_of(function, options.args)
    try:
        found = function.explain(*args, **keywords)
    except RuntimeError as error:
        raise UsageError(str(error).splitlines()[0]) from None
    if options.json:
        print(json.dumps({"function": options.target, "explanation": found.sections}, indent=1))
    else:
        print(found)
    return 0


def _explain_error(options: argparse.Namespace) -> int:
    kind = kind_of_code(options.target)
    if kind is None:
        return _list_errors(options)
    page = {"code": kind.code, "title": kind.title, "text": kind.text, "wrong": kind.wrong, "right": kind.right}
    print(json.dumps({name: text.strip() for name, text in page.items()}, indent=1) if options.json else kind.page())
    return 0


def _list_errors(options: argparse.Namespace) -> int:
    """Name the errors whose codes begin so.

    Raises:
        UsageError: there is none.
    """
    titles = {kind.code: kind.title for kind in all_kinds()}
    found = {code: title for code, title in titles.items() if code.startswith(options.target.upper())}
    if not found:
        codes = list(titles)
        hint = did_you_mean(options.target.upper(), codes) or f"there are {codes[0]} to {codes[-1]}"
        raise UsageError(f"no error has the code {options.target}; {hint}")
    listed = "\n".join(f"{paint(code, 'bold')}  {title}" for code, title in found.items())
    print(json.dumps(found, indent=1) if options.json else listed)
    return 0


@command(
    "dis", "print the bytecode of a function", argument("target", metavar=WHAT, help=HELP), *OF_MODULES, ALLOW,
    paged=True,
)  # fmt: skip
def dis(options: argparse.Namespace) -> int:
    text = program_of(options).function.bytecode
    print(json.dumps({"function": options.target, "bytecode": text}, indent=1) if options.json else text)
    return 0
