"""The command `show`: a function at the stages of its compilation, or what is in an archive."""

from __future__ import annotations

import argparse

from jitlite.cli.archives import VIEWS, is_archive, show_archive
from jitlite.cli.commands import UsageError, argument, command
from jitlite.cli.functions import KERNEL_STAGES, STAGES, show_function

_HELP = {
    "code": "the source in the archive",
    "graph": "the graphs of its functions and methods, compiled but not run",
    "tree": "its modules",
    "ops": "the operators it uses, and which need --allow",
    "weights": "its tensors",
}


@command(
    "show",
    "print a function at the stages of its compilation, or what is in an archive, of which nothing is run",
    argument("target", metavar="FILE:FN|MODEL.pt", help="a function in a Python file (or MODULE:FN), or an archive"),
    argument("--stage", choices=(*STAGES, *KERNEL_STAGES), help="which stage of a function (default: graph)"),
    argument("--example", action="append", default=[], metavar="ARG",
             help="with --stage kernels, llvm, asm: an argument of the call, as for run; once for each"),
    argument("--diff", action="store_true", help="show what each stage changed in the one before"),
    argument("--dot", action="store_true", help="print the graph in Graphviz's language"),
    *(argument(f"--{name}", action="store_true", help=f"of an archive: {_HELP[name]}") for name in VIEWS),
    argument("--stats", action="store_true", help="with --weights: smallest, largest, mean number; reads them"),
    argument("--allow", action="append", default=[], metavar="NAME", help="with --graph: an operator to allow"),
)  # fmt: skip
def show(options: argparse.Namespace) -> int:
    """Print a function at one stage or all, or what is in an archive."""
    of_archives = [name for name in (*VIEWS, "stats", "allow") if getattr(options, name)]
    of_functions = [name for name in ("stage", "example", "diff", "dot") if getattr(options, name)]
    if is_archive(options.target):
        if of_functions:
            raise UsageError(f"--{of_functions[0]} is for functions, and '{options.target}' is not FILE.py:FN")
        return show_archive(options)
    if of_archives:
        raise UsageError(f"--{of_archives[0]} is for archives, and '{options.target}' is no such file")
    options.stage = options.stage or "graph"
    return show_function(options)
