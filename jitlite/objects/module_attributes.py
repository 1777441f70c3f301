"""The attributes of compiled modules: methods, constants, properties and state, as their class type has them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Container, Iterable
from typing import Any

import torch
from torch import _jit_internal

from jitlite.archive.tensor_identity import SharedResults, collect_weights, exchange_buffers
from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.frontend.classes.attribute_types import ATTRIBUTE_TYPES, is_attribute_object
from jitlite.frontend.classes.module_types import same_module_type
from jitlite.frontend.classes.modules import CONTAINERS, ModuleDefinition
from jitlite.frontend.emit.meanings import Mark, function_mark
from jitlite.interpreter.binding import bind_value
from jitlite.ir.types import ClassType, TensorType
from jitlite.ir.values import CLASS_TYPE
from jitlite.objects.function import ScriptMethod
from jitlite.objects.late_hooks import LateHooks
from jitlite.objects.overloaded import OverloadedMethod

METHODS = "__jitlite_methods__"
"""The attribute that keeps the method objects of one module."""
_OF_FORWARD = (
    "code", "archive_code", "code_with_constants", "generated_code", "graph", "inlined_graph", "optimized_graph",
    "graph_for", "gradient_graph", "bytecode", "schema", "tree", "stages", "explain", "profile", "get_debug_state",
    "kernels", "report",
)  # fmt: skip
"""Attributes of a script module that are those of its forward."""


class ConstantAttributeError(AttributeError, RuntimeError):
    """An assignment to a constant of a script module. torch.jit raises the one or the other."""


class ScriptModuleAttributes(LateHooks):
    """What a `ScriptModule` does where its attributes are read, written and registered."""

    @unseen_by_dynamo
    def _jitlite_method(self, name: str) -> Any:
        """The compiled method `name` of this module, None where it has none."""
        known = vars(self).setdefault(METHODS, {})
        if name not in known:
            definition = definition_of(self)
            if not definition.may_python_call(name):
                return None
            if name in definition.overloads:
                names = definition.overloads[name]
                known[name] = OverloadedMethod(name, [self._jitlite_bound(definition, n) for n in names])
            elif name in definition.type.methods or name in definition.entry_points:
                known[name] = self._jitlite_bound(definition, name)
            else:
                return None
        return known[name]

    def _jitlite_bound(self, definition: ModuleDefinition, name: str) -> ScriptMethod:
        method = definition.method(name)
        assert method is not None
        return ScriptMethod(definition.program, method, self)

    def __getattr__(self, name: str) -> Any:
        found = _own_tensor_or_module(self, name)
        if found is not NOTHING:
            return found
        if CLASS_TYPE in vars(self):
            found = self._jitlite_attribute(name)
            if found is not NOTHING:
                return found
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{self._jitlite_why_not(name)}")

    def _jitlite_attribute(self, name: str) -> Any:
        method = self._jitlite_method(name)
        if method is not None:
            return method
        definition = definition_of(self)
        if name in definition.type.constants:
            return definition.type.constants[name]
        accessors = definition.property_accessors(name)
        if accessors is not None:
            return self._jitlite_bound(definition, accessors[0])()
        member = inspect.getattr_static(definition.type.python_class, name, None)
        if isinstance(member, property):
            left_to_python = function_mark(member.fget) is not Mark.DEFAULT or name in definition.ignored
            return member.__get__(self) if left_to_python else NOTHING
        if inspect.isfunction(member) and (_stays_python(member) or _is_of_container(name, member)):
            return types.MethodType(member, self)
        if isinstance(member, staticmethod | classmethod):
            return member.__get__(None, definition.type.python_class)
        if name in _OF_FORWARD and self._jitlite_method("forward") is not None:
            return getattr(self._jitlite_method("forward"), name)
        return NOTHING

    def _jitlite_shown(self) -> tuple[str, ...]:
        """The attributes that the module has because its forward has them."""
        return _OF_FORWARD if self._jitlite_method("forward") is not None else ()

    def _jitlite_keeps(self, name: str) -> bool:
        """Is it a method of the Python class that this module has without compiling it?"""
        member = inspect.getattr_static(definition_of(self).type.python_class, name, None)
        return inspect.isfunction(member) and (_stays_python(member) or _is_of_container(name, member))

    def _jitlite_why_not(self, name: str) -> str:
        cls: Any = definition_of(self).type.python_class if CLASS_TYPE in vars(self) else None
        member = inspect.getattr_static(cls, name, None) if cls else None
        if inspect.isfunction(member):
            return (
                f": the method of {cls.__name__} was not compiled, as nothing reaches it; mark it with jitlite.export"
            )
        return ""

    def __setattr__(self, name: str, value: Any) -> None:
        found = vars(self).get(CLASS_TYPE)
        if found is None and is_attribute_object(value):  # the rest of `__init__` is to see the value
            vars(self).setdefault(ATTRIBUTE_TYPES, {})[name] = value.type
            value = value.value
        if found is not None:
            value = self._jitlite_checked(found, name, value)
            accessors = found.definition.property_accessors(name) if name not in found.attributes else None
            if accessors is not None and accessors[1] is not None:
                self._jitlite_bound(found.definition, accessors[1])(value)
                return
        super().__setattr__(name, value)
        if found is not None and isinstance(value, torch.Tensor):
            collect_weights(self, name)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        apply: Any = super()._apply
        if isinstance(fn, SharedResults):  # of the module that this one is in
            return apply(fn, recurse)
        exchange_buffers(self, lambda shared: apply(shared, recurse), fn)
        return self

    def __delattr__(self, name: str) -> None:
        found = vars(self).get(CLASS_TYPE)
        if found is not None and (name in found.attributes or name in found.methods):
            raise RuntimeError(f"cannot delete methods or parameters of a script module: '{name}'")
        super().__delattr__(name)

    def register_parameter(self, name: str, param: torch.nn.Parameter | None) -> None:
        self._jitlite_check_place("parameter", name, self._parameters)
        super().register_parameter(name, param)

    def register_buffer(self, name: str, tensor: torch.Tensor | None, persistent: bool = True) -> None:
        self._jitlite_check_place("buffer", name, self._buffers)
        super().register_buffer(name, tensor, persistent)

    def add_module(self, name: str, module: torch.nn.Module | None) -> None:
        self._jitlite_check_place("submodule", name, self._modules)
        super().add_module(name, module)

    def _jitlite_check_place(self, kind: str, name: str, known: Container[str]) -> None:
        """See that what is registered was there when the module was compiled, as scripts would not see it otherwise.

        Raises:
            RuntimeError: where it was not.
        """
        if CLASS_TYPE in vars(self) and name not in known:
            raise RuntimeError(f"Can't add a new {kind} after ScriptModule construction. Tried to add '{name}'")

    def _jitlite_checked(self, found: ClassType, name: str, value: object) -> Any:
        """The value in the form of the attribute's type.

        Raises:
            AttributeError: the attribute is a constant.
            RuntimeError: the value is not of the attribute's type.
        """
        if name in found.constants:
            raise ConstantAttributeError(f"Cannot mutate TorchScript constant value: '{name}'. Value: '{value}'")
        wanted = found.attributes.get(name)
        if isinstance(value, torch.nn.Module):
            self._jitlite_check_place("submodule", name, {*found.attributes, *self._modules})
        if wanted is None:
            return value
        if isinstance(value, torch.nn.Module) and not isinstance(value, ScriptModuleAttributes):
            raise RuntimeError(
                "Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace existing "
                f"module '{name}': modules that are not compiled are not supported on ScriptModules: {value}"
            )
        if isinstance(value, ScriptModuleAttributes) and isinstance(wanted, ClassType):
            if not same_module_type(type_of(value), wanted):
                raise RuntimeError(
                    f"Expected a value of type {_shown_type(wanted)} for field '{name}', but found "
                    f"{_shown_type(type_of(value))}. Only a module of the same kind can take its place, or, where the "
                    "class annotates the field with an interface, one that has the methods of the interface"
                )
            _retype(value, wanted)
        if value is None and isinstance(wanted, TensorType):  # scripts have no branch for it
            raise RuntimeError(f"Could not cast attribute '{name}' to type Tensor: None is no tensor")
        return bind_value(wanted, value, f"attribute '{name}' of '{found.python_class.__name__}'")


class _Nothing:
    pass


NOTHING = _Nothing()


def _own_tensor_or_module(module: torch.nn.Module, name: str) -> Any:
    for kind in ("_parameters", "_buffers", "_modules"):
        found = vars(module).get(kind)
        if found is not None and name in found:
            return found[name]
    return NOTHING


def _stays_python(member: object) -> bool:
    """Is it a method that is available without being compiled?"""
    if function_mark(member) in (Mark.IGNORE, Mark.UNUSED):
        return True
    kept: object = _jit_internal.FunctionModifiers.COPY_TO_SCRIPT_WRAPPER
    return getattr(member, "_torchscript_modifier", None) is kept


def _is_of_container(name: str, member: object) -> bool:
    """Is it a method that one of torch's containers has, such as what it calls by itself?"""
    return any(vars(cls).get(name) is member for cls, _ in CONTAINERS)


def definition_of(module: torch.nn.Module) -> ModuleDefinition:
    found = vars(module)[CLASS_TYPE].definition
    assert isinstance(found, ModuleDefinition)
    return found


def shadow_inherited_methods(module: ScriptModuleAttributes, names: Iterable[str]) -> None:
    """Let an object find its compiled methods where it would find nn.Module's own, such as `forward`, first."""
    for name in names:
        inherited = getattr(torch.nn.Module, name, None)
        if inherited is not None and getattr(type(module), name, None) is inherited:
            vars(module)[name] = module._jitlite_method(name)


def forget_methods(module: ScriptModuleAttributes) -> None:
    """Have an object look for its compiled methods anew."""
    own = vars(module)
    own.pop(METHODS, None)
    if isinstance(own.get("forward"), ScriptMethod):
        del own["forward"]


def _retype(module: ScriptModuleAttributes, wanted: ClassType) -> None:
    """Let a module, compiled by itself, use the methods that were compiled for another one of the same kind."""
    vars(module)[CLASS_TYPE] = wanted
    forget_methods(module)
    shadow_inherited_methods(module, wanted.methods)
    for name, submodule in module._modules.items():
        inner = wanted.attributes.get(name)
        if isinstance(submodule, ScriptModuleAttributes) and isinstance(inner, ClassType):
            _retype(submodule, inner)


def _shown_type(found: ClassType) -> str:
    cls = found.python_class
    return f"'{found.annotation} (of the Python class {cls.__module__}.{cls.__qualname__})'"


def type_of(module: ScriptModuleAttributes) -> ClassType:
    found: ClassType = vars(module)[CLASS_TYPE]
    return found
