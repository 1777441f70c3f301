"""`jitlite.report`: the page with every stage of a function or module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jitlite import report as reports
from jitlite.api.script import script
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import RecursiveScriptModule
from jitlite.objects.two_settings import page_of_two


def report(function: Callable[..., object], *args: object, **kwargs: object) -> reports.page.ReportPage:
    """A page with every stage: `jitlite.report(fn, x).save("report.html")` is `fn.report(x).save("report.html")`.

    Args:
        function: a script function, a method or module, or what `jitlite.script` takes.
        args: with arguments the function is called once, and the page has what each value was.
        kwargs: those that are given by name.

    Raises:
        CompileError: the function is not TorchScript.
        TypeError: a class, which has no call to report.
        Exception: what the function raises.
    """
    page: reports.page.ReportPage = _compiled(function).report(*args, **kwargs)
    return page


def report_side_by_side(
    function: Callable[..., object],
    first: Mapping[str, object],
    second: Mapping[str, object],
    /,
    *args: object,
    **kwargs: object,
) -> reports.page.ReportPage:
    """A page that shows what two sets of switches make of a function, and marks what differs.

        jitlite.report_side_by_side(fn, {}, {"native": "off"}, x).save("report.html")

    Args:
        function: a script function, a method or module, or what `jitlite.script` takes.
        first, second: switches by their names, as `jitlite.options.override` takes them.
        args: with arguments the function is called once for each set, with copies of them.
        kwargs: those that are given by name.

    Raises:
        CompileError: the function is not TorchScript.
        TypeError: a class, which has no call to report; or there is no such switch.
        ValueError: a switch does not have such values.
        Exception: what the function raises.
    """
    compiled = _compiled(function)
    called = compiled if isinstance(compiled, ScriptFunction) else compiled.forward
    return page_of_two(called, (first, second), args, kwargs)


def _compiled(function: Callable[..., object]) -> Any:
    if isinstance(function, type):
        raise TypeError(
            f"a report is about a function or module; {function.__name__} is a class: give one of its methods"
        )
    return function if isinstance(function, ScriptFunction | RecursiveScriptModule) else script(function)
