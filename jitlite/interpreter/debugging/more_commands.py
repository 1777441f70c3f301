"""The commands of the debugger that are about other commands, about whole functions, and those of pdb that it lacks."""

from __future__ import annotations

import cmd
import re
from collections.abc import Callable, Sequence
from typing import Final

from jitlite.interpreter.debugging.breakpoints import Breakpoint
from jitlite.interpreter.debugging.control import Control
from jitlite.interpreter.debugging.listing import source_lines
from jitlite.interpreter.debugging.locations import source_of
from jitlite.interpreter.value_words import short_repr
from jitlite.interpreter.watching import DebuggerRestart

_MOST_EXPANSIONS = 20
"""An alias may stand for another one, and so on: this often."""

NOTHING: Final = "\n"
"""A line that is no command; an empty one would be the last command again."""

_LACKING: Final = {
    "jump": "a script cannot go on at another line: its values follow from the lines before. 'restart' begins again",
    "interact": "there is no interpreter here: a line that is no command is evaluated, over the variables of the call",
    "debug": "one debugger runs at a time. 'break FUNCTION' stops in a function, 'step' goes into it",
    "exceptions": "there is one exception to look at; 'where' shows the calls that it has come through",
}
"""Commands of pdb that there are none of, and the way out."""


class MoreCommands(cmd.Cmd):
    """Mixed into `Prompt`, which has what is shown and asked here."""

    control: Control
    message: Callable[[str], None]
    error: Callable[[str], None]

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}
        self._collects_for: Breakpoint | None = None

    # -- commands that a breakpoint does

    def do_commands(self, arg: str) -> None:
        """commands [NUMBER]
        Do commands whenever the program stops at a breakpoint, the last one without a number: the lines that follow, up
        to `end`. `silent` as the first shows nothing of the place. A command that goes on is the last one."""
        known = list(self.control.breakpoints)
        found = self.control.breakpoints.get(int(arg)) if arg.isdecimal() else None if arg or not known else known[-1]
        if found is None:
            told = f"there is no breakpoint {arg}; 'break' lists them" if arg else "there are no breakpoints"
            self.error(told)
            return
        found.commands = []
        self._collects_for = found
        self.prompt = "(commands) "

    def collect(self, line: str) -> bool:
        """Take a line for the commands of a breakpoint, where these are being given; says whether they are."""
        if self._collects_for is None:
            return False
        if line.strip() in ("end", "EOF"):
            self._collects_for = None
            self.prompt = type(self).prompt
        elif line.strip():
            self._collects_for.commands.append(line.strip())
        return True

    def run_commands(self, commands: Sequence[str]) -> bool:
        """Do the commands of a breakpoint; says whether one of them goes on."""
        return any(self.onecmd(self.expanded(line)) for line in commands if line != "silent")

    # -- names for commands

    def do_alias(self, arg: str) -> None:
        """alias [NAME [COMMAND]]
        Let a name stand for a command, with `%1`, `%2` for its arguments and `%*` for all; list the names."""
        name, _, command = arg.strip().partition(" ")
        if command:
            self._aliases[name] = command.strip()
            return
        if name and name not in self._aliases:
            self.error(f"'{name}' stands for nothing")
        for known in [name] if name in self._aliases else [] if name else sorted(self._aliases):
            self.message(f"{known} = {self._aliases[known]}")

    def do_unalias(self, arg: str) -> None:
        """unalias NAME
        Let a name stand for nothing."""
        if self._aliases.pop(arg.strip(), None) is None:
            self.error(f"'{arg.strip()}' stands for nothing")

    def expanded(self, line: str) -> str:
        """A line with what its first word stands for."""
        for _ in range(_MOST_EXPANSIONS):
            words = line.split()
            if not words or words[0] not in self._aliases:
                return line
            line = _filled(self._aliases[words[0]], words[1:])
        self.error("names stand for one another without end")
        return NOTHING

    # -- whole functions

    def do_longlist(self, arg: str) -> None:
        """ll, longlist
        Show the source of the whole function."""
        scope = self.control.scope
        if scope.range is None:
            self.error("this function has no source; 'graph' and 'dis' show what runs")
            return
        source = scope.range.source
        last = source.first_line + source.line_count
        marked = self.control.breakpoints.lines_of(scope.filename)
        self.message("\n".join(source_lines(scope, source.first_line, last, marked)))

    def do_source(self, arg: str) -> None:
        """source FUNCTION
        Show the source of a function that runs, or that one that runs calls."""
        found = source_of(arg.strip(), self.control.frames())
        if isinstance(found, str):
            self.error(found)
            return
        lines = (f"{found.first_line + i:>4}    {found.line_text(i)}".rstrip() for i in range(found.line_count))
        self.message("\n".join(lines))

    def do_retval(self, arg: str) -> None:
        """retval, rv
        Show what the function that returned last has returned."""
        returned = self.control.returned
        self.message(short_repr(returned[0])) if returned else self.error("nothing has returned yet")

    # -- beginning again, and what there is not

    def do_restart(self, arg: str) -> None:
        """restart, run
        Begin the call again, with its arguments as they were. Breakpoints, aliases and what is displayed stay. What the
        program has written into modules stays, too."""
        if arg:
            self.error("the arguments are those of the call: call the debugger for others")
        elif not self.control.can_restart:
            self.error("only what 'jitlite debug' or jitlite.debug has called can begin again")
        else:
            raise DebuggerRestart("the call begins again")

    do_ll, do_rv, do_run = do_longlist, do_retval, do_restart


def lacking(word: str) -> str | None:
    """Why there is no such command of pdb here, and the way out; None for a word that is none."""
    return _LACKING.get({"j": "jump"}.get(word, word))


def _filled(command: str, arguments: Sequence[str]) -> str:
    """A command with arguments in place of `%1`, `%2` and `%*`."""

    def value(found: re.Match[str]) -> str:
        which = found.group(1)
        if which == "*":
            return " ".join(arguments)
        return arguments[int(which) - 1] if int(which) <= len(arguments) else ""

    if "%" not in command:
        return " ".join([command, *arguments])
    return re.sub(r"%(\*|[1-9])", value, command)
