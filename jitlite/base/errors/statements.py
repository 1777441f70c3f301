"""Kinds of errors: statements and expressions of Python, and where their text comes from."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError, NotSupportedError

UNSUPPORTED_SYNTAX = ErrorKind(
    NotSupportedError,
    "J0401",
    "Python that TorchScript does not have",
    """
    TorchScript is a part of Python. It has no `yield` outside of generators that are consumed in place, no `async`,
    no `import` and no `nonlocal`. The hint names what to write.
    """,
    wrong="""
import jitlite
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    async def g():
        return x
    return x
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    def g():
        return x
    return g()

print(f(torch.ones(2)))
""",
)

BAD_SYNTAX = ErrorKind(
    CompileError,
    "J0402",
    "text that is no Python",
    """
    Python itself would refuse the text, or would raise as soon as it came to the statement: a `break` outside of a
    loop, two starred names in an assignment, a slice that is no index.
    """,
    wrong="""
import jitlite

unit = jitlite.CompilationUnit("def f(n: int) -> int:\\n    return n +\\n")
""",
    right="""
import jitlite

unit = jitlite.CompilationUnit("def f(n: int) -> int:\\n    return n + 1\\n")
print(unit.f(2))
""",
)

LOOP_EXIT = ErrorKind(
    NotSupportedError,
    "J0403",
    "jump that cannot leave this statement",
    """
    `break` and `continue` work in for and while loops. They cannot leave a few forms that are compiled in another
    way: loops over objects with __iter__, over several loops of a generator expression, a `finally` that swallows an
    exception. Note in a variable that the loop is over, or write the loop with range.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(xs: list[int], ys: list[int]) -> int:
    total = 0
    for p in (x * y for x in xs for y in ys):
        if p > 5:
            break
        total += p
    return total
""",
    right="""
import jitlite

@jitlite.script
def f(xs: list[int], ys: list[int]) -> int:
    total = 0
    over = False
    for p in (x * y for x in xs for y in ys):
        over = over or p > 5
        if not over:
            total += p
    return total

print(f([1, 2, 3], [1, 2]))
""",
)

NO_CONTEXT = ErrorKind(
    CompileError,
    "J0404",
    "with statement over what is no context",
    """
    `with` takes an object of a compiled class that has __enter__(self) and __exit__(self, type, value, traceback),
    with the type Any for these three; or one of torch's contexts that scripts know, such as torch.no_grad().
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    with n:
        return n
""",
    right="""
import jitlite
from typing import Any

class Counter:
    def __init__(self):
        self.count = 0

    def __enter__(self):
        self.count += 1

    def __exit__(self, type: Any, value: Any, tb: Any):
        pass

@jitlite.script
def f(n: int) -> int:
    counter = Counter()
    with counter:
        n += 1
    return n + counter.count

print(f(3))
""",
)

NO_EXCEPTION = ErrorKind(
    CompileError,
    "J0405",
    "raise or except with what is no exception",
    """
    `raise` and `except` take classes of exceptions.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    if n < 0:
        raise "negative"
    return n
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    if n < 0:
        raise ValueError("negative")
    return n

print(f(3))
""",
)

NO_DELETE = ErrorKind(
    CompileError,
    "J0406",
    "del of what it cannot delete",
    """
    `del` works on variables, on items of lists and dicts, and on slices of lists.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(pair: tuple[int, int]) -> int:
    del pair[1:]
    return pair[0]
""",
    right="""
import jitlite

@jitlite.script
def f(xs: list[int]) -> list[int]:
    del xs[2:]
    return xs

print(f([1, 2, 3]))
""",
)

NO_SOURCE = ErrorKind(
    CompileError,
    "J0407",
    "function without source",
    """
    A script is compiled from the source of a function, which Python reads from its file. A lambda has no definition
    of its own, functions of C have no source, and neither have those made by exec without a file.
    """,
    wrong="""
import jitlite

names = {}
exec("def f(n: int) -> int:\\n    return n + 1\\n", names)
jitlite.script(names["f"])
""",
    right="""
import jitlite

def f(n: int) -> int:
    return n + 1

print(jitlite.script(f)(2))
""",
)

TOO_DEEP = ErrorKind(
    CompileError,
    "J0408",
    "program nested too deeply",
    """
    The compiler goes through nested statements and expressions by recursion, and Python limits how deep it may be.
    Machine-written code comes there. Assign parts to variables.
    """,
    wrong="""
import jitlite

unit = jitlite.CompilationUnit("def f(n: int) -> int:\\n    return " + "-" * 100_000 + "n\\n")
""",
    right="""
import jitlite

unit = jitlite.CompilationUnit("def f(n: int) -> int:\\n    return --n\\n")
print(unit.f(2))
""",
)

NO_DECORATOR = ErrorKind(
    NotSupportedError,
    "J0409",
    "decorator on what is compiled in place",
    """
    A function within a script, or in a text, is compiled as it is written: nothing calls its decorators. Call the
    function that the decorator stands for.
    """,
    wrong="""
import jitlite

def twice(g):
    return g

@jitlite.script
def f(n: int) -> int:
    @twice
    def g(m: int) -> int:
        return m + 1
    return g(n)
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    def g(m: int) -> int:
        return m + 1
    return g(g(n))

print(f(2))
""",
)

VARIABLE_ARGUMENTS = ErrorKind(
    NotSupportedError,
    "J0410",
    "function with *args or **kwargs",
    """
    A compiled function has a signature that names its parameters and their types. A function that takes `*args` can
    be called by scripts, where the compiler sees what is given, but not be one itself. Take a list.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(*numbers: int) -> int:
    return numbers[0]
""",
    right="""
import jitlite

@jitlite.script
def f(numbers: list[int]) -> int:
    return numbers[0]

print(f([3, 4]))
""",
)

FORMAT_FIELD = ErrorKind(
    NotSupportedError,
    "J0411",
    "field of a format string",
    """
    A format string shows its arguments, with a format specification where one is written. It cannot reach into them,
    as in `{0.name}`, which would run code that the compiler does not see, nor nest fields in a specification twice.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(xs: list[int]) -> str:
    return "{0[0]}".format(xs)
""",
    right="""
import jitlite

@jitlite.script
def f(xs: list[int]) -> str:
    return "{}".format(xs[0])

print(f([3]))
""",
)

WRONG_DEFAULT = ErrorKind(
    CompileError,
    "J0412",
    "default value that cannot be one",
    """
    The default of a parameter is a constant of the parameter's type. A list or dict as a default is one object for
    all calls in Python, and would be a new one for each in a script. Use None, and make the list in the function.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(x: int, xs: list[int] = []) -> int:
    return x + len(xs)
""",
    right="""
import jitlite
from typing import Optional

@jitlite.script
def f(x: int, xs: Optional[list[int]] = None) -> int:
    return x if xs is None else x + len(xs)

print(f(1), f(1, [2]))
""",
)

TYPE_COMMENT = ErrorKind(
    CompileError,
    "J0413",
    "type comment that belongs nowhere",
    """
    A `# type:` comment gives the types of parameters or of an assignment. It has to stand where Python's own rules
    put it, with one type for each parameter. Annotations do the same and are checked by Python.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n, m):
    # type: (int) -> int
    return n + m
""",
    right="""
import jitlite

@jitlite.script
def f(n, m):
    # type: (int, int) -> int
    return n + m

print(f(1, 2))
""",
)

COMPARED_WITH_NONE = ErrorKind(
    CompileError,
    "J0414",
    "comparison with None by ==",
    """
    None is compared by `is` and `is not`, from which the compiler also learns that a value is not None.
    """,
    wrong="""
import jitlite
from typing import Optional
from torch import Tensor

@jitlite.script
def f(x: Optional[Tensor]) -> bool:
    return x == None
""",
    right="""
import jitlite
from typing import Optional
from torch import Tensor

@jitlite.script
def f(x: Optional[Tensor]) -> bool:
    return x is None

print(f(None))
""",
)
