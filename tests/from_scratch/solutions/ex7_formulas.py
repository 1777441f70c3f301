"""A solution of exercise 7."""

from __future__ import annotations

from collections.abc import Callable

from graphs import Value, Writer


def of_abs(w: Writer, g: Value, out: Value, x: Value) -> tuple[Value, ...]:
    positive = w("where", w("gt", x, 0.0), g, 0.0)
    negative = w("where", w("lt", x, 0.0), g, 0.0)
    return (w("sub", positive, negative),)


def of_maximum(w: Writer, g: Value, out: Value, x: Value, y: Value) -> tuple[Value, ...]:
    shared = w("where", w("eq", x, y), w("div", g, 2), g)
    return w("where", w("lt", x, y), 0.0, shared), w("where", w("gt", x, y), 0.0, shared)


MORE_FORMULAS: dict[str, Callable[..., tuple[Value, ...]]] = {
    "aten::sigmoid": lambda w, g, out, x: (w("mul", g, w("mul", out, w("sub", 1.0, out))),),
    "aten::abs": of_abs,
    "aten::maximum": of_maximum,
}
