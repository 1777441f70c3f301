"""Find out what is known about tensors, and put it into the types of values.

    graph(%x : Float(2, 3), %y : Float(3, 4)):
      %a : Tensor = aten::mm(%x, %y)                  %a : Tensor(2, 4) = aten::mm(%x, %y)
      %n : int = prim::Constant[value=0]()      =>
      %b : Tensor = aten::sum(%a)                     %b : Tensor() = aten::sum(%a)

What inputs and constants are is taken from their types; how facts go on is told in `propagation.py`. The rest is
learnt: an operator that has no result type yet is run on a small stand-in. Sizes that are equal in every run, but not
known, are written `SS(-1)`, `SS(-2)` and so on.

Only types change, and a type says nothing that is not true in every run: not what autocast, the default element type,
the default device or grad mode decide, for they may differ from run to run. `propagate` is told them, and says more:
what it says is true of runs that begin under those modes with arguments of those types.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.analysis.annotation import annotate
from jitlite.analysis.propagation import Propagation
from jitlite.analysis.result_types import ModeFacts
from jitlite.ir.graph import Graph
from jitlite.ir.types import TensorType, Type
from jitlite.passes.registry import graph_pass


@graph_pass
def propagate_shapes(graph: Graph) -> bool:
    """Give every value the most precise type that is true in every run."""
    return annotate(graph, Propagation(graph, ModeFacts()))


def propagate(graph: Graph, input_types: Sequence[Type | None] | None = None, modes: ModeFacts | None = None) -> bool:
    """Give every value the most precise type, for runs that begin under these modes with arguments of these types.

    Args:
        graph: its inputs get the types too.
        input_types: of the inputs in order; None for one that keeps its type.
        modes: those of the current thread if not given.

    Raises:
        ValueError: there are not as many types as inputs.
    """
    for value, given in zip(graph.inputs, input_types or (), strict=input_types is not None):
        if given is not None:
            value.type = given
    return annotate(graph, Propagation(graph, modes or ModeFacts.current()))


def refine(graph: Graph, modes: ModeFacts) -> bool:
    """Add what can be found out to what types say, for runs that begin under these modes with arguments of these types.

    What is known of a value already stays, whether it can be found out again or not.
    """
    return annotate(graph, Propagation(graph, modes), _refined)


def _refined(old: Type, new: Type) -> Type:
    """The type that says what either says."""
    assert isinstance(old, TensorType) and isinstance(new, TensorType)
    sizes = old.sizes or new.sizes
    if old.sizes is not None and new.sizes is not None and len(old.sizes) == len(new.sizes):
        sizes = tuple(n if n is not None else m for n, m in zip(new.sizes, old.sizes, strict=True))
    return TensorType.of(new.dtype or old.dtype, sizes, None, new.device or old.device, new.requires_grad)
