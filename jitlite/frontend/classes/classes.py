"""Script classes: Python classes whose objects scripts make and use.

The attributes of a class are what its `__init__` assigns to `self`, in straight-line code, so `__init__` is compiled
first. Methods are bound by the static type of the object. A base class's methods are compiled anew for every class
that inherits them, so that `self` has one type in each.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import torch

from jitlite.base.errors.calls import WRONG_COUNT
from jitlite.base.errors.classes import FIRST_ASSIGNMENT, FROZEN_FIELD, NO_SCRIPT_CLASS, WRONG_INTERFACE, WRONG_METHOD
from jitlite.base.errors.names import NO_ATTRIBUTE
from jitlite.base.records import replace
from jitlite.base.source import CompileError, NotSupportedError, SourceRange, did_you_mean
from jitlite.frontend.classes.autograd_functions import AutogradFunctionClass
from jitlite.frontend.classes.dataclass_methods import dataclass_method, is_for_python_only
from jitlite.frontend.classes.object_creation import check_creation, takes_any_arguments
from jitlite.frontend.emit.annotations import type_from_python
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import PythonCall
from jitlite.frontend.emit.definition import Definition, FunctionCompiler, Scope
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.functions import declared_schema
from jitlite.frontend.emit.meanings import Mark, Meaning, function_mark, original_function, plain_constant
from jitlite.frontend.emit.objects import InterfaceDefinition, ObjectDefinition
from jitlite.frontend.emit.resolver import FunctionResolver, Resolver
from jitlite.frontend.emit.values import Args, ConstantValue, SimpleValue, SugaredValue
from jitlite.frontend.emit.ways_out import instead_of_class
from jitlite.frontend.syntax.python_ast import function_tree
from jitlite.ir import types as T
from jitlite.ir.constants import module_name, qualified_name
from jitlite.ir.graph import Value
from jitlite.ir.schema import Schema, function_schema
from jitlite.ir.types import ClassType, InterfaceType, Type
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE
from jitlite.operators.overloads import NamedValue

INTERFACE_MARK = "__torch_script_interface__"
"""What `torch.jit.interface` leaves in a class."""

NewProgram = Callable[[], FunctionCompiler]
"""Makes who compiles the methods of a class: each class has a program of its own, as it belongs to no function."""


# -- Python class -> type


def type_of_class(cls: type, new_program: NewProgram) -> Type | None:
    """The type of the objects of a Python class, None for one that scripts cannot have.

    Raises:
        CompileError: it is an interface, a method of which has no schema.
    """
    found = cls.__dict__.get(CLASS_TYPE)
    if isinstance(found, ClassType | InterfaceType):
        return found
    if INTERFACE_MARK in cls.__dict__:
        return _declare_interface(cls, new_program)
    return None if why_no_script_class(cls) else _declare_class(cls, new_program)


def why_no_script_class(cls: type) -> str | None:
    """Why the objects of a Python class cannot be used in scripts; None where they can."""
    if issubclass(cls, torch.nn.Module):
        return (
            f"Type '{cls.__name__}' cannot be compiled since it inherits from nn.Module: scripts use the modules they "
            "are given and make none"
        )
    if module_name(cls).partition(".")[0] in ("builtins", "typing", "torch", "numpy"):
        return f"'{cls.__name__}' is a class that TorchScript does not know"
    if type(cls) is not type and type(cls).__name__ != "ABCMeta":
        return f"'{cls.__name__}' has the metaclass {type(cls).__name__}"
    for base in cls.__mro__:
        if base.__flags__ & (_HEAP_TYPE | _IMMUTABLE_TYPE) != _HEAP_TYPE and base is not object:
            return f"'{cls.__name__}' inherits from '{base.__name__}', which is not written in Python"
    return None


_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: classes made by a class statement have it."""
_IMMUTABLE_TYPE = 1 << 8
"""Py_TPFLAGS_IMMUTABLETYPE: many classes written in C have it."""


def _declare_class(cls: type, new_program: NewProgram) -> ClassType:
    made = ClassType.new(qualified_name(cls), cls)
    setattr(cls, CLASS_TYPE, made)
    ScriptClass(made, new_program())
    return made


def _declare_interface(cls: type, new_program: NewProgram) -> InterfaceType:
    _refuse_other_bases(cls)
    made = InterfaceType.new(qualified_name(cls), cls, issubclass(cls, torch.nn.Module))
    made.definition = InterfaceDefinition(made)
    setattr(cls, CLASS_TYPE, made)
    try:
        for name in _interface_methods(cls):
            made.methods[name] = _interface_schema(made, name, getattr(cls, name), new_program)
    except CompileError:
        delattr(cls, CLASS_TYPE)
        raise
    return made


def _refuse_other_bases(cls: type) -> None:
    """See that no base of an interface has methods that would be no methods of the interface.

    Raises:
        NotSupportedError: where one has.
    """
    for base in cls.__mro__[1:]:
        if INTERFACE_MARK in vars(base) or base is torch.nn.Module or module_name(base) in ("builtins", "typing"):
            continue
        for name, member in vars(base).items():
            if inspect.isfunction(member):
                raise WRONG_INTERFACE.unsupported(
                    f"the interface '{cls.__name__}' does not support inheritance yet. Please directly inherit from "
                    f"'nn.Module', or from an interface: '{base.__name__}' is none, and its method '{name}' would not "
                    "be one of the interface"
                )


def _interface_methods(cls: type) -> list[str]:
    found: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        if INTERFACE_MARK in base.__dict__:
            found.update(dict.fromkeys(name for name, member in base.__dict__.items() if inspect.isfunction(member)))
    return list(found)


def _interface_schema(interface: InterfaceType, name: str, function: object, new_program: NewProgram) -> object:
    source = function_tree(function, is_method=True)
    names = {interface.python_class.__name__: interface.python_class}
    resolver = FunctionResolver(source.function, names, class_types=lambda cls: type_of_class(cls, new_program))
    return interface_schema(Definition(name, source.definition, resolver, source.defaults, self_type=interface))


def interface_schema(method: Definition) -> Schema:
    """The schema of a method of an interface.

    Raises:
        CompileError: where a parameter has no type.
    """
    missing = [p for p in method.tree.decl.params[1:] if p.type is None]
    if missing:
        raise WRONG_INTERFACE(
            f"interface method '{method.name}' has a parameter without a type", missing[0].range,
            hint="annotate all parameters and the result",
        )  # fmt: skip
    return declared_schema(method)


# -- the definition


class ScriptClass(ObjectDefinition):
    """A Python class as scripts see it."""

    def __init__(self, type: ClassType, program: FunctionCompiler) -> None:
        super().__init__(type, program)
        self._state = "declared"
        self._annotations = _annotations(type.python_class)
        self._names: Callable[[str], object] | None = None

    def complete(self) -> None:
        """Find the attributes by compiling `__init__`, unless that is done or under way.

        Raises:
            CompileError: where `__init__` does not compile; then the class has no attributes, as before.
        """
        if self._state != "declared":
            return
        self._state = "initializing"
        try:
            initializer = self.method("__init__")
            if initializer is not None:
                self.program.ready(initializer)
            self._state = "complete"
        except BaseException:
            self.type.attributes.clear()
            self.type.methods.pop("__init__", None)
            self._state = "declared"
            raise

    def compile_all(self, names: Callable[[str], object] | None = None) -> None:
        """Compile everything the class has, as `script` of a class does.

        Args:
            names: gives the meaning of names that the methods' own scopes do not know.

        Raises:
            CompileError: where something does not compile.
        """
        self._names = names
        try:
            self._compile_all()
        finally:
            self._names = None

    def name(self, name: str) -> object:
        return None if self._names is None else self._names(name)

    def _compile_all(self) -> None:
        self.complete()
        for cls in reversed(self.type.python_class.__mro__):
            for name, member in list(cls.__dict__.items()):
                if isinstance(member, property) and function_mark(member.fget) is Mark.DEFAULT:
                    self._compile_property(name)
                elif inspect.isfunction(member) and not name.startswith("__jit") and not is_for_python_only(member):
                    method = self.method(name)
                    if method is not None:
                        self.program.ready(method)

    def _compile_property(self, name: str) -> None:
        for accessor in self.property_accessors(name) or ():
            if accessor is not None:
                self.program.ready(self.type.methods[accessor])

    # -- attributes
    def find_attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
        self.complete()
        return super().find_attr(b, range, value, name) or self.class_attr(b, range, name, value)

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        self.complete()
        return super().has_attr(b, range, name) or self._static(name) is not None

    def set_attr(
        self, b: Builder, range: SourceRange, owner: Value, name: str, value: Value, declared: Type | None = None
    ) -> None:
        self.complete()
        assert isinstance(b, Emitter)
        if self.type.is_frozen and b.definition.name != "__init__":
            raise FROZEN_FIELD(f"cannot assign to field '{name}' of the frozen dataclass {self.type.annotation}", range)
        if self._state == "initializing" and name not in self.type.attributes and not self.property_accessors(name):
            self._new_attribute(b, range, owner, name, value, declared)
        super().set_attr(b, range, owner, name, value, declared)

    def _new_attribute(
        self, b: Builder, range: SourceRange, owner: Value, name: str, value: Value, declared: Type | None
    ) -> None:
        if b.graph.insert_point.block is not b.graph.block:
            raise FIRST_ASSIGNMENT(
                f"First assignment cannot be in a control-flow block: attribute '{name}' of self", range,
                hint="assign it at the top level of __init__, perhaps None with the annotation Optional[T], first",
            )  # fmt: skip
        annotation = self._annotations.get(name)
        if declared is None and annotation is not None:
            declared = self._annotated(annotation, range)
        self.type.attributes[name] = declared or T.unshaped(value.type)

    def _annotated(self, annotation: object, range: SourceRange) -> Type:
        resolver = self._resolver()
        return type_from_python(annotation, range, resolver.resolve_type, class_types=resolver.class_types)

    def _resolver(self) -> Resolver:
        initializer = inspect.getattr_static(self.type.python_class, "__init__", None)
        names = self.known_names(self.type.python_class)
        if inspect.isfunction(initializer) and initializer.__module__ == self.type.python_class.__module__:
            return FunctionResolver(initializer, names, self.name, self.program.type_of_class)
        scope = {**vars(_module_of(self.type.python_class)), **names}
        return Resolver(scope, self.name, self.program.type_of_class)

    # -- members of the Python class
    def _static(self, name: str) -> object:
        return inspect.getattr_static(self.type.python_class, name, None) if not name.startswith("__") else None

    def python_method(self, name: str) -> Callable[..., object] | None:
        member: Any = inspect.getattr_static(self.type.python_class, name, None)
        if isinstance(member, staticmethod | classmethod):
            return None
        member = original_function(member)
        if not inspect.isfunction(member) or function_mark(member) in (Mark.IGNORE, Mark.UNUSED):
            return None
        return member

    def declare(self, name: str, function: Any, signature: object = None) -> Function:
        generated = dataclass_method(self.type.python_class, function)
        if generated is None:
            return super().declare(name, function, signature)
        tree, defaults, known = generated
        scope = {**vars(_module_of(self.type.python_class)), **known}
        definition = Definition(name, tree, Resolver(scope, class_types=self.program.type_of_class), defaults)
        return self.add(name, definition, function)

    def add(self, name: str, definition: Definition, python_function: Callable[..., object] | None = None) -> Function:
        if name == "__exit__":  # what it is told of an exception has no type that an annotation could name
            others: dict[str, Type] = {p.ident.name: T.ANY for p in definition.tree.decl.params[1:]}
            definition = replace(definition, inferred=others)
        return super().add(name, definition, python_function)

    def class_attr(self, b: Builder, range: SourceRange, name: str, value: Value | None = None) -> SugaredValue | None:
        """What a name in the body of the class denotes: a constant, a static or class method, an inner class."""
        member = self._static(name)
        if member is None and name not in self.type.python_class.__dict__:
            return None
        assert isinstance(b, Emitter)
        if isinstance(member, staticmethod):
            return sugared_from_python(b, member.__func__, name, range)
        if isinstance(member, classmethod):
            return self.class_method(name, member.__func__)
        if inspect.isfunction(member):
            if function_mark(member) in (Mark.IGNORE, Mark.UNUSED):
                return self._left_to_python(b, member, value, range)
            return None if value is not None else UnboundMethod(self.type.python_class, name, member)
        if isinstance(member, property):
            return None
        return sugared_from_python(b, member, name, range)

    def _left_to_python(self, b: Emitter, member: Any, value: Value | None, range: SourceRange) -> SugaredValue:
        sugared = sugared_from_python(b, member, member.__name__, range)
        return sugared if value is None else OnObject(sugared, value, self.type)


class OnObject(SugaredValue):
    """A method left to Python, which is called with the object as its first argument."""

    def __init__(self, function: SugaredValue, owner: Value, type: Type) -> None:
        self.kind = function.kind
        self.owner = owner
        self.function = function
        if isinstance(function, PythonCall):
            # what stands for self has no annotation, and would be a Tensor
            schema = function.schema
            if not schema.arguments:
                raise WRONG_METHOD(f"the ignored method '{schema.name}' does not have a self argument")
            typed = dataclasses.replace(schema.arguments[0], declared_type=type)
            function.schema = function_schema(
                schema.name, [typed, *schema.arguments[1:]], [r.type for r in schema.returns]
            )

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        return self.function.call(b, range, [NamedValue(None, self.owner, range=range), *args], kwargs)


class UnboundMethod(SugaredValue):
    """`C.method`, as in `Base.__init__(self, x)`."""

    def __init__(self, owner: type, name: str, function: object) -> None:
        self.owner = owner
        self.name = name
        self.function = function
        self.kind = f"the method {owner.__name__}.{name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        first = args[0].in_graph(b.graph) if args else None
        t = first.type if first is not None else None
        if first is None or not isinstance(t, ClassType) or not issubclass(t.python_class or object, self.owner):
            raise WRONG_METHOD(f"the first argument of {self.kind} has to be an object of the class", range)
        definition: ObjectDefinition = t.definition
        name = definition.method_of(self.function, self.owner, self.name)
        return definition.bound(first, name).call(b, range, args[1:], kwargs)


class ClassValue(SugaredValue):
    """A script class: calling it makes an object."""

    def __init__(self, type: ClassType) -> None:
        self.type = type
        self.kind = f"the class {type.qualified_name}"

    @property
    def definition(self) -> ScriptClass:
        found = self.type.definition
        assert isinstance(found, ScriptClass)
        return found

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        definition = self.definition
        definition.complete()
        if args or kwargs:
            check_creation(self.type.python_class, range)
        made = b.node("prim::CreateObject", [], [self.type], range).output
        if definition.method("__init__") is not None:
            definition.bound(made, "__init__").call(b, range, args, kwargs)
        elif (args or kwargs) and not takes_any_arguments(self.type.python_class):
            raise WRONG_COUNT(f"{self.type.annotation}() takes no arguments", range)
        return SimpleValue(made)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name == "__name__":
            return SimpleValue(b.constant(self.type.python_class.__name__, range))
        member = inspect.getattr_static(self.type.python_class, name, None)
        if inspect.isfunction(member):
            return UnboundMethod(self.type.python_class, name, member)
        found = self.definition.class_attr(b, range, name)
        if found is None:
            names = [n for n in dir(self.type.python_class) if not n.startswith("__")]
            raise FIRST_ASSIGNMENT(
                f"Tried to lookup unknown attribute on class {self.type.annotation}: '{name}'", range,
                hint=did_you_mean(name, names),
            )  # fmt: skip
        return found

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        return hasattr(self.type.python_class, name)


def _no_script_class(cls: type, range: SourceRange) -> NotSupportedError:
    text = f"python value of type 'type' cannot be used as a value: {why_no_script_class(cls)}"
    return NO_SCRIPT_CLASS(text, range, hint=instead_of_class(cls))


class ModuleClass(SugaredValue):
    """A class of modules: its static methods and constants can be used, but no module can be made."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.kind = f"the class {cls.__name__}"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        member = inspect.getattr_static(self.cls, name, None)
        assert isinstance(b, Emitter)
        if isinstance(member, staticmethod):
            return sugared_from_python(b, member.__func__, name, range)
        is_literal, literal = plain_constant(member)
        if is_literal and member is not None:
            return ConstantValue(literal)
        raise NO_ATTRIBUTE(f"{self.kind} has no static method or constant '{name}'", range)

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        return hasattr(self.cls, name)

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        raise _no_script_class(self.cls, range)

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise _no_script_class(self.cls, range)


def class_value(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """A class by its name.

    Raises:
        NotSupportedError: where scripts have no use for it.
    """
    cls = meaning.object
    if function_mark(cls) is Mark.IGNORE:
        raise NO_SCRIPT_CLASS(f"Cannot instantiate class '{cls.__name__}' in a script function: it is ignored", range)
    if issubclass(cls, torch.autograd.Function):
        return AutogradFunctionClass(cls)
    t = scope.program.type_of_class(cls)
    if isinstance(t, ClassType):
        return ClassValue(t)
    if isinstance(t, InterfaceType):
        raise WRONG_INTERFACE.unsupported(f"'{cls.__name__}' is an interface, of which no object can be made", range)
    if issubclass(cls, torch.nn.Module):
        return ModuleClass(cls)
    raise _no_script_class(cls, range)


def _annotations(cls: type) -> dict[str, object]:
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        found.update(inspect.get_annotations(base))
    return found


def _module_of(cls: type) -> object:
    return inspect.getmodule(cls)
