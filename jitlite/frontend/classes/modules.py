"""Modules in scripts: what attribute access, calls, loops and indices mean for one.

`module_types.py` finds out what scripts see of an nn.Module; the result is a `ModuleDefinition`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable

import torch

from jitlite.base.errors.classes import FROZEN_FIELD
from jitlite.base.errors.modules import MODULE_ATTRIBUTE, NO_FORWARD, UNNAMED_SUBMODULES
from jitlite.base.errors.names import NO_ATTRIBUTE
from jitlite.base.errors.types import NO_INDEX, WRONG_TYPE
from jitlite.base.source import CompileError, SourceRange, did_you_mean
from jitlite.frontend.classes.assigned_elsewhere import hint_where_assigned
from jitlite.frontend.classes.classes import OnObject
from jitlite.frontend.classes.computed_parameters import computed_property, computing_forward
from jitlite.frontend.classes.function_containers import FunctionContainer
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import FunctionValue, OverloadedFunction
from jitlite.frontend.emit.chosen_parts import chosen_part
from jitlite.frontend.emit.containers import (
    MODULE_VIEWS,
    PartsMethod,
    SugaredDict,
    is_module_type,
    module_items,
    module_views,
)
from jitlite.frontend.emit.definition import FunctionCompiler
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.interfaces import infer_results
from jitlite.frontend.emit.known_values import ABSENT
from jitlite.frontend.emit.meanings import Mark, function_mark, original_function, plain_constant
from jitlite.frontend.emit.objects import ObjectDefinition
from jitlite.frontend.emit.values import Args, ConstantValue, SimpleValue, SugaredTuple, SugaredValue
from jitlite.frontend.emit.ways_out import instead_of_attribute, instead_of_method
from jitlite.ir import types as T
from jitlite.ir.graph import Value, is_constant
from jitlite.ir.types import ClassType, InterfaceType, Type
from jitlite.ir.unit import Function
from jitlite.operators.overloads import NamedValue

CONTAINERS: tuple[tuple[type, str], ...] = (
    (torch.nn.ModuleDict, "dict"), (torch.nn.ModuleList, "list"), (torch.nn.Sequential, "list"),
    (torch.nn.ParameterList, "parameter list"), (torch.nn.ParameterDict, "parameter dict"),
)  # fmt: skip
"""Modules that are containers, and what they are like."""

_LIBRARY = (torch.nn.Module, *(cls for cls, _ in CONTAINERS))

_DICT_VIEWS = ("items", "keys", "values")
_UNIMPLEMENTED = inspect.getattr_static(torch.nn.Module, "forward")
"""The forward of a module whose class defines none."""


class ModuleDefinition(ObjectDefinition):
    """A kind of module: everything of one that scripts see.

    Attributes:
        module: the module it was made from; others of the same kind agree in all that is looked up here.
        failed: attributes that scripts cannot see, and why.
        entry_points: the methods that can be called from Python: forward and exported ones.
        computing_hooks: pre-hooks that compute a parameter, and look at no argument.
        shares_type: may other modules that look the same be of this type?
    """

    shares_type = True

    def __init__(self, module: torch.nn.Module, type: ClassType, program: FunctionCompiler) -> None:
        super().__init__(type, program)
        self.module = module
        self.container = next((kind for cls, kind in CONTAINERS if isinstance(module, cls)), None)
        self.ignored = frozenset(getattr(module, "__jit_ignored_attributes__", ()))
        self.failed: dict[str, str] = {}
        self.functions: dict[str, object] = {}
        self.containers: dict[str, object] = {}
        """Lists, tuples and dicts of functions."""
        self.overloads: dict[str, list[str]] = {}
        self.entry_points: list[str] = []
        self.computing_hooks: list[Function] = []

    def name(self, name: str) -> object:
        return self.program.name(name)

    # -- attributes
    def find_attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
        if name in self.type.constants:
            return ConstantValue(self.type.constants[name])
        if self._is_view(name):
            return ModuleView(self, value, name)
        if name == "_modules" and name not in self.type.attributes:
            return SubmodulesByName(self, value)
        if name in self.overloads:
            return self.overloaded(value, name)
        found = super().find_attr(b, range, value, name)
        if isinstance(found, SimpleValue) and isinstance(found.value.type, ClassType):
            return found if found.value.type.is_module else AttributeObject(name, found.value)
        return found or self._functions_attr(b, range, value, name) or self._class_attr(b, range, value, name)

    def _functions_attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
        """A function, or a container of functions."""
        assert isinstance(b, Emitter)
        if name in self.containers:
            return FunctionContainer(b, self.containers[name], self, value)
        if name in self.functions:
            return AttributeFunction(name, sugared_from_python(b, self.functions[name], name, range))
        return None

    def _is_view(self, name: str) -> bool:
        if name in self.type.attributes:
            return False
        if str(self.container).endswith("dict") and name in _DICT_VIEWS and not self._overrides(name):
            return True
        return name in MODULE_VIEWS and getattr(type(self.module), name) is getattr(torch.nn.Module, name)

    def overloaded(self, value: Value, name: str) -> SugaredValue:
        return OverloadedFunction(name, lambda range: [self.bound(value, n) for n in self.overloads[name]])

    def _class_attr(self, b: Builder, range: SourceRange, value: Value, name: str) -> SugaredValue | None:
        """A member of the Python class: a static method, one that is left to Python, a constant."""
        member = inspect.getattr_static(self.type.python_class, name, None)
        assert isinstance(b, Emitter)
        if isinstance(member, staticmethod):
            return sugared_from_python(b, member.__func__, name, range)
        if isinstance(member, classmethod):
            return self.class_method(name, member.__func__)
        if inspect.isfunction(member) and function_mark(member) in (Mark.IGNORE, Mark.UNUSED):
            return OnObject(sugared_from_python(b, member, name, range), value, self.type)
        if name in self.failed or isinstance(member, property) or name.startswith("__"):
            return None
        is_literal, literal = plain_constant(member)
        return ConstantValue(literal) if is_literal and member is not None else None

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        known = any(name in held for held in (self.type.constants, self.overloads, self.functions, self.containers))
        if known or super().has_attr(b, range, name):
            return True
        # what the module itself has and nobody found a type for, such as nn.Module's `_forward_hooks`, is not there
        return name not in self.failed and name not in vars(self.module) and hasattr(self.module, name)

    def value_now(self, name: str) -> object:
        return getattr(self.module, name, ABSENT)

    def no_attribute(self, name: str, range: SourceRange) -> CompileError:
        text = f"Module '{type(self.module).__name__}' has no attribute '{name}'"
        if name in self.failed:
            hint = instead_of_attribute(name, getattr(self.module, name, None))
            return MODULE_ATTRIBUTE(f"{text} {self.failed[name]}", range, hint=hint)
        if name in self.ignored:
            text += " (this attribute was ignored during compilation: __jit_ignored_attributes__ names it)"
        return NO_ATTRIBUTE(text, range, hint=self._hint_for(name))

    def _hint_for(self, name: str) -> str | None:
        known = instead_of_method(name) or hint_where_assigned(type(self.module), name)
        return known or did_you_mean(name, self.attribute_names())

    def attribute_names(self) -> list[str]:
        return [*self.type.attributes, *self.type.constants, *(n for n in dir(self.module) if not n.startswith("__"))]

    def set_attr(
        self, b: Builder, range: SourceRange, owner: Value, name: str, value: Value, declared: Type | None = None
    ) -> None:
        if name in self.type.constants:
            raise FROZEN_FIELD(f"cannot assign to '{name}', which is a constant of the module", range)
        if name in self.failed and name not in self.type.attributes:
            raise self.no_attribute(name, range)
        super().set_attr(b, range, owner, name, value, declared)

    # -- calls
    def call(self, b: Builder, range: SourceRange, value: Value, args: Args, kwargs: Args) -> SugaredValue:
        if "forward" in self.overloads:
            return self.overloaded(value, "forward").call(b, range, args, kwargs)
        forward = inspect.getattr_static(type(self.module), "forward", None)
        if forward is _UNIMPLEMENTED and "forward" not in self.type.methods:
            raise NO_FORWARD(
                f"Module '{type(self.module).__name__}' has no forward", range,
                hint="loop over it, or index it" if self.container else "define forward",
            )  # fmt: skip
        if self.method("forward") is None:
            ignored = self._class_attr(b, range, value, "forward")
            if ignored is not None:
                return ignored.call(b, range, args, kwargs)
            raise NO_FORWARD(
                f"Module '{type(self.module).__name__}' has no forward that can be compiled", range,
                hint="define forward, and do not mark it as ignored",
            )  # fmt: skip
        pre_hooks, hooks = self.type.forward_pre_hooks, self.type.forward_hooks
        if not pre_hooks and not hooks:
            return self.bound(value, "forward").call(b, range, args, kwargs)
        return self._call_with_hooks(b, range, value, args, kwargs)

    def _call_with_hooks(self, b: Builder, range: SourceRange, value: Value, args: Args, kwargs: Args) -> SugaredValue:
        owner = NamedValue(None, value, range=range)
        given = b.make_tuple([a.in_graph(b.graph) for a in args])
        for hook in self.type.forward_pre_hooks:
            shown = NamedValue(None, self._shown_to(b, hook, given), range=range)
            result = self._call_hook(b, range, hook, [owner, shown])
            if result.type is not T.NONE:
                given = result if isinstance(result.type, T.TupleType) else b.make_tuple([result])
        if self.type.forward_pre_hooks and args:
            args = [NamedValue(None, v, range=range) for v in b.unpack_tuple(given)]
        output = self.bound(value, "forward").call(b, range, args, kwargs).as_value(b, range)
        for hook in self.type.forward_hooks:
            arguments = [owner, NamedValue(None, given, range=range), NamedValue(None, output, range=range)]
            result = self._call_hook(b, range, hook, arguments)
            if result.type is not T.NONE:
                output = result
        return SimpleValue(output)

    def _shown_to(self, b: Builder, hook: Function, given: Value) -> Value:
        """The arguments as a pre-hook takes them. One that looks at none is declared with all that there may be."""
        return b.uninitialized(hook.schema.arguments[1].type) if hook in self.computing_hooks else given

    def _call_hook(self, b: Builder, range: SourceRange, hook: Function, args: list[NamedValue]) -> Value:
        return FunctionValue(self.program.ready(hook, range)).call(b, range, args, []).as_value(b, range)

    # -- containers
    def iterate(self, b: Builder, range: SourceRange, value: Value) -> SugaredValue:
        if self.container is None or self._overrides("__iter__"):
            return super().iterate(b, range, value)
        return self.container_method(b, range, value, "__iter__", [])

    def as_tuple(self, b: Builder, range: SourceRange, value: Value) -> list[SugaredValue]:
        return self.iterate(b, range, value).as_tuple(b, range)

    def items(self, b: Builder, range: SourceRange, value: Value) -> SugaredDict:
        """The contents of a container."""
        return module_items(
            b, range, self.type, value, "parameters" if "parameter" in str(self.container) else "modules"
        )

    def element(self, b: Builder, range: SourceRange, value: Value, index: Value) -> SugaredValue:
        if self.container is None or self._overrides("__getitem__"):
            return super().element(b, range, value, index)
        return self.own_element(b, range, value, index)

    def own_element(self, b: Builder, range: SourceRange, value: Value, index: Value) -> SugaredValue:
        """The part of a container."""
        items = self.items(b, range, value)
        common = {p.value.type for p in items.values.parts if isinstance(p, SimpleValue)}
        if not is_constant(index) and len(common) == 1:
            return self.indexed(b, range, value, index, common.pop())
        if not is_constant(index) and items.names and index.type in (T.STRING, T.INT):
            return chosen_part(b, range, index, items.names, items.values.parts)
        return items.element(b, range, index)

    def indexed(self, b: Builder, range: SourceRange, value: Value, index: Value, wanted: Type) -> SugaredValue:
        """The submodule of an index that is known at run time only; all submodules are of type `wanted`.

        Raises:
            CompileError: where one is not.
        """
        infer_results(self.type.attributes.values(), [wanted])
        for name, t in self.type.attributes.items():
            if is_module_type(t) and not T.is_subtype(t, wanted):
                interface = isinstance(wanted, InterfaceType) and isinstance(t, ClassType | InterfaceType)
                reason = T.why_not_interface(t, wanted) if interface else None  # type: ignore[arg-type]
                raise WRONG_TYPE(
                    f"Attribute {name} is not of annotated type {wanted.annotation}", range,
                    notes=[reason] if reason else [],
                )  # fmt: skip
        return SimpleValue(b.node("prim::ModuleContainerIndex", [value, index], [wanted], range).output)

    def slice(self, b: Builder, range: SourceRange, value: Value, bounds: slice) -> SugaredValue:
        """`value[start:stop:step]`, for constant bounds."""
        if self.container not in ("list", "parameter list"):
            raise NO_INDEX(f"'{self.type.annotation}' object cannot be sliced", range)
        parts = self.items(b, range, value).values.parts[bounds]
        of_sequential = isinstance(self.module, torch.nn.Sequential) and not self._overrides("forward")
        return SequentialSlice(parts) if of_sequential else SugaredTuple(parts)

    def magic(self, b: Builder, range: SourceRange, value: Value, name: str, args: Args = ()) -> SugaredValue | None:
        if self.container is not None and name in ("__len__", "__contains__") and not self._overrides(name):
            return self.container_method(b, range, value, name, args)
        return super().magic(b, range, value, name, args)

    def special_of_base(self, value: Value, start: type, name: str) -> SugaredValue | None:
        if self.container is None or name not in ("__iter__", "__len__", "__getitem__", "__contains__", *_DICT_VIEWS):
            return None
        order = type(self.module).__mro__
        owner = next((cls for cls in order[order.index(start) + 1 :] if name in vars(cls)), None)
        return ContainerMethod(self, value, name) if owner in _LIBRARY else None

    def container_method(self, b: Builder, range: SourceRange, value: Value, name: str, args: Args) -> SugaredValue:
        """What a method of the container itself gives, whatever the user's class makes of it."""
        items = self.items(b, range, value)
        if name == "__len__":
            return SimpleValue(b.constant(len(items.names), range))
        if name == "__contains__":
            return items.contains(b, range, args[0].in_graph(b.graph))
        if name == "__getitem__":
            return self.own_element(b, range, value, args[0].in_graph(b.graph))
        if name in _DICT_VIEWS:
            return {"items": items.pairs, "keys": items.keys, "values": items.values}[name]
        return items.keys if str(self.container).endswith("dict") else items.values

    def _overrides(self, name: str) -> bool:
        """Does the user's class define a special method that its container has otherwise?"""
        standard = {getattr(cls, name, None) for cls, _ in CONTAINERS}
        return getattr(type(self.module), name, None) not in standard

    # -- methods
    def may_python_call(self, name: str) -> bool:
        """Is a compiled method of this name to be found by Python?"""
        return True

    def python_method(self, name: str) -> Callable[..., object] | None:
        computing = computing_forward(self.module) if name == "forward" else None
        return computing or self._own_python_method(name)

    def _own_python_method(self, name: str) -> Callable[..., object] | None:
        member = vars(self.module).get(name)
        if not inspect.ismethod(member) or type(member.__self__) is not type(self.module):
            member = inspect.getattr_static(self.type.python_class, name, None)
        if member is None or isinstance(member, staticmethod | classmethod | property):
            return None
        if any(vars(cls).get(name) is member for cls in _LIBRARY) and name != "forward":
            return None  # made to change modules, not to be compiled
        function = original_function(getattr(member, "__func__", member))
        if not inspect.isfunction(function) or function_mark(member) in (Mark.IGNORE, Mark.UNUSED):
            return None
        return function

    def python_property(self, name: str) -> property | None:
        found = computed_property(self.module, name) or super().python_property(name)
        return None if name in self.ignored or found is None or function_mark(found.fget) is not Mark.DEFAULT else found


class AttributeFunction(SugaredValue):
    """A function that is an attribute of a module."""

    def __init__(self, name: str, function: SugaredValue) -> None:
        self.name = name
        self.function = function
        self.kind = function.kind

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        try:
            return self.function.call(b, range, args, kwargs)
        except CompileError as error:
            if error.called_from:  # it is the function itself that is wrong
                error.notes.append(
                    f"'{self.name}' exists as an attribute on the Python module, but we failed to compile it to a "
                    "TorchScript function."
                )
            raise


class AttributeObject(SimpleValue):
    """An object of a script class that is an attribute of a module."""

    def __init__(self, name: str, value: Value) -> None:
        super().__init__(value)
        self.name = name

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        found = super().attr(b, range, name)
        return found if isinstance(found, SimpleValue) else AttributeMethod(self.name, self.value.type, found)


class AttributeMethod(SugaredValue):
    """A method of an object that is an attribute of a module."""

    def __init__(self, name: str, owner: Type, method: SugaredValue) -> None:
        self.name = name
        self.owner = owner
        self.method = method
        self.kind = method.kind

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        try:
            return self.method.call(b, range, args, kwargs)
        except CompileError as error:
            if error.called_from:  # it is the method itself that is wrong
                error.notes.append(
                    f"'{self.name}' exists as an attribute on the Python module, but we failed to convert Python type: "
                    f"'{self.owner.annotation}' to a TorchScript type."
                )
            raise


class SequentialSlice(SugaredTuple):
    """`sequential[start:stop]`, which can be called like the whole."""

    kind = "a slice of a Sequential"

    def sliced(self, bounds: slice) -> SugaredValue:
        return SequentialSlice(self.parts[bounds])

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if kwargs or len(args) != 1:
            raise UNNAMED_SUBMODULES(f"{self.kind} takes one argument", range)
        result: SugaredValue = SimpleValue(args[0].in_graph(b.graph))
        for part in self.parts:
            result = part.call(b, range, [NamedValue(None, result.as_value(b, range), range=range)], [])
        return result


class ModuleView(PartsMethod):
    """`module.items`, `module.named_parameters` and the like, waiting for their call."""

    def __init__(self, definition: ModuleDefinition, value: Value, name: str) -> None:
        self.definition = definition
        self.value = value
        self.name = name
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if args or kwargs:
            raise UNNAMED_SUBMODULES(f"{self.kind} of a module takes no arguments in scripts", range)
        if self.name in _DICT_VIEWS:
            return self.definition.container_method(b, range, self.value, self.name, [])
        return module_views(b, range, self.definition.type, self.value, self.name)


class ContainerMethod(SugaredValue):
    """`super().__iter__` and the like in a class that inherits from a container of modules."""

    def __init__(self, definition: ModuleDefinition, value: Value, name: str) -> None:
        self.definition = definition
        self.value = value
        self.name = name
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if kwargs or len(args) != int(self.name in ("__getitem__", "__contains__")):
            raise UNNAMED_SUBMODULES(f"wrong number of arguments for {self.kind} of a container of modules", range)
        return self.definition.container_method(b, range, self.value, self.name, args)


class SubmodulesByName(SugaredValue):
    """`module._modules`: the submodules by their names."""

    kind = "the dict of submodules"

    def __init__(self, definition: ModuleDefinition, value: Value) -> None:
        self.definition = definition
        self.value = value

    def _items(self, b: Builder, range: SourceRange) -> SugaredDict:
        return module_items(b, range, self.definition.type, self.value, "modules")

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        """The names: enough for `len(module._modules)` and `name in module._modules`."""
        return b.make_list(T.STRING, [b.constant(name, range) for name in self._items(b, range).names])

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name not in _DICT_VIEWS:
            raise UNNAMED_SUBMODULES(
                f"{self.kind} has the methods items, keys and values in scripts, and no '{name}'", range
            )
        return SubmoduleView(self._items(b, range), name)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self._items(b, range).keys

    def length(self, b: Builder, range: SourceRange) -> Value:
        return self._items(b, range).length(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        items = self._items(b, range)
        if not is_constant(index) and index.type is T.STRING and items.names:
            return chosen_part(b, range, index, items.names, items.values.parts)
        return items.element(b, range, index)


class SubmoduleView(SugaredValue):
    """`module._modules.items`, waiting for its call."""

    def __init__(self, items: SugaredDict, name: str) -> None:
        self.items = items
        self.name = name
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if args or kwargs:
            raise UNNAMED_SUBMODULES(f"{self.kind} takes no arguments", range)
        return {"items": self.items.pairs, "keys": self.items.keys, "values": self.items.values}[self.name]


_OVERLOAD = re.compile(r"(\w+)__\d+")


def overloads_by_name(methods: Iterable[str]) -> dict[str, list[str]]:
    """The methods that were overloaded, such as nn.LSTM's forward: `forward__0`, `forward__1`, and no `forward`."""
    methods = list(methods)
    found: dict[str, list[str]] = {}
    for name in methods:
        match = _OVERLOAD.fullmatch(name)
        if match is not None and match[1] not in methods:
            found.setdefault(match[1], []).append(name)
    return {name: listed for name, listed in found.items() if listed == [f"{name}__{i}" for i in range(len(listed))]}
