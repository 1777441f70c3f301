"""The sizes of an operator's results: the rules of `propagate_shapes`, given lists of sizes for tensors.

output_sizes("aten::conv2d", [1, 16, 5, 10], [33, 16, 3, 3], None, [2, 2])   is   [1, 33, 2, 4]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitlite.analysis.result_types import result_sizes
from jitlite.ir import types as T
from jitlite.ir.ops import Effect, Op, lookup
from jitlite.ir.schema import Argument
from jitlite.operators.tensor_lattice import Fact, Symbols, TensorFact, fact_of_constant


def _are_known(sizes: Sequence[object] | None) -> bool:
    return sizes is not None and all(isinstance(d, int) for d in sizes)


def output_sizes(kind: str, *arguments: object, **named: object) -> Any:
    """The sizes of the result, or a tuple with those of each result.

    Args:
        kind: the operator; of its overloads, the first that writes nothing and whose sizes these arguments tell.
        arguments: as the operator's own, but for a tensor the list of its sizes.

    Raises:
        ValueError: the arguments do not fit, or what is known does not tell the sizes.
    """
    for op in lookup(kind):
        facts = None if op.effect is Effect.WRITE else _facts(op, arguments, named)
        sizes = None if facts is None else result_sizes(op, facts, Symbols())
        if sizes is not None and all(map(_are_known, sizes)):
            found = tuple(list(s) for s in sizes if s is not None)
            return found[0] if len(found) == 1 else found
    raise ValueError(f"the sizes of the results of {kind} are not known of these arguments")


def _facts(op: Op, arguments: Sequence[object], named: Mapping[str, object]) -> list[Fact] | None:
    """What is known about each argument of the operator; None if they do not fit."""
    formals = op.schema.arguments
    given = {**dict(zip((a.name for a in formals), arguments, strict=False)), **named}
    if len(arguments) > len(formals) or len(given) != len(arguments) + len(named):
        return None
    if not given.keys() <= {a.name for a in formals}:
        return None
    if any(a.name not in given and not a.has_default for a in formals):
        return None
    return [_fact(a, given.get(a.name, a.default)) for a in formals]


def _fact(formal: Argument, value: Any) -> Fact:
    t = formal.type.element if isinstance(formal.type, T.OptionalType) else formal.type
    if isinstance(t, T.TensorType) and isinstance(value, list | tuple):
        return TensorFact(dims=tuple(value))
    if isinstance(t, T.ListType) and isinstance(t.element, T.TensorType):
        return tuple(TensorFact(dims=tuple(sizes)) for sizes in value)
    return fact_of_constant(value)
