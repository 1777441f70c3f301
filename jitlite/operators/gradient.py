"""What symbolic differentiation makes of a graph: the graph, what it keeps, and the graph of its gradients.

    y = tanh(x) * w        f:  (x, w) -> y, t          with t = tanh(x) kept for later
                           df: (dy, dt, w, t) -> (dx, dw)

The inputs of `df` are, in this order, the gradients of some outputs of `f`, inputs of `f`, and outputs of `f`.
Gradients of what is kept (`dt`) are not None only when `df` itself is differentiated.
"""

from __future__ import annotations

from dataclasses import field

from jitlite.base.records import Record
from jitlite.ir.graph import Graph


class Gradient(Record, eq=True, frozen=False):
    """A graph `f` and the graph `df` of its vector-Jacobian products.

    Attributes:
        f: the graph, with the values that `df` needs as further outputs.
        df: gives a tuple of gradients; gradients that are zero everywhere are None, on the way in and out.
        f_real_outputs: how many outputs `f` had by itself.
        df_input_vjps: the outputs of `f` whose gradients are the first inputs of `df`.
        df_input_captured_inputs: the inputs of `f` that `df` takes next.
        df_input_captured_outputs: the outputs of `f` that `df` takes last.
        df_capture_users: for each captured value, the positions in `df_input_vjps` of the gradients it is used with: if
            all of them are None, so may the value be.
        df_capture_blocks: for each captured value, the ways to what reads it: of each the conditions, by their
            positions among captured values, with what they have to be. Where no way is open, the value may be None.
        df_output_vjps: the inputs of `f` whose gradients `df` gives.
        f_differentiated_inputs: the inputs whose gradients were asked for; `df` gives none for those that the outputs
            do not depend on.
        f_output_sources: for each output of `f`, the inputs whose gradients depend on it.
        is_total: does `df` take a gradient for each of its own outputs of `f`, zeros where there is none? It says then
            nothing of which gradients are zero everywhere: `f_output_sources` does.
        may_fill: may zeros take the place of missing gradients? They give the same numbers but where a zero meets an
            infinity or nan, so `df` is run without them where a result is nan. Where they may not, and `df` has to be
            given them, `passes/absent_gradients.py` makes the graph for that.
        f_output_reach: for each output with a gradient that may depend on fewer inputs, as branches decide, the output
            of `f` that tells: an int, whose lowest bit is for the first of `reach_inputs`.
        reach_inputs: the inputs of `f` that these ints have bits for.
    """

    f: Graph
    df: Graph
    f_real_outputs: int
    df_input_vjps: list[int] = field(default_factory=list)
    df_input_captured_inputs: list[int] = field(default_factory=list)
    df_input_captured_outputs: list[int] = field(default_factory=list)
    df_capture_users: list[tuple[int, ...]] = field(default_factory=list)
    df_capture_blocks: list[tuple[tuple[tuple[int, bool], ...], ...]] = field(default_factory=list)
    df_output_vjps: list[int] = field(default_factory=list)
    f_differentiated_inputs: list[int] = field(default_factory=list)
    f_output_sources: list[tuple[int, ...]] = field(default_factory=list)
    is_total: bool = False
    may_fill: bool = False
    f_output_reach: dict[int, int] = field(default_factory=dict)
    reach_inputs: list[int] = field(default_factory=list)
