"""Namespaces that import what they have when it is first asked for.

Type checkers, and the test of who may import whom, read the same from imports under `if TYPE_CHECKING`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping

_Methods = tuple[Callable[[str], object], Callable[[], list[str]]]
"""`__getattr__` and `__dir__` of a module."""


def names_on_demand(namespace: dict[str, object], homes: Mapping[str, str]) -> _Methods:
    """Names of other modules.

    Args:
        namespace: the `globals()` of the module that has them. What has been asked for once is kept there.
        homes: for each of the other modules, the names that come from there, separated by blanks.
    """
    return _on_demand(
        namespace,
        {name: functools.partial(_name_of, home, name) for home, names in homes.items() for name in names.split()},
    )


def modules_on_demand(namespace: dict[str, object], *modules: str) -> _Methods:
    """Modules, under the last part of their names."""
    found = {module.rpartition(".")[2]: functools.partial(importlib.import_module, module) for module in modules}
    return _on_demand(namespace, found)


def _on_demand(namespace: dict[str, object], found: Mapping[str, Callable[[], object]]) -> _Methods:
    def get(name: str) -> object:
        if name not in found:
            module = sys.modules.get(str(namespace["__name__"]))  # Python looks there for a name that was perhaps meant
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}", name=name, obj=module)
        value = namespace[name] = found[name]()
        return value

    return get, lambda: sorted({*namespace, *found})


def _name_of(module: str, name: str) -> object:
    value: object = getattr(importlib.import_module(module), name)
    return value
