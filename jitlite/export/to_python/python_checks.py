"""`isinstance` as TorchScript means it (`True` is no int, a list of ints is of a type of its own), in Python."""

from __future__ import annotations

from typing import Any

from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.export.to_python.python_file import PythonFile
from jitlite.ir import types as T
from jitlite.ir.code_text import Identifier, Text, code, comment, fixed, joined, made_identifier
from jitlite.ir.types import Type
from jitlite.operators.python_forms import Form

_CLASSES: dict[Type, str] = {
    T.FLOAT: "float", T.BOOL: "bool", T.COMPLEX: "complex", T.STRING: "str", T.ANY_LIST: "list", T.ANY_TUPLE: "tuple",
    T.ANY_DICT: "dict", T.ANY_SET: "set", T.ANY_FROZENSET: "frozenset", T.EXCEPTION: "BaseException",
}  # fmt: skip


def check_text(file: PythonFile, types: list[Type]) -> Form:
    """How to ask whether operand 0 is of one of the types."""
    if types == [T.NONE]:
        return Form(fixed("{0} is None"), is_atom=False)
    classes = [_class_of(file, t) for t in types]
    if all(c is not None for c in classes):
        found = joined(", ", (c for c in classes if c is not None))
        return Form(
            code("{}({{0}}, {})", file.builtin("isinstance"), found if len(classes) == 1 else code("({})", found))
        )
    return Form(code("{}({{0}})", _checker(file, types)))


def _class_of(file: PythonFile, t: Type) -> Text | None:
    """The class of which all values of the type are, and no others."""
    if t in _CLASSES:
        return file.builtin(_CLASSES[t])
    if t is T.TENSOR:
        return code("{}.Tensor", file.imported("torch"))
    if t in (T.DEVICE, T.GENERATOR):
        return code("{}.{}", file.imported("torch"), fixed("device" if t is T.DEVICE else "Generator"))
    return file.type_name(t) if isinstance(t, T.EnumType) else None


def _checker(file: PythonFile, types: list[Type]) -> Identifier:
    """A function that tells whether a value is of one of the types."""
    key = ("check", tuple(types))
    known = file.names.get(key)
    if not isinstance(known, Identifier):
        said = " or ".join(t.annotation for t in types)
        known = file.names[key] = file.unique(made_identifier(f"is_{made_identifier(said).strip('_').lower()}"))
        tests = [_test(file, t, fixed("value"), 0) for t in types]
        file.blocks["helpers"].append(
            [
                code("def {}(value):", known),
                code('    """Is it {}?"""', comment(said)),
                code("    return {}", joined(" or ", tests)),
            ]
        )
    return known


def _test(file: PythonFile, t: Type, value: Text, depth: int) -> Text:
    """An expression that tells whether a value is of the type."""
    if t is T.NONE:
        return code("{} is None", value)
    if t is T.ANY:
        return fixed("True")
    found = _class_of(file, t)
    if found is not None:
        return code("isinstance({}, {})", value, found)
    if t in (T.INT, T.NUMBER):
        torch_ = file.imported("torch")
        classes = code("{0}.dtype, {0}.layout, {0}.memory_format, {0}.qscheme", torch_)
        number = fixed("int, float, complex" if t is T.NUMBER else "int")
        return code("(isinstance({}, ({}, {})) and not isinstance({}, bool))", value, number, classes, value)
    if isinstance(t, T.UnionType):
        return code("({})", joined(" or ", (_test(file, m, value, depth) for m in t.members)))
    return _container(file, t, value, depth)


def _container(file: PythonFile, t: Any, value: Text, depth: int) -> Text:
    inner = code("v{}", depth)
    if isinstance(t, T.ListType):
        return code(
            "(isinstance({}, list) and all({} for {} in {}))",
            value,
            _test(file, t.element, inner, depth + 1),
            inner,
            value,
        )
    if isinstance(t, T.SetType):
        test = _test(file, t.element, inner, depth + 1)
        kind = fixed("frozenset" if t.frozen else "set")
        return code("(isinstance({}, {}) and all({} for {} in {}))", value, kind, test, inner, value)
    if isinstance(t, T.DictType):
        keys, values = (_test(file, part, inner, depth + 1) for part in (t.key, t.value))
        return code(
            "(isinstance({}, dict) and all({} for {} in {}) and all({} for {} in {}.values()))",
            value,
            keys,
            inner,
            value,
            values,
            inner,
            value,
        )
    if isinstance(t, T.TupleType):
        parts = [code("len({}) == {}", value, len(t.elements))] + [
            _test(file, e, code("{}[{}]", value, i), depth) for i, e in enumerate(t.elements)
        ]
        cls = fixed("tuple") if t.names is None else file.type_name(t)
        return code("(isinstance({}, {}) and {})", value, cls, joined(" and ", parts))
    if isinstance(t, T.ClassType):
        return code("type({}) is {}", value, file.type_name(t))
    raise NOT_AS_PYTHON(f"'isinstance' of {t.annotation} has no equal in Python with torch")
