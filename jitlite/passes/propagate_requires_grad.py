"""Find out whether tensors require grad, and put it into the types of values.

    graph(%x : Float(2, requires_grad=0)):
      %a : Tensor = aten::relu(%x)              =>      %a : Tensor(requires_grad=0) = aten::relu(%x)

The rest of each type stays as it is. What is computed from tensors none of which requires grad does not either, nor
what has no floating-point elements, nor what is made inside `torch.no_grad()`. That something does require grad depends
on the grad mode of the run, and is said only within `torch.enable_grad()`, or if the mode is given.
"""

from __future__ import annotations

from jitlite.analysis.annotation import annotate
from jitlite.analysis.propagation import Propagation
from jitlite.analysis.result_types import ModeFacts
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.types import Type
from jitlite.passes.registry import graph_pass


@graph_pass
def propagate_requires_grad(graph: Graph) -> bool:
    """Say in the type of every tensor what its requires_grad is, as far as that is the same in every run."""
    return propagate(graph, ModeFacts())


def propagate(graph: Graph, modes: ModeFacts | None = None) -> bool:
    """The same for runs that begin under these modes; those of the current thread if not given."""
    return annotate(graph, Propagation(graph, modes or ModeFacts.current()), _merge)


def _merge(old: Type, new: Type) -> Type:
    assert isinstance(old, T.TensorType) and isinstance(new, T.TensorType)
    return T.TensorType.of(old.dtype, old.sizes, old.strides, old.device, new.requires_grad, old.symbols)
