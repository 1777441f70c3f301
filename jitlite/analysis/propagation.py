"""The walk that finds out what is known about every value of a graph.

Facts go forward, from inputs and constants through each node. `prim::If` gives what is true of both of its results (of
one, if the condition is known), `prim::Loop` is walked until what it carries does not change any more; what changes
from one iteration to the next is given up. Numbers take part: sizes, dims, and what is computed from them.

A fact holds wherever the value is used. So nothing is said about a tensor that somebody may resize or exchange the data
of (in place, or in a call of which nothing is known), and not whether it requires grad if somebody may write it; of a
list that may be written, the elements are not known. Alias analysis says what may be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jitlite.analysis import effects
from jitlite.analysis.alias import AliasDb
from jitlite.analysis.memory_kinds import reachable_kinds
from jitlite.analysis.result_types import ModeFacts, infer, is_inferred, made_of_numbers
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.ops import Effect, Op
from jitlite.ir.regions import Region
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.operators.numbers import NUMBERS
from jitlite.operators.tensor_lattice import (
    NEVER,
    PLAIN,
    UNKNOWN,
    Fact,
    Special,
    Symbol,
    Symbols,
    TensorFact,
    fact_of_constant,
    fact_of_type,
    is_listed,
    join,
)

_ROUNDS = 12
"""A loop whose facts change longer than this is walked knowing nothing about what it carries."""

_DEEPEST = 4
"""Loops within so many others are walked once, knowing nothing about what they carry: each round of a loop walks those
in it anew, so that the rounds of loops within one another multiply."""

_GRAD_MODES = {"no_grad": False, "inference_mode": False, "enable_grad": True, "set_grad_enabled": None}
"""Context managers of `torch.autograd.grad_mode`, and the grad mode within."""

_HOME_OF_GRAD_MODES = "__torch__.torch.autograd.grad_mode."

_KINDS: dict[T.Type, Special] = {T.FLOAT: Special.FLOAT, T.BOOL: Special.BOOL, T.COMPLEX: Special.COMPLEX}
"""What is known about numbers of which nothing else is."""


class Propagation:
    """What is known about the values of `graph`.

    Args:
        graph: not changed.
        modes: those that a run begins with, as far as they are known.
    """

    def __init__(self, graph: Graph, modes: ModeFacts) -> None:
        self.graph = graph
        self.symbols = Symbols(max((n for v in values_in(graph.block) for n in numbers_in(v.type)), default=0))
        self.facts: dict[Value, Fact] = {}
        self._modes = modes
        self._before_enter: dict[Value, ModeFacts] = {}
        self._numbers: dict[Value, Symbol] = {}
        self._db: AliasDb | None = None
        self._written = self._changed = 0
        self._loops = 0
        """How many loops there are around the node."""
        self._find_writes()
        for value in graph.inputs:
            self._set(value, fact_of_type(value.type, self.symbols))
        self._block(graph.block)

    def fact(self, value: Value) -> Fact:
        found = self.facts.get(value, UNKNOWN)
        if found is not UNKNOWN:
            return found
        return self._number(value) if value.type is T.INT else _KINDS.get(value.type, UNKNOWN)

    def _number(self, value: Value) -> Symbol:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = self.symbols.fresh(is_size=False)
        return found

    # -- writes

    def _find_writes(self) -> None:
        writers = [node for node in self.graph.all_nodes() if _may_write(node)]
        if not writers:
            return
        self._db = AliasDb(self.graph)
        for node in writers:
            locations = self._db.writes(node)
            self._written |= locations
            if _may_change_tensors(node):
                self._changed |= locations

    def _set(self, value: Value, fact: Fact) -> None:
        """Take note of a fact, as far as it stays true whatever is written."""
        if self._db is not None and reachable_kinds(value.type):
            fact = self._lasting(value, fact)
        self.facts[value] = fact

    def _lasting(self, value: Value, fact: Fact) -> Fact:
        assert self._db is not None
        locations = self._db.locations(value)
        if isinstance(fact, TensorFact):
            if locations & self._changed:
                return PLAIN
            return fact._replace(requires_grad=None) if locations & self._written else fact
        if is_listed(fact) and locations & self._written:
            if isinstance(value.type, T.TupleType):  # it may hold what is written; its elements know more about that
                return tuple(_plain(f) for f in fact)
            return UNKNOWN
        return fact

    # -- blocks

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            _BY_KIND.get(node.kind, Propagation._operator)(self, node)

    def _constant(self, node: Node) -> None:
        value = node.attributes.get("value")
        self._set(node.output, UNKNOWN if node.output.type is T.FUNCTION else fact_of_constant(value))

    def _branch(self, node: Node) -> None:
        condition = self.fact(node.input)
        before, ends = self._modes, []
        for block in node.blocks:
            self._modes = before
            self._block(block)
            ends.append(self._modes)
        taken = [0 if condition else 1] if isinstance(condition, bool) else [0, 1]
        self._join(node, [node.blocks[i] for i in taken])
        self._modes = ends[taken[0]].join(ends[taken[-1]])

    def _attempt(self, node: Node) -> None:
        body, handler = node.blocks
        self._block(body)
        end = self._modes
        changes = any(map(effects.changes_modes, body.nodes))
        self._modes = ModeFacts() if changes else end
        self._set(handler.inputs[0], UNKNOWN)
        self._block(handler)
        self._join(node, node.blocks)
        self._modes = end.join(self._modes)

    def _join(self, node: Node, blocks: Sequence[Block]) -> None:
        for position, output in enumerate(node.outputs):
            fact: Fact = NEVER
            for block in blocks:
                fact = join(fact, self.fact(block.outputs[position]), self.symbols)
            self._set(output, fact)

    def _region(self, node: Node) -> None:
        region = Region(node)
        for given, parameter in zip(region.inputs, region.parameters, strict=True):
            self._set(parameter, self.fact(given))
        self._block(region.body)
        for result, output in zip(region.results, region.outputs, strict=True):
            self._set(output, self.fact(result))

    # -- loops

    def _loop(self, node: Node) -> None:
        loop = Loop(node)
        older = self.symbols.count
        carried = [self.fact(v) for v in loop.starts]
        modes = self._modes
        for number in range(_ROUNDS if self._loops >= _DEEPEST else 0, _ROUNDS + 1):
            if number == _ROUNDS:
                carried, modes = [_nothing(v.type) for v in node.outputs], ModeFacts()
            self._iteration(loop, carried, modes)
            ends = [self.fact(v) for v in loop.followings]
            widened = [self._widen(a, b, older) for a, b in zip(carried, ends, strict=True)]
            joined = modes.join(self._modes)
            if number == _ROUNDS or (widened == carried and joined == modes):
                break
            carried, modes = widened, joined
        self._modes = modes
        renamed: dict[Symbol, Symbol] = {}
        for output, fact in zip(node.outputs, carried, strict=True):
            self._set(output, self._after_loop(fact, older, renamed))

    def _iteration(self, loop: Loop, carried: Sequence[Fact], modes: ModeFacts) -> None:
        self._modes = modes
        self._set(loop.index, self._numbers.setdefault(loop.index, self.symbols.fresh()))
        for parameter, fact in zip(loop.parameters, carried, strict=True):
            self._set(parameter, fact)
        self._loops += 1
        self._block(loop.body)
        self._loops -= 1

    def _widen(self, start: Fact, end: Fact, older: int) -> Fact:
        """What is known about a carried value at the start of every iteration.

        A symbol that the loop made, and that is not there again at the end of the iteration, stands for another number
        in each iteration: it stays. Such a symbol is in one place only.
        """
        if isinstance(start, TensorFact) and isinstance(end, TensorFact):
            joined = join(start, end, self.symbols)
            if joined.dims is None or joined.dims == start.dims:
                return joined
            kept = tuple(a if _is_newer(a, older) else j for a, j in zip(start.dims or (), joined.dims, strict=True))
            return joined._replace(dims=kept)
        if is_listed(start) and is_listed(end) and len(start) == len(end):
            return tuple(self._widen(a, b, older) for a, b in zip(start, end, strict=True))
        if _is_newer(start, older):
            return start if start == end else UNKNOWN
        return join(start, end, self.symbols)

    def _after_loop(self, fact: Fact, older: int, renamed: dict[Symbol, Symbol]) -> Fact:
        """A fact without the symbols that the loop made, which mean something else in each iteration."""
        if _is_newer(fact, older):
            return renamed.setdefault(fact, self.symbols.fresh(fact.is_size))
        if isinstance(fact, TensorFact):
            dims = None if fact.dims is None else tuple(self._after_loop(d, older, renamed) for d in fact.dims)
            return fact._replace(dims=dims)
        return tuple(self._after_loop(f, older, renamed) for f in fact) if is_listed(fact) else fact

    # -- nodes

    def _tuple(self, node: Node) -> None:
        self._set(node.output, tuple(self.fact(v) for v in node.inputs))

    def _list(self, node: Node) -> None:
        self._set(node.output, tuple(self.fact(v) for v in node.inputs))

    def _unpack(self, node: Node) -> None:
        held = self.fact(node.input)
        for position, output in enumerate(node.outputs):
            known = is_listed(held) and len(held) == len(node.outputs)
            self._set(output, held[position] if known else _nothing(output.type))

    def _tuple_item(self, node: Node) -> None:
        held, index = self.fact(node.inputs[0]), self.fact(node.inputs[1])
        known = is_listed(held) and type(index) is int and -len(held) <= index < len(held)
        self._set(node.output, held[index] if known else _nothing(node.output.type))

    def _item(self, node: Node) -> None:
        """An item of a list of tensors, or of something else."""
        held, index = self.fact(node.inputs[0]), self.fact(node.inputs[1]) if len(node.inputs) > 1 else UNKNOWN
        known = is_listed(held) and type(index) is int and -len(held) <= index < len(held)
        if known and isinstance(node.output.type, T.TensorType) and isinstance(held[index], TensorFact):
            self._set(node.output, held[index])
        else:
            self._operator(node)

    def _tuple_slice(self, node: Node) -> None:
        held = self.fact(node.input)
        first, last = node.attributes["beg"], node.attributes["end"]
        self._set(node.output, held[first:last] if is_listed(held) else _nothing(node.output.type))

    def _never(self, node: Node) -> None:
        self._set(node.output, NEVER)

    def _same(self, node: Node) -> None:
        fact = self.fact(node.inputs[0])
        fits = isinstance(fact, TensorFact) if isinstance(node.output.type, T.TensorType) else not _holds_tensors(fact)
        self._set(node.output, fact if fits and fact is not None else _nothing(node.output.type))

    def _enter(self, node: Node) -> None:
        self._declared(node)
        name = str(node.input.type)
        self._before_enter[node.input] = self._modes
        short = name.removeprefix(_HOME_OF_GRAD_MODES)
        if short != name and short in _GRAD_MODES:
            self._modes = ModeFacts(
                _GRAD_MODES[short], self._modes.autocast, self._modes.default_dtype, self._modes.default_device
            )
        else:
            self._modes = ModeFacts()

    def _exit(self, node: Node) -> None:
        self._declared(node)
        before = self._before_enter.get(node.input)
        known = str(node.input.type).startswith(_HOME_OF_GRAD_MODES)
        self._modes = before if before is not None and known else ModeFacts()

    def _declared(self, node: Node) -> None:
        """Nothing is known about the node: what the types of its outputs say may be the word of what made it."""
        for output in node.outputs:
            self._set(output, fact_of_type(output.type, self.symbols))
        for block in node.blocks:
            for parameter in block.inputs:
                self._set(parameter, _nothing(parameter.type))
            self._modes = ModeFacts()
            self._block(block)

    def _operator(self, node: Node) -> None:
        op = node.op
        if effects.changes_modes(node) and not _is_harmless(node):
            self._modes = ModeFacts()
        if op is None or node.blocks or op.schema.is_vararg or len(op.schema.returns) != len(node.outputs):
            self._declared(node)
            return
        facts = [self.fact(v) for v in node.inputs]
        rule = NUMBERS.get(node.kind)
        is_tensor = any(isinstance(o.type, T.TensorType) for o in node.outputs)
        if rule is not None and len(node.outputs) == 1 and not is_tensor:
            self._set(node.output, rule(op, facts, self.symbols))
            return
        results = self._results(node, op, facts)
        for output, fact in zip(node.outputs, results, strict=True):
            self._set(output, _nothing(output.type) if fact is UNKNOWN else fact)

    def _results(self, node: Node, op: Op, facts: Sequence[Fact]) -> Sequence[Fact]:
        if op.effect is Effect.WRITE:
            return [_written_argument(op, position, facts) for position in range(len(node.outputs))]
        if node.has(Trait.TENSOR_OF_NUMBER) and isinstance(facts[0], int | float | complex | tuple | Symbol | Special):
            return [made_of_numbers(op, facts, node.inputs[0].type, self._modes)]
        if not is_inferred(op) or op.effect is Effect.SIDE:
            return [fact_of_type(o.type, self.symbols) for o in node.outputs]
        if not any(_is_about_tensors(o.type) for o in node.outputs):
            return [UNKNOWN] * len(node.outputs)
        return infer(op, facts, self._modes, self.symbols)


# -- questions about nodes and facts


def _may_write(node: Node) -> bool:
    effect = effects.effect_of(node)
    return effect in (Effect.WRITE, Effect.SIDE) and not _is_harmless(node)


def _is_harmless(node: Node) -> bool:
    """Is the node known not to write anything that facts are about?"""
    if node.has(Trait.KEEPS_FACTS) or effects.writes_nothing(node):
        return True
    return is_of_grad_mode(node)


def is_of_grad_mode(node: Node) -> bool:
    """Does the node make, enter or leave a context of the grad mode?"""
    about = str(node.inputs[0].type) if node.inputs else ""
    if node.kind in ("prim::Enter", "prim::Exit") or (
        node.kind == "prim::CallMethod" and node.attributes.get("name") == "__init__"
    ):
        return about.removeprefix(_HOME_OF_GRAD_MODES) in _GRAD_MODES
    return False


def _may_change_tensors(node: Node) -> bool:
    """May the node change more than the elements of the tensors that it may write?"""
    op = node.op
    if node.kind == "prim::SetAttr":
        return False
    if op is None or op.effect is not Effect.WRITE or node.blocks:
        return True
    marks = [(a.alias, a.element_alias) for a in op.schema.arguments]
    written = [i for i, pair in enumerate(marks) if any(m is not None and m.is_write for m in pair)]
    return written != [0] or node.has(Trait.CHANGES_FORM)


def _written_argument(op: Op, position: int, facts: Sequence[Fact]) -> Fact:
    """The argument that a writing operator gives back as this result."""
    mark = op.schema.returns[position].alias
    if mark is None or not mark.is_write:
        return UNKNOWN
    for argument, fact in zip(op.schema.arguments, facts, strict=True):
        if argument.alias is not None and argument.alias.before & mark.before:
            return fact if isinstance(fact, TensorFact) else UNKNOWN
    return UNKNOWN


def _nothing(t: T.Type) -> Fact:
    """The fact about a value of which only the type is known."""
    if isinstance(t, T.TensorType):
        return PLAIN
    if isinstance(t, T.TupleType):
        return tuple(map(_nothing, t.elements))
    return None if t is T.NONE else UNKNOWN


def _plain(fact: Fact) -> Fact:
    if isinstance(fact, TensorFact):
        return PLAIN
    return tuple(map(_plain, fact)) if is_listed(fact) else fact


def _holds_tensors(fact: Fact) -> bool:
    return isinstance(fact, TensorFact)


def _is_about_tensors(t: T.Type) -> bool:
    return isinstance(t, T.TensorType) or (isinstance(t, T.ListType) and isinstance(t.element, T.TensorType))


def _is_newer(fact: Fact, older: int) -> bool:
    return isinstance(fact, Symbol) and fact.number > older


_BY_KIND: dict[str, Callable[[Propagation, Node], None]] = {
    "prim::Constant": Propagation._constant,
    "prim::If": Propagation._branch,
    "prim::Loop": Propagation._loop,
    "prim::Try": Propagation._attempt,
    "prim::Region": Propagation._region,
    "prim::TupleConstruct": Propagation._tuple,
    "prim::TupleUnpack": Propagation._unpack,
    "prim::TupleIndex": Propagation._tuple_item,
    "prim::TupleSlice": Propagation._tuple_slice,
    "prim::ListConstruct": Propagation._list,
    "aten::__getitem__": Propagation._item,
    "prim::ListUnpack": Propagation._unpack,
    "prim::Uninitialized": Propagation._never,
    "prim::unchecked_cast": Propagation._same,
    "prim::unchecked_unwrap_optional": Propagation._same,
    "aten::_unwrap_optional": Propagation._same,
    "prim::Enter": Propagation._enter,
    "prim::Exit": Propagation._exit,
}


def numbers_in(t: T.Type) -> Iterator[int]:
    """The numbers of symbols in a type."""
    if isinstance(t, T.TensorType):
        yield from (n for n in t.symbols or () if n)
    for part in t.contained:
        yield from numbers_in(part)


def values_in(block: Block) -> Iterator[Value]:
    """Every value of the block and of those nested in it."""
    yield from block.inputs
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from values_in(inner)
