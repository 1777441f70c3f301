"""Kinds of errors: classes and their objects."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError, NotSupportedError

NO_SCRIPT_CLASS = ErrorKind(
    NotSupportedError,
    "J0601",
    "class that cannot be compiled",
    """
    A class is compiled if its source is there, it inherits from nothing but classes that are compiled too, and it is
    not marked to be left to Python. Objects of other classes cannot be made in scripts.
    """,
    wrong="""
import jitlite

@jitlite.ignore
class Point:
    def __init__(self, x: int):
        self.x = x

@jitlite.script
def f(n: int) -> int:
    return Point(n).x
""",
    right="""
import jitlite

class Point:
    def __init__(self, x: int):
        self.x = x

@jitlite.script
def f(n: int) -> int:
    return Point(n).x

print(f(3))
""",
)

FIRST_ASSIGNMENT = ErrorKind(
    CompileError,
    "J0602",
    "attribute that does not exist",
    """
    The attributes of an object are those that __init__ assigns, not within a branch or a loop. Other methods and
    functions can change them, but not add one.
    """,
    wrong="""
import jitlite

class Counter:
    def __init__(self):
        self.count = 0

    def reset(self):
        self.counted = 0

@jitlite.script
def f() -> int:
    counter = Counter()
    counter.reset()
    return counter.count
""",
    right="""
import jitlite

class Counter:
    def __init__(self):
        self.count = 0

    def reset(self):
        self.count = 0

@jitlite.script
def f() -> int:
    counter = Counter()
    counter.reset()
    return counter.count

print(f())
""",
)

FROZEN_FIELD = ErrorKind(
    CompileError,
    "J0603",
    "assignment to a constant field",
    """
    A frozen dataclass and a constant of a module (Final, __constants__) keep the value that they were made with.
    """,
    wrong="""
import dataclasses
import jitlite

@dataclasses.dataclass(frozen=True)
class Point:
    x: int

@jitlite.script
def f(n: int) -> int:
    p = Point(n)
    p.x = 4
    return p.x
""",
    right="""
import dataclasses
import jitlite

@dataclasses.dataclass(frozen=True)
class Point:
    x: int

@jitlite.script
def f(n: int) -> int:
    p = Point(n)
    p = Point(4)
    return p.x

print(f(3))
""",
)

WRONG_INTERFACE = ErrorKind(
    CompileError,
    "J0604",
    "interface that is not complete or not met",
    """
    An interface declares methods with the types of all parameters and results, and inherits from nothing but
    nn.Module or interfaces. A class meets it if it has each method with these types.
    """,
    wrong="""
import jitlite

@jitlite.interface
class Scorer:
    def score(self, n):
        pass

@jitlite.script
def f(s: Scorer) -> int:
    return 0
""",
    right="""
import jitlite

@jitlite.interface
class Scorer:
    def score(self, n: int) -> int:
        pass

class Twice:
    def __init__(self):
        self.by = 2

    def score(self, n: int) -> int:
        return self.by * n

def g(s: Scorer) -> int:
    return s.score(4)

@jitlite.script
def f() -> int:
    return g(Twice())

print(f())
""",
)

WRONG_METHOD = ErrorKind(
    CompileError,
    "J0605",
    "method that scripts cannot call so",
    """
    A method has self as its first parameter, is called on an object of its class, and is compiled with that class.
    super() works within methods. A method by itself cannot be scripted: script the class or the module.
    """,
    wrong="""
import jitlite

class Counter:
    def __init__(self):
        self.count = 0

    def add(self, n: int) -> int:
        self.count += n
        return self.count

add = jitlite.script(Counter().add)
""",
    right="""
import jitlite

class Counter:
    def __init__(self):
        self.count = 0

    def add(self, n: int) -> int:
        self.count += n
        return self.count

@jitlite.script
def add(counter: Counter, n: int) -> int:
    return counter.add(n)

print(add(Counter(), 3))
""",
)

TEXT_CLASS = ErrorKind(
    CompileError,
    "J0606",
    "class in a text that has no meaning there",
    """
    A class in the text of a CompilationUnit or of an archive is a plain one with methods and annotated attributes, or
    inherits from NamedTuple, Enum or Interface. A field has a type, a member of an enum a value.
    """,
    wrong="""
import jitlite

unit = jitlite.CompilationUnit('''
class Point(Base):
    def __init__(self, x: int):
        self.x = x
''')
""",
    right="""
import jitlite

unit = jitlite.CompilationUnit('''
class Point:
    def __init__(self, x: int):
        self.x = x

def f(n: int) -> int:
    return Point(n).x
''')
print(unit.f(3))
""",
)

AUTOGRAD_FUNCTION = ErrorKind(
    CompileError,
    "J0607",
    "use of an autograd function",
    """
    A class that inherits from torch.autograd.Function is used by its `apply`, with as many arguments as its forward
    has besides ctx, given by position.
    """,
    wrong="""
import jitlite
import torch
from torch import Tensor

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g

@jitlite.script
def f(x: Tensor) -> Tensor:
    return Twice()(x)
""",
    right="""
import jitlite
import torch
from torch import Tensor

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g

@jitlite.script
def f(x: Tensor) -> Tensor:
    return Twice.apply(x)

print(f(torch.ones(2)))
""",
)
