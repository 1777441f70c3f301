"""Find out the devices of tensors, and put it into the types of values.

    graph(%x : Float(2, 3, device=cpu)):
      %a : Tensor = aten::relu(%x)              =>      %a : Tensor(device=cpu) = aten::relu(%x)

The rest of each type stays as it is. A result is where its operands are, if they are all in one place; where the
operator is told a device, it is there. A device other than the CPU without an index says only what kind of device it
is.
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
def propagate_device(graph: Graph) -> bool:
    """Say in the type of every tensor what its device is, as far as that is the same in every run."""
    return propagate(graph, ModeFacts())


def propagate(graph: Graph, modes: ModeFacts | None = None) -> bool:
    """The same for runs that begin under these modes; those of the current thread if not given."""
    return annotate(graph, Propagation(graph, modes or ModeFacts.current()), _merge)


def _merge(old: Type, new: Type) -> Type:
    assert isinstance(old, T.TensorType) and isinstance(new, T.TensorType)
    return T.TensorType.of(old.dtype, old.sizes, old.strides, new.device, old.requires_grad, old.symbols)
