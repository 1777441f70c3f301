"""Regions: parts of a graph that something else may run, and what runs them.

    %y : Tensor, %m : int = prim::Region[kind="sums"](%x, %n)
      block0(%p : Tensor, %q : int):
        %1 : int = prim::Constant[value=1]()
        %a : Tensor = aten::add(%p, %q, %1)
        %b : int = aten::add(%q, %1)
        -> (%a, %b)

A region means what its block means: the block runs where the node stands, with the inputs for its parameters, and what
it returns are the outputs. The block is *closed*: it reads nothing from around it but its parameters, and has constants
of its own. So it can be taken out as a graph.

The attribute `kind` names the back end that may run it instead (`executor/implementations.py`). The back end gives an
`Implementation`: a callable that may say each time that it cannot. Where there is none, or it cannot, the block runs.

`prim::DifferentiableGraph` is TorchScript's spelling of a region of the kind `differentiable`: its graph is the
attribute `Subgraph`. What runs it can always do so; where nothing does, its graph is called. So it is with
`prim::EngineGroup`, a region of the kind `engine`, which passes have made (`passes/cluster.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from jitlite.base.records import Record, replace
from jitlite.base.shown_paths import shown_location
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.traits import Spelling

REGION = "prim::Region"
ENGINE_GROUP = "prim::EngineGroup"
"""A region of the kind `engine`, whose graph is the attribute `Subgraph`."""

Runner = Callable[..., Any]
"""Takes a value for each input of a graph and gives its result."""


class Region:
    """The parts of a region. They are read from the node, so they are always those of the moment."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def kind(self) -> str:
        """Who may run it."""
        named: str | None = Spelling.REGION.of(self.node.kind)
        return str(self.node.attributes["kind"]) if named is None else named

    @property
    def body(self) -> Block:
        if self.node.blocks:
            return self.node.blocks[0]
        body: Graph = self.node.attributes["Subgraph"]
        return body.block

    @property
    def inputs(self) -> Sequence[Value]:
        return self.node.inputs

    @property
    def parameters(self) -> Sequence[Value]:
        """The names of the inputs in the body."""
        return self.body.inputs

    @property
    def results(self) -> Sequence[Value]:
        """The names of the outputs in the body."""
        return self.body.outputs

    @property
    def outputs(self) -> Sequence[Value]:
        return self.node.outputs

    @property
    def gives_tuple(self) -> bool:
        """Does what runs it give a tuple? A single output that is never None is given as it is."""
        return len(self.outputs) != 1 or _may_be_none(self.outputs[0].type)

    @property
    def place(self) -> str:
        """Where in the script it comes from."""
        for node in (self.node, *self.body.computations):
            if node.range is not None and node.range.filename:
                return shown_location(node.range)
        return "?"

    def graph(self) -> Graph:
        """The body as a graph of its own, not to be changed; constants keep their objects."""
        if not self.node.blocks:
            return self.body.graph
        copied = Graph()
        copied.block.clone_from(self.body, {})
        return copied


def _may_be_none(t: T.Type) -> bool:
    return T.is_subtype(T.NONE, t) or T.has_variables(t)


def regions_in(block: Block) -> Iterator[Region]:
    """The regions of a block and of those nested in it, in order, without those that are within a region."""
    for node in block.nodes:
        if node.kind == REGION or node.kind in Spelling.REGION.by_kind:
            yield Region(node)
        else:
            for inner in node.blocks:
                yield from regions_in(inner)


def exchange_names(a: Value, b: Value) -> None:
    """Let each value have the number and the name of the other."""
    names = [value.name if value.has_name else None for value in (a, b)]
    for value in (a, b):
        value.set_name(None)
    for value, name in zip((b, a), names, strict=True):
        value.set_name(name)
    a.id, b.id = b.id, a.id


Constants = dict[tuple[object, ...], Value]
"""Constants by what they have in common with others that are one object with them."""


def constant_key(constant: Node) -> tuple[object, ...]:
    """What constants have in common that are one object."""
    return (constant.output.type, *((name, id(value)) for name, value in constant.attributes.items()))


def inline_region(region: Region, constants: Constants | None = None) -> list[Node]:
    """Put the nodes of a region in its place; gives them, in order.

    Args:
        region: what goes.
        constants: those that can be read there; they stand for the region's own where they are the same objects.
    """
    known = constants or {}
    for given, parameter in zip(region.inputs, region.parameters, strict=True):
        parameter.replace_all_uses_with(given)
    for result, output in zip(list(region.results), region.outputs, strict=True):
        output.replace_all_uses_with(result)
        if result.node.block is region.body and result.node.kind != "prim::Constant":
            exchange_names(result, output)
    moved: list[Node] = []
    for node in list(region.body.nodes):
        same = known.get(constant_key(node)) if node.kind == "prim::Constant" else None
        if same is None:
            node.move_before(region.node)
            moved.append(node)
        else:
            node.output.replace_all_uses_with(same)
            node.destroy()
    region.node.destroy()
    return moved


class FormedRegions(Record, eq=True, frozen=False):
    """What was found in a graph: the regions that were made, and why other nodes are in none."""

    regions: list[Region] = field(default_factory=list)
    refused: dict[Node, str] = field(default_factory=dict)


class Implementation:
    """What runs one region of one plan.

    Attributes:
        run: takes a value for each input, and gives the output (a tuple where `Region.gives_tuple`). It gives None
            where it cannot do that: the block runs then, so nothing may have happened that can be seen. What it raises
            is raised in the first line of the region; where lines matter, it gives None and lets the block raise.
            Where a gradient may be asked for, it records it or gives None. It is itself None while there is nothing
            to call.
        status: a sentence about it.
        is_adaptive: may `run` be exchanged, and is `record_run` to be called?
        seconds: what Python has spent on it, as far as that is counted.
    """

    is_adaptive = False

    def __init__(self, run: Runner | None, status: str = "it is run as one operation") -> None:
        self.run = run
        self.status = status
        self.seconds = 0.0
        self._published: list[Callable[[object], None]] = []

    def on_publish(self, put: Callable[[object], None]) -> None:
        """Have `put` called with what runs the region, now and whenever that is exchanged."""
        self._published.append(put)
        put(self.run)

    def publish(self, run: Runner) -> None:
        """Exchange what runs the region. Code that is running may still call what was there before."""
        self.run = run
        for put in self._published:
            put(run)

    def attempt(self, *inputs: object) -> Any:
        """What `run` gives now; None where there is nothing to call."""
        return None if self.run is None else self.run(*inputs)

    def record_run(self, since: float) -> None:
        """The block has run, from `since` on by `time.perf_counter`."""

    @property
    def is_compiled(self) -> bool:
        """Has it become machine code?"""
        return False

    @property
    def operations(self) -> int:
        """How many operations are machine code, or may become so."""
        return 0

    def warm_up(self, seconds: float) -> None:
        """It takes the place of one on which Python has spent so many seconds; infinity: it was compiled."""


class PlanContext(Record, eq=True):
    """The plan that regions are in.

    Attributes:
        name: of the function, for tracebacks.
        tier: what runs the plan: "python" or "stack".
        runner_of: gives what runs a graph in the way of the plan, within regions of some kinds.
        within: the kinds of the regions that the plan is part of. No more regions of these kinds are formed: what runs
            one by running its graph would come to itself again.
    """

    name: str
    tier: str
    runner_of: Callable[[Graph, str, frozenset[str]], Runner]
    within: frozenset[str] = frozenset()

    def run_graph(self, graph: Graph, name: str) -> Runner:
        """What runs a graph in the way of the plan.

        It takes a value for each input and gives the result, a tuple where there are several.
        """
        return self.runner_of(graph, name, self.within)

    def inside(self, kind: str) -> PlanContext:
        """The same for the parts of a region of this kind."""
        return replace(self, within=self.within | {kind})


class Backend(Record, eq=True):
    """What runs regions of one kind.

    Attributes:
        implement: what runs a region of this plan (a callable, or an `Implementation` that may exchange it), or why
            nothing does.
        form: makes the regions of a graph that is about to be run, which it changes. None: they are made elsewhere.
        may_form: a quick look: may `form` find anything?
    """

    implement: Callable[[Region, PlanContext], Runner | Implementation | str]
    form: Callable[[Graph, PlanContext], FormedRegions] | None = None
    may_form: Callable[[Graph, PlanContext], bool] = lambda graph, context: True
