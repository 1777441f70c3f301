"""A graph as a function of Python that people can read: the statements of `codegen/structured.py`, spelled with the
names that torch and Python give to operations, `with` and `raise` as statements, variables with good names.
"""

from __future__ import annotations

import builtins
import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.base.records import Record
from jitlite.base.source import NotSupportedError
from jitlite.codegen.python.python_writer import PythonWriter
from jitlite.codegen.range_loops import with_range_loops
from jitlite.codegen.region_calls import with_open_regions
from jitlite.codegen.structured import Rules, Structure
from jitlite.codegen.tree import Body, Constant, GuardedRegion, Operation, Perform, ReturnValues, Statement, TryBlock
from jitlite.codegen.variables import Variable, Variables, unused
from jitlite.export.to_python import python_helpers
from jitlite.export.to_python.embedded_functions import embedded, refusal
from jitlite.export.to_python.known_functions import same_function_of_torch
from jitlite.export.to_python.python_checks import check_text
from jitlite.export.to_python.python_file import USUAL, PythonFile
from jitlite.export.to_python.python_layout import laid_out
from jitlite.export.to_python.python_names import is_attribute_name, method_name, parameter_name
from jitlite.export.to_python.python_spelling import call, spelled
from jitlite.export.to_python.python_variables import ModulePath, wanted_name
from jitlite.export.to_python.readable_graph import NEW, with_calls_of_classes, with_paths
from jitlite.interpreter.code import CodePlace
from jitlite.interpreter.run_time_types import as_at_run_time
from jitlite.ir import types as T
from jitlite.ir.code_text import (
    Identifier,
    Text,
    code,
    doubled,
    filled,
    fixed,
    hole,
    holes,
    identifier,
    joined,
    literal,
    made_identifier,
    named_hole,
    numbered,
    substituted,
    unparsed,
)
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Trait
from jitlite.ir.unit import Function, called_function, passed_arguments
from jitlite.operators.prims import exception_class, shows_empty_text
from jitlite.operators.python_forms import CannotTranslate, Form, assigned_attribute, attribute_of

_SHADOWED = re.compile(r"(?<![\w.])(len|bool|int|float|abs|list|id|range|print|hash|isinstance)\(")
_OVERLOAD = re.compile(r"__\d+$")
_DEEPEST = 4
"""Operations within one another, beyond which lines are hard to read."""


def function_lines(file: PythonFile, function: Function, name: Identifier, *, is_method: bool = False) -> list[Text]:
    """The lines of a function.

    Raises:
        NotSupportedError: there is something in it that Python with torch cannot say; the error names it.
    """
    graph = with_calls_of_classes(function.graph)
    try:
        return _Signature(file, function.schema, name, is_method, function.graph).with_body(graph)
    except CannotTranslate as error:
        raise NOT_AS_PYTHON(f"'{function.name}' cannot be written as Python: {error}", function.range) from None


class _Signature(Record, eq=True):
    """A function as it is declared.

    Attributes:
        parameters_of: the graph, before it was copied to be written.
    """

    file: PythonFile
    schema: Schema
    name: Identifier
    is_method: bool = False
    parameters_of: Graph | None = None

    def with_body(self, graph: Graph) -> list[Text]:
        """The lines of the function with the body that the graph says."""
        words = ReadableVocabulary(self.file)
        if self.schema.arguments:
            with_paths(graph, self.schema.arguments[0].name, words.path)
        graph = with_open_regions(with_range_loops(graph), ()).graph
        rules = Rules(
            words.is_expression, words.is_in_order, words.is_statement, _DEEPEST, has_with=True, skips_unread=True
        )
        made = Structure(graph, rules)
        taken = self._name_variables(graph, made.variables)
        function = made.function()
        numbers: dict[Identifier, int] = {}
        for temporary in function.temporaries:
            temporary.name = unused(made_identifier(temporary.name.strip("_")), taken, numbers)
            self.file.variables.add(temporary.name)
        writer = PythonWriter(words)
        parameters = joined(", ", self._parameters(function.parameters))
        writer.write("def {}({}) -> {}:", self.name, parameters, self._returned())
        writer.body(_without_last_return(function.body))
        return [line for written in unparsed(line.text for line in writer.lines) for line in laid_out(written)]

    def _name_variables(self, graph: Graph, variables: Variables) -> set[str]:
        """Give the parameters and variables their names; gives all that are taken."""
        file = self.file
        taken = {*variables.names, *dir(builtins), *USUAL, *file.names_in_use}
        kept = {*USUAL, *file.names_in_use}
        for value, argument in zip(graph.inputs, self.schema.arguments, strict=True):
            name = variables[value].name = parameter_name(argument.name)
            file.parameters.add(name)
            kept.add(name)
        parameters = {variables[v] for v in graph.inputs}
        numbers: dict[str, int] = {}
        for variable in sorted(variables, key=lambda v: v.ranges[0] if v.ranges else (0, 0)):
            if variable in parameters:
                continue
            wanted = wanted_name(variable)
            name = wanted
            while name in kept or name in file.reserved:
                numbers[wanted] = numbers.get(wanted, 1) + 1
                name = numbered(wanted, numbers[wanted])
            kept.add(name)
            variable.name = name
            file.variables.add(name)
        return taken | kept

    def _parameters(self, variables: Sequence[Variable]) -> list[Text]:
        written: list[Text] = []
        arguments = self.schema.arguments
        star = _first_keyword(arguments)
        last = max((i for i, a in enumerate(arguments[:star]) if not a.has_default), default=-1)
        for i, (argument, variable) in enumerate(zip(arguments, variables, strict=True)):
            if i == star:
                written.append(fixed("*"))
            if i == 0 and self.is_method:
                written.append(variable.name)
                continue
            text = code("{}: {}", variable.name, self.file.annotation(argument.type))
            may_have_default = i > last or (star is not None and i >= star)
            written.append(self._with_default(text, argument, i) if may_have_default else text)
        return written

    def _with_default(self, text: Text, argument: Argument, position: int) -> Text:
        return code("{} = {}", text, self._default(argument, position)) if argument.has_default else text

    def _default(self, argument: Argument, position: int) -> Text:
        value = argument.default
        if self.parameters_of is not None:
            value = self.file.kinds.object_of_parameter(self.parameters_of.inputs[position], value)
        if isinstance(argument.type, T.ListType) and argument.size is not None and isinstance(value, int | float):
            value = [value] * argument.size
        return self.file.constant(value)

    def _returned(self) -> Text:
        return self.file.annotation(self.schema.returns[0].type) if self.schema.returns else literal(None)


def _without_last_return(body: Body) -> Body:
    """The body without a `return` at its end that nothing reaches, or that gives None as the end does."""
    before, last = body[:-1], body[-1]
    if not before or not isinstance(last, ReturnValues):
        return body
    gives_none = [isinstance(v, Constant) and v.value is None for v in last.values] == [True]
    return before if gives_none or _always_raises(before[-1]) else body


def _always_raises(statement: Statement) -> bool:
    if not isinstance(statement, Perform):
        return False
    node = statement.operation.node
    if node.kind == "prim::Raise":
        return not isinstance(node.inputs[0].type, T.OptionalType)
    return node.kind in ("prim::RaiseException", "prim::RaiseFrom")


class ReadableVocabulary:
    """Spells operations as somebody does who writes Python for torch."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.forms: dict[Node, Form] = {}

    def bind(self, value: object, base: str, place: CodePlace | None) -> Text:
        if value is itertools.count:
            return code("{}.count", self.file.imported("itertools"))
        raise NOT_AS_PYTHON(f"'{base}' has no name in Python", place.range if place else None)

    def path(self, node: Node, owner: Text) -> Text:
        """The path of a submodule, of that of the module it is in."""
        return filled(self.attribute(node).template, owner)

    def constant(self, value: object, in_expression: bool, place: CodePlace | None) -> Text:
        if isinstance(value, ModulePath):
            return value
        text = self.file.constant(value, place.range if place else None)
        return code("({})", text) if in_expression and isinstance(value, int | float) and text.startswith("-") else text

    def form(self, node: Node) -> Form:
        found = self.forms.get(node)
        if found is None:
            special = _FORMS.get(node.kind)
            found = special(self, node) if special else spelled(self.file, node)
            if self.file.avoided:
                template = substituted(_SHADOWED, lambda m: code("{}(", self.file.builtin(m.group(1))), found.template)
                found = Form(template, found.function, found.in_order, found.is_atom, found.is_statement,
                             found.gives_sequence, found.constants)  # fmt: skip
            self.forms[node] = found
        return found

    def is_expression(self, node: Node) -> bool:
        """Can the node be written as an expression?"""
        if len(node.outputs) == 1 and node.output.has_name and not node.has(Trait.ALWAYS_NESTED):
            use = node.output.uses[0].user if node.output.use_count == 1 else None
            if use is None or use.kind != "prim::Return":
                return False
        if node.has(Trait.IS_STATEMENT) or node.has(Trait.SPREADS):
            return False
        return not self.form(node).is_statement

    def is_statement(self, node: Node) -> bool:
        """Is the node a statement that `perform` writes?"""
        return node.kind in _STATEMENTS or self.form(node).is_statement

    def is_in_order(self, node: Node) -> bool:
        """Are the operands of the node evaluated from first to last?"""
        return node.has(Trait.IS_STATEMENT) or self.form(node).in_order

    # -- forms of kinds
    def attribute(self, node: Node) -> Form:
        name, owner = node.attributes["name"], node.inputs[0].type
        if name.isdecimal() and name.isascii() and isinstance(owner, T.ClassType) and self.file.is_sequence(owner):
            return Form(code("{{0}}[{}]", int(name)))
        return Form(attribute_of(name) if is_attribute_name(name) else code("getattr({{0}}, {})", _escaped(name)))

    def set_attribute(self, node: Node) -> Form:
        name, owner = node.attributes["name"], node.inputs[0].type
        if isinstance(owner, T.ClassType) and owner.is_frozen:
            return Form(code("object.__setattr__({{0}}, {}, {{1}})", _escaped(name)))
        plain = is_attribute_name(name)
        template = assigned_attribute(name) if plain else code("setattr({{0}}, {}, {{1}})", _escaped(name))
        return Form(template, in_order=False, is_statement=True)

    def tuple_(self, node: Node) -> Form:
        made = node.output.type
        items = holes(range(len(node.inputs)))
        if isinstance(made, T.TupleType) and made.names is not None:
            cls: object = made.python_class
            if cls is not None and hasattr(cls, "n_sequence_fields"):
                return Form(code("{}(({},))", self.file.dotted(cls), items))
            return Form(code("{}({})", self.file.type_name(made), items))
        return Form(code("({},)", items) if len(node.inputs) == 1 else code("({})", items))

    def tuple_index(self, node: Node) -> Form:
        held, index = node.inputs[0].type, constant_of(node.inputs[1], None)
        names = held.names if isinstance(held, T.TupleType) and held.names is not None else ()
        is_known = isinstance(index, int) and -len(names) <= index < len(names)
        if is_known and is_attribute_name(names[index]):
            return Form(attribute_of(names[index]))
        return Form(fixed("{0}[{1}]"))

    def call_function(self, node: Node) -> Form:
        callee = called_function(node)
        if callee is None:
            raise refusal(node, "the function is only a name here")
        known = same_function_of_torch(callee)
        if known is None:
            name = self.file.function(callee)
        else:
            name = code("{}.{}", self.file.imported("F"), identifier(known))
        return Form(code("{}({})", name, self._arguments(passed_arguments(node), callee.schema.arguments)))

    def call_method(self, node: Node) -> Form:
        name, owner = node.attributes["name"], node.inputs[0].type
        callee = called_function(node)
        arguments = callee.schema.arguments[1:] if callee is not None else ()
        written = self._arguments(node.inputs[1:], arguments, 1)
        if owner in self.file.of_torch:
            name = _OVERLOAD.sub("", name)  # torch's own class has the function that chooses
        if name == "forward" and isinstance(owner, T.ClassType) and not self.file.has_hooks(owner):
            return Form(code("{{0}}({})", written))
        return Form(code("{{0}}.{}({})", method_name(name), written))

    def _arguments(self, values: Sequence[Value], arguments: Sequence[Argument], first: int = 0) -> Text:
        """The arguments of a call, without those behind that are the defaults."""
        count = len(values)
        star = _first_keyword(arguments)
        while count and count <= len(arguments) and _is_simple_default(arguments[count - 1], values[count - 1]):
            count -= 1
        written: list[Text] = []
        for i in range(count):
            named = star is not None and i >= star and i < len(arguments)
            name = parameter_name(arguments[i].name) if named else None
            written.append(hole(i + first) if name is None else named_hole(name, i + first))
        return joined(", ", written)

    def checked_cast(self, node: Node) -> Form:
        raise refusal(node, "a cast that an archive does not prove; let 'isinstance' choose the branch that it is in")

    def new(self, node: Node) -> Form:
        schema = node.attributes["schema"]
        arguments = schema.arguments[1:] if schema is not None else ()
        return Form(code("{}({})", self.file.type_name(node.output.type), self._arguments(node.inputs, arguments)))

    def create(self, node: Node) -> Form:
        name = self.file.type_name(node.output.type)
        return Form(code("{}.__new__({})", name, name))

    def isinstance_(self, node: Node) -> Form:
        given = node.inputs[0].type
        types = [as_at_run_time(t, given) for t in node.attributes["types"]]
        return check_text(self.file, types)

    def deferred(self, node: Node) -> Form:
        graph: Graph = node.attributes["Subgraph"]
        name = self.file.unique(made_identifier("forked" if node.kind == "prim::fork" else "awaitable"))
        arguments = [Argument(f"v{i}", v.type) for i, v in enumerate(graph.inputs)]
        schema = Schema(name, "", tuple(arguments), tuple(Argument("", v.type) for v in graph.outputs))
        lines = _Signature(self.file, schema, name).with_body(with_calls_of_classes(graph))
        self.file.blocks["functions"].append(lines)
        given = joined(", ", [name, *map(hole, range(len(node.inputs)))])
        if node.kind == "prim::fork":
            return Form(code("{}({})", embedded(self.file, python_helpers.fork, node), given))
        return Form(code("{}._C._awaitable({})", self.file.imported("torch"), given))

    def python_call(self, node: Node) -> Form:
        function = node.attributes.get("callable")
        with suppress(NotSupportedError):
            return call(self.file.dotted(function), len(node.inputs))
        name = node.attributes.get("name") or getattr(function, "__qualname__", "?")
        raise NOT_AS_PYTHON(
            f"the Python function '{name}' was left to Python, and its source is not part of the program", node.range,
            hint="let it be compiled, or write it into the source by hand",
        )  # fmt: skip

    def exception(self, node: Node) -> Form:
        """`prim::MakeException`, as an expression."""
        return Form(self.exception_text(node))

    def exception_text(self, node: Node) -> Text:
        message = node.inputs[0]
        named = node.inputs[1] if len(node.inputs) > 1 else None
        cls = constant_of(named, None) if named is not None else None
        if named is not None and not is_constant(named):
            raise refusal(node, "the class of the exception is not known")
        if cls is None:
            text = constant_of(message, None)
            if isinstance(text, str) and text.startswith("AssertionError: "):
                rest = text.removeprefix("AssertionError: ")
                return code("{}({})", self.file.builtin("AssertionError"), _escaped(rest) if rest else fixed(""))
            if isinstance(text, str):
                return code("{}({{0}})", self.file.exception(None))
            make = embedded(self.file, python_helpers.exception_of, node)
            return code("{}({{0}}, {})", make, self.file.exception(None))
        if constant_of(message, None) == "" and not shows_empty_text(exception_class(cls)):
            return code("{}()", self.file.exception(cls))
        return code("{}({{0}})", self.file.exception(cls))

    def is_exception(self, node: Node) -> Form:
        cls = constant_of(node.inputs[1], None)
        if not isinstance(cls, str):
            raise refusal(node, "the class of the exception is not known")
        return Form(code("{}({{0}}, {})", self.file.builtin("isinstance"), self.file.exception(cls)))

    def new_exception(self, node: Node) -> Form:
        cls = constant_of(node.inputs[0], None)
        if not isinstance(cls, str):
            raise refusal(node, "the class of the exception is not known")
        keywords = list(node.attributes.get("keywords", ()))
        first = len(node.inputs) - len(keywords)
        by_position = map(hole, range(1, first))
        by_name = (named_hole(name, i) for i, name in enumerate(keywords, first))
        return Form(code("{}({})", self.file.exception(cls), joined(", ", [*by_position, *by_name])))

    # -- statements
    def perform(self, writer: PythonWriter, statement: Perform) -> None:
        write = _STATEMENTS.get(statement.operation.node.kind)
        if write is not None:
            write(self, writer, statement.operation)
        else:
            writer.by_form(statement)

    def raise_(self, writer: PythonWriter, operation: Operation) -> None:
        writer.formed(self.exception(operation.node), operation, fixed("raise "))

    def raise_again(self, writer: PythonWriter, operation: Operation) -> None:
        (error,) = operation.operands
        if isinstance(operation.node.inputs[0].type, T.OptionalType):
            writer.line(fixed("if "), error, fixed(" is not None:"))
            with writer.indented():
                writer.line(fixed("raise "), error)
        else:
            writer.line(fixed("raise "), error)

    def raise_from(self, writer: PythonWriter, operation: Operation) -> None:
        error, cause = operation.operands
        writer.line(fixed("raise "), error, fixed(" from "), cause)

    def warn(self, writer: PythonWriter, operation: Operation) -> None:
        writer.line(code("{}.warn(", self.file.imported("warnings")), operation.operands[0], fixed(")"))

    def print_text(self, writer: PythonWriter, operation: Operation) -> None:
        text, end, to_stderr = operation.operands
        writer.line(
            code("{}(", self.file.builtin("print")), text, fixed(", end="), end,
            code(", file={}.stderr if ", self.file.imported("sys")), to_stderr, fixed(" else None)"),
        )  # fmt: skip

    def try_(self, writer: PythonWriter, statement: TryBlock) -> None:
        name = statement.error.name
        writer.write("try:")
        writer.body(statement.body)
        writer.write("except {} as {}_caught:", self.file.builtin("BaseException"), name)
        with writer.indented():
            writer.write("{} = {}_caught", name, name)
            writer.statements(statement.handler)

    def region(self, writer: PythonWriter, statement: GuardedRegion) -> None:
        writer.statements(statement.body)


def _first_keyword(arguments: Sequence[Argument]) -> int | None:
    return next((i for i, a in enumerate(arguments) if a.kwarg_only), None)


def _is_simple_default(argument: Argument, value: Value) -> bool:
    if not argument.has_default or argument.kwarg_only or not is_constant(value):
        return False
    found, default = constant_of(value), argument.default
    if found is None or default is None:
        return found is default
    return isinstance(found, int | float | str) and type(found) is type(default) and found == default


def _escaped(name: str) -> Text:
    """A text within a template."""
    return doubled(literal(name))


_FORMS: dict[str, Callable[[ReadableVocabulary, Node], Form]] = {
    "prim::GetAttr": ReadableVocabulary.attribute,
    "prim::SetAttr": ReadableVocabulary.set_attribute,
    "prim::TupleConstruct": ReadableVocabulary.tuple_,
    "prim::TupleIndex": ReadableVocabulary.tuple_index,
    "prim::CallFunction": ReadableVocabulary.call_function,
    "prim::CallMethod": ReadableVocabulary.call_method,
    "prim::CreateObject": ReadableVocabulary.create,
    NEW: ReadableVocabulary.new,
    "prim::isinstance": ReadableVocabulary.isinstance_,
    "prim::fork": ReadableVocabulary.deferred,
    "prim::awaitable": ReadableVocabulary.deferred,
    "prim::PythonOp": ReadableVocabulary.python_call,
    "prim::IgnoredPythonOp": ReadableVocabulary.python_call,
    "prim::MakeException": ReadableVocabulary.exception,
    "prim::IsException": ReadableVocabulary.is_exception,
    "prim::NewException": ReadableVocabulary.new_exception,
    "prim::Uninitialized": lambda words, node: Form(fixed("None")),
    "prim::checked_cast": ReadableVocabulary.checked_cast,
    "prim::Print": lambda words, node: call(words.file.builtin("print"), len(node.inputs)),
    "aten::wait": lambda words, node: Form(fixed("{0}.wait()")),
    "prim::awaitable_wait": lambda words, node: call(code("{}._C._awaitable_wait", words.file.imported("torch")), 1),
    "prim::awaitable_nowait": lambda words, node: call(
        code("{}._C._awaitable_nowait", words.file.imported("torch")), 1
    ),
}
"""Kinds whose form depends on the program around the node."""

_STATEMENTS: dict[str, Callable[[ReadableVocabulary, PythonWriter, Operation], None]] = {
    "prim::RaiseException": ReadableVocabulary.raise_,
    "prim::Raise": ReadableVocabulary.raise_again,
    "prim::RaiseFrom": ReadableVocabulary.raise_from,
    "aten::warn": ReadableVocabulary.warn,
    "python::print": ReadableVocabulary.print_text,
}
"""Kinds that are statements of their own beside those that the tree has a form for."""
