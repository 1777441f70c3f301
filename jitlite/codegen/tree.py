"""Programs as statements and expressions: what `structured.py` makes of graphs, and what text is written from.

    graph(%x : Tensor, %n : int):                    ForLoop(i, Range(Name(n)), [
      %1 : bool = prim::Constant[value=1]()            AssignVariable(x, Operation(aten::add, [Name(x), Name(i)]))])
      %y : Tensor = prim::Loop(%n, %1, %x)      =>   ReturnValues([Name(x)])
        block0(%i : int, %p : Tensor):
          %q : Tensor = aten::add(%p, %i)
          -> (%1, %q)
      return (%y)

Layout is decided here once: what is written within what, which values share a variable, what becomes of loops and
branches. How an operation, a constant or a name is spelled is left to the writers. Every statement and operation has
the place in the user's source that it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from jitlite.base.records import Record
from jitlite.codegen.region_calls import RegionCall
from jitlite.codegen.variables import Variable
from jitlite.interpreter.code import CodePlace
from jitlite.ir.graph import Node

# -- expressions


@dataclass(frozen=True, slots=True)
class Name:
    """The value of a variable."""

    variable: Variable


class Constant(Record):
    """A value that is known."""

    value: object


class Operation(Record):
    """What a node computes from its operands, which are evaluated first."""

    node: Node
    operands: tuple[Expression, ...]
    place: CodePlace


class Index(Record):
    """One element of a dimension."""

    value: Expression


class Slice(Record):
    """`start:stop:step`, without what is not said."""

    start: Expression | None
    stop: Expression | None
    step: Expression | None


class Rest(Record):
    """`...`: all dimensions that no other item stands for."""


class TensorSubscript(Record):
    """`base[items]`, of a tensor."""

    base: Expression
    items: tuple[Item, ...]
    place: CodePlace


class Not(Record):
    """The opposite of a bool."""

    operand: Expression


class Conditional(Record):
    """`then if condition else orelse`"""

    condition: Expression
    then: Expression
    orelse: Expression
    place: CodePlace


class Both(Record):
    """`first and second`, of bools."""

    first: Expression
    second: Expression
    place: CodePlace


class Either(Record):
    """`first or second`, of bools."""

    first: Expression
    second: Expression
    place: CodePlace


class Range(Record):
    """The ints that a `for` goes over: from `start` (0 if None) to `stop`, in steps of 1 if `step` is None."""

    stop: Expression
    start: Expression | None = None
    step: Expression | None = None


class EndlessRange(Record):
    """All ints from 0 on."""


Item: TypeAlias = Index | Slice | Rest
Expression: TypeAlias = Name | Constant | Operation | TensorSubscript | Not | Conditional | Both | Either
Iterations: TypeAlias = Range | EndlessRange | Name

# -- statements


class StatementWriter(Protocol):
    """What writes statements: a method for each form, which `accept` of the statement calls."""

    def assign(self, statement: AssignVariable) -> None: ...
    def exchange(self, statement: Exchange) -> None: ...
    def unpack(self, statement: Unpack) -> None: ...
    def evaluate(self, statement: Evaluate) -> None: ...
    def perform(self, statement: Perform) -> None: ...
    def delete(self, statement: DeleteVariables) -> None: ...
    def if_(self, statement: IfBlock) -> None: ...
    def while_(self, statement: WhileLoop) -> None: ...
    def for_(self, statement: ForLoop) -> None: ...
    def try_(self, statement: TryBlock) -> None: ...
    def with_(self, statement: WithBlock) -> None: ...
    def region(self, statement: GuardedRegion) -> None: ...
    def break_(self, statement: LeaveLoop) -> None: ...
    def return_(self, statement: ReturnValues) -> None: ...


class AssignVariable(Record):
    """`target = value`"""

    place: CodePlace | None
    target: Variable
    value: Expression | Iterations

    def accept(self, writer: StatementWriter) -> None:
        writer.assign(self)


class Exchange(Record):
    """`a, b = b, a`: variables that take over each other's values, at once."""

    place: CodePlace | None
    targets: tuple[Variable, ...]
    values: tuple[Expression, ...]

    def accept(self, writer: StatementWriter) -> None:
        writer.exchange(self)


class Unpack(Record):
    """`a, b = value`: the elements of a sequence; None for one that nothing reads, where the rules allow to skip it."""

    place: CodePlace | None
    targets: tuple[Variable | None, ...]
    value: Expression

    def accept(self, writer: StatementWriter) -> None:
        writer.unpack(self)


class Evaluate(Record):
    """An expression that is evaluated for its effects."""

    place: CodePlace | None
    value: Expression

    def accept(self, writer: StatementWriter) -> None:
        writer.evaluate(self)


class Perform(Record):
    """An operation that is a statement of its own; `target` is what becomes of its result, if anything reads it."""

    place: CodePlace | None
    operation: Operation
    target: Variable | None

    def accept(self, writer: StatementWriter) -> None:
        writer.perform(self)


class DeleteVariables(Record):
    """Variables that may keep much memory alive and that nothing reads any more."""

    place: CodePlace | None
    variables: tuple[Variable, ...]

    def accept(self, writer: StatementWriter) -> None:
        writer.delete(self)


class IfBlock(Record):
    """`then` is never empty, `orelse` may be."""

    place: CodePlace | None
    condition: Expression
    then: Body
    orelse: Body

    def accept(self, writer: StatementWriter) -> None:
        writer.if_(self)


class WhileLoop(Record):
    """A loop as long as a condition holds; without one, until it is left."""

    place: CodePlace | None
    condition: Expression | None
    body: Body

    def accept(self, writer: StatementWriter) -> None:
        writer.while_(self)


class ForLoop(Record):
    """A loop over ints; with a condition, it is left before the iteration at whose start that does not hold."""

    place: CodePlace | None
    target: Variable | None
    iterations: Iterations
    condition: Expression | None
    body: Body

    def accept(self, writer: StatementWriter) -> None:
        writer.for_(self)


class TryBlock(Record):
    """`handler` runs if anything is raised in the body; `error` is what was."""

    place: CodePlace | None
    body: Body
    error: Variable
    handler: Body

    def accept(self, writer: StatementWriter) -> None:
        writer.try_(self)


class WithBlock(Record):
    """`with manager as target`"""

    place: CodePlace | None
    manager: Expression
    target: Variable | None
    body: Body

    def accept(self, writer: StatementWriter) -> None:
        writer.with_(self)


class GuardedRegion(Record):
    """A call of what may run a region; the body is what runs where it cannot.

    A target is None for a value that nobody reads or that is not computed in the region.
    """

    place: CodePlace | None
    call: RegionCall
    inputs: tuple[Name | Constant, ...]
    targets: tuple[Variable | None, ...]
    body: Body

    def accept(self, writer: StatementWriter) -> None:
        writer.region(self)


class LeaveLoop(Record):
    """The innermost loop is left."""

    place: CodePlace | None

    def accept(self, writer: StatementWriter) -> None:
        writer.break_(self)


class ReturnValues(Record):
    """The results of the function."""

    place: CodePlace | None
    values: tuple[Expression, ...]

    def accept(self, writer: StatementWriter) -> None:
        writer.return_(self)


Simple: TypeAlias = AssignVariable | Exchange | Unpack | Evaluate | Perform | DeleteVariables | LeaveLoop | ReturnValues
Compound: TypeAlias = IfBlock | WhileLoop | ForLoop | TryBlock | WithBlock | GuardedRegion
Statement: TypeAlias = Simple | Compound
Body: TypeAlias = tuple[Statement, ...]


class StructuredFunction(Record):
    """A function.

    Attributes:
        parameters: its variables, one for each input of the graph.
        unread: those of them that nothing reads.
        body: its statements; the last one returns.
        temporaries: variables of which the graph knows nothing. Their names are wishes.
    """

    parameters: tuple[Variable, ...]
    unread: tuple[Variable, ...]
    body: Body
    temporaries: tuple[Variable, ...]
