"""The command `jitlite`: look at functions and archives, run them, run passes over them, turn them into other things.

Begin with `jitlite demo`. Then, for a function `fn` in a file `model.py` of yours:

    jitlite list model.py                          which functions and modules the file has
    jitlite show model.py:fn                       what `fn` is compiled to
    jitlite run model.py:fn "ones(2, 3)" 5         call it, with Python's literals and torch's ones, rand, arange, ...
    jitlite explain model.py:fn "ones(2, 3)" 5     what is done to it, what is not, and why
    jitlite report model.py:fn "ones(2, 3)" 5      every stage on a page for a browser

All commands, of which `jitlite COMMAND --help` tells more:

    jitlite show PROGRAM [--stage tree|emitted|exits|ssa|loops|graph|optimized|bytecode|python|all] [--diff] [--dot]
    jitlite show MODEL.pt [--code|--graph|--tree|--ops|--weights]
    jitlite run PROGRAM ARGS...       jitlite run MODEL.pt --input X.npy [--method NAME] [--output Y.npy]
    jitlite convert PROGRAM --to python|fx|exported
    jitlite opt PROGRAM -p "inline,cse"
    jitlite report PROGRAM [ARGS...] -o report.html
    jitlite explain PROGRAM ARGS...   jitlite explain J0101
    jitlite debug PROGRAM ARGS...     jitlite profile PROGRAM ARGS... [--trace OUT.json]
    jitlite bisect PROGRAM ARGS...
    jitlite dis PROGRAM               jitlite migrate PATH... [--to compile] [--diff] [--check]
    jitlite list FILE.py|PROGRAM      jitlite passes
    jitlite demo                      jitlite doctor
    jitlite options                   jitlite cache [show|clear|limit SIZE]
    eval "$(jitlite completion bash)"

A program is FILE:FN, a module FILE:net, a part of it FILE:net.layer1, a method FILE:net.encode, a class FILE:Net with
--init ARG for each argument, an archive MODEL.pt, a method of it MODEL.pt:encode, or the text of a graph in a file or
on standard input (-).

Exit status: 0 all went well; 1 the user's program does not compile, raises or differs from eager, or an archive cannot
be read; 2 wrong usage; 130 it was interrupted with Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

import jitlite
from jitlite.archive.errors import ArchiveError
from jitlite.base.command_line import asks_for_doctor
from jitlite.base.source import CompileError
from jitlite.cli import installation  # noqa: F401  # which declares the command `doctor`
from jitlite.cli.commands import COMMANDS, Command, CommandParser, ProgramError, UsageError
from jitlite.cli.terminal import Collected, error_text, paint
from jitlite.cli.terminal import show as show_text
from jitlite.cli.words import is_option, separate_method, unknown_words

if not asks_for_doctor():
    from jitlite.cli import (  # noqa: F401  # the other commands
        about,
        cache,
        contents,
        convert,
        debug,
        functions,
        listings,
        migrate,
        passes,
        profile,
        report,
        run,
        show,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = _parser()
    options = _parsed(parser, argv)
    try:
        return _run(options.command, options)
    except UsageError as error:
        print(f"jitlite: {error}", file=sys.stderr)
        return 2
    except CompileError as error:
        return _failed(options, error, str(error))
    except ArchiveError as error:
        return _failed(options, error, f"{options.target}: {error}")
    except ProgramError as error:
        assert error.__cause__ is not None
        return _failed(options, error.__cause__, error_text(error.__cause__))
    except BrokenPipeError:
        sys.stderr.close()  # the reader (head, less) has gone: nobody is left to tell
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED


_INTERRUPTED = 130
"""The exit status of what Ctrl-C ends, as shells give it: 128 and the number of the signal."""


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line; arguments of a call may also stand behind options, where argparse does not look for them."""
    options, rest = parser.parse_known_args(argv)
    if not hasattr(options, "command"):
        parser.print_help(sys.stderr)
        parser.exit(2)
    unknown = [word for word in rest if is_option(word) or not hasattr(options, "args")]
    if unknown:
        parser.error(unknown_words(options.command, unknown))
    if rest:
        options.args = [*options.args, *rest]
    return options


def _run(command: Command, options: argparse.Namespace) -> int:
    if command.takes("method"):
        separate_method(options)
    if not command.paged or options.json:
        return command.run(options)
    printed = Collected(sys.stdout)
    try:
        with redirect_stdout(printed):
            status = command.run(options)
    except KeyboardInterrupt:
        printed.truncate(0)  # no pager opens on half a text
        raise
    finally:
        show_text(printed.getvalue())
    return status


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
    parser = CommandParser(
        prog="jitlite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"jitlite {jitlite.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    for _, command in sorted(COMMANDS.items()):
        command.add_to(commands)
    return parser
