"""What tensors were seen in the runs of a graph with `prim::profile` nodes.

A `Profile` has one `ProfileRecorder` for each profiled value. What several runs see is merged: a fact on which they
agree stays, a dimension that differs becomes symbolic. Two dimensions that were equal in every run share a symbol,
written SS(-1), SS(-2), ... as in TorchScript.
"""

from __future__ import annotations

from jitlite.interpreter.guards import tensor_type_of
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type

_MOST_SHAPES = 64
"""Types remembered for a value. A loop may compute it thousands of times: then nothing is taken to be known."""


class ProfileRecorder:
    """The types seen of one value. Call it with a value to have it seen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._found: list[T.TensorType] = []

    def __call__(self, value: object) -> None:
        if len(self._found) < _MOST_SHAPES:
            self._found.append(tensor_type_of(value, sizes=True))
        elif self._found[-1] is not T.TENSOR:
            self._found.append(T.TENSOR)

    @property
    def seen(self) -> Type | None:
        """On what all types agree that were seen; None if none was."""
        return T.unify_all(self._found)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes in the order in which they were seen."""
        return [tuple(s for s in t.sizes if s is not None) for t in self._found if t.sizes is not None]


class Profile:
    """What was seen of every value."""

    def __init__(self) -> None:
        self.recorders: dict[Value, ProfileRecorder] = {}

    def recorder(self, value: Value) -> ProfileRecorder:
        """The recorder of a value of the graph that is being instrumented."""
        return self.recorders.setdefault(value, ProfileRecorder(value.name))

    def type_of(self, value: Value) -> Type | None:
        """The merged type of a value, None where it was never seen."""
        found = self.recorders.get(value)
        return None if found is None else found.seen

    def describe(self) -> dict[str, Type]:
        """The merged types by name of value, with symbols for dimensions that differ from run to run."""
        numbers: dict[tuple[int, ...], int] = {}
        return {r.name: _with_symbols(r, numbers) for r in self.recorders.values() if r.seen is not None}


def _with_symbols(recorder: ProfileRecorder, numbers: dict[tuple[int, ...], int]) -> Type:
    """What was seen; `numbers` has the symbol for the sizes that a dimension had, run by run."""
    t = recorder.seen
    assert isinstance(t, T.TensorType)
    if t.sizes is None:
        return t
    shapes = recorder.shapes
    symbols = [
        numbers.setdefault(tuple(shape[i] for shape in shapes), len(numbers) + 1) if size is None else None
        for i, size in enumerate(t.sizes)
    ]
    return T.TensorType.of(t.dtype, t.sizes, t.strides, t.device, t.requires_grad, symbols)
