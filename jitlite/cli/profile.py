"""The command `profile`: what a call costs, line by line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from jitlite.base.source import CompileError
from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.debug import CALLED, call_of
from jitlite.cli.inputs import check_can_be_written
from jitlite.executor.line_profile import LineProfile


@command(
    "profile",
    "measure a call line by line: count, time, operators, memory; and what compiling it costs",
    *CALLED,
    argument("--trace", metavar="OUT.json", help="write what ran when, for chrome://tracing or Perfetto"),
    paged=True,
)
def profile(options: argparse.Namespace) -> int:
    """Call the function once, and print the table."""
    if options.trace:
        check_can_be_written(Path(options.trace))
    function, args, keywords = call_of(options)
    try:
        found = function.profile(*args, **keywords)
    except CompileError:
        raise
    except Exception as error:
        raise ProgramError from error
    if options.trace:
        _write_trace(found, options.trace)
    print(json.dumps(_data(options.target, found), indent=1) if options.json else str(found).rstrip())
    return 0


def _write_trace(found: LineProfile, name: str) -> None:
    try:
        found.save_trace(Path(name))
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror}") from None


def _data(target: str, found: LineProfile) -> dict[str, object]:
    """The profile as JSON has it."""
    lines = [
        {
            "file": cost.filename, "line": cost.key.line, "last_line": cost.key.last_line, "function": cost.function,
            "machine_code": cost.key.is_region, "count": cost.count, "seconds": cost.seconds,
            "own_seconds": cost.own_seconds, "operators": dict(cost.operators), "allocated_bytes": cost.allocated,
        }
        for cost in found.lines
    ]  # fmt: skip
    steps = [{"stage": s.stage, "name": s.name, "seconds": s.seconds, "runs": s.runs} for s in found.compiling]
    return {
        "function": target,
        "seconds": found.seconds,
        "measured": found.what_ran,
        "lines": lines,
        "compiling": steps,
    }
