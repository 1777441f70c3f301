"""A module whose methods fail at known lines, reached by calls of every kind."""

from torch import Tensor, nn

import jitlite


class Table:
    def __init__(self, offset: int) -> None:
        self.offset = offset

    def at(self, k: int) -> int:
        return [1, 2][self.offset + k]  # Table.at


def element(numbers: list[int], k: int) -> int:
    return numbers[k]  # element


def forked(numbers: list[int], k: int) -> int:
    return element(numbers, k)  # forked


class Wide(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(77)  # Wide


class Calls(nn.Module):
    sizes: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.wide = Wide()
        self.sizes = {}

    def helper(self, x: Tensor) -> Tensor:
        return x.view(77)  # helper

    @jitlite.export
    def own_method(self, x: Tensor) -> Tensor:
        return self.helper(x)  # own_method

    @jitlite.export
    def submodule(self, x: Tensor) -> Tensor:
        wide = self.wide
        y = x + 1
        return wide(y)  # submodule

    @jitlite.export
    def of_object(self, x: Tensor) -> Tensor:
        table = Table(7)
        y = x + 1
        return y + table.at(3)  # of_object

    @jitlite.export
    def of_function(self, x: Tensor) -> Tensor:
        y = x + element([1, 2], 1)
        return y + element([1, 2], 8)  # of_function

    @jitlite.export
    def of_attribute(self, x: Tensor) -> Tensor:
        sizes = self.sizes
        y = x + 1
        return y + sizes["none"]  # of_attribute

    @jitlite.export
    def of_variable(self, x: Tensor) -> Tensor:
        sizes = {"one": x.dim()}
        sizes["two"] = 2
        return x + sizes["none"]  # of_variable

    @jitlite.export
    def of_fork(self, x: Tensor) -> Tensor:
        future = jitlite.fork(forked, [1], 8)  # of_fork
        return x + jitlite.wait(future)  # of_wait


EXPECTED = {
    "own_method": ["own_method", "helper"],
    "submodule": ["submodule", "Wide"],
    "of_object": ["of_object", "Table.at"],
    "of_function": ["of_function", "element"],
    "of_attribute": ["of_attribute"],
    "of_variable": ["of_variable"],
    "of_fork": ["of_wait", "of_fork", "of_fork", "forked", "element"],  # the archive has a function for the fork
}


def numbers_of(marks: list[str]) -> list[int]:
    """The lines of this file that end with these comments."""
    with open(__file__) as file:
        lines = [line.rstrip() for line in file]
    return [next(i for i, line in enumerate(lines, 1) if line.endswith(f"  # {mark}")) for mark in marks]


def shown_lines(text: str) -> list[int]:
    heads = [line for line in text.splitlines() if line.lstrip().startswith("File ")]
    assert all(f'File "{__file__}", line ' in head for head in heads), text
    return [int(head.split(", line ")[1].split(",")[0]) for head in heads]
