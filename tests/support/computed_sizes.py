"""The law of graphs that compute sizes: they compute the sizes there are."""

from __future__ import annotations

import torch
from fact_law import check_run

from jitlite.interpreter import bytecode, vm
from jitlite.ir import types as T
from jitlite.ir.verify import verify
from jitlite.passes.size_graphs import build_size_graph


def hold_computed_sizes(graph, arguments):
    """Check that the sizes computed of those of the arguments are the sizes there are, of ranks that are known."""
    copy = graph.copy()
    for value, argument in zip(copy.inputs, arguments, strict=True):
        if isinstance(argument, torch.Tensor):
            value.type = T.TensorType.of(None, [None] * argument.dim())
    made = build_size_graph(copy)
    verify(made.graph)
    given = [arguments[i] for i in made.parameters]
    sizes = [list(a.shape) if isinstance(a, torch.Tensor) else a for a in given]
    computed = vm.run(bytecode.lower(made.graph), sizes) if made.symbols else ()
    numbers = computed if len(made.symbols) != 1 else (computed,)
    return check_run(copy, arguments, dict(zip(made.symbols.values(), numbers, strict=True)))
