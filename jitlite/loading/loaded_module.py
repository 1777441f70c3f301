"""Modules that were read from an archive."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jitlite.archive.save import save_to_buffer
from jitlite.archive.tensor_identity import deep_copy, share_memory, sharing_memory
from jitlite.base.source import CompileError
from jitlite.codegen.torchscript.source_out import function_source
from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.ir.types import ClassType
from jitlite.ir.values import CLASS_TYPE
from jitlite.loading.attribute_names import MODULE_METHODS
from jitlite.loading.unset import is_unset, unset_error
from jitlite.objects.function import ScriptMethod
from jitlite.objects.module import RecursiveScriptModule, plain_state
from jitlite.objects.module_attributes import shadow_inherited_methods


class LoadedMethod(ScriptMethod):
    """A method of a module that was read from an archive."""

    def _make_entry(self) -> Callable[..., Any]:
        if is_unset(self.owner):
            raise unset_error(vars(self.owner)[CLASS_TYPE].qualified_name)
        return super()._make_entry()

    @property
    def code(self) -> str:
        """The source, as an archive that is written today has it."""
        try:
            return function_source(self.__jitlite_function__)
        except CompileError:
            return super().code


class LoadedModule(RecursiveScriptModule):
    """A module that was read from an archive: no Python class has its source, the archive has the code."""

    def _jitlite_bound(self, definition: ModuleDefinition, name: str) -> ScriptMethod:
        method = definition.method(name)
        assert method is not None
        return LoadedMethod(definition.program, method, self)

    def __getattr__(self, name: str) -> Any:
        if is_unset(self) and name in vars(self)[CLASS_TYPE].attributes:
            raise unset_error(vars(self)[CLASS_TYPE].qualified_name)
        return super().__getattr__(name)

    def __getitem__(self, index: object) -> Any:
        """What the Python class says; a container whose class is not known here has its submodules in order."""
        try:
            return super().__getitem__(index)
        except NotImplementedError:
            if isinstance(index, int):
                return list(self._modules.values())[index]
            if index in self._modules:
                return self._modules[index]
            raise

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        vars(made).update(plain_state(self))
        for kind in ("_parameters", "_buffers", "_modules"):
            vars(made)[kind] = copy.copy(vars(self)[kind])
        settle(made, vars(self)[CLASS_TYPE])
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = type(self).__new__(type(self))
        vars(made).update(deep_copy(self, memo, lambda: copy.deepcopy(plain_state(self), memo)))
        settle(made, vars(self)[CLASS_TYPE])
        return made

    def __reduce_ex__(self, protocol: object) -> Any:
        """The archive that saving the module gives."""
        return as_archive(self)


def as_archive(module: torch.nn.Module) -> tuple[Any, ...]:
    """What a pickle keeps of a module that no Python class is the source of: its archive, and beside it the tensors, so
    that what else holds one of them in the pickle goes on doing so."""
    tensors: list[torch.Tensor] = []
    content = save_to_buffer(module, outside=tensors)
    return read_again, (content, tensors, sharing_memory(tensors))


def read_again(
    content: bytes, tensors: Sequence[torch.Tensor] = (), shared: Sequence[Sequence[torch.Tensor]] = ()
) -> Any:  # fmt: skip
    """The module in the content of an archive.

    Args:
        tensors: those that the archive has numbers for.
        shared: those of them that lay on one storage, for each storage of which this holds.
    """
    for group in shared:
        share_memory(group)
    return readers[-1](content, tensors)


readers: list[Callable[[bytes, Sequence[torch.Tensor]], object]] = []
"""What reads an archive: who does so is above this file."""


def settle(module: LoadedModule, type: ClassType) -> None:
    """Give a module its class type."""
    vars(module)[CLASS_TYPE] = type
    shadow_inherited_methods(module, [name for name in type.methods if name not in MODULE_METHODS])
