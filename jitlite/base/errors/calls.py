"""Kinds of errors: calls and their arguments."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError, NotSupportedError

WRONG_ARGUMENTS = ErrorKind(
    CompileError,
    "J0301",
    "arguments that do not fit",
    """
    No signature of the function takes arguments of these types. The signature that fits best is shown first, with
    what it expected and what it was given. A parameter without annotation is a Tensor.
    """,
    wrong="""
import jitlite
import torch

@jitlite.script
def f(n: int) -> int:
    return torch.relu(n)
""",
    right="""
import jitlite
import torch

@jitlite.script
def f(n: int) -> torch.Tensor:
    return torch.relu(torch.tensor(n))

print(f(3))
""",
)

WRONG_COUNT = ErrorKind(
    CompileError,
    "J0302",
    "wrong number of arguments",
    """
    A function is given too many arguments, too few, or one of them twice.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(xs: list[int]) -> int:
    return len(xs, 1)
""",
    right="""
import jitlite

@jitlite.script
def f(xs: list[int]) -> int:
    return len(xs)

print(f([1, 2]))
""",
)

WRONG_KEYWORD = ErrorKind(
    CompileError,
    "J0303",
    "unknown keyword argument",
    """
    The function has no parameter of this name, or none that may be given by its name.
    """,
    wrong="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return torch.softmax(x, dims=0)
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=0)

print(f(torch.ones(2)))
""",
)

NOT_CALLABLE = ErrorKind(
    CompileError,
    "J0304",
    "value that cannot be called",
    """
    What stands before the parentheses is no function, class, method or module. Often a variable has taken the name of
    a function.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    size = n + 1
    return size(0)
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    size = n + 1
    return size

print(f(3))
""",
)

OPEN_RECURSION = ErrorKind(
    CompileError,
    "J0305",
    "recursion without a declared result",
    """
    A function calls itself, directly or through others, and its result has no annotation: its type would follow from
    itself. Annotate the result.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int):
    if n < 2:
        return 1
    return n * f(n - 1)
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    if n < 2:
        return 1
    return n * f(n - 1)

print(f(5))
""",
)

KNOWN_WHEN_COMPILED = ErrorKind(
    CompileError,
    "J0306",
    "argument that has to be known when the program is compiled",
    """
    What this argument says decides how the call is compiled, so that it has to be written out or be a constant: a
    name given to getattr, a flag such as strict=True.
    """,
    wrong="""
import jitlite

class Point:
    def __init__(self, x: int):
        self.x = x

@jitlite.script
def f(name: str) -> int:
    return getattr(Point(3), name)
""",
    right="""
import jitlite

class Point:
    def __init__(self, x: int):
        self.x = x

@jitlite.script
def f(name: str) -> int:
    return getattr(Point(3), "x")

print(f("x"))
""",
)

DICT_AS_KEYWORDS = ErrorKind(
    NotSupportedError,
    "J0307",
    "keyword arguments from a dict",
    """
    `**d` in a call takes the keyword arguments that a function was called with, or a dict whose keys are written out.
    The keys of other dicts are known at run time only. Name the arguments.
    """,
    wrong="""
import jitlite

def g(a: int, b: int) -> int:
    return a - b

@jitlite.script
def f(d: dict[str, int]) -> int:
    return g(**d)
""",
    right="""
import jitlite

def g(a: int, b: int) -> int:
    return a - b

@jitlite.script
def f(d: dict[str, int]) -> int:
    return g(a=d["a"], b=d["b"])

print(f({"a": 3, "b": 1}))
""",
)

RESULT_TYPE_OF_TOLIST = ErrorKind(
    CompileError,
    "J0308",
    "tolist() of an unknown type",
    """
    The type of what tolist() gives follows from the number of dimensions and the dtype, which are not known when the
    program is compiled. Annotate the variable that it is assigned to.
    """,
    wrong="""
import jitlite
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> int:
    xs = x.tolist()
    return len(xs)
""",
    right="""
import jitlite
import torch
from typing import List
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> int:
    xs: List[float] = x.tolist()
    return len(xs)

print(f(torch.ones(3)))
""",
)

NO_FORK = ErrorKind(
    CompileError,
    "J0309",
    "call that cannot be forked",
    """
    The graph forks something that is no function without arguments of its own. torch.jit.fork, which is jitlite.fork,
    takes a function or a module, and the arguments to call it with.
    """,
)

FIXED_SIZE = ErrorKind(
    CompileError,
    "J0310",
    "list of a length that is not known",
    """
    As the arguments of a call or the parts of a tuple, a list is spread into as many values as it has elements. Their
    number has to be known when the program is compiled. Write the elements out, or spread a tuple.
    """,
    wrong="""
import jitlite

def g(a: int, b: int) -> int:
    return a - b

@jitlite.script
def f(xs: list[int]) -> int:
    return g(*xs)
""",
    right="""
import jitlite

def g(a: int, b: int) -> int:
    return a - b

@jitlite.script
def f(xs: list[int]) -> int:
    return g(xs[0], xs[1])

print(f([3, 1]))
""",
)
