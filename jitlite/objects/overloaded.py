"""Methods with declared overloads as Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitlite.archive.tensor_identity import collecting_weights
from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.objects.function import ScriptMethod


class OverloadedMethod:
    """A method with declared overloads: a call goes to the first that takes the arguments."""

    def __init__(self, name: str, candidates: Sequence[ScriptMethod]) -> None:
        self.__name__ = name
        self.candidates = list(candidates)
        self._call = collecting_weights(self._call_first_that_fits, candidates[0].owner)

    @unseen_by_dynamo
    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._call(*args, **kwargs)

    def _call_first_that_fits(self, *args: object, **kwargs: object) -> Any:
        reasons = []
        exact = [c for c in self.candidates if c._fits(args, kwargs)]
        for candidate in (*exact, *self.candidates):
            try:
                bound = candidate._bind(args, kwargs)
            except RuntimeError as error:
                reasons.append(str(error).splitlines()[0])
                continue
            return candidate._run(bound)
        raise RuntimeError("\n".join([f"no overload of '{self.__name__}' takes these arguments:", *reasons]))
