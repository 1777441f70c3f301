"""Example inputs of traced modules, read from an archive: what they were traced with, for tools that ask for sizes."""

from __future__ import annotations

import torch

from jitlite.archive.errors import ArchiveError
from jitlite.frontend.tracing.trace_mode import example_type
from jitlite.ir.values import TRACED_INPUTS, class_type_of
from jitlite.loading.loaded_module import UnpickledModule

MEMBER = "traced_inputs"


def restore_inputs(module: object, stored: object) -> None:
    """Let a module keep its example inputs, and the graphs of its methods show what their parameters were.

    Args:
        stored: lists of arguments by the name of the method, as the archive has them.

    Raises:
        ArchiveError: they are not of that form, or no arguments of these methods.
        CompileError: one of the methods does not compile.
    """
    known = class_type_of(module)
    if not isinstance(module, UnpickledModule) or known is None or not isinstance(stored, dict):
        raise ArchiveError("example inputs are a dict from the names of methods", f"{MEMBER}.pkl")
    for name, given in stored.items():
        method = known.methods.get(name) if isinstance(name, str) else None
        if method is None or not isinstance(given, list | tuple):
            raise ArchiveError(f"{name!a} is no method with example inputs", f"{MEMBER}.pkl")
        parameters = known.definition.program.ready(method).graph.inputs[1:]
        if len(parameters) != len(given):
            raise ArchiveError(
                f"{len(given)} example inputs are there for the {len(parameters)} parameters of {name}",
                f"{MEMBER}.pkl",
            )
        for value, example in zip(parameters, given, strict=True):
            if isinstance(example, torch.Tensor):
                value.example_type = example_type(example)
    vars(module)[TRACED_INPUTS] = {name: list(given) for name, given in stored.items()}
