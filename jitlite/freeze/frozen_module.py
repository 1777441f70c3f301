"""Frozen modules: script modules whose methods have most attributes built in as constants."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from jitlite import loading
from jitlite.executor.engine import new_program
from jitlite.frontend.classes.modules import ModuleDefinition, overloads_by_name
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE
from jitlite.objects.function import ScriptMethod
from jitlite.objects.module import RecursiveScriptModule, plain_state
from jitlite.objects.sourceless import GraphIsSource, SourcelessModule
from jitlite.passes.registry import run as run_passes


class FrozenDefinition(ModuleDefinition):
    """What scripts see of a frozen module: the attributes and methods that were left, and nothing of its class."""

    def python_method(self, name: str) -> Callable[..., Any] | None:
        return None

    def python_property(self, name: str) -> property | None:
        return None


class FrozenMethod(GraphIsSource, ScriptMethod):
    """A method of a frozen module: what the user wrote has become something else."""


class FrozenModule(SourcelessModule):
    """What `freeze` makes of a script module."""

    _jitlite_method_class = FrozenMethod

    def __reduce_ex__(self, protocol: object) -> Any:
        """The archive that saving the module gives: what it is made of has no other form.

        Raises:
            NotSupportedError: the archive cannot hold an operator or a constant, prepacked weights for instance.
        """
        return loading.load.as_archive(self)


def frozen_type(original: ClassType) -> ClassType:
    """A new class for a frozen module, without attributes and methods."""
    made = ClassType.new(original.qualified_name, original.python_class, is_module=True)
    made.constants.update(original.constants)
    return made


def define(module: torch.nn.Module, made: ClassType) -> None:
    """Let `module` stand for the frozen modules of class `made`."""
    definition = FrozenDefinition(module, made, new_program())
    definition.entry_points = list(made.methods)
    definition.overloads.update(overloads_by_name(made.methods))


def frozen_copy(module: RecursiveScriptModule, made: ClassType, left: set[str]) -> FrozenModule:
    """A frozen module with those attributes of `module` that are in `left`; submodules are the caller's to exchange."""
    result: FrozenModule = FrozenModule.__new__(FrozenModule)
    gone = set(vars(module)[CLASS_TYPE].attributes) - left
    state = {name: value for name, value in plain_state(module).items() if name not in gone}
    for name, value in state.items():
        if name.startswith("_") and isinstance(value, dict | set):  # nn.Module's own: parameters, hooks and the like
            state[name] = copy.copy(value)
    for kind in ("_parameters", "_buffers", "_modules"):
        state[kind] = {name: value for name, value in state[kind].items() if name in left}
    vars(result).update(state)
    result._jitlite_settle(made)
    return result


# -- graphs with other types


def retyped(t: Type, types: dict[ClassType, ClassType]) -> Type:
    """The type with classes exchanged."""
    if isinstance(t, ClassType):
        return types.get(t, t)
    parts = t.contained
    return t.with_contained([retyped(part, types) for part in parts]) if parts and T.is_named(t) else t


def retype_graph(graph: Graph, types: dict[ClassType, ClassType]) -> None:
    """Exchange classes everywhere in a graph."""
    for value in graph.inputs:
        value.type = retyped(value.type, types)
    for node in graph.all_nodes():
        for value in (*node.outputs, *(p for block in node.blocks for p in block.inputs)):
            value.type = retyped(value.type, types)
        if "types" in node.attributes:
            node.attributes["types"] = [retyped(t, types) for t in node.attributes["types"]]
        if isinstance(node.attributes.get("Subgraph"), Graph):
            retype_graph(node.attributes["Subgraph"], types)


def inline_everything(graph: Graph) -> bool:
    """Inline calls, in forked graphs too; says whether there were any."""
    changed = run_passes(graph, "inline")
    for node in graph.all_nodes():
        forked = node.attributes.get("Subgraph")
        if isinstance(forked, Graph):
            changed = inline_everything(forked) or changed
    return changed


def frozen_function(original: Function, graph: Graph, owner: ClassType, types: dict[ClassType, ClassType]) -> Function:
    """The method of a frozen module that runs `graph`."""
    schema = original.schema
    arguments, returns = (
        tuple(replace(a, declared_type=retyped(a.declared_type, types)) for a in listed)
        for listed in (schema.arguments, schema.returns)
    )
    changed = replace(schema, arguments=arguments, returns=returns)
    made = Function(
        original.name,
        qualified_name=f"{owner.qualified_name}.{original.name}",
        schema=changed,
        graph=graph,
        range=original.range,
        python_function=original.python_function,
        engine=original.engine,
    )
    owner.methods[original.name] = made
    return made
