"""The pipelines, as data."""

from __future__ import annotations

from dataclasses import dataclass

from jitlite.ir.graph import Graph
from jitlite.passes.registry import PassHook, run


@dataclass(frozen=True)
class Pipeline:
    """Passes `once`, then `repeated` until nothing changes (at most `rounds` times), then `last`."""

    once: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    rounds: int = 8

    def __call__(self, graph: Graph, hook: PassHook | None = None) -> bool:
        """Run the pipeline; says whether it changed the graph."""
        around = PassHook.from_options() if hook is None else hook
        changed = run(graph, self.once, around)
        for _ in range(self.rounds if self.repeated else 0):
            if not run(graph, self.repeated, around):
                break
            changed = True
        return run(graph, self.last, around) or changed

    @property
    def passes(self) -> tuple[str, ...]:
        """The names of the passes it is made of."""
        return self.once + self.repeated + self.last


CLEANUP = Pipeline(
    once=("lower_simple_tuples", "constant_propagation_immutable", "constant_pooling", "canonicalize_outputs"),
)
"""After the front end: the graph that users see."""

OPTIMIZE = Pipeline(
    once=("inline",),
    repeated=("lower_simple_tuples", "constant_propagation", "peephole", "cse", "dce"),
    last=("constant_pooling",),
)
"""Before a graph is run."""
