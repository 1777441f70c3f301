"""TorchScript's text form -> Graph; the inverse of `printer.py`.

`str(parse(text)) == text` for every text that `str(graph)` gives, up to `# file:line:col` comments, which are
skipped (a node's range is its place in the graph text). Names and numbers of values are kept.

Accepted beyond what is printed: any indentation and line breaks, comments, omitted types (the schema's, where the
operator is known and decides it, else Tensor), a missing ` = ` before nodes without outputs, any name for blocks.

Not in the text, and so not in the graph: the Python classes of enums, classes and named tuples and the objects behind
function constants, unless they are given; the elements of tensors shown as `<Tensor>`; and that an int was a dtype.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from jitlite.base.errors.inside import BAD_GRAPH_TEXT
from jitlite.base.source import CompileError, Source, SourceRange, did_you_mean
from jitlite.ir import types as T
from jitlite.ir.compiling import make_room
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.node_attributes import attribute_fault, declared_attributes, owner_fault, undeclared
from jitlite.ir.node_rules import constant_fault
from jitlite.ir.schema import Schema
from jitlite.ir.traits import Trait
from jitlite.ir.type_parser import SIMPLE_TYPES, SchemaError
from jitlite.ir.types import Type
from jitlite.ir.value_text import ValueReader

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"[\w.$]+")
_KIND = re.compile(r"[A-Za-z_]\w*(?:::\w+)+")
_PYTHON_NAME = re.compile(r"\^([\w.<>]+)")
_BLOCK = re.compile(r"(?!return\b)[A-Za-z_]\w*[ \t]*\(")
_COMMENT = re.compile(r"#[^\n]*")
_SCOPE = re.compile(r",[ \t]*scope:[ \t]*([^\n]*?)[ \t]*(?=#|\n|$)")
_GROUP = re.compile(r"^[ \t]*with[ \t]+(\S+)[ \t]*=[ \t]*graph\b", re.MULTILINE)
_LEVELS_AT_ONCE = 16
"""Blocks within one another, after which the reader looks whether it has room for more."""
_NUMBERED = re.compile(r"(.+)_(\d+)")


def parse(
    text: str,
    *,
    functions: Mapping[str, Any] | None = None,
    types: Mapping[str, Type] | None = None,
    filename: str | None = None,
    placeholder_tensors: bool = False,
) -> Graph:
    """The graph written as `text`.

    Args:
        text: a graph in TorchScript's text form.
        functions: the objects of function constants and Python operations, by name. Without it they have none.
        types: classes, enums (`__torch__.Color`) and interfaces (`Name`) that the text mentions.
        filename: where the text comes from, for error messages and the ranges of nodes.
        placeholder_tensors: read `<Tensor>` as zeros of the type of the constant.

    Raises:
        CompileError: the text is no graph: bad syntax, an undefined or doubly defined name, an output type that its
            operator's schema does not allow, a function that `functions` lacks, an attribute that its node does not
            have, a value that torch does not make, more within one another than can be read.
    """
    parser = _GraphParser(text, functions, types, filename, placeholder_tensors)
    try:
        graph = parser.graph()
        if parser.peek():
            parser.fail("expected the end of the graph")
    except CompileError:
        raise
    except RecursionError as error:
        raise BAD_GRAPH_TEXT("the blocks of the graph are nested too deeply to be read", parser.here()) from error
    except SchemaError as error:
        raise BAD_GRAPH_TEXT(str(error), parser.here()) from error
    except Exception as error:  # what Python and torch say of values: of devices, generators, numbers of many digits
        what = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise BAD_GRAPH_TEXT(f"a value in the text cannot be made: {what}", parser.here()) from error
    return graph


class _Scope:
    """What is being read: a graph, its visible names, its group nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.visible: dict[str, Value] = {}
        self.defined: dict[str, Value] = {}
        self.groups: list[Node] = []

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Names defined within are not visible after it."""
        saved = dict(self.visible)
        try:
            yield
        finally:
            self.visible = saved

    def number_values(self) -> None:
        """Give values that show as a number that number as id, and all others ids behind them."""
        numbered = {int(name): value for name, value in self.defined.items() if _is_number(name)}
        following = max(numbered, default=-1) + 1
        for number, value in numbered.items():
            value.id = number
        for value in self.defined.values():
            if value.has_name:
                value.id = following
                following += 1
        self.graph._id = following


class _GraphParser(ValueReader):
    def __init__(
        self,
        text: str,
        functions: Mapping[str, Any] | None,
        types: Mapping[str, Type] | None,
        filename: str | None,
        placeholder_tensors: bool,
    ) -> None:
        self.source = Source(text, filename, is_graph=True)
        self.functions = functions
        self.group_kinds = set(_GROUP.findall(text))
        self.scope = _Scope(Graph())
        self.level = 0
        super().__init__(text, types, placeholder_tensors)

    # -- tokens and errors
    def _skip_blank(self) -> None:
        while True:
            super()._skip_blank()
            comment = _COMMENT.match(self.text, self.position)
            if comment is None:
                return
            self.position = comment.end()

    def here(self) -> SourceRange:
        """The range of the next token."""
        return SourceRange(self.source, self.position, self.position + max(1, len(self.peek())))

    def fail(self, message: str) -> NoReturn:
        raise BAD_GRAPH_TEXT(message, self.here(), found=repr(self.peek()) if self.peek() else "the end of the text")

    def fail_at(self, start: int, length: int, message: str, **details: Any) -> NoReturn:
        raise BAD_GRAPH_TEXT(message, SourceRange(self.source, start, start + length), **details)

    def _named_type(self, token: str) -> Type:
        start = self.position
        while self.text[start - 1] in " \t\n":
            start -= 1
        try:
            return super()._named_type(token)
        except CompileError:
            hint = did_you_mean(token, [*SIMPLE_TYPES, *self.known_types])
            self.fail_at(start - len(token), len(token), f"unknown type {token}", hint=hint)

    def matched(self, pattern: re.Pattern[str], expected: str) -> str:
        found = self._match(pattern)
        if found is None:
            self.fail(f"expected {expected}")
        return found.group()

    # -- graphs and blocks
    def graph(self) -> Graph:
        """A graph and the graphs of its group nodes, which follow it."""
        outer, self.scope = self.scope, _Scope(Graph())
        scope = self.scope
        self.expect("graph")
        self.parameters(scope.graph.block)
        self.expect(":")
        self.nodes(scope.graph.block)
        self.expect("return")
        self.results(scope.graph.block)
        scope.number_values()
        for number, node in enumerate(scope.groups):
            self.expect("with")
            start = self.position
            kind = self.matched(_KIND, "the kind of a node")
            if kind != f"{node.kind}_{number}":
                self.fail_at(start, len(kind), f"expected the graph of {node.kind}_{number}", found=kind)
            self.expect("=")
            node.attributes["Subgraph"] = self.graph()
        self.scope = outer
        return scope.graph

    def parameters(self, block: Block) -> None:
        def parameter() -> None:
            name, start = self.name()
            self.define(block.add_input(self.declared_type() or T.TENSOR), name, start)

        self.expect("(")
        self.list_of(parameter, ")")

    def results(self, block: Block) -> None:
        self.expect("(")
        self.list_of(lambda: block.add_output(self.use()), ")")

    def nodes(self, block: Block) -> None:
        while self.peek() not in ("->", "return"):
            if not self.peek():
                self.fail("expected another node, '->' or 'return'")
            self.node(block)

    def nested_blocks(self, node: Node) -> None:
        self.level += 1
        if self.level % _LEVELS_AT_ONCE == 0:
            make_room(self.level)
        while self._match(_BLOCK):
            self.position = self.text.rindex("(", 0, self.position)  # the bracket belongs to the parameters
            with self.scope.nested():
                block = node.add_block()
                self.parameters(block)
                self.expect(":")
                self.nodes(block)
                if self.peek() == "return":
                    self.fail("expected the results of the block: '-> (...)'")
                self.expect("->")
                self.results(block)
        self.level -= 1

    # -- names
    def name(self) -> tuple[str, int]:
        """`%name`: the name and where its `%` stands."""
        start = self.position
        if self.peek() != "%":
            self.fail("expected a value like %x")
        self.position += 1
        found = _NAME.match(self.text, self.position)
        if found is None:
            self.fail("expected the name of a value behind %")
        self.position = found.end()
        self._skip_blank()
        return found.group(), start

    def declared_type(self) -> Type | None:
        return self.type() if self.accept(":") else None

    def define(self, value: Value, name: str, start: int) -> None:
        scope = self.scope
        if name in scope.defined:
            self.fail_at(start, len(name) + 1, f"value %{name} is defined twice", hint="every value has one definition")
        scope.defined[name] = scope.visible[name] = value
        if not _is_number(name):
            value.set_name(name)

    def use(self) -> Value:
        name, start = self.name()
        scope = self.scope
        value = scope.visible.get(name)
        if value is None:
            message, hint = f"undefined value %{name}", did_you_mean(name, scope.visible)
            if name in scope.defined:
                message = f"value %{name} is not visible here"
                hint = "values of a block can be used in it and in blocks inside it only"
            self.fail_at(start, len(name) + 1, message, hint=hint)
        return value

    # -- nodes
    def node(self, block: Block) -> None:
        outputs = self.outputs()
        start = self.position
        node = self.scope.graph.create("prim::Constant")
        declared = outputs[0][1] if len(outputs) == 1 else None
        if self.peek() == "^":
            self.python_operation(node)
        else:
            node.kind = self.kind(node)
            if self.peek() == "[":
                self.attributes(node, declared)
        node.range = SourceRange(self.source, start, self.position)
        self.expect("(")
        self.list_of(lambda: node.add_input(self.use()), ")")
        self.check_attributes(node, start)
        if node.kind == "prim::Constant":
            self.function_constant(node, start)
        scope = self._match(_SCOPE)
        node.scope = scope.group(1) if scope else ""
        block.append(node)
        self.nested_blocks(node)
        self.define_outputs(node, outputs)
        if node.kind == "prim::Constant" and declared is not None:
            fault = constant_fault(node)
            if fault is not None:
                self.fail_at(start, len(node.kind), fault)

    def outputs(self) -> list[tuple[str, Type | None, int]]:
        """Name, declared type and place of each output."""
        found: list[tuple[str, Type | None, int]] = []
        if self.peek() != "%":
            self.accept("=")
            return found

        def output() -> None:
            name, start = self.name()
            found.append((name, self.declared_type(), start))

        self.list_of(output, "=")
        return found

    def kind(self, node: Node) -> str:
        kind = self.matched(_KIND, "the kind of a node, like aten::add")
        numbered = _NUMBERED.fullmatch(kind)
        if kind in self.group_kinds and numbered and int(numbered.group(2)) == len(self.scope.groups):
            self.scope.groups.append(node)
            return numbered.group(1)
        return kind

    def attributes(self, node: Node, type: Type | None) -> None:
        def attribute() -> None:
            start = self.position
            name = self.matched(_NAME, "the name of an attribute")
            if name in node.attributes:
                self.fail_at(start, len(name), f"attribute {name} is given twice")
            self.expect("=")
            is_constant = node.kind == "prim::Constant" and name == "value"
            node.attributes[name] = self.value(type if is_constant else None)

        self.expect("[")
        self.list_of(attribute, "]")

    def check_attributes(self, node: Node, start: int) -> None:
        """Refuse attributes that the node's kind does not have, and values of another kind."""
        if node.has(Trait.REACHES_OUT):
            self.fail_at(
                start, len(node.kind), f"{node.kind} touches files or networks, which no graph that is read may do"
            )
        unknown = undeclared(node)
        if unknown is not None:
            known = declared_attributes(node.kind) or {}
            hint = did_you_mean(unknown, known)
            self.fail_at(start, len(node.kind), f"{node.kind} has no attribute {unknown}", hint=hint)
        fault = attribute_fault(node) or owner_fault(node)
        if fault is not None:
            self.fail_at(start, len(node.kind), fault)

    def python_operation(self, node: Node) -> None:
        """`^name[attributes](scalars)`."""
        start = self.position
        name = self.matched(_PYTHON_NAME, "the name of a Python function")[1:]
        node.kind = "prim::PythonOp"
        node.attributes["name"] = name
        if self.peek() == "[":
            self.attributes(node, None)
        scalars: list[object] = []
        self.expect("(")
        self.list_of(lambda: scalars.append(self.value()), ")")
        if scalars:
            node.attributes["scalars"] = tuple(scalars)
        if self.functions is not None:
            node.attributes["callable"] = self.function(name, start, len(name) + 1)

    def function_constant(self, node: Node, start: int) -> None:
        name = node.attributes.get("name")
        if name is not None and self.functions is not None:
            node.attributes["value"] = self.function(name, start, self.position - start)

    def function(self, name: str, start: int, length: int) -> object:
        functions = self.functions or {}
        if name not in functions:
            self.fail_at(start, length, f"unknown function {name}", hint=did_you_mean(name, functions))
        return functions[name]

    def define_outputs(self, node: Node, outputs: list[tuple[str, Type | None, int]]) -> None:
        for (name, declared, start), inferred in zip(outputs, self.schema_types(node, outputs), strict=True):
            self.define(node.add_output(declared or inferred), name, start)

    def schema_types(self, node: Node, outputs: list[tuple[str, Type | None, int]]) -> list[Type]:
        """What each output is unless a type is declared: the schema's type, Tensor where there is none."""
        resolved = node.op
        if resolved is None or resolved.fn is None or resolved.schema.is_varret or not outputs:
            return [T.TENSOR] * len(outputs)
        schema = resolved.schema
        self._check_outputs(node, outputs, schema)
        bindings: dict[str, Type] = {}
        for argument, value in zip(schema.arguments, node.inputs, strict=False):
            T.match_variables(argument.type, value.type, bindings)
        bound = [T.substitute(returned.type, bindings) for returned in schema.returns]
        return [T.TENSOR if T.has_variables(t) or t is T.ANY else t for t in bound]

    def _check_outputs(self, node: Node, outputs: list[tuple[str, Type | None, int]], schema: Schema) -> None:
        """Refuse outputs of another number than the schema has, and declared types that they cannot have."""
        first, _, start = outputs[0]
        if len(schema.returns) != len(outputs):
            message = f"{node.kind} has {len(schema.returns)} outputs, not {len(outputs)}"
            self.fail_at(start, len(first) + 1, message, expected=str(schema))
        for (name, declared, start), returned in zip(outputs, schema.returns, strict=True):
            if declared is not None and not T.has_variables(returned.type) and not _may_have(declared, returned.type):
                message = f"%{name} cannot be of type {declared}"
                self.fail_at(start, len(name) + 1, message, expected=f"{returned.type}, by {schema}")


def _may_have(declared: Type, formal: Type) -> bool:
    """May an output of type `formal` be declared as `declared`, which says more or less than it?"""
    declared, formal = T.unshaped(declared), T.unshaped(formal)
    return T.is_subtype(declared, formal) or T.is_subtype(formal, declared)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and str(int(name)) == name
