"""What a command is about: a function, a method, a module, an archive, or the text of a graph.

model.py:f              a function
model.py:net            a module: its forward, or what --method names
model.py:net.layer1     a submodule
model.py:net.encode     a method of a module
model.py:Net            a class of modules, of which an object is made with the arguments --init
MODEL.pt                the module in an archive
GRAPH.txt, -            the text of a graph in a file, or on standard input
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MethodType

import torch

import jitlite
from jitlite.base.source import did_you_mean
from jitlite.cli.archives import is_archive, open_archive
from jitlite.cli.commands import ProgramError, UsageError, argument
from jitlite.cli.targets import graph_of, load_module, load_object, named_value
from jitlite.objects.function import ScriptFunction, function_of_graph
from jitlite.objects.module import ScriptModule

EXAMPLES = argument("args", nargs="*", metavar="ARG", help="an argument of a call, as for run")
"""What every command takes that can call a program. An option that gives arguments, too, is an older spelling."""

WHAT = "FILE:FN|FILE:MODULE|MODEL.pt|GRAPH.txt"
HELP = "a function, method, module or class in a Python file (or MODULE:NAME), an archive, a file with graph text, or -"

OF_MODULES = (
    argument("--init", action="append", default=[], metavar="ARG",
             help="of a class: an argument to make an object, or NAME=ARG; once for each"),
    argument("--method", metavar="NAME", help="of a module: which method (default: forward)"),
)  # fmt: skip
"""Parameters of every command that takes a program."""
ALLOW = argument("--allow", action="append", default=[], metavar="NAME", help="of an archive: an operator to allow")

LOAD = argument(
    "--load", action="append", default=[], metavar="FILE.py|MODULE", help="import passes and operators from there first"
)


def load_named(options: argparse.Namespace) -> None:
    """Import what `LOAD` names.

    Raises:
        UsageError: there is no such file or module.
        ProgramError: it raises while it is imported.
    """
    for place in options.load:
        load_module(place)


@dataclass(frozen=True)
class ChosenProgram:
    """A program that a command is about.

    Attributes:
        function: the compiled function, or the method of the module.
        original: what eager Python calls; None where there is no such thing.
        whole: the compiled module; the function itself where it is no module's.
    """

    function: ScriptFunction
    original: Callable[..., object] | None
    whole: ScriptFunction | ScriptModule


def program_of(options: argparse.Namespace, *, run_code: bool = True) -> ChosenProgram:
    """The program that the command line names.

    Args:
        run_code: may code of an archive set the state of its objects?

    Raises:
        UsageError: there is no such thing.
        CompileError: it does not compile.
        ProgramError: the user's code raises.
    """
    target: str = options.target
    if is_graph_text(target):
        function = function_of_graph(Path(target).stem if target != "-" else "graph", graph_of(target))
        return ChosenProgram(function, None, function)
    if names_archive(target):
        place = getattr(options, "map_location", None)
        return _of_module(load_archive(target, options.allow, place, run_code=run_code), None, options, None)
    made_of: list[type] = []

    def make(cls: type[torch.nn.Module]) -> torch.nn.Module:
        made_of.append(cls)
        return _made(cls, options.init)

    owner, found = load_object(target, make)
    if isinstance(owner, type) and issubclass(owner, torch.nn.Module) and callable(found):
        made = _made(owner, options.init)
        return _of_module(_scripted(made), made, options, target.rpartition(".")[2])
    if options.init and not made_of and not (isinstance(found, type) and issubclass(found, torch.nn.Module)):
        raise UsageError(f"--init is for classes of modules, and '{target}' is none")
    return _of_object(found, options)


def names_archive(target: str) -> bool:
    """Does a word of the command line name an archive, which need not exist?"""
    return is_archive(target) and not is_graph_text(target)


def is_graph_text(target: str) -> bool:
    """Is it a file that begins as the text of a graph does? Archives begin as zip files do."""
    if target == "-":
        return True
    path = Path(target)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"graph(")


def _scripted(module: torch.nn.Module) -> ScriptModule:
    made = jitlite.script(module)
    assert isinstance(made, ScriptModule), "the switch `enabled` is off"
    return made


def _of_object(found: object, options: argparse.Namespace) -> ChosenProgram:
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        found = _made(found, options.init)
    if isinstance(found, MethodType) and isinstance(found.__self__, torch.nn.Module):
        return _of_module(_scripted(found.__self__), found.__self__, options, found.__name__)
    if isinstance(found, torch.nn.Module):
        return _of_module(_scripted(found), found, options, None)
    if options.method:
        raise UsageError(f"--method is for modules, and '{options.target}' is none")
    if isinstance(found, ScriptFunction):
        return ChosenProgram(found, getattr(found, "__wrapped__", None), found)
    if not callable(found) or isinstance(found, type):
        raise UsageError(f"'{options.target}' is no function and no module: its type is {type(found).__name__}")
    function: ScriptFunction = jitlite.script(found)
    return ChosenProgram(function, found, function)


def _made(cls: type[torch.nn.Module], words: list[str]) -> torch.nn.Module:
    """An object of a class, made with the arguments that words stand for.

    Raises:
        UsageError: they are not those that the class takes.
        ProgramError: it raises.
    """
    pairs = [named_value(word) for word in words]
    args, keywords = [v for name, v in pairs if name is None], {name: v for name, v in pairs if name is not None}
    try:
        signature = inspect.signature(cls)
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise UsageError(
            f"{cls.__name__}{_shown(signature)}: {error}; give --init ARG, or --init NAME=ARG, for each argument"
        ) from None
    except ValueError:  # there is no signature to ask
        pass
    try:
        return cls(*args, **keywords)
    except Exception as error:
        raise ProgramError from error


def _shown(signature: inspect.Signature) -> str:
    """What a class takes, in one line without what making it gives."""
    return str(signature.replace(return_annotation=inspect.Signature.empty))


def _of_module(
    module: ScriptModule, eager: torch.nn.Module | None, options: argparse.Namespace, method: str | None
) -> ChosenProgram:
    """A method of a compiled module."""
    name = method or options.method or "forward"
    found = getattr(module, name, None)
    if not isinstance(found, ScriptFunction):
        what = f"the module in {options.target}" if eager is None else type(eager).__name__
        raise UsageError(
            f"{what} has no compiled method '{name}'; {_other_methods(module, eager, name, options.target)}"
        )
    original = None if eager is None or isinstance(eager, ScriptModule) else getattr(eager, name)
    return ChosenProgram(found, original, module)


def _other_methods(module: ScriptModule, eager: torch.nn.Module | None, name: str, target: str) -> str:
    """A way out for somebody who names a method that was not compiled."""
    is_inherited = hasattr(torch.nn.Module, name)
    if not is_inherited and eager is not None and callable(getattr(eager, name, None)):
        return "forward does not call it; mark it with @jitlite.export"
    names = method_names(module)
    if not names and eager is not None:
        return _parts_of(eager, target)
    return did_you_mean(name, names) or f"there are: {', '.join(names) or 'none'}"


def _parts_of(module: torch.nn.Module, target: str) -> str:
    """What to look at instead of a module without methods, such as a list of modules."""
    parts = [f"{target}.{name}" for name, _ in module.named_children()]
    shown = [*parts[:_MOST_PARTS], "..."] if len(parts) > _MOST_PARTS else parts
    return f"it is made of: {', '.join(shown)}" if parts else "it has no methods"


_MOST_PARTS = 4


def load_archive(target: str, allow: list[str], map_location: str | None, *, run_code: bool = True) -> ScriptModule:
    """The module in an archive.

    Args:
        run_code: may its code set the state of its objects?

    Raises:
        UsageError: there is no such file, or no such device.
    """
    open_archive(target).close()
    try:
        device = None if map_location is None else torch.device(map_location)
        torch.empty(0, device=device)  # is there such a device here?
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(str(error).partition("\n")[0]) from None
    return jitlite.load(target, map_location=device, allow=allow, run_code=run_code)


def method_names(module: object) -> list[str]:
    """The methods of a module that was read from an archive."""
    found = getattr(getattr(module, "__jitlite_type__", None), "methods", {})
    return sorted(found)
