"""What runs the functions that operators call, and programs whose functions it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitlite.compiler.program import Program
from jitlite.executor.executor import executor_of
from jitlite.ir.unit import Function


class ExecutorEngine:
    """Runs functions by their executors' plans."""

    def run(self, function: Function, arguments: Sequence[object]) -> Any:
        return executor_of(function).run(arguments)

    def __reduce__(self) -> str:
        return "ENGINE"


ENGINE = ExecutorEngine()


def new_program() -> Program:
    """A program with nothing in it, whose functions are run by their executors."""
    return Program(ENGINE)
