"""The public face: `script` and what it gives."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import typing
from collections.abc import Callable
from typing import Any

import torch
from torch import _jit_internal

from jitlite import compiler
from jitlite.compiler import Program
from jitlite.frontend import tree
from jitlite.interpreter import vm
from jitlite.interpreter.binding import bind_arguments
from jitlite.interpreter.bytecode import code_of, lower
from jitlite.interpreter.code import Code
from jitlite.interpreter.disassemble import describe, disassemble
from jitlite.ir.analysis import to_dot, to_networkx
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Schema
from jitlite.ir.unit import Function
from jitlite.passes.registry import run as run_passes
from jitlite.source import NotSupportedError


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
        self._lock = threading.Lock()
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
        with self._lock:
            if self._optimized is None:
                self._optimized = compiler.optimized(self.graph)
            return self._optimized

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
        code = self._code
        if code is None:
            with compiler.compiling():
                code = self._code = lower(self.optimized_graph, self.name)
        return code

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
        return vm.run(self.compiled_code, bind_arguments(self.schema, args, kwargs), _code_for)

    def run(self, *args: Any, step_limit: int | None = None, **kwargs: Any) -> Any:
        """Call the function with at most `step_limit` instructions.

        Raises:
            StepLimit: where they do not suffice.
        """
        bound = bind_arguments(self.schema, args, kwargs)
        return vm.run(self.compiled_code, bound, _code_for, step_limit=step_limit)

    def __reduce__(self) -> Any:
        return script, (self.__jitlite_function__.python_function,)

    def __repr__(self) -> str:
        return f"<jitlite.ScriptFunction {self.schema}>"


def _code_for(function: Function) -> Code:
    """The code of a called function, optimized like the caller's."""
    if function.compiled is None:
        with compiler.compiling():
            function.compiled = lower(compiler.optimized(function.graph), function.name)
    return code_of(function)


def script(obj: Any) -> Any:
    """Compile a function.

    Args:
        obj: a Python function with TorchScript's type annotations.

    Raises:
        CompileError: where it is not TorchScript; the error shows the place, what was expected and a way out.
        NotSupportedError: where it is something else than a function.
    """
    if isinstance(obj, ScriptFunction):
        return obj
    if inspect.isclass(obj):
        raise NotSupportedError(f"classes cannot be scripted yet: '{obj.__name__}'", hint="script functions")
    if isinstance(obj, torch.nn.Module):
        raise NotSupportedError(f"modules cannot be scripted yet: '{type(obj).__name__}'", hint="script functions")
    if isinstance(obj, types.MethodType):
        raise NotSupportedError(f"methods cannot be scripted yet: '{obj.__qualname__}'", hint="script functions")
    if not callable(obj):
        raise TypeError(f"script takes a function, got {type(obj).__name__}")
    program, function = compiler.compile_python(obj)
    return ScriptFunction(program, function)


class CompilationUnit:
    """Functions compiled from source text, as attributes.

    cu = CompilationUnit("def f(x: int):\\n  return x + 1\\n")
    cu.f(1)
    """

    def __init__(self, source: str, filename: str | None = None) -> None:
        program = compiler.compile_text(source, filename)
        self._functions = {f.name: ScriptFunction(program, f) for f in program.unit}

    def __getattr__(self, name: str) -> ScriptFunction:
        functions = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(f"the unit has no function '{name}'")
        found: ScriptFunction = functions[name]
        return found


# -- marks and helpers that mean something inside scripts, and the obvious thing outside of them
ignore = _jit_internal.ignore
unused = _jit_internal.unused
export = _jit_internal.export
Final = typing.Final
Future = torch.futures.Future


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; in a script, of the given type."""
    return the_value


def is_scripting() -> bool:
    """False in Python, True in a script."""
    return False


def is_tracing() -> bool:
    """False: in scripts, and where nothing is being traced."""
    return bool(torch._C._is_tracing())


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A future of `func(*args, **kwargs)`; outside of scripts it is computed at once."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def wait(future: Any) -> Any:
    """The result of a future."""
    return future.wait()


def _isinstance(obj: Any, target_type: Any) -> bool:
    """isinstance for container types such as `List[int]`; in scripts it also refines."""
    return bool(_jit_internal._isinstance(obj, target_type))


_isinstance.__name__ = _isinstance.__qualname__ = "isinstance"
