"""Calls of operators with what is on the stack."""

from __future__ import annotations

from types import FrameType
from typing import Any

from jitlite.interpreter.code import Operator
from jitlite.interpreter.frames import CallFrame
from jitlite.interpreter.instruction_specs import (
    Handler,
)


def push_results(stack: list[Any], operator: Operator, result: Any) -> None:
    if operator.spread:
        stack.extend(result)
    elif operator.outputs:
        stack.append(result)


def _one_from_one(frame: CallFrame, x: Any, n: int) -> None:
    stack = frame.stack
    first = stack[-1]
    stack[-1] = x(first)


def _one_from_two(frame: CallFrame, x: Any, n: int) -> None:
    stack = frame.stack
    second = stack.pop()
    first = stack[-1]
    stack[-1] = x(first, second)


def _one_from_three(frame: CallFrame, x: Any, n: int) -> None:
    stack = frame.stack
    third = stack.pop()
    second = stack.pop()
    first = stack[-1]
    stack[-1] = x(first, second, third)


CALL_FOR_ONE_RESULT: dict[int, Handler] = {1: _one_from_one, 2: _one_from_two, 3: _one_from_three}
"""What OP does for the commonest numbers of arguments: scalar code is made of these."""


def call_with(stack: list[Any], operator: Operator, count: int) -> None:
    """Call an operator with so many values from the stack; push its results."""
    arguments = pop_several(stack, count)
    push_results(stack, operator, operator.fn(*arguments))


_CALLS = {f.__code__ for f in (call_with, *CALL_FOR_ONE_RESULT.values())}


def arguments_in(failed: FrameType) -> list[object]:
    """The arguments of an operator, from the frame of the instruction that called it; empty for another frame.

    They are its variables: where the exception has been handled meanwhile, the stack has other values.
    """
    if failed.f_code not in _CALLS:
        return []
    names = failed.f_locals
    return [*names.get("arguments", ()), *(names[n] for n in ("first", "second", "third") if n in names)]


def pop_several(stack: list[Any], n: int) -> list[Any]:
    start = len(stack) - n
    values = stack[start:]
    del stack[start:]
    return values
