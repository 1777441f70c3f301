"""Python source -> cleaned graph: runs the front end's steps and the cleanup passes for every function a program needs.

A `Program` compiles a function and, on the way, the Python functions it calls. It owns the `SymbolTable` they
live in; nothing is shared between programs.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from types import FunctionType
from typing import Any, ClassVar

import torch

from jitlite.base.errors.calls import OPEN_RECURSION
from jitlite.base.errors.classes import NO_SCRIPT_CLASS
from jitlite.base.records import replace
from jitlite.base.source import CompileError, SourceRange
from jitlite.compiler.callees import MOST_NESTED, called_functions, compile_callees
from jitlite.compiler.carried_sources import (
    ByValuePickler,
    CarriedSource,
    by_value_pickler,
    carry_sources,
    described_source,
    methods_of,
)
from jitlite.compiler.graphs_as_written import NORMAL_FORM_STEPS, graph_as_written
from jitlite.compiler.library_errors import is_of_library, tell_at_call
from jitlite.frontend.classes.classes import INTERFACE_MARK, ScriptClass, type_of_class, why_no_script_class
from jitlite.frontend.classes.denoted import MAKERS
from jitlite.frontend.classes.example_types import known_types
from jitlite.frontend.classes.hooks import check_hooks
from jitlite.frontend.classes.module_types import ModuleTypes
from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.frontend.emit import functions
from jitlite.frontend.emit.definition import Definition, Maker
from jitlite.frontend.emit.meanings import Kind
from jitlite.frontend.emit.open_calls import GivenTypes, has_open_parameters
from jitlite.frontend.emit.open_types import result_is_open, without_result
from jitlite.frontend.emit.resolver import FunctionResolver
from jitlite.frontend.syntax.decorated import signed_tree
from jitlite.frontend.syntax.decorators import replaces, without_marks
from jitlite.frontend.syntax.function_source import FunctionSource
from jitlite.frontend.syntax.python_ast import function_tree
from jitlite.frontend.syntax.python_source import plain_function
from jitlite.frontend.syntax.tree_base import depth_of_tree
from jitlite.ir.compiling import compiling as compiling
from jitlite.ir.compiling import depth_of, make_room
from jitlite.ir.constants import qualified_name
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Schema
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Engine, Function, SymbolTable
from jitlite.passes.pipelines import CLEANUP, OPTIMIZE
from jitlite.passes.registry import PassHook

Observer = Callable[[str, Graph], None]
"""Called with the name of a step and the graph after it."""


_graph_view: ContextVar[Callable[[Graph], object] | None] = ContextVar("_graph_view", default=None)
"""How programs that are made now show the graphs of their functions, if not as they are."""


@contextmanager
def showing_graphs_as(view: Callable[[Graph], object]) -> Iterator[None]:
    """Programs that this thread makes inside show the graphs of their functions as `view` makes them, always."""
    token = _graph_view.set(view)
    try:
        yield
    finally:
        _graph_view.reset(token)


class Program:
    """The functions compiled for one root, each once.

    Args:
        engine: runs methods that operators call. None for a program that is only looked at: it must not be the first
            to reach a class that others run.
    """

    _compiling: ClassVar[list[str]] = []
    """What is being compiled, outermost first. One for all programs: a class has one, and is compiled on the way."""
    unites_branches = False
    makers: Mapping[Kind, Maker] = MAKERS

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine
        self.unit = SymbolTable()
        self.graph_view = _graph_view.get()
        self._functions: dict[tuple[object, object], Function] = {}
        self._definitions: dict[Function, Definition] = {}
        self._sources: dict[tuple[object, object], tuple[Definition, FunctionType]] = {}
        """Functions that have been looked at, and are not declared yet."""
        self._open: dict[object, Definition | None] = {}
        self.module_types = ModuleTypes(self)
        self.names: Callable[[str], Any] | None = None
        """The meaning of names that the function to compile does not know by itself, while it is being compiled."""
        self.defined: dict[str, object] = {}
        """The functions and classes that texts have defined, by name."""
        self._checked: set[ClassType] = set()

    def __reduce__(self) -> Any:
        """A pickled program is an empty one, shared by what shared it: Python functions are compiled anew.

        A pickler that writes Python functions themselves, not their names, writes their sources too.
        """
        pickler = by_value_pickler(sys._getframe(1))
        return empty_program, ([] if pickler is None else self.carried_sources(pickler), self.engine)

    def carried_sources(self, pickler: ByValuePickler) -> list[CarriedSource]:
        """The sources of Python functions, and methods of classes, that the pickler does not write by their names."""
        programs, classes = self._programs_and_classes()
        compiled = [function.python_function for program in programs for function in program.unit]
        # a class that is found by its name comes with what others have put into it, as torch.compile does to nn.Module
        bases = [base for cls in classes if cls for base in cls.__mro__ if not pickler.finds(base)]
        methods = [method for cls in bases for method in methods_of(cls)]
        functions = {plain_function(f): None for f in (*compiled, *methods) if f is not None}
        return [(f, *source) for f in functions if not pickler.finds(f) and (source := described_source(f))]

    def _programs_and_classes(self) -> tuple[Iterable[Program], Iterable[type | None]]:
        """This program and those of the classes that are reached from it, and all these classes."""
        programs, classes = {self: None}, dict.fromkeys(self.module_types.classes())
        pending = [self]
        while pending:
            for found in _classes_in(pending.pop().unit):
                classes[found.python_class] = None
                program = getattr(found.definition, "program", None)  # a class has one of its own
                if isinstance(program, Program) and program not in programs:
                    programs[program] = None
                    pending.append(program)
        return programs, classes

    def function_for(
        self,
        python_function: Callable[..., object],
        range: SourceRange | None = None,
        signature: Callable[..., object] | None = None,
        given: GivenTypes | None = None,
    ) -> Function:
        """The script function of a Python function, compiled now if it was not yet.

        Args:
            range: the call that needs it, for errors.
            signature: the function whose annotations and defaults count, for declared overloads.
            given: what the call needs, where its types are those that count.

        Raises:
            CompileError: where it does not compile; the error says by which calls the function was reached.
        """
        key = (python_function, signature if given is None else given.key)
        try:
            function = self._functions.get(key)
            if function is None and given is not None:
                plain = without_marks(python_function)
                function = self.declare(given.definition, plain if callable(plain) else None)
                self._functions[key] = function
            elif function is None:
                function = self._functions[key] = self._declare(python_function, signature)
        except CompileError as error:
            self._tell_caller(error, getattr(python_function, "__name__", "?"), range)
            raise
        try:
            return self.ready(function, range, None if given is None else given.shown)
        except CompileError:
            self._functions.pop(key, None)
            raise

    def open_definition(self, python_function: Callable[..., object]) -> Definition | None:
        """A Python function some of whose parameters have the types that each call gives; None for others."""
        if python_function not in self._open:
            found = None
            with suppress(CompileError):  # whoever declares it says why
                self._sources[python_function, None] = self._described(python_function, None)
                found = self._sources[python_function, None][0]
            is_open = found is not None and not is_of_library(found.tree.range) and has_open_parameters(found)
            self._open[python_function] = found if is_open else None
        return self._open[python_function]

    def definition_for(self, python_function: Callable[..., object]) -> Definition:
        """What a Python function is compiled from; a CompileError where its source is not known."""
        return self._described(python_function, None)[0]

    def signed(self, python_function: Callable[..., object]) -> GivenTypes | None:
        """A function that a decorator has replaced, with the parameters that it had; None for others."""
        if not replaces(without_marks(python_function)):
            return None
        definition, _ = self._defined(signed_tree(python_function))
        return GivenTypes("as signed", definition, [], definition.name)

    def open_method(self, function: Function) -> Definition | None:
        """A method some of whose parameters have the types that each call gives; None for others."""
        if function not in self._open:
            found = self._definitions.get(function)
            self._open[function] = found if found is not None and has_open_parameters(found) else None
        return self._open[function]

    def _compile_callees(self, function: Function) -> None:
        known = set(self._functions)
        compile_callees(function, self.callees)
        for key in [key for key, found in self._functions.items() if key not in known and not found.is_compiled]:
            self.forget(self._functions.pop(key))

    def callees(self, function: Function) -> Iterator[Function]:
        """Functions that one calls, as far as this is seen without compiling it."""
        for called in called_functions(self._definitions[function]):
            key = (called, None)
            if key not in self._functions:
                self._functions[key] = self._declare(called, None)
            yield self._functions[key]

    def ready(self, function: Function, range: SourceRange | None = None, shown: str | None = None) -> Function:
        """The function, compiled now if it was not yet; while it is being compiled, its schema has to be known.

        Args:
            range: the call that needs it, for errors.
            shown: what to call it there.

        Raises:
            CompileError: where it does not compile; the error says by which calls the function was reached.
        """
        if len(self._compiling) == MOST_NESTED:
            self._compile_callees(function)
        try:
            function.ensure_compiled()
            if not function.has_schema:
                raise OPEN_RECURSION(
                    f"function '{function.name}' is called recursively, and its result type is not known yet",
                    range,
                    hint=f"annotate the result: def {function.name}(...) -> T",
                )
        except CompileError as error:
            self._tell_caller(error, shown or function.name, range)
            raise
        return function

    def _tell_caller(self, error: CompileError, callee: str, range: SourceRange | None) -> None:
        if range is not None and error.range is not range:
            tell_at_call(error, callee, range)
            error.add_caller(callee, self._compiling[-1] if self._compiling else "?", range)

    def unique_name(self, qualified_name: str) -> str:
        """The name, mangled where the program has a function or type of that name already."""
        return self.unit.unique_name(qualified_name)

    def name_type(self, name: str, type: Type) -> None:
        """Enter a named type, so that no other one gets its name."""
        self.unit.types[name] = type

    def name(self, name: str) -> object:
        """What a name means where the program was asked for, None where that is not known."""
        return None if self.names is None else self.names(name)

    def forget(self, function: Function) -> None:
        """Take out a function that did not compile."""
        self.unit.functions.pop(function.qualified_name, None)
        self._definitions.pop(function, None)

    def restore(self, before: SymbolTable) -> None:
        """Take out the types, and functions from texts, that a former state of the unit did not have."""
        for function in [f for f in self.unit if f.qualified_name not in before and f.python_function is None]:
            self.forget(function)
        self.unit.types.clear()
        self.unit.types.update(before.types)

    def fresh(self) -> Program:
        """Another program of the same engine, with nothing in it."""
        return Program(self.engine)

    def type_of_class(self, cls: type) -> Type | None:
        """The type of the objects of a Python class, None for one that scripts cannot have.

        Raises:
            CompileError: it is an interface, a method of which has no schema.
        """
        return type_of_class(cls, self.fresh)

    def definition_of(self, function: Function) -> Definition:
        """What a function of this program was compiled from."""
        return self._definitions[function]

    def _declare(self, python_function: Callable[..., object], signature: Callable[..., object] | None) -> Function:
        definition, function = self._described(python_function, signature)
        return self.declare(definition, function)

    def _described(
        self, python_function: Callable[..., object], signature: Callable[..., object] | None
    ) -> tuple[Definition, FunctionType]:
        known = self._sources.pop((python_function, signature), None)
        if known is not None:
            return known
        return self._defined(function_tree(python_function), signature)

    def _defined(
        self, source: FunctionSource, signature: Callable[..., object] | None = None
    ) -> tuple[Definition, FunctionType]:
        declared = None if signature is None else function_tree(signature)
        resolver = FunctionResolver(source.function, source.extra_names, self.name, self.type_of_class)
        defaults = source.defaults if declared is None else {**source.defaults, **declared.defaults}
        definition = Definition(
            source.definition.name.name,
            source.definition,
            resolver,
            defaults,
            None if declared is None else declared.definition,
        )
        return definition, source.function

    def declare(
        self, definition: Definition, python_function: Callable[..., object] | None = None, qualified: str | None = None
    ) -> Function:
        """A function that is compiled when it is first needed."""
        name = definition.name
        shown = known_types(python_function)
        if shown:
            definition = replace(definition, inferred={**shown, **definition.inferred})
        if qualified is None:
            qualified = f"__torch__.{name}" if python_function is None else qualified_name(python_function)  # type: ignore[arg-type]
        definition, schema = _with_schema(definition)
        function = Function(
            name,
            qualified_name=self.unit.unique_name(qualified),
            schema=schema,
            range=definition.tree.range,
            python_function=python_function,
            define=self._define,
            as_written=partial(graph_as_written, self),
            engine=self.engine,
        )
        self._definitions[function] = definition
        return self.unit.add(function)

    def _define(self, function: Function) -> None:
        self._compiling.append(function.name)
        try:
            with compiling(function.range):
                function.graph, function.schema = self.compile(self._definitions[function])
        finally:
            self._compiling.pop()

    def compile(
        self, definition: Definition, observe: Observer | None = None, hook: PassHook | None = None
    ) -> tuple[Graph, Any]:
        """All the steps from tree to cleaned graph; gives the graph and the function's schema.

        Args:
            observe: called with the name of each step and the graph after it.
            hook: what happens around the passes that clean the graph.
        """
        make_room(depth_of_tree(definition.tree))
        graph, schema = functions.emit(self, definition, functions.declared_schema(definition))
        if observe:
            observe("emitted", graph)
        for name, step in NORMAL_FORM_STEPS:
            if name in _AFTER_OTHER_DEPTH:
                make_room(depth_of(graph))
            step(graph)
            if observe:
                observe(name, graph)
        CLEANUP(graph, hook)
        for _, step in functions.FINAL_STEPS:
            step(graph)
        if observe:
            observe("graph", graph)
        return graph, schema

    def compile_module(self, module: torch.nn.Module) -> ClassType:
        """The type of a module. Its methods are compiled when they are reached.

        Raises:
            CompileError: where scripts cannot see the module.
        """
        found = self.module_types.type_of(module)
        definition = found.definition
        if not isinstance(definition, ModuleDefinition) or definition.program is not self:
            return found
        if found not in self._checked:
            check_hooks(definition)
            self._checked.add(found)
        return found

    def compile_methods(self, type: ClassType) -> None:
        """Compile what scripting a module starts from."""
        definition = type.definition
        for name in definition.entry_points:
            for method in definition.overloads.get(name, [name]):
                self.ready(definition.method(method))
        for hook in (*type.forward_pre_hooks, *type.forward_hooks):
            self.ready(hook)


def _with_schema(definition: Definition) -> tuple[Definition, Schema | None]:
    """A definition with the schema that its annotations give, None where only the body tells what the result is."""
    if not definition.has_declared_result:
        return definition, None
    try:
        return definition, functions.declared_schema(definition)
    except CompileError:
        if not result_is_open(definition):
            raise
        return without_result(definition), None


_AFTER_OTHER_DEPTH = frozenset(["variables", "local calls", "lists"])
"""The first step, and those behind one that may nest a graph deeper."""


def empty_program(carried: Iterable[CarriedSource] = (), engine: Engine | None = None) -> Program:
    """The program of a pickled one."""
    carry_sources(carried)
    return Program(engine)


def _classes_in(unit: SymbolTable) -> Iterator[ClassType]:
    """The classes whose objects compiled functions have."""
    graphs = [function.graph for function in unit if function.is_compiled]
    values = [v for g in graphs for v in (*g.inputs, *(o for node in g.all_nodes() for o in node.outputs))]
    pending = list({v.type: None for v in values})
    while pending:
        found = pending.pop()
        pending += found.contained
        if isinstance(found, ClassType):
            yield found


@contextmanager
def knowing(program: Program, names: Callable[[str], object] | None) -> Iterator[None]:
    """Inside, names that a function's own scope does not know mean what `names` says."""
    program.names, before = names, program.names
    try:
        yield
    finally:
        program.names = before


def compile_python(
    program: Program, python_function: Callable[..., object], names: Callable[[str], object] | None = None
) -> Function:
    """Compile a Python function in a program.

    Args:
        names: gives the meaning of names that the function's own scope does not know. It is used in this call only.

    Raises:
        CompileError: where it is not TorchScript.
    """
    with compiling(), knowing(program, names):
        return program.function_for(python_function, given=program.signed(python_function))


def is_scriptable_class(cls: type) -> bool:
    """Can scripts have objects of the class?"""
    return why_no_script_class(cls) is None


def compile_class(program: Program, cls: type, names: Callable[[str], object] | None = None) -> None:
    """Compile all methods of a Python class. Enums, named tuples and exceptions need no compiling.

    Args:
        program: one that the class is reached from; the methods have a program of their own.
        names: gives the meaning of names that the methods' own scopes do not know. It is used in this call only.

    Raises:
        CompileError: where something in it is not TorchScript.
        NotSupportedError: where scripts cannot use such a class.
    """
    if issubclass(cls, enum.Enum | BaseException) or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
        return
    with compiling():
        found = program.type_of_class(cls)
        if found is None:
            raise NO_SCRIPT_CLASS(why_no_script_class(cls) or f"'{cls.__name__}' cannot be scripted")
        if isinstance(found, ClassType) and isinstance(found.definition, ScriptClass):
            found.definition.compile_all(names)


def declare_interface(program: Program, cls: type) -> type:
    """Make a Python class an interface.

    Raises:
        CompileError: where one of its methods has no schema.
    """
    setattr(cls, INTERFACE_MARK, qualified_name(cls))
    program.type_of_class(cls)
    return cls


def optimized(graph: Graph) -> Graph:
    """An optimized copy of a cleaned graph."""
    with compiling():
        copy = graph.copy()
        OPTIMIZE(copy)
    return copy
