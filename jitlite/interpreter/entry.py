"""What a call from Python goes through: arguments checked and put in order, then the function that runs the graph.

For each signature one small function is generated. It looks at the classes of the arguments; where they are what the
parameters want, nothing has to be converted and the graph is run at once:

    def enter(a0=absent, a1=absent, /, *more, **named):     # for f(x: Tensor, n: int)
        if (a0.__class__ is Tensor or a0.__class__ is Parameter) and a1.__class__ is int:
            if not (more or named or recorders or is_recorded()):
                try:
                    return way[0](a0, a1)
                except BaseException as error:
                    note(error)
                    raise
        if named and not more:
            values = ordered(given(a0, a1), named)
            if values is not None:
                return enter(*values)
        return otherwise(*given(a0, a1), *more, **named)

Everything else (errors, calls that somebody records, parameters that are only given by keyword) is left to `otherwise`.
In front of such a function there may be machine code that asks the same: see `native/checked_calls.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitlite.base.dynamo import is_unseen_by_dynamo, unseen_by_dynamo
from jitlite.base.records import Record
from jitlite.interpreter.binding import Mismatch, converter, objects_met
from jitlite.ir import types as T
from jitlite.ir.python_classes import classes_as_they_are
from jitlite.ir.schema import Argument
from jitlite.ir.types import Type

Entry = Callable[..., Any]


class Exchanged:
    """Something whose `entry`, a callable, may be exchanged at any time.

    Attributes:
        way: a list of one, the entry. Those who call often look there: machine code can, too.
    """

    def __init__(self, entry: Entry) -> None:
        self.way = [_left_to_python(entry)]

    @property
    def entry(self) -> Entry:
        """What to call."""
        return self.way[0]

    @entry.setter
    def entry(self, entry: Entry) -> None:
        self.way[0] = _left_to_python(entry)


def _left_to_python(entry: Entry) -> Entry:
    """The same, marked if it is a function of Python: Dynamo sees no function that is called before it."""
    function = getattr(entry, "__func__", entry)
    if hasattr(function, "__code__") and not is_unseen_by_dynamo(function):
        unseen_by_dynamo(function)
    return entry


class CallSite(Record, eq=True):
    """What an entry is made for, and what it leads to.

    Attributes:
        formals: the parameters that callers give.
        way: holds what runs the graph.
        recorders: is empty while nobody in the process records calls for jitlite.
        is_recorded: does torch record this thread?
        note: is told of an exception on its way out.
        otherwise: takes any call at all.
        owner: the object whose method it is, which becomes the first argument.
    """

    formals: Sequence[Argument]
    way: list[Entry]
    recorders: list[Any]
    is_recorded: Callable[[], bool]
    note: Callable[[BaseException], None]
    otherwise: Entry
    owner: object = None

    @property
    def is_plain(self) -> bool:
        """Can all arguments be given by position, each for its parameter?"""
        return not any(a.kwarg_only or a.size for a in self.formals)


Count = Callable[[], object]
"""What counts calls."""


def make_entry(site: CallSite, count: Count | None = None, settle: Callable[..., Count] | None = None) -> Entry:
    """The function to call for each call from Python.

    Args:
        count: is called once a call, and raises `StopIteration` after some; None if nothing is to be counted.
        settle: gives what is to count from then on, for the arguments of that call.
    """
    if not site.is_plain:
        return site.otherwise
    names: dict[str, Any] = {
        **{name: getattr(site, name) for name in ("way", "recorders", "is_recorded", "note", "otherwise", "owner")},
        "absent": _ABSENT,
        "given": _given,
        "ordered": functools.partial(_ordered, site.formals),
        "count": count,
        "settle": settle,
        "Mismatch": Mismatch,
        "objects_met": objects_met,
    }
    values = [f"a{i}" for i in range(len(site.formals))]
    passed = ["owner"] if site.owner is not None else []
    tests, conversions = [], []
    for value, formal in zip(values, site.formals, strict=True):
        test = _test(value, formal.type, names)
        form = value if test is not None else f"convert_{value}({value})"
        if test is None:
            names[f"convert_{value}"] = converter(formal.type)
        if formal.has_plain_default:
            names[f"default_{value}"] = formal.default
            form = f"(default_{value} if {value} is absent else {form})"
            tests += [f"({value} is absent or {test})"] if test is not None else []
        else:
            tests.append(test or f"{value} is not absent")
        if test is None:
            conversions.append(f"c{value} = {form}")
            form = f"c{value}"
        passed.append(form)
    parameters = "".join([*(f"{value}=absent, " for value in values), "/, " if values else ""])
    otherwise = f"return otherwise(*given({', '.join(values)}), *more, **named)"
    lines = [
        f"def enter({parameters}*more, **named):",
        *(["    global count"] if count is not None else []),
        f"    if {' and '.join(tests) or 'True'}:",
        "        if not (more or named or recorders or is_recorded()):",
        *_conversions(conversions, otherwise),
        *([*_COUNTING, f"                count = settle({', '.join(values)})"] if count is not None else []),
        "            try:",
        f"                return way[0]({', '.join(passed)})",
        "            except BaseException as error:",
        "                note(error)",
        "                raise",
        "    if named and not more:",
        f"        values = ordered(given({', '.join(values)}), named)",
        "        if values is not None:",
        "            return enter(*values)",
        f"    {otherwise}",
    ]
    exec(compile("\n".join(lines), "generated/enter.py", "exec", dont_inherit=True), names)
    made: Entry = unseen_by_dynamo(names["enter"])
    return made


_COUNTING = (
    "            try:",
    "                count()",
    "            except StopIteration:",
)


class _Absent:
    """What stands for an argument that was not given by position."""


_ABSENT = _Absent()


def _given(*values: object) -> list[object]:
    return [value for value in values if value is not _ABSENT]


def _ordered(formals: Sequence[Argument], given: list[object], named: dict[str, object]) -> list[object] | None:
    """All arguments of a call in the order of the parameters, defaults filled in between; None where that cannot be."""
    left = len(named)
    for formal in formals[len(given) :]:
        if formal.name in named:
            given.append(named[formal.name])
            left -= 1
            if not left:
                return given
        elif formal.has_plain_default:
            given.append(formal.default)
        else:
            return None
    return None


def _conversions(conversions: list[str], otherwise: str) -> list[str]:
    """Lines that convert arguments. What does not fit is found again, and told of, by `otherwise`."""
    if not conversions:
        return []
    return [
        "            met = objects_met[0]",
        "            try:",
        *(f"                {c}" for c in conversions),
        "            except Mismatch:",
        f"                {otherwise}",
        # objects such as dtypes among ints, of which the executor has to know
        "            if met is not objects_met[0]:",
        f"                {otherwise}",
    ]


def _test(value: str, t: Type, names: dict[str, object]) -> str | None:
    """An expression that is true where the value needs no conversion; None where there is no simple one."""
    if isinstance(t, T.OptionalType):
        inner = _test(value, t.element, names)
        return inner and f"({value} is None or {inner})"
    classes = classes_as_they_are(t)
    if not classes:
        return None
    for cls in classes:
        names[cls.__name__] = cls
    return f"({' or '.join(f'{value}.__class__ is {cls.__name__}' for cls in classes)})"
