"""What a command of the command line is, and how one is declared.

    @command("dis", "print the bytecode of a function", argument("target", metavar="FILE:FN"))
    def dis(options: argparse.Namespace) -> int: ...

The files beside this one declare the commands by subject; importing a file enters its commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jitlite.base.source import did_you_mean

Run = Callable[[argparse.Namespace], int]
"""Does what a command is for; gives the exit status."""


class CommandParser(argparse.ArgumentParser):
    """A parser that says which word was perhaps meant."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), known) or f"there are: {', '.join(known)}"
        raise argparse.ArgumentError(action, f"no such choice: '{value}'; {hint}")


class UsageError(Exception):
    """The command line is wrong: exit status 2."""


class ProgramError(Exception):
    """The user's program failed; the cause is the exception it raised."""


@dataclass(frozen=True)
class Parameter:
    """A word or an option of a command: what `add_argument` of argparse takes."""

    names: tuple[str, ...]
    settings: dict[str, object]


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        name: the word it is called by.
        help: what it does, in one line.
        parameters: its words and options; all commands have `--json` besides.
        run: what does it.
        paged: is its output text to read, which a long one is shown in a pager for?
    """

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    run: Run
    paged: bool = False

    @property
    def flags(self) -> list[str]:
        """The options it has."""
        return ["--json", *(name for p in self.parameters for name in p.names if name.startswith("-"))]

    def takes(self, destination: str) -> bool:
        """Has it a word or an option that is kept under this name?"""
        return any(name.lstrip("-") == destination for p in self.parameters for name in p.names)

    def add_to(self, commands: Any) -> None:
        """Enter the command into the sub-commands of a parser."""
        sub = commands.add_parser(self.name, help=self.help, description=self.help, allow_abbrev=False)
        sub.set_defaults(command=self)
        sub.add_argument("--json", action="store_true", help="print JSON instead of text")
        for parameter in self.parameters:
            sub.add_argument(*parameter.names, **parameter.settings)


COMMANDS: dict[str, Command] = {}
"""All commands by name, as they were declared."""


def argument(*names: str, **settings: object) -> Parameter:
    """A parameter for a declaration, as `add_argument` of argparse takes it."""
    if settings.get("nargs") == "*":
        settings.setdefault("default", [])  # without one, argparse calls the words required that may be left out
    return Parameter(names, settings)


def command(name: str, help: str, *parameters: Parameter, paged: bool = False) -> Callable[[Run], Run]:
    """Declare the decorated function to be a command."""

    def declare(run: Run) -> Run:
        COMMANDS[name] = Command(name, help, parameters, run, paged)
        return run

    return declare
