"""Kinds of errors: names, and what they stand for."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError, NotSupportedError

UNKNOWN_NAME = ErrorKind(
    CompileError,
    "J0101",
    "unknown name",
    """
    A script uses a name that is no variable of its function, no builtin and no name of the scope in which the
    function was defined. The compiler looks names up when it compiles, so that a global variable has to exist by
    then.
    """,
    wrong="""
import jitlite
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    scale = 2.0
    return x * scal
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    scale = 2.0
    return x * scale

print(f(torch.ones(2)))
""",
)

MAYBE_UNSET = ErrorKind(
    CompileError,
    "J0102",
    "variable that is not set on every path",
    """
    A variable is read where the ways to that place give it values of different types, or one of them deletes it, or it
    is a function that only one of them defines. A script has to know what the variable is. (Where a way does not set a
    variable of one type, reading it raises Python's UnboundLocalError.) Set it before the branch or the loop, or give
    it one type.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    if n > 0:
        sign = 1
    else:
        sign = "minus"
    return sign
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    if n > 0:
        sign = 1
    else:
        sign = -1
    return sign

print(f(3), f(-3))
""",
)

GLOBAL_ASSIGNED = ErrorKind(
    NotSupportedError,
    "J0103",
    "assignment to a global variable",
    """
    A script cannot assign to a variable of its module: what a compiled function changes are its arguments and the
    attributes of its module. Return the value, or keep it in an attribute.
    """,
    wrong="""
import jitlite

calls = 0

@jitlite.script
def f(x: int) -> int:
    global calls
    calls = calls + 1
    return x
""",
    right="""
import jitlite

@jitlite.script
def f(x: int, calls: int) -> tuple[int, int]:
    return x, calls + 1

print(f(5, 0))
""",
)

NO_ATTRIBUTE = ErrorKind(
    CompileError,
    "J0104",
    "unknown attribute or method",
    """
    The value has no attribute or method of this name. What a value has follows from its type, which the compiler
    knows: a parameter without annotation is a Tensor. Methods that tensors have in Python only are not there.
    """,
    wrong="""
import jitlite
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return x.transposed(0, 1)
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return x.transpose(0, 1)

print(f(torch.ones(1, 2)))
""",
)

MAY_BE_NONE = ErrorKind(
    CompileError,
    "J0105",
    "value that may be None",
    """
    The value is an Optional, and None has no such attribute, elements or arithmetic. Where a condition says that it
    is not None, the compiler takes it for what else it is. It sees conditions on variables; assign an attribute to a
    variable first.
    """,
    wrong="""
import jitlite
from typing import Optional
from torch import Tensor

@jitlite.script
def f(x: Tensor, bias: Optional[Tensor]) -> Tensor:
    return x + bias.relu()
""",
    right="""
import jitlite
import torch
from typing import Optional
from torch import Tensor

@jitlite.script
def f(x: Tensor, bias: Optional[Tensor]) -> Tensor:
    if bias is not None:
        x = x + bias.relu()
    return x

print(f(torch.ones(2), None), f(torch.ones(2), torch.ones(2)))
""",
)

UNKNOWN_OPERATOR = ErrorKind(
    CompileError,
    "J0106",
    "unknown operator",
    """
    There is no operator of this name in this version of torch, and none that scripts have of their own.
    """,
    wrong="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return torch.ops.aten.reluu(x)
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return torch.ops.aten.relu(x)

print(f(torch.ones(2)))
""",
)

PYTHON_ONLY = ErrorKind(
    NotSupportedError,
    "J0107",
    "Python object that scripts cannot use",
    """
    A name stands for an object that has no meaning in a script: a module or function of another library, a file, an
    object of a class that is not compiled. Use torch's operators, give the value as an argument, or leave the
    function that needs it to Python with @jitlite.ignore.
    """,
    wrong="""
import jitlite
import random
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return x * random.random()
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> Tensor:
    return x * torch.rand(1)

torch.manual_seed(0)
print(f(torch.ones(2)))
""",
)

NOT_A_VALUE = ErrorKind(
    CompileError,
    "J0108",
    "name that is no value",
    """
    The name stands for something that the compiler knows but that no variable of a script can hold where it is used
    here: a function, a module, a class, a range, a set. It can be called, indexed or iterated over, where that makes
    sense.
    """,
    wrong="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> list[Tensor]:
    return [torch.relu]
""",
    right="""
import jitlite
import torch
from torch import Tensor

@jitlite.script
def f(x: Tensor) -> list[Tensor]:
    return [torch.relu(x)]

print(f(torch.ones(2)))
""",
)

PYTHON_ERROR = ErrorKind(
    CompileError,
    "J0109",
    "Python raised while the compiler computed a constant",
    """
    The compiler computes what depends on constants alone, such as the item of a dict of the module's, by asking
    Python. Python raised the exception that the message names; it would raise it in eager execution, too.
    """,
    wrong="""
import jitlite

sizes = {"small": 1, "large": 10}

@jitlite.script
def f(x: int) -> int:
    return x * sizes["medium"]
""",
    right="""
import jitlite

sizes = {"small": 1, "large": 10}

@jitlite.script
def f(x: int) -> int:
    return x * sizes["large"]

print(f(2))
""",
)
