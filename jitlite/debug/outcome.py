"""All that a call does, written down, so that two ways to run a program can be compared."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitlite.base.records import Record
from jitlite.debug.equality import difference


class Outcome(Record, eq=True, frozen=False):
    """What a call did.

    Attributes:
        result: what it gave, None if it raised.
        raised: the name of the class of the exception, "" if it raised none.
        arguments: what the arguments hold afterwards.
        printed: what it printed.
        sharing: which mutable objects in the result and the arguments are one and the same.
    """

    result: Any
    raised: str
    arguments: list[Any]
    printed: str
    sharing: list[int]

    @property
    def told(self) -> tuple[Any, ...]:
        """Everything, for comparing."""
        return self.result, self.raised, self.arguments, self.printed, self.sharing


def observe(function: Callable[..., object], arguments: Sequence[object]) -> Outcome:
    """Call a function with a copy of the arguments, and the same random numbers each time; write down what it does."""
    arguments = copied(list(arguments))
    torch.default_generator.manual_seed(1)  # torch.manual_seed takes ten times as long
    printed, result, raised = io.StringIO(), None, ""
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*arguments)
        except Exception as error:
            raised = type(error).__name__
    return Outcome(result, raised, list(arguments), printed.getvalue(), sharing([result, arguments]))


def copied(value: object) -> Any:
    """A deep copy; a tensor that is computed with gradients is copied as one that is not."""
    try:
        return copy.deepcopy(value)
    except RuntimeError:
        pass  # torch copies leaves only
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, list):
        return [copied(v) for v in value]
    if type(value) is tuple:
        return tuple(copied(v) for v in value)
    return {k: copied(v) for k, v in value.items()} if isinstance(value, dict) else value


def sharing(root: object) -> list[int]:
    """For every mutable object below `root`, in order: the position of the first one that is the same object.

    Tensors are the same where they are one object, or where they show the same memory.
    """
    first: dict[Any, int] = {}
    pattern: list[int] = []
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, list | dict | torch.Tensor):
            pattern.append(first.setdefault(_identity(item), len(pattern)))
        if isinstance(item, list | tuple):
            todo.extend(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
    return pattern


def _identity(item: object) -> Any:
    if isinstance(item, torch.Tensor) and item.layout is torch.strided:
        return "memory", item.untyped_storage().data_ptr()
    return id(item)


def compare(expected: Outcome, got: Outcome) -> str | None:
    """None where two calls did the same, else a sentence on what differs first."""
    for what in ("raised", "result", "printed", "arguments", "sharing"):
        found = difference(getattr(expected, what), getattr(got, what), _WORDS[what])
        if found is not None:
            return found
    return None


_WORDS = {
    "raised": "exception",
    "result": "result",
    "printed": "printed text",
    "arguments": "arguments afterwards",
    "sharing": "which objects are one",
}
