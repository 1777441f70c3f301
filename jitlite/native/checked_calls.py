"""Calls from Python whose arguments machine code checks: C takes the call, asks of what classes the arguments are, and
calls what runs the graph. No function of Python is in between.

One function of machine code does that for all signatures. What it is to ask is in a text of words of 64 bits, which is
the first part of the object that each call is made on:

    count of parameters, count of those that can be given by position, is there an owner,
    the place of its test, the address of its default value or 0, and that of its name, for each parameter,
    tests

A test is one of these. `none` is the address of None if that is taken for the value as well, else 0; `first` is the
class that most values have, so that nothing else has to be asked, 0 where there is none:

    CLASSES none first n class...     it is an instance of one of these classes, and of no subclass
    LIST    none 0 element            it is a list, and no subclass, and so on
    TUPLE   none 0 n element...
    DICT    none 0 key value

A call of any other kind goes to `otherwise`, which is Python: arguments that are converted, wrong or superfluous, and
all calls while somebody records. An exception is handed to `note` on its way out.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from jitlite.base import torch_internals
from jitlite.base.records import Record
from jitlite.ir import types as T
from jitlite.ir.int_codes import PLAIN
from jitlite.ir.python_classes import classes_as_they_are
from jitlite.ir.schema import Argument
from jitlite.ir.types import Type
from jitlite.native.emit_checks import (
    CLASSES,
    DICT,
    HEAD_WORDS,
    LIST,
    PARAMETER_WORDS,
    TUPLE,
    check_layout,
    module_text,
)
from jitlite.native.entry import FASTCALL, Entry, MachineCode, Method, builtin, compiled

_KEYWORDS = 0x0002
"""`METH_KEYWORDS` of Python's headers."""


class CheckedTarget(Record, eq=True):
    """Where calls go.

    Attributes:
        way: a list of one, what is called with arguments that pass the test.
        otherwise: is called with any others.
        note: is called with an exception that the first has raised.
        recorders: a list; while there is something in it, all calls go to `otherwise`.
        owner: an argument before the others, if it is not None.
    """

    way: list[Entry]
    otherwise: Entry
    note: Callable[[BaseException], None]
    recorders: list[Any]
    owner: object = None


def checked_call(formals: Sequence[Argument], target: CheckedTarget) -> Entry | None:
    """What takes calls with arguments for these; None where one's type has no test, or nothing is compiled yet."""
    if _state.machine is None or _state.method is None:
        return None
    return _bound(_state.machine, _state.method, formals, target)


def has_tests(formals: Sequence[Argument]) -> bool:
    """Is there a test for the type of each of the parameters?"""
    return _Tests().begin(formals, False)


def _bound(machine: MachineCode, method: Method, formals: Sequence[Argument], target: CheckedTarget) -> Entry | None:
    tests = _Tests()
    if not tests.begin(formals, target.owner is not None):
        return None
    parts = (tests.packed(), target.way, target.otherwise, target.note, target.recorders, target.owner)
    return builtin(method, (*parts, *tests.addressed, machine))


# -- what is asked

_WITHOUT_PARTS: tuple[object, ...] = tuple(sorted(PLAIN, key=str))
"""Classes of values in which nothing can be that anybody has to know of."""


class _Tests:
    """The text, while it is written. `addressed` are the objects that it has addresses of."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.addressed: list[object] = []

    def packed(self) -> bytes:
        return struct.pack(f"{len(self.words)}q", *self.words)

    def begin(self, formals: Sequence[Argument], has_owner: bool) -> bool:
        """Write what a call is to be asked; says whether there is a test for each parameter."""
        positional = next((i for i, formal in enumerate(formals) if formal.kwarg_only), len(formals))
        self.words = [len(formals), positional, int(has_owner)] + [0] * (PARAMETER_WORDS * len(formals))
        for i, formal in enumerate(formals):
            place = self._test(formal.type, 0)
            if place is None:
                return False
            default = self._address(formal.default) if formal.has_plain_default else 0
            about = [place, default, self._address(sys.intern(formal.name))]
            first = HEAD_WORDS + i * PARAMETER_WORDS
            self.words[first : first + PARAMETER_WORDS] = about
        return True

    def _address(self, held: object) -> int:
        self.addressed.append(held)
        return id(held)

    def _test(self, t: Type, none: int) -> int | None:
        """Write a test; gives its place in bytes, None where there is none for the type."""
        if isinstance(t, T.OptionalType):
            return self._test(t.element, id(None))
        if isinstance(t, T.ListType):
            return self._of_parts([LIST, none, 0], [t.element])
        if isinstance(t, T.DictType):
            return self._of_parts([DICT, none, 0], [t.key, t.value])
        if isinstance(t, T.TupleType):
            return None if t.names is not None else self._of_parts([TUPLE, none, 0, len(t.elements)], t.elements)
        classes = _WITHOUT_PARTS if t is T.ANY else classes_as_they_are(t)
        if not classes:
            return None
        addresses = [self._address(cls) for cls in classes]
        return self._written([CLASSES, none, addresses[0], len(classes), *addresses])

    def _of_parts(self, head: list[int], types: Sequence[Type]) -> int | None:
        places = [self._test(t, 0) for t in types]
        known = [place for place in places if place is not None]
        return self._written([*head, *known]) if len(known) == len(types) else None

    def _written(self, words: list[int]) -> int:
        place = len(self.words) * 8
        self.words += words
        return place


# -- the function of machine code


class _CheckState:
    """What is compiled: the method of all such calls, and its machine code."""

    method: Method | None = None
    machine: MachineCode | None = None


_state = _CheckState()


def is_ready() -> bool:
    """Is the machine code there?"""
    return _state.method is not None


def prepare() -> bool:
    """Have the machine code, if it can be had; says whether it is there. It takes the time of a compilation."""
    return _state.method is not None or bool(compiled(make))


def make() -> bool:
    """Compile it, and try it; gives True.

    Raises:
        Exception: whatever is in the way.
    """
    if _state.method is None:
        _state.machine, _state.method = _compiled_and_tried()
    return True


def _compiled_and_tried() -> tuple[MachineCode, Method]:
    question = torch_internals.is_recorded_in_c
    if question is None:
        raise OSError("machine code cannot ask whether torch records a thread")
    check_layout()
    machine = MachineCode("checked calls")
    method = Method(b"enter", machine.compile(module_text(question)), FASTCALL | _KEYWORDS, None)
    _try(machine, method)
    return machine, method


def _try(machine: MachineCode, method: Method) -> None:
    """Make a few calls.

    Raises:
        OSError: they do not come out as they should.
    """
    noted: list[BaseException] = []
    target = CheckedTarget([lambda *values: values], lambda *values, **named: (values, named), noted.append, [])
    formals = [Argument("a", T.INT), Argument("b", T.ListType.of(T.STRING))]
    entry = _bound(machine, method, formals, target)
    assert entry is not None, "there are tests for ints and for lists"
    outcomes = [entry(1, ["x"]), entry(1, b=["y"]), entry(1, ["x", 2]), entry(1), entry(1, c=[])]
    if outcomes != [(1, ["x"]), (1, ["y"]), ((1, ["x", 2]), {}), ((1,), {}), ((1,), {"c": []})]:
        raise OSError("calls with checked arguments come out otherwise")
    target.way[0] = "".join
    with suppress(TypeError):
        entry(1, [])
    if [type(error) for error in noted] != [TypeError]:
        raise OSError("exceptions of calls with checked arguments are not noted")
