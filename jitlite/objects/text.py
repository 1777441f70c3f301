"""Programs given as text: functions, methods and classes, compiled into a program.

What a name means in a text is said by the one who gives the text; functions and classes of the text itself come first,
and those that earlier texts have brought into the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from types import MethodType
from typing import Any

from jitlite.base.errors.names import PYTHON_ERROR
from jitlite.base.records import Record
from jitlite.base.source import CompileError
from jitlite.compiler.program import Program, compiling
from jitlite.frontend.classes.text_classes import TextClasses
from jitlite.frontend.emit.definition import Definition
from jitlite.frontend.emit.objects import ObjectDefinition
from jitlite.frontend.emit.resolver import Resolver
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.python_ast import parse_functions
from jitlite.frontend.syntax.text_definitions import parse_definitions
from jitlite.interpreter.binding import bind_arguments
from jitlite.ir.schema import function_schema
from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE
from jitlite.objects.function import ScriptFunction


class Defined(Record, eq=True, frozen=False):
    """What a text has brought: functions and classes by name."""

    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, type] = field(default_factory=dict)


def define_text(
    program: Program,
    text: str,
    names: Mapping[str, object] | None = None,
    *,
    lookup: Callable[[str], Any] | None = None,
    filename: str | None = None,
    prefix: str = "__torch__",
) -> Defined:
    """Compile the functions and classes of a text. They may refer to each other in any order.

    Args:
        program: where they go.
        names: what names mean that the text does not define.
        lookup: gives the meaning of names that `names` does not hold, None where they have none.
        filename: for errors.
        prefix: what qualified names start with.

    Raises:
        CompileError: where the text, or something in it, is not TorchScript; then the program is as before.
    """
    known: dict[str, object] = {**(names or {}), **program.defined}
    resolver = Resolver(known, lookup, program.type_of_class)
    defaults, literal = partial(_defaults, program, resolver), partial(_constant, program, resolver)
    found = Defined()
    classes = TextClasses(program, known, resolver, defaults, literal, prefix)
    with compiling():
        before = program.unit.copy()
        try:
            parsed = parse_definitions(text, filename)
            classes.define([d for d in parsed if isinstance(d, tree.ClassDef)])
            found.classes.update(classes.made)
            for definition in parsed:
                if isinstance(definition, tree.Def):
                    name = definition.name.name
                    made = Definition(name, definition, resolver, defaults(definition))
                    known[name] = found.functions[name] = program.declare(made, qualified=f"{prefix}.{name}")
            for cls in found.classes.values():
                _compile_class(cls)
            for function in found.functions.values():
                program.ready(function)
        except BaseException:
            program.restore(before)
            raise
    program.defined.update({**found.functions, **found.classes})
    for cls in found.classes.values():
        let_python_call(cls, program)
    return found


def _compile_class(cls: type) -> None:
    made = vars(cls).get(CLASS_TYPE)
    if isinstance(made, ClassType):
        made.definition.compile_all()


def define_methods(definition: ObjectDefinition, text: str, names: Mapping[str, object]) -> None:
    """Add the methods of a text to a class, and compile them.

    Raises:
        CompileError: where the text is not TorchScript; then nothing has been added.
    """
    before = dict(definition.type.methods)
    program = definition.program
    resolver = Resolver(names, class_types=program.type_of_class)
    assert isinstance(program, Program)
    try:
        with compiling():
            added = [
                definition.add(d.name.name, Definition(d.name.name, d, resolver, _defaults(program, resolver, d)))
                for d in parse_functions(text, is_method=True)
            ]
            for function in added:
                program.ready(function)
    except BaseException:
        definition.type.methods.clear()
        definition.type.methods.update(before)
        raise


# -- constants in a text


def _defaults(program: Program, resolver: Resolver, definition: tree.Def) -> dict[str, object]:
    """Values of the defaults of parameters."""
    defaults = {p.ident.name: p.default for p in definition.decl.params if p.default is not None}
    return {name: _constant(program, resolver, expr) for name, expr in defaults.items()}


def _constant(program: Program, resolver: Resolver, expr: tree.Expr) -> object:
    """The value of an expression that is computed when the text is defined.

    Raises:
        CompileError: where it does not compile.
    """
    try:
        return literal_value(expr)
    except ValueError:
        pass
    body = (tree.Return(expr, range=expr.range),)
    name = tree.Ident("constant", range=expr.range)
    definition = tree.Def(name, tree.Decl((), None, range=expr.range), body, range=expr.range)
    function = program.declare(Definition("constant", definition, resolver, {}))
    try:
        value = program.ready(function)()
    except CompileError:
        raise
    except Exception as error:
        raise PYTHON_ERROR(f"the constant cannot be computed: {type(error).__name__}: {error}", expr.range) from error
    finally:
        program.forget(function)
    return value


def literal_value(expr: tree.Expr) -> object:
    """The value of an expression that is a literal.

    Raises:
        ValueError: it is none.
    """
    if isinstance(expr, tree.Const | tree.StringLiteral):
        return expr.value
    if isinstance(expr, tree.TrueLiteral | tree.FalseLiteral):
        return isinstance(expr, tree.TrueLiteral)
    if isinstance(expr, tree.NoneLiteral):
        return None
    if isinstance(expr, tree.UnaryOp) and expr.op == "unary minus" and isinstance(expr.operand, tree.Const):
        return -expr.operand.value
    if isinstance(expr, tree.TupleLiteral):
        return tuple(literal_value(e) for e in expr.elements)
    if isinstance(expr, tree.ListLiteral):
        return [literal_value(e) for e in expr.elements]
    raise ValueError("no literal")


# -- classes of a text as Python sees them


class _TextMethod(ScriptFunction):
    """A compiled method as an attribute of its class."""

    def __init__(self, program: Program, function: Function, cls: type) -> None:
        super().__init__(program, function)
        self._owner = cls
        schema = function.schema
        self._others = function_schema(schema.name, schema.arguments[1:], [r.type for r in schema.returns])

    def __get__(self, owner: object, cls: object = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def _bind(self, args: Sequence[object], kwargs: dict[str, Any]) -> list[Any]:
        if not args or not isinstance(args[0], self._owner):
            raise TypeError(f"the first argument of {self.name}() has to be an object of {self._owner.__name__}")
        return [args[0], *bind_arguments(self._others, args[1:], kwargs)]


_OPERATORS = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor"
SPECIAL_METHODS = frozenset(
    f"__{name}__"
    for name in (
        "init call len getitem setitem delitem contains iter next bool int float complex index str repr abs round "
        f"trunc eq ne lt le gt ge hash neg pos invert enter exit {_OPERATORS} "
        + " ".join(f"r{n} i{n}" for n in _OPERATORS.split())
    ).split()
)
"""Special methods that scripts have a use for. The others are Python's means to change what objects are."""


def let_python_call(cls: type, program: Program, *, is_trusted: bool = True) -> None:
    """Give a class its compiled methods as attributes, so that Python calls them too.

    Args:
        is_trusted: also those that Python would call on its own when an object is copied, looked at or forgotten.
    """
    made = vars(cls).get(CLASS_TYPE)
    if not isinstance(made, ClassType):
        return
    for name, function in made.methods.items():
        if is_trusted or name in SPECIAL_METHODS or not name.startswith("__"):
            setattr(cls, name, _TextMethod(program, function, cls))
    if "__eq__" in made.methods and "__hash__" not in made.methods:
        cls.__hash__ = None  # type: ignore[assignment]  # as a class statement does
