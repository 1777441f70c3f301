"""Kinds of errors: annotations."""

from __future__ import annotations

from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import AnnotationError, CompileError

UNKNOWN_TYPE = ErrorKind(
    AnnotationError,
    "J0501",
    "annotation that is no type of TorchScript",
    """
    An annotation names a type that scripts do not have. They have Tensor, int, float, complex, bool, str, None, Any,
    List, Dict, Tuple, Optional, Union, Future, torch.device, torch.dtype, enums, named tuples, classes and
    interfaces.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(data: bytes) -> int:
    return 0
""",
    right="""
import jitlite

@jitlite.script
def f(data: list[int]) -> int:
    return 0

print(f([1]))
""",
)

MALFORMED_TYPE = ErrorKind(
    CompileError,
    "J0502",
    "annotation that is not well formed",
    """
    A type is a name, or a name with types in brackets: `List[int]`, `Dict[str, Tensor]`, `Tuple[int, str]`. A value,
    a call or a wrong number of types in the brackets is none.
    """,
    wrong="""
import jitlite
from typing import Dict

@jitlite.script
def f(n: "Dict[int]") -> int:
    return 0
""",
    right="""
import jitlite
from typing import Dict

@jitlite.script
def f(n: "Dict[int, int]") -> int:
    return 0

print(f({1: 2}))
""",
)

NO_ELEMENT_TYPE = ErrorKind(
    CompileError,
    "J0503",
    "container without the type of its elements",
    """
    A list, dict or tuple is annotated with what it contains, as the types of its elements decide what can be done
    with them.
    """,
    wrong="""
import jitlite
from typing import List

@jitlite.script
def f(xs: List) -> int:
    return len(xs)
""",
    right="""
import jitlite
from typing import List

@jitlite.script
def f(xs: List[int]) -> int:
    return len(xs)

print(f([1]))
""",
)

ENUM_VALUES = ErrorKind(
    CompileError,
    "J0504",
    "enum with no members, or with values of several types",
    """
    The value of a member of an enum has one type in scripts. So the members of an enum have values of one type, and
    there is one at least.
    """,
    wrong="""
import enum
import jitlite

class Mode(enum.Enum):
    FAST = 1
    SLOW = "slow"

@jitlite.script
def f(mode: Mode) -> bool:
    return mode == Mode.FAST
""",
    right="""
import enum
import jitlite

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

@jitlite.script
def f(mode: Mode) -> bool:
    return mode == Mode.FAST

print(f(Mode.SLOW))
""",
)

BARE_ANNOTATION = ErrorKind(
    AnnotationError,
    "J0505",
    "annotation of an attribute or an item without a value, or outside of __init__",
    """
    An annotation of an attribute or an item stands at an assignment. Attributes of an object are annotated where
    __init__ assigns them first, or in the body of the class.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(xs: list[int]) -> list[int]:
    xs[0]: int
    return xs
""",
    right="""
import jitlite

@jitlite.script
def f(xs: list[int]) -> list[int]:
    first: int
    first = 1
    xs[0] = first
    return xs

print(f([2]))
""",
)

LARGE_TYPE = ErrorKind(
    CompileError,
    "J0506",
    "type that is too large",
    """
    A type is written out in graphs and archives. One that is made of copies of another one, which is made of copies of
    a third one, and so on, would be longer than any memory. A list, or a class, is one name at each level.
    """,
    wrong="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    pair = (n, n)
    p1 = (pair, pair, pair, pair, pair, pair, pair, pair, pair, pair)
    p2 = (p1, p1, p1, p1, p1, p1, p1, p1, p1, p1)
    p3 = (p2, p2, p2, p2, p2, p2, p2, p2, p2, p2)
    p4 = (p3, p3, p3, p3, p3, p3, p3, p3, p3, p3)
    p5 = (p4, p4, p4, p4, p4, p4, p4, p4, p4, p4)
    return len(p5)
""",
    right="""
import jitlite

@jitlite.script
def f(n: int) -> int:
    pair = (n, n)
    pairs = [pair for _ in range(100_000)]
    return len(pairs)

print(f(1))
""",
)
