"""What this process was started for."""

from __future__ import annotations

import os
import sys

_MAIN = os.path.join("jitlite", "__main__.py")


def asks_for_doctor() -> bool:
    """Is this process the command `jitlite doctor`, or `python -m jitlite doctor`?"""
    given: list[str] = getattr(sys, "argv", None) or [""]
    program, words = given[0], given[1:]
    if words[:1] != ["doctor"]:
        return False
    if program == "-m":  # while Python looks for the module to run
        before = sys.orig_argv[: len(sys.orig_argv) - len(words)]
        return before[-2:] == ["-m", "jitlite"] or before[-1] == "-mjitlite"
    folder, name = os.path.split(program)
    return os.path.splitext(name)[0] == "jitlite" or os.path.join(os.path.basename(folder), name) == _MAIN
