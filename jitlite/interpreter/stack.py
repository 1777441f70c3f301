"""Calls of operators with what is on the stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FrameType
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


def call_with(stack: list[Any], operator: Operator, count: int) -> None:
    """Call an operator with so many values from the stack; push its results."""
    arguments = pop_several(stack, count)
    push_results(stack, operator, operator.fn(*arguments))


_CALLS: dict[CodeType, Callable[[dict[str, Any]], Sequence[object]]] = {
    call_with.__code__: lambda names: names["arguments"],
    _one_from_one.__code__: lambda names: names["stack"][-1:],
    _one_from_two.__code__: lambda names: [names["stack"][-1], names["second"]],
    _one_from_three.__code__: lambda names: [names["stack"][-1], names["second"], names["third"]],
}


def arguments_in(failed: FrameType) -> Sequence[object]:
    """The arguments of an operator, from the frame of the instruction that called it; empty for another frame."""
    if failed.f_code in _CALLS:
        return _CALLS[failed.f_code](failed.f_locals)
    return ()


def pop_several(stack: list[Any], n: int) -> list[Any]:
    start = len(stack) - n
    values = stack[start:]
    del stack[start:]
    return values
