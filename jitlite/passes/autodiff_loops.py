"""The gradient of a loop is a loop, which runs the iterations backwards.

    f:  %h = loop(n, %h0):                  df:  %dw = zeros like %w
          %t, %hp ->                              %dh0 = loop(n, %dh):
          %a = mul(%hp, %w)                         %j, %g ->
          %hn = tanh(%a)                            %t = n - 1 - %j
          -> %hn                                    %da = tanh_backward(%g, %hn of iteration %t)
                                                    %dw += %da * (%hp of iteration %t)
                                                    -> %da * %w

* What the loop carries has a gradient that the other loop carries. It starts with that of the result, or zeros.
* What the body reads from outside gets its contributions summed up in a tensor of zeros, in place. Where the body reads
  a part of it (`xs[t]`), the contribution is added to that part.
* A list of tensors that each iteration appends one to, and that is put together behind the loop, has the gradient of
  that: each iteration takes its part.

Gradients within a loop are never None. Dtypes of what has a gradient there must be known. Where it is not certain that
what is carried has a gradient, zeros stand for one that is not there, and the loop carries a bool that tells
(`Backward.present`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of
from jitlite.ir.structure import Carried, Loop
from jitlite.passes.autodiff_scopes import Backward, GradientScope, LoopScope, without_sizes, zeros
from jitlite.passes.rules.formula import Alongside, Sym, call


class Doubtful:
    """What loops carry whose gradient may not be there.

    That is found when a loop has been differentiated; the work begins anew then, and knows it.

    Attributes:
        found: each as the number of its loop in the graph, and its position there.
    """

    def __init__(self, found: set[tuple[int, int]], f: Graph) -> None:
        self.found = found
        self._numbers = {node: i for i, node in enumerate(n for n in f.all_nodes() if n.kind == "prim::Loop")}

    def key(self, loop: Loop, position: int) -> tuple[int, int]:
        """What stands for a carried value."""
        return self._numbers[loop.node], position


class DifferentiationWork(Protocol):
    """The work on a graph, as `autodiff.py` has it."""

    backward: Backward
    alongside: Alongside
    sources: dict[Value, set[int]]
    inexact: set[Value]
    grown: dict[Value, tuple[Node, Value]]
    doubtful: Doubtful

    @property
    def df(self) -> Graph: ...

    def add(self, value: Value, grad: Value) -> None: ...

    def sum(self, a: Value, b: Value) -> Value: ...

    def tensor_grad(self, value: Value) -> Value | None: ...

    def visit(self, node: Node) -> None: ...

    def with_slot(self, value: Value, grad: Value) -> Value: ...


# -- lists that grow


def _puts_together(node: Node) -> bool:
    return node.kind in ("aten::stack", "aten::cat")


def append_to(value: Value) -> Node | None:
    """The only node that appends to an empty list, in a loop that stands beside the list's display and before the node
    that puts the elements together; None if the list is not of that kind."""
    made = value.node
    if made.kind != "prim::ListConstruct" or made.inputs:
        return None
    appends = [use.user for use in value.uses if use.user.kind == "aten::append" and use.offset == 0]
    joins = [use.user for use in value.uses if _puts_together(use.user)]
    if len(appends) != 1 or len(joins) != 1 or value.use_count != 2 or appends[0].output.has_uses:
        return None
    return appends[0] if _stands_between(made, appends[0].block, joins[0]) else None


def _stands_between(first: Node, body: Block | None, last: Node) -> bool:
    """Does a loop with this body stand between two nodes that are beside it?"""
    loop = None if body is None else body.owner
    if loop is None or loop.kind != "prim::Loop":
        return False
    return loop.block is first.block is last.block and loop.is_before(last)


def joined_list(node: Node) -> Value | None:
    """The list that a node puts together, if it is one that a loop has made grow."""
    if not _puts_together(node) or append_to(node.inputs[0]) is None:
        return None
    return node.inputs[0]


def part_of(work: DifferentiationWork, node: Node, whole: Value) -> Value:
    """What an iteration gets of the gradient of a list that has been put together.

    Args:
        work: at the body of the loop.
        node: what has put the list together.
        whole: the gradient of that. All elements have the same share in it.
    """
    scope, place = work.backward.scope, work.backward
    assert isinstance(scope, LoopScope)
    dim, index, of = constant_of(node.inputs[1], None), Sym(place, scope.index), Sym(place, whole)
    if type(dim) is not int:
        raise ValueError("the dimension along which a list is put together is not known")
    if node.kind == "aten::stack":
        return call(place, "aten::select", of, dim, index).value
    total, count = call(place, "aten::size", of, dim), Sym(place, work.backward.local(scope.count))
    length = call(place, "aten::floordiv", total, count)
    first = call(place, "aten::mul", index, length)
    return call(place, "aten::narrow", of, dim, first, length).value


# -- loops


def differentiate_loop(work: DifferentiationWork, loop: Loop) -> None:
    """Hand the gradients of what a loop gives on to what it takes."""
    place = work.backward
    carried = {i: c for i, c in enumerate(loop.carried) if work.sources.get(c.result)}
    known = [work.tensor_grad(c.result) for c in carried.values()]
    grown = [whole for list_, (_, whole) in work.grown.items() if _is_appended_in(list_, loop)]
    given = [*(g for g in known if g is not None), *grown]
    if not given:
        return
    _count_iterations(loop)
    starts = []
    for each, grad in zip(carried.values(), known, strict=True):
        if grad is None:
            starts.append(zeros(place, work.alongside, each.start, given[0]))
            place.present[starts[-1]] = place.constant(False)
        else:
            starts.append(place.with_presence(_contiguous(work, grad), grad))
    _Backwards(work, loop, carried, starts, given[0]).run()


def _is_appended_in(value: Value, loop: Loop) -> bool:
    append = append_to(value)
    return append is not None and append.block is loop.body


def _contiguous(work: DifferentiationWork, grad: Value) -> Value:
    """A gradient in memory of its own, as those that the loop carries later are."""
    return call(work.backward, "aten::contiguous", Sym(work.backward, grad)).value


def _count_iterations(loop: Loop) -> None:
    """Have a loop that may end before its time say how often it ran: it is the last thing that it gives."""
    if not loop.has_condition:
        return
    node, graph = loop.node, loop.node.graph
    with graph.inserting_before(node):
        node.add_input(graph.insert_constant(0))
    count = loop.body.add_input(T.INT)
    with graph.inserting_at_end(loop.body):
        one = graph.insert_constant(1)
        loop.body.add_output(graph.insert("aten::add", (count, one), (T.INT,)).output)
    node.add_output(T.INT)


class _Backwards:
    """Writes the loop that runs the iterations backwards."""

    def __init__(
        self, work: DifferentiationWork, loop: Loop, carried: dict[int, Carried], starts: list[Value], like: Value
    ) -> None:
        self.work, self.loop, self.carried, self.positions = work, loop, list(carried.values()), list(carried)
        self.outer = work.backward.scope
        df = work.df
        count = loop.results[-1] if loop.has_condition else loop.max_iterations
        inputs = (work.backward.local(count), work.backward.constant(True), *starts)
        self.node = df.insert("prim::Loop", inputs, [without_sizes(c.result.type) for c in self.carried])
        self.body = self.node.add_block()
        number = self.body.add_input(T.INT)
        self.given = [self.body.add_input(without_sizes(c.result.type)) for c in self.carried]
        with df.inserting_at_end(self.body):
            last = df.insert("aten::sub", (inputs[0], work.backward.constant(1)), (T.INT,)).output
            index = df.insert("aten::sub", (last, number), (T.INT,)).output
        self.scope = LoopScope(loop, self.outer, work.backward, work.alongside, index, count, like)
        self.bools: list[Value | None] = [self._bool(i, s) for i, s in zip(self.positions, starts, strict=True)]
        """For each gradient that is carried, whether it is there; None for those that are in any case."""

    def _bool(self, position: int, start: Value) -> Value | None:
        """Is the gradient there that an iteration is given?"""
        place = self.work.backward
        present = place.present.get(start)
        if present is None and self.work.doubtful.key(self.loop, position) not in self.work.doubtful.found:
            return None
        self.node.add_input(present or place.constant(True))
        return self.body.add_input(T.BOOL)

    def run(self) -> None:
        work, scope, df = self.work, self.scope, self.work.df
        work.backward.scope = scope
        with df.inserting_at_end(self.body):
            for each, grad, there in zip(self.carried, self.given, self.bools, strict=True):
                if there is not None:
                    work.backward.present[grad] = there
                work.add(each.following, grad)
            for node in reversed(list(self.loop.body.nodes)):
                work.visit(node)
            following = [self._grad_of(c.parameter, grad) for c, grad in zip(self.carried, self.given, strict=True)]
            scope.add_late()
        for value, whole in scope.kept.items():
            work.sources[whole] = work.sources.get(value, set())
        work.backward.scope = self.outer
        self.body.add_output(work.backward.constant(True))
        for value in following:
            self.body.add_output(value)
        self._hand_on_bools(following)
        self._hand_on_presence_of_totals()
        for each, grad in zip(self.carried, list(self.node.outputs), strict=False):
            if work.sources.get(each.start):
                work.add(each.start, grad)
        for value, total in self.scope.totals.items():
            work.add(value, total)

    def _grad_of(self, parameter: Value, given: Value) -> Value:
        """The gradient of what an iteration starts with, given that of what the next one starts with."""
        found = self.scope.tensor_grad(parameter)
        if found is not None:
            return self.work.with_slot(parameter, found)
        place = self.work.backward
        made = call(place, "aten::zeros_like", Sym(place, given)).value
        place.present[made] = place.constant(False)
        return made

    def _hand_on_bools(self, following: Sequence[Value]) -> None:
        """Carry on whether gradients are there."""
        place, doubtful = self.work.backward, self.work.doubtful
        for i, grad in enumerate(following):
            present = place.present.get(grad)
            if self.bools[i] is not None:
                self.body.add_output(present or place.constant(True))
                place.present[self.node.outputs[i]] = self.node.add_output(T.BOOL)
            elif present is not None:
                doubtful.found.add(doubtful.key(self.loop, self.positions[i]))

    def _hand_on_presence_of_totals(self) -> None:
        """Carry whether iterations have added something to totals, where it is not certain that they do."""
        place = self.work.backward
        for value, bools in self.scope.presence.items():
            if bools is not None:
                self.node.add_input(place.constant(False))
                before = self.body.add_input(T.BOOL)
                with place.graph.inserting_at_end(self.body):
                    found = place.any_of([before, *bools])
                assert found is not None
                self.body.add_output(found)
                place.present[self.scope.totals[value]] = self.node.add_output(T.BOOL)


def takes_part(scope: GradientScope, node: Node) -> LoopScope | None:
    """The loop from whose outside a node takes a part; None where it takes none."""
    return scope.loop_around(node.inputs[0]) if node.kind in ("aten::select", "aten::slice") else None
