"""Calls that stay Python's: a node that calls a Python function, with arguments of any structure.

    foo.bar(%x, [%n, 2], scale=%s, dim=slice(None, %n))        =>        %y : Any = ^foo.bar()(%x, %n, %s)

A node's inputs are values; what is around them (lists, dicts, keywords, constants) goes into a small function that is
written for the call. Where there is nothing around them, the function itself is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx

from jitlite.ir.code_text import literal


class Template:
    """The arguments of a call, with holes for values.

    Attributes:
        nodes: what the holes stand for, each once.
    """

    def __init__(
        self, args: Sequence[object], kwargs: Mapping[str, object], fixed: Callable[[torch.fx.Node], Any]
    ) -> None:
        """`fixed` gives the Python object that a node stands for, in a tuple of one, or None where it is a value."""
        self.nodes: list[torch.fx.Node] = []
        self._fixed = fixed
        self._names: dict[str, Any] = {}
        self._texts = [self._text(a) for a in args]
        self._keywords = [f"**{{{literal(k)}: {self._text(a)}}}" for k, a in kwargs.items()]

    def bind(self, function: Callable[..., object]) -> Callable[..., Any]:
        """A function of the values alone that calls `function` with all arguments."""
        holes = [self._hole(i) for i in range(len(self.nodes))]
        if self._texts == holes and not self._keywords:
            return function
        call = ", ".join([*self._texts, *self._keywords])
        text = f"def call({', '.join(holes)}):\n    return _function({call})\n"
        names = {**self._names, "_function": function}
        exec(compile(text, "generated/call.py", "exec", dont_inherit=True), names)
        made: Callable[..., Any] = names["call"]
        made.__name__ = getattr(function, "__name__", "call")
        return made

    @staticmethod
    def _hole(position: int) -> str:
        return f"v{position}"

    def _container(self, argument: list[object] | tuple[object, ...] | dict[object, object]) -> str:
        if isinstance(argument, dict):  # FX has classes of its own for lists and dicts
            return f"{{{', '.join(f'{self._text(k)}: {self._text(v)}' for k, v in argument.items())}}}"
        parts = list(map(self._text, argument))
        if isinstance(argument, list):
            return f"[{', '.join(parts)}]"
        if hasattr(argument, "_fields"):
            return f"{self._name(type(argument))}({', '.join(parts)})"
        return f"({''.join(f'{part}, ' for part in parts)})"

    def _text(self, argument: object) -> str:
        if isinstance(argument, torch.fx.Node):
            fixed = self._fixed(argument)
            return self._node(argument) if fixed is None else self._name(fixed[0])
        if isinstance(argument, slice):
            parts = argument.start, argument.stop, argument.step
            return f"slice({', '.join(map(self._text, parts))})"
        if isinstance(argument, list | tuple | dict):
            return self._container(argument)
        if argument is None or type(argument) in (bool, int, str):
            return literal(argument)
        return self._name(argument)

    def _node(self, node: torch.fx.Node) -> str:
        if node not in self.nodes:
            self.nodes.append(node)
        return self._hole(self.nodes.index(node))

    def _name(self, value: object) -> str:
        name = f"_c{len(self._names)}"
        self._names[name] = value
        return name


def identity_of(structure: object) -> object:
    """Gives the structure it is given: for what is built and called by nobody."""
    return structure
