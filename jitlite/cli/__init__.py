"""The command `jitlite`: look at functions and archives, run them, run passes over them, turn them into other things.

    jitlite show FILE:FN [--stage tree|emitted|exits|ssa|loops|graph|opt|code|all] [--diff] [--dot]
    jitlite show MODEL.pt [--code|--graph|--tree|--ops|--weights]
    jitlite run FILE:FN ARGS...       jitlite run MODEL.pt --input X.npy [--method NAME] [--output Y.npy]
    jitlite convert MODEL.pt --to python|fx|exported
    jitlite opt FILE|FILE:FN -p "inline,cse"
    jitlite report FILE:FN|FILE:MODULE|MODEL.pt|GRAPH.txt [--example ARG] -o report.html
    jitlite explain FILE:FN ARGS...   jitlite bisect FILE:FN [--input ARGS...]
    jitlite debug FILE:FN ARGS...     jitlite profile FILE:FN ARGS... [--trace OUT.json]
    jitlite dis FILE:FN               jitlite migrate PATH... [--to compile] [--diff] [--check]
    jitlite demo                      jitlite doctor
    jitlite cache [show|clear|limit SIZE]

Exit status: 0 all went well; 1 the user's program does not compile, raises or differs from eager, or an archive cannot
be read; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import jitlite
from jitlite.archive.errors import ArchiveError
from jitlite.base.command_line import asks_for_doctor
from jitlite.base.source import CompileError
from jitlite.cli import installation  # noqa: F401  # which declares the command `doctor`
from jitlite.cli.commands import COMMANDS, ProgramError, UsageError
from jitlite.cli.terminal import error_text, paint

if not asks_for_doctor():
    from jitlite.cli import about, cache, convert, debug, functions, migrate, passes, profile, report, run, show  # noqa: F401  # the other commands


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
    except (CompileError, ArchiveError) as error:
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
    for _, command in sorted(COMMANDS.items()):
        command.add_to(commands)
    return parser
