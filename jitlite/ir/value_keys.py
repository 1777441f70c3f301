"""Keys by which equal constants and attributes are found."""

from __future__ import annotations

import torch

from jitlite.ir.graph import Graph, Node

_PLAIN = (bool, int, float, complex, str)
_BY_VALUE = (torch.dtype, torch.layout, torch.memory_format, torch.device, type(None))


def value_key(value: object) -> object:
    """A hashable key, equal for two values exactly if a program could not tell them apart (but by identity).

    `1`, `1.0` and `True` differ, and so do `0.0` and `-0.0`; NaN equals itself. Tensors, functions and other objects
    equal only themselves.
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, repr(value)
    if isinstance(value, _BY_VALUE):
        return kind, value
    if isinstance(value, tuple | list):
        return kind, tuple(value_key(v) for v in value)
    if isinstance(value, dict):
        return kind, tuple((value_key(k), value_key(v)) for k, v in value.items())
    return kind, id(value)


def attributes_key(node: Node) -> object | None:
    """A key for the node's attributes; None where they hold a graph and can be compared with nothing."""
    if any(isinstance(v, Graph) for v in node.attributes.values()):
        return None
    return tuple((name, value_key(value)) for name, value in sorted(node.attributes.items()))
