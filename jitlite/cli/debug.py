"""The command `debug`: step through a function."""

from __future__ import annotations

import argparse
import json
from typing import Any

from jitlite.base.source import CompileError
from jitlite.cli.commands import ProgramError, argument, command
from jitlite.cli.programs import ALLOW, EXAMPLES, HELP, OF_MODULES, WHAT, program_of
from jitlite.cli.report import call_arguments
from jitlite.cli.targets import check_call
from jitlite.debug.stepping import debug_from
from jitlite.objects.function import ScriptFunction

CALLED = (
    argument("target", metavar=WHAT, help=HELP),
    EXAMPLES,
    *OF_MODULES,
    ALLOW,
)
"""Parameters of commands that call any function."""


def call_of(options: argparse.Namespace) -> tuple[ScriptFunction, list[Any], dict[str, Any]]:
    """The function that a command is to call, and the arguments.

    Raises:
        UsageError: they do not fit.
    """
    function = program_of(options).function
    args, keywords = call_arguments(options.target, function, options.args)
    check_call(function, args, keywords)
    return function, args, keywords


@command(
    "debug",
    "step through a function: its lines, nodes, instructions and variables, with the commands of pdb",
    *CALLED,
    argument("-c", "--command", action="append", default=[], metavar="COMMAND", dest="first",
             help="a command of the debugger to begin with, once for each"),
)  # fmt: skip
def debug(options: argparse.Namespace) -> int:
    """Call the function in the debugger, and print what it gives."""
    function, args, keywords = call_of(options)
    try:
        is_finished, result = debug_from(options.first, function, args, keywords)
    except CompileError:
        raise
    except Exception as error:
        raise ProgramError from error
    text = repr(result) if is_finished else "left the debugger; the call was not finished"
    print(json.dumps({"result": text, "finished": is_finished}, indent=1) if options.json else text)
    return 0
