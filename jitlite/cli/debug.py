"""The command `debug`: step through a function."""

from __future__ import annotations

import argparse
import json

from jitlite.base.source import CompileError
from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.report import call_arguments, function_of
from jitlite.debug.stepping import debug_from

CALLED = (
    argument("target", metavar="FILE:FN|FILE:MODULE|MODEL.pt",
             help="a function, a module or its class in a Python file, an archive, or a file with graph text"),
    argument("args", nargs="*", metavar="ARG", help="as for run"),
    argument("--init", action="append", default=[], metavar="ARG", help="of a class: an argument to make an object"),
    argument("--method", metavar="NAME", default="forward", help="of a module: which one (default: forward)"),
    argument("--allow", action="append", default=[], metavar="NAME", help="of an archive: an operator to allow"),
)  # fmt: skip
"""Parameters of commands that call any function."""


@command(
    "debug",
    "step through a function: its lines, nodes, instructions and variables, with the commands of pdb",
    *CALLED,
    argument("-c", "--command", action="append", default=[], metavar="COMMAND", dest="first",
             help="a command of the debugger to begin with, once for each"),
)  # fmt: skip
def debug(options: argparse.Namespace) -> int:
    """Call the function in the debugger, and print what it gives."""
    function = function_of(options, is_called=True)
    args, keywords = call_arguments(options.target, function, options.args)
    try:
        function._bind(args, keywords)
    except RuntimeError as error:
        raise UsageError(str(error).splitlines()[0]) from None
    try:
        result = debug_from(options.first, function, args, keywords)
    except CompileError:
        raise
    except Exception as error:
        raise ProgramError from error
    print(json.dumps({"result": repr(result)}, indent=1) if options.json else repr(result))
    return 0
