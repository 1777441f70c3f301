"""What tracing gives: functions and modules whose methods are recordings."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import pickle
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import torch

from jitlite.compiler import program as compiler
from jitlite.executor.engine import new_program
from jitlite.freeze.frozen_module import FrozenModule, define, frozen_function, retype_graph, retyped
from jitlite.frontend.classes.module_types import methods_to_compile
from jitlite.frontend.tracing.trace_backend import Mutation
from jitlite.frontend.tracing.trace_warnings import TracerWarning
from jitlite.interpreter.binding import bind_value
from jitlite.ir import types as T
from jitlite.ir.constants import qualified_name
from jitlite.ir.graph import Graph, Node
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE, TRACED_INPUTS, bound_class
from jitlite.objects.module import ScriptModule
from jitlite.objects.module_attributes import shadow_inherited_methods
from jitlite.objects.own_names import attribute_that_gives_way
from jitlite.objects.sourceless import GraphIsSource

Path = tuple[str, ...]


class TracedFunction(GraphIsSource):
    """A function that was recorded.

    Attributes:
        mutations: what a call writes, of a trace at the dispatcher.
        gradient_names: what the gradients are of, of a trace of the backward pass.
        halves: the arguments and tensors of the module that were half, of a trace with `halves_as_float`.
    """

    mutations: Sequence[Mutation] = ()
    halves: Sequence[str] = ()
    gradient_names: Sequence[str] = ()

    def __init__(self, function: Function, python_function: Callable[..., Any]) -> None:
        super().__init__(new_program(), function)
        functools.update_wrapper(self, python_function)

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError("a traced function cannot be pickled: pickle the function that was traced")


class TracedModule(FrozenModule):
    """What `trace` makes of a module: its state, shared, and the methods that were traced."""

    @attribute_that_gives_way
    def _name(self) -> str:
        return self.original_name

    def _get_name(self) -> str:
        return self.original_name

    def _jitlite_method(self, name: str) -> Any:
        if name == "forward" and name not in vars(self)[CLASS_TYPE].methods:
            raise RuntimeError("Trace submodules cannot be called.")
        return super()._jitlite_method(name)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise pickle.PicklingError("a traced module cannot be pickled: pickle the module that was traced")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise RuntimeError("Trace submodules cannot be called.")


class TopLevelTracedModule(TracedModule):
    """A traced module that can be called; its submodules have the methods that it calls.

    Attributes:
        mutations, gradient_names, halves: as those of `TracedFunction`.
    """

    mutations: Sequence[Mutation] = ()
    halves: Sequence[str] = ()
    gradient_names: Sequence[str] = ()

    __call__ = torch.nn.Module.__call__

    def train(self, mode: bool = True) -> TopLevelTracedModule:
        """Set the mode, and warn where that would change what the module does, which the trace has as it was."""
        frozen = [
            f"'{name or '(the module)'}' ({cls})"
            for name, (was, cls) in vars(self).get(_MODES, {}).items()
            if was is not mode
        ]
        if frozen:
            was = "eval" if mode else "training"
            warnings.warn(
                f"The module was traced in {was} mode, and {'train' if mode else 'eval'}() does not change what the "
                f"trace does: {', '.join(frozen[:5])}{' and others' if len(frozen) > 5 else ''} go on as they were. "
                "Call train() or eval() before the module is traced.",
                TracerWarning,
                stacklevel=2,
            )
        super().train(mode)
        return self

    def eval(self) -> TopLevelTracedModule:
        """`train(False)`."""
        return self.train(False)


_MODES = "__jitlite_traced_modes__"
"""The attribute of a traced module that says in which mode those submodules were traced for which it matters."""


def note_modes(made: TopLevelTracedModule, module: torch.nn.Module) -> None:
    """Let a traced module know which of its submodules do something else in training than in evaluation."""
    vars(made)[_MODES] = {
        name: (inner.training, type(inner).__name__)
        for name, inner in module.named_modules()
        if not isinstance(inner, ScriptModule) and _asks_for_mode(type(inner))
    }


def _asks_for_mode(cls: type) -> bool:
    """Does code of the class read `training`?"""
    members = [m for base in cls.__mro__ if base not in (torch.nn.Module, object) for m in vars(base).values()]
    return any("training" in m.__code__.co_names for m in members if inspect.isfunction(m) and m.__name__ != "__init__")


def store_inputs(module: TopLevelTracedModule, inputs: Mapping[str, Any], *, by_keyword: bool) -> None:
    """Let a traced module keep the example inputs of its methods, in the order of the parameters."""
    stored = vars(module)[TRACED_INPUTS] = {}
    for name, given in inputs.items():
        if by_keyword:
            names = [a.name for a in vars(module)[CLASS_TYPE].methods[name].schema.arguments[1:]]
            stored[name] = [given[n] for n in names]
        else:
            stored[name] = [given] if isinstance(given, torch.Tensor | dict) else list(given)


def traced_type(module: torch.nn.Module, known: dict[int, ClassType]) -> ClassType:
    """A type for a module to be traced, and its submodules, without methods.

    Raises:
        ValueError: where the module has backward hooks.
    """
    if CLASS_TYPE in vars(module):
        found: ClassType = vars(module)[CLASS_TYPE]
        return found
    if id(module) in known:
        return known[id(module)]
    if module._backward_hooks:
        raise ValueError(f"Modules that have backward hooks assigned can't be compiled: {module}")
    made = known[id(module)] = ClassType.new(qualified_name(type(module)), type(module), is_module=True)
    made.attributes["training"] = T.BOOL
    for name in _tensors_of(module):
        made.attributes[name] = T.TENSOR
    for name, value in vars(module).items():
        if isinstance(value, torch.ScriptObject):
            made.attributes[name] = bound_class(value)
    made.parameters.update(name for name, p in module._parameters.items() if p is not None)
    made.buffers.update(name for name, b in module._buffers.items() if b is not None)
    for name, submodule in module._modules.items():
        if submodule is not None:
            made.attributes[name] = traced_type(submodule, known)
    define(module, made)
    return made


def add_exported(module: torch.nn.Module, types: dict[int, ClassType], traced: Collection[str]) -> None:
    """Compile the methods marked with `export`, of the module and its submodules, for their types.

    Args:
        traced: the methods of the module that are going to be recorded. Exported methods that call one of them call
            what it is in the source, under another name.

    Raises:
        CompileError: where one of them is not TorchScript.
    """
    marked = [(inner, names) for inner in module.modules() if (names := _exported(inner)) and id(inner) in types]
    program = new_program()
    program.module_types.shares = False  # as traced modules do not: each has methods of its own
    with compiler.compiling():
        for inner, names in marked:
            definition = program.module_types.type_of(inner).definition
            for name in names:
                program.ready(definition.method(name))
    found = {program.module_types.type_of(m): types[id(m)] for m in module.modules() if marked and id(m) in types}
    for scripted, owner in found.items():
        _take_over(scripted, owner, found)
    for name in traced:
        if name in types[id(module)].methods:
            _rename(types[id(module)], name, found.values())


def _take_over(scripted: ClassType, owner: ClassType, found: dict[ClassType, ClassType]) -> None:
    """Give a type the attributes and compiled methods of another, with the types of `found` in place of their keys."""
    for name, t in scripted.attributes.items():
        owner.attributes.setdefault(name, retyped(t, found))
    for method in [m for m in scripted.methods.values() if m.is_compiled and m.name not in owner.methods]:
        graph = method.graph.copy()
        retype_graph(graph, found)
        frozen_function(method, graph, owner, found)


def _rename(owner: ClassType, name: str, types: Iterable[ClassType]) -> None:
    """Let a compiled method of a type have another name, and the calls of it in the methods of `types` too."""
    new = next(n for i in itertools.count(1) if (n := f"{name}{i}") not in {*owner.methods, *owner.attributes})
    old = owner.methods.pop(name)
    owner.methods[new] = Function(
        new, qualified_name=f"{owner.qualified_name}.{new}", schema=replace(old.schema, name=new), graph=old.graph,
        range=old.range, python_function=old.python_function, engine=old.engine,
    )  # fmt: skip
    for method in [m for t in types for m in t.methods.values()]:
        for node in _with_forked(method.graph):
            if node.kind == "prim::CallMethod" and node.attributes["name"] == name and node.inputs[0].type is owner:
                node.attributes["name"] = new


def _with_forked(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph, and those of the calls that it forks."""
    for node in graph.all_nodes():
        yield node
        if isinstance(forked := node.attributes.get("Subgraph"), Graph):
            yield from _with_forked(forked)


def _exported(module: torch.nn.Module) -> list[str]:
    return [] if isinstance(module, ScriptModule) else [n for n in methods_to_compile(module) if n != "forward"]


def _tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    found: dict[str, Any] = {**vars(module), **module._parameters, **module._buffers}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def bound_objects(modules: Mapping[int, Path], module: torch.nn.Module) -> list[tuple[Any, Path]]:
    """The objects of classes written in C++ that the modules hold, such as packed weights, each with its path."""
    return [
        (value, (*modules[id(inner)], name))
        for inner in module.modules()
        for name, value in vars(inner).items()
        if isinstance(value, torch.ScriptObject)
    ]


def paths(module: torch.nn.Module) -> tuple[dict[int, Path], dict[int, Path]]:
    """The path to each tensor of a module and its submodules, and to each of these, by identity."""
    tensors: dict[int, Path] = {}
    modules: dict[int, Path] = {}

    def visit(inner: torch.nn.Module, path: Path) -> None:
        if id(inner) in modules:
            return
        modules[id(inner)] = path
        for name, tensor in _tensors_of(inner).items():
            tensors.setdefault(id(tensor), (*path, name))
        for name, submodule in inner._modules.items():
            if submodule is not None:
                visit(submodule, (*path, name))

    visit(module, ())
    return tensors, modules


def traced_copy(module: torch.nn.Module, types: dict[int, ClassType], made: dict[int, Any], *, top: bool = True) -> Any:
    """The traced module of a module; its submodules are copied too."""
    if isinstance(module, ScriptModule) and CLASS_TYPE in vars(module):
        return module
    if id(module) in made:
        return made[id(module)]
    cls = TopLevelTracedModule if top else TracedModule
    result = made[id(module)] = cls.__new__(cls)
    known = types[id(module)]
    vars(result).update(_state_of_copy(module, known))
    for name, submodule in module._modules.items():
        if submodule is not None:
            result._modules[name] = traced_copy(submodule, types, made, top=False)
    vars(result)[CLASS_TYPE] = known
    return result


def _state_of_copy(module: torch.nn.Module, known: ClassType) -> dict[str, Any]:
    """What the object of a traced module has of the module's; its containers are copies."""
    state = {name: value for name, value in vars(module).items() if _is_kept(name, known)}
    for name, value in state.items():
        if "hooks" in name and isinstance(value, dict):
            state[name] = type(value)()  # hooks have been recorded
        elif name.startswith("_") and isinstance(value, dict | set):
            state[name] = copy.copy(value)
    for name, wanted in known.attributes.items():  # what exported methods read has the form that its type asks for
        if name in state:
            state[name] = bind_value(wanted, state[name], f"attribute '{name}' of '{type(module).__name__}'")
    for kind in ("_parameters", "_buffers", "_modules"):
        state[kind] = {n: value for n, value in state[kind].items() if value is not None or n in known.attributes}
    return state


def _is_kept(name: str, known: ClassType) -> bool:
    """Is it nn.Module's own, or what scripts see of the module?"""
    return name in _NN_MODULE or name in known.attributes


_NN_MODULE = frozenset(vars(torch.nn.Module()))


def finish_module(module: TracedModule) -> None:
    """Let the module and its submodules find their methods, when they have been recorded."""
    for inner in module.modules():
        if isinstance(inner, TracedModule):
            known: ClassType = vars(inner)[CLASS_TYPE]
            known.definition.entry_points = list(known.methods)
            shadow_inherited_methods(inner, known.methods)
