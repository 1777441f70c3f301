"""Commands that look at a function, or run it."""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.targets import arguments_of, scripted
from jitlite.cli.terminal import diff, heading, paint
from jitlite.debug.equality import difference
from jitlite.executor.kernels import Kernels
from jitlite.ir.analysis import to_dot
from jitlite.objects.function import ScriptFunction

STAGES = ("tree", "emitted", "exits", "ssa", "loops", "graph", "opt", "code", "python", "all")
_STAGE_KEYS = {"opt": "optimized", "code": "bytecode"}
"""Stages whose name on the command line is shorter than in `ScriptFunction.stages`."""

KERNEL_STAGES = {"regions": "graph", "kernels": "loops", "llvm": "llvm", "asm": "asm"}
"""Stages of tensor regions, and what of `ScriptFunction.kernels` or of its elements each of them is."""

_TEXT_STAGES = ("tree", "bytecode", "python")
"""Stages that are no graphs, so that a diff with their neighbours would say nothing."""


def show_function(options: argparse.Namespace) -> int:
    if options.dot and (options.stage not in ("graph", "opt") or options.diff or options.json):
        raise UsageError("--dot prints --stage graph or opt, without --diff and --json")
    if options.example and options.stage not in KERNEL_STAGES:
        raise UsageError(f"--example is for --stage {', '.join(KERNEL_STAGES)}")
    _, function = scripted(options.target)
    if options.stage in KERNEL_STAGES and not options.diff:
        return _show_kernels(options, function)
    if options.dot:
        graph = function.optimized_graph if options.stage == "opt" else function.graph
        print(to_dot(graph))
        return 0
    stages = _wanted_stages(options, dict(function.stages))
    if options.json:
        print(json.dumps({"function": options.target, "stages": stages}, indent=1))
    elif options.diff:
        _show_diffs(stages)
    else:
        _show_stages(stages)
    return 0


def _show_kernels(options: argparse.Namespace, function: ScriptFunction) -> int:
    """The graph with its regions, or what becomes of them in a call with these arguments."""
    if options.stage == "regions":
        texts = [str(function.kernels.graph)]
    else:
        args, keywords = arguments_of(function, options.example)
        try:
            function._bind(args, keywords)
        except RuntimeError as error:
            problem = str(error).splitlines()[0]
            raise UsageError(f"--stage {options.stage} needs --example for each argument: {problem}") from None
        kernels = _compiled_kernels(function, args, keywords)
        if not kernels:
            print(kernels.why, file=sys.stderr)
            return 1
        name = KERNEL_STAGES[options.stage]
        texts = [f"# {kernel.place}, for {kernel.facts}\n{getattr(kernel, name)}" for kernel in kernels]
    if options.json:
        print(json.dumps({"function": options.target, "stages": {options.stage: "\n".join(texts)}}, indent=1))
    else:
        print(*texts, sep="\n")
    return 0


def _compiled_kernels(function: ScriptFunction, args: list[object], keywords: dict[str, object]) -> Kernels:
    try:
        return function.kernels.compile(*args, **keywords)
    except Exception as error:  # the function is called
        raise ProgramError from error


def _wanted_stages(options: argparse.Namespace, stages: dict[str, str]) -> dict[str, str]:
    if options.stage == "all" or options.diff:
        return stages
    wanted = _STAGE_KEYS.get(options.stage, options.stage)
    return {wanted: stages[wanted]}


def _show_stages(stages: Mapping[str, str]) -> None:
    if len(stages) == 1:
        print(*stages.values())
        return
    for name, text in stages.items():
        print(heading(name), text.rstrip(), "", sep="\n")


def _show_diffs(stages: dict[str, str]) -> None:
    """The first graph in full, then what each stage changed."""
    graphs = [(name, text) for name, text in stages.items() if name not in _TEXT_STAGES]
    print(heading(graphs[0][0]), graphs[0][1].rstrip(), sep="\n")
    for (before, old), (after, new) in itertools.pairwise(graphs):
        print(heading(after), diff(old, new, before, after) or "(no change)", sep="\n")


def run_function(options: argparse.Namespace) -> int:
    original, function = scripted(options.target)
    args, keywords = arguments_of(function, options.args)
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


@command(
    "explain",
    "say in sentences what is done to a function, and what is not and why",
    argument("target", metavar="FILE:FN"),
    argument("args", nargs="*", metavar="ARG", help="as for run; with arguments, the function is called once"),
)
def explain_(options: argparse.Namespace) -> int:
    _, function = scripted(options.target)
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


@command("dis", "print the bytecode of a function", argument("target", metavar="FILE:FN"))
def dis(options: argparse.Namespace) -> int:
    _, function = scripted(options.target)
    text = function.stages["bytecode"]
    print(json.dumps({"function": options.target, "bytecode": text}, indent=1) if options.json else text)
    return 0
