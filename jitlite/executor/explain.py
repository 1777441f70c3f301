"""What was done to a function, and what was not and why, in sentences.

Passes are run once more with a look at what each takes out of the graph; what is left in it tells what could not be
done. `call_story.py` adds what became of calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitlite.analysis.effects import effect_of, raises_itself
from jitlite.analysis.module_flags import flag_reads
from jitlite.base import options
from jitlite.base.records import Record
from jitlite.base.shown_paths import shown_location
from jitlite.executor.argument_types import ArgumentTypes
from jitlite.executor.autodiff_groups import group_count
from jitlite.executor.call_story import run_and_tell, story
from jitlite.executor.executor import Executor
from jitlite.executor.kernels import refused_operators, told_of_kernels
from jitlite.executor.specialize import may_gain, specialize
from jitlite.interpreter.guards import spec_of, spec_reader
from jitlite.interpreter.profiler import Profile
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, constant_of, is_constant
from jitlite.ir.notebook import sentences_html
from jitlite.ir.ops import Effect
from jitlite.ir.structure import Loop
from jitlite.ir.types import Type
from jitlite.ir.unit import called_function, called_functions
from jitlite.kernels.backend import KIND as TENSORS_KIND
from jitlite.native.backend import KIND as NATIVE_KIND
from jitlite.native.backend import form_native_regions
from jitlite.passes.pipelines import OPTIMIZE
from jitlite.passes.registry import PassHook, PassRecord

_MOST_LINES = 8
"""Sentences of one kind; of more, the number is told."""
_MOST_PLACES = 3
"""Places of one sentence; of more, the number is told."""


_GLOSSARY = "Plan, guard, region and the other words are explained in docs/glossary.md."


class OptimizedOnceMore(Record):
    """The general optimized graph of a function, and what each pass did on the way to it."""

    graph: Graph
    records: Sequence[PassRecord]


def optimized_once_more(executor: Executor, hook: PassHook) -> OptimizedOnceMore:
    """Run the passes before the first call once more, with a hook that counts kinds of nodes."""
    graph = executor.graph.copy()
    OPTIMIZE(graph, hook)
    return OptimizedOnceMore(graph, hook.records)


class Explanation(Record, eq=True):
    """Sentences by subject. Print it, or look at `sections`."""

    name: str
    sections: dict[str, list[str]]

    def __str__(self) -> str:
        lines = [f"{self.name}:"]
        for title, sentences in self.sections.items():
            lines += ["", title]
            shown = sentences[:_MOST_LINES]
            lines += [f"  - {sentence}" for sentence in shown or ["nothing"]]
            if len(sentences) > len(shown):
                lines.append(f"  - and {len(sentences) - len(shown)} more")
        lines += ["", _GLOSSARY]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return sentences_html(self.name, self.sections)


def explain_call(executor: Executor, bound: Sequence[object]) -> Explanation:
    """Run a call, and say what ran it, with all that `explain` says.

    Args:
        bound: an argument for each input of the function's graph.
    """
    this_call = run_and_tell(executor, bound)
    found = explain(executor, bound)
    return Explanation(found.name, {"This call": this_call, **found.sections})


def explain(
    executor: Executor, bound: Sequence[object] | None = None, optimized: OptimizedOnceMore | None = None
) -> Explanation:
    """What becomes of calls.

    Args:
        bound: an argument for each input of the function's graph; without, the calls that there were are what is told
            of. The function is not called.
        optimized: of this executor, where the passes have just been run once more.
    """
    told: list[str] = []
    if bound is not None:
        told = [] if executor.alternatives is None else executor.alternatives.told(bound)
        chosen = executor.chosen(bound)
        executor, optimized = chosen, optimized if chosen is executor else None
    made = optimized_once_more(executor, PassHook(count_kinds=True)) if optimized is None else optimized
    others = list(_regions(executor))
    return Explanation(
        executor.name,
        {
            **({"Which graph runs": told} if told else {}),
            "Done before the first call": [*_inlined(executor.graph), *_done(made.records)],
            "Left as it is": list(_left(made.graph)),
            "Specialized": list(_specialized(executor, made.graph, bound)),
            "Machine code": list(_native(executor)),
            "Machine code for tensors": list(told_of_kernels(executor)),
            **({"Regions": others} if others else {}),
            "Calls so far": [*story(executor), *_seen(executor)],
        },
    )


def _some(kinds: Counter[str], count: int = 5) -> str:
    """`aten::mul (3), aten::add`: the most frequent kinds, with how many there are."""
    shown = [k if n == 1 else f"{k} ({n})" for k, n in kinds.most_common(count)]
    return ", ".join(shown) + (", ..." if len(kinds) > count else "")


# -- what the passes did

_SAID: dict[str, str] = {
    "lower_simple_tuples": "tuples that are taken apart again were never made: {gone}",
    "constant_propagation": "computed ahead, or decided, because all inputs are known: {gone}",
    "peephole": "simplified away: {gone}",
    "cse": "computed once instead of again: {gone}",
    "dce": "dropped, because nobody could tell that it ran: {gone}",
    "constant_pooling": "equal constants became one: {gone}",
    "loop_unrolling": "loops became their bodies: {new} instead of {gone}",
}
"""What to say of a pass that changed something; `gone` and `new` are kinds of nodes."""


def _inlined(graph: Graph) -> Iterator[str]:
    names = dict.fromkeys(function.name for function in called_functions(graph))
    if names:
        yield f"inlined, so that there are no calls: {', '.join(names)}"


def sentence_of(name: str, gone: Counter[str], new: Counter[str]) -> str:
    """What a pass, or a step before the passes, did to a graph, by the nodes there are fewer and more than before."""
    found = next(_done_by(name, gone, new), "changed what is connected, or its order, and no kind of node")
    text = found.removeprefix(f"{name} ").removeprefix("took out nothing, and ")
    return f"{text[0].upper()}{text[1:]}."


def _done(records: Sequence[PassRecord]) -> Iterator[str]:
    gone: dict[str, Counter[str]] = {}
    new: dict[str, Counter[str]] = {}
    for record in records:
        if record.changed:
            gone.setdefault(record.name, Counter()).update(record.gone)
            new.setdefault(record.name, Counter()).update(record.new)
    for name, kinds in gone.items():
        if name != "inline":
            yield from _done_by(name, kinds, new[name])
    if records:
        first, last = records[0].nodes_before, records[-1].nodes_after
        milliseconds = 1e3 * sum(r.seconds for r in records)
        counted = f"{first} nodes, as before" if first == last else f"{last} nodes instead of {first}"
        yield f"{len(records)} passes took {milliseconds:.1f} ms and left {counted}"


def _done_by(name: str, gone: Counter[str], new: Counter[str]) -> Iterator[str]:
    removed = Counter({k: n for k, n in gone.items() if k != "prim::Constant" or name == "constant_pooling"})
    added = Counter({k: n for k, n in new.items() if k != "prim::Constant"})
    template = _SAID.get(name)
    if template is not None and removed:
        yield template.format(gone=_some(removed), new=_some(added))
    elif removed or added:
        made = f", and put in {_some(added)}" if added else ""
        yield f"{name} took out {_some(removed) or 'nothing'}{made}"


# -- what they left, and why


def _left(graph: Graph) -> Iterator[str]:
    """What is left and why, each reason once with its places."""
    places: dict[str, Counter[str]] = {}
    for node in graph.all_nodes():
        why = next((said for question in _QUESTIONS if (said := question(node)) is not None), None)
        if why is not None:
            known = node.range is not None and node.range.filename
            places.setdefault(why, Counter())[_place(node) if known else ""] += 1
    for why, counts in places.items():
        yield why + _at(counts)
    yield from _repeated(graph)


def _at(counts: Counter[str]) -> str:
    """` (model.py:3:4, model.py:7:4 (20 times))`: the most frequent places; nothing where none is known."""
    shown = [place if n == 1 else f"{place} ({n} times)" for place, n in counts.most_common(_MOST_PLACES) if place]
    more = len(counts) - _MOST_PLACES
    return f" ({', '.join(shown)}{f' and {more} more places' if more > 0 else ''})" if shown else ""


def _why_called(node: Node) -> str | None:
    if node.kind in ("prim::PythonOp", "prim::IgnoredPythonOp"):
        name = node.attributes.get("name", "a Python function")
        return f"{name} is Python and not compiled: it is called, and nothing moves across the call"
    if node.kind == "prim::CallMethod" and called_function(node) is None:
        return f"the method {node.attributes.get('name')} is looked up when running, for its object is of an interface"
    if node.kind in ("prim::CallFunction", "prim::CallMethod"):
        callee = called_function(node)
        return f"{callee.name if callee else 'a function'} is called and not inlined, for it calls itself"
    if node.kind in ("prim::fork", "prim::awaitable"):
        return f"{node.kind} runs its function apart: it stays a function of its own"
    return None


def _why_looped(node: Node) -> str | None:
    if node.kind != "prim::Loop":
        return None
    loop = Loop(node)
    count = constant_of(loop.max_iterations, None)
    if type(count) is not int:
        return "a loop stays a loop: how often it runs is known only when it runs"
    if constant_of(loop.condition, None) is not True:
        return "a loop stays a loop: it may be left early"
    return f"a loop stays a loop: its body is too large to be repeated {count} times"


def _why_not_folded(node: Node) -> str | None:
    if not node.inputs or not all(map(is_constant, node.inputs)) or not node.outputs or node.blocks:
        return None
    effect = effect_of(node)
    if effect is Effect.RANDOM:
        return f"{node.kind} is not computed ahead: it draws random numbers"
    if effect in (Effect.SIDE, Effect.STATE, Effect.WRITE):
        return None
    if any(isinstance(v.type, T.TensorType) for v in (*node.outputs, *node.inputs)):
        return f"{node.kind} is not computed ahead, though its inputs are known: each call makes a new tensor"
    if node.kind in ("prim::ListConstruct", "prim::DictConstruct"):
        return None
    if raises_itself(node):
        return f"{node.kind} is not computed ahead: it may raise, and then has to when it runs, or gives a new object"
    return None


def _why_written(node: Node) -> str | None:
    if effect_of(node) is Effect.WRITE and any(isinstance(v.type, T.TensorType) for v in node.inputs[:1]):
        return f"{node.kind} writes a tensor in place: what reads that tensor stays on its side of it"
    return None


_QUESTIONS: tuple[Callable[[Node], str | None], ...] = (_why_called, _why_looped, _why_written, _why_not_folded)


def _repeated(graph: Graph) -> Iterator[str]:
    """Equal computations that were not merged."""
    seen: Counter[tuple[Any, ...]] = Counter()
    for node in graph.all_nodes():
        if node.inputs and node.outputs and not node.blocks and effect_of(node) in (Effect.PURE, Effect.STATE):
            seen[node.block, node.kind, tuple(node.inputs), str(node.attributes)] += 1
    for (_, kind, inputs, _), count in seen.items():
        if count > 1:
            shown = ", ".join(f"%{v.name}" for v in inputs)
            yield (
                f"{kind}({shown}) is computed {count} times: what it reads may be written in between, or each result "
                "has to be an object of its own"
            )


# -- what depends on the arguments


def _argument_types(graph: Graph, bound: Sequence[object]) -> tuple[Type, ...]:
    declared = [v.type for v in graph.inputs]
    return spec_of(declared, spec_reader(declared)(*bound)).types


def _specialized(executor: Executor, graph: Graph, bound: Sequence[object] | None) -> Iterator[str]:
    mode = options.current().executor
    yield f"{executor.decision} (executor: {mode})"
    if options.current().symbolic_gradients > 0:
        yield f"groups of operators that autograd sees as one node each: {group_count(executor.plan_graph)}"
    if executor.specialized is not None or mode != "profiling":
        return
    if not may_gain(graph):
        yield "it would gain nothing: no step depends on rank, dtype or device of an argument, or on which are None"
        return
    if bound is None:
        return
    seen = ArgumentTypes(graph.inputs, Profile(), flag_reads(graph))
    seen.note_others(bound)
    made = specialize(graph, _argument_types(graph, bound), seen.flags(), with_sizes=False)
    if made is None:
        yield "it would gain nothing: knowing the types of these arguments saves less than checking them costs"
        return
    wanted = made.wanted(graph.inputs)
    checks = f", and check {made.guard} properties of arguments first" if made.guard else ""
    which = f"for {wanted} " if wanted else ""
    yield f"{which}a call would run {made.saved} steps fewer{checks}; that is done once it is called often"


# -- machine code


def _native(executor: Executor) -> Iterator[str]:
    """What became of the loops that can be machine code, and why others cannot."""
    if options.current().native == "off":
        yield "none: the switch `native` is off"
        return
    for state in executor.region_states:
        count = f", it ran so {state.runs} times" if state.runs else ""
        missed = f", and {state.bailouts} times Python had to do it" if state.bailouts else ""
        places = ", ".join(dict.fromkeys(_place(loop) for loop in state.region.loops))
        yield f"of {state.region.size} operations with the loop at {places}: {state.status}{count}{missed}"
    graph, _ = refused_operators(executor.plan_graph)  # loops over tensors are told of elsewhere
    for node, reason in form_native_regions(graph).refused.items():
        if node.kind == "prim::Loop":
            yield f"not the loop at {_place(node)}: {reason}"


_TOLD = (NATIVE_KIND, TENSORS_KIND, "differentiable")
"""Kinds of regions that have sentences of their own."""


def _regions(executor: Executor) -> Iterator[str]:
    """What became of the regions of other kinds."""
    for region in executor.regions:
        if region.kind not in _TOLD:
            yield f"{region.kind} at {region.place}: {region.status}"


def _place(node: Node) -> str:
    return shown_location(node.range) if node.range is not None and node.range.filename else "?"


def _seen(executor: Executor) -> Iterator[str]:
    """The types that profiled calls have seen."""
    for name, seen in list(executor.profile.items())[:_MOST_LINES]:
        yield f"%{name} was seen to be {seen}"
