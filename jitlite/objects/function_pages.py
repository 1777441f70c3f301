"""Compiled functions as pages: the report of every stage, and what a notebook shows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from jitlite import report as reports
from jitlite.executor.executor import executor_of
from jitlite.executor.kernels import Kernels
from jitlite.executor.observed_call import ObservedCall
from jitlite.frontend.emit.definition import Definition, FunctionCompiler
from jitlite.ir.notebook import graph_html, source_html
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function

_shown_in_notebooks = itertools.count(1)
"""Numbers what notebooks have been given, so that ids are of one page."""


class FunctionOrigin:
    """A function, and the program that may have compiled it from source."""

    def __init__(self, program: FunctionCompiler, function: Function) -> None:
        self.program = program
        self.function = function

    @property
    def definition(self) -> Definition | None:
        """What the function was compiled from, None where it has no source."""
        try:
            return self.program.definition_of(self.function)
        except KeyError:
            return None


def page_of(
    origin: FunctionOrigin,
    kernels: Kernels,
    module: object,
    bound: Sequence[object] | None,
    observed: ObservedCall | None,
    index: str = "",
) -> reports.page.ReportPage:
    """A page with every stage, and with what a call does whose arguments are `bound`; `index` lists it among others."""
    return reports.page.report(subject_of(origin, kernels, module, bound, observed, index))


def subject_of(
    origin: FunctionOrigin,
    kernels: Kernels,
    module: object,
    bound: Sequence[object] | None,
    observed: ObservedCall | None,
    index: str = "",
) -> reports.stages.Subject:
    """What such a page is about."""
    found = origin.definition
    return reports.stages.Subject(
        name=title_of(origin.function),
        signature=str(origin.function.schema),
        tree=None if found is None else found.tree,
        compile=None if found is None else functools.partial(origin.program.compile, found),
        bound=bound,
        observed=observed,
        module=module,
        kernels=kernels,
        executor=executor_of(origin.function),
        index=index,
    )


def title_of(function: Function) -> str:
    """The name of a function; before that of a method stands the name of its class, without its module."""
    owner = function.graph.inputs[0].type if function.graph.inputs else None
    if not isinstance(owner, ClassType) or function.schema.arguments[0].name != "self":
        return function.name
    return f"{owner.qualified_name.rpartition('.')[2]}.{function.name}"


def notebook_view(origin: FunctionOrigin, code: Callable[[], str]) -> str:
    """The source, and the graph, whose lines lead to those of the source."""
    graph, found = origin.function.graph, origin.definition
    if found is None:
        return graph_html(graph)
    anchor = f"jitlite-{next(_shown_in_notebooks)}-"
    return source_html(code(), found.tree.range.line, anchor) + graph_html(graph, anchor)
