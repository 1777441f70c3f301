"""Arguments of calls from files: NumPy's arrays and torch's tensors; and results to files."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from jitlite.base.source import CompileError
from jitlite.base.whole_files import replacing
from jitlite.cli.commands import UsageError
from jitlite.cli.literals import parse_value

try:
    import numpy
except ImportError:  # torch works without it
    numpy = None  # type: ignore[assignment]

_SUFFIXES = (".npy", ".npz", ".pt")


def read_inputs(words: Sequence[str]) -> list[Any]:
    """The values that words stand for: a file, of which an `.npz` has one for each of its arrays, or a literal.

    Raises:
        UsageError: a word is neither, or its file cannot be read.
    """
    found: list[Any] = []
    for word in words:
        path = Path(word)
        if path.suffix in _SUFFIXES:
            found += _read(path)
            continue
        try:
            found.append(parse_value(word))
        except CompileError as error:
            raise UsageError(str(error)) from None
    return found


def read_arguments(words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that words stand for: those by position, and those as `name=WORD`.

    Raises:
        UsageError: as `read_inputs`, and where `name=` is given a file of several arrays.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for word in words:
        name, equals, rest = word.partition("=")
        if not (equals and name.isidentifier()) or rest.startswith("="):
            args += read_inputs([word])
            continue
        found = read_inputs([rest])
        if len(found) != 1:
            raise UsageError(f"{rest} has {len(found)} arrays, and '{name}' is one argument")
        kwargs[name] = found[0]
    return args, kwargs


def _read(path: Path) -> list[Any]:
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    try:
        if path.suffix == ".pt":
            return [torch.load(path, weights_only=True)]
        array = _numpy(path).load(path, allow_pickle=False)
        arrays = [array[name] for name in array.files] if path.suffix == ".npz" else [array]
        return [torch.from_numpy(a) for a in arrays]
    except (OSError, ValueError, TypeError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        text = str(error).partition("\n")[0]
        raise UsageError(f"cannot read {path}: {text}") from None


def _numpy(path: Path) -> Any:
    if numpy is None:
        raise UsageError(f"{path} needs numpy, which is not installed; use a .pt file")
    return numpy


def check_can_be_written(path: Path) -> None:
    """See that there can be a file of this name, before anything is computed.

    Raises:
        UsageError: it is a folder, or would be in none.
    """
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")


def check_output(name: str) -> None:
    """See that a result can be written to a file of this name, before anything is computed.

    Raises:
        UsageError: it cannot.
    """
    path = Path(name)
    if path.suffix not in _SUFFIXES and not path.is_dir():
        raise UsageError(f"--output is to end in {', '.join(_SUFFIXES)}, not '{path.suffix}'")
    check_can_be_written(path)
    if path.suffix != ".pt":
        _numpy(path)


def write_output(value: Any, name: str) -> None:
    """Write a result: one tensor to `.npy`, several to `.npz`, anything to `.pt`.

    Raises:
        UsageError: the file cannot hold it.
    """
    path = Path(name)
    if path.suffix == ".pt":
        with replacing(path) as made, open(made, "wb") as file:
            torch.save(value, file)
        return
    tensors = list(value) if isinstance(value, tuple | list) and path.suffix == ".npz" else [value]
    if not all(isinstance(t, torch.Tensor) for t in tensors):
        raise UsageError(f"{path} cannot hold a result of {type(value).__name__}; write it to a .pt file")
    try:
        arrays = [t.detach().cpu().numpy() for t in tensors]
    except (TypeError, RuntimeError) as error:
        raise UsageError(f"{path} cannot hold the result: {error}; write it to a .pt file") from None
    with replacing(path) as made, open(made, "wb") as file:
        if path.suffix == ".npy":
            _numpy(path).save(file, arrays[0], allow_pickle=False)
        else:
            _numpy(path).savez(file, *arrays)
