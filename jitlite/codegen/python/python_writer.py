"""The statements and expressions of `codegen/tree.py` as Python.

How an operation, a constant or a function is spelled is asked of a `Vocabulary`: generated code binds functions to
names of its own, source that people read names them as they do. All that is Python's syntax is here. What is written
knows its place: every line that of its statement, every part of a line that of its operation.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple, Protocol

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
    Index,
    Iterations,
    LeaveLoop,
    Name,
    Not,
    Operation,
    Perform,
    Range,
    ReturnValues,
    Slice,
    TensorSubscript,
    TryBlock,
    Unpack,
    WhileLoop,
    WithBlock,
)
from jitlite.codegen.variables import Variable
from jitlite.codegen.variables import identifier as variable_name
from jitlite.interpreter.code import CodePlace
from jitlite.interpreter.python_code import Line, Span
from jitlite.ir.code_text import Text, code, fixed, indented, joined, template_parts
from jitlite.ir.graph import Node
from jitlite.operators.python_forms import ASSIGN_ELEMENTS, Form

Piece = Text | Expression | Iterations
"""A part of a line."""


_NONE_KNOWN: dict[int, object] = {}
_NOTHING = fixed("")
_ASSIGN = fixed("{0} = {1}")
_OPEN, _CLOSE, _OPEN_INDEX, _CLOSE_INDEX = fixed("("), fixed(")"), fixed("["), fixed("]")
_COMMA, _COLON, _EQUALS, _DOTS = fixed(", "), fixed(":"), fixed(" = "), fixed("...")
_LIST, _RANGE, _NOT = fixed("list("), fixed("range("), fixed("not ")
_IF, _ELSE, _AND, _OR = fixed(" if "), fixed(" else "), fixed(" and "), fixed(" or ")
_IF_HEAD, _ELIF_HEAD, _WHILE, _FOR, _IN = (
    fixed("if "),
    fixed("elif "),
    fixed("while "),
    fixed("for "),
    fixed(" in "),
)


class Vocabulary(Protocol):
    """How what the tree leaves open is spelled."""

    def form(self, node: Node) -> Form:
        """How an operation is written."""

    def constant(self, value: object, in_expression: bool, place: CodePlace | None) -> Text:
        """How a known value is written; with parentheses where it is part of an expression and needs them.

        Args:
            place: of the statement that it is written in.
        """

    def bind(self, value: object, base: str, place: CodePlace | None) -> Text:
        """A name for an object that the code uses."""

    def perform(self, writer: PythonWriter, statement: Perform) -> None:
        """Write an operation that is a statement; `PythonWriter.by_form` does so by its form."""

    def try_(self, writer: PythonWriter, statement: TryBlock) -> None:
        """Write a `try`."""

    def region(self, writer: PythonWriter, statement: GuardedRegion) -> None:
        """Write a region that something else may run."""


class PythonWriter:
    """Writes one function.

    Args:
        boxed: are results given in a list?

    Attributes:
        lines: what has been written.
        level: how far the next line is indented.
        place: of the statement that is being written.
    """

    def __init__(self, vocabulary: Vocabulary, boxed: bool = False) -> None:
        self.vocabulary = vocabulary
        self.boxed = boxed
        self.lines: list[Line] = []
        self.level = 0
        self.place: CodePlace | None = None
        self._parts: list[Text] = []
        self._column = 0
        self._spans: list[Span] = []

    # -- lines
    def line(self, *pieces: Piece) -> None:
        """Write a line."""
        self._column = 4 * self.level
        self._pieces(pieces)
        self._end()

    def write(self, template: str, *parts: Text | int) -> None:
        """A line without expressions: a literal of jitlite's source, with the parts in it."""
        self.lines.append(Line(indented(code(template, *parts), self.level), self.place, ()))

    def _pieces(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Text):
                self._put(piece)
            else:
                self.expression(piece)

    def _put(self, text: Text) -> None:
        self._parts.append(text)
        self._column += len(text)

    def _end(self) -> None:
        self.lines.append(Line(indented(joined("", self._parts), self.level), self.place, tuple(self._spans)))
        self._parts, self._spans = [], []

    @contextmanager
    def indented(self) -> Iterator[None]:
        """What is written meanwhile is the body of the line before; without a statement it is `pass`."""
        self.level += 1
        count = len(self.lines)
        yield
        if len(self.lines) == count:
            self.write("pass")
        self.level -= 1

    # -- expressions
    def expression(
        self, value: Expression | Range | EndlessRange, in_expression: bool = False, as_list: bool = True
    ) -> None:
        """Write a value; with parentheses where it is part of an expression and needs them.

        Args:
            as_list: has what stands for a list to be one? Else any sequence will do.
        """
        if isinstance(value, Name):
            self._put(value.variable.name)
        elif isinstance(value, Constant):
            self._put(self.vocabulary.constant(value.value, in_expression, self.place))
        elif isinstance(value, Not):
            self._put(_NOT)
            self.expression(value.operand, True)
        elif isinstance(value, Range | EndlessRange):
            self._iterations(value)
        else:
            start = self._column
            if isinstance(value, Operation):
                self._operation(value, in_expression, as_list)
            elif isinstance(value, TensorSubscript):
                self._subscript(value)
            else:
                self._choice(value, in_expression)
            if value.place != self.place:
                self._spans.append(Span(start, self._column, value.place))

    def _operation(self, operation: Operation, in_expression: bool, as_list: bool) -> None:
        form = self.vocabulary.form(operation.node)
        if as_list and form.gives_sequence:
            self._put(_LIST)
            self.fill(form, operation)
            self._put(_CLOSE)
        elif in_expression and not form.is_atom:
            self._put(_OPEN)
            self.fill(form, operation)
            self._put(_CLOSE)
        else:
            self.fill(form, operation)

    def fill(self, form: Form, operation: Operation) -> None:
        """Write an operation by its form."""
        operands, template = operation.operands, form.template
        model = template
        if form is ASSIGN_ELEMENTS and isinstance(operands[0], TensorSubscript):
            template = model = _ASSIGN
        elif form.of_variables and all(isinstance(operand, Name | Constant) for operand in operands):
            template = form.of_variables
        known = dict(form.constants) if form.constants else _NONE_KNOWN
        for text, hole, is_bare in _parts_of(template, model):
            if text:
                self._put(text)
            if hole is None:
                continue
            if hole == _FUNCTION:
                base = variable_name(operation.node.kind.partition("::")[2], "f")
                self._put(self.vocabulary.bind(form.function, base, self.place))
            elif hole in known:
                self._put(self.vocabulary.constant(known[hole], not is_bare, self.place))
            else:
                self.expression(operands[hole], not is_bare)

    def _subscript(self, found: TensorSubscript) -> None:
        self.expression(found.base, True)
        for number, item in enumerate(found.items):
            self._put(_COMMA if number else _OPEN_INDEX)
            if isinstance(item, Index):
                self.expression(item.value)
            elif isinstance(item, Slice):
                self._slice(item)
            else:
                self._put(_DOTS)
        self._put(_CLOSE_INDEX)

    def _slice(self, item: Slice) -> None:
        if item.start is not None:
            self.expression(item.start)
        self._put(_COLON)
        if item.stop is not None:
            self.expression(item.stop)
        if item.step is not None:
            self._put(_COLON)
            self.expression(item.step)

    def _choice(self, value: Conditional | Both | Either, in_expression: bool) -> None:
        if in_expression:
            self._put(_OPEN)
        if isinstance(value, Conditional):
            self.expression(value.then, True)
            self._put(_IF)
            self.expression(value.condition, True)
            self._put(_ELSE)
            self.expression(value.orelse, True)
        else:
            self.expression(value.first, True)
            self._put(_AND if isinstance(value, Both) else _OR)
            self.expression(value.second, True)
        if in_expression:
            self._put(_CLOSE)

    def _iterations(self, value: Range | EndlessRange) -> None:
        if isinstance(value, EndlessRange):
            self._put(code("{}()", self.vocabulary.bind(itertools.count, "count", self.place)))
            return
        self._put(_RANGE)
        self._pieces(separated([bound for bound in (value.start, value.stop, value.step) if bound is not None]))
        self._put(_CLOSE)

    # -- statements
    def body(self, body: Body) -> None:
        """The statements of a block, indented."""
        with self.indented():
            self.statements(body)

    def statements(self, body: Body) -> None:
        """Statements, one after the other."""
        for statement in body:
            self.place = statement.place
            statement.accept(self)

    def assign(self, statement: AssignVariable) -> None:
        self.line(statement.target.name, _EQUALS, statement.value)

    def exchange(self, statement: Exchange) -> None:
        self.line(joined(", ", [target.name for target in statement.targets]), _EQUALS, *separated(statement.values))

    def unpack(self, statement: Unpack) -> None:
        self._column = 4 * self.level
        self._put(self.unpacked(statement.targets))
        self.expression(statement.value, as_list=False)
        self._end()

    @staticmethod
    def unpacked(targets: Sequence[Variable | None]) -> Text:
        """The head of a statement that gives variables the elements of a sequence: `a, _ = `."""
        if not targets:
            return fixed("() = ")
        names = joined(", ", [fixed("_") if target is None else target.name for target in targets])
        return code("{}, = " if len(targets) == 1 else "{} = ", names)

    def evaluate(self, statement: Evaluate) -> None:
        self.line(statement.value)

    def perform(self, statement: Perform) -> None:
        self.vocabulary.perform(self, statement)

    def by_form(self, statement: Perform) -> None:
        """Write an operation that is a statement by its form. What it gives is its first operand."""
        operation = statement.operation
        self.formed(self.vocabulary.form(operation.node), operation)
        if statement.target is not None:
            self.line(statement.target.name, _EQUALS, operation.operands[0])

    def formed(self, form: Form, operation: Operation, head: Text = _NOTHING) -> None:
        """Write a line that is an operation in this form, with `head` before it."""
        self._column = 4 * self.level
        self._put(head)
        self.fill(form, operation)
        self._end()

    def delete(self, statement: DeleteVariables) -> None:
        self.forget(statement.variables)

    def forget(self, variables: Iterable[Variable]) -> None:
        """Give variables up."""
        names = sorted(variable.name for variable in variables)
        if names:
            self.write("del {}", joined(", ", names))

    def return_(self, statement: ReturnValues) -> None:
        values = statement.values
        if self.boxed:
            self.line(fixed("return ["), *separated(values), fixed("]"))
        elif not values:
            self.write("return")
        elif len(values) == 1:
            self.line(fixed("return "), values[0])
        else:
            self.line(fixed("return ("), *separated(values), _CLOSE)

    def break_(self, statement: LeaveLoop) -> None:
        self.write("break")

    def if_(self, statement: IfBlock) -> None:
        word = _IF_HEAD
        while True:
            place = self.place = statement.place
            self.line(word, statement.condition, _COLON)
            self.body(statement.then)
            others = statement.orelse
            if len(others) != 1 or not isinstance(others[0], IfBlock):
                break
            word, statement = _ELIF_HEAD, others[0]
        if others:
            self.place = place
            self.write("else:")
            self.body(others)

    def while_(self, statement: WhileLoop) -> None:
        self.line(_WHILE, fixed("True") if statement.condition is None else statement.condition, _COLON)
        self.body(statement.body)

    def for_(self, statement: ForLoop) -> None:
        name = fixed("_") if statement.target is None else statement.target.name
        self.line(_FOR, name, _IN, statement.iterations, _COLON)
        with self.indented():
            if statement.condition is not None:
                self.line(_IF_HEAD, Not(statement.condition), fixed(": break"))
            self.statements(statement.body)

    def try_(self, statement: TryBlock) -> None:
        self.vocabulary.try_(self, statement)

    def with_(self, statement: WithBlock) -> None:
        target = () if statement.target is None else (fixed(" as "), statement.target.name)
        self.line(fixed("with "), statement.manager, *target, _COLON)
        self.body(statement.body)

    def region(self, statement: GuardedRegion) -> None:
        self.vocabulary.region(self, statement)


def separated(values: Sequence[Expression]) -> Iterator[Piece]:
    """The values with commas between them."""
    for number, value in enumerate(values):
        if number:
            yield _COMMA
        yield value


class _TemplatePart(NamedTuple):
    """A part of a template: text, and the hole after it."""

    text: Text
    hole: int | None
    is_bare: bool


_FUNCTION = -1
"""The hole of a template that takes a function."""

_BARE_HOLE = re.compile(r"(?:(?<=[(\[])|(?<=[,:] )|(?<= = ))\{(\d+)\}(?=[)\],]|$)")
"""A hole in a template that an expression is put into without parentheses: brackets, commas or `=` are around it."""


@lru_cache(4096)
def _parts_of(template: Text, model: Text) -> tuple[_TemplatePart, ...]:
    """The parts of a template. `model` is the one that tells which operands need no parentheses."""
    bare = set(map(int, _BARE_HOLE.findall(model)))
    found = []
    for text, name in template_parts(template):
        hole = None if name is None else _FUNCTION if name == "f" else int(name)
        found.append(_TemplatePart(text, hole, hole in bare))
    return tuple(found)
