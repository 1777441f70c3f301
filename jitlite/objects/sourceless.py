"""Script functions and modules of which Python has no source: graphs and class types are all that there is of them."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from jitlite.archive.tensor_identity import deep_copy
from jitlite.frontend.classes.modules import ModuleDefinition
from jitlite.ir.types import ClassType
from jitlite.ir.values import CLASS_TYPE
from jitlite.objects.function import ScriptFunction, ScriptMethod
from jitlite.objects.module import RecursiveScriptModule, plain_state
from jitlite.objects.module_attributes import shadow_inherited_methods


class GraphIsSource(ScriptFunction):
    """A function whose source is its graph."""

    @property
    def code(self) -> str:
        return self.__jitlite_function__.graph.to_text(ranges=False)

    @property
    def stages(self) -> dict[str, str]:
        return {"graph": str(self.graph), "optimized": str(self.optimized_graph), "bytecode": self.bytecode}


class SourcelessModule(RecursiveScriptModule):
    """A module that cannot be compiled anew. Copies share its class type."""

    _jitlite_method_class: ClassVar[type[ScriptMethod]] = ScriptMethod
    """The class of what its methods are to Python."""
    _jitlite_kept_methods: ClassVar[frozenset[str]] = frozenset()
    """Names of methods of nn.Module that stay what they are, whatever the class type has."""

    def _jitlite_bound(self, definition: ModuleDefinition, name: str) -> ScriptMethod:
        method = definition.method(name)
        assert method is not None
        return self._jitlite_method_class(definition.program, method, self)

    def _jitlite_settle(self, type: ClassType) -> None:
        """Become a module of the class type."""
        vars(self)[CLASS_TYPE] = type
        shadow_inherited_methods(self, [name for name in type.methods if name not in self._jitlite_kept_methods])

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        vars(made).update(plain_state(self))
        for kind in ("_parameters", "_buffers", "_modules"):
            vars(made)[kind] = copy.copy(vars(self)[kind])
        made._jitlite_settle(vars(self)[CLASS_TYPE])
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = type(self).__new__(type(self))
        vars(made).update(deep_copy(self, memo, lambda: copy.deepcopy(plain_state(self), memo)))
        made._jitlite_settle(vars(self)[CLASS_TYPE])
        return made
