"""For those who test programs and tools that know TorchScript under the names of PyTorch.

`TORCH_NAMES` says what stands for what: a harness that hands out jitlite in the place of `torch.jit` looks names up
here that jitlite has under another name, and finds the rest in `jitlite` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from jitlite import compiler
from jitlite.ir.awaits import Await
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.schema import Argument, function_schema, parse_schema
from jitlite.ir.unit import Function
from jitlite.passes import run
from jitlite.script_function import ScriptFunction
from jitlite.source import CompileError, Error, NotSupportedError

_PASSES = {
    "canonicalize": "canonicalize", "canonicalize_graph": "canonicalize", "constant_pooling": "constant_pooling",
    "constant_propagation": "constant_propagation",
    "constant_propagation_immutable_types": "constant_propagation_immutable", "cse": "cse", "dce": "dce",
    "erase_shape_information": "erase_shapes", "inline": "inline", "lower_all_tuples": "lower_tuples",
    "peephole": "peephole",
}  # fmt: skip
"""Passes by the names that follow `torch._C._jit_pass_`."""


def parse_ir(text: str, parse_tensor_constants: bool = False) -> Graph:
    """The graph written as `text`; a `<Tensor>` is read as zeros if `parse_tensor_constants` is given.

    Raises:
        CompileError: the text is no graph.
    """
    return parse(text, placeholder_tensors=parse_tensor_constants)


def create_function_from_graph(name: str, graph: Graph) -> ScriptFunction:
    """A function that runs a graph. Its parameters are the graph's inputs, by their names.

    The graph is the function's own from then on.
    """
    inputs = [Argument(value.name or f"argument_{i}", value.type) for i, value in enumerate(graph.inputs)]
    schema = function_schema(name, inputs, [value.type for value in graph.outputs])
    return ScriptFunction(compiler.Program(), Function(name, schema=schema, graph=graph))


def run_pass(name: str, graph: Graph, *options: object) -> bool:
    """Run one pass on a graph, in place; says whether it changed anything. Options of torch's pass are ignored."""
    return run(graph, name)


def _pass(name: str) -> Callable[..., bool]:
    return partial(run_pass, name)


TORCH_NAMES: dict[str, Any] = {
    "torch.jit.Error": Error,
    "torch.jit._Await": Await,
    "torch.jit.frontend.FrontendError": CompileError,
    "torch.jit.frontend.NotSupportedError": NotSupportedError,
    "torch.jit.frontend.UnsupportedNodeError": NotSupportedError,
    "torch._C._Await": Await,
    "torch._C.Graph": Graph,
    "torch._C._get_tracing_state": torch._C._get_tracing_state,
    "torch._C._create_function_from_graph": create_function_from_graph,
    "torch._C.parse_ir": parse_ir,
    "torch._C.parse_schema": parse_schema,
    **{f"torch._C._jit_pass_{theirs}": _pass(ours) for theirs, ours in _PASSES.items()},
}
"""jitlite's counterparts of names of PyTorch, where they are not `jitlite.NAME` for `torch.jit.NAME`."""
