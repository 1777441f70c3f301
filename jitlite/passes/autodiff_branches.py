"""The gradient of a branch is a branch, which takes the block that the branch took.

    f:  %y, %a = prim::If(%c)                      df:  %dx, %dw, %some = prim::If(%c)
          block0():                                       block0():
            %a1 = tanh(%x)                                  %da = mul(%dy, %w)
            %y1 = mul(%a1, %w)                              -> (tanh_backward(%da, %a), mul(%dy, %a), True)
            -> (%y1, %a1)                                 block1():
          block1():                                         -> (neg(%dy), zeros like %w, False)
            %y2 = neg(%x)
            -> (%y2, zeros())

Why that is right: a run of the graph is one of a graph without branches, in which the blocks that are taken stand in
place of the branches. Its gradients are those of that graph, and `df` computes the same sums of the same formulas:

* The condition is kept, in a loop one for each iteration, so `df` takes the same block, in the same iteration.
* A block of `df` reads values of its block of `f` only. The branch of `f` gives them too; the other block gives zeros
  in their place, which nobody reads. Within a loop these have the size of the value, for all iterations are kept
  together.
* What a block contributes to the gradient of a value from outside, the branch gives. Where the other block contributes
  nothing, it gives zeros, and a bool tells that they stand for a gradient that is not there. To add zeros changes
  nothing. Formulas are another matter, for zero times infinity is NaN: where a gradient may not be there, they stand in
  a branch of their own that asks (`when_present`).
* What is None in the end depends on what a run has taken, too: see `autodiff_reach.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.structure import If
from jitlite.ir.traits import Trait
from jitlite.passes.autodiff_loops import DifferentiationWork
from jitlite.passes.autodiff_recompute import is_of_sizes
from jitlite.passes.autodiff_scopes import GradientScope, InnerScope, LoopScope, without_sizes, zeros
from jitlite.passes.rules.formula import Alongside, FormulaPlace, Sym, call, list_of


def differentiate_branch(work: DifferentiationWork, branch: If) -> None:
    """Hand the gradients of what a branch gives on to what its blocks take."""
    outer, df = work.backward.scope, work.df
    grads = [work.tensor_grad(joined.result) for joined in branch.joined]
    known = [(i, g) for i, g in enumerate(grads) if g is not None]
    if not known:
        return
    made = df.insert("prim::If", (work.backward.local(branch.condition),), ())
    scopes = []
    for position, block in enumerate(branch.node.blocks):
        scope = BranchScope(work, branch, position, outer, made.add_block())
        scopes.append(scope)
        with scope.entered():
            for index, grad in known:
                if work.sources.get(block.outputs[index]):
                    work.add(block.outputs[index], grad)
            for node in reversed(list(block.nodes)):
                work.visit(node)
            scope.add_late()
        for value, output in scope.kept.items():
            if work.sources.get(value):
                work.sources[output] = work.sources[value]
                work.inexact.add(output)
    _Joining(work, made, scopes, known[0][1]).run()


class BranchScope(InnerScope):
    """A block of a branch.

    Attributes:
        outside: what the block contributes to the gradients of values from outside.
        added: the totals of loops around that the block adds to; see `LoopScope.presence`.
    """

    def __init__(
        self, work: DifferentiationWork, branch: If, position: int, outer: GradientScope, block: Block
    ) -> None:
        super().__init__(branch.node.blocks[position], outer, work.backward, block.param_node)
        self.branch, self.position, self.place = branch, position, block
        self.outside: dict[Value, Value] = {}
        self.added: dict[tuple[LoopScope, Value], list[Value] | None] = {}
        self._work = work
        self._alongside: Alongside = work.alongside

    def entered(self) -> _Entered:
        """At the end of the block of `df`."""
        return _Entered(self)

    # -- what df has of the block
    def capture(self, value: Value) -> Value:
        node = value.node
        if node.has(Trait.PLAIN_VIEW) or is_of_sizes(node):
            known = self._sizes(node) if node.kind == "aten::size" and len(node.inputs) == 1 else None
            return known or self.again(value)
        assert self.outer is not None
        if isinstance(value.type, T.TensorType):
            return self.outer.local(self._result(value) or self._kept(value))
        if value.type in (T.INT, T.FLOAT, T.BOOL):
            return self.outer.local(self._kept(value))
        raise ValueError(f"a gradient in a branch needs %{value.name} : {value.type}, which its block computes")

    def late(self, value: Value) -> Value:
        assert self.outer is not None
        return self.outer.late(self.kept[value])

    def _result(self, value: Value) -> Value | None:
        """What the branch gives that is this value where the block is taken."""
        outputs = self.block.outputs
        return self.branch.node.outputs[outputs.index(value)] if value in outputs else None

    def _kept(self, value: Value) -> Value:
        """One more result of the branch, which is the value where the block is taken."""
        if value not in self.kept:
            f = self.branch.node.graph
            for position, block in enumerate(self.branch.node.blocks):
                with f.inserting_at_end(block):
                    block.add_output(_settled(f, value) if position == self.position else self._nothing(f, value))
            self.kept[value] = self.branch.node.add_output(self._type_of_kept(value.type))
        return self.kept[value]

    def _type_of_kept(self, t: T.Type) -> T.Type:
        if not isinstance(t, T.TensorType) or t.sizes is None or self._is_in_loop():
            return t
        return T.TensorType.of(t.dtype, [None] * len(t.sizes), None, t.device)

    def _nothing(self, f: Graph, value: Value) -> Value:
        """What the other block gives for a value that is kept."""
        t = value.type
        if not isinstance(t, T.TensorType):
            return f.insert_constant(False if t is T.BOOL else 0 if t is T.INT else 0.0, t)
        if t.dtype is None or t.sizes is None:
            raise ValueError(f"the dtype and rank of %{value.name}, which a gradient in a branch needs, are not known")
        place = FormulaPlace(f)
        sizes: object = [0] * len(t.sizes)
        if self._is_in_loop():
            found = self._known_sizes(place, value)
            if found is None:
                raise ValueError(f"a gradient in a loop needs %{value.name}, whose size is known in a branch only")
            sizes = found
        made = call(place, "aten::zeros", sizes, dtype=t.dtype, **_device(t)).value
        made.type = T.TensorType.of(t.dtype, [None] * len(t.sizes), None, t.device)
        return made

    def _is_in_loop(self) -> bool:
        scope: GradientScope | None = self
        while scope is not None and not isinstance(scope, LoopScope):
            scope = scope.outer
        return scope is not None

    # -- sizes of what the block computes, from what is outside
    def _sizes(self, node: Node) -> Value | None:
        """The list of sizes, in `df`, without the tensor; None where something of it is known in the block only."""
        if self._sources_of_sizes(node.input) is None:
            return None

        def make() -> Value:
            found = self._known_sizes(self.backward, node.input)
            assert found is not None
            return found.value

        return self.at_start(make)

    def _known_sizes(self, place: FormulaPlace, value: Value) -> Sym | None:
        """A list of sizes, from what is outside the branch; None where something of it is known in the block only."""
        sources = self._sources_of_sizes(value)
        if sources is None:
            return None
        found: list[object] = []
        for source in sources:
            size = source if isinstance(source, int) else call(self._alongside, "aten::size", *source)
            found.append(size if isinstance(size, int) else Sym(place, size.value))
        return list_of(place, found, T.INT)

    def _sources_of_sizes(self, value: Value) -> list[int | tuple[Sym, int]] | None:
        """For each size of a tensor the number it is, or a tensor from outside and a dimension of it."""
        t = value.type
        if not isinstance(t, T.TensorType) or t.sizes is None:
            return None
        found: list[int | tuple[Sym, int]] = []
        for size, symbol in zip(t.sizes, t.symbols or [None] * len(t.sizes), strict=True):
            source = size if size is not None else self._with_symbol(symbol)
            if source is None:
                return None
            found.append(source)
        return found

    def _with_symbol(self, symbol: int | None) -> tuple[Sym, int] | None:
        """A tensor that is there before the branch, and a dimension of it that has this size."""
        for value in _values_before(self.branch.node) if symbol else ():
            t = value.type
            symbols = t.symbols if isinstance(t, T.TensorType) else None
            if symbols and symbol in symbols:
                return Sym(self._alongside, value), symbols.index(symbol)
        return None

    # -- gradients of what comes from outside
    def loop_around(self, value: Value) -> LoopScope | None:
        assert self.outer is not None
        return None if self.holds(value) else self.outer.loop_around(value) if not self.outer.holds(value) else None

    def add_outside(self, value: Value, grad: Value) -> None:
        loop = self.loop_around(value)
        if loop is not None:
            loop.add_outside(value, grad)
            return
        known = self.outside.get(value)
        self.outside[value] = grad if known is None else self._work.sum(known, grad)

    def note_total(self, loop: LoopScope, value: Value, present: Value | None) -> None:
        known = self.added.setdefault((loop, value), [])
        if present is None or known is None:
            self.added[loop, value] = None
        else:
            known.append(present)


class _Entered:
    """Has nodes inserted at the end of a block of `df`, which is differentiated."""

    def __init__(self, scope: BranchScope) -> None:
        self._scope = scope
        self._inserting = scope.backward.graph.inserting_at_end(scope.place)

    def __enter__(self) -> None:
        self._before, self._scope.backward.scope = self._scope.backward.scope, self._scope
        self._inserting.__enter__()

    def __exit__(self, *error: object) -> None:
        self._inserting.__exit__(None, None, None)
        self._scope.backward.scope = self._before


class _Joining:
    """Has a branch of `df` give what its blocks contribute."""

    def __init__(self, work: DifferentiationWork, made: Node, scopes: Sequence[BranchScope], like: Value) -> None:
        self.work, self.made, self.scopes, self.like = work, made, scopes, like

    def run(self) -> None:
        work = self.work
        for value in dict.fromkeys(v for scope in self.scopes for v in scope.outside):
            for scope in self.scopes:
                with scope.entered():
                    scope.place.add_output(self._contribution(scope, value))
            result = self.made.add_output(without_sizes(value.type))
            given = [scope.outside.get(value) for scope in self.scopes]
            present = self._bool([None if g is None else self._presence_of(g) for g in given])
            if present is not None:
                work.backward.present[result] = present
            work.add(value, result)
        for loop, value in dict.fromkeys(key for scope in self.scopes for key in scope.added):
            work.backward.scope.note_total(loop, value, self._bool([self._added(s, loop, value) for s in self.scopes]))

    def _contribution(self, scope: BranchScope, value: Value) -> Value:
        grad = scope.outside.get(value)
        if grad is None:
            return zeros(self.work.backward, self.work.alongside, value, self.like)
        return contiguous(self.work, grad)

    def _presence_of(self, grad: Value) -> Value:
        return self.work.backward.present.get(grad) or self.work.backward.constant(True)

    def _added(self, scope: BranchScope, loop: LoopScope, value: Value) -> Value | None:
        bools = scope.added.get((loop, value), [])
        if bools is None:
            return self.work.backward.constant(True)
        with scope.entered():
            return self.work.backward.any_of(bools)

    def _bool(self, given: Sequence[Value | None]) -> Value | None:
        """What the branch gives of these, of which None is false; None where it is true in any case."""
        constant = self.work.backward.constant
        found = [constant(False) if v is None else v for v in given]
        if all(v is constant(True) for v in found):
            return None
        for scope, value in zip(self.scopes, found, strict=True):
            scope.place.add_output(value)
        return self.made.add_output(T.BOOL)


def when_present(
    work: DifferentiationWork, present: Value, like: Value, make: Callable[[], Sequence[tuple[Value, Value]]]
) -> list[Value]:
    """Compute gradients where others are there, and zeros else.

    Args:
        work: at a block of `df`.
        present: are the others there?
        like: one of them.
        make: inserts the formulas; gives pairs of a value of `f` and its gradient.
    """
    df = work.df
    made = df.insert("prim::If", (present,), ())
    there, absent = made.add_block(), made.add_block()
    with df.inserting_at_end(there):
        pairs = make()
        for _, grad in pairs:
            there.add_output(contiguous(work, grad))
    with df.inserting_at_end(absent):
        for value, _ in pairs:
            absent.add_output(zeros(work.backward, work.alongside, value, like))
    results = [made.add_output(without_sizes(value.type)) for value, _ in pairs]
    work.backward.present.update(dict.fromkeys(results, present))
    return results


def contiguous(work: DifferentiationWork, grad: Value) -> Value:
    """A gradient in memory of its own, or at least laid out as that would be."""
    found = call(work.backward, "aten::contiguous", Sym(work.backward, grad)).value
    found.type = without_sizes(grad.type)
    return found


def _settled(f: Graph, value: Value) -> Value:
    """A value that is kept: a tensor in the order of its dimensions."""
    if not isinstance(value.type, T.TensorType):
        return value
    found = call(FormulaPlace(f), "aten::contiguous", Sym(FormulaPlace(f), value)).value
    found.type = value.type
    return found


def _values_before(node: Node) -> Iterator[Value]:
    """The values that a node could take, nearest blocks last."""
    block = node.block
    assert block is not None
    if block.owner is not None:
        yield from _values_before(block.owner)
    yield from block.inputs
    for each in block.nodes:
        if each is node:
            return
        yield from each.outputs


def _device(t: T.TensorType) -> dict[str, torch.device]:
    """Where a new tensor is to be, unless it is there anyhow."""
    return {} if t.device is None or t.device.type == "cpu" else {"device": t.device}
