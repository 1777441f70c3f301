"""Compiled functions as Python objects: call them, look at every stage."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitlite import compiler
from jitlite.frontend import tree
from jitlite.frontend.definition import Program
from jitlite.interpreter import vm
from jitlite.interpreter.binding import bind_arguments
from jitlite.interpreter.bytecode import code_of, lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.disassemble import describe, disassemble
from jitlite.ir.analysis import to_dot, to_networkx
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Schema
from jitlite.ir.unit import Function, run_functions_with
from jitlite.ir.values import value_has_type
from jitlite.passes.registry import run as run_passes


class ScriptFunction:
    """A compiled function. Call it like the Python function it was made from.

    Attributes:
        tree: the abstract syntax, as TorchScript's s-expressions when printed.
        graph: the graph after cleanup.
        inlined_graph, optimized_graph: with calls inlined; as it is run.
        code: the source text.
        bytecode: the listing of the instructions that run.
        schema: the signature.
    """

    def __init__(self, program: Program, function: Function) -> None:
        self._program = program
        self._code: Code | None = None
        self._optimized: Graph | None = None
        self.__jitlite_function__ = function
        if function.python_function is not None:
            functools.update_wrapper(self, function.python_function)

    @property
    def name(self) -> str:
        return self.__jitlite_function__.name

    @property
    def qualified_name(self) -> str:
        return self.__jitlite_function__.qualified_name

    @property
    def schema(self) -> Schema:
        return self.__jitlite_function__.schema

    @property
    def tree(self) -> tree.Def:
        return self._program.definition_of(self.__jitlite_function__).tree

    @property
    def graph(self) -> Graph:
        return self.__jitlite_function__.graph

    @property
    def inlined_graph(self) -> Graph:
        copy = self.graph.copy()
        run_passes(copy, "inline")
        return copy

    @property
    def optimized_graph(self) -> Graph:
        if self._optimized is None:
            with compiler.compiling():
                if self._optimized is None:
                    self._optimized = compiler.optimized(self.graph)
        return self._optimized

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that a call with these arguments runs."""
        self._bind(args, kwargs)
        return self.optimized_graph

    @property
    def code(self) -> str:
        """The source of the definition, as the user wrote it."""
        definition = self.tree
        source = definition.range.source
        last = max(node.range.end for node in definition.walk() if node.range.source is source)
        end = source.text.find("\n", last)
        return source.text[definition.range.start : end if end >= 0 else len(source.text)] + "\n"

    @property
    def compiled_code(self) -> Code:
        """The bytecode that calls run."""
        if self._code is None:
            with compiler.compiling():
                if self._code is None:
                    self._code = lower(self.optimized_graph, self.name)
        return self._code

    @property
    def bytecode(self) -> str:
        return disassemble(self.compiled_code)

    def describe_bytecode(self) -> dict[str, Any]:
        """The bytecode as plain data."""
        return describe(self.compiled_code)

    @property
    def stages(self) -> dict[str, str]:
        """The text of every stage the function went through, in order."""
        found = {"tree": str(self.tree)}
        definition = self._program.definition_of(self.__jitlite_function__)
        self._program.compile(definition, lambda name, graph: found.__setitem__(name, str(graph)))
        found["optimized"] = str(self.optimized_graph)
        found["bytecode"] = self.bytecode
        return found

    def to_dot(self) -> str:
        """The graph in the DOT language."""
        return to_dot(self.graph)

    def to_networkx(self) -> Any:
        """The data flow of the graph as a `networkx.MultiDiGraph`."""
        return to_networkx(self.graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._bind(args, kwargs))

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        return bind_arguments(self.schema, args, kwargs)

    def _run(self, bound: Sequence[Any]) -> Any:
        return vm.run(self.compiled_code, bound, _code_for)

    def run(self, *args: Any, step_limit: int | None = None, **kwargs: Any) -> Any:
        """Call the function with at most `step_limit` instructions.

        Raises:
            StepLimit: where they do not suffice.
        """
        return vm.run(self.compiled_code, self._bind(args, kwargs), _code_for, step_limit=step_limit)

    def __reduce__(self) -> Any:
        return compile_function, (self.__jitlite_function__.python_function,)

    def __repr__(self) -> str:
        return f"<jitlite.ScriptFunction {self.schema}>"


def _code_for(function: Function) -> Code:
    """The code of a called function, optimized like the caller's."""
    if function.compiled is None:
        with compiler.compiling():
            if function.compiled is None:
                function.compiled = lower(compiler.optimized(function.graph), function.name)
    return code_of(function)


run_functions_with(lambda function, arguments: vm.run(function, arguments, _code_for))


def compile_function(function: Any, names: Callable[[str], Any] | None = None) -> ScriptFunction:
    """Compile a Python function in a program of its own.

    Args:
        names: gives the meaning of names that the function's own scope does not know.

    Raises:
        CompileError: where it is not TorchScript.
    """
    return ScriptFunction(*compiler.compile_python(function, names))


class ScriptMethod(ScriptFunction):
    """A compiled method of one object, which is its first argument."""

    def __init__(self, program: Program, function: Function, owner: Any) -> None:
        super().__init__(program, function)
        self.owner = owner

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        return bind_arguments(self.schema, (self.owner, *args), kwargs)

    def _fits(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Are the arguments of the types of the parameters, without conversion?"""
        formals = self.schema.arguments[1:]
        given = [*zip(formals, args, strict=False), *((f, kwargs[f.name]) for f in formals if f.name in kwargs)]
        return len(args) <= len(formals) and all(value_has_type(value, formal.type) for formal, value in given)

    def __reduce__(self) -> Any:
        return getattr, (self.owner, self.name)


class OverloadedMethod:
    """A method with declared overloads: a call goes to the first that takes the arguments."""

    def __init__(self, name: str, candidates: Sequence[ScriptMethod]) -> None:
        self.__name__ = name
        self.candidates = list(candidates)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        reasons = []
        exact = [c for c in self.candidates if c._fits(args, kwargs)]
        for candidate in (*exact, *self.candidates):
            try:
                bound = candidate._bind(args, kwargs)
            except RuntimeError as error:
                reasons.append(str(error).splitlines()[0])
                continue
            return candidate._run(bound)
        raise RuntimeError("\n".join([f"no overload of '{self.__name__}' takes these arguments:", *reasons]))
