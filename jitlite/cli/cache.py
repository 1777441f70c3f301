"""The command that shows and clears what machine code is kept on disk."""

from __future__ import annotations

import argparse
import json
import re

from jitlite.base.disk import Disk, disk
from jitlite.cli.commands import UsageError, argument, command

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


@command(
    "cache",
    "show, clear or limit the machine code that is kept on disk",
    argument("action", choices=("show", "clear", "limit"), nargs="?", default="show"),
    argument("size", nargs="?", help="of limit: bytes, or a number with k, M or G"),
)
def cache(options: argparse.Namespace) -> int:
    """Show what there is, after clearing it or setting its limit."""
    if (options.action == "limit") is not (options.size is not None):
        raise UsageError("`limit` takes a size, as in limit 500M, and nothing else does")
    found = disk()
    if found is None:
        raise UsageError("no machine code is kept on disk (JITLITE_CACHE_DIR)")
    if options.action == "clear":
        found.shrink(0)
    elif options.action == "limit":
        _limit(found, _bytes(options.size))
    contents = found.contents()
    about = {"folder": str(found.folder), "files": contents.files, "bytes": contents.bytes, "limit": contents.limit}
    if options.json:
        print(json.dumps(about, indent=1))
    else:
        print(f"{found.folder}: {contents.files} files, {contents.bytes:,} of at most {contents.limit:,} bytes")
    return 0


def _limit(found: Disk, size: int) -> None:
    try:
        found.set_limit(size)
    except OSError as error:
        raise UsageError(f"the limit cannot be written: {error.strerror}") from error


def _bytes(text: str) -> int:
    number = re.fullmatch(r"(\d+)([kmg]?)b?", text.lower())
    if number is None:
        raise UsageError(f"'{text}' is no size: write bytes, or a number with k, M or G, as in 500M")
    return int(number[1]) * _UNITS[number[2]]
