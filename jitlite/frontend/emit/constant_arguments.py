"""Arguments of functions of itertools that say how many elements the tuples of the result have: `repeat`, `r`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.source import SourceRange
from jitlite.frontend.emit import iterable_library as iterables
from jitlite.frontend.emit.values import Args
from jitlite.ir.graph import constant_of
from jitlite.operators.overloads import NamedValue

_Function = Callable[..., object]

_OF_THREE: dict[_Function, _Function] = {
    iterables.combinations: iterables.combinations_of_three, iterables.permutations: iterables.permutations_of_three,
}  # fmt: skip
_OF_TWO = (*_OF_THREE, iterables.combinations_with_replacement)
_MOST_FACTORS = 4
"""So many iterables `iterables.product` takes."""


def by_constants(function: _Function, range: SourceRange, args: Args, kwargs: Args) -> tuple[_Function, Args, Args]:
    """The function and the arguments that a call with a constant for `repeat` or `r` means.

    Raises:
        CompileError: for a number that no function of the library is written for.
    """
    if function is iterables.product:
        return _product(function, range, args, kwargs)
    return _selection(function, range, args, kwargs) if function in _OF_TWO else (function, args, kwargs)


def _product(function: _Function, range: SourceRange, args: Args, kwargs: Args) -> tuple[_Function, Args, Args]:
    repeat = next((k for k in kwargs if k.name == "repeat"), None)
    times: Any = 1 if repeat is None else _constant(repeat)
    count = len(args) * times if isinstance(times, int) else 0
    if not 0 < count <= _MOST_FACTORS:
        raise WRONG_ARGUMENTS(
            f"itertools.product is compiled for one to {_MOST_FACTORS} iterables, repeated a constant number of times",
            range, hint="write the loops: `[(a, b) for a in xs for b in ys]`",
        )  # fmt: skip
    return function, [*args] * times, [k for k in kwargs if k is not repeat]


def _selection(function: _Function, range: SourceRange, args: Args, kwargs: Args) -> tuple[_Function, Args, Args]:
    given = [*args[1:2], *(k for k in kwargs if k.name == "r")]
    number = _constant(given[0]) if given else 0
    if number is None or number == 2:
        return function, args, kwargs
    if number == 3 and function in _OF_THREE:
        return _OF_THREE[function], args[:1], _without(kwargs, given)
    raise WRONG_ARGUMENTS(
        f"itertools.{function.__name__} is compiled for pairs and triples only", range,
        hint="give 2 for the number of elements, or write the loops",
    )  # fmt: skip


def _without(arguments: Args, given: Args) -> Args:
    return [a for a in arguments if a not in given]


def _constant(argument: NamedValue) -> object:
    return argument.constant if argument.value is None else constant_of(argument.value, None)
