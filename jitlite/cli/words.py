"""The words of a command line, before a command is run: those it does not know, and methods named behind archives."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from jitlite.base.source import did_you_mean
from jitlite.cli.commands import Command, UsageError

_SOURCE = ".py"


def is_option(word: str) -> bool:
    """Is it written as an option is? `-1` and `-inf` are values."""
    return word.startswith("--") or re.fullmatch("-[A-Za-z]", word) is not None


def unknown_words(command: Command, words: Sequence[str]) -> str:
    """What to say of words that a command does not take."""
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    if not options:
        return f"{command.name} takes no more words: {' '.join(words)}"
    hint = did_you_mean(options[0], command.flags) or f"there are: {', '.join(command.flags)}"
    return f"{command.name} has no option {options[0]}; {hint}"


def separate_method(options: argparse.Namespace) -> None:
    """Take `MODEL.pt:NAME` for `MODEL.pt --method NAME`.

    Raises:
        UsageError: `--method` names another method.
    """
    file, colon, name = options.target.rpartition(":")
    if not colon or not name.isidentifier() or Path(file).suffix == _SOURCE or not Path(file).is_file():
        return
    if options.method not in (None, name):
        raise UsageError(f"'{options.target}' names the method '{name}', and --method '{options.method}'")
    options.target, options.method = file, name
