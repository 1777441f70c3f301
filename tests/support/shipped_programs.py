"""Programs that one process pickles and another one, which lacks this file, runs.

Each case gives what is pickled and the arguments of a call. Executed as `python shipped_programs.py FILE`, this module
is `__main__`; with `--registered` it is imported, and cloudpickle is told to write it by value.
"""

from __future__ import annotations

import pickle
import sys
from enum import Enum
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor, nn

import jitlite

SCALE = 3.0


class Point(NamedTuple):
    a: Tensor
    b: int


class Colour(Enum):
    RED = 1
    BLUE = 2


@jitlite.script
class Counter:
    def __init__(self, n: int):
        self.n = n

    @property
    def next(self) -> int:
        return self.up() + 1

    @staticmethod
    def double(n: int) -> int:
        return 2 * n

    def up(self) -> int:
        self.n += 1
        return self.n


def scaled(x: Tensor) -> Tensor:
    return x * SCALE


@jitlite.script
def decorated(x: Tensor) -> Tensor:
    counter = Counter(2)
    return scaled(x) + counter.up() + counter.next + Counter.double(3)


@jitlite.script
def factorial(n: int) -> int:
    if n <= 1:
        return 1
    return n * factorial(n - 1)


def signed(x: Tensor, colour: Colour) -> Tensor:
    if colour == Colour.RED:
        return x
    return -x


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    @property
    def twice(self) -> Tensor:
        return self.w * 2

    def forward(self, x: Tensor) -> Tensor:
        return decorated(x) * self.twice


class Base(nn.Module):
    def shift(self, x: Tensor) -> Tensor:
        return x + 1


class Net(Base):
    names: List[str]

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.again = self.inner
        self.linear = nn.Linear(3, 3)
        self.names = ["a"]
        self.register_buffer("offset", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        p = Point(x, len(self.names))
        return self.shift(self.again(self.linear(self.inner(p.a)))) + self.offset + p.b

    @jitlite.export
    def other(self, n: int) -> int:
        return factorial(n)


class CallsPython(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.in_python(x)

    @jitlite.ignore
    def in_python(self, x: Tensor) -> Tensor:
        return x + scaled(x)


def make_local(k: int) -> Tuple[Any, nn.Module]:
    @jitlite.script
    def inner(x: Tensor) -> Tensor:
        return scaled(x) + k

    class Local(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return inner(x) + k

    return inner, Local()


def net() -> Any:
    torch.manual_seed(0)
    return jitlite.script(Net())


X = torch.arange(6.0).reshape(2, 3)
CASES: Dict[str, Callable[[], Tuple[Any, Tuple[Any, ...]]]] = {
    "function": lambda: (jitlite.script(scaled), (X,)),
    "decorated": lambda: (decorated, (X,)),
    "recursive": lambda: (factorial, (5,)),
    "enum": lambda: (jitlite.script(signed), (X, Colour.BLUE)),
    "module": lambda: (net(), (X,)),
    "method": lambda: (net().other, (4,)),
    "python method": lambda: (jitlite.script(CallsPython()), (X,)),
    "local function": lambda: (make_local(4)[0], (X,)),
    "local module": lambda: (jitlite.script(make_local(4)[1]), (X,)),
    "frozen": lambda: (jitlite.freeze(net().eval()), (X,)),
}


def main() -> None:
    import cloudpickle

    cases = CASES
    if "--registered" in sys.argv:
        import shipped_programs

        cloudpickle.register_pickle_by_value(shipped_programs)
        cases = shipped_programs.CASES
    pickled = {}
    for name, make in cases.items():
        called, args = make()
        pickled[name] = cloudpickle.dumps((called, args, called(*args)))
    with open(sys.argv[1], "wb") as file:
        pickle.dump(pickled, file)


if __name__ == "__main__":
    main()
