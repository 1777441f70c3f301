"""From a graph to the statements and expressions of `tree.py`: the decisions that do not depend on how text is spelled.

Which operations are written within others is decided by `nesting.py`, which values share a variable by `variables.py`,
where variables are given up by `last_uses.py`. Here the statements are put together: what joins at the end of branches
and loops is copied, loops get a head, and what leaves a loop from within branches becomes a `break`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.base.records import Record
from jitlite.codegen.last_uses import last_uses
from jitlite.codegen.leaving import Leaving, last_if, position_in
from jitlite.codegen.nesting import DEEPEST, Nesting
from jitlite.codegen.range_loops import same_at_start
from jitlite.codegen.region_calls import RegionCall
from jitlite.codegen.subscripts import subscript
from jitlite.codegen.tree import (
    AssignVariable,
    Body,
    Both,
    Conditional,
    Constant,
    DeleteVariables,
    Either,
    EndlessRange,
    Evaluate,
    Exchange,
    Expression,
    ForLoop,
    GuardedRegion,
    IfBlock,
    Iterations,
    LeaveLoop,
    Name,
    Not,
    Operation,
    Perform,
    Range,
    ReturnValues,
    Statement,
    StructuredFunction,
    TryBlock,
    Unpack,
    WhileLoop,
    WithBlock,
)
from jitlite.codegen.variables import Variable, Variables
from jitlite.interpreter.code import CodePlace
from jitlite.ir import structure
from jitlite.ir import types as T
from jitlite.ir.code_text import private
from jitlite.ir.graph import Block, Graph, Node, Value, constant_of, is_constant
from jitlite.ir.structure import UNBOUNDED
from jitlite.ir.traits import Trait
from jitlite.ir.unit import passed_arguments
from jitlite.operators.prims import OVER_RANGE
from jitlite.operators.python_forms import CannotTranslate


class Rules(Record, eq=True):
    """What the language that is written allows.

    Attributes:
        is_expression: can the operation be written as an expression? (Not asked of nodes with blocks.)
        is_in_order: are its operands evaluated from first to last?
        is_statement: is it a statement of its own form, even where its result is read?
        deepest: how many operations may be within one another.
        forgets: are variables given up after their last use?
        forgets_parameters: those of the function too?
        has_with: are contexts entered and left by one statement?
        skips_unread: need elements that nothing reads no variable?
    """

    is_expression: Callable[[Node], bool]
    is_in_order: Callable[[Node], bool]
    is_statement: Callable[[Node], bool]
    deepest: int = DEEPEST
    forgets: bool = False
    forgets_parameters: bool = False
    has_with: bool = False
    skips_unread: bool = False


class Structure:
    """The decisions about one graph, and the tree that follows from them.

    Args:
        graph: what is written, with loops over ranges.
        calls: for each node of a region that something may run, the call before it.
    """

    def __init__(self, graph: Graph, rules: Rules, calls: Mapping[Node, RegionCall] | None = None) -> None:
        self.graph = graph
        self.rules = rules
        self.calls = calls or {}
        self.nesting = Nesting(graph, rules.is_expression, rules.is_in_order, rules.deepest, calls)
        errors = [structure.Try(n).error for n in graph.all_nodes() if n.kind == "prim::Try"]
        self.variables = Variables(graph, self.nesting.nested, self.nesting.conditional, errors)

    def function(self) -> StructuredFunction:
        """The tree.

        Raises:
            CannotTranslate: where the language has no such statement.
            NotSupportedError: where there is none for a reason that the user can change.
        """
        return _TreeBuilder(self).function()


class _TreeBuilder:
    """Puts the statements together."""

    def __init__(self, made: Structure) -> None:
        self.graph = made.graph
        self.rules = made.rules
        self.calls = made.calls
        self.nested = made.nesting.nested
        self.conditional = made.nesting.conditional
        self.whole = {*self.conditional, *self.calls}
        """Nodes that no loop is left from within."""
        self.nesting = made.nesting
        self.variables = made.variables
        self.temporaries: list[Variable] = []
        self.in_head: dict[Value, Value] = {}
        """While the head of a loop is written: what is carried on, and the values it becomes."""
        self.statements: list[Statement] = []
        """Of the block that is being written."""
        self.place: CodePlace | None = None
        """Of the statement that is being written."""
        self.last_uses = self._last_uses()

    def _last_uses(self) -> dict[Node, list[Value]]:
        if not self.rules.forgets:
            return {}
        return last_uses(self.graph, self.nesting, self.variables, of_parameters=self.rules.forgets_parameters)

    def function(self) -> StructuredFunction:
        self.block(self.graph.block)
        outputs = self.graph.outputs
        place = _place_of(outputs[0].node) if outputs else None
        self.add(ReturnValues(place, tuple(self.use(v) for v in outputs)))
        parameters = tuple(self.variables[v] for v in self.graph.inputs)
        unread = tuple(self.variables[v] for v in self.graph.inputs if not v.has_uses)
        return StructuredFunction(parameters, unread, tuple(self.statements), tuple(self.temporaries))

    def add(self, statement: Statement) -> None:
        self.statements.append(statement)

    @contextmanager
    def body(self) -> Iterator[list[Statement]]:
        """The statements that are added meanwhile are those of an inner block."""
        outer, self.statements = self.statements, []
        yield self.statements
        self.statements = outer

    def temporary(self, wanted: str) -> Variable:
        """A variable of which the graph knows nothing."""
        made = Variable([], name=private(wanted))
        self.temporaries.append(made)
        return made

    # -- expressions
    def use(self, value: Value) -> Expression:
        """How a value is written where it is used."""
        node = value.node
        if node.kind == "prim::Constant":
            return Constant(constant_of(value))
        if node in self.nested:
            return self.use(node.inputs[0]) if node.has(Trait.UNCHECKED) else self.computation(node)
        return Name(self.variables[self.in_head.get(value, value)])

    def computation(self, node: Node) -> Expression:
        """What a node computes."""
        if node in self.conditional:
            return self.choice(node)
        operation = self.operation(node)
        return subscript(operation) or operation

    def operation(self, node: Node) -> Operation:
        return Operation(node, tuple(map(self.use, passed_arguments(node))), _place_of(node))

    def choice(self, node: Node) -> Expression:
        """A `prim::If` that is an expression."""
        found, place = structure.If(node), _place_of(node)
        condition = self.use(node.input)
        then, orelse = found.then.outputs[0], found.orelse.outputs[0]
        is_bool = node.output.type is T.BOOL
        if is_bool and constant_of(orelse, None) is False:
            return Both(condition, self.use(then), place)
        if is_bool and constant_of(then, None) is True:
            return Either(condition, self.use(orelse), place)
        return Conditional(condition, self.use(then), self.use(orelse), place)

    # -- blocks
    def block(self, block: Block, last: Node | None = None, leaving: Leaving | None = None) -> None:
        """The statements of a block, without what becomes of its outputs.

        `last` is the `prim::If` at the end of it that may leave a loop.
        """
        nodes = [n for n in block.nodes if n.kind != "prim::Constant" and n not in self.nested]
        if last is None:
            self.sequence(nodes)
            return
        self.sequence(nodes[:-1])
        self.place = _place_of(last)
        self.branches(last, leaving)

    def sequence(self, nodes: Sequence[Node]) -> None:
        """The statements that nodes of one block are."""
        done = 0
        while done < len(nodes):
            node, start = nodes[done], done
            call = self.calls.get(node)
            done += 1
            if call is not None:
                while done < len(nodes) and self.calls.get(nodes[done]) is call:
                    done += 1
                self.region(call, nodes[start:done])
            elif node.kind == "prim::Enter" and self.rules.has_with:
                end = _end_of_context(nodes, start)
                done = end + 1
                self.with_(node, nodes[start + 1 : end])
            else:
                self.statement(node)

    def statement(self, node: Node) -> None:
        """The statement that a node is, with what comes before and after it."""
        self.place = _place_of(node)
        write = None if node in self.conditional else _STATEMENTS.get(node.kind)
        (write or _TreeBuilder.computed)(self, node)
        self.forget(self.last_uses.get(node, ()))

    def computed(self, node: Node) -> None:
        """A statement that is one operation."""
        if node not in self.conditional and self.rules.is_statement(node):
            target = self.variables[node.output] if node.outputs and node.output.has_uses else None
            self.add(Perform(self.place, self.operation(node), target))
            return
        value = self.computation(node)
        if len(node.outputs) > 1 or node.has(Trait.SPREADS):
            targets = [self.variables[v] for v in node.outputs if v.has_uses or len(node.outputs) > 1]
            self.add(Unpack(self.place, tuple(targets), value))
        elif not node.outputs or not node.output.has_uses:
            self.add(Evaluate(self.place, value))
        elif not (node.has(Trait.UNCHECKED) and self.use(node.input) == Name(self.variables[node.output])):
            self.add(AssignVariable(self.place, self.variables[node.output], value))

    def unpacked(self, node: Node) -> None:
        skips = self.rules.skips_unread
        targets = tuple(None if skips and not v.has_uses else self.variables[v] for v in node.outputs)
        self.add(Unpack(self.place, targets, self.use(node.input)))

    def forget(self, values: Sequence[Value]) -> None:
        if values:
            self.add(DeleteVariables(self.place, tuple(dict.fromkeys(self.variables[v] for v in values))))

    def region(self, call: RegionCall, nodes: Sequence[Node]) -> None:
        """A call of what runs the region, or else what follows."""
        place = self.place = _place_of(nodes[0])
        inputs = tuple(Constant(constant_of(v)) if is_constant(v) else Name(self.variables[v]) for v in call.inputs)
        targets = tuple(None if v is None else self.variables[v] for v in call.targets)
        with self.body() as body:
            for node in nodes:
                self.statement(node)
        self.add(GuardedRegion(place, call, inputs, targets, tuple(body)))

    def with_(self, node: Node, inside: Sequence[Node]) -> None:
        place = self.place = _place_of(node)
        target = self.variables[node.output] if node.outputs and node.output.has_uses else None
        manager = self.use(node.inputs[0])
        with self.body() as body:
            self.sequence(inside)
        self.add(WithBlock(place, manager, target, tuple(body)))

    # -- what joins
    def copy(self, targets: Sequence[Value], sources: Sequence[Value]) -> None:
        """Let variables take over values, all at once."""
        pairs = [(self.variables[t], self.use(s)) for t, s in zip(targets, sources, strict=True)]
        pending = {target: source for target, source in pairs if source != Name(target)}
        while pending:
            read = {source.variable for source in pending.values() if isinstance(source, Name)}
            free = next((target for target in pending if target not in read), None)
            if free is None:  # they change places
                self.add(Exchange(self.place, tuple(pending), tuple(pending.values())))
                return
            self.add(AssignVariable(self.place, free, pending.pop(free)))

    # -- branches
    def if_(self, node: Node) -> None:
        self.branches(node, None)

    def branches(self, node: Node, leaving: Leaving | None) -> None:
        """A `prim::If`. What follows a branch that leaves the loop is not indented."""
        condition, place = self.use(node.input), self.place
        then, orelse = (self.branch(node, block, leaving) for block in node.blocks)
        if then and isinstance(then[-1], LeaveLoop):
            self.statements += [IfBlock(place, condition, then, ()), *orelse]
        elif then:
            self.add(IfBlock(place, condition, then, orelse))
        elif orelse:
            self.add(IfBlock(place, Not(condition), orelse, ()))
        elif node.input.node in self.nested:
            self.add(Evaluate(place, condition))

    def branch(self, node: Node, block: Block, leaving: Leaving | None = None) -> Body:
        """The statements of a branch, and what becomes of its outputs."""

        def take_over() -> None:
            pairs = [(o, v) for o, v in zip(node.outputs, block.outputs, strict=True) if o.has_uses]
            if leaving is not None:
                del pairs[[o for o, _ in pairs].index(node.outputs[leaving.position])]
            self.copy([o for o, _ in pairs], [v for _, v in pairs])

        inner = None if leaving is None else last_if(block, block.outputs[leaving.position], self.whole)
        with self.body() as body:
            if leaving is None or inner is None:
                self.block(block)
            else:
                self.block(block, inner, Leaving(position_in(inner, block, leaving), (take_over, *leaving.on_the_way)))
            self.place = _place_of(node)
            take_over()
            if leaving is not None and inner is None:
                self.leave(block.outputs[leaving.position], leaving)
        return tuple(body)

    def leave(self, goes_on: Value, leaving: Leaving) -> None:
        """Leave the loop unless it goes on."""
        known = constant_of(goes_on, None)
        if known is True:
            return
        with self.body() as body:
            for step in leaving.on_the_way:
                step()
            self.add(LeaveLoop(self.place))
        if known is False:
            self.statements += body
        else:
            self.add(IfBlock(self.place, Not(self.use(goes_on)), tuple(body), ()))

    def try_(self, node: Node) -> None:
        found, place = structure.Try(node), self.place
        body, handler = (self.branch(node, block) for block in node.blocks)
        self.add(TryBlock(place, body, self.variables[found.error], handler))

    # -- loops
    def loop(self, node: Node) -> None:
        loop = structure.Loop(node)
        last = None
        if constant_of(loop.start_condition, None) is True:
            last = last_if(loop.body, loop.condition, self.whole)
        if last is not None:
            self.loop_left_inside(loop, last)
        elif not loop.has_condition:
            self.loop_with(loop, None)
        elif self.repeats(loop):
            self.in_head = {c.following: c.parameter for c in loop.carried if not is_constant(c.following)}
            condition = self.use(loop.condition)
            self.in_head = {}
            self.loop_with(loop, condition)
        else:
            goes_on = self.temporary("goes_on")
            self.add(AssignVariable(self.place, goes_on, self.use(loop.start_condition)))
            self.loop_with(loop, Name(goes_on), goes_on)

    def repeats(self, loop: structure.Loop) -> bool:
        """Is the first condition of a loop the one computed at the end of its body, of the values it starts with?"""
        if loop.condition.node not in self.nested:
            return False
        # a constant is written as it is, whatever the loop starts with
        start = {c.following: c.start for c in loop.carried if not is_constant(c.following)}
        return same_at_start(loop.start_condition, loop.condition, start, loop.body, self.nested)

    def loop_left_inside(self, loop: structure.Loop, last: Node) -> None:
        """A loop whose last statement decides whether to leave it."""

        def carry() -> None:
            self.copy(loop.parameters, loop.followings)

        finish = self.head(loop, None)
        with self.body() as body:
            self.block(loop.body, last, Leaving(last.outputs.index(loop.condition), (carry,)))
            self.place = _place_of(loop.node)
            carry()
        finish(tuple(body))

    def loop_with(self, loop: structure.Loop, condition: Expression | None, again: Variable | None = None) -> None:
        """A loop with this condition, and the variable that holds it, if one does."""
        finish = self.head(loop, condition)
        with self.body() as body:
            self.block(loop.body)
            self.place = _place_of(loop.node)
            if again is not None:
                self.add(AssignVariable(self.place, again, self.use(loop.condition)))
            self.copy(loop.parameters, loop.followings)
        finish(tuple(body))

    def head(self, loop: structure.Loop, condition: Expression | None) -> Callable[[Body], None]:
        """What comes before a loop. What its head reads is put aside if the first values of the loop overwrite it.

        Returns:
            what adds the loop itself, of its body.
        """
        count, counter, place = loop.max_iterations, loop.index, self.place
        is_endless = is_constant(count) and constant_of(count) >= UNBOUNDED
        if is_endless and not counter.has_uses:
            self.copy(loop.parameters, loop.starts)
            return lambda body: self.add(WhileLoop(place, condition, body))
        iterations: Iterations = EndlessRange() if is_endless else self.range(loop)
        overwritten = {self.variables[v] for v in loop.parameters}
        if not overwritten.isdisjoint(self.variables[v] for v in self.variables.read_in(count)):
            aside = self.temporary("iterations")
            self.add(AssignVariable(place, aside, iterations))
            iterations = Name(aside)
        self.copy(loop.parameters, loop.starts)
        target = self.variables[counter] if counter.has_uses else None
        return lambda body: self.add(ForLoop(place, target, iterations, condition, body))

    def range(self, loop: structure.Loop) -> Range:
        """The ints that a loop goes over."""
        count = loop.max_iterations
        if not loop.node.attributes.get(OVER_RANGE):
            return Range(self.use(count))
        if count.node not in self.nested:
            raise CannotTranslate("a range is computed apart from the loop over it")
        start, stop, step = map(self.use, count.node.inputs)
        is_one = isinstance(step, Constant) and type(step.value) is int and step.value == 1
        return Range(stop, start, None if is_one else step)


_STATEMENTS: dict[str, Callable[[_TreeBuilder, Node], None]] = {
    "prim::If": _TreeBuilder.if_,
    "prim::Loop": _TreeBuilder.loop,
    "prim::Try": _TreeBuilder.try_,
    "prim::TupleUnpack": _TreeBuilder.unpacked,
    "prim::ListUnpack": _TreeBuilder.unpacked,
}
"""Kinds that are statements of their own; others that are statements in the language are performed."""


def _place_of(node: Node) -> CodePlace:
    return CodePlace(node.range, node.call_stack)


def _end_of_context(nodes: Sequence[Node], start: int) -> int:
    """The position of the `prim::Exit` that belongs to the `prim::Enter` at a position."""
    depth = 0
    for position in range(start, len(nodes)):
        depth += {"prim::Enter": 1, "prim::Exit": -1}.get(nodes[position].kind, 0)
        if depth == 0:
            return position
    raise NOT_AS_PYTHON("a context that is not left in the block where it is entered", nodes[start].range)
