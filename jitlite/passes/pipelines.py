"""The pipelines, as data."""

from __future__ import annotations

from torch.utils.hooks import RemovableHandle

from jitlite.base.changed import Changed
from jitlite.base.records import Record
from jitlite.ir.graph import Graph
from jitlite.passes import insertion
from jitlite.passes.registry import Pass, PassHook, load_file, run

_LARGE = 400
_LITTLE = 0.05
"""A large graph that a round has made smaller by less than this part is not worth another one."""


class Pipeline(Record, eq=True):
    """Passes `once`, then `repeated` until nothing changes (at most `rounds` times), then the pipeline `loops` if the
    graph has a loop, then `last`. Of a large graph, rounds that would change little are left out.
    """

    once: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    rounds: int = 8
    loops: Pipeline | None = None
    is_follow_up: bool = False
    """Is what is repeated left out where the passes before it change nothing, or little of a large graph?"""
    is_of_plans: bool = False
    """Do passes that users have inserted run in it?"""

    def __call__(self, graph: Graph, hook: PassHook | None = None) -> bool:
        """Run the pipeline; says whether it changed the graph."""
        around = PassHook.from_options() if hook is None else hook
        with Changed(graph, "analyses", {} if graph.analyses is None else graph.analyses):
            return self._run(graph, around)

    def _run(self, graph: Graph, around: PassHook) -> bool:
        before = _size(graph) if self.is_follow_up else 0
        changed = run(graph, self._extended(self.once), around)
        if not self.is_follow_up or (changed and not _is_little(before, _size(graph))):
            changed = self._repeat(graph, around) or changed
        if self.loops is not None and any(node.kind == "prim::Loop" for node in graph.all_nodes()):
            changed = self.loops(graph, around) or changed
        return run(graph, self._extended(self.last), around) or changed

    def _extended(self, names: tuple[str, ...]) -> list[str | Pass]:
        return insertion.with_inserted(names) if self.is_of_plans else list(names)

    def _repeat(self, graph: Graph, hook: PassHook) -> bool:
        """Rounds, until every pass but the last one that changed something has found nothing to do since then."""
        changed, quiet, size, repeated = False, 0, _size(graph), self._extended(self.repeated)
        for _ in range(self.rounds if repeated else 0):
            for one in repeated:
                if quiet == len(repeated) - 1 and changed:
                    return True
                if run(graph, (one,), hook):
                    changed, quiet = True, 0
                else:
                    quiet += 1
            if quiet >= len(repeated):
                break
            before, size = size, _size(graph)
            if _is_little(before, size):
                break
        return changed

    @property
    def passes(self) -> tuple[str, ...]:
        """The names of the passes it is made of."""
        return self.once + self.repeated + (self.loops.passes if self.loops else ()) + self.last


def _is_little(before: int, after: int) -> bool:
    return before > _LARGE and before * (1 - _LITTLE) < after


def _size(graph: Graph) -> int:
    return sum(1 for _ in graph.all_nodes())


CLEANUP = Pipeline(
    once=("lower_simple_tuples", "dce", "constant_propagation_immutable", "constant_pooling", "canonicalize_outputs"),
)
"""After the front end: the graph that users see."""

_ROUND = ("lower_simple_tuples", "constant_propagation", "peephole", "cse", "dce")

_LOOPS = Pipeline(
    once=("counted_loops", "thread_jumps", "load_elimination", "hoist_loop_invariants"),
    repeated=_ROUND,
    rounds=2,
    is_follow_up=True,
    is_of_plans=True,
)

OPTIMIZE = Pipeline(
    once=("inline", "constant_pooling"), repeated=_ROUND, loops=_LOOPS, last=("constant_pooling",), is_of_plans=True
)
"""Before a graph is run."""

SPECIALIZE = Pipeline(repeated=("shapes", *_ROUND), last=("remove_dropout", "constant_pooling"), is_of_plans=True)
"""After types of inputs, and flags of modules, have become known in an optimized graph."""

GRADIENT = Pipeline(
    once=("specialize_autogradzero", "lower_grad_of"), repeated=("shapes", *_ROUND), last=("constant_pooling",)
)
"""The gradient of a group of operators."""

PHASES: dict[str, Pipeline] = {
    "inline": Pipeline(
        once=("inline", "specialize_autogradzero", "lower_grad_of", "lower_simple_tuples", "constant_pooling"),
        is_of_plans=True,
    ),
    "required": Pipeline(once=("dce",), is_of_plans=True),
    "information": Pipeline(once=("constant_propagation", "shapes"), is_of_plans=True),
    "optimize": Pipeline(
        once=("dce", "cse", "peephole", "constant_propagation", "loop_unrolling", "remove_list_mutation"),
        repeated=_ROUND,
        loops=_LOOPS,
        is_of_plans=True,
    ),
    "last": Pipeline(once=("remove_noops", "dce", "constant_pooling"), is_of_plans=True),
}
"""The phases of the legacy executor, in order, for a graph whose inputs have the types of one call."""


def insert(chosen: str | Pass, *, before: str | None = None, after: str | None = None) -> RemovableHandle:
    """Have a pass run in plans, wherever the named pass does: before it, or after it.

    It holds for the plans that are made from now on. `jitlite.bisect` suspects the pass as it does others.

    Args:
        chosen: a function `Graph -> bool`, or the name of a pass.

    Returns:
        What takes it out again: `handle.remove()`, or the end of `with insert(...):`.

    Raises:
        ValueError: not one of `before` and `after` is given, or no pass of this name runs in plans.
        TypeError: what is given is no function.
    """
    places = [name for pipeline in (OPTIMIZE, SPECIALIZE, *PHASES.values()) for name in pipeline.passes]
    return insertion.enter(insertion.inserted_pass(chosen, before, after, places))


FREEZE = Pipeline(repeated=_ROUND, last=("constant_pooling",))
"""A method of a module that is being frozen, after attributes have become constants."""

FROZEN = Pipeline(once=("remove_dropout", "remove_noops"), last=("dce", "constant_pooling"))
"""A frozen method; keeps results to the last bit."""

FROZEN_NUMERICS = Pipeline(
    once=FROZEN.once,
    repeated=("fold_conv_bn", "fold_conv_add_sub", "fold_conv_mul_div", "fold_linear_bn"),
    last=("dce", "constant_pooling"),
)
"""A frozen method, where results may change by rounding."""

_INLINED = Pipeline(
    repeated=("constant_propagation_immutable", "peephole", "dce"), rounds=2, last=("constant_pooling",)
)


def inline_and_simplify(graph: Graph) -> bool:
    """Inline calls of a graph that is to be shown, or read by a tool; says whether there were any.

    What a caller knows often decides conditions of callees, so these are simplified then.
    """
    changed = run(graph, ("inline",))
    if changed:
        _INLINED(graph)
    return changed


INFERENCE = Pipeline(last=("dce", "constant_pooling"))
"""A frozen method, after what is faster on this machine has been put in."""

for _name in (*CLEANUP.passes, *OPTIMIZE.passes):
    load_file(_name)  # every program needs them: they are read now and not during the first compilation
