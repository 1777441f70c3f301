"""Python source -> cleaned graph: runs the front end's steps and the cleanup passes for every function a program needs.

A `Program` compiles a function and, on the way, the Python functions it calls. It owns the `CompilationUnit` they
live in; nothing is shared between programs.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from jitlite.frontend import functions, tree
from jitlite.frontend.functions import Definition
from jitlite.frontend.python_ast import function_tree, parse_functions
from jitlite.frontend.resolve import FunctionResolver, Resolver
from jitlite.ir.constants import qualified_name
from jitlite.ir.graph import Graph
from jitlite.ir.unit import CompilationUnit, Function
from jitlite.passes.growing_lists import follow_growing_lists
from jitlite.passes.pipelines import CLEANUP, OPTIMIZE
from jitlite.source import CompileError, SourceRange

Observer = Callable[[str, Graph], None]
"""Called with the name of a step and the graph after it."""


_DEEPEST = 10_000
"""Python frames that compiling may nest: a chain of early returns nests its graph as deep as the function is long."""


class _Workshop:
    """What compiling changes in the whole process, changed by the first thread in and put back by the last one out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._found = (0, False)

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._found = sys.getrecursionlimit(), gc.isenabled()
                sys.setrecursionlimit(max(self._found[0], _DEEPEST))
                gc.disable()
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                limit, collecting = self._found
                if collecting:
                    gc.enable()
                with suppress(RecursionError):  # this very thread is deeper than the limit it came with
                    sys.setrecursionlimit(limit)


_workshop = _Workshop()


@contextmanager
def compiling() -> Iterator[None]:
    """Room and peace for the compiler: deep recursion allowed, garbage collection paused.

    Trees and graphs are many small objects that live until the end; collecting meanwhile finds nothing and took half
    of the time of a function with a thousand statements. Several threads may be compiling at once.

    Raises:
        CompileError: where the program is nested too deeply even so.
    """
    _workshop.enter()
    try:
        yield
    except RecursionError as error:
        raise CompileError("the program is nested too deeply to be compiled", hint="split it into functions") from error
    finally:
        _workshop.leave()


class Program:
    """The functions compiled for one root, each once."""

    def __init__(self) -> None:
        self.unit = CompilationUnit()
        self._functions: dict[tuple[Any, Any], Function] = {}
        self._definitions: dict[Function, Definition] = {}
        self._compiling: list[str] = []

    def function_for(
        self,
        python_function: Callable[..., Any],
        range: SourceRange | None = None,
        signature: Callable[..., Any] | None = None,
    ) -> Function:
        """The script function of a Python function, compiled now if it was not yet.

        Args:
            range: the call that needs it, for errors.
            signature: the function whose annotations and defaults count, for declared overloads.

        Raises:
            CompileError: where it does not compile; the error says by which calls the function was reached.
        """
        key = (python_function, signature)
        try:
            function = self._functions.get(key)
            if function is None:
                function = self._functions[key] = self._declare(python_function, signature)
            function.ensure_compiled()
            if not function.has_schema:
                raise CompileError(
                    f"function '{function.name}' is called recursively, and its result type is not known yet",
                    range,
                    hint=f"annotate the result: def {function.name}(...) -> T",
                )
        except CompileError as error:
            self._functions.pop(key, None)
            if range is not None and error.range is not range:
                error.add_caller(self._compiling[-1] if self._compiling else "?", range)
            raise
        return function

    def definition_of(self, function: Function) -> Definition:
        """What a function of this program was compiled from."""
        return self._definitions[function]

    def _declare(self, python_function: Callable[..., Any], signature: Callable[..., Any] | None) -> Function:
        source = function_tree(python_function)
        declared = None if signature is None else function_tree(signature)
        resolver = FunctionResolver(source.function, source.ignored_functions)
        defaults = source.defaults if declared is None else {**source.defaults, **declared.defaults}
        definition = Definition(
            source.definition.name.name,
            source.definition,
            resolver,
            defaults,
            None if declared is None else declared.definition,
        )
        return self.declare(definition, source.function)

    def declare(self, definition: Definition, python_function: Callable[..., Any] | None = None) -> Function:
        """A function that is compiled when it is first needed."""
        name = definition.name
        qualified = f"__torch__.{name}" if python_function is None else qualified_name(python_function)  # type: ignore[arg-type]
        schema = functions.declared_schema(definition) if definition.has_declared_result else None
        function = Function(
            name,
            qualified_name=self.unit.unique_name(qualified),
            schema=schema,
            range=definition.tree.range,
            python_function=python_function,
            define=self._define,
        )
        self._definitions[function] = definition
        return self.unit.add(function)

    def _define(self, function: Function) -> None:
        self._compiling.append(function.name)
        try:
            function.graph, function.schema = self.compile(self._definitions[function])
        finally:
            self._compiling.pop()

    def compile(self, definition: Definition, observe: Observer | None = None) -> tuple[Graph, Any]:
        """All the steps from tree to cleaned graph; gives the graph and the function's schema."""
        graph, schema = functions.emit(self, definition, functions.declared_schema(definition))
        if observe:
            observe("emitted", graph)
        for name, step in (*functions.SSA_STEPS, ("lists", follow_growing_lists), *functions.NORMAL_FORM_STEPS):
            step(graph)
            if observe:
                observe(name, graph)
        CLEANUP(graph)
        for _, step in functions.FINAL_STEPS:
            step(graph)
        if observe:
            observe("graph", graph)
        return graph, schema


def compile_python(python_function: Callable[..., Any]) -> tuple[Program, Function]:
    """Compile a Python function in a program of its own.

    Raises:
        CompileError: where it is not TorchScript.
    """
    program = Program()
    with compiling():
        return program, program.function_for(python_function)


def compile_text(text: str, filename: str | None = None, scope: dict[str, object] | None = None) -> Program:
    """Compile every function definition of a text; they may call each other and what `scope` holds.

    Raises:
        CompileError: where the text, or a function in it, is not TorchScript.
    """
    program = Program()
    names: dict[str, object] = dict(scope or {})
    declared = []
    with compiling():
        for definition in parse_functions(text, filename):
            resolver = Resolver(names)
            function = program.declare(Definition(definition.name.name, definition, resolver, _defaults(definition)))
            names[function.name] = function
            declared.append(function)
        for function in declared:
            function.ensure_compiled()
    return program


def _defaults(definition: tree.Def) -> dict[str, object]:
    """Values of the defaults that stand in a text, which have to be literals."""
    found: dict[str, object] = {}
    for param in definition.decl.params:
        if param.default is not None:
            found[param.ident.name] = _literal(param.default)
    return found


def _literal(expr: tree.Expr) -> object:
    if isinstance(expr, tree.Const | tree.StringLiteral):
        return expr.value
    if isinstance(expr, tree.TrueLiteral | tree.FalseLiteral):
        return isinstance(expr, tree.TrueLiteral)
    if isinstance(expr, tree.NoneLiteral):
        return None
    if isinstance(expr, tree.UnaryOp) and expr.op == "unary minus" and isinstance(expr.operand, tree.Const):
        return -expr.operand.value
    if isinstance(expr, tree.TupleLiteral):
        return tuple(_literal(e) for e in expr.elements)
    if isinstance(expr, tree.ListLiteral):
        return [_literal(e) for e in expr.elements]
    raise CompileError("a default in a text must be a literal", expr.range)


def optimized(graph: Graph) -> Graph:
    """An optimized copy of a cleaned graph."""
    with compiling():
        copy = graph.copy()
        OPTIMIZE(copy)
    return copy
