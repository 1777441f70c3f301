"""Objects of script classes and modules: what attribute access and calls mean for a value of a class type.

`ClassType.definition` holds an `ObjectDefinition`; `SimpleValue` asks it. Script classes (`classes.py`) and modules
(`modules.py`) have one each; what they share is here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial

from jitlite.base.errors.calls import NOT_CALLABLE
from jitlite.base.errors.classes import FIRST_ASSIGNMENT, WRONG_METHOD
from jitlite.base.errors.names import NO_ATTRIBUTE
from jitlite.base.errors.types import NO_INDEX, NOT_ITERABLE
from jitlite.base.records import replace
from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import FunctionValue
from jitlite.frontend.emit.class_members import class_with, function_of
from jitlite.frontend.emit.definition import Definition, FunctionCompiler
from jitlite.frontend.emit.generators import GeneratorValue, is_iterator_method
from jitlite.frontend.emit.interfaces import infer_results, match_call
from jitlite.frontend.emit.known_values import UNKNOWN
from jitlite.frontend.emit.open_calls import GivenTypes, as_given, emit_here, gives_functions, is_compiled, needs_place
from jitlite.frontend.emit.resolver import FunctionResolver
from jitlite.frontend.emit.special_methods import is_special_name
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.decorated import signed_tree
from jitlite.frontend.syntax.python_ast import function_tree
from jitlite.frontend.syntax.python_source import plain_function
from jitlite.frontend.syntax.tree import Decl
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.schema import Schema
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function
from jitlite.operators.overloads import MatchedSchema, NamedValue

_MEETING: ContextVar[frozenset[tuple[Type, Type]]] = ContextVar("meeting", default=frozenset())
"""Classes and interfaces for which methods are being inferred: their signatures may mention the same two again."""


class MethodValue(SugaredValue):
    """A method of an object, waiting for its call."""

    is_function = True
    takes_functions = True

    def __init__(
        self, owner: Value, name: str, method: Function | Schema, program: FunctionCompiler | None = None
    ) -> None:
        self.owner = owner
        self.name = name
        self.method = method
        self.program = program
        self.kind = f"the method {name}"

    @property
    def schema(self) -> Schema:
        return self.method.schema if isinstance(self.method, Function) else self.method

    @property
    def leading(self) -> Args:
        return [NamedValue(None, self.owner)]

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if isinstance(self.method, Function) and self.program is not None:
            definition = None if is_special_name(self.name) else self.program.open_method(self.method)
            if definition is None and gives_functions(args, kwargs):
                definition = self.program.definition_of(self.method)
            if definition is not None:
                return self._call_open(b, range, definition, args, kwargs)
            if not is_compiled(self.program, self.method, range):
                return emit_here(b, range, self.program.definition_of(self.method), [*self.leading, *args], kwargs)
        return self.emit(b, range, match_call(self.schema, b.graph, range, [*self.leading, *args], kwargs))

    def _call_open(
        self, b: Builder, range: SourceRange, definition: Definition, args: Args, kwargs: Args
    ) -> SugaredValue:
        """A call that tells types of parameters."""
        assert self.program is not None
        method = self.method
        assert isinstance(method, Function)
        args = [*self.leading, *args]
        if needs_place(definition, args, kwargs):
            return emit_here(b, range, definition, args, kwargs)
        given = as_given(definition, args, kwargs)
        called, passed = self, (args, kwargs)
        if given is not None:
            owner = object_definition(self.owner)
            name = owner.method_as_given(self.name, given, method)
            called = owner.bound(self.owner, name)
            passed = [], given.arguments
        assert isinstance(called.method, Function)
        if not is_compiled(self.program, called.method, range, None if given is None else given.shown):
            return emit_here(b, range, definition, args, kwargs)
        return called.emit(b, range, match_call(called.schema, b.graph, range, *passed))

    def emit(self, b: Builder, range: SourceRange, matched: MatchedSchema) -> SugaredValue:
        if isinstance(self.method, Function) and self.program is not None:
            self.program.ready(self.method, range)
        node = b.node("prim::CallMethod", matched.inputs, matched.return_types, range)
        node.attributes["name"] = self.name
        return SimpleValue(node.output)


class ObjectDefinition:
    """What objects of one class can do in scripts.

    Methods are declared when they are first asked for, and compiled when they are first called.
    """

    def __init__(self, type: ClassType, program: FunctionCompiler) -> None:
        self.type = type
        self.program = program
        self._methods: dict[object, str] = {}
        self._class_methods: dict[str, Function] = {}
        type.definition = self

    # -- what the front end asks
    def attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue:
        """`value.name`.

        Raises:
            CompileError: where there is no such attribute.
        """
        found = self.find_attr(b, range, value, name)
        if found is None:
            raise self.no_attribute(name, range)
        return found

    def find_attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
        """`value.name`, None where there is no such attribute."""
        if name in self.type.attributes:
            node = b.node("prim::GetAttr", [value], [self.type.attributes[name]], range)
            node.attributes["name"] = name
            return SimpleValue(node.output)
        accessors = self.property_accessors(name)
        if accessors is not None:
            return self.bound(value, accessors[0]).call(b, range, [], [])
        if self.method(name) is not None:
            return self.bound(value, name)
        return None

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        return (
            name in self.type.attributes or self.property_accessors(name) is not None or self.method(name) is not None
        )

    def set_attr(
        self, b: Builder, range: SourceRange, owner: Value, name: str, value: Value, declared: Type | None = None
    ) -> None:
        """`owner.name = value`.

        Raises:
            CompileError: where there is no such attribute, or it is of another type.
        """
        wanted = self.type.attributes.get(name)
        if wanted is None:
            accessors = self.property_accessors(name)
            if accessors is None or accessors[1] is None:
                hint = did_you_mean(name, self.type.attributes) or f"assign self.{name} in __init__ first"
                raise FIRST_ASSIGNMENT(
                    f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?",
                    range,
                    hint=f"property '{name}' has no setter" if accessors else hint,
                )
            self.bound(owner, accessors[1]).call(b, range, [NamedValue(None, value, range=range)], [])
            return
        self.store(b, range, owner, name, value)

    def store(self, b: Builder, range: SourceRange, owner: Value, name: str, value: Value) -> None:
        """Emit the assignment to an attribute that there is."""
        wanted = self.type.attributes[name]
        message = (
            f"Wrong type for attribute assignment. Expected {wanted.annotation} but got {value.type.annotation}: "
            f"attribute '{name}' of {self.type.annotation}"
        )
        hint = None
        if wanted is T.NONE:
            hint = f"annotate it where it is None: `self.{name}: Optional[{value.type.annotation}] = None`"
        converted = b.expect(wanted, value, range, message, hint)
        b.node("prim::SetAttr", [owner, converted], [], range).attributes["name"] = name

    def call(self, b: Builder, range: SourceRange, value: Value, args: Args, kwargs: Args) -> SugaredValue:
        """`value(...)`."""
        if self.method("__call__") is None:
            raise NOT_CALLABLE(f"'{self.type.annotation}' object is not callable", range, hint="define __call__")
        return self.bound(value, "__call__").call(b, range, args, kwargs)

    def magic(self, b: Builder, range: SourceRange, value: Value, name: str, args: Args = ()) -> SugaredValue | None:
        """The result of the special method `name`, None where the class has none."""
        return None if self.method(name) is None else self.bound(value, name).call(b, range, args, [])

    def iterate(self, b: Builder, range: SourceRange, value: Value) -> SugaredValue:
        """What a loop over `value` goes through."""
        iterator = self.iterator()
        if iterator is not None:
            return GeneratorValue(iterator, value)
        if self.method("__len__") is None or self.method("__getitem__") is None:
            raise NOT_ITERABLE(
                f"'{self.type.annotation}' object is not iterable", range,
                hint="a class with __iter__, or with __len__ and __getitem__(self, i: int), can be iterated",
            )  # fmt: skip
        return IndexedObject(self, value)

    def iterator(self) -> Definition | None:
        """The class's own `__iter__`, None where it has none."""
        function = self.python_method("__iter__") if self.type.python_class else None
        if function is None or not is_iterator_method(function):
            return None
        return self._definition("__iter__", function, is_generator=True)

    def element(self, b: Builder, range: SourceRange, value: Value, index: Value) -> SugaredValue:
        """`value[index]`."""
        found = self.magic(b, range, value, "__getitem__", [NamedValue(None, index, range=range)])
        if found is None:
            raise NO_INDEX(f"'{self.type.annotation}' object is not subscriptable", range, hint="define __getitem__")
        return found

    def indexed(self, b: Builder, range: SourceRange, value: Value, index: Value, wanted: Type) -> SugaredValue:
        """`value[index]` where a value of type `wanted` is expected."""
        return self.element(b, range, value, index)

    def value_now(self, name: str) -> object:
        """The value that an attribute has while the program is compiled, or `ABSENT`, or `UNKNOWN`."""
        return UNKNOWN

    def slice(self, b: Builder, range: SourceRange, value: Value, bounds: slice) -> SugaredValue:
        """`value[start:stop:step]`, for constant bounds."""
        raise NO_INDEX(f"'{self.type.annotation}' object cannot be sliced", range)

    def as_tuple(self, b: Builder, range: SourceRange, value: Value) -> list[SugaredValue]:
        """The parts of `value`, where their number is known at compile time."""
        raise NOT_ITERABLE(f"'{self.type.annotation}' object cannot be used as a tuple", range)

    # -- methods
    def bound(self, value: Value, name: str) -> MethodValue:
        """The method `name` of `value`, which there is."""
        method = self.method(name)
        assert method is not None
        return MethodValue(value, name, method, self.program)

    def method(self, name: str) -> Function | None:
        """The script function of a method, None where the class has no such method."""
        found = self.type.methods.get(name)
        if found is None:
            function = self.python_method(name)
            if function is None:
                return None
            found = self.declare(name, function)
        assert isinstance(found, Function)
        return found

    def declared(self, name: str) -> Function | None:
        """The method, as far as it can be declared without compiling it."""
        try:
            return self.method(name)
        except CompileError:
            return None

    def infer_results(self, interface: T.InterfaceType) -> None:
        """Compile the methods of which only their bodies tell whether the class is of an interface.

        Raises:
            CompileError: where one does not compile.
        """
        if interface.is_module and not self.type.is_module:
            return
        methods = {name: self.method(name) for name in interface.methods}
        meeting = _MEETING.get()
        if (self.type, interface) in meeting or None in methods.values():
            return
        token = _MEETING.set(meeting | {(self.type, interface)})
        try:
            for name, method in methods.items():
                if method is not None:
                    _infer_in_signatures(method.schema, interface.methods[name])
        finally:
            _MEETING.reset(token)

    def python_method(self, name: str) -> Callable[..., object] | None:
        """The Python function of a method that has not been declared yet."""
        raise NotImplementedError

    def property_accessors(self, name: str) -> tuple[str, str | None] | None:
        """The names of the methods that get and set the property `name`, None where there is no such property."""
        found = self.type.properties.get(name)
        if found is not None:
            return found
        prop = self.python_property(name)
        if prop is None or prop.fget is None:
            return None
        getter, setter = f"__{name}_getter", f"__{name}_setter" if prop.fset else None
        self.declare(getter, prop.fget)
        if setter:
            self.declare(setter, prop.fset)
        self.type.properties[name] = getter, setter
        return getter, setter

    def python_property(self, name: str) -> property | None:
        """The Python property of that name."""
        found = inspect.getattr_static(self.type.python_class, name, None) if self.type.python_class else None
        return found if isinstance(found, property) else None

    def declare(self, name: str, function: object, signature: object = None) -> Function:
        """Make a Python function the method `name`."""
        definition = self._definition(name, function, signature)
        return self.add(name, definition, plain_function(function))

    def _definition(
        self, name: str, function: object, signature: object = None, is_generator: bool = False
    ) -> Definition:
        look = partial(function_tree, is_generator=True) if is_generator else signed_tree
        source = look(function, is_method=True)
        declared = None if signature is None else function_tree(signature, is_method=True)
        owner = self.defining_class(source.function)
        return Definition(
            name,
            source.definition,
            FunctionResolver(
                source.function,
                {**source.extra_names, **self.known_names(owner)},
                self.name,
                self.program.type_of_class,
            ),
            source.defaults if declared is None else {**source.defaults, **declared.defaults},
            None if declared is None else declared.definition,
            self_type=self.type,
            defining_class=owner,
            inferred=self._type_of_state(name, source.definition.decl),
        )

    def _type_of_state(self, name: str, decl: Decl) -> dict[str, Type]:
        """What `__setstate__` takes, by the name of the parameter, where only the result of `__getstate__` tells."""
        taken = [p for p in decl.params[1:] if p.type is None and p.default is None]
        getter = self.method("__getstate__") if name == "__setstate__" and len(taken) == 1 else None
        if getter is None:
            return {}
        return {taken[0].ident.name: self.program.ready(getter).schema.returns[0].type}

    def add(self, name: str, definition: Definition, python_function: Callable[..., object] | None = None) -> Function:
        """Make a definition the method `name`."""
        if not definition.tree.decl.params:
            raise WRONG_METHOD("methods must have a self argument", definition.tree.range)
        definition = replace(definition, name=name, self_type=self.type)
        qualified = f"{self.type.qualified_name}.{name}"
        made: Function = self.program.declare(definition, python_function, qualified)
        self.type.methods[name] = made
        return made

    def method_as_given(self, name: str, given: GivenTypes, method: Function) -> str:
        """The name of a method as compiled for the types of a call."""
        key = (method, given.key)
        known = self._methods.get(key)
        if known is None:
            number = 1
            while f"{name}__{number}" in self.type.methods:
                number += 1
            known = self._methods[key] = f"{name}__{number}"
            self.add(known, given.definition, method.python_function)
        return known

    def name(self, name: str) -> object:
        """What a name means that the scope of a method does not know, None where it means nothing."""
        return None

    def known_names(self, owner: type | None) -> Mapping[str, object]:
        """Names that mean something in the bodies of methods, though Python finds them only when they are called."""
        return {} if owner is None else {owner.__name__: owner}

    def class_method(self, name: str, function: object) -> SugaredValue:
        """A class method is a function in which the first parameter's name denotes the class."""
        known = self._class_methods.get(name)
        if known is None:
            source = signed_tree(function, is_method=True)
            first, *others = source.definition.decl.params
            decl = tree.replaced(source.definition.decl, params=tuple(others))
            known_names = self.known_names(self.defining_class(function))
            names = {**source.extra_names, **known_names, first.ident.name: self.type.python_class}
            resolver = FunctionResolver(source.function, names, class_types=self.program.type_of_class)
            definition = Definition(name, tree.replaced(source.definition, decl=decl), resolver, source.defaults)
            known = self.program.declare(definition, source.function, f"{self.type.qualified_name}.{name}")
            self._class_methods[name] = known
        self.program.ready(known)
        return FunctionValue(known)

    def defining_class(self, function: object) -> type | None:
        """The class in whose body a function stands."""
        return class_with(self.type.python_class, function)

    # -- super()
    def super_method(self, start: type, name: str, range: SourceRange) -> str:
        """The name under which the method behind `start` in the order of inheritance is a method here.

        Raises:
            CompileError: where no base class has such a method.
        """
        order = self.type.python_class.__mro__
        bases = order[order.index(start) + 1 :]
        for cls in bases:
            function = function_of(cls.__dict__.get(name))
            if function is not None:
                return self.method_of(function, cls, name)
        hint = did_you_mean(name, [known for cls in bases for known in vars(cls)])
        raise NO_ATTRIBUTE(f"'super' object has no method '{name}'", range, hint=hint)

    def special_of_base(self, value: Value, start: type, name: str) -> SugaredValue | None:
        """The method behind `start` in the order of inheritance, where that is one that scripts know by themselves."""
        return None

    def method_of(self, function: object, owner: type, name: str) -> str:
        """The name under which the function that class `owner` has as `name` is a method here."""
        if self.python_method(name) is function and not self._methods.get(function):
            self.method(name)
            return name
        known = self._methods.get(function)
        if known is None:
            known = f"{owner.__name__}__{name}"
            while known in self.type.methods:
                known += "_"
            self._methods[function] = known
            self.declare(known, function)
        return known

    # -- errors
    def attribute_names(self) -> list[str]:
        own = dir(self.type.python_class) if self.type.python_class else []
        return [*self.type.attributes, *self.type.methods, *(n for n in own if not n.startswith("__"))]

    def no_attribute(self, name: str, range: SourceRange) -> CompileError:
        """The error for an attribute that objects of the class do not have."""
        return NO_ATTRIBUTE(
            f"'{self.type.annotation}' object has no attribute or method '{name}'. Did you forget to initialize an "
            "attribute in __init__()?", range, hint=did_you_mean(name, self.attribute_names()),
        )  # fmt: skip


def object_definition(value: Value) -> ObjectDefinition:
    """The definition of the class of a value that is an object."""
    assert isinstance(value.type, ClassType) and isinstance(value.type.definition, ObjectDefinition)
    return value.type.definition


class IndexedObject(SugaredValue):
    """An object with `__len__` and `__getitem__` that is being iterated."""

    kind = "an object"

    def __init__(self, definition: ObjectDefinition, value: Value) -> None:
        self.definition = definition
        self.value = value

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def length(self, b: Builder, range: SourceRange) -> Value:
        return self.definition.bound(self.value, "__len__").call(b, range, [], []).as_value(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        return self.definition.element(b, range, self.value, index)


class InterfaceDefinition:
    """What a value of an interface type can do: its methods can be called."""

    def __init__(self, type: T.InterfaceType) -> None:
        self.type = type

    def attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue:
        found = self.find_attr(b, range, value, name)
        if found is None:
            raise NO_ATTRIBUTE(
                f"'{self.type.annotation}' object has no attribute or method '{name}'", range,
                hint=did_you_mean(name, self.type.methods) or "a value of an interface type has its methods only",
            )  # fmt: skip
        return found

    def find_attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
        schema = self.type.methods.get(name)
        return None if schema is None else MethodValue(value, name, schema)

    def call(self, b: Builder, range: SourceRange, value: Value, args: Args, kwargs: Args) -> SugaredValue:
        name = "forward" if self.type.is_module else "__call__"
        found = self.find_attr(b, range, value, name)
        if found is None:
            raise NO_ATTRIBUTE(f"interface '{self.type.annotation}' has no method '{name}'", range)
        return found.call(b, range, args, kwargs)


def _infer_in_signatures(found: Schema, wanted: Schema) -> None:
    """Infer what classes in the two need where a method of schema `found` is to be one of schema `wanted`."""
    for f, w in zip(found.returns, wanted.returns, strict=False):
        infer_results([f.type], [w.type])
    for f, w in zip(found.arguments[1:], wanted.arguments[1:], strict=False):
        infer_results([w.type], [f.type])
