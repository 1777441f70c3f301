"""A graph as a function of Python that people can read: the statements of `jitlite.codegen.python.python_tier`, spelled
with the names that torch and Python give to operations, `with` and `raise` as statements, variables with good names.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from jitlite.base.source import NotSupportedError
from jitlite.codegen.python.python_tier import FunctionWriter
from jitlite.export.to_python import python_helpers
from jitlite.export.to_python.embedded_functions import embedded, refusal
from jitlite.export.to_python.known_functions import same_function_of_torch
from jitlite.export.to_python.python_checks import check_text
from jitlite.export.to_python.python_file import USUAL, PythonFile
from jitlite.export.to_python.python_layout import laid_out
from jitlite.export.to_python.python_names import is_attribute_name, method_name, parameter_name
from jitlite.export.to_python.python_spelling import call, spelled
from jitlite.export.to_python.python_variables import ModulePath, wanted_name
from jitlite.export.to_python.readable_graph import NEW, matching_exit, with_calls_of_classes, with_paths
from jitlite.interpreter.python_code import Line
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
    indented,
    joined,
    literal,
    made_identifier,
    named_hole,
    numbered,
    substituted,
)
from jitlite.ir.graph import Graph, Node, Value, constant_of, is_constant
from jitlite.ir.schema import Argument, Schema
from jitlite.ir.traits import Trait
from jitlite.ir.unit import Function, called_function, passed_arguments
from jitlite.operators.python_forms import CannotTranslate, Form, assigned_attribute, attribute_of

_SHADOWED = re.compile(r"(?<![\w.])(len|bool|int|float|abs|list|id|range|print|hash|isinstance)\(")
_OVERLOAD = re.compile(r"__\d+$")
_DEEPEST = 4
"""Operations within one another, beyond which lines are hard to read."""


def function_lines(file: PythonFile, function: Function, name: Identifier, *, is_method: bool = False) -> list[str]:
    """The lines of a function.

    Raises:
        NotSupportedError: there is something in it that Python with torch cannot say; the error names it.
    """
    try:
        writer = ReadableFunctionWriter(file, with_calls_of_classes(function.graph), function.schema, name)
        writer.parameters_of = function.graph
        return writer.source(is_method)
    except CannotTranslate as error:
        raise NotSupportedError(f"'{function.name}' cannot be written as Python: {error}", function.range) from None


class ReadableFunctionWriter(FunctionWriter):
    """Writes one function."""

    deepest = _DEEPEST

    def __init__(self, file: PythonFile, graph: Graph, schema: Schema, name: Identifier) -> None:
        self.file = file
        self.schema = schema
        self._opened: list[int] = []
        """Where the bodies of the `with` statements begin that are being written."""
        if schema.arguments:
            with_paths(graph, schema.arguments[0].name, self._path)
        self.parameters_of: Graph | None = None
        """The graph, before it was copied to be written."""
        super().__init__(graph, name, _no_runner)
        self.name: Identifier = name
        self.has_contexts = False
        self.taken |= USUAL | set(file.names_in_use)
        self._name_parameters()
        self._name_variables()

    # -- names
    def _name_parameters(self) -> None:
        for value, argument in zip(self.graph.inputs, self.schema.arguments, strict=True):
            variable = self.variables[value]
            variable.name = parameter_name(argument.name)
            self.file.parameters.add(variable.name)
            self.taken.add(variable.name)

    def _name_variables(self) -> None:
        parameters = {self.variables[v] for v in self.graph.inputs}
        used = {v.name for v in parameters}
        kept = {*USUAL, *self.file.names_in_use, *used}
        numbers: dict[str, int] = {}
        for variable in sorted(self.variables, key=lambda v: v.ranges[0] if v.ranges else (0, 0)):
            if variable in parameters:
                continue
            wanted = wanted_name(variable)
            name = wanted
            while name in kept or name in self.file.reserved:
                numbers[wanted] = numbers.get(wanted, 1) + 1
                name = numbered(wanted, numbers[wanted])
            kept.add(name)
            variable.name = name
            self.file.variables.add(name)
        self.taken |= kept

    def fresh(self, base: Identifier) -> Identifier:
        name = super().fresh(made_identifier(base.strip("_")))
        self.file.variables.add(name)
        return name

    def bind(self, value: object, base: str) -> Text:  # type: ignore[override]
        if value is itertools.count:
            return code("{}.count", self.file.imported("itertools"))
        raise NotSupportedError(f"'{base}' has no name in Python", self.place.range if self.place else None)

    def _is_expression(self, node: Node) -> bool:
        if len(node.outputs) == 1 and node.output.has_name and not node.has(Trait.ALWAYS_NESTED):
            use = node.output.uses[0].user if node.output.use_count == 1 else None
            if use is None or use.kind != "prim::Return":
                return False
        return super()._is_expression(node)

    # -- the whole
    def code(self) -> Any:
        raise AssertionError("the function is source, not code")

    def source(self, is_method: bool) -> list[str]:
        """The lines of the function."""
        self.write("def {}({}) -> {}:", self.name, joined(", ", self._parameters(is_method)), self._returned())
        with self.indented():
            self.block(self.graph.block)
            if not self._never_returns():
                self.returned()
        text = "\n".join(line.text for line in self.lines)
        text = ast.unparse(ast.parse(text))  # which leaves out parentheses that are not needed
        return [line for written in text.splitlines() for line in laid_out(written)]

    def _never_returns(self) -> bool:
        return bool(self.lines) and self.lines[-1].text.strip().startswith("raise ") and self._depth_of_last() == 1

    def _depth_of_last(self) -> int:
        text = self.lines[-1].text
        return (len(text) - len(text.lstrip())) // 4

    def returned(self) -> None:
        outputs = self.graph.outputs
        if len(outputs) == 1 and is_constant(outputs[0]) and constant_of(outputs[0]) is None:
            if len(self.lines) == 1:
                self.write("return None")
            return
        super().returned()

    def _parameters(self, is_method: bool) -> list[Text]:
        written: list[Text] = []
        arguments = self.schema.arguments
        star = _first_keyword(arguments)
        last = max((i for i, a in enumerate(arguments[:star]) if not a.has_default), default=-1)
        for i, (argument, value) in enumerate(zip(arguments, self.graph.inputs, strict=True)):
            name = self.variables[value].name
            if i == star:
                written.append(fixed("*"))
            if i == 0 and is_method:
                written.append(name)
                continue
            text = code("{}: {}", name, self.file.annotation(argument.type))
            if argument.has_default and (i > last or (star is not None and i >= star)):
                text = code("{} = {}", text, self._default(argument, i))
            written.append(text)
        return written

    def _default(self, argument: Argument, position: int) -> Text:
        value = argument.default
        if self.parameters_of is not None:
            value = self.file.kinds.object_of_parameter(self.parameters_of.inputs[position], value)
        if isinstance(argument.type, T.ListType) and argument.size is not None and isinstance(value, int | float):
            value = [value] * argument.size
        return self.file.constant(value, self.place.range if self.place else None)

    def _returned(self) -> Text:
        return self.file.annotation(self.schema.returns[0].type) if self.schema.returns else literal(None)

    # -- expressions
    def marked(self, text: Text, node: Node) -> Text:
        return text

    def forget(self, values: Sequence[Value]) -> None:
        pass

    def _last_uses(self) -> dict[Node, list[Value]]:
        return {}

    def _path(self, node: Node, owner: Text) -> Text:
        return filled(self.attribute(node).template, owner)

    def constant(self, value: object, in_expression: bool) -> Text:
        if isinstance(value, ModulePath):
            return value
        text = self.file.constant(value, self.place.range if self.place else None)
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
        writer = ReadableFunctionWriter(self.file, with_calls_of_classes(graph), schema, name)
        self.file.blocks["functions"].append(writer.source(is_method=False))
        given = joined(", ", [name, *map(hole, range(len(node.inputs)))])
        if node.kind == "prim::fork":
            return Form(code("{}({})", embedded(self.file, python_helpers.fork, node), given))
        return Form(code("{}._C._awaitable({})", self.file.imported("torch"), given))

    def python_call(self, node: Node) -> Form:
        function = node.attributes.get("callable")
        with suppress(NotSupportedError):
            return call(self.file.dotted(function), len(node.inputs))
        name = node.attributes.get("name") or getattr(function, "__qualname__", "?")
        raise NotSupportedError(
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
        if constant_of(message, None) == "":
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
    def statement(self, node: Node) -> None:
        own = _STATEMENTS.get(node.kind)
        if own is not None and node not in self.nesting.conditional:
            own(self, node)
        else:
            super().statement(node)

    def raise_(self, node: Node) -> None:
        template = self.exception_text(node)
        self.write("raise {}", filled(template, self.text(node.inputs[0], node)))

    def raise_again(self, node: Node) -> None:
        text = self.text(node.inputs[0], node)
        if isinstance(node.inputs[0].type, T.OptionalType):
            self.write("if {} is not None:", text)
            self.lines.append(Line(indented(code("raise {}", text), self.indent + 1), self.place))
        else:
            self.write("raise {}", text)

    def raise_from(self, node: Node) -> None:
        error, cause = (self.text(v, node) for v in node.inputs)
        self.write("raise {} from {}", error, cause)

    def warn(self, node: Node) -> None:
        self.write("{}.warn({})", self.file.imported("warnings"), self.text(node.inputs[0], node))

    def unpack_into(self, node: Node) -> None:
        names = [self.variables[v].name if v.has_uses else made_identifier("_") for v in node.outputs]
        self.unpack(names, self.text(node.inputs[0], node))

    def enter(self, node: Node) -> None:
        if matching_exit(node) is None:
            raise NotSupportedError("a context that is not left in the block where it is entered", node.range)
        manager = self.text(node.inputs[0], node)
        if node.outputs and node.output.has_uses:
            self.write("with {} as {}:", manager, self.variables[node.output].name)
        else:
            self.write("with {}:", manager)
        self.indent += 1
        self._opened.append(len(self.lines))

    def exit(self, node: Node) -> None:
        if self._opened.pop() == len(self.lines):
            self.write("pass")
        self.indent -= 1

    def try_(self, node: Node) -> None:
        body, handler = node.blocks
        name = self.variables[handler.inputs[0]].name
        self.write("try:")
        with self.indented():
            self.lines += self.branch_at(node, body)
        self.write("except {} as {}_caught:", self.file.builtin("BaseException"), name)
        with self.indented():
            self.write("{} = {}_caught", name, name)
            self.lines += self.branch_at(node, handler)


def _no_runner(function: Function) -> Callable[..., Any]:
    raise AssertionError("nothing is run")


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


_FORMS: dict[str, Callable[[ReadableFunctionWriter, Node], Form]] = {
    "prim::GetAttr": ReadableFunctionWriter.attribute,
    "prim::SetAttr": ReadableFunctionWriter.set_attribute,
    "prim::TupleConstruct": ReadableFunctionWriter.tuple_,
    "prim::TupleIndex": ReadableFunctionWriter.tuple_index,
    "prim::CallFunction": ReadableFunctionWriter.call_function,
    "prim::CallMethod": ReadableFunctionWriter.call_method,
    "prim::CreateObject": ReadableFunctionWriter.create,
    NEW: ReadableFunctionWriter.new,
    "prim::isinstance": ReadableFunctionWriter.isinstance_,
    "prim::fork": ReadableFunctionWriter.deferred,
    "prim::awaitable": ReadableFunctionWriter.deferred,
    "prim::PythonOp": ReadableFunctionWriter.python_call,
    "prim::IgnoredPythonOp": ReadableFunctionWriter.python_call,
    "prim::MakeException": ReadableFunctionWriter.exception,
    "prim::IsException": ReadableFunctionWriter.is_exception,
    "prim::NewException": ReadableFunctionWriter.new_exception,
    "prim::Uninitialized": lambda writer, node: Form(fixed("None")),
    "prim::checked_cast": ReadableFunctionWriter.checked_cast,
    "prim::Print": lambda writer, node: call(writer.file.builtin("print"), len(node.inputs)),
    "aten::wait": lambda writer, node: Form(fixed("{0}.wait()")),
    "prim::awaitable_wait": lambda writer, node: call(code("{}._C._awaitable_wait", writer.file.imported("torch")), 1),
    "prim::awaitable_nowait": lambda writer, node: call(
        code("{}._C._awaitable_nowait", writer.file.imported("torch")), 1
    ),
}
"""Kinds whose form depends on the program around the node."""

_STATEMENTS: dict[str, Callable[[ReadableFunctionWriter, Node], None]] = {
    "prim::RaiseException": ReadableFunctionWriter.raise_,
    "prim::Raise": ReadableFunctionWriter.raise_again,
    "prim::RaiseFrom": ReadableFunctionWriter.raise_from,
    "prim::Enter": ReadableFunctionWriter.enter,
    "prim::Exit": ReadableFunctionWriter.exit,
    "prim::Try": ReadableFunctionWriter.try_,
    "aten::warn": ReadableFunctionWriter.warn,
    "prim::TupleUnpack": ReadableFunctionWriter.unpack_into,
    "prim::ListUnpack": ReadableFunctionWriter.unpack_into,
}
