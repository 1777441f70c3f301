"""Compiled functions as Python objects: call them, look at every stage."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from jitlite import archive
from jitlite import export as exports
from jitlite import report as reports
from jitlite.archive.tensor_identity import collecting_weights
from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.base.tracing_state import Listener, current
from jitlite.codegen import torchscript
from jitlite.compiler import carried_sources
from jitlite.compiler import program as compiler
from jitlite.executor.engine import ENGINE, new_program
from jitlite.executor.entries import install_entry
from jitlite.executor.executor import Executor, executor_of
from jitlite.executor.gradient_graphs import GradientGraphs, gradient_graphs
from jitlite.executor.graph_runners import generated_code
from jitlite.executor.kernels import Kernels
from jitlite.executor.plans import ExecutorState
from jitlite.frontend.emit.definition import FunctionCompiler
from jitlite.frontend.syntax import tree
from jitlite.frontend.tracing.trace_mode import active_tracers, current_tracer
from jitlite.frontend.tracing.traced_numbers import plain
from jitlite.interpreter.binding import bind_arguments
from jitlite.interpreter.code import Code
from jitlite.interpreter.disassemble import describe, disassemble
from jitlite.interpreter.entry import CallSite, Entry
from jitlite.interpreter.python_code import add_script_traceback
from jitlite.ir.analysis import to_dot, to_networkx
from jitlite.ir.graph import Graph
from jitlite.ir.schema import Argument, Schema, function_schema
from jitlite.ir.types import TensorType
from jitlite.ir.unit import Function
from jitlite.ir.values import value_has_type
from jitlite.objects.function_pages import FunctionOrigin, notebook_view, subject_of
from jitlite.objects.measured import Measured
from jitlite.objects.other_tracers import (
    GivenToFx,
    explain_export,
    look_for_proxies,
    record_in_fx,
    refuse_to_be_frozen,
    torchs_is_tracing,
)
from jitlite.objects.signatures import ShowsSignature
from jitlite.objects.torch_schemas import SchemaView
from jitlite.passes.example_facts import facts_of
from jitlite.passes.pipelines import inline_and_simplify
from jitlite.passes.registry import run as run_passes


class _GraphViews:
    """How all functions show their graphs for now, if not as they are."""

    view: Callable[[Graph], Any] | None = None


_views_for_all = _GraphViews()


def show_all_graphs_as(view: Callable[[Graph], Any] | None) -> None:
    """Say how the functions of the process show their graphs from now on; with None, as they are."""
    _views_for_all.view = view


class _FirstCall:
    """What calls of a function go to until it has an entry. Dynamo makes such objects, and no bound methods."""

    def __init__(self, function: ScriptFunction) -> None:
        self._function = function

    @unseen_by_dynamo
    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._function._first_call(*args, **kwargs)


class ScriptFunction(ShowsSignature, Measured):
    """A compiled function. Call it like the Python function it was made from.

    Attributes:
        tree: the abstract syntax, as TorchScript's s-expressions when printed.
        graph: the graph after cleanup.
        inlined_graph, optimized_graph: with calls inlined and conditions decided by their arguments; as it is run.
        code: the source text.
        archive_code: the text that an archive of the function holds.
        bytecode: the listing of the instructions of the stack machine.
        generated_code: the Python function that calls run.
        kernels: what the tensor regions of its plans have become.
        schema: the signature.
    """

    # Python asks the class for `__call__`, and what it finds there is the place for one in each object: so a call goes
    # to what is in that place, which may be anything that can be called, and no function of Python is in between
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Entry

    def __init__(self, program: FunctionCompiler, function: Function) -> None:
        self._program = program
        self.__call__ = _FirstCall(self)
        self._traceable: Graph | None = None
        """The graph of which it is known that torch's tracer records all that it does."""
        self.__jitlite_function__ = function
        if function.python_function is not None:
            functools.update_wrapper(self, function.python_function)
            vars(self).pop("_torchscript_modifier", None)  # torch.jit would compile it once more
        else:
            self.__name__ = function.name

    def _shown(self, graph: Graph) -> Graph:
        view = self._program.graph_view or _views_for_all.view
        return graph if view is None else view(graph)

    @property
    def name(self) -> str:
        return self.__jitlite_function__.name

    @property
    def qualified_name(self) -> str:
        return self.__jitlite_function__.qualified_name

    @property
    def schema(self) -> SchemaView:
        """The signature, with what `torch._C.FunctionSchema` tells of it."""
        return SchemaView(self.__jitlite_function__.schema)

    @property
    def _signature(self) -> Schema:
        return self.__jitlite_function__.schema

    @property
    def tree(self) -> tree.Def:
        try:
            return self._program.definition_of(self.__jitlite_function__).tree
        except KeyError:
            raise AttributeError(f"'{self.name}' was not compiled from source: it has no tree") from None

    @property
    def graph(self) -> Graph:
        return self._shown(self.__jitlite_function__.graph)

    @property
    def inlined_graph(self) -> Graph:
        copy = self.__jitlite_function__.graph.copy()
        inline_and_simplify(copy)
        return self._shown(copy)

    @property
    def executor(self) -> Executor:
        """The plans of the function, and the choice between them."""
        return executor_of(self.__jitlite_function__)

    @property
    def optimized_graph(self) -> Graph:
        return self._shown(self.executor.optimized_graph)

    def graph_for(self, *args: object, **kwargs: object) -> Graph:
        """The graph that a call with these arguments runs."""
        return self._shown(self.executor.graph_for(self._bind(args, kwargs)))

    @property
    def gradient_graph(self) -> GradientGraphs:
        """The graphs of the gradients, as symbolic differentiation makes them; print it to read them."""
        return gradient_graphs(self.executor.optimized_graph)

    def graph_with_shapes(self, *args: object, **kwargs: object) -> Graph:
        """The inlined graph, whose tensors have the dtypes and sizes that they have in a call with these arguments, as
        far as they follow from them."""
        copy = self.__jitlite_function__.graph.copy()
        run_passes(copy, "inline")
        bound, module = self._bind(args, kwargs), self._module
        for value, found in facts_of(copy, bound if module is None else bound[1:], module).items():
            if isinstance(found, TensorType) and isinstance(value.type, TensorType):
                value.type = found
        return self._shown(copy)

    def report(self, *args: object, **kwargs: object) -> reports.page.ReportPage:
        """A page with every stage: `fn.report(x).save("report.html")`.

        With arguments the function is called once, on the stack machine (where one requires a gradient, with gradients
        recorded), and the page has kernels, what each value was, and how long each line took.
        """
        return reports.page.report(self._report_subject(args, kwargs))

    def _report_subject(self, args: Sequence[object], kwargs: dict[str, object]) -> reports.stages.Subject:
        is_call = bool(args or kwargs)
        bound = self._bind(args, kwargs) if is_call or not self._parameters() else None
        kernels, observed = self.kernels.observe(args, kwargs) if is_call else (self.kernels, None)
        return subject_of(self._origin, kernels, self._module, bound, observed)

    def _repr_html_(self) -> str:
        """What a notebook shows: the source, and the graph, whose lines lead to those of the source."""
        return notebook_view(self._origin, lambda: self.code)

    @property
    def _origin(self) -> FunctionOrigin:
        return FunctionOrigin(self._program, self.__jitlite_function__)

    @property
    def kernels(self) -> Kernels:
        """What its tensor regions have become. `fn.kernels.compile(*args)` makes kernels for a call at once."""
        return Kernels(self.executor, self._bind)

    def get_debug_state(self) -> ExecutorState:
        """The plans made so far, and what became of the calls."""
        return self.executor.state()

    @property
    def code(self) -> str:
        """The source of the definition, as the user wrote it; of what was made from a graph, that of an archive."""
        try:
            definition = self.tree
        except AttributeError:
            return self.archive_code
        source = definition.range.source
        last = max(node.range.end for node in definition.walk() if node.range.source is source)
        end = source.text.find("\n", last)
        return source.text[definition.range.start : end if end >= 0 else len(source.text)] + "\n"

    @property
    def archive_code(self) -> str:
        """The function as an archive holds it: the text that is written from the graph.

        Raises:
            NotSupportedError: where there is something in it that TorchScript has not.
        """
        with compiler.compiling():
            return torchscript.source_out.function_source(self.__jitlite_function__)

    @property
    def code_with_constants(self) -> tuple[str, types.SimpleNamespace]:
        """The same text, and the constants that it names: `CONSTANTS.c0` is the attribute `c0` of the second part."""
        with compiler.compiling():
            text, constants = torchscript.source_out.source_with_constants(self.__jitlite_function__)
        return text, types.SimpleNamespace(**{f"c{i}": value for i, value in enumerate(constants)})

    def save(self, f: str | os.PathLike[str], _extra_files: archive.save.ExtraFiles | None = None) -> None:
        """Write a TorchScript archive, in which the function is the `forward` of a module, to the file `f`.

        Raises:
            NotSupportedError: where something has no place in an archive; the error names it.
        """
        with compiler.compiling():
            archive.save.save_to_file(self.__jitlite_function__, f, _extra_files)

    def save_to_buffer(self, _extra_files: archive.save.ExtraFiles | None = None) -> bytes:
        """The bytes of such an archive."""
        with compiler.compiling():
            return archive.save.save_to_buffer(self.__jitlite_function__, _extra_files)

    def to_python(self, path: str | os.PathLike[str] | None = None) -> exports.python_out.PythonProgram:
        """The function as Python source that needs nothing but torch; see `jitlite.to_python`."""
        return exports.python_out.to_python(self, path)

    def to_fx(self, **options: Any) -> GraphModule:
        """The function as a `torch.fx.GraphModule`; see `jitlite.to_fx`."""
        return exports.fx_graph.to_fx(self, **options)

    def to_exported(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The function as a `torch.export.ExportedProgram`; see `jitlite.to_exported`."""
        return exports.exported_program.to_exported(self, args, kwargs, **options)

    @property
    def compiled_code(self) -> Code:
        """The bytecode of the optimized graph."""
        return self.executor.code

    @property
    def generated_code(self) -> str:
        """The Python function that calls run, as text; each line with the line of the script it comes from."""
        return generated_code(self.executor.optimized_graph, self.name)

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
        found["python"] = self.generated_code
        return found

    def to_dot(self) -> str:
        """The graph in the DOT language."""
        return to_dot(self.__jitlite_function__.graph)

    def to_networkx(self) -> Any:
        """The data flow of the graph as a `networkx.MultiDiGraph`."""
        return to_networkx(self.__jitlite_function__.graph)

    @unseen_by_dynamo
    def _first_call(self, *args: object, **kwargs: object) -> Any:
        """What calls go to until there is an entry."""
        if current_tracer() is not None:
            return self._call_otherwise(*args, **kwargs)
        self._install_entry()
        return self.__call__(*args, **kwargs)

    def _take_entry(self, entry: Entry) -> None:
        """Have calls go to the entry from now on."""
        self.__call__ = entry

    @unseen_by_dynamo
    def _call_otherwise(self, *args: object, **kwargs: object) -> Any:
        """Any call that an entry does not do: of keywords, of arguments to be converted, while somebody records."""
        if active_tracers:
            tracer = current_tracer()
            if tracer is not None:
                return self._record_call(tracer, args, kwargs)
        if torchs_is_tracing() and current.tracer is None:
            self._refuse_to_be_frozen()
        try:
            return self._run(self._bind(args, kwargs))
        except GivenToFx as given:
            return record_in_fx(self, self._module, self.name, given.proxy, args, kwargs)
        except Exception as error:
            explain_export(error)
            raise

    @property
    def _module(self) -> Any:
        """The module that a method belongs to."""
        return None

    def _refuse_to_be_frozen(self) -> None:
        graph = self.executor.optimized_graph
        if self._traceable is not graph:
            refuse_to_be_frozen(self.name, graph)
            self._traceable = graph

    def _record_call(self, tracer: Listener, args: Sequence[object], kwargs: dict[str, Any]) -> Any:
        """Call the function within a trace, as one node."""
        bound = self._bind([plain(a) for a in args], {name: plain(a) for name, a in kwargs.items()})
        formals = self._signature.arguments
        positional = [f.name for f in formals[len(formals) - self._parameters() :]]
        original = dict(zip(positional, args, strict=False)) | kwargs
        given = list(bound)
        for i, formal in enumerate(formals):
            argument = original.get(formal.name)
            if plain(argument) is not argument:  # it has numbers that the trace follows
                given[i] = argument
        return tracer.call_function(self.__jitlite_function__, given, lambda: self._run(bound))

    def _parameters(self) -> int:
        """The number of parameters that a caller gives."""
        return len(self._signature.arguments)

    def _install_entry(self) -> None:
        formals = self._signature.arguments
        formals = formals[len(formals) - self._parameters() :]
        way, otherwise = self.executor.way, self._call_otherwise
        site = CallSite(formals, way, active_tracers, torchs_is_tracing, _note, otherwise, self._module)
        install_entry(site, self._take_entry)

    def _bind(self, args: Sequence[object], kwargs: dict[str, Any]) -> list[Any]:
        look_for_proxies(args, kwargs)
        return bind_arguments(self._signature, args, kwargs)

    def _run(self, bound: Sequence[object]) -> Any:
        return self.executor.run(bound)

    def __reduce__(self) -> Any:
        return reduce_function(self, self.__jitlite_function__.python_function)

    def __copy__(self) -> ScriptFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptFunction:
        return self

    def __repr__(self) -> str:
        made = "__jitlite_function__" in vars(self)  # Dynamo shows objects that it has not finished
        return f"<jitlite.ScriptFunction {self._signature if made else 'being made'}>"


def _note(error: BaseException) -> None:
    """Say more about an exception that a graph has raised."""
    add_script_traceback(error)
    explain_export(error)


def compile_function(function: Any, names: Callable[[str], Any] | None = None) -> ScriptFunction:
    """Compile a Python function in a program of its own.

    Args:
        names: gives the meaning of names that the function's own scope does not know.

    Raises:
        CompileError: where it is not TorchScript.
    """
    program = new_program()
    return ScriptFunction(program, compiler.compile_python(program, function, names))


def function_of_graph(name: str, graph: Graph, like: Schema | None = None) -> ScriptFunction:
    """A function that runs a graph, which is its own from then on. `like` has names and defaults of the parameters."""
    named = [Argument(v.name or f"argument_{i}", v.type) for i, v in enumerate(graph.inputs)]
    pairs = zip(named if like is None else like.arguments, graph.inputs, strict=True)
    inputs = [dataclasses.replace(argument, declared_type=value.type) for argument, value in pairs]
    schema = function_schema(name, inputs, [value.type for value in graph.outputs])
    return ScriptFunction(new_program(), Function(name, schema=schema, graph=graph, engine=ENGINE))


def compile_carried(function: object, carried: Iterable[carried_sources.CarriedSource]) -> ScriptFunction:
    """Compile a Python function that came with the sources of what it calls."""
    carried_sources.carry_sources(carried)
    return compile_function(function)


def reduce_function(scripted: ScriptFunction, function: object) -> Any:
    """How a compiled function is pickled: by its name, if that leads to it, else as the Python function.

    Raises:
        pickle.PicklingError: where the pickler can do neither.
    """
    pickler = carried_sources.by_value_pickler(sys._getframe(2))
    name = getattr(function, "__qualname__", scripted.name)
    found = carried_sources.found_by_name(function, name)
    if pickler is not None and function is not None and not (found is scripted and pickler.names_module_of(function)):
        return compile_carried, (function, scripted._program.carried_sources(pickler))
    if found is scripted:
        return name
    if found is None or found is not function:
        raise pickle.PicklingError(
            f"ScriptFunction cannot be pickled: '{name}' is not found under its name in its module"
        )
    return compile_function, (function,)


class ScriptMethod(ScriptFunction):
    """A compiled method of one object, which is its first argument."""

    hidden_parameters = 1

    def __init__(self, program: FunctionCompiler, function: Function, owner: object) -> None:
        super().__init__(program, function)
        self.owner = owner

    @property
    def __code__(self) -> types.CodeType:
        """Where the method stands, for torch.export, which names that place."""
        function: Any = self.__jitlite_function__.python_function
        if function is None:
            raise AttributeError("__code__")
        code: types.CodeType = inspect.unwrap(function).__code__
        return code

    @property
    def _module(self) -> Any:
        return self.owner

    def _bind(self, args: Sequence[object], kwargs: dict[str, Any]) -> list[Any]:
        look_for_proxies(args, kwargs)
        return bind_arguments(self._signature, (self.owner, *args), kwargs)

    def _parameters(self) -> int:
        return len(self._signature.arguments) - 1

    def _take_entry(self, entry: Entry) -> None:
        super()._take_entry(collecting_weights(entry, self.owner))

    def _fits(self, args: Sequence[object], kwargs: dict[str, Any]) -> bool:
        """Are the arguments of the types of the parameters, without conversion?"""
        formals = self._signature.arguments[1:]
        given = [*zip(formals, args, strict=False), *((f, kwargs[f.name]) for f in formals if f.name in kwargs)]
        return len(args) <= len(formals) and all(value_has_type(value, formal.type) for formal, value in given)

    def __reduce__(self) -> Any:
        return getattr, (self.owner, self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptFunction:
        method: ScriptFunction = getattr(copy.deepcopy(self.owner, memo), self.name)
        return method
