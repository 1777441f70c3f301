"""A script module by torch.jit's inner names: what `module._c` gives there."""

from __future__ import annotations

from typing import Any

import torch

from jitlite.base.dynamo import unseen_by_dynamo
from jitlite.frontend.classes.module_types import same_module_type
from jitlite.ir.types import ClassType
from jitlite.ir.values import TRACED_INPUTS, class_type_of


class ModuleType:
    """The class type of a module; equal to that of a module that looks the same to scripts."""

    def __init__(self, inner: ClassType) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleType) and same_module_type(self.inner, other.inner)

    def __hash__(self) -> int:
        return hash(self.inner.python_class)

    def __repr__(self) -> str:
        return str(self.inner)

    def attribute_names(self) -> list[str]:
        """The names of the attributes, in order."""
        return list(self.inner.attributes)


class ModuleHandle:
    """What scripts see of a module, and nothing else: the attributes of its class type and its compiled methods."""

    def __init__(self, module: object) -> None:
        vars(self)["module"] = module

    def __repr__(self) -> str:
        return f"<what scripts see of a module: {self._class}>"

    @property
    def _class(self) -> ClassType:
        found = class_type_of(vars(self)["module"])
        assert found is not None
        return found

    def hasattr(self, name: str) -> bool:
        """Has the class an attribute of this name? Methods and constants do not count."""
        return name in self._class.attributes

    def getattr(self, name: str) -> Any:
        """The attribute; a submodule as a handle.

        Raises:
            AttributeError: the class has no such attribute.
        """
        if not self.hasattr(name):
            shown = self._class.qualified_name.rpartition(".")[2]
            raise AttributeError(f"{shown} (of jitlite) does not have a field with name '{name}'")
        value = getattr(vars(self)["module"], name)
        return ModuleHandle(value) if isinstance(value, torch.nn.Module) else value

    def setattr(self, name: str, value: object) -> None:
        """Assign to the attribute."""
        setattr(vars(self)["module"], name, value)

    def __getattr__(self, name: str) -> Any:
        return self._get_method(name) if self._has_method(name) else self.getattr(name)

    def __setattr__(self, name: str, value: object) -> None:
        self.setattr(name, value)

    def _has_method(self, name: str) -> bool:
        return name in self._class.methods

    def _get_method(self, name: str) -> Any:
        return vars(self)["module"]._jitlite_method(name)

    def _method_names(self) -> list[str]:
        return list(self._class.methods)

    def _retrieve_traced_inputs(self) -> dict[str, list[Any]]:
        """The example inputs of the methods of a traced module, where they were stored."""
        return dict(vars(vars(self)["module"]).get(TRACED_INPUTS, {}))

    def _type(self) -> ModuleType:
        """The class type: that of another module that looks the same to scripts is equal."""
        return ModuleType(self._class)

    @property
    def qualified_name(self) -> str:
        """The name of the class."""
        return self._class.qualified_name

    @unseen_by_dynamo
    def __call__(self, *args: object, **kwargs: object) -> Any:
        return vars(self)["module"](*args, **kwargs)


def unwrapped(handle: object) -> Any:
    """The module of a handle, or the module itself."""
    return vars(handle)["module"] if isinstance(handle, ModuleHandle) else handle
