"""The report of a whole run: which functions were compiled, how long each took, and what became of their calls."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from jitlite.base.keywords import checks_keywords
from jitlite.base.shown_paths import shown_location
from jitlite.base.source import CompileError
from jitlite.base.whole_files import write_whole
from jitlite.compiler.program import Program
from jitlite.executor.executor import Executor, executor_of
from jitlite.executor.explain import explain
from jitlite.executor.kernels import Kernels
from jitlite.ir.unit import Compilation, logged
from jitlite.objects.function_pages import FunctionOrigin, page_of, title_of
from jitlite.report.index import IndexRow, index_page

INDEX = "index.html"
_TO_ITS_END = "It ran to its end."
_MOST_PAGES = 100
"""Functions that get a page of their own, first those that took longest to compile: a page takes tenths of a second."""
_TOLD = ("Calls so far", "Specialized", "Machine code", "Machine code for tensors")
"""What of an explanation the index tells."""
_LONGEST_NAME = 60
"""Characters of a function's name in that of a file."""


@checks_keywords
@contextmanager
def report_run(folder: str | os.PathLike[str], title: str = "jitlite") -> Iterator[None]:
    """Note what is compiled within, and write a page for each function then, and `index.html`, which lists them.

    The index tells how long compiling took, which functions were refused and why, how often each was called, which
    calls the guard of a specialized plan turned away and for what reason, and what machine code could not do.

    Args:
        folder: where to write; it is made if there is none.
        title: what ran, for the heading.

    The pages are written where what is within raises, too, unless it does so before anything is compiled.
    """
    ended = _TO_ITS_END
    with logged() as log:
        try:
            yield
        except SystemExit as stop:
            ended = f"It ended with exit status {stop.code or 0}."
            raise
        except BaseException as error:
            ended = f"It ended with {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise
        finally:
            compilations = {entry.function: entry for entry in log.compilations}
            if compilations or ended == _TO_ITS_END:
                write_run(folder, title, list(compilations.values()), ended)


def write_run(
    folder: str | os.PathLike[str], title: str, compilations: Sequence[Compilation], ended: str
) -> list[IndexRow]:
    """Write the pages of a run; gives what the index lists, what took longest first."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    by_time = sorted(compilations, key=lambda entry: -entry.seconds)
    known = [entry.function.compiled for entry in by_time]  # before pages make executors of those that had none
    rows = []
    for number, (entry, executor) in enumerate(zip(by_time, known, strict=True)):
        page = "" if entry.error is not None or number >= _MOST_PAGES else _write_page(target, number, entry)
        rows.append(_row(entry, executor, page))
    write_whole(target / INDEX, index_page(title, rows, ended))
    return rows


def _write_page(target: Path, number: int, entry: Compilation) -> str:
    """Write the page of a function; gives its name, an empty one where the function calls one that was refused."""
    function = entry.function
    if not function.is_compiled:
        return ""
    name = f"{number:03}-{re.sub(r'[^A-Za-z0-9_.-]', '_', title_of(function))[:_LONGEST_NAME]}.html"
    program = entry.compiler if isinstance(entry.compiler, Program) else Program()
    try:
        origin = FunctionOrigin(program, function)
        kernels = Kernels(executor_of(function), _binds_nothing)
        page = page_of(origin, kernels, None, None, None, index=INDEX)
    except CompileError:
        return ""
    write_whole(target / name, page.html)
    return name


def _binds_nothing(*arguments: object, **keywords: object) -> NoReturn:
    raise AssertionError("the functions of a run are not called once more")


def _row(entry: Compilation, executor: object, page: str) -> IndexRow:
    function = entry.function
    place = "" if function.range is None else shown_location(function.range)
    name = title_of(function) if function.is_compiled else function.name
    if entry.error is not None:
        return IndexRow(name, place, seconds=entry.seconds, refused=str(entry.error))
    if not function.is_compiled:
        return IndexRow(name, place, seconds=entry.seconds, refused="it calls a function that was refused")
    if not isinstance(executor, Executor):
        told = ["it was not called by itself: where another function calls it, it is inlined there"]
        return IndexRow(name, place, page, entry.seconds, sections={"Calls": told})
    return _row_of_calls(executor, IndexRow(name, place, page, entry.seconds))


def _row_of_calls(executor: Executor, row: IndexRow) -> IndexRow:
    """The row with what became of the calls."""
    counters, told = executor.state().counters, explain(executor).sections
    return IndexRow(
        row.name,
        row.place,
        row.page,
        row.seconds,
        calls=executor.counted_calls + counters["hits"] + counters["guard_failures"],
        turned_away=counters["guard_failures"],
        by_python=counters["native_misses"],
        kernels=len(Kernels(executor, _binds_nothing)),
        sections={title: told[title] for title in _TOLD if told.get(title)},
    )
