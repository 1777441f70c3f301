"""Modules that were read from an archive, without how they are pickled, which `load.py` says."""

from __future__ import annotations

from typing import Any

from jitlite.base.source import CompileError
from jitlite.codegen.torchscript.source_out import function_source
from jitlite.ir.values import CLASS_TYPE
from jitlite.loading.attribute_names import MODULE_METHODS
from jitlite.loading.unset import is_unset, unset_error
from jitlite.objects.function import ScriptMethod
from jitlite.objects.sourceless import SourcelessModule


class LoadedMethod(ScriptMethod):
    """A method of a module that was read from an archive."""

    def _install_entry(self) -> None:
        if is_unset(self.owner):
            raise unset_error(vars(self.owner)[CLASS_TYPE].qualified_name)
        super()._install_entry()

    @property
    def code(self) -> str:
        """The source, as an archive that is written today has it."""
        try:
            return function_source(self.__jitlite_function__)
        except CompileError:
            return super().code


class UnpickledModule(SourcelessModule):
    """A module that was read from an archive: no Python class has its source, the archive has the code."""

    _jitlite_method_class = LoadedMethod
    _jitlite_kept_methods = MODULE_METHODS

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
