"""Commands that list what there is: passes, switches, words to complete."""

from __future__ import annotations

import argparse
import json
import os
import shlex

from jitlite.base import options as switches
from jitlite.cli.commands import COMMANDS, Command, argument, command
from jitlite.cli.programs import LOAD, load_named
from jitlite.cli.terminal import paint
from jitlite.passes import registry


@command("passes", "list the passes, and what each does", LOAD, paged=True)
def passes(options: argparse.Namespace) -> int:
    """Print the name of each pass and its first sentence."""
    load_named(options)
    found = {name: registry.summary(name) for name in registry.names()}
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    width = max(map(len, found))
    for name, text in found.items():
        print(f"{paint(name.ljust(width), 'bold')}  {text}")
    return 0


@command("options", "list the switches, their variables and what they are set to", paged=True)
def options_(options: argparse.Namespace) -> int:
    """Print each switch."""
    current = switches.current()
    found = [
        {"name": name, "variable": variable, "value": getattr(current, name), "set": variable in os.environ, "doc": doc}
        for name, variable, doc in switches.describe()
    ]
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    for switch in found:
        mark = " (set in the environment)" if switch["set"] else ""
        print(f"{paint(str(switch['variable']), 'bold')} = {switch['value']}{mark}", f"    {switch['doc']}", sep="\n")
    return 0


@command(
    "completion",
    "print a script with which a shell completes commands, options, stages and passes",
    argument("shell", choices=("bash", "zsh", "fish"), help='bash and zsh: eval "$(jitlite completion bash)"'),
)
def completion(options: argparse.Namespace) -> int:
    """Print the script."""
    text = _fish() if options.shell == "fish" else _bash()
    if options.shell == "zsh":
        text = f"autoload -Uz bashcompinit && bashcompinit\n{text}"
    print(json.dumps({"shell": options.shell, "script": text}, indent=1) if options.json else text, end="")
    return 0


def _choices(command: Command) -> dict[str, list[str]]:
    """The words that may follow an option."""
    found: dict[str, list[str]] = {}
    for parameter in command.parameters:
        choices = parameter.settings.get("choices")
        words = [str(choice) for choice in choices] if isinstance(choices, tuple | list | dict) else []
        words = registry.own_names() if "--passes" in parameter.names else words
        found |= {name: words for name in parameter.names if words}
    return found


def _words(words: list[str]) -> str:
    return shlex.quote(" ".join(words))


def _bash() -> str:
    """A function that looks at the command, and at the word before the one to complete."""
    lines = ["_jitlite() {", '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""']
    lines += ['    if [ "$COMP_CWORD" -eq 1 ]; then', f"        words={_words(sorted(COMMANDS))}", "    else"]
    lines.append('        case "${COMP_WORDS[1]} $before" in')
    for name, declared in sorted(COMMANDS.items()):
        for option, choices in _choices(declared).items():
            place = f"'{name} {option}'" if option.startswith("-") else f"'{name} {name}'"
            lines.append(f"            {place}) words={_words(choices)} ;;")
        lines.append(f"            '{name} '*) words={_words(declared.flags)} ;;")
    lines += ["        esac", "    fi", '    COMPREPLY=($(compgen -W "$words" -- "$word"))', "}"]
    return "\n".join([*lines, "complete -o default -F _jitlite jitlite"]) + "\n"


def _fish() -> str:
    lines = []
    for name, declared in sorted(COMMANDS.items()):
        lines.append(f"complete -c jitlite -n __fish_use_subcommand -a {name} -d {shlex.quote(declared.help)}")
        chosen = _choices(declared)
        for flag in declared.flags:
            style = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            values = f" -x -a {_words(chosen[flag])}" if flag in chosen else ""
            lines.append(f"complete -c jitlite -n '__fish_seen_subcommand_from {name}' {style}{values}")
    return "\n".join(lines) + "\n"
