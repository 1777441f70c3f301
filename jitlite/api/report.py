"""`jitlite.report`: the page with every stage of a function or module."""

from __future__ import annotations

from collections.abc import Callable

from jitlite import report as reports
from jitlite.api.script import script
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import RecursiveScriptModule


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
    if isinstance(function, type):
        raise TypeError(
            f"a report is about a function or module; {function.__name__} is a class: give one of its methods"
        )
    compiled = function if isinstance(function, ScriptFunction | RecursiveScriptModule) else script(function)
    page: reports.page.ReportPage = compiled.report(*args, **kwargs)
    return page
