"""Dynamo, the compiler behind `torch.compile`, leaves scripts alone.

Under `torch.compile` Dynamo reads every Python function that is called. jitlite's own functions would give it nothing
but guards on the interpreter's insides, so it is told to call scripts as they are: the graph of the program around them
ends before the call and another begins after it.

Two marks are needed. Dynamo asks the attribute before it inlines a call; for a call that it did not inline it asks the
code object, and all that is called from there then runs undisturbed. Importing Dynamo takes a second, so neither mark
is made by `torch.compiler.disable`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from jitlite.base import torch_internals

F = TypeVar("F")
REASON = "jitlite runs scripts itself"


def unseen_by_dynamo(function: F) -> F:
    """The same function, marked: Dynamo neither inlines it nor compiles what it calls."""
    marked: Any = function
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = REASON
    torch_internals.leave_code_to_python(marked.__code__)
    return function


def is_unseen_by_dynamo(function: object) -> bool:
    """Is the function marked?"""
    return hasattr(function, "_torchdynamo_disable")
