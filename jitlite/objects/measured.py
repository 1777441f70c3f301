"""What calls of a compiled function do and cost: explanations, profiles, calls that are counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from jitlite.executor.executor import Executor, code_for
from jitlite.executor.explain import Explanation, explain, explain_call
from jitlite.executor.line_profile import LineProfile, profile
from jitlite.interpreter import vm
from jitlite.interpreter.code import Code
from jitlite.objects.function_pages import FunctionOrigin


class Measurable(Protocol):
    """What is asked of a compiled function here."""

    @property
    def executor(self) -> Executor: ...

    @property
    def compiled_code(self) -> Code: ...

    @property
    def _origin(self) -> FunctionOrigin: ...

    def _bind(self, args: Sequence[object], kwargs: dict[str, object]) -> list[object]: ...


class Measured:
    """The methods of compiled functions that tell what calls do and cost."""

    __slots__ = ()

    def explain(self: Measurable, *args: object, **kwargs: object) -> Explanation:
        """What is done to the function, what is not and why, and what becomes of calls, in sentences.

        With arguments, the function is called with them. Without, the calls that there were are what is told of.
        """
        if args or kwargs:
            return explain_call(self.executor, self._bind(args, kwargs))
        return explain(self.executor)

    def profile(self: Measurable, *args: object, **kwargs: object) -> LineProfile:
        """Call the function once and measure its lines: count, time, operators, memory; and what compiling it costs.

        In a profiler of torch, the lines are ranges with the names of the script.

        Raises:
            Exception: whatever the call raises.
        """
        definition = self._origin.definition
        compile = None if definition is None else partial(self._origin.program.compile, definition)
        return profile(self.executor, self._bind(args, kwargs), compile)

    def run(self: Measurable, *args: object, step_limit: int | None = None, **kwargs: object) -> Any:
        """Call the function with at most `step_limit` instructions.

        Raises:
            StepLimit: where they do not suffice.
        """
        return vm.run(self.compiled_code, self._bind(args, kwargs), code_for, step_limit=step_limit)
