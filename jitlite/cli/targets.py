"""What the words of a command line mean: functions in files and modules, arguments of calls, graphs."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import jitlite
from jitlite.base.source import CompileError, did_you_mean
from jitlite.cli.commands import ProgramError, UsageError
from jitlite.cli.literals import parse_value
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.schema import Argument
from jitlite.ir.verify import VerifyError, verify

_KEYWORD = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)", re.S)

# -- functions


def _what_it_has(found: object, wanted: str) -> str:
    public = programs_in(found)
    return did_you_mean(wanted, public) or f"it has: {', '.join(public[:8])}" if public else "it has no functions"


def programs_in(found: object) -> list[str]:
    """Names of what a command can be about: functions, modules and classes, without those from elsewhere."""
    if isinstance(found, ModuleType):
        home = found.__name__
        return [name for name, value in vars(found).items() if not name.startswith("_") and _is_of(value, home)]
    children = [name for name, _ in found.named_children()] if isinstance(found, torch.nn.Module) else []
    return [*children, *_own_methods(found if isinstance(found, type) else type(found))]


def _own_methods(cls: type) -> list[str]:
    """The methods of a class and of those it inherits from, but for what every module has."""
    classes = [base for base in cls.__mro__ if base not in torch.nn.Module.__mro__]
    names = dict.fromkeys(name for base in classes for name in vars(base))
    return [name for name in names if not name.startswith("_") and callable(getattr(cls, name))]


def _is_of(value: object, home: str) -> bool:
    """Is it a program that this module of Python has defined?"""
    if isinstance(value, torch.nn.Module | jitlite.ScriptFunction):
        return True
    return callable(value) and getattr(value, "__module__", None) == home


def load_object(target: str, make: Callable[[type[torch.nn.Module]], object]) -> tuple[object, object]:
    """The object that `FILE.py:NAME` or `MODULE:NAME` names, behind the one that it is an attribute of.

    Args:
        make: gives an object of a class of modules, of which the target names a part.

    Raises:
        UsageError: there is no such file, module or name.
        ProgramError: the user's file raises while it is imported.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not name:
        raise UsageError(_without_name(target))
    found: Any = load_module(place)
    owner = found
    for part in name.split("."):
        if _is_of_objects(found, part):
            found = make(found)
        if not hasattr(found, part):
            raise UsageError(f"{place} has no '{part}'; {_what_it_has(found, part)}")
        owner, found, place = found, getattr(found, part), f"{place}{'.' if owner is not found else ':'}{part}"
    return owner, found


def _is_of_objects(found: object, part: str) -> bool:
    """May it be a part of objects of a class of modules? A name much like one that the class has is none."""
    if not isinstance(found, type) or not issubclass(found, torch.nn.Module) or hasattr(found, part):
        return False
    return did_you_mean(part, programs_in(found)) is None


def _without_name(target: str) -> str:
    """What to say of a file without a name behind it, and of a word that is neither."""
    if Path(target).is_dir():
        return f"{target} is a folder; name a file in it"
    if not target.endswith(_SOURCE):
        return f"expected FILE:FN, got '{target}' (for example model.py:forward)"
    found = programs_in(load_module(target))
    if not found:
        return f"{target} has no functions and no modules of its own"
    return f"which function or module of {target}? It has: {', '.join(f'{target}:{name}' for name in found)}"


_SOURCE = ".py"


def load_module(place: str) -> ModuleType:
    """The module that `FILE.py` or `MODULE` names.

    Raises:
        UsageError: there is none.
        ProgramError: it raises while it is imported.
    """
    return _import_file(Path(place)) if place.endswith(_SOURCE) else _import_module(place)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    try:
        is_binary = b"\0" in path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if is_binary:
        raise UsageError(f"{path} is no Python source: there are null bytes in it")
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_jitlite_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (CompileError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        raise ProgramError from error
    return module


def run_program(path: Path, words: list[str]) -> None:
    """Run a file as Python does that is told to run it, with these words behind its name.

    Raises:
        BaseException: whatever the program raises.
    """
    argv, before = sys.argv, list(sys.path)
    sys.argv = [str(path), *words]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, before


def _import_module(name: str) -> ModuleType:
    if not name:
        raise UsageError("expected FILE:FN, got an empty file name")
    if Path(name).is_dir() and not name.isidentifier():
        raise UsageError(f"'{name}' is a folder; name a file in it, as {Path(name) / 'FILE.py'}:FN")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"'{name}' is neither a .py file nor a module: {error}") from None
    except (Exception, SystemExit) as error:
        raise ProgramError from error


# -- arguments


def check_call(function: jitlite.ScriptFunction, args: list[Any], keywords: dict[str, Any], what: str = "") -> None:
    """Refuse arguments that do not fit a function, before anything of it runs.

    Args:
        what: what is wanted, in front of what is wrong.

    Raises:
        UsageError: they do not fit.
    """
    try:
        function._bind(args, keywords)
    except RuntimeError as error:
        raise UsageError(what + str(error).splitlines()[0]) from None


def arguments_of(function: jitlite.ScriptFunction, texts: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Values for the texts on the command line; where a string is wanted, its quotes may be left out."""
    declared = function.__jitlite_function__.schema.arguments[0 if function._module is None else 1 :]
    names = {a.name: a for a in declared}
    args: list[Any] = []
    keywords: dict[str, object] = {}
    for text in texts:
        match = _KEYWORD.fullmatch(text)
        if match is not None and match.group(1) in names:
            name, text = match.groups()
            keywords[name] = text if _is_bare_string(names[name], text) else value_of(text)
            continue
        argument = declared[len(args)] if len(args) < len(declared) else None
        if _is_bare_string(argument, text):
            args.append(text)
        elif match is not None:
            raise UsageError(f"no parameter is called '{match.group(1)}'; {_names_like(match.group(1), list(names))}")
        else:
            args.append(value_of(text))
    return args, keywords


def _names_like(wanted: str, names: list[str]) -> str:
    return did_you_mean(wanted, names) or f"there are: {', '.join(names) or 'none'}"


def _is_bare_string(argument: Argument | None, text: str) -> bool:
    """Is it a string without its quotes?"""
    return argument is not None and str(argument.type) == "str" and text[:1] not in ("'", '"')


def value_of(text: str) -> Any:
    try:
        return parse_value(text)
    except CompileError as error:
        raise UsageError(str(error)) from None


def named_value(text: str) -> tuple[str | None, Any]:
    """The value of `NAME=ARG` with its name, and of any other text without one."""
    match = _KEYWORD.fullmatch(text)
    return (None, value_of(text)) if match is None else (match[1], value_of(match[2]))


# -- graphs


def graph_of(target: str) -> Graph:
    """A graph from standard input, or a file of graph text."""
    if target == "-":
        return _read_graph(sys.stdin.read, "<stdin>")
    path = Path(target)
    if not path.is_file():
        raise UsageError(f"no such file: {target}")
    return _read_graph(lambda: path.read_text(encoding="utf-8"), target)


def _read_graph(read: Callable[[], str], name: str) -> Graph:
    """The graph whose text `read` gives, checked, so that what passes complain about is their own doing."""
    try:
        text = read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    try:
        graph = parse(text, filename=name)
        verify(graph)
    except VerifyError as error:
        raise ProgramError from error
    return graph
