"""Programs that are Python and not TorchScript: what they share, and what is checked of each."""

from __future__ import annotations

import io
from typing import Any

import torch
from strategies import compile_source

import jitlite
from jitlite.base import options
from jitlite.base.source import NotSupportedError
from jitlite.debug.equality import difference
from jitlite.debug.outcome import observe

Table = dict[str, tuple[str, str, list[list[Any]]]]
"""By name: parameters, body and arguments of several calls."""

WAYS = ({"tier": "stack"}, {"native": "now"}, {"executor": "off"}, {"executor": "debug"}, {"executor": "legacy"})
T34 = torch.arange(12.0).reshape(3, 4)

HEAD = """
from typing import *
from enum import Enum
import collections.abc, functools, itertools, logging, math, numbers, operator, torch, warnings
import torch.nn.functional as F
from torch import Tensor

class Color(Enum):
    RED = 1
    BLUE = 2

class Point(NamedTuple):
    x: int
    y: int = 2

class Line(NamedTuple):
    x: int
    y: int = 2

    UNIT = "m"

    def length(self, scale: int, offset=1):
        return (self.y - self.x) * scale + offset

    @property
    def double(self):
        return self.x * 2

    @staticmethod
    def origin(y: int) -> "Tuple[int, int]":
        return 0, y

NUMBERS, NAMES, TABLE = [1, 2, 3], {"a", "c"}, {"a": 1, "b": 2}
FROZEN = frozenset([1, 2])

def inc(x: Tensor) -> Tensor:
    return x + 1

def dec(x: Tensor) -> Tensor:
    return x - 1

FUNCTIONS = {"inc": inc, "more": {"dec": dec}}

def helper(a, b=2, mode="x", s=None):
    if s is None:
        s = 1
    return a * b * s if mode == "x" else a

def pair(x):
    if isinstance(x, (list, tuple)):
        return x[0], x[1]
    return x, x

def flagged(x, both=False):
    if both:
        return x, x
    return x

def first(xs: Sequence[int], default: "Optional[int]" = None):
    return xs[0] if len(xs) > 0 else default

def lengths(sizes: Tuple[int, ...]) -> Tuple[int, ...]:
    return sizes[:2]

T = TypeVar("T")

def same(x: T) -> T:
    return x

def apply(fn: Callable[..., Tensor], *args, scale=1, **kwargs) -> Tensor:
    return fn(*args, **kwargs) * scale

def keywords(x, **kwargs):
    if "k" in kwargs:
        x = x * kwargs["k"]
    for name, value in kwargs.items():
        if name != "k":
            x = x + value
    return x + kwargs.get("z", 1) + len(kwargs)

def total(*xs: int):
    r = 0
    for x in xs:
        r += x
    return r, len(xs)

def countdown(n, acc=0) -> int:
    if n == 0:
        return acc
    return countdown(n - 1, acc + n)

def keyword_only(x, /, y, *, z=1):
    return x + y + z

def clear(xs: List[Optional[int]]):
    xs[0] = None

def inner_names(x, fn):
    n = 10
    return fn(x) + n

def widened(k):
    if isinstance(k, int):
        k = (k, k)
    return [n + 1 for n in k]

def text_of(message: Optional[str]) -> Optional[str]:
    if not torch.jit.is_scripting():
        if callable(message):
            return message()
    return message

def checked(holds: bool, message: Optional[str] = None) -> bool:
    if not holds:
        message = text_of(message)
        raise ValueError("none" if message is None else message)
    return True

def called(x: Tensor, g: bool) -> Tensor:
    return g(x) if callable(g) else x

K = 5

def outer_name(fn, x):
    return fn(x) + K
"""


def source_of(parameters: str, body: str, head: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{HEAD}{head}\n\ndef f({parameters}):\n{lines}\n"


def arguments_for(namespace: dict[str, Any], given: list[Any]) -> list[Any]:
    """The arguments; None stands for a member of the enum of the program where it takes one."""
    takes_color = "c" in namespace["f"].__code__.co_varnames[: namespace["f"].__code__.co_argcount]
    is_color = takes_color and given and given[-1] is None
    return [*given[:-1], namespace["Color"].RED] if is_color else given


def check_case(table: Table, name: str, unsaved: dict[str, str] | None = None, head: str = "") -> None:
    """Compare what a program does on each tier, saved and loaded, and written as Python, with what eager does.

    Args:
        unsaved: the programs that have no place in an archive, and what is said of them.
        head: what the programs use, beside what all of them do.
    """
    parameters, body, inputs = table[name]
    namespace = compile_source(source_of(parameters, body, head))
    function = namespace["f"]
    given = [arguments_for(namespace, arguments) for arguments in inputs]
    expected = [observe(function, arguments) for arguments in given]
    for changes in WAYS:
        with options.override(**changes):
            compare(jitlite.script(function), expected, given, str(changes))
    scripted = jitlite.script(function)
    written: dict[str, Any] = {"__name__": "written"}
    program = jitlite.to_python(scripted)
    exec(compile(program.source, "written.py", "exec"), written)
    if "Color" in parameters:
        return
    compare(written[program.name], expected, given, program.source)
    buffer = io.BytesIO()
    try:
        jitlite.save(scripted, buffer)
    except NotSupportedError as error:
        assert (unsaved or {}).get(name, "no text") in str(error) and "HERE" in str(error)
        return
    assert name not in (unsaved or {})
    buffer.seek(0)
    compare(jitlite.load(buffer), expected, given, "loaded", exactly=False)


def check_module(module: torch.nn.Module, inputs: list[list[Any]]) -> None:
    """Compare what a module does on each tier, saved and loaded, and written as Python, with what eager does."""
    expected = [observe(module, arguments) for arguments in inputs]
    for changes in WAYS:
        with options.override(**changes):
            compare(jitlite.script(module), expected, inputs, str(changes))
    scripted = jitlite.script(module)
    program = jitlite.to_python(scripted)
    written: dict[str, Any] = {"__name__": "written"}
    exec(compile(program.source, "written.py", "exec"), written)
    copy = written[program.name]()
    copy.load_state_dict(module.state_dict())
    compare(copy.train(module.training), expected, inputs, program.source)
    buffer = io.BytesIO()
    jitlite.save(scripted, buffer)
    buffer.seek(0)
    compare(jitlite.load(buffer), expected, inputs, "loaded", exactly=False)


def compare(run, expected, inputs, what, exactly=True):
    for wanted, arguments in zip(expected, inputs, strict=True):
        got = observe(run, arguments)
        if exactly or not (wanted.raised and got.raised):
            assert not difference(wanted.told[:4], got.told[:4]), f"{what}: {arguments}"
