"""The command `convert`: a program as something else, by the table `TARGETS`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from jitlite.api.to_onnx import to_onnx
from jitlite.api.to_stablehlo import to_stablehlo
from jitlite.base.source import CompileError
from jitlite.base.whole_files import replacing
from jitlite.cli.archives import is_archive
from jitlite.cli.commands import ProgramError, UsageError, argument, command
from jitlite.cli.inputs import check_can_be_written, read_arguments
from jitlite.cli.programs import ALLOW, EXAMPLES, HELP, OF_MODULES, WHAT, load_archive, names_archive, program_of
from jitlite.cli.terminal import working
from jitlite.export.to_fx.exported_program import to_exported
from jitlite.export.to_fx.fx_graph import to_fx
from jitlite.export.to_python.python_out import to_python, weights_path
from jitlite.loading.unset import unset_objects
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import ScriptModule

Compiled = ScriptFunction | ScriptModule
Written = dict[str, str]
"""What was written: paths by what they hold."""


@dataclass(frozen=True)
class Target:
    """Something that a program can become.

    Attributes:
        suffix: of the file that is written.
        write: writes it; is given the program, the options and the path.
        in_evaluation_mode: is a module set to evaluation mode before?
    """

    help: str
    suffix: str
    write: Callable[[Compiled, argparse.Namespace, Path], Written]
    also_writes: Callable[[Path], list[Path]] = lambda path: []
    in_evaluation_mode: bool = False


def _write_python(program: Compiled, options: argparse.Namespace, path: Path) -> Written:
    source, weights = to_python(program).save(path)
    return {"source": str(source), **({"weights": str(weights)} if weights else {})}


def _write_fx(program: Compiled, options: argparse.Namespace, path: Path) -> Written:
    made = to_fx(program)
    with replacing(path) as whole, open(whole, "wb") as file:
        torch.save(made, file)
    return {"graph module": str(path)}


def _write_exported(program: Compiled, options: argparse.Namespace, path: Path) -> Written:
    if not options.inputs:
        raise UsageError("--to exported needs an --input for each argument: torch.export is told the shapes by them")
    args, kwargs = read_arguments(options.inputs)
    try:
        exported = to_exported(program, args, kwargs)
    except CompileError:
        raise
    except Exception as error:  # what the program raises for these inputs, or what torch.export says
        raise ProgramError from error
    with replacing(path) as whole, open(whole, "wb") as file:  # its name would have to end in .pt2
        torch.export.save(exported, file)
    return {"exported program": str(path)}


def _write_for_engine(
    convert: Callable[[Compiled, list[object], Path, dict[str, list[int]] | bool], object],
    what: str,
    program: Compiled,
    options: argparse.Namespace,
    path: Path,
) -> Written:
    args, varying = _example_arguments(options), _dynamic_shapes(options.dynamic)
    try:
        convert(program, args, path, varying)
    except (ImportError, ValueError) as error:
        raise UsageError(str(error)) from None
    except CompileError:
        raise
    except Exception as error:  # what the program raises for these inputs
        raise ProgramError from error
    return {what: str(path)}


def _example_arguments(options: argparse.Namespace) -> list[object]:
    """The arguments by position.

    Raises:
        UsageError: there are none, or some by name.
    """
    if not options.inputs:
        raise UsageError(f"--to {options.to} needs an --input for each argument, which tells ranks, dtypes and sizes")
    args, kwargs = read_arguments(options.inputs)
    if kwargs:
        raise UsageError(f"--to {options.to} takes arguments by position, and '{next(iter(kwargs))}' is given by name")
    return args


def _dynamic_shapes(words: Sequence[str]) -> dict[str, list[int]] | bool:
    """Dimensions by the name of the argument: `x=0,2` for each.

    Raises:
        UsageError: a word is written otherwise.
    """
    found: dict[str, list[int]] = {}
    for word in words:
        name, equals, dims = word.partition("=")
        numbers = dims.split(",")
        if not (equals and name.isidentifier()) or not all(n.removeprefix("-").isdecimal() for n in numbers):
            raise UsageError(f"--dynamic {word}: write the argument and its dimensions, as in x=0,2")
        found[name] = [int(n) for n in numbers]
    return found or False


TARGETS: dict[str, Target] = {
    "python": Target("Python source that needs only torch, with its weights beside it", ".py", _write_python,
                     lambda path: [weights_path(path)]),
    "fx": Target("a torch.fx.GraphModule, written by torch.save", ".pt", _write_fx),
    "exported": Target("a program of torch.export", ".pt2", _write_exported),
    "onnx": Target("an ONNX model with its weights, in evaluation mode", ".onnx",
                   partial(_write_for_engine, to_onnx, "ONNX model"), in_evaluation_mode=True),
    "stablehlo": Target("a module of StableHLO with its weights, in evaluation mode", ".mlir",
                        partial(_write_for_engine, to_stablehlo, "StableHLO module"), in_evaluation_mode=True),
}  # fmt: skip


@command(
    "convert",
    "turn an archive or a function into something else",
    argument("target", metavar=WHAT, help=HELP),
    EXAMPLES,
    argument("--to", required=True, choices=TARGETS, help="; ".join(f"{n}: {t.help}" for n, t in TARGETS.items())),
    argument("-o", "--output", metavar="FILE", help="the file to write (default: the name of the archive)"),
    argument("--force", action="store_true", help="write over files that exist"),
    argument("--input", action="append", default=[], metavar="FILE", dest="inputs",
             help="an example argument, from a file or as for run; once for each"),
    argument("--dynamic", action="append", default=[], metavar="NAME=DIM,...",
             help="dimensions of an argument that may vary, for onnx and stablehlo: x=0,2"),
    *OF_MODULES,
    ALLOW,
    argument("--map-location", metavar="DEVICE", help="where to put the tensors of the archive"),
)  # fmt: skip
def convert(options: argparse.Namespace) -> int:
    """Write a program in another form."""
    target = TARGETS[options.to]
    options.inputs = [*options.args, *options.inputs]
    path = _output_path(options, target)
    program = _program_of(options) if names_archive(options.target) else program_of(options).whole
    if target.in_evaluation_mode and isinstance(program, torch.nn.Module):
        program.eval()
    try:
        with working(f"writing {path}"):
            written = target.write(program, options, path)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or path}: {error.strerror}") from None
    if options.json:
        print(json.dumps({"written": written}, indent=1))
    else:
        print("\n".join(f"{what}: {where}" for what, where in written.items()))
    return 0


def _program_of(options: argparse.Namespace) -> ScriptModule:
    """The module in an archive, read without running code of it where that gives all of it."""
    program = load_archive(options.target, options.allow, options.map_location, run_code=False)
    if any(unset_objects(program)):
        program = load_archive(options.target, options.allow, options.map_location)
    return program


def _output_path(options: argparse.Namespace, target: Target) -> Path:
    """Where to write.

    Raises:
        UsageError: there is something already, or the name is not right.
    """
    if options.output:
        path = Path(options.output)
    else:
        name = options.target if is_archive(options.target) else options.target.rpartition(":")[2]
        path = Path(Path(name).stem.replace("-", "_")).with_suffix(target.suffix)
    check_can_be_written(path)
    if path.suffix != target.suffix:
        raise UsageError(f"--to {options.to} writes {target.suffix} files, not '{path.name}'")
    for file in (path, *target.also_writes(path)):
        _check_writable(file, Path(options.target), options.force)
    return path


def _check_writable(file: Path, source: Path, force: bool) -> None:
    check_can_be_written(file)
    if file.exists() and source.exists() and file.samefile(source):
        raise UsageError(f"{file} is the archive itself; say where to write with -o")
    if file.exists() and not force:
        raise UsageError(f"{file} exists; say where to write with -o, or --force to write over it")
