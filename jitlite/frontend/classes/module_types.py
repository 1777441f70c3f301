"""nn.Module -> class type: what scripts see of a module, found by looking at it.

Parameters, buffers, submodules and other attributes have the types of their annotations, else of their values; what
has no type is remembered with the reason, and is an error only where a script asks for it. Modules that look the same
share a type, and so their compiled methods.
"""

from __future__ import annotations

import inspect
import typing
import warnings
from contextlib import suppress
from typing import Any

import torch
from torch import _jit_internal

from jitlite.base.errors.classes import WRONG_INTERFACE
from jitlite.base.errors.modules import NOT_INITIALIZED, WRONG_OVERLOADS
from jitlite.base.source import CompileError
from jitlite.frontend.classes.attribute_types import (
    ATTRIBUTE_TYPES,
    NoType,
    annotated_type,
    as_held,
    class_annotations,
    infer_type,
    is_attribute_object,
)
from jitlite.frontend.classes.function_containers import appearance, is_known_container
from jitlite.frontend.classes.hooks import declare_hooks
from jitlite.frontend.classes.init_annotations import declared_in_init
from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.frontend.emit.definition import FunctionCompiler
from jitlite.frontend.emit.meanings import (
    Kind,
    Mark,
    declared_method_overloads,
    function_mark,
    meaning_of,
    plain_constant,
)
from jitlite.frontend.emit.resolver import FunctionResolver, Resolver
from jitlite.frontend.emit.type_names import constructor_of
from jitlite.frontend.tracing.torch_scripts import converted, is_torch_script_function, is_torch_script_module
from jitlite.ir import types as T
from jitlite.ir.constants import qualified_name
from jitlite.ir.types import ClassType, InterfaceType, Type
from jitlite.ir.values import class_type_of

NN_MODULE_INTERNALS = frozenset(vars(torch.nn.Module())) - {"training"}
"""Attributes of every nn.Module that are no attributes to scripts."""


class ModuleTypes:
    """The class types of the modules of one program: modules that look the same to scripts share one."""

    def __init__(self, program: FunctionCompiler) -> None:
        self.program = program
        self.shares = True
        self._types: dict[Any, list[tuple[Any, ClassType]]] = {}
        self._by_module: dict[int, tuple[torch.nn.Module, ClassType]] = {}
        self._converted: dict[int, tuple[torch.nn.Module, torch.nn.Module]] = {}

    def classes(self) -> list[type]:
        """The Python classes of the modules that have been asked for."""
        return list(self._types)

    def type_of(self, module: torch.nn.Module) -> ClassType:
        """The type of a module, made now if no module like it has one.

        Raises:
            CompileError: where the module cannot be described.
        """
        module = self.own(module)
        own = class_type_of(module)
        if own is not None:
            return own
        known = self._by_module.get(id(module))
        if known is None:
            known = self._by_module[id(module)] = module, self._infer(module)
        return known[1]

    def own(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module itself; for one that torch.jit has compiled, what it is converted to.

        Raises:
            NotSupportedError: where it cannot be converted.
        """
        if not is_torch_script_module(module):
            return module
        known = self._converted.get(id(module))
        if known is None:
            known = self._converted[id(module)] = module, converted(module)
        return known[1]

    def _infer(self, module: torch.nn.Module) -> ClassType:
        check_initialized(module)
        cls = type(module)
        made = ClassType.new(self.program.unique_name(qualified_name(cls)), cls, is_module=True)
        definition = ModuleDefinition(module, made, self.program)
        _Inspection(self, definition).run()
        definition.entry_points = methods_to_compile(module)
        definition.shares_type = self.shares
        appearance = _appearance(definition)
        for known, found in self._types.setdefault(cls, []):
            if self.shares and known == appearance:
                return found
        self._types[cls].append((appearance, made))
        self.program.name_type(made.qualified_name, made)
        declare_hooks(definition)
        return made


def check_initialized(module: torch.nn.Module) -> None:
    """Can the module be looked at?

    Raises:
        CompileError: its `__init__` was not run, or it has parameters that are still to be initialized.
    """
    name = torch.typename(type(module))
    if "_parameters" not in vars(module):
        raise NOT_INITIALIZED(f"'{name}' has not been initialized, did you forget to call 'super()'?")
    groups: tuple[tuple[str, dict[str, Any]], ...] = (("parameters", module._parameters), ("buffers", module._buffers))
    for kind, tensors in groups:
        for attribute, tensor in tensors.items():
            if tensor is not None and torch.nn.parameter.is_lazy(tensor):
                raise NOT_INITIALIZED(
                    f"'{name}' has uninitialized {kind} {attribute}. Did you forget to run a forward pass?"
                )


def same_module_type(a: ClassType, b: ClassType) -> bool:
    """Do two types, perhaps of two programs, describe modules that look the same to scripts?"""
    if a is b:
        return True
    first, second = a.definition, b.definition
    if not all(d.shares_type for d in (first, second) if isinstance(d, ModuleDefinition)):
        return False
    if a.python_class is not b.python_class or type(first) is not ModuleDefinition:
        return False  # methods of other kinds of modules, such as frozen ones, are each their own
    if list(a.attributes) != list(b.attributes) or not isinstance(second, ModuleDefinition):
        return False
    if not all(map(_same_attribute_type, a.attributes.values(), b.attributes.values())):
        return False
    return bool(_appearance(first)[1:] == _appearance(second)[1:])


def _same_attribute_type(a: Type, b: Type) -> bool:
    if isinstance(a, ClassType) and isinstance(b, ClassType) and a.is_module and b.is_module:
        return same_module_type(a, b)
    return a is b


def _appearance(definition: ModuleDefinition) -> Any:
    """What has to be equal for two modules to share a type."""
    t, module = definition.type, definition.module
    constants = {name: (type(value), repr(value)) for name, value in t.constants.items()}
    replaced = {n: id(f.__func__) for n, f in vars(module).items() if inspect.ismethod(f)}
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return (
        list(t.attributes.items()), sorted(t.parameters), sorted(t.buffers), constants, replaced,
        {name: id(f) for name, f in definition.functions.items()}, definition.overloads, definition.failed,
        {name: appearance(module, found) for name, found in definition.containers.items()},
        [id(hook) for hook in hooks], definition.ignored,
    )  # fmt: skip


class _Inspection:
    """Looks at a module and writes down what scripts see of it."""

    def __init__(self, types: ModuleTypes, definition: ModuleDefinition) -> None:
        self.types = types
        self.definition = definition
        self.type = definition.type
        self.module = definition.module
        self.ignored = definition.ignored
        self.class_types = definition.program.type_of_class
        self.annotations = self._class_annotations()
        self.resolver = self._resolver()

    def run(self) -> None:
        for name, tensor in self.module._parameters.items():
            self._tensor(name, tensor, self.type.parameters)
        for name, buffer in self.module._buffers.items():
            self._tensor(name, buffer, self.type.buffers)
        for name, submodule in self.module._modules.items():
            if name not in self.ignored:
                self.type.attributes[name] = self._submodule(name, submodule)
        self._constants()
        self._overloads()
        for name, value in vars(self.module).items():
            if not (
                name in NN_MODULE_INTERNALS or name.startswith("__") or name in self.ignored or self._is_known(name)
            ):
                self._attribute(name, value)

    def _is_known(self, name: str) -> bool:
        return name in self.type.attributes or name in self.type.constants

    def _class_annotations(self) -> dict[str, object]:
        found = class_annotations(type(self.module))
        forward = torch.nn.Module.__annotations__.get("forward")
        return {name: a for name, a in found.items() if a != forward}

    def _resolver(self) -> Resolver:
        cls = type(self.module)
        for base in cls.__mro__:
            initializer = base.__dict__.get("__init__")
            if inspect.isfunction(initializer) and base is not torch.nn.Module:
                return FunctionResolver(initializer, {cls.__name__: cls}, self.definition.name, self.class_types)
        scope = vars(inspect.getmodule(cls)) if inspect.getmodule(cls) else {}
        return Resolver(scope, self.definition.name, self.class_types)

    def _tensor(self, name: str, tensor: torch.Tensor | None, kind: set[str]) -> None:
        if name in self.ignored:
            return
        t: Type = T.NONE if tensor is None else T.TENSOR
        if name in self.annotations:
            with suppress(NoType):
                t = annotated_type(self.annotations[name], self.resolver)
        self.type.attributes[name] = t
        kind.add(name)

    def _submodule(self, name: str, submodule: torch.nn.Module | None) -> Type:
        if submodule is None:
            return T.NONE
        if name in self.annotations:
            try:
                annotated = annotated_type(self.annotations[name], self.resolver)
            except (NoType, CompileError):
                annotated = T.NONE
            if isinstance(annotated, InterfaceType):
                return self._check_interface(name, submodule, annotated)
        return self.types.type_of(submodule)

    def _check_interface(self, name: str, submodule: torch.nn.Module, interface: InterfaceType) -> Type:
        found = self.types.type_of(submodule)
        if found.definition is not None:
            found.definition.infer_results(interface)
        reason = T.why_not_interface(found, interface)
        if reason is not None:
            raise WRONG_INTERFACE(
                f"submodule '{name}' of '{type(self.module).__name__}' is not of its annotated interface: {reason}"
            )
        return interface

    def _constants(self) -> None:
        names = list(dict.fromkeys(getattr(self.module, "__constants__", ())))
        names += [name for name, a in self.annotations.items() if self._is_final(a) and name not in names]
        for name in names:
            if name in self.ignored:
                continue
            if self._is_known(name):
                kind = "submodule" if name in self.module._modules else "buffer or parameter"
                if name in self.annotations and self._is_final(self.annotations[name]):
                    continue
                warnings.warn(
                    f"'{name}' was found in ScriptModule constants,  but it is a non-constant {kind}. Consider "
                    "removing it.",
                    stacklevel=2,
                )
            elif not hasattr(self.module, name):
                warnings.warn(
                    f"'{name}' was found in ScriptModule constants, but was not actually set in __init__. Consider "
                    "removing it.",
                    stacklevel=2,
                )
            else:
                self._constant(name, getattr(self.module, name))

    def _is_final(self, annotation: object) -> bool:
        if not isinstance(annotation, str):  # else it is under `from __future__ import annotations`
            return bool(_jit_internal.is_final(annotation)) or annotation is typing.Final
        name = annotation.strip().strip("\"'").partition("[")[0].strip()  # quotes within: it was a string already
        try:
            return constructor_of(self.resolver.resolve_type(name)) == "Final"
        except (LookupError, AttributeError):
            return name.rpartition(".")[2] == "Final"

    def _constant(self, name: str, value: object) -> None:
        self.type.constants[name] = valid_constant(f"{type(self.module).__name__}.{name}", value)

    def _overloads(self) -> None:
        declared = dict(getattr(self.module, "__overloads__", {}))
        for name, functions in declared.items():
            self.definition.overloads[name] = list(functions)
        for name, member in _members(type(self.module)):
            if inspect.isfunction(member):
                found = declared_method_overloads(member, type(self.module))
                if found:
                    self._overloaded_method(name, member, found)

    def _overloaded_method(self, name: str, function: object, signatures: list[Any]) -> None:
        if function in signatures:
            raise WRONG_OVERLOADS(
                f'Implementation for the method "{name}" is missing. It has to follow the overloads',
                hint="write the implementation behind the last declaration, without the decorator",
            )
        names = [f"{name}__{position}" for position in range(len(signatures))]
        self.definition.overloads[name] = names
        for mangled, signature in zip(names, signatures, strict=True):
            if not inspect.signature(signature).parameters:
                raise WRONG_OVERLOADS(f"Must explicitly add type annotations to overloaded functions: {name}")
            self.definition.declare(mangled, function, signature)

    def _attribute(self, name: str, value: Any) -> None:
        """An attribute of any other kind: a function, or data."""
        known = vars(self.module).get(ATTRIBUTE_TYPES, {})
        if name in known or is_attribute_object(value):
            self.type.attributes[name] = annotated_type(known.get(name) or value.type, self.resolver)
            return
        if inspect.isfunction(value) or is_torch_script_function(value) or _is_operator(value):
            self.definition.functions[name] = value
            return
        annotated = name in self.annotations
        try:
            if annotated:
                found = as_held(annotated_type(self.annotations[name], self.resolver), value, self.class_types)
            else:
                found = infer_type(value, self.class_types)
            if not annotated:
                found = declared_in_init(type(self.module), name, value, self.class_types) or found
        except NoType as error:
            declared = None if annotated else declared_in_init(type(self.module), name, value, self.class_types)
            if declared is not None:
                self.type.attributes[name] = declared
                return
            if is_known_container(self.module, value):
                self.definition.containers[name] = value
            inferred = "" if annotated else " Its type was inferred; try adding a type annotation for the attribute."
            self.definition.failed[name] = (
                "(This attribute exists on the Python module, but we failed to convert Python type: "
                f"'{torch.typename(type(value))}' to a TorchScript type. {error}.{inferred})"
            )
            return
        self.type.attributes[name] = found


def _is_operator(value: object) -> bool:
    if not callable(value) or isinstance(value, torch.nn.Module) or inspect.isclass(value):
        return False
    kind = meaning_of(value).kind
    return kind in (Kind.OPERATOR, Kind.SCRIPT_FUNCTION, Kind.FORM, Kind.AUTOGRAD_APPLY, Kind.PARTIAL)


def valid_constant(where: str, value: object) -> object:
    """The value of a class constant; lists become tuples.

    Raises:
        TypeError: where it can be no constant.
    """
    if isinstance(value, tuple | list):
        return tuple(valid_constant(where, part) for part in value)
    is_literal, literal = plain_constant(value)
    if not is_literal:
        raise TypeError(
            f"'{torch.typename(type(value))}' object in attribute '{where}' is not a valid constant. Valid constants "
            "are: a number, bool, str, None, device, layout or dtype, an enum member, or a list or tuple of these"
        )
    return literal


# -- what is compiled


def methods_to_compile(module: torch.nn.Module) -> list[str]:
    """The methods that scripting a module starts from: `forward`, unless it is left to Python, and exported ones."""
    found = []
    forward = getattr(type(module), "forward", None)
    own = vars(module).get("forward", forward)
    defined = forward is not torch.nn.Module.forward or own is not forward
    if defined and function_mark(own) not in (Mark.IGNORE, Mark.UNUSED):
        found.append("forward")
    ignored = getattr(module, "__jit_ignored_attributes__", ())
    for name, member in _members(type(module)):
        exported = inspect.isfunction(member) and function_mark(member) is Mark.EXPORT
        if exported and name not in found and name not in ignored:
            found.append(name)
    return found


def _members(cls: type) -> list[tuple[str, Any]]:
    """What a class of modules and its bases define, as it stands there, sorted by name.

    Without `nn.Module`: it has many methods, none of them exported or overloaded.
    """
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is not torch.nn.Module:
            found.update(vars(base))
    return sorted(found.items())
