"""Private names: in the body of a class, Python reads `self.__x` as `self._Class__x`.

The rule holds for every identifier that begins with two underscores and does not end with two, in all that is written
within the class statement, functions in its methods included.
"""

from __future__ import annotations

import ast
from itertools import pairwise

_FIELDS = ("id", "attr", "arg", "name")
"""The fields of Python's syntax trees that hold one identifier."""


def private_owner(qualified_name: str) -> str | None:
    """The innermost class that a function of this qualified name is written in: `C` of `C.f` and `C.f.<locals>.g`."""
    parts = qualified_name.split(".")
    owners = [part for part, inner in pairwise(parts) if "<locals>" not in (part, inner)]
    return owners[-1] if owners else None


def mangled(name: str, owner: str) -> str:
    """The name as Python keeps it for what is written in the class `owner`."""
    bare = owner.lstrip("_")
    if not bare or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    return f"_{bare}{name}"


def mangle_private_names(function: ast.FunctionDef, owner: str) -> None:
    """Rewrite the private names in a function that is written in the class `owner`; its own name stays as written."""
    own_name = function.name
    for node in ast.walk(function):
        if isinstance(node, ast.keyword):
            continue  # Python leaves the keywords of calls as they are
        for field in _FIELDS:
            written = getattr(node, field, None)
            if isinstance(written, str):
                setattr(node, field, mangled(written, owner))
        if isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [mangled(name, owner) for name in node.names]
    function.name = own_name
