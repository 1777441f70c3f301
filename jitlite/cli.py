"""The command `jitlite`: look at a function at every stage, run it, run passes over it.

    jitlite show FILE:FN [--stage tree|emitted|exits|ssa|loops|graph|opt|code|all] [--diff] [--dot]
    jitlite run FILE:FN ARGS...       jitlite opt FILE|FILE:FN -p "inline,cse"
    jitlite explain FILE:FN ARGS...   jitlite bisect FILE:FN [--input ARGS...]
    jitlite dis FILE:FN               jitlite demo               jitlite doctor

Exit status: 0 all went well; 1 the user's program does not compile, raises or differs from eager; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.util
import itertools
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import jitlite
from jitlite import demo, doctor
from jitlite.bisection import bisect
from jitlite.equality import difference
from jitlite.executor import Executor
from jitlite.explain import explain
from jitlite.ir.analysis import to_dot
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.schema import Argument
from jitlite.ir.verify import VerifyError, verify
from jitlite.literals import parse_value
from jitlite.passes import registry
from jitlite.source import CompileError, did_you_mean
from jitlite.terminal import diff, error_text, heading, paint, table

_STAGES = ("tree", "emitted", "exits", "ssa", "loops", "graph", "opt", "code", "python", "all")
_STAGE_KEYS = {"opt": "optimized", "code": "bytecode"}
"""Stages whose name on the command line is shorter than in `ScriptFunction.stages`."""

_TEXT_STAGES = ("tree", "bytecode", "python")
"""Stages that are no graphs, so that a diff with their neighbours would say nothing."""

_KEYWORD = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)", re.S)


class UsageError(Exception):
    """The command line is wrong: exit status 2."""


class ProgramError(Exception):
    """The user's program failed; the cause is the exception it raised."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        status: int = options.command(options)
        return status
    except UsageError as error:
        print(f"jitlite: {error}", file=sys.stderr)
        return 2
    except CompileError as error:
        return _failed(options, error, str(error))
    except ProgramError as error:
        assert error.__cause__ is not None
        return _failed(options, error.__cause__, error_text(error.__cause__))
    except BrokenPipeError:
        sys.stderr.close()  # the reader (head, less) has gone: nobody is left to tell
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 1


def _failed(options: argparse.Namespace, error: BaseException, text: str) -> int:
    if getattr(options, "json", False):
        place = getattr(error, "range", None)
        about = {"type": type(error).__name__, "message": text, "location": place.location() if place else None}
        print(json.dumps({"error": about}, indent=1))
    else:
        head, _, rest = text.partition("\n")
        print(paint(head, "red", sys.stderr), *([rest] if rest else []), sep="\n", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jitlite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"jitlite {jitlite.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        sub.set_defaults(command=run)
        sub.add_argument("--json", action="store_true", help="print JSON instead of text")
        return sub

    show = command("show", _show, "print a function at the stages of its compilation")
    show.add_argument("target", metavar="FILE:FN", help="a function in a Python file (or MODULE:FN)")
    show.add_argument("--stage", choices=_STAGES, default="graph", help="which stage (default: graph)")
    show.add_argument("--diff", action="store_true", help="show what each stage changed in the one before")
    show.add_argument("--dot", action="store_true", help="print the graph in Graphviz's language")

    run = command("run", _run, "compile a function, call it, and print its result")
    run.add_argument("target", metavar="FILE:FN")
    run.add_argument("args", nargs="*", metavar="ARG", help="a literal, ones(2, 3), tensor([1, 2]), ...; or name=ARG")
    run.add_argument("--check", action="store_true", help="call it in eager Python too; exit 1 if the results differ")
    run.add_argument("--seed", type=int, default=0, help="seed of torch's random numbers (default: 0)")

    opt = command("opt", _opt, "run passes over a graph and print what comes out")
    opt.add_argument("target", metavar="FILE|FILE:FN|-", help="a file with graph text, a function, or - to read stdin")
    opt.add_argument(
        "-p", "--passes", required=True, metavar="NAMES", help=f"joined by commas, of: {', '.join(registry.names())}"
    )
    opt.add_argument("--print-changed", action="store_true", help="print what each pass changed")
    opt.add_argument("--time", action="store_true", help="print how long each pass took, and how many nodes it left")

    explain = command("explain", _explain, "say in sentences what is done to a function, and what is not and why")
    explain.add_argument("target", metavar="FILE:FN")
    explain.add_argument("args", nargs="*", metavar="ARG", help="as for run")

    bisect = command("bisect", _bisect, "find the pass that changes what a call does, and a small graph that shows it")
    bisect.add_argument("target", metavar="FILE:FN|FILE|-", help="a function, a file with graph text, or - for stdin")
    bisect.add_argument("--input", nargs="*", default=[], metavar="ARG", help="the arguments of the call, as for run")
    bisect.add_argument(
        "-p", "--passes", metavar="NAMES", help="the passes to suspect (default: those that always run)"
    )
    bisect.add_argument("--seconds", type=float, default=30.0, help="how long to look for a small graph (default: 30)")

    dis = command("dis", _dis, "print the bytecode of a function")
    dis.add_argument("target", metavar="FILE:FN")

    command("demo", lambda options: demo.run(options.json), "watch a real function go through every stage, and run")
    command("doctor", lambda options: doctor.run(options.json), "print versions and check that jitlite works here")
    return parser


# ------------------------------------------------------------------ finding what the user means


def load_function(target: str) -> Any:
    """The object that `FILE.py:NAME` or `MODULE:NAME` names.

    Raises:
        UsageError: there is no such file, module or name.
        ProgramError: the user's file raises while it is imported.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not name:
        raise UsageError(f"expected FILE:FN, got '{target}' (for example model.py:forward)")
    found: Any = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            public = [n for n, v in vars(found).items() if callable(v) and not n.startswith("__")]
            hint = did_you_mean(part, public) or f"it has: {', '.join(public[:8])}" if public else "it has no functions"
            raise UsageError(f"{place} has no '{part}'; {hint}")
        found = getattr(found, part)
    return found


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_jitlite_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (CompileError, BrokenPipeError):
        raise
    except Exception as error:
        raise ProgramError from error
    return module


def _import_module(name: str) -> ModuleType:
    if not name:
        raise UsageError("expected FILE:FN, got an empty file name")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"'{name}' is neither a .py file nor a module: {error}") from None
    except Exception as error:
        raise ProgramError from error


def _scripted(target: str) -> tuple[Any, jitlite.ScriptFunction]:
    """The Python function that the target names (None if there is only its source), and it compiled."""
    found = load_function(target)
    if isinstance(found, jitlite.ScriptFunction):
        return getattr(found, "__wrapped__", None), found
    if not callable(found):
        raise UsageError(f"'{target}' is not a function: its type is {type(found).__name__}")
    return found, jitlite.script(found)


# ------------------------------------------------------------------ commands


def _show(options: argparse.Namespace) -> int:
    if options.dot and (options.stage not in ("graph", "opt") or options.diff or options.json):
        raise UsageError("--dot prints --stage graph or opt, without --diff and --json")
    _, function = _scripted(options.target)
    if options.dot:
        graph = function.optimized_graph if options.stage == "opt" else function.graph
        print(to_dot(graph))
        return 0
    stages = dict(function.stages)
    if options.stage != "all" and not options.diff:
        wanted = _STAGE_KEYS.get(options.stage, options.stage)
        stages = {wanted: stages[wanted]}
    if options.json:
        print(json.dumps({"function": options.target, "stages": stages}, indent=1))
    elif options.diff:
        _show_diffs(stages)
    elif len(stages) == 1:
        print(*stages.values())
    else:
        for name, text in stages.items():
            print(heading(name), text.rstrip(), "", sep="\n")
    return 0


def _show_diffs(stages: dict[str, str]) -> None:
    """The first graph in full, then what each stage changed."""
    graphs = [(name, text) for name, text in stages.items() if name not in _TEXT_STAGES]
    print(heading(graphs[0][0]), graphs[0][1].rstrip(), sep="\n")
    for (before, old), (after, new) in itertools.pairwise(graphs):
        print(heading(after), diff(old, new, before, after) or "(no change)", sep="\n")


def _run(options: argparse.Namespace) -> int:
    original, function = _scripted(options.target)
    args, keywords = _arguments(function, options.args)
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


def _outcome(function: Callable[..., Any], args: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """What a call did: its result or exception, and its arguments afterwards."""
    result, raised = None, None
    try:
        result = function(*args, **keywords)
    except Exception as error:
        raised = error
    return {"result": result, "raised": raised, "arguments": (args, keywords)}


def _arguments(function: jitlite.ScriptFunction, texts: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Values for the texts on the command line; where a string is wanted, its quotes may be left out."""
    declared = function.schema.arguments
    names = {a.name: a for a in declared}
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    for text in texts:
        match = _KEYWORD.fullmatch(text)
        named = match is not None and match.group(1) in names
        if match is not None and named:
            argument: Argument | None = names[match.group(1)]
            text = match.group(2)
        else:
            argument = declared[len(args)] if len(args) < len(declared) else None
        value: Any = text
        if argument is None or str(argument.type) != "str" or text[:1] in ("'", '"'):
            if match is not None and not named:
                hint = did_you_mean(match.group(1), list(names)) or f"there are: {', '.join(names) or 'none'}"
                raise UsageError(f"no parameter is called '{match.group(1)}'; {hint}")
            try:
                value = parse_value(text)
            except CompileError as error:
                raise UsageError(str(error)) from None
        if match is not None and named:
            keywords[match.group(1)] = value
        else:
            args.append(value)
    return args, keywords


def _opt(options: argparse.Namespace) -> int:
    names = [name.strip() for name in options.passes.split(",") if name.strip()]
    unknown = [name for name in names if name not in registry.names()]
    if unknown:
        hint = did_you_mean(unknown[0], registry.names()) or f"there are: {', '.join(registry.names())}"
        raise UsageError(f"no such pass: '{unknown[0]}'; {hint}")
    graph = _graph(options.target)
    steps = [_opt_step(graph, name, options.print_changed and not options.json) for name in names]
    if options.json:
        print(json.dumps({"graph": str(graph), "passes": steps}, indent=1))
        return 0
    print(graph)
    if options.time and steps:
        rows = [("pass", "changed", "ms", "nodes")]
        rows += [
            (s["pass"], "yes" if s["changed"] else "no", f"{1e3 * s['seconds']:.2f}", _nodes_text(s)) for s in steps
        ]
        print(table(rows), file=sys.stderr)
    return 0


def _opt_step(graph: Graph, name: str, show: bool) -> dict[str, Any]:
    before = str(graph)
    hook = registry.PassHook(verify=True)
    registry.run(graph, name, hook)
    after = str(graph)
    if show and after != before:
        print(heading(name), diff(before, after, f"before {name}", f"after {name}"), sep="\n")
    record = hook.records[0]
    nodes = {"nodes_before": record.nodes_before, "nodes_after": record.nodes_after}
    return {"pass": name, "changed": after != before, "seconds": record.seconds, **nodes}


def _nodes_text(step: dict[str, Any]) -> str:
    before, after = step["nodes_before"], step["nodes_after"]
    return str(after) if before == after else f"{before} -> {after}"


def _explain(options: argparse.Namespace) -> int:
    _, function = _scripted(options.target)
    args, keywords = _arguments(function, options.args)
    try:
        bound = function._bind(args, keywords)
    except RuntimeError as error:
        raise UsageError(str(error).splitlines()[0]) from None
    found = explain(Executor(function.graph, function.name), bound)
    if options.json:
        print(json.dumps({"function": options.target, "explanation": found.sections}, indent=1))
    else:
        print(found)
    return 0


def _bisect(options: argparse.Namespace) -> int:
    target: Any
    keywords: dict[str, Any] = {}
    if options.target == "-" or ":" not in options.target:
        target = _graph(options.target)
        args = list(map(_value, options.input))
    else:
        _, target = _scripted(options.target)
        args, keywords = _arguments(target, options.input)
    try:
        found = bisect(target, *args, passes=options.passes, seconds=options.seconds, **keywords)
    except CompileError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:  # the arguments, or the names of passes, are wrong
        raise UsageError(str(error).splitlines()[0]) from None
    if options.json:
        print(json.dumps({"pass": found.pass_name, "text": str(found)} if found else {"pass": None}, indent=1))
    elif found is None:
        print("no pass changes what this call does")
    else:
        print(found)
    return 0 if found is None else 1


def _value(text: str) -> Any:
    try:
        return parse_value(text)
    except CompileError as error:
        raise UsageError(str(error)) from None


def _graph(target: str) -> Graph:
    """A graph from standard input, a file of graph text, or a function."""
    if target == "-":
        return _read_graph(sys.stdin.read, "<stdin>")
    if ":" in target:
        return _scripted(target)[1].graph.copy()
    path = Path(target)
    if not path.is_file():
        raise UsageError(f"no such file: {target}")
    if path.suffix == ".py":
        raise UsageError(f"which function of {target}? Expected FILE:FN, or a file with graph text")
    return _read_graph(lambda: path.read_text(encoding="utf-8"), target)


def _read_graph(read: Callable[[], str], name: str) -> Graph:
    """The graph whose text `read` gives, checked, so that what passes complain about is their own doing."""
    try:
        text = read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    try:
        graph = parse(text)
        verify(graph)
    except CompileError:
        parse(text, filename=name)  # the same error, with the name of the file
        raise
    except VerifyError as error:
        raise ProgramError from error
    return graph


def _dis(options: argparse.Namespace) -> int:
    _, function = _scripted(options.target)
    text = function.stages["bytecode"]
    print(json.dumps({"function": options.target, "bytecode": text}, indent=1) if options.json else text)
    return 0
