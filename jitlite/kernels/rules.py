"""Which operators on tensors kernels are made of: one line each, in the table `RULES`.

A rule is given a `Call` and gives the result: a `TensorValue`, a number, or a list for operators with several results.
It raises `NotNative` where the operator, for such operands, is left to Python. The rules are in `pointwise.py`,
`views.py` and others beside them, which put them into the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jitlite.ir import types as T
from jitlite.ir.graph import Node, Use
from jitlite.ir.graph import Value as GraphValue
from jitlite.kernels.building import KernelBuilder
from jitlite.kernels.loop_ir import DType, Lane, LaneCast, Operand, Scalar
from jitlite.kernels.narrow_types import Narrow, Widening, refuse_narrow, widening_for
from jitlite.kernels.values import TensorValue, Value
from jitlite.kernels.vectors import rounded
from jitlite.native.code import NotNative

Rule = Callable[["Call"], Value]

RULES: dict[str, Rule] = {}
"""By the kind of the node."""

VIEWS: set[str] = set()
"""The kinds of nodes whose results may share memory with their first input, and that do nothing else."""

WRITES: set[str] = set()
"""The kinds of nodes that write their first input."""


OF_SIZES: set[str] = set()
"""The kinds of nodes that take lists of sizes whose elements are known."""

MAY_COPY: set[str] = set()
"""Those views whose results may be copies: they cannot be made later than a write to what they are made of."""

NARROW: dict[str, Narrow] = {}
"""What each kind of node does with elements of narrow types."""


def rule(
    *kinds: str,
    view: bool = False,
    may_copy: bool = False,
    writes: bool = False,
    of_sizes: bool = False,
    narrow: Narrow = Narrow.WIDE,
) -> Callable[[Rule], Rule]:
    """Say how operators are lowered.

    Args:
        kinds: of the nodes.
        view: may the result share memory with the first input, and is nothing else done?
        may_copy: may it be a copy?
        writes: is the first input written?
        narrow: what is done with elements of narrow types; views and what writes see them as they are.
        of_sizes: may it take nothing but lists of sizes?
    """

    def put(made: Rule) -> Rule:
        for kind in kinds:
            assert kind not in RULES, f"{kind} has two rules"
            RULES[kind] = made
            NARROW[kind] = Narrow.AS_THEY_ARE if view or writes else narrow
        if view:
            VIEWS.update(kinds)
        if may_copy:
            MAY_COPY.update(kinds)
        if writes:
            WRITES.update(kinds)
        if of_sizes:
            OF_SIZES.update(kinds)
        return made

    return put


def aten(names: Iterable[str]) -> list[str]:
    """The kinds of nodes of operators by name."""
    return [f"aten::{name}" for name in names]


def is_tensor_node(node: Node) -> bool:
    """Does a node take or give tensors?"""
    return any(holds_tensors(v.type) for v in (*node.inputs, *node.outputs))


def holds_tensors(t: T.Type) -> bool:
    """Is it a tensor, one that may be None, or a list or tuple of them?"""
    t = T.without_none(t)
    if isinstance(t, T.ListType):
        return holds_tensors(t.element)
    if isinstance(t, T.TupleType):
        return any(map(holds_tensors, t.elements))
    return isinstance(t, T.TensorType)


def takes_sizes(node: Node) -> bool:
    """Does a node take lists of sizes and no tensors, of which one is that of a tensor or made of such?"""
    lists = [v for v in node.inputs if isinstance(v.type, T.ListType)]
    is_of_tensors = node.kind == "aten::_size_if_not_equal" or any(v.node.kind in RULES for v in lists)
    return node.kind in OF_SIZES and is_of_tensors and not is_tensor_node(node)


def is_dtype_argument(use: Use) -> bool:
    """Is it the dtype that an operator takes? It is a number in graphs, and an object in Python."""
    op = use.user.op
    return op is not None and use.user.kind in RULES and op.schema.arguments[use.offset].name == "dtype"


class Call:
    """An operator and its operands, by the names of its schema.

    Attributes:
        lowering: writes the kernel.
        node: the operator.
        widening: of its operands, None where they are as they are.
    """

    def __init__(self, lowering: KernelBuilder, node: Node) -> None:
        self.lowering = lowering
        self.node = node
        self.widening: Widening | None = None

    def apply(self, made: Rule, how: Narrow) -> Value:
        """The result of a rule; it computes with narrow types as the operator does."""
        tensors = [self.lowering.value(v) for v in self.node.inputs if holds_tensors(v.type)]
        self.widening = widening_for(self.lowering, self.node, how, tensors)
        if self.widening is None and how is not Narrow.AS_THEY_ARE and self.has("dtype"):
            refuse_narrow(self.node, self.lowering.value(self.node.named_input("dtype")))
        given = made(self)
        return given if self.widening is None else self.widening.result(given)

    @property
    def narrow(self) -> DType | None:
        """The narrow type that is computed with, if there is one."""
        return None if self.widening is None else self.widening.narrow

    def rounded(self, value: TensorValue) -> TensorValue:
        """What a step in between gives, where torch rounds it."""
        return value if self.widening is None else self.widening.rounded(value)

    def rounded_number(self, number: float) -> float:
        """The same of a number that is known."""
        return number if self.narrow is None else rounded(self.narrow, number)

    def rounded_lane(self, lane: Lane) -> Lane:
        """The same of a lane."""
        return lane if self.narrow is None else LaneCast(lane.dtype, LaneCast(self.narrow, lane))

    def value(self, value: GraphValue) -> Value:
        """What an operand is."""
        found = self.lowering.value(value)
        return found if self.widening is None else self.widening.operand(value, found)

    @property
    def name(self) -> str:
        """The name without `aten::`."""
        return self.node.kind.partition("::")[2]

    def has(self, name: str) -> bool:
        """Does this overload have an argument of the name?"""
        op = self.node.op
        return op is not None and op.schema.argument_index(name) is not None

    def get(self, name: str) -> Value:
        """The value of an argument."""
        found = self.value(self.node.named_input(name))
        return self.widening.dtype_code(found) if self.widening is not None and name == "dtype" else found

    def first(self) -> TensorValue:
        return self.as_tensor(self.value(self.node.inputs[0]))

    def at(self, position: int) -> Value:
        return self.value(self.node.inputs[position])

    def tensor(self, name: str) -> TensorValue:
        return self.as_tensor(self.get(name))

    def as_tensor(self, value: Value) -> TensorValue:
        if isinstance(value, TensorValue):
            return value
        raise NotNative(f"{self.node.kind} gets no tensor of which something is known")

    def element(self, name: str) -> TensorValue | Operand:
        """A tensor or a number."""
        found = self.get(name)
        if isinstance(found, TensorValue):
            return found
        if isinstance(found, Scalar | bool | int | float):
            is_behind = self.node.named_input(name) is not self.node.inputs[0]
            return found if self.widening is None else self.widening.number(found, is_behind=is_behind)
        raise NotNative(f"{self.node.kind} gets {found!r} for {name}")

    def number(self, name: str) -> Operand:
        found = self.get(name)
        if isinstance(found, Scalar | bool | int | float):
            if self.widening is not None:
                self.widening.check(found)
            return found
        raise NotNative(f"{self.node.kind} gets {found!r} for {name}")

    def optional_number(self, name: str) -> Operand | None:
        return None if self.get(name) is None else self.number(name)

    def numbers(self, name: str) -> list[Operand]:
        """A list of numbers whose length is known."""
        return self.as_numbers(self.get(name), name)

    def as_numbers(self, found: Value, name: str = "an operand") -> list[Operand]:
        if isinstance(found, bool | int | float):
            return [found]
        if isinstance(found, list) and all(isinstance(v, Scalar | bool | int | float) for v in found):
            return list(found)  # type: ignore[arg-type]
        raise NotNative(f"{self.node.kind} gets a list for {name} whose length is not known")

    def constant(self, name: str) -> Any:
        """A constant: a number, a string, None, or a list of them."""
        found = self.get(name)
        if isinstance(found, Scalar | TensorValue) or any(isinstance(v, Scalar) for v in _flat(found)):
            raise NotNative(f"{self.node.kind} gets a value for {name} that is no constant")
        return found

    def default(self, name: str, wanted: object) -> None:
        """Make sure that an argument, if there is one, is the constant that is expected."""
        if self.has(name) and self.constant(name) != wanted:
            raise NotNative(f"{self.node.kind} with {name} = {self.constant(name)!r}")

    def require_false(self, name: str, reason: str) -> None:
        """Go on only where a condition, if there is one, is false: while code is written or when it runs."""
        found = self.number(name) if self.has(name) else False
        if found is not False:
            self.lowering.check(self.lowering.index("not", found), reason)

    def defaults(self, *names: str) -> None:
        for name in names:
            self.default(name, None)

    def dim(self, name: str, rank: int) -> int:
        """A dimension that is known, counted from the first one."""
        found = self.constant(name)
        return normalized(found, rank)


def normalized(dim: object, rank: int) -> int:
    """A dimension, counted from the first one."""
    most = max(rank, 1)
    if type(dim) is not int or not -most <= dim < most:
        raise NotNative(f"dimension {dim!r} of {rank}")
    return dim % most


def _flat(value: Value) -> Iterator[Value]:
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
