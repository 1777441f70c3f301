"""The page of a function under two sets of switches."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from jitlite import report as reports
from jitlite.base import options
from jitlite.ir.unit import Function
from jitlite.objects.function import ScriptFunction

Switches = Mapping[str, object]


def page_of_two(
    function: ScriptFunction, switches: tuple[Switches, Switches], args: Sequence[object], kwargs: Mapping[str, object]
) -> reports.page.ReportPage:
    """What each set of switches makes of a function, side by side, and all stages of the first.

    With arguments the function is called once for each set, with copies of them.

    Raises:
        TypeError: there is no such switch.
        ValueError: a switch does not have such values.
        Exception: what the function raises.
    """
    found = [reports.stages.Gathered()]
    found.append(reports.stages.Gathered(sources=found[0].sources))
    subjects = []
    for changes, gathered in zip(switches, found, strict=True):
        with options.override(**changes), _compiled_anew(function.__jitlite_function__):
            subjects.append(function._report_subject(*copy.deepcopy((tuple(args), dict(kwargs)))))
            reports.stages.gather_into(subjects[-1], gathered)
    first, second = (told(changes) for changes in switches)
    reports.both.add_comparison(found[0], found[1], (first, second))
    reports.stages.finish(found[0])
    return reports.page.page_of(subjects[0], found[0])


def told(switches: Switches) -> str:
    """A set of switches in a few words."""
    return ", ".join(f"{name}={value}" for name, value in switches.items()) or "switches as they are"


@contextmanager
def _compiled_anew(function: Function) -> Iterator[None]:
    """Have the function forget its plans meanwhile, which other switches have made."""
    plans, function.compiled = function.compiled, None
    try:
        yield
    finally:
        function.compiled = plans
