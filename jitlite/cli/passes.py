"""Commands that run passes over graphs, and look for the one that is wrong."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from jitlite.base.source import CompileError, did_you_mean
from jitlite.cli.commands import UsageError, argument, command
from jitlite.cli.programs import ALLOW, EXAMPLES, HELP, LOAD, OF_MODULES, WHAT, is_graph_text, load_named, program_of
from jitlite.cli.targets import arguments_of, graph_of, value_of
from jitlite.cli.terminal import diff, heading, table
from jitlite.debug.bisect import bisect
from jitlite.ir.graph import Graph
from jitlite.passes import registry


@command(
    "opt",
    "run passes over a graph and print what comes out",
    argument("target", metavar=WHAT, help=HELP),
    *OF_MODULES,
    ALLOW,
    LOAD,
    argument(
        "-p",
        "--passes",
        required=True,
        metavar="NAMES",
        help=f"joined by commas, of: {', '.join(registry.own_names())}, and those that --load adds",
    ),
    argument("--print-changed", action="store_true", help="print what each pass changed"),
    argument("--time", action="store_true", help="print how long each pass took, and how many nodes it left"),
    paged=True,
)
def opt(options: argparse.Namespace) -> int:
    load_named(options)
    names = _pass_names(options.passes)
    graph = program_of(options).function.graph.copy()
    steps = [_opt_step(graph, name, options.print_changed and not options.json) for name in names]
    if options.json:
        print(json.dumps({"graph": str(graph), "passes": steps}, indent=1))
        return 0
    print(graph)
    if options.time and steps:
        print(table([("pass", "changed", "ms", "nodes"), *map(_row, steps)]), file=sys.stderr)
    return 0


def _pass_names(text: str) -> list[str]:
    """The names of passes that a text joins by commas.

    Raises:
        UsageError: there is none, or no such pass.
    """
    names = [name for name in map(str.strip, text.split(",")) if name]
    if not names:
        raise UsageError("-p names no pass; jitlite passes lists them")
    known = registry.names()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            raise UsageError(f"no such pass: '{name}'; {hint}")
    return names


def _row(step: dict[str, Any]) -> tuple[str, ...]:
    changed = "yes" if step["changed"] else "no"
    return step["pass"], changed, f"{1e3 * step['seconds']:.2f}", _nodes_text(step)


def _opt_step(graph: Graph, name: str, show: bool) -> dict[str, Any]:
    hook = registry.PassHook(verify=True, keeps_lines=show)
    registry.run(graph, name, hook)
    record = hook.records[0]
    if show and record.changed:
        before, after = ("\n".join(text for text, _ in lines) for lines in (record.before, record.after))
        print(heading(name), diff(before, after, f"before {name}", f"after {name}"), sep="\n")
    nodes = {"nodes_before": record.nodes_before, "nodes_after": record.nodes_after}
    return {"pass": name, "changed": record.changed, "seconds": record.seconds, **nodes}


def _nodes_text(step: dict[str, object]) -> str:
    before, after = step["nodes_before"], step["nodes_after"]
    return str(after) if before == after else f"{before} -> {after}"


@command(
    "bisect",
    "find the pass that changes what a call does, and a small graph that shows it",
    argument("target", metavar=WHAT, help=HELP),
    *OF_MODULES,
    ALLOW,
    LOAD,
    EXAMPLES,
    argument("--input", nargs="*", default=[], metavar="ARG", help="the same as ARG"),
    argument("-p", "--passes", metavar="NAMES", help="the passes to suspect (default: those that always run)"),
    argument("--seconds", type=float, default=30.0, help="how long to look for a small graph (default: 30)"),
    paged=True,
)
def bisect_(options: argparse.Namespace) -> int:
    load_named(options)
    options.input = [*options.args, *options.input]
    if options.passes is not None:
        _pass_names(options.passes)
    target: Any
    keywords: dict[str, object] = {}
    if is_graph_text(options.target):
        target = graph_of(options.target)
        args = list(map(value_of, options.input))
    else:
        target = program_of(options).function
        args, keywords = arguments_of(target, options.input)
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
