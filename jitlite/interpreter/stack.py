"""Calls of operators with what is on the stack."""

from __future__ import annotations

from typing import Any

from jitlite.interpreter.frames import CallFrame
from jitlite.interpreter.instruction_specs import (
    Handler,
)


def push_results(stack: list[Any], operator: Any, result: Any) -> None:
    if operator.spread:
        stack.extend(result)
    elif operator.outputs:
        stack.append(result)


def _one_from_one(frame: CallFrame, x: Any, n: int) -> None:
    stack = frame.stack
    stack[-1] = x(stack[-1])


def _one_from_two(frame: CallFrame, x: Any, n: int) -> None:
    stack = frame.stack
    second = stack.pop()
    stack[-1] = x(stack[-1], second)


def _one_from_three(frame: CallFrame, x: Any, n: int) -> None:
    stack = frame.stack
    third = stack.pop()
    second = stack.pop()
    stack[-1] = x(stack[-1], second, third)


CALL_FOR_ONE_RESULT: dict[int, Handler] = {1: _one_from_one, 2: _one_from_two, 3: _one_from_three}
"""What OP does for the commonest numbers of arguments: scalar code is made of these."""


def pop_several(stack: list[Any], n: int) -> list[Any]:
    start = len(stack) - n
    values = stack[start:]
    del stack[start:]
    return values
