"""`jitlite migrate`: rewrite code for torch.jit."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import jitlite
from jitlite.cli.commands import UsageError, argument, command
from jitlite.cli.terminal import diff, paint, progress
from jitlite.migrate import files
from jitlite.migrate.findings import Migration, MigrationKind

_SAID = (MigrationKind.LEFT, MigrationKind.LOOK, MigrationKind.CAN_COMPILE, MigrationKind.CANNOT_COMPILE)


@command(
    "migrate",
    "rewrite code that uses torch.jit so that it uses jitlite",
    argument("paths", metavar="PATH", nargs="+", help="files, or folders of Python files"),
    argument(
        "--to",
        choices=("jitlite", "compile"),
        default="jitlite",
        help="compile: also mark, with a comment, what torch.compile can take",
    ),
    argument("--diff", action="store_true", help="print what would change, write nothing"),
    argument("--check", action="store_true", help="write nothing; the exit status is 1 where something would change"),
)
def migrate(options: argparse.Namespace) -> int:
    """Rewrite files in place, and say what was left and why."""
    rewrite, found = _rewriter_and_files(options.paths)
    is_written = not options.diff and not options.check
    results = []
    named = set(map(Path, options.paths))
    for path in progress(found, "files"):
        marks = options.to == "compile"
        done = files.migrate_file(path, rewrite, jitlite.__all__, marks, is_named=path in named)
        if done.changed and is_written:
            done = _written(done)
        results.append(done)
        if not options.json:
            _tell(done, options.diff)
    if options.json:
        print(json.dumps([_as_json(done) for done in results], indent=1))
    else:
        _sum_up(results, is_written)
    return int(any(done.error or (options.check and done.changed) for done in results))


def _rewriter_and_files(paths: list[str]) -> tuple[files.Rewrite, list[Path]]:
    try:
        return files.rewriter(), list(files.find_files(paths))
    except files.MissingLibrary as error:
        raise UsageError(f"{error}: pip install 'jitlite[migrate]'") from error
    except OSError as error:
        raise UsageError(str(error)) from error


def _written(done: Migration) -> Migration:
    """The file written; where that fails, as one that is left as it was."""
    try:
        files.write(done)
    except OSError as error:
        return Migration(done.path, done.before, done.before, done.findings, str(error))
    return done


def _tell(done: Migration, with_diff: bool) -> None:
    if done.error:
        print(paint(f"{done.path}: {done.error}", "red"))
    for finding in done.of_kind(*_SAID):
        print(f"{done.path}:{finding.line}:{finding.column}: {finding}")
    if with_diff and done.changed:
        before, after = (text.decode("utf-8", "replace") for text in (done.before, done.after))
        print(diff(before, after, done.path, done.path))


def _sum_up(results: list[Migration], written: bool) -> None:
    counts = Counter(finding.kind for done in results for finding in done.findings)
    changed = sum(done.changed for done in results)
    rewritten = counts[MigrationKind.REWRITTEN] + counts[MigrationKind.LOOK]
    print(
        f"{changed} of {len(results)} files {'rewritten' if written else 'to be rewritten'}: "
        f"{rewritten} uses of torch.jit rewritten, {counts[MigrationKind.LEFT]} left"
    )


def _as_json(done: Migration) -> dict[str, object]:
    findings = [
        {"line": f.line, "column": f.column, "kind": f.kind.name.lower(), "name": f.text, "reason": f.reason}
        for f in done.findings
    ]
    return {"path": done.path, "changed": done.changed, "error": done.error, "findings": findings}
