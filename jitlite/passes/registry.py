"""What a pass is, and the runner.

A pass is a function `Graph -> bool` ("did anything change?") marked with `@graph_pass`. One of jitlite's own is named
after its file, so no list is kept: `find("cse")` imports `passes/cse.py`. Others have the name that they are marked
with. `run(graph, "inline,cse,dce")` runs several in order, with one `PassHook` around each of them.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import itertools
import os
import pkgutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from types import ModuleType
from typing import TextIO, overload

from jitlite.base import options, plugins
from jitlite.base.records import Record
from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.ir import types as T
from jitlite.ir.compiling import compiling, depth_of, make_room
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.printer import graph_lines
from jitlite.ir.types import Type
from jitlite.ir.verify import verify
from jitlite.operators.range_loops import count_range_loops

Pass = Callable[[Graph], bool]
Lines = tuple[tuple[str, SourceRange | None], ...]
"""The lines of a graph's text, without places, and where in the user's source each comes from."""

_passes: dict[str, Pass] = {}
_inexact: set[str] = set()
"""The passes whose results may differ by rounding."""
_executions = itertools.count(1)
"""Numbers the passes run in this process, for the bisect limit."""


@overload
def graph_pass(function: Pass) -> Pass: ...
@overload
def graph_pass(*, name: str | None = None, exact: bool = True) -> Callable[[Pass], Pass]: ...
def graph_pass(
    function: Pass | None = None, *, name: str | None = None, exact: bool = True
) -> Pass | Callable[[Pass], Pass]:
    """Mark a function `Graph -> bool` as a pass, which `run`, `jitlite opt` and others then find by its name.

    Args:
        name: what it is called. Without, a pass of jitlite's own is called as its file, any other as its function.
        exact: does it keep results to the last bit?

    Raises:
        ValueError: the name is no identifier, or is that of another pass.
    """

    def mark(function: Pass) -> Pass:
        _enter(_default_name(function) if name is None else name, function, exact)
        return function

    return mark if function is None else mark(function)


def inexact_pass(function: Pass) -> Pass:
    """`graph_pass` for a pass after which numbers may be rounded otherwise: it belongs into opt-in pipelines only."""
    return graph_pass(exact=False)(function)


def is_own(function: Pass) -> bool:
    """Is the pass one of jitlite's own?"""
    return getattr(function, "__module__", "").startswith(f"{__package__}.")


def name_of(function: Pass) -> str:
    """The name of a pass that is given as a function: the one it is marked with, else the function's."""
    marked = next((name for name, found in _passes.items() if found is function), None)
    return marked or str(getattr(function, "__name__", type(function).__name__))


def _default_name(function: Pass) -> str:
    return function.__module__.rpartition(".")[2] if is_own(function) else name_of(function)


def _enter(name: str, function: Pass, exact: bool) -> None:
    if not name.isidentifier():
        raise ValueError(f"a pass cannot be called {name!r}; mark it with graph_pass(name=...), a name of Python's")
    if not is_own(function) and name in _file_names():
        raise ValueError(f"{name!r} is the name of a pass of jitlite's own; give graph_pass another name")
    before = _passes.get(name)
    if before is not None and _home(before) != _home(function):
        raise ValueError(f"two passes are called {name!r}: {_home(before)} and {_home(function)}")
    _passes[name] = function
    (_inexact.discard if exact else _inexact.add)(name)


def _home(function: Pass) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def is_exact(name: str) -> bool:
    """Does the pass keep results to the last bit?"""
    find(name)
    return name not in _inexact


def find(name: str) -> Pass:
    """The pass of this name: of the file `passes/<name>.py`, marked by somebody else, or of an installed package.

    Raises:
        ValueError: where there is no such pass.
    """
    if name not in _passes and name.isidentifier() and importlib.util.find_spec(f"{__package__}.{name}") is not None:
        load_file(name)
    if name not in _passes:
        plugins.load("jitlite.passes", _accept)
    if name not in _passes:
        hint = did_you_mean(name, names())
        raise ValueError(f"there is no pass {name!r}" + (f"; {hint}" if hint else ""))
    return _passes[name]


def names() -> list[str]:
    """The names of all passes, sorted: those of jitlite's own, of installed packages, and those marked by others."""
    own_names()
    plugins.load("jitlite.passes", _accept)
    return sorted(_passes)


def own_names() -> list[str]:
    """The names of jitlite's own passes, sorted."""
    for name in _file_names():
        load_file(name)
    return sorted(name for name, function in _passes.items() if is_own(function))


def _accept(plugin: plugins.Plugin) -> None:
    """Take what an entry point names: a pass that is marked, or is to be called as the entry point, or their module."""
    if isinstance(plugin.found, ModuleType):
        return
    if not callable(plugin.found):
        raise TypeError(f"{plugin.value} is neither a function nor a module")
    if plugin.found not in _passes.values():
        graph_pass(name=plugin.name)(plugin.found)


def load_file(name: str) -> None:
    """Import the file of one of jitlite's own passes."""
    importlib.import_module(f"{__package__}.{name}")


def _file_names() -> list[str]:
    folder = os.path.dirname(__file__)
    return [module.name for module in pkgutil.iter_modules([folder]) if not module.ispkg]


class PassRecord(Record, eq=True, frozen=False):
    """What one run of one pass did."""

    name: str
    changed: bool
    seconds: float
    nodes_before: int
    nodes_after: int
    gone: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    """How many nodes of each kind there are fewer, and more, than before; only if the hook is to `count_kinds`."""
    before: Lines = ()
    after: Lines = ()
    """The graph around a pass that changed something; only if the hook `keeps_lines`."""


class PassError(RuntimeError):
    """A pass failed on a graph: a fault of the pass, with all that is needed to look for it."""

    def __init__(
        self, name: str, before: Sequence[str], range: SourceRange | None, cause: Exception, function: Pass
    ) -> None:
        ran = ", ".join(before) or "none"
        lines = [f"pass {name!r} failed: {type(cause).__name__}: {cause}", f"passes before it: {ran}"]
        if range is not None:
            lines += [f"at work on {range.location()}:", range.excerpt()]
        lines.append(_whose_fault(function))
        super().__init__("\n".join(lines))
        self.name = name
        self.before = tuple(before)
        self.range = range


def _whose_fault(function: Pass) -> str:
    if is_own(function):
        return "This is a fault of jitlite; please report it with the program."
    code = getattr(inspect.unwrap(function), "__code__", None)
    place = "" if code is None else f", {code.co_filename}:{code.co_firstlineno}"
    return f"The pass is no part of jitlite; it is {_home(function)}{place}"


class PassHook(Record, eq=True, frozen=False):
    """What happens around every pass.

    Attributes:
        verify: check the graph after the pass.
        print_changed: where to print a unified diff of what the pass changed.
        bisect_limit: skip passes whose number is above it.
        numbers: gives the number of each pass for the bisect limit; without it passes are counted in this process, and
            which of them run is printed.
        count_kinds: write down in the records which kinds of nodes there are fewer and more.
        differential: called with the pass's name, a copy of the graph before it and the graph after it, where the pass
            changed something; raises if the two disagree.
        records: filled with one record a pass, if `keeps_records`.
        keeps_lines: write down in the records what the graph was before and after a pass that changed it.
    """

    verify: bool = False
    print_changed: TextIO | None = None
    bisect_limit: int | None = None
    differential: Callable[[str, Graph, Graph], None] | None = None
    records: list[PassRecord] = field(default_factory=list)
    numbers: Iterator[int] | None = None
    count_kinds: bool = False
    keeps_records: bool = True
    keeps_lines: bool = False

    @property
    def does_nothing(self) -> bool:
        """Is a pass to be run and nothing else? Counting nodes takes a tenth of the time of compiling."""
        asked = self.verify, self.print_changed, self.bisect_limit, self.differential
        return not self.keeps_records and asked == (False, None, None, None)

    @staticmethod
    def from_options() -> PassHook:
        """The hook that the switches in force ask for."""
        chosen = options.current()
        changes_to = sys.stderr if chosen.print_changed else None
        return PassHook(chosen.verify, changes_to, chosen.opt_bisect_limit, keeps_records=False)

    def around(self, name: str, function: Pass, graph: Graph) -> bool:
        """Run one pass with everything that is asked for."""
        if self.does_nothing:
            return function(graph)
        if not self._is_within_limit(name):
            return False
        original = graph.copy() if self.differential else None
        before = self._lines(graph)
        count, kinds = _count(graph), _kinds(graph) if self.count_kinds else Counter()
        start = time.perf_counter()
        changed = function(graph)
        record = PassRecord(name, changed, time.perf_counter() - start, count, _count(graph))
        if self.count_kinds:
            now = _kinds(graph)
            record.gone, record.new = kinds - now, now - kinds
        self.records.append(record)
        if self.verify:
            verify(graph)
        if changed or self.print_changed:  # which also shows what a pass changes without saying so
            self._tell_change(record, before, self._lines(graph))
        if original is not None and self.differential is not None and changed:
            self.differential(name, original, graph)
        return changed

    def _lines(self, graph: Graph) -> Lines:
        """The text of the graph, if somebody wants to see what passes change."""
        return lines_of(graph) if self.print_changed or self.keeps_lines else ()

    def _tell_change(self, record: PassRecord, before: Lines, after: Lines) -> None:
        if self.print_changed:
            self.print_changed.write(_difference(record.name, before, after))
        if self.keeps_lines and record.changed:
            record.before, record.after = before, after

    def _is_within_limit(self, name: str) -> bool:
        """May the next pass run, by the bisect limit?"""
        if self.bisect_limit is None:
            return True
        number = next(_executions if self.numbers is None else self.numbers)
        runs = number <= self.bisect_limit
        if self.numbers is None:
            print(f"BISECT: {'running' if runs else 'NOT running'} pass ({number}) {name}", file=sys.stderr)
        return runs


def _count(graph: Graph) -> int:
    return sum(1 for _ in graph.all_nodes())


def _kinds(graph: Graph) -> Counter[str]:
    return Counter(node.kind for node in graph.all_nodes())


def lines_of(graph: Graph) -> Lines:
    """The lines of the graph's text, without places, and where each comes from."""
    return tuple((line, None if node is None else node.range) for line, node in graph_lines(graph, ranges=False))


def _difference(name: str, before: Lines, after: Lines) -> str:
    old, new = ([f"{text}\n" for text, _ in lines] for lines in (before, after))
    return "".join(difflib.unified_diff(old, new, f"before {name}", f"after {name}"))


PassList = str | Sequence[str | Pass]
"""Passes to run in order: names joined by commas, or a sequence of names and functions."""


def run(graph: Graph, passes: PassList, hook: PassHook | None = None) -> bool:
    """Run passes in order; says whether any changed the graph.

    Passes take the index of a loop for the number of the iteration. Loops over ranges, which the graphs that code is
    generated from have, count again first. The graph is verified after each pass that is none of jitlite's own.

    Args:
        graph: changed in place.
        passes: names, joined by commas, or a sequence of names and of functions `Graph -> bool`.
        hook: what happens around each pass; what the switches ask for if not given.

    Raises:
        ValueError: where a name is no pass.
        PassError: where a pass, or the check after it, fails.
        CompileError: where a pass finds the user's program wanting.
    """
    listed = [_named(item) for item in (_split(passes) if isinstance(passes, str) else passes)]
    around = PassHook.from_options() if hook is None else hook
    changed = bool(listed) and count_range_loops(graph)
    if changed:
        graph.forget_analyses()
    may_be_deeper = True
    for position, (name, function) in enumerate(listed):
        try:
            with compiling():
                if may_be_deeper:
                    make_room(depth_of(graph))  # passes go down into blocks, which early returns nest deeply
                may_be_deeper = around.around(name, function if is_own(function) else _checked(function), graph)
                changed = may_be_deeper or changed
                if may_be_deeper:
                    graph.forget_analyses()
        except CompileError:
            raise
        except Exception as error:
            before = [name for name, _ in listed[:position]]
            raise PassError(name, before, _range_at_work(error), error, function) from error
    return changed


def _split(passes: str) -> list[str]:
    return [name.strip() for name in passes.split(",") if name.strip()]


def _named(item: str | Pass) -> tuple[str, Pass]:
    return (item, find(item)) if isinstance(item, str) else (name_of(item), item)


def _checked(function: Pass) -> Pass:
    """The pass, with a look at what it says and leaves: others have not been tried on thousands of programs."""

    def checked(graph: Graph) -> bool:
        inputs, outputs = list(graph.inputs), list(graph.outputs)
        types = [value.type for value in outputs]
        changed: object = function(graph)
        if not isinstance(changed, bool):
            raise TypeError(f"it returned {changed!r}; a pass returns True if it changed the graph, else False")
        verify(graph)
        _check_signature(graph, inputs, outputs, types)
        return changed

    return checked


def _check_signature(graph: Graph, inputs: list[Value], outputs: list[Value], types: list[Type]) -> None:
    """Raise where a pass has changed what callers of the graph pass and get: they know nothing of it."""
    if list(graph.inputs) != inputs:
        raise ValueError(f"it changed the graph's inputs: {_named_values(inputs)} became {_named_values(graph.inputs)}")
    now = list(graph.outputs)
    if len(now) != len(outputs):
        raise ValueError(f"it changed the number of the graph's outputs: {len(outputs)} became {len(now)}")
    if now != outputs and Counter(now) == Counter(outputs):
        raise ValueError(
            f"it changed the order of the graph's outputs: {_named_values(outputs)} became {_named_values(now)}"
        )
    for position, (value, before) in enumerate(zip(now, types, strict=True)):
        if not T.is_subtype(value.type, before):
            raise ValueError(f"it changed the type of output {position}: {before} became {value.type}")


def _named_values(values: Sequence[Value]) -> str:
    return f"({', '.join(f'%{value.name}' for value in values)})"


def _range_at_work(error: Exception) -> SourceRange | None:
    """The user's line a failing pass was looking at: that of the innermost local variable that is a node."""
    found: SourceRange | None = None
    step = error.__traceback__
    while step is not None:
        for local in step.tb_frame.f_locals.values():
            if isinstance(local, Node) and local.range is not None:
                found = local.range
        step = step.tb_next
    return found


def summary(name: str) -> str:
    """The first paragraph of a pass's documentation, in one line: that of its file, if it is one of jitlite's own."""
    function = find(name)
    text = (sys.modules[function.__module__] if is_own(function) else function).__doc__ or ""
    return " ".join(text.strip().partition("\n\n")[0].split())


def passes_markdown() -> str:
    """`docs/passes.md`: every pass of jitlite's own with its file's docstring."""
    parts = [
        "# Passes",
        "Made from the passes' docstrings by `jitlite.passes.registry.passes_markdown()`.",
        "Each pass keeps results, exceptions, printed text, random draws, aliasing and identity as they are.",
    ]
    for name in own_names():
        module = sys.modules[_passes[name].__module__]
        parts += [f"## {name}", (module.__doc__ or "").strip()]
    return "\n\n".join(parts) + "\n"
