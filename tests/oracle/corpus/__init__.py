"""Small programs, one feature or two each, that torch.jit accepts and that run without error on their arguments.

A module a subject. `EXAMPLES` has every function with its arguments:

    @example((1, 2), (-3, 4))
    def difference(a: int, b: int) -> int:
        return a - b

    for item in EXAMPLES:
        for arguments in item.arguments():
            item.function(*arguments)
"""

import copy
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Example:
    """A function and what it is called with."""

    function: Callable[..., Any]
    originals: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        """`module.function`, unique in the corpus."""
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"

    def arguments(self) -> Iterator[tuple[Any, ...]]:
        """Argument tuples, made afresh, so that a function may change them."""
        for original in self.originals:
            yield copy.deepcopy(original)


EXAMPLES: list[Example] = []


def example(*arguments: tuple[Any, ...]) -> Callable[[F], F]:
    """Enter a function in the corpus, to be called with each of the tuples."""

    def register(function: F) -> F:
        EXAMPLES.append(Example(function, arguments))
        return function

    return register


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
