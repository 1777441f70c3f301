"""How the values of a graph are written in Python: names, literals, and operations within one another."""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jitlite.codegen.nesting import DEEPEST, Nesting
from jitlite.codegen.python.subscripts import REST, SubscriptText, subscript
from jitlite.codegen.variables import Variables, unused
from jitlite.codegen.variables import identifier as variable_name
from jitlite.interpreter import futures
from jitlite.interpreter.binding import with_checked_result
from jitlite.interpreter.code import CodePlace
from jitlite.interpreter.python_code import MOST_MARKS, add_script_traceback, marked
from jitlite.interpreter.run_time_types import as_at_run_time
from jitlite.ir import types as T
from jitlite.ir.awaits import Await
from jitlite.ir.code_text import Identifier, Text, code, filled, fixed, holes, joined, literal, private
from jitlite.ir.graph import Graph, Node, Value, constant_of
from jitlite.ir.node_attributes import str_attribute
from jitlite.ir.object_flow import Likelihood, ObjectFlow
from jitlite.ir.structure import Try
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.unit import Function, called_function, passed_arguments
from jitlite.ir.values import UNINITIALIZED, call_script_method
from jitlite.operators.python_forms import ASSIGN_ELEMENTS, CannotTranslate, Form, call_form, form_of, isinstance_form

_BARE_HOLE = re.compile(r"(?:(?<=[(\[])|(?<=[,:] )|(?<= = ))\{(\d+)\}(?=[)\],]|$)")
"""A hole in a template that an expression is put into without parentheses: brackets, commas or `=` are around it."""

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


class ExpressionWriter:
    """Knows how the values of one graph are written.

    Attributes:
        deepest: how many operations are written within one another.
    """

    deepest = DEEPEST

    def __init__(
        self,
        graph: Graph,
        runner_of: Callable[[Function], Runner],
        parts: Mapping[Node, object] | None = None,
        objects: bool = False,
    ) -> None:
        self.graph = graph
        self.flow = ObjectFlow(graph, objects)
        self.runner_of = runner_of
        self.forms: dict[Node, Form] = {}
        self.names: dict[str, Any] = {}
        self.links: dict[Function, CallTarget] = {}
        self.nesting = Nesting(graph, self._is_expression, self._is_in_order, self.deepest, parts)
        errors = [Try(n).error for n in graph.all_nodes() if n.kind == "prim::Try"]
        self.variables = Variables(graph, self.nesting.nested, self.nesting.conditional, errors)
        self.taken: set[str] = {*self.variables.names, *dir(builtins)} | {
            "_entered",
            "_error",
            "_warned",
            "_done",
            "_since",
        }
        self.bound: dict[int, Identifier] = {}
        self.nested_places: list[CodePlace] = []
        self.in_head: dict[Value, Value] = {}
        """While the head of a loop is written: what is carried on, and the values it becomes."""
        self.place: CodePlace | None = None
        """Of the statement that is being written."""

    # -- names
    def fresh(self, base: Identifier) -> Identifier:
        """A name that nothing has yet."""
        return unused(base, self.taken)

    def bind(self, value: object, base: str) -> Identifier:
        """A name for an object that the code uses."""
        name = self.bound.get(id(value))
        if name is None:
            name = self.bound[id(value)] = self.fresh(private(base))
            self.names[name] = value
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

    def _is_expression(self, node: Node) -> bool:
        if node.has(Trait.IS_STATEMENT) or node.has(Trait.SPREADS):
            return False
        return not self.form(node).is_statement

    def _is_in_order(self, node: Node) -> bool:
        return node.has(Trait.IS_STATEMENT) or self.form(node).in_order

    # -- expressions
    def text(self, value: Value, user: Node, in_expression: bool = False) -> Text:
        """How to write a value; with parentheses where it is part of an expression and needs them."""
        node = value.node
        if node.kind == "prim::Constant":
            return self.constant(constant_of(value), in_expression)
        if node in self.nesting.nested and node.has(Trait.UNCHECKED):
            return self.text(node.inputs[0], node, in_expression)
        if node in self.nesting.nested:
            text, is_atom = self.expression(node)
            text = text if is_atom or not in_expression else code("({})", text)
            return self.marked(text, node)
        return self.variables[self.in_head.get(value, value)].name

    def marked(self, text: Text, node: Node) -> Text:
        place = CodePlace(node.range, node.call_stack)
        if place == self.place or len(self.nested_places) >= MOST_MARKS:
            return text
        self.nested_places.append(place)
        return marked(text, len(self.nested_places) - 1)

    def expression(self, node: Node) -> tuple[Text, bool]:
        """An operation as an expression, and whether it needs no parentheses."""
        if node in self.nesting.conditional:
            return self.conditional(node), False
        found = subscript(node, self.nesting.nested)
        if found is not None:
            return self.subscript(found, node), True
        form = self.form(node)
        text = self.fill(form, node)
        if form.gives_sequence and not self._is_unpacked(node):
            return code("list({})", text), True
        return text, form.is_atom

    def subscript(self, found: SubscriptText, node: Node) -> Text:
        items: list[Text] = []
        for item in found.items:
            if item is REST:
                items.append(fixed("..."))
                continue
            texts = [self.text(v, node) for v in item.values]
            if len(texts) == 1:
                items.append(texts[0])
                continue
            nothing, one = fixed(""), fixed("1")
            start, end, step = [nothing if t == "None" else t for t in texts] or (nothing, nothing, one)
            items.append(code("{}:{}", start, end) if step == "1" else code("{}:{}:{}", start, end, step))
        return code("{}[{}]", self.text(found.base, node, True), joined(", ", items))

    def fill(self, form: Form, node: Node) -> Text:
        target = node.inputs[0].node if form is ASSIGN_ELEMENTS else None
        if target in self.nesting.nested and target is not None and subscript(target, self.nesting.nested):
            form = Form(fixed("{0} = {1}"), is_statement=True)
        written = dict(form.constants)
        bare = set(map(int, _BARE_HOLE.findall(form.template)))
        operands = [
            self.constant(written[i], i not in bare) if i in written else self.text(v, node, i not in bare)
            for i, v in enumerate(passed_arguments(node))
        ]
        function = fixed("")
        if form.function is not None:
            function = self.bind(form.function, variable_name(node.kind.partition("::")[2], "f"))
        template = form.template
        if form.of_variables and not any(v.node in self.nesting.nested for v in passed_arguments(node)):
            template = form.of_variables
        return filled(template, *operands, f=function)

    def _is_unpacked(self, node: Node) -> bool:
        uses = node.output.uses
        return node in self.nesting.nested and uses[0].user.kind == "prim::ListUnpack"

    def conditional(self, node: Node) -> Text:
        condition = self.text(node.inputs[0], node, True)
        first, second = (b.outputs[0] for b in node.blocks)
        returns = [b.return_node for b in node.blocks]
        if node.output.type is T.BOOL and constant_of(second, None) is False:
            return code("{} and {}", condition, self.text(first, returns[0], True))
        if node.output.type is T.BOOL and constant_of(first, None) is True:
            return code("{} or {}", condition, self.text(second, returns[1], True))
        return code(
            "{} if {} else {}", self.text(first, returns[0], True), condition, self.text(second, returns[1], True)
        )

    def constant(self, value: object, in_expression: bool) -> Text:
        """A literal where Python has one, else a name."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return literal(value)
        if _has_literal(value):
            text = literal(value)
            return code("({})", text) if in_expression and not text[0].isdigit() else text
        return self.bind(value, "constant")

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
        """A graph that is run in place: by its callable if it was given one, else as a call."""
        if "callable" in node.attributes:
            return call_form(node.attributes["callable"], len(node.inputs))
        link = self.link(Function("<differentiable graph>", graph=node.attributes["Subgraph"]), node.inputs)
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


_FORMS: dict[str, Callable[[ExpressionWriter, Node], Form]] = {
    "prim::CallFunction": ExpressionWriter.call_function,
    "prim::CallMethod": ExpressionWriter.call_function,
    "prim::PythonOp": ExpressionWriter.python_call,
    "prim::DifferentiableGraph": ExpressionWriter.group,
    "prim::IgnoredPythonOp": ExpressionWriter.python_call,
    "prim::fork": ExpressionWriter.deferred,
    "prim::awaitable": ExpressionWriter.deferred,
    "prim::isinstance": ExpressionWriter.isinstance_,
    "prim::Uninitialized": lambda writer, node: Form(fixed("{f}"), UNINITIALIZED),
    "aten::wait": lambda writer, node: call_form(futures.wait, 1),
}
"""Kinds whose form depends on more than the node."""


def _has_literal(value: object) -> bool:
    """Is it a number that is written where it is used?"""
    if type(value) is int:
        return abs(value) < 1 << 62
    return type(value) is float and math.isfinite(value)
