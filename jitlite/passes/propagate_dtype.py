"""Find out the element types of tensors, and put it into the types of values.

    graph(%x : Float(2, 3), %y : Long(3)):
      %a : Tensor = aten::mul(%x, %y, ...)      =>      %a : Float = aten::mul(%x, %y, ...)

The rest of each type stays as it is. See `shapes.py`, which says everything that is known; what is true of its facts is
true here.
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
def propagate_dtype(graph: Graph) -> bool:
    """Say in the type of every tensor what its dtype is, as far as that is the same in every run."""
    return propagate(graph, ModeFacts())


def propagate(graph: Graph, modes: ModeFacts | None = None) -> bool:
    """The same for runs that begin under these modes; those of the current thread if not given."""
    return annotate(graph, Propagation(graph, modes or ModeFacts.current()), _merge)


def _merge(old: Type, new: Type) -> Type:
    assert isinstance(old, T.TensorType) and isinstance(new, T.TensorType)
    return T.TensorType.of(new.dtype, old.sizes, old.strides, old.device, old.requires_grad, old.symbols)
