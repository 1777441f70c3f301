"""Ways out of arguments that do not fit: of another type, and keywords that there are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitlite.base.source import did_you_mean
from jitlite.ir import types as T
from jitlite.ir.schema import Argument
from jitlite.ir.types import Type

TEST_FOR_NONE: Final = "it may be None here: test `is not None` first, or assert it"
ALWAYS_NONE: Final = "it is None here; what stands under `if x is not None` is not compiled where x is always None"


def instead_of_keyword(name: str, names: Sequence[str]) -> str | None:
    """What to write instead of a keyword that is no parameter's; some are NumPy's."""
    if name in ("axis", "axes", "keepdims"):
        return f"write {'keepdim' if name == 'keepdims' else 'dim'} instead of {name}"
    return did_you_mean(name, names) or (f"its parameters are: {', '.join(names)}" if names else None)


def hint_for_argument(formal: Type, actual: Type, argument: Argument) -> str | None:
    """A way out of a wrong argument type."""
    if isinstance(formal, T.InterfaceType) and isinstance(actual, T.ClassType | T.InterfaceType):
        return T.why_not_interface(actual, formal)
    if argument.inferred:
        return f"'{argument.name}' is a Tensor because it has no annotation; annotate it"
    if actual is T.NONE:
        return ALWAYS_NONE
    if T.without_none(actual) is not actual and T.is_subtype(T.without_none(actual), formal):
        return TEST_FOR_NONE
    if argument.name == "dtype" and actual is T.STRING:
        return "a dtype is an attribute of torch: write torch.float32 for 'float32'"
    return hint_for_type(formal, actual)


def hint_for_type(formal: Type, actual: Type) -> str | None:
    """How to come from a value of one type to one of another."""
    numbers = T.UnionType.of([T.NUMBER, T.BOOL])
    if actual is T.ANY and formal is not T.ANY:
        return f"its type is not known here: ask first, `assert isinstance(value, {_spelled(formal)})`"
    if formal in (T.INT, T.FLOAT, T.BOOL, T.NUMBER) and T.is_subtype(actual, T.TENSOR):
        return "take its number: `x.item()`, or int(x), float(x), bool(x)"
    if T.without_none(formal) is T.DEVICE and actual is T.INT:
        return 'a device has a name: torch.device("cuda", 0)'
    if formal is T.INT and actual is T.FLOAT:
        return "convert it: `int(...)` cuts off what stands after the point, `round(...)` rounds; `a // b` is an int"
    if formal is T.STRING and T.is_subtype(actual, numbers):
        return "convert it: `str(...)`"
    if formal in (T.INT, T.FLOAT) and actual is T.STRING:
        return f"a text is no number: convert one that reads as such with {formal.annotation}(...)"
    if formal is T.TENSOR and T.is_subtype(actual, numbers):
        return "annotate it as a Tensor, or make one with torch.tensor(...)"
    return _hint_for_containers(formal, actual)


def _hint_for_containers(formal: Type, actual: Type) -> str | None:
    if formal is T.TENSOR and isinstance(actual, T.ListType) and actual.element in (T.INT, T.FLOAT, T.BOOL):
        return "a list has no arithmetic: compute with its elements, [... for x in xs], or with torch.tensor(xs)"
    if isinstance(actual, T.TupleType) and not isinstance(formal, T.TupleType):
        position = next((i for i, part in enumerate(actual.elements) if T.is_subtype(part, formal)), None)
        return None if position is None else f"it is a tuple: take a part of it, [{position}], or `a, b = ...`"
    if isinstance(formal, T.ListType) and isinstance(actual, T.ListType) and isinstance(actual.element, T.UnionType):
        return _hint_for_mixed(formal.element, actual.element)
    if isinstance(formal, T.ListType) and T.is_subtype(actual, formal.element):
        return "put it into a list: [...]"
    if formal == T.ListType.of(T.FLOAT) and actual == T.ListType.of(T.INT):
        return "a list has one type: write the numbers as floats ([1.0, 2.0]), or convert them: [float(v) for v in xs]"
    if isinstance(formal, T.ListType) and actual is T.ListType.of(T.TENSOR):
        return "an empty list is a List[Tensor] unless it is annotated: `xs: List[int] = []`"
    return None


def _hint_for_mixed(wanted: Type, found: T.UnionType) -> str:
    """How to come from a list of several types to one of a single type."""
    others = [part for part in found.members if not T.is_subtype(part, wanted)]
    told = f"all elements have to be {_spelled(wanted)}, and some are {' or '.join(p.annotation for p in others)}"
    of_part = hint_for_type(wanted, others[0]) if len(others) == 1 else None
    return f"{told}: {of_part}" if of_part else told


def _spelled(t: Type) -> str:
    return "torch.Tensor" if t is T.TENSOR else t.annotation
