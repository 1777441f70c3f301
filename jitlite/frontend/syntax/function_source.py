"""A Python function as it is compiled: its tree, and what its names and defaults are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from jitlite.base.errors.statements import WRONG_DEFAULT
from jitlite.base.source import Source
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.annotation_names import names_of_annotation
from jitlite.frontend.syntax.ignored_blocks import IgnoredBlock


def _is_mutable(default: object) -> bool:
    """Would calls that change this default, or a part of it, be seen by later ones?"""
    return isinstance(default, list | dict | set) or (isinstance(default, tuple) and any(map(_is_mutable, default)))


@dataclass(frozen=True)
class FunctionSource:
    """The tree of a Python function and what compiling it needs besides.

    `parameters` are what `inspect.signature` says, for the values of defaults; `function` is the function under any
    decorators and methods, for its globals and closure; `ignored` are blocks that are left to Python; `contexts` says
    what the names denote that stand for its decorators.
    """

    definition: t.Def
    source: Source
    function: FunctionType
    parameters: Mapping[str, inspect.Parameter]
    ignored: Sequence[IgnoredBlock] = ()
    contexts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, object]:
        """Values of the defaults, by parameter.

        Raises:
            CompileError: one is a list or dict, which all calls would share.
        """
        found = {p.name: p.default for p in self.parameters.values() if p.default is not p.empty}
        for param in self.definition.decl.params:
            if _is_mutable(found.get(param.ident.name)):
                raise WRONG_DEFAULT(
                    "Mutable default parameters are not supported because Python binds them to the function and they "
                    f"persist across function calls. Found {type(found[param.ident.name])} on parameter "
                    f"{param.ident.name}",
                    param.range,
                    hint="make the default None and the list or dict in the body",
                )
        return found

    @property
    def ignored_functions(self) -> dict[str, Callable[..., Any]]:
        """The ignored blocks as functions, and the decorators, under the names that the tree calls them by."""
        blocks = {block.name: block.function(self.function, self.source.first_line) for block in self.ignored}
        return {**blocks, **self.contexts}

    @property
    def extra_names(self) -> dict[str, object]:
        """Names that the function's own scope may not know: `ignored_functions`, and those that stand as annotations.

        An annotation was evaluated when the function was defined, where names may have meant what no later look finds.
        """
        found: dict[str, object] = dict(self.ignored_functions)
        annotations = getattr(self.function, "__annotations__", {})
        decl = self.definition.decl
        written = [*((p.ident.name, p.type) for p in decl.params), ("return", decl.return_type)]
        for name, expr in written:
            if expr is not None:
                found.update(names_of_annotation(expr, annotations.get(name)))
        return found
