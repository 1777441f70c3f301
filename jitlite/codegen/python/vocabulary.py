"""The vocabulary of generated code: functions and constants are names that the code is given."""

from __future__ import annotations

import builtins
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from jitlite.codegen.python.contexts import enter_context, exit_context
from jitlite.codegen.python.python_writer import Piece, PythonWriter, separated
from jitlite.codegen.tree import Constant, GuardedRegion, Name, Perform, TryBlock
from jitlite.codegen.variables import unused
from jitlite.interpreter import futures
from jitlite.interpreter.binding import with_checked_result
from jitlite.interpreter.code import CodePlace
from jitlite.interpreter.frames import exit_contexts
from jitlite.interpreter.python_code import add_script_traceback
from jitlite.interpreter.run_time_types import as_at_run_time
from jitlite.ir.awaits import Await
from jitlite.ir.code_text import Identifier, Text, code, fixed, holes, joined, literal, private
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.node_attributes import str_attribute
from jitlite.ir.object_flow import Likelihood, ObjectFlow
from jitlite.ir.regions import Implementation
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.unit import Function, called_function, passed_arguments
from jitlite.ir.values import UNINITIALIZED, call_script_method
from jitlite.operators.prims import make_exception
from jitlite.operators.python_forms import CannotTranslate, Form, call_form, form_of, isinstance_form

Runner = Callable[..., Any]


class CallTarget:
    """A function that generated code calls. What runs it is made by the first call.

    Attributes:
        run: takes a value for each input of the graph and gives its result.
    """

    __slots__ = ("run",)

    def __init__(self, function: Function, runner_of: Callable[[Function], Runner]) -> None:
        self.run: Runner

        def run_first(*arguments: object) -> Any:
            self.run = runner_of(function)
            return self.run(*arguments)

        self.run = run_first

    def evaluate(self, *arguments: object) -> Any:
        """Run it apart from whatever is running: an exception gets a script traceback of its own."""
        try:
            return self.run(*arguments)
        except BaseException as error:
            add_script_traceback(error)
            raise


_OWN_NAMES = ("_entered", "_error", "_warned", "_done", "_since")
"""Names that generated code uses beside those of its variables and of what it is given."""


class GeneratedVocabulary:
    """Spells the operations of one graph.

    Attributes:
        names: what the code is given, by name.
        groups: what runs the regions that are called as one node.
    """

    def __init__(
        self,
        graph: Graph,
        runner_of: Callable[[Function], Runner],
        groups: Mapping[Node, Implementation] | None = None,
        objects: bool = False,
    ) -> None:
        self.groups = groups or {}
        self.flow = ObjectFlow(graph, objects)
        self.runner_of = runner_of
        self.forms: dict[Node, Form] = {}
        self.names: dict[str, Any] = {}
        """Globals of the code. Python looks names up by position where all keys are `str` and of no subclass."""
        self.links: dict[Function, CallTarget] = {}
        self.taken: set[str] = {*dir(builtins), *_OWN_NAMES}
        self._numbers: dict[Identifier, int] = {}
        self.bound: dict[int, Identifier] = {}
        self.has_contexts = any(n.kind in ("prim::Enter", "prim::Exit") for n in graph.all_nodes())

    # -- names
    def reserve(self, names: Iterable[Identifier]) -> None:
        """Let nothing have these names: variables do."""
        self.taken.update(names)

    def fresh(self, base: Identifier) -> Identifier:
        """A name that nothing has yet."""
        return unused(base, self.taken, self._numbers)

    def bind(self, value: object, base: str, place: CodePlace | None = None) -> Identifier:
        """A name for an object that the code uses."""
        name = self.bound.get(id(value))
        if name is None:
            name = self.bound[id(value)] = self.fresh(private(base))
            self.names[str(name)] = value
        return name

    def link(self, function: Function, arguments: Sequence[Value] = ()) -> CallTarget:
        if self.flow.of_any(arguments) is Likelihood.OBJECT:
            function.is_given_objects = True
        if function not in self.links:
            self.links[function] = CallTarget(function, self.runner_of)
        return self.links[function]

    # -- forms
    def form(self, node: Node) -> Form:
        found = self.forms.get(node)
        if found is None:
            special = _FORMS.get(node.kind)
            found = self.forms[node] = special(self, node) if special else form_of(node, self.flow)
        return found

    def is_expression(self, node: Node) -> bool:
        """Can the node be written as an expression?"""
        if node.has(Trait.IS_STATEMENT) or node.has(Trait.SPREADS):
            return False
        return not self.form(node).is_statement

    def is_statement(self, node: Node) -> bool:
        """Is the node a statement that `perform` writes?"""
        return node.has(Trait.IS_STATEMENT) or self.form(node).is_statement

    def is_in_order(self, node: Node) -> bool:
        """Are the operands of the node evaluated from first to last?"""
        return node.has(Trait.IS_STATEMENT) or self.form(node).in_order

    def constant(self, value: object, in_expression: bool, place: CodePlace | None = None) -> Text:
        """A literal where Python has one, else a name."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return literal(value)
        if _has_literal(value):
            text = literal(value)
            return code("({})", text) if in_expression and not text[0].isdigit() else text
        return self.bind(value, "constant")

    # -- statements
    def perform(self, writer: PythonWriter, statement: Perform) -> None:
        write = _STATEMENTS.get(statement.operation.node.kind, GeneratedVocabulary._by_form)
        write(self, writer, statement)

    def _by_form(self, writer: PythonWriter, statement: Perform) -> None:
        writer.by_form(statement)

    def _raise(self, writer: PythonWriter, statement: Perform) -> None:
        operands = statement.operation.operands
        given = [*operands, Constant(None)][:2]
        writer.line(code("raise {}(", self.bind(make_exception, "make_exception")), *separated(given), fixed(")"))

    def _warn(self, writer: PythonWriter, statement: Perform) -> None:
        found = statement.operation.node.range
        filename, line = (found.filename or "<string>", found.line) if found else ("<string>", 0)
        self.names.setdefault("_warned", {})
        warn = self.bind(warnings.warn_explicit, "warn_explicit")
        rest = code(", UserWarning, {}, {}, registry=_warned)", literal(filename), line)
        writer.line(code("{}(", warn), statement.operation.operands[0], rest)

    def _enter(self, writer: PythonWriter, statement: Perform) -> None:
        head = code("{}(_entered, ", self.bind(enter_context, "enter"))
        writer.line(*_target(statement), head, statement.operation.operands[0], fixed(")"))

    def _exit(self, writer: PythonWriter, statement: Perform) -> None:
        writer.line(*_target(statement), code("{}(_entered)", self.bind(exit_context, "exit")))

    def try_(self, writer: PythonWriter, statement: TryBlock) -> None:
        depth = self.fresh(private("depth")) if self.has_contexts else None
        if depth is not None:
            writer.write("{} = len(_entered)", depth)
        writer.write("try:")
        writer.body(statement.body)
        writer.place = statement.place
        error = statement.error.name
        writer.write("except BaseException as {}:", error)
        with writer.indented():
            if depth is not None:
                exits = self.bind(exit_contexts, "exit_contexts")
                writer.write("{} = {}(_entered, {}, {})", error, exits, depth, error)
            writer.statements(statement.handler)

    def region(self, writer: PythonWriter, statement: GuardedRegion) -> None:
        """A call of what runs the region, or else what follows."""
        call = statement.call
        implementation, called = call.implementation, self.fresh(private(call.kind))
        implementation.on_publish(partial(self.names.__setitem__, str(called)))
        arguments = joined(", ", map(self._argument, statement.inputs))
        is_adaptive = implementation.is_adaptive  # there may be nothing to call yet
        writer.write("_done = {0} and {0}({1})" if is_adaptive else "_done = {0}({1})", called, arguments)
        writer.write("if _done is not None:")
        with writer.indented():
            (first, *_) = statement.targets or (None,)
            single = code("{} = ", fixed("_") if first is None else first.name)
            writer.write("{}_done", writer.unpacked(statement.targets) if call.gives_tuple else single)
        writer.write("else:")
        with writer.indented():
            if is_adaptive:
                writer.write("_since = {}()", self.bind(time.perf_counter, "clock"))
            writer.statements(statement.body)
            if is_adaptive:
                writer.write("{}(_since)", self.bind(implementation.record_run, "spent"))

    def _argument(self, given: Name | Constant) -> Text:
        return given.variable.name if isinstance(given, Name) else self.constant(given.value, False)

    # -- forms that need to know of other functions
    def call_function(self, node: Node) -> Form:
        callee = called_function(node)
        if callee is not None:
            count = len(passed_arguments(node))
            return Form(code("{{f}}.run({})", holes(range(count))), self.link(callee, node.inputs))
        if node.kind == "prim::CallFunction":
            raise CannotTranslate("the graph calls a function that is only a name here")
        return call_form(call_script_method(str_attribute(node, "name")), len(node.inputs))

    def deferred(self, node: Node) -> Form:
        link = self.link(
            Function(Spelling.DEFERRED_FUNCTION.by_kind[node.kind], graph=node.attributes["Subgraph"]), node.inputs
        )
        make = futures.fork if node.kind == "prim::fork" else Await

        def defer(*arguments: object) -> Any:
            return make(partial(link.evaluate, *arguments))

        return call_form(defer, len(node.inputs))

    def group(self, node: Node) -> Form:
        """A graph that is run in place: by what there is for it, else as a call."""
        implementation = self.groups.get(node)
        if implementation is not None:
            return call_form(implementation.run or implementation.attempt, len(node.inputs))
        link = self.link(Function("<group of operators>", graph=node.attributes["Subgraph"]), node.inputs)
        return Form(code("{{f}}.run({})", holes(range(len(node.inputs)))), link)

    def python_call(self, node: Node) -> Form:
        if "callable" not in node.attributes:
            raise CannotTranslate(f"{node.kind} stands for a Python function that is not available")
        function = node.attributes["callable"]
        if len(node.outputs) == 1:
            function = with_checked_result(function, node.outputs[0].type)
        return call_form(function, len(node.inputs))

    def isinstance_(self, node: Node) -> Form:
        return isinstance_form([as_at_run_time(t, node.input.type) for t in node.attributes["types"]])


def _target(statement: Perform) -> tuple[Piece, ...]:
    return () if statement.target is None else (statement.target.name, fixed(" = "))


_STATEMENTS: dict[str, Callable[[GeneratedVocabulary, PythonWriter, Perform], None]] = {
    "prim::RaiseException": GeneratedVocabulary._raise,
    "prim::Enter": GeneratedVocabulary._enter,
    "prim::Exit": GeneratedVocabulary._exit,
    "aten::warn": GeneratedVocabulary._warn,
}
"""Kinds with the trait IS_STATEMENT that the tree has no form for."""

_FORMS: dict[str, Callable[[GeneratedVocabulary, Node], Form]] = {
    "prim::CallFunction": GeneratedVocabulary.call_function,
    "prim::CallMethod": GeneratedVocabulary.call_function,
    "prim::PythonOp": GeneratedVocabulary.python_call,
    **dict.fromkeys(Spelling.REGION.by_kind, GeneratedVocabulary.group),
    "prim::IgnoredPythonOp": GeneratedVocabulary.python_call,
    "prim::fork": GeneratedVocabulary.deferred,
    "prim::awaitable": GeneratedVocabulary.deferred,
    "prim::isinstance": GeneratedVocabulary.isinstance_,
    "prim::Uninitialized": lambda words, node: Form(fixed("{f}"), UNINITIALIZED),
    "aten::wait": lambda words, node: call_form(futures.wait, 1),
}
"""Kinds whose form depends on more than the node."""


def _has_literal(value: object) -> bool:
    """Is it a number that is written where it is used?"""
    if type(value) is int:
        return abs(value) < 1 << 62
    return type(value) is float and math.isfinite(value)
