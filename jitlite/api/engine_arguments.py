"""The arguments of `optimize`, `compare`, `to_onnx`, `to_stablehlo`, and what is said where their types are wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import torch

from jitlite.api.script import script
from jitlite.base.source import CompileError
from jitlite.engines.engine import Engine
from jitlite.objects.function import ScriptFunction


def _wrong(name: str, expected: str, found: object) -> TypeError:
    return TypeError(f"{name}: expected {expected}, got {type(found).__name__}")


def callable_model(model: object) -> Callable[..., object]:
    """A model as what can be called: a module as it is, of a function its script if there is one.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(model, torch.nn.Module | ScriptFunction):
        return cast(Callable[..., object], model)
    if isinstance(model, type) or not callable(model):
        hint = "; call the class to make a module" if isinstance(model, type) else ""
        raise TypeError(f"model: expected an nn.Module or a function, got {_described(model)}{hint}")
    try:
        return cast(Callable[..., object], script(model))
    except CompileError:
        return cast(Callable[..., object], model)  # Python that a trace may know


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def example_arguments(inputs: object) -> tuple[object, ...]:
    """The arguments of an example: a tensor is the only one.

    Raises:
        TypeError: it is neither a tensor nor a tuple or list of arguments.
    """
    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    if not isinstance(inputs, tuple | list):
        raise _wrong("inputs", "a tuple of arguments or a single tensor", inputs)
    return tuple(inputs)


def file_path(path: object) -> Path | None:
    """Where something is written, if anywhere.

    Raises:
        TypeError: it is no path.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise _wrong("path", "a path (str or os.PathLike)", path)
    return Path(path)


def texts(name: str, found: object, of_what: str) -> tuple[str, ...]:
    """Several texts.

    Args:
        name: of the argument that they are.
        found: what was given.
        of_what: what the texts are, for the message.

    Raises:
        TypeError: it is no sequence of texts. A single text is none, for its letters would be taken one by one.
    """
    if isinstance(found, str) or not isinstance(found, Sequence | set | frozenset):
        raise _wrong(name, f"a sequence of {of_what}", found)
    for text in found:
        if not isinstance(text, str):
            raise _wrong(name, f"a sequence of {of_what}", text)
    return tuple(found)


def check_engine(engine: object) -> None:
    """See that something may be an engine.

    Raises:
        TypeError: it is neither a name nor an `Engine`.
    """
    if isinstance(engine, str | Engine):
        return
    hint = "; call the class to make one" if isinstance(engine, type) else ""
    raise TypeError(f"engine: expected the name of an engine or an Engine, got {_described(engine)}{hint}")


def check_number(name: str, found: object) -> None:
    """See that something is a number.

    Raises:
        TypeError: it is none.
    """
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise _wrong(name, "a number", found)
