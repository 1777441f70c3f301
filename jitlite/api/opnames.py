"""Which operators a program uses."""

from __future__ import annotations

import torch

from jitlite.base.keywords import checks_keywords
from jitlite.compiler import program as compiler
from jitlite.ir.graph import Graph
from jitlite.ir.unit import Function, called_functions
from jitlite.ir.values import class_type_of
from jitlite.objects.function import ScriptFunction


@checks_keywords
def export_opnames(m: object) -> list[str]:
    """The operators that a script module or function uses, with the names of overloads, in order of the alphabet.

    Methods of all submodules count, since a call by way of an interface may reach any of them.

    Raises:
        TypeError: `m` has not been compiled.
    """
    found: set[str] = set()
    with compiler.compiling():
        for graph in _graphs(m):
            for called in [graph, *(function.graph for function in called_functions(graph))]:
                found.update(_operators(called))
    return sorted(found)


def _graphs(m: object) -> list[Graph]:
    if isinstance(m, ScriptFunction):
        return [m.__jitlite_function__.graph]
    if not isinstance(m, torch.nn.Module) or class_type_of(m) is None:
        raise TypeError("export_opnames takes a script module or a script function")
    types = dict.fromkeys(t for inner in m.modules() if (t := class_type_of(inner)) is not None)
    methods = [method for t in types for method in t.methods.values()]
    return [method.graph for method in methods if isinstance(method, Function)]


def _operators(graph: Graph) -> set[str]:
    """The operators of a graph, but for those that are instructions of the machine."""
    ops = [node.op for node in graph.all_nodes()]
    return {op.schema.qualified for op in ops if op is not None and op.fn is not None}
