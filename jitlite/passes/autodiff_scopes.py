"""Where gradients are computed: for each block of a graph `f` under differentiation, a place in the graph `df`.

    f:  loop(%t, %h):                                  df:  loop(%j, %dh):
          %a = tanh(%h)                                       %t = n - 1 - %j
          keep(%kept, %a)            # a list                 %a = select(%all, 0, %t)   # all of them, put together
          -> %a                                               -> tanh_backward(%dh, %a)

What a formula uses of a block is *captured* there. At the top it becomes an input of `df`. In a loop, `f` keeps it in
each iteration, and `df`, which runs the iterations backwards, takes the one of its iteration. What can be computed
again from what is known outside the loop and from the number of the iteration (views, arithmetic on numbers) is. A
number that cannot be is kept in a tensor of one element. Sizes are taken to be the same in all iterations; who runs `f`
must see to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Block, Graph, Node, Value, is_constant
from jitlite.ir.ops import Effect
from jitlite.ir.structure import Loop
from jitlite.ir.traits import Trait
from jitlite.ir.value_keys import value_key
from jitlite.operators.prims import OVER_RANGE
from jitlite.passes.rules.formula import Alongside, FormulaPlace, Sym, call

_NUMBERS = (T.INT, T.FLOAT, T.BOOL)


class GradientScope:
    """A block of `f`, and the place in `df` for its gradients.

    Attributes:
        block: of f.
        outer: the scope of the block around it.
        grads: of each value of the block, what is known of its gradient: a list for a list of tensors.
        captured: what `df` uses of the block's values.
    """

    def __init__(self, block: Block, outer: GradientScope | None) -> None:
        self.block = block
        self.outer = outer
        self.grads: dict[Value, Value | list[Value | None]] = {}
        self.captured: dict[Value, Value] = {}

    def holds(self, value: Value) -> bool:
        return value.node.block is self.block

    def local(self, value: Value) -> Value:
        """A value of `f`, here or around here, as one of `df`."""
        if not self.holds(value):
            assert self.outer is not None, "a value of an inner block is used outside"
            return self.outer.local(value)
        if value not in self.captured:
            self.captured[value] = self.capture(value)
        return self.captured[value]

    def capture(self, value: Value) -> Value:
        """Have a value of this block in `df`."""
        raise NotImplementedError

    def late(self, value: Value) -> Value:
        """The gradient that a captured value has of its own where `df` is differentiated, None else."""
        raise NotImplementedError

    def tensor_grad(self, value: Value) -> Value | None:
        found = self.grads.get(value)
        return found if isinstance(found, Value) else None

    def loop_around(self, value: Value) -> LoopScope | None:
        """The loop here or around here whose body a value is outside of; the innermost one, None if there is none."""
        return None

    def add_outside(self, value: Value, grad: Value) -> None:
        """Add a contribution to the gradient of a value from outside."""
        raise NotImplementedError

    def note_total(self, loop: LoopScope, value: Value, present: Value | None) -> None:
        """Note that something has been added to a total of a loop.

        Args:
            loop: here or around here.
            value: whose gradient the total is.
            present: see `Backward.present`.
        """
        raise NotImplementedError


class Top(GradientScope):
    """All of `f`: what is captured is an input of `df`."""

    def __init__(self, f: Graph, df: Graph) -> None:
        super().__init__(f.block, None)
        self.df = df
        self.lates: dict[Value, Value] = {}
        """The inputs that are gradients of what is captured, and have been asked for."""

    def capture(self, value: Value) -> Value:
        return self.df.add_input().copy_metadata(value)

    def late(self, value: Value) -> Value:
        if value not in self.lates:
            self.lates[value] = self.df.add_input()
        return self.lates[value]


class Backward(FormulaPlace):
    """The graph of gradients: captures what it uses of the graph it is for.

    Attributes:
        scope: that of the block whose nodes are being differentiated.
        present: for a gradient that stands for one which may not be there, with zeros then, a bool: is it there?
    """

    def __init__(self, f: Graph) -> None:
        super().__init__(Graph())
        self.top = Top(f, self.graph)
        self.scope: GradientScope = self.top
        self.present: dict[Value, Value] = {}
        self._constants: dict[object, Value] = {}

    def local(self, value: Value) -> Value:
        if value.node.graph is self.graph:
            return value
        if is_constant(value):
            return self.constant(value.node.attributes.get("value"), value.type)
        return self.scope.local(value)

    def constant(self, value: object, type: T.Type | None = None) -> Value:
        key = (value_key(value), type)
        if key not in self._constants:
            node = self.graph.create_constant(value, type)
            self._constants[key] = self.graph.block.prepend(node).output
        return self._constants[key]

    def with_presence(self, grad: Value, *others: Value | None) -> Value:
        """A gradient, which is there where one of the others is."""
        if grad not in self.present:
            present = self.any_present([g for g in others if g is not None])
            if present is not None:
                self.present[grad] = present
        return grad

    def any_present(self, grads: Sequence[Value]) -> Value | None:
        """Is one of these gradients there? None if that is certain."""
        found = [self.present.get(g) for g in grads]
        some = dict.fromkeys(p for p in found if p is not None)
        return None if None in found else self.any_of(list(some))

    def any_of(self, bools: Sequence[Value]) -> Value | None:
        """Is one of these true? None if there are none."""
        total = None if not bools else bools[0]
        for each in bools[1:]:
            total = self.graph.insert("aten::__or__", (total or each, each), (T.BOOL,)).output
        return total


class InnerScope(GradientScope):
    """A block within another one of `f`.

    Attributes:
        slots: for each tensor of the block that has a gradient, the node that adds the late one to it.
        kept: for each value that `f` keeps, what there is of it around the block.
    """

    def __init__(self, block: Block, outer: GradientScope, backward: Backward, first: Node) -> None:
        """`first` is the node of `df` behind which what is captured is put."""
        super().__init__(block, outer)
        self.backward = backward
        self.slots: dict[Value, Node] = {}
        self.kept: dict[Value, Value] = {}
        self._latest = first

    def at_start(self, make: Callable[[], Value]) -> Value:
        """Insert nodes behind what has been captured before, where the block of `df` starts."""
        df = self.backward.graph
        following = self._latest._next
        assert following is not None
        with df.inserting_before(following):
            found = make()
            assert following._prev is not None
            self._latest = following._prev
        return found

    def again(self, value: Value) -> Value:
        """Compute a value in `df` once more."""
        node = value.node
        values = {v: self.backward.local(v) for v in node.inputs}
        df = self.backward.graph

        def make() -> Value:
            clone = df.clone_node(node, values).insert_before(df.insert_point)
            return clone.outputs[value.offset]

        return self.at_start(make)

    def add_late(self) -> None:
        """Add the gradients that kept values have of their own to those that the formulas give."""
        for value, node in self.slots.items():
            if value in self.kept:
                node.replace_input(0, self.late(value))


class LoopScope(InnerScope):
    """The body of a loop.

    Attributes:
        loop: of f.
        index: the number of the iteration, in `df`.
        count: how many there are, in `f`.
        totals: the gradients of values from outside: what iterations contribute is summed up in them, around the loop.
    """

    def __init__(
        self,
        loop: Loop,
        outer: GradientScope,
        backward: Backward,
        alongside: Alongside,
        index: Value,
        count: Value,
        like: Value,
    ) -> None:
        super().__init__(loop.body, outer, backward, index.node)
        self.loop = loop
        self.index, self.count = index, count
        self.f, self.alongside = loop.node.graph, alongside
        self.totals: dict[Value, Value] = {}
        self.presence: dict[Value, list[Value] | None] = {}
        """For each total, what says that an iteration adds to it; None if each one does."""
        self._like = like

    # -- what df has of the body
    def capture(self, value: Value) -> Value:
        if value is self.loop.index:
            return self._number()
        if self._is_known(value):
            return self.again(value)
        if isinstance(value.type, T.TensorType):
            return self.at_start(lambda: self._element(value))
        return self.at_start(lambda: self._read(value)) if value.type in _NUMBERS else self._last(value)

    def _number(self) -> Value:
        """What the loop calls its index: the number of the iteration, or an element of a range."""
        if not self.loop.node.attributes.get(OVER_RANGE):
            return self.index
        assert self.outer is not None
        start, _, step = (self.backward.local(v) for v in self.loop.max_iterations.node.inputs)
        df = self.backward.graph

        def make() -> Value:
            moved = df.insert("aten::mul", (self.index, step), (T.INT,)).output
            return df.insert("aten::add", (start, moved), (T.INT,)).output

        return self.at_start(make)

    def _is_known(self, value: Value) -> bool:
        """Can a value be computed again from what is known without the body?"""
        if is_constant(value) or not self.holds(value) or value is self.loop.index:
            return True
        node = value.node
        if node is self.block.param_node or node.blocks or node.op is None:
            return False
        is_number = all(v.type in _NUMBERS for v in (*node.inputs, *node.outputs))
        costs_nothing = node.has(Trait.PLAIN_VIEW) or node.kind == "aten::size"
        if not costs_nothing and not (is_number and node.op.effect is Effect.PURE):
            return False
        return all(map(self._is_known, node.inputs))

    # -- what f keeps
    def _element(self, value: Value) -> Value:
        assert self.outer is not None
        whole = self.outer.local(self._whole(value))
        place = self.backward
        found = call(place, "aten::select", Sym(place, whole), 0, Sym(place, self.index)).value
        found.type = value.type
        return found

    def _read(self, value: Value) -> Value:
        """A number that each iteration computes, which is kept in a tensor."""
        dtype = torch.int64 if value.type is T.INT else torch.bool if value.type is T.BOOL else torch.float64
        following = value.node._next
        assert following is not None
        with self.f.inserting_before(following):
            place = FormulaPlace(self.f)
            number = self.f.insert("aten::Int", (value,), (T.INT,)).output if value.type is T.BOOL else value
            no_sizes = Sym(place, self.f.insert_constant([], T.ListType.of(T.INT)))
            held = call(place, "aten::full", no_sizes, Sym(place, number), dtype=dtype).value
            held.type = T.TensorType.of(dtype, ())
        kind = f"aten::{str(value.type).capitalize()}"
        return self.backward.graph.insert(kind, (self._element(held),), (value.type,)).output

    def _whole(self, value: Value) -> Value:
        """All that a value was in the iterations, put together in `f` behind the loop."""
        if value not in self.kept:
            f, node = self.f, self.loop.node
            with f.inserting_before(node):
                kept = f.insert("prim::ListConstruct", (), (T.ListType.of(T.TENSOR),)).output
            following = value.node._next
            assert following is not None
            with f.inserting_before(following):
                f.insert("prim::AutogradKeep", (kept, value), (kept.type,))
            assert node._next is not None
            with f.inserting_before(node._next):
                whole = f.insert("prim::AutogradKept", (kept,), (_of_all(value.type),)).output
            self.kept[value] = whole
        return self.kept[value]

    def _last(self, value: Value) -> Value:
        """A value that is taken to be the same in all iterations: what it was in the last one."""
        t = T.without_none(value.type)
        if not isinstance(t, T.ListType) or t.element is not T.INT:
            raise ValueError(f"a gradient in a loop needs %{value.name} : {value.type}, which each iteration computes")
        assert self.outer is not None
        f, node = self.f, self.loop.node
        with f.inserting_before(node):
            start = f.insert_constant(None, T.NONE) if T.may_be_none(value.type) else f.insert_constant([], t)
        node.add_input(start)
        self.block.add_input(value.type)
        self.block.add_output(value)
        return self.outer.local(node.add_output(value.type))

    # -- gradients of what is kept
    def late(self, value: Value) -> Value:
        assert self.outer is not None
        outer = self.outer.late(self._whole(value))
        df = self.backward.graph

        def make() -> Value:
            node = df.insert("prim::GradOf", (outer,), (), {"name": "prim::AutogradKept"})
            with df.inserting_at_end(node.add_block()):
                place = self.backward
                part = call(place, "aten::select", Sym(place, outer), 0, Sym(place, self.index))
            node.blocks[0].add_output(part.value)
            return node.add_output()

        return self.at_start(make)

    # -- gradients of what comes from outside
    def loop_around(self, value: Value) -> LoopScope | None:
        return None if self.holds(value) else self

    def total_of(self, value: Value) -> Value:
        """The sum of the contributions to the gradient of a value from outside, which starts with zeros."""
        if value not in self.totals:
            loop = self.index.node.block.owner if self.index.node.block else None
            assert loop is not None and self.outer is not None
            scope, self.backward.scope = self.backward.scope, self.outer
            with self.backward.graph.inserting_before(loop):
                self.totals[value] = zeros(self.backward, self.alongside, value, self._like)
            self.backward.scope = scope
        return self.totals[value]

    def add_outside(self, value: Value, grad: Value) -> None:
        place = self.backward
        call(place, "aten::add_", Sym(place, self.total_of(value)), Sym(place, grad))
        place.scope.note_total(self, value, place.present.get(grad))

    def add_part(self, node: Node, grad: Value) -> None:
        """Add a contribution to the gradient of a part of a value from outside.

        Args:
            node: what takes the part.
            grad: the gradient of the part.
        """
        place = self.backward
        value, *where = node.inputs
        part = call(place, node.kind, Sym(place, self.total_of(value)), *(Sym(place, v) for v in where))
        call(place, "aten::add_", part, Sym(place, grad))
        place.scope.note_total(self, value, place.present.get(grad))

    def note_total(self, loop: LoopScope, value: Value, present: Value | None) -> None:
        assert loop is self, "what is added here is a total of this loop"
        known = self.presence.setdefault(value, [])
        if present is None or known is None:
            self.presence[value] = None
        else:
            known.append(present)


def zeros(backward: Backward, alongside: Alongside, value: Value, like: Value) -> Value:
    """A gradient of zeros for a value of `f`, in `df`.

    Args:
        backward: `df`, at the block of the value or one within it.
        alongside: computes the size of the value.
        value: what the gradient is for.
        like: another gradient, which is where this one is to be.

    Raises:
        ValueError: its dtype is not known.
    """
    t = value.type
    if not isinstance(t, T.TensorType) or t.dtype is None:
        raise ValueError(f"the dtype of %{value.name}, which has a gradient in a loop, is not known")
    size = call(alongside, "aten::size", Sym(alongside, value))
    found = call(backward, "aten::new_zeros", Sym(backward, like), Sym(backward, size.value), dtype=t.dtype).value
    found.type = without_sizes(t)
    return found


def without_sizes(t: T.Type) -> T.Type:
    """The type of tensors of this dtype and device."""
    return T.TensorType.of(t.dtype, None, None, t.device) if isinstance(t, T.TensorType) else t


def _of_all(t: T.Type) -> T.Type:
    """The type of tensors of this one, put together along a new first dimension."""
    if not isinstance(t, T.TensorType) or t.sizes is None:
        return without_sizes(t)
    return T.TensorType.of(t.dtype, [None] * (len(t.sizes) + 1), None, t.device)
