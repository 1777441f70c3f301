"""Names in annotations, and what they meant when the function was defined."""

from __future__ import annotations

import typing
from collections.abc import Iterator

from jitlite.frontend.syntax import tree as t


def names_of_annotation(expr: t.Expr, annotation: object) -> Iterator[tuple[str, object]]:
    """The names in an annotation as written, each with the part of the annotation object that it stood for.

    x: List[device_t]        device_t is torch.device, for the annotation is List[torch.device]

    A part that is a string, or that cannot be told from others, is left out.
    """
    if annotation is None or isinstance(annotation, str | typing.ForwardRef):
        return
    if isinstance(expr, t.Var):
        yield expr.name.name, annotation
    elif isinstance(expr, t.Subscript):
        for index, part in _parts(expr, annotation):
            yield from names_of_annotation(index, part)


def _parts(expr: t.Subscript, annotation: object) -> Iterator[tuple[t.Expr, object]]:
    """What is between the brackets, each with its part of the annotation object, if these can be told apart."""
    indices = expr.indices
    if len(indices) == 1 and isinstance(indices[0], t.TupleLiteral):
        indices = indices[0].elements
    parts = typing.get_args(annotation)
    if len(indices) == 1 and len(parts) == 2 and parts[1] is type(None):
        parts = parts[:1]  # Optional[T] is Union[T, None]
    if len(indices) == len(parts):
        yield from zip(indices, parts, strict=True)
