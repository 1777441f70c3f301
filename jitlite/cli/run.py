"""The command `run`: call a function, or a method of a module in an archive."""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch

from jitlite.base.source import CompileError, did_you_mean
from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.functions import run_function
from jitlite.cli.inputs import check_output, read_arguments, write_output
from jitlite.cli.programs import ALLOW, OF_MODULES, WHAT, load_archive, method_names, names_archive
from jitlite.cli.targets import check_call
from jitlite.objects.function import ScriptFunction


@command(
    "run",
    "call a function, a method or a module, and print the result",
    argument("target", metavar=WHAT),
    argument("args", nargs="*", metavar="ARG", help="a literal, ones(2, 3), tensor([1, 2]), ...; or name=ARG"),
    argument("--check", action="store_true", help="call it in eager Python too; exit 1 if the results differ"),
    argument("--seed", type=int, default=0, help="seed of torch's random numbers (default: 0)"),
    argument("--input", action="append", default=[], metavar="FILE", dest="inputs",
             help="of an archive: a .npy, .npz or .pt file, or a literal, or name=ONE; once for each argument"),
    *OF_MODULES,
    argument("--output", metavar="FILE", help="of an archive: write the result to a .npy, .npz or .pt file"),
    ALLOW,
    argument("--map-location", metavar="DEVICE", help="of an archive: where to put its tensors"),
)  # fmt: skip
def run(options: argparse.Namespace) -> int:
    """Call a function or method, and print what it gives."""
    if names_archive(options.target):
        if options.check:
            raise UsageError("--check compares with Python's own function, which an archive has not")
        return _run_archive(options)
    given = [name for name in ("inputs", "output", "allow", "map_location") if getattr(options, name)]
    if given:
        option = given[0].replace("inputs", "input").replace("_", "-")
        raise UsageError(f"--{option} is for archives, and '{options.target}' is no such file")
    return run_function(options)


def _run_archive(options: argparse.Namespace) -> int:
    if options.output:
        check_output(options.output)
    args, kwargs = read_arguments([*options.args, *options.inputs])
    method = load_method(options.target, options.method or "forward", options.allow, options.map_location)
    called = getattr(method, "forward", method)
    if isinstance(called, ScriptFunction):
        check_call(called, args, kwargs)
    torch.manual_seed(options.seed)
    try:
        with torch.no_grad():
            result = method(*args, **kwargs)
    except CompileError:
        raise
    except Exception as error:
        raise ProgramError from error
    if options.output:
        write_output(result, options.output)
    if options.json:
        print(json.dumps({"result": repr(result), "output": options.output}, indent=1))
    elif options.output:
        print(f"written to {options.output}")
    else:
        print(repr(result))
    return 0


def load_method(target: str, name: str, allow: list[str], map_location: str | None) -> Any:
    """A method of the module in an archive.

    Raises:
        UsageError: the module has none of that name.
    """
    module = load_archive(target, allow, map_location)
    method = getattr(module, name, None)
    if name == "forward" and callable(method):
        return module
    if not callable(method) or name in dir(torch.nn.Module):
        names = method_names(module)
        hint = did_you_mean(name, names) or f"there are: {', '.join(names) or 'none'}"
        raise UsageError(f"the module in {target} has no method '{name}'; {hint}")
    return method
