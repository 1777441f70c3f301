"""What is compiled: a definition with the meaning of its names, and who compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.meanings import Kind, Meaning
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax.tree import Def
from jitlite.ir.graph import Graph
from jitlite.ir.types import Type
from jitlite.ir.unit import Function


class Definition(Record, eq=True):
    """A function or method to compile: its tree, what its names mean, and its parameters' defaults.

    Attributes:
        signature: the definition whose annotations count, for a function with declared overloads.
        self_type: of a method, the type of its first parameter.
        defining_class: of a method from Python, the class in whose body it stands: `super()` starts behind it.
        inferred: types of parameters without annotation, where they are not Tensors.
        variables: of a nested function, what it sees of the functions around that is no value of a graph.
        is_for_python: is it called as TorchScript cannot call it, so that `is_scripting()` is False in it?
    """

    name: str
    tree: Def
    resolver: Resolver
    defaults: dict[str, object]
    signature: Def | None = None
    self_type: Type | None = None
    defining_class: type | None = None
    inferred: dict[str, Type] = field(default_factory=dict)
    variables: Mapping[str, SugaredValue] = field(default_factory=dict)
    is_for_python: bool = False

    @property
    def has_declared_result(self) -> bool:
        return (self.signature or self.tree).decl.return_type is not None


class Scope(Protocol):
    """What `sugared_from_python` needs to know of the function being compiled."""

    @property
    def program(self) -> FunctionCompiler: ...

    @property
    def resolver(self) -> Resolver: ...


Maker = Callable[[Scope, Meaning, SourceRange], SugaredValue]
"""Makes the sugared value of a Python object."""


class FunctionCompiler(Protocol):
    """Who compiles the functions that are called, each once."""

    makers: Mapping[Kind, Maker]
    """How each kind of Python object becomes a sugared value; kinds that are missing cannot be used as values."""
    graph_view: Callable[[Graph], Any] | None
    unites_branches: bool
    """Is a variable of different types in two branches a Union, wherever it was defined? In archives it is."""

    def carried_sources(self, pickler: Any) -> list[Any]:
        """The sources that a pickle of the program has to carry."""
        ...

    def function_for(
        self,
        python_function: Callable[..., Any],
        range: SourceRange,
        signature: Callable[..., Any] | None = None,
        given: Any = None,
    ) -> Function:
        """The script function of a Python function, with the signature of another function if one is given, or as a
        call needs it (`open_calls.GivenTypes`)."""
        ...

    def open_definition(self, python_function: Callable[..., Any]) -> Definition | None:
        """A Python function some of whose parameters have the types that each call gives; None for others."""
        ...

    def definition_for(self, python_function: Callable[..., object]) -> Definition:
        """What a Python function is compiled from."""
        ...

    def open_method(self, function: Function) -> Definition | None:
        """A method some of whose parameters have the types that each call gives; None for others."""
        ...

    def declare(
        self, definition: Definition, python_function: Callable[..., Any] | None = None, qualified: str | None = None
    ) -> Function:
        """A function that is compiled when it is first needed."""
        ...

    def definition_of(self, function: Function) -> Definition:
        """What a function of this program was compiled from."""
        ...

    def compile(
        self, definition: Definition, observe: Callable[[str, Graph], None] | None = None, hook: Any = None
    ) -> tuple[Graph, Any]:
        """All the steps from tree to cleaned graph; gives the graph and the function's schema."""
        ...

    def ready(self, function: Function, range: SourceRange | None = None, shown: str | None = None) -> Function:
        """The function, compiled as far as a call at `range` needs it; errors call it what is `shown`.

        Raises:
            CompileError: where it does not compile; the error says by which calls it was reached.
        """
        ...

    def name(self, name: str) -> object:
        """What a name means where the program was asked for, None where that is not known."""
        ...

    def unique_name(self, qualified_name: str) -> str:
        """The name, changed where the program has a function or type of that name already."""
        ...

    def type_of_class(self, cls: type) -> Type | None:
        """The type of the objects of a Python class, None for one that scripts cannot have."""
        ...

    def name_type(self, name: str, type: Type) -> None:
        """Enter a named type, so that no other one gets its name."""
        ...

    def fresh(self) -> FunctionCompiler:
        """Another program, with nothing in it."""
        ...
