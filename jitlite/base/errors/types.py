"""Kinds of errors: types of values."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError

WRONG_TYPE = ErrorKind(
    CompileError,
    "J0201",
    "value of another type",
    """
    A value is not of the type that is declared for the place where it goes: a variable or an attribute with
    annotation, the result of a function, an argument.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> str:
    return n
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> str:
    return str(n)

print(f(3))
""",
)

CHANGED_TYPE = ErrorKind(
    CompileError,
    "J0202",
    "variable that changes its type",
    """
    A variable that is set before a branch or a loop keeps its type inside, as both ways have to go on with one type.
    Use another name, or give the first assignment an annotation that has room for both. An empty list is a
    List[Tensor] unless it is annotated.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> str:
    shown = n
    if n > 3:
        shown = "many"
    return str(shown)
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> str:
    shown = str(n)
    if n > 3:
        shown = "many"
    return shown

print(f(2), f(5))
""",
)

RETURN_TYPES = ErrorKind(
    CompileError,
    "J0203",
    "returns of different types",
    """
    Two return statements of a function give values of types that are not one. Annotate the result, with Optional
    where one of them is None, or with Union.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int):
    if n > 3:
        return "many"
    return n
""",
    right="""
import jitlite
from typing import Union

@jitlite.script
def f(n: int) -> Union[int, str]:
    if n > 3:
        return "many"
    return n

print(f(2), f(5))
""",
)

MISSING_RETURN = ErrorKind(
    CompileError,
    "J0204",
    "function that may end without a result",
    """
    The function is annotated with a result, and one way through it reaches its end without `return`. Python gives
    None there, which is not of that type.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    if n > 3:
        return n
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    if n > 3:
        return n
    return 3

print(f(2), f(5))
""",
)

NO_CONDITION = ErrorKind(
    CompileError,
    "J0205",
    "condition that is neither true nor false",
    """
    What stands as a condition, or as an argument of bool(), is of a type that the compiler cannot make a bool.
    Compare it: `len(xs) > 0`, `x is not None`, `n != 0`.
    """,
    wrong="""
import jitlite
import torch

@jitlite.script
def f(d: torch.device) -> int:
    if d:
        return 1
    return 0
""",
    right="""
import jitlite
import torch

@jitlite.script
def f(d: torch.device) -> int:
    if d.type == "cpu":
        return 1
    return 0

print(f(torch.device("cpu")))
""",
)

OPERANDS = ErrorKind(
    CompileError,
    "J0206",
    "operator that a class does not define",
    """
    The operands of an operator such as + or < are objects whose classes do not define it. Give the class the method
    that Python would call, such as __add__ or __lt__.
    """,
    wrong="""
import jitlite

class Money:
    def __init__(self, cents: int):
        self.cents = cents

@jitlite.script
def f(n: int) -> int:
    return (Money(n) + Money(1)).cents
""",
    right="""
import jitlite

class Money:
    def __init__(self, cents: int):
        self.cents = cents

    def __add__(self, other: "Money") -> "Money":
        return Money(self.cents + other.cents)

@jitlite.script
def f(n: int) -> int:
    return (Money(n) + Money(1)).cents

print(f(3))
""",
)

NOT_ITERABLE = ErrorKind(
    CompileError,
    "J0207",
    "value that cannot be iterated over",
    """
    A for loop, a comprehension or an unpacking takes lists, tuples, dicts, strings, tensors, ranges, what enumerate
    and zip give of them, and containers of modules. To go through numbers, write range(n).
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    total = 0
    for i in n:
        total += i
    return total
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total

print(f(4))
""",
)

NO_INDEX = ErrorKind(
    CompileError,
    "J0208",
    "value that has no elements, or not this one",
    """
    Tensors, lists, tuples, dicts, strings and containers of modules have elements. A tuple, whose elements may be of
    different types, takes an index that is known when the program is compiled, and so do containers of modules.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(t: tuple[int, str], i: int) -> str:
    return str(t[i])
""",
    right="""
import jitlite

@jitlite.script
def f(t: tuple[int, str], i: int) -> str:
    if i == 0:
        return str(t[0])
    return str(t[1])

print(f((3, "a"), 0), f((3, "a"), 1))
""",
)

MIXED_ELEMENTS = ErrorKind(
    CompileError,
    "J0209",
    "container of several types",
    """
    The elements of a list, and the keys and values of a dict, are of one type each, which need not be written where
    they agree. For values that belong together and differ in type use a tuple, a NamedTuple or a class; or annotate
    the container with a Union.
    """,
    wrong="""
import jitlite

@jitlite.script
def f() -> int:
    config = {"layers": 3, 1: 4}
    return config["layers"]
""",
    right="""
import jitlite
from typing import NamedTuple

class Config(NamedTuple):
    layers: int
    name: str

@jitlite.script
def f() -> int:
    config = Config(3, "small")
    return config.layers

print(f())
""",
)

NO_KEY = ErrorKind(
    CompileError,
    "J0210",
    "type that cannot be a key",
    """
    The keys of a dict are strings, ints, floats, complex numbers, bools, devices, tensors, members of enums, or tuples
    of these.
    """,
    wrong="""
import jitlite
from typing import Dict, List

@jitlite.script
def f(d: Dict[List[int], int]) -> int:
    return len(d)
""",
    right="""
import jitlite
from typing import Dict

@jitlite.script
def f(d: Dict[str, int]) -> int:
    return len(d)

print(f({"a": 1}))
""",
)

EMPTY_CONTAINER = ErrorKind(
    CompileError,
    "J0211",
    "empty container of an unknown type",
    """
    An empty list or dict stands where several types of containers would do, and it has no elements to tell which of
    them is meant. Give a variable the annotation of one type, and use that.
    """,
    wrong="""
import jitlite
from typing import Dict, Union

@jitlite.script
def f() -> int:
    d: Union[Dict[str, int], Dict[str, float]] = {}
    return 0
""",
    right="""
import jitlite
from typing import Dict

@jitlite.script
def f() -> int:
    d: Dict[str, int] = {}
    return len(d)

print(f())
""",
)

UNPACKING = ErrorKind(
    CompileError,
    "J0212",
    "unpacking into another number of names",
    """
    The number of names on the left is not the number of values on the right. How many values a tensor or a list has
    is not known when the program is compiled; where it says so, ask for the elements by index.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(t: tuple[int, int, int]) -> int:
    a, b = t
    return a + b
""",
    right="""
import jitlite

@jitlite.script
def f(t: tuple[int, int, int]) -> int:
    a, b, _ = t
    return a + b

print(f((1, 2, 3)))
""",
)

NOT_SORTABLE = ErrorKind(
    CompileError,
    "J0213",
    "values that have no order",
    """
    sort() and sorted() take lists of numbers, strings, tensors, tuples of these, and objects whose class has a method
    __lt__ that takes an object of the class and gives a bool.
    """,
    wrong="""
import jitlite
from typing import Dict, List

@jitlite.script
def f(xs: List[Dict[str, int]]) -> List[Dict[str, int]]:
    return sorted(xs)
""",
    right="""
import jitlite
from typing import Dict, List

@jitlite.script
def f(xs: List[Dict[str, int]]) -> List[int]:
    return sorted([x["rank"] for x in xs])

print(f([{"rank": 2}, {"rank": 1}]))
""",
)

NO_ASSIGNMENT = ErrorKind(
    CompileError,
    "J0214",
    "target that cannot be assigned to",
    """
    Variables, attributes, elements of lists, dicts and tensors, and tuples of these can be assigned to. Strings and
    tuples do not change.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(t: tuple[int, int]) -> int:
    t[0] = 5
    return t[0]
""",
    right="""
import jitlite

@jitlite.script
def f(t: tuple[int, int]) -> int:
    t = (5, t[1])
    return t[0]

print(f((1, 2)))
""",
)

TENSOR_INDEX = ErrorKind(
    CompileError,
    "J0215",
    "index that tensors do not take",
    """
    The index of a tensor is made of ints, slices, None, `...` (once), tensors of ints or bools, lists of ints and
    bools.
    """,
    wrong="""
import jitlite
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return x["first"]
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return x[0]

print(f(torch.ones(2)))
""",
)
