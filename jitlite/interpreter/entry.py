"""What a call from Python goes through: arguments checked and put in order, then the function that runs the graph.

For each signature one small function is generated. It looks at the classes of the arguments; where they are what the
parameters want, nothing has to be converted and the graph is run at once:

    def enter(*args, **kwargs):                             # for f(x: Tensor, n: int)
        if not kwargs and len(args) == 2:
            x, n = args
            if (x.__class__ is Tensor or x.__class__ is Parameter) and n.__class__ is int:
                try:
                    return executor.entry(x, n)
                except BaseException as error:
                    add_script_traceback(error)
                    raise
        return executor.run(bind(args, kwargs))

Everything else (keywords, defaults, conversions, errors) is left to `bind_arguments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from jitlite.interpreter.binding import Mismatch, converter, objects_met
from jitlite.interpreter.python_code import add_script_traceback
from jitlite.ir import types as T
from jitlite.ir.schema import Schema
from jitlite.ir.types import Type

Bind = Callable[[Sequence[Any], dict[str, Any]], list[Any]]

_CLASSES: dict[Type, tuple[type, ...]] = {
    T.TENSOR: (torch.Tensor, torch.nn.Parameter),
    T.INT: (int,),
    T.FLOAT: (float, int),
    T.BOOL: (bool,),
    T.STRING: (str,),
    T.COMPLEX: (complex, float, int),
    T.NUMBER: (float, int, bool, complex),
}
"""Classes whose instances are taken as they are."""


class Runs(Protocol):
    """What runs a function. `entry` may be exchanged at any time."""

    entry: Callable[..., object]

    def run(self, bound: Sequence[object]) -> Any:
        """The result for a value for each parameter."""
        ...


def make_entry(schema: Schema, executor: Runs, bind: Bind, owner: object = None) -> Callable[..., Any]:
    """The function to call for each call from Python.

    Args:
        schema: the signature; its first parameter is left out if there is an `owner`.
        executor: what runs the function.
        bind: puts arguments in order, converts them, or raises.
        owner: the object whose method it is, which becomes the first argument.
    """
    formals = schema.arguments[1:] if owner is not None else schema.arguments
    names: dict[str, Any] = {
        "executor": executor,
        "bind": bind,
        "owner": owner,
        "note": add_script_traceback,
        "Mismatch": Mismatch,
        "objects_met": objects_met,
    }
    values = [f"a{i}" for i in range(len(formals))]
    passed = ", ".join([*(["owner"] if owner is not None else []), *values])
    tests, conversions = [], []
    for value, formal in zip(values, formals, strict=True):
        test = _test(value, formal.type, names)
        if test is not None:
            tests.append(test)
        else:
            names[f"convert_{value}"] = converter(formal.type)
            conversions.append(f"{value} = convert_{value}({value})")
    lines = ["def enter(*args, **kwargs):"]
    if not any(a.kwarg_only or a.size for a in formals):
        lines += _fast_path(values, passed, tests, conversions)
    lines.append("    return executor.run(bind(args, kwargs))")
    exec(compile("\n".join(lines), "generated/enter.py", "exec", dont_inherit=True), names)
    made: Callable[..., Any] = names["enter"]
    return made


def _fast_path(values: list[str], passed: str, tests: list[str], conversions: list[str]) -> list[str]:
    lines = [f"    if len(args) == {len(values)} and not kwargs:"]
    if values:
        lines.append(f"        {', '.join(values)}{',' if len(values) == 1 else ''} = args")
    lines.append(f"        if {' and '.join(tests) or 'True'}:")
    if conversions:
        # what does not fit is found again, and told of, by `bind`
        run = "                return executor.run(bind(args, kwargs))"
        lines += [
            "            met = objects_met[0]",
            "            try:",
            *(f"                {c}" for c in conversions),
        ]
        lines += ["            except Mismatch:", run]
        # objects such as dtypes among ints, of which the executor has to know
        lines += ["            if met is not objects_met[0]:", run]
    return [
        *lines,
        "            try:",
        f"                return executor.entry({passed})",
        "            except BaseException as error:",
        "                note(error)",
        "                raise",
    ]


def _test(value: str, t: Type, names: dict[str, object]) -> str | None:
    """An expression that is true where the value needs no conversion; None where there is no simple one."""
    if isinstance(t, T.OptionalType):
        inner = _test(value, t.element, names)
        return inner and f"({value} is None or {inner})"
    if isinstance(t, T.TensorType):
        t = T.TENSOR
    classes = _CLASSES.get(t)
    if classes is None:
        return None
    for cls in classes:
        names[cls.__name__] = cls
    return f"({' or '.join(f'{value}.__class__ is {cls.__name__}' for cls in classes)})"
