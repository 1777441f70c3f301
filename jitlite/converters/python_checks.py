"""`isinstance` as TorchScript means it (`True` is no int, a list of ints is of a type of its own), in Python."""

from __future__ import annotations

from typing import Any

from jitlite.converters.python_file import PythonFile, identifier
from jitlite.interpreter.python_forms import Form
from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.source import NotSupportedError

_CLASSES: dict[Type, str] = {
    T.FLOAT: "float", T.BOOL: "bool", T.COMPLEX: "complex", T.STRING: "str", T.ANY_LIST: "list", T.ANY_TUPLE: "tuple",
    T.ANY_DICT: "dict", T.EXCEPTION: "BaseException",
}  # fmt: skip


def check_text(file: PythonFile, types: list[Type]) -> Form:
    """How to ask whether operand 0 is of one of the types."""
    if types == [T.NONE]:
        return Form("{0} is None", is_atom=False)
    classes = [_class_of(file, t) for t in types]
    if all(c is not None for c in classes):
        found = ", ".join(c for c in classes if c is not None)
        return Form(f"{file.builtin('isinstance')}({{0}}, {found if len(classes) == 1 else f'({found})'})")
    return Form(f"{_checker(file, types)}({{0}})")


def _class_of(file: PythonFile, t: Type) -> str | None:
    """The class of which all values of the type are, and no others."""
    if t in _CLASSES:
        return file.builtin(_CLASSES[t])
    if t is T.TENSOR:
        return f"{file.imported('torch')}.Tensor"
    if t in (T.DEVICE, T.GENERATOR):
        return f"{file.imported('torch')}.{'device' if t is T.DEVICE else 'Generator'}"
    return file.type_name(t) if isinstance(t, T.EnumType) else None


def _checker(file: PythonFile, types: list[Type]) -> str:
    """A function that tells whether a value is of one of the types."""
    key = ("check", tuple(types))
    known = file.names.get(key)
    if known is None:
        said = " or ".join(t.annotation for t in types)
        known = file.names[key] = file.unique(f"is_{identifier(said).strip('_').lower()}")
        tests = [_test(file, t, "value", 0) for t in types]
        file.blocks["helpers"].append(
            [f"def {known}(value):", f'    """Is it {said}?"""', f"    return {' or '.join(tests)}"]
        )
    return known


def _test(file: PythonFile, t: Type, value: str, depth: int) -> str:
    """An expression that tells whether a value is of the type."""
    if t is T.NONE:
        return f"{value} is None"
    if t is T.ANY:
        return "True"
    found = _class_of(file, t)
    if found is not None:
        return f"isinstance({value}, {found})"
    if t in (T.INT, T.NUMBER):
        classes = ", ".join(f"{file.imported('torch')}.{n}" for n in ("dtype", "layout", "memory_format", "qscheme"))
        number = "int, float, complex" if t is T.NUMBER else "int"
        return f"(isinstance({value}, ({number}, {classes})) and not isinstance({value}, bool))"
    if isinstance(t, T.UnionType):
        return f"({' or '.join(_test(file, m, value, depth) for m in t.members)})"
    return _container(file, t, value, depth)


def _container(file: PythonFile, t: Any, value: str, depth: int) -> str:
    inner = f"v{depth}"
    if isinstance(t, T.ListType):
        return f"(isinstance({value}, list) and all({_test(file, t.element, inner, depth + 1)} for {inner} in {value}))"
    if isinstance(t, T.DictType):
        keys, values = (_test(file, part, inner, depth + 1) for part in (t.key, t.value))
        return (
            f"(isinstance({value}, dict) and all({keys} for {inner} in {value})"
            f" and all({values} for {inner} in {value}.values()))"
        )
    if isinstance(t, T.TupleType):
        parts = [f"len({value}) == {len(t.elements)}"] + [
            _test(file, e, f"{value}[{i}]", depth) for i, e in enumerate(t.elements)
        ]
        cls = "tuple" if t.names is None else file.type_name(t)
        return f"(isinstance({value}, {cls}) and {' and '.join(parts)})"
    if isinstance(t, T.ClassType):
        return f"type({value}) is {file.type_name(t)}"
    raise NotSupportedError(f"'isinstance' of {t.annotation} has no equal in Python with torch")
