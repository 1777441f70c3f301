"""Functions, and the unit that knows them by name.

A `Function` may be declared before it is compiled: its `graph` is made the first time somebody asks for it. While its
body is being compiled its schema can be used already if it is known by then, which is what makes recursion possible.
There is no registry besides the units that programs hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from jitlite.base.errors.calls import OPEN_RECURSION
from jitlite.base.errors.inside import NOT_RUNNABLE
from jitlite.base.locks import Lock
from jitlite.base.source import SourceRange
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.schema import Schema
from jitlite.ir.types import Type

COMPILING = Lock("compiler", reentrant=True)
"""Held by the thread that compiles. With a lock for each function, two threads that compile two functions calling each
other would block; and compiling is Python, so that threads would gain nothing by doing it side by side. A process is
not forked meanwhile: it must not inherit a program half compiled by a thread that it has not inherited."""


class Engine(Protocol):
    """Runs functions that operators call, such as the methods that objects are compared by."""

    def run(self, function: Function, arguments: Sequence[object]) -> Any:
        """The result of a call with one value for each parameter."""
        ...


class Function:
    """A script function.

    Attributes:
        name: the plain name.
        qualified_name: the name within a unit, `__torch__.module.name`.
        range: the whole definition in the user's source, None where there is no source.
        python_function: the Python function it was made from, None if from text.
        is_given_objects: may a caller give it an object such as a dtype for an int? See `object_flow.py`.
        alternatives: names of passes that make other graphs of it, one of which may be faster: calls tell.
        compiled: whatever a stage that runs the graph wants to keep with it; forgotten when the graph is replaced.

    Args:
        define: sets `graph` (and `schema`, unless given) of the function it is called with.
        as_written: gives a graph of the function that debuggers run, which keeps its variables; None where there is
            no source.
        engine: runs the function where Python calls it; None where nothing does.
    """

    def __init__(
        self,
        name: str,
        *,
        qualified_name: str | None = None,
        schema: Schema | None = None,
        graph: Graph | None = None,
        range: SourceRange | None = None,
        python_function: Callable[..., Any] | None = None,
        define: Callable[[Function], None] | None = None,
        as_written: Callable[[Function], Graph] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.name = name
        self.qualified_name = qualified_name or f"__torch__.{name}"
        self.range = range
        self.python_function = python_function
        self.compiled: Any = None
        self.alternatives: tuple[str, ...] = ()
        self.is_given_objects = False
        self._schema = schema
        self._graph = graph
        self._define = define
        self.as_written = as_written
        self.engine = engine
        self._in_progress = False

    @property
    def is_compiled(self) -> bool:
        return self._graph is not None

    @property
    def has_schema(self) -> bool:
        """Is the schema known without compiling the body?"""
        return self._schema is not None

    @property
    def graph(self) -> Graph:
        """The body, compiled now if it was not yet.

        Raises:
            CompileError: where it does not compile, or is still being compiled.
        """
        if self._graph is None:
            self.ensure_compiled()
        if self._graph is None:
            raise OPEN_RECURSION(f"the body of '{self.name}' is needed while it is being compiled", self.range)
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        self.compiled = None

    @property
    def schema(self) -> Schema:
        """The signature; where the result type has to be inferred, this compiles the body.

        Raises:
            CompileError: where the body does not compile, or calls the function before its result type is known.
        """
        if self._schema is None:
            self.ensure_compiled()
        if self._schema is None:
            raise OPEN_RECURSION(
                f"'{self.name}' is called while its own result type is still being inferred",
                self.range,
                hint=f"annotate the result of '{self.name}' (-> T), then it may be recursive",
            )
        return self._schema

    @schema.setter
    def schema(self, schema: Schema) -> None:
        self._schema = schema

    @property
    def defaults(self) -> dict[str, object]:
        """Default values by parameter name."""
        return {a.name: a.default for a in self.schema.arguments if a.has_default}

    def ensure_compiled(self) -> None:
        """Compile the body unless that is done or under way. A failure is raised anew by each call."""
        with COMPILING:
            if self._graph is not None or self._in_progress:
                return
            if self._define is None:
                raise NOT_RUNNABLE(f"function '{self.name}' is declared but has no body", self.range)
            self._in_progress = True
            try:
                with ExitStack() as noted:
                    for log in _logs:
                        noted.enter_context(log.compiling(self, getattr(self._define, "__self__", None)))
                    self._define(self)
            finally:
                self._in_progress = False

    def __call__(self, *arguments: object) -> Any:
        """Run the function with one value for each parameter, apart from whatever is running.

        Raises:
            TypeError: it is of a program that is compiled only.
        """
        if self.engine is None:
            raise TypeError(f"'{self.name}' was compiled to be looked at: nothing runs it")
        return self.engine.run(self, arguments)

    def __repr__(self) -> str:
        return f"<Function {self.qualified_name}>"


class Compilation:
    """What became of one function.

    Attributes:
        function: it is kept alive as long as this is.
        compiler: what compiled it.
        seconds: that it took, without the functions that were compiled on the way.
        error: what it was refused with; None also where a function that it calls was refused.
    """

    def __init__(self, function: Function, compiler: object) -> None:
        self.function = function
        self.compiler = compiler
        self.seconds = 0.0
        self.error: BaseException | None = None
        self._inner = 0.0


class CompileLog:
    """The compilations since it began, in the order in which they ended."""

    def __init__(self) -> None:
        self.compilations: list[Compilation] = []
        self._running: list[Compilation] = []

    @contextmanager
    def compiling(self, function: Function, compiler: object) -> Iterator[None]:
        """Within, a function is compiled. The thread that does so holds the lock of the compiler."""
        entry = Compilation(function, compiler)
        self._running.append(entry)
        since = time.perf_counter()
        try:
            yield
        except BaseException as error:
            if all(known.error is not error for known in self.compilations):
                entry.error = error
            raise
        finally:
            total = time.perf_counter() - since
            self._running.pop()
            entry.seconds = total - entry._inner
            if self._running:
                self._running[-1]._inner += total
            self.compilations.append(entry)


_logs: list[CompileLog] = []
"""Those that are being written."""


@contextmanager
def logged() -> Iterator[CompileLog]:
    """Within, what is compiled is noted, in whatever thread."""
    log = CompileLog()
    _logs.append(log)
    try:
        yield log
    finally:
        _logs.remove(log)


class SymbolTable:
    """Functions and named types by qualified name."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.types: dict[str, Type] = {}

    def add(self, function: Function) -> Function:
        """Put a function into the unit.

        Raises:
            ValueError: where its name is taken; see `unique_name`.
        """
        if self.functions.setdefault(function.qualified_name, function) is not function:
            raise ValueError(f"the unit has a function {function.qualified_name} already")
        return function

    def copy(self) -> SymbolTable:
        """Another unit with the same functions and types."""
        made = SymbolTable()
        made.functions.update(self.functions)
        made.types.update(self.types)
        return made

    def find(self, name: str) -> Function | None:
        """The function of this qualified name, or the only one of this plain name."""
        found = self.functions.get(name)
        if found is None:
            named = [f for f in self.functions.values() if f.name == name]
            found = named[0] if len(named) == 1 else None
        return found

    def unique_name(self, qualified_name: str) -> str:
        """The name itself if it is free, else one mangled as TorchScript does: `__torch__.___torch_mangle_0.f`."""
        prefix, _, last = qualified_name.rpartition(".")
        name, number = qualified_name, 0
        while name in self.functions or name in self.types:
            name = f"{prefix}.___torch_mangle_{number}.{last}".lstrip(".")
            number += 1
        return name

    def __iter__(self) -> Iterator[Function]:
        return iter(self.functions.values())

    def __len__(self) -> int:
        return len(self.functions)

    def __contains__(self, name: str) -> bool:
        return name in self.functions


def insert_call(
    graph: Graph, function: Function, arguments: Sequence[Value], range: SourceRange | None = None
) -> Value:
    """Place a call of `function` at the insertion point; gives its result (a tuple where there are several)."""
    attributes = {"name": function.name, "value": function}
    constant = graph.insert("prim::Constant", (), (T.FUNCTION,), attributes, range).output
    returned = [r.type for r in function.schema.returns]
    result = returned[0] if len(returned) == 1 else T.TupleType.of(returned)
    return graph.insert("prim::CallFunction", (constant, *arguments), (result,), None, range).output


def called_function(node: Node) -> Function | None:
    """The function that a `prim::CallFunction` or a `prim::CallMethod` of a compiled class calls, if known."""
    if node.kind == "prim::CallFunction":
        found = node.inputs[0].node.attributes.get("value")
    elif node.kind == "prim::CallMethod" and isinstance(node.inputs[0].type, T.ClassType):
        found = node.inputs[0].type.methods.get(node.attributes["name"])
    else:
        return None
    return found if isinstance(found, Function) else None


class MethodName(str):
    """The name of a method that was called on a submodule.

    Attributes:
        module: the path of the submodule, such as `layer1.0`, from the module whose method is run.
    """

    __slots__ = ("module",)
    module: str

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def name_of_call(call: Node, function: Function) -> str:
    """The name of the function that a node calls; it knows its module, if it is a method of a submodule."""
    path: list[str] = []
    owner = call.inputs[0].node if call.kind == "prim::CallMethod" else None
    while owner is not None and owner.kind == "prim::GetAttr":
        path.append(owner.attributes["name"])
        owner = owner.inputs[0].node
    if not path:
        return function.name
    name = MethodName(function.name)
    name.module = ".".join(reversed(path))
    return name


def passed_arguments(node: Node) -> Sequence[Value]:
    """What a `prim::CallFunction` hands to its function, or a `prim::CallMethod` to its method, `self` first."""
    return node.inputs[1:] if node.kind == "prim::CallFunction" else node.inputs


def stops_in_debugger(graph: Graph) -> bool:
    """Is there a `breakpoint()` in the graph, or in a function that it calls or defers?"""
    todo, seen = [graph], {graph}
    while todo:
        for node in todo.pop().all_nodes():
            if node.kind == "prim::Breakpoint":
                return True
            callee, group = called_function(node), node.attributes.get("Subgraph")
            for inner in (None if callee is None else callee.graph, group):
                if isinstance(inner, Graph) and inner not in seen:
                    seen.add(inner)
                    todo.append(inner)
    return False


def called_functions(graph: Graph) -> list[Function]:
    """The functions that a graph calls, and those that these call, each once."""
    found: dict[Function, None] = {}
    todo = [graph]
    while todo:
        for node in todo.pop().all_nodes():
            callee = called_function(node)
            if callee is not None and callee not in found:
                found[callee] = None
                todo.append(callee.graph)
    return list(found)
