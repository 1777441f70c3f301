"""The command `show`: a function at the stages of its compilation, or what is in an archive."""

from __future__ import annotations

import argparse

from jitlite.cli.archives import VIEWS, show_archive
from jitlite.cli.commands import UsageError, argument, command
from jitlite.cli.functions import ALL_STAGES, GRADIENT_STAGE, KERNEL_STAGES, SHORT_STAGES, STAGES, show_function
from jitlite.cli.programs import ALLOW, EXAMPLES, HELP, OF_MODULES, WHAT, names_archive

_HELP = {
    "code": "the source in the archive",
    "graph": "the graphs of its functions and methods, compiled but not run",
    "tree": "its modules",
    "ops": "the operators it uses, and which need --allow",
    "weights": "its tensors",
}
_STAGES = (*STAGES, GRADIENT_STAGE, *KERNEL_STAGES)

_OPTIONS = {"example": "ARG", **{name: f"--{name}" for name in ("stage", "diff", "dot", "full", "method")}}
"""How the command line spells what functions have."""


@command(
    "show",
    "print a function at the stages of its compilation, or what is in an archive, of which nothing is run",
    argument("target", metavar=WHAT, help=HELP),
    EXAMPLES,
    argument("--stage", choices=(*_STAGES, *SHORT_STAGES, ALL_STAGES), metavar="STAGE",
             help=f"which stage of a function (default: graph): {', '.join(_STAGES)}; or all"),
    argument("--full", action="store_true", help="with --stage all: also stages that changed nothing"),
    argument("--example", action="append", default=[], metavar="ARG",
             help="the same as ARG, once for each; with --stage kernels, llvm, asm"),
    argument("--diff", action="store_true", help="show what each stage changed in the one before"),
    argument("--dot", action="store_true", help="print the graph in Graphviz's language"),
    *(argument(f"--{name}", action="store_true", help=f"of an archive: {_HELP[name]}") for name in VIEWS),
    argument("--stats", action="store_true", help="with --weights: smallest, largest, mean number; reads them"),
    *OF_MODULES,
    ALLOW,
    paged=True,
)  # fmt: skip
def show(options: argparse.Namespace) -> int:
    """Print a function at one stage or all, or what is in an archive."""
    options.example = [*options.args, *options.example]
    of_archives = [name for name in (*VIEWS, "stats") if getattr(options, name)]
    of_functions = [name for name in ("stage", "example", "diff", "dot", "full", "method") if getattr(options, name)]
    if of_archives and of_functions:
        raise UsageError(f"{_OPTIONS[of_functions[0]]} is for functions, and --{of_archives[0]} for archives")
    if names_archive(options.target) and not of_functions:
        return show_archive(options)
    if of_archives:
        raise UsageError(f"--{of_archives[0]} is for archives, and '{options.target}' is no such file")
    options.stage = SHORT_STAGES.get(options.stage, options.stage or "graph")
    return show_function(options)
