"""Run-time values and their types.

Values are plain Python objects, so their types are found by looking at them: a list is a `List[int]` if its elements
are ints. An empty list or dict is of every list or dict type.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final

import torch

from jitlite.base import torch_internals
from jitlite.base.source import CompileError
from jitlite.ir import types as T
from jitlite.ir.awaits import Await
from jitlite.ir.constants import enum_type, plain_tuple, qualified_name, type_of_constant
from jitlite.ir.int_codes import INT_OBJECTS
from jitlite.ir.schema import parse_schema
from jitlite.ir.types import Type
from jitlite.ir.unit import Function

Check = Callable[[Any], bool]


class _Uninitialized:
    """The value of `prim::Uninitialized`: it fills places that are never read."""

    def __repr__(self) -> str:
        return "<uninitialized>"


UNINITIALIZED: Final = _Uninitialized()


def value_has_type(value: object, type: Type) -> bool:
    """Is the value of this type, by the rules of isinstance in TorchScript (`True` is no int, `1` is no float)?"""
    return checker(type)(value)


def checker(type: Type) -> Check:
    """The function that tells whether a value is of the type."""
    return T.cached_on(type, "check", _make_check)


def _is_int(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, INT_OBJECTS)


def _instance_of(*classes: Any) -> Check:
    return lambda value: isinstance(value, classes)


_SIMPLE_CHECKS: dict[Type, Check] = {
    T.ANY: lambda value: True,
    T.NONE: lambda value: value is None,
    T.INT: _is_int,
    T.FLOAT: _instance_of(float),
    T.BOOL: _instance_of(bool),
    T.COMPLEX: _instance_of(complex),
    T.STRING: _instance_of(str),
    T.NUMBER: lambda value: _is_int(value) or isinstance(value, float | complex),
    T.DEVICE: _instance_of(torch.device),
    T.GENERATOR: _instance_of(torch.Generator),
    T.STREAM: _instance_of(torch.Stream),
    T.STORAGE: _instance_of(torch.UntypedStorage, torch.TypedStorage),
    T.FUNCTION: _instance_of(Function),
    T.EXCEPTION: _instance_of(BaseException),
    T.ANY_LIST: _instance_of(list),
    T.ANY_TUPLE: _instance_of(tuple),
    T.ANY_DICT: _instance_of(dict),
    T.ANY_SET: _instance_of(set),
    T.ANY_FROZENSET: _instance_of(frozenset),
    T.ANY_ENUM: _instance_of(enum.Enum),
    T.ANY_CLASS: lambda value: isinstance(type_of_value(value), T.ClassType),
}


def _make_check(t: Type) -> Check:
    simple = _SIMPLE_CHECKS.get(t)
    if simple is not None:
        return simple
    for kind, make in _CHECK_MAKERS:
        if isinstance(t, kind):
            return make(t)
    return lambda value: True  # PyObject, Capsule and schema variables: nothing can be said


def _tensor_check(t: T.TensorType) -> Check:
    if t is T.TENSOR:
        return _instance_of(torch.Tensor)
    return lambda value: isinstance(value, torch.Tensor) and T.is_subtype(T.TensorType.from_tensor(value), t)


def _list_check(t: T.ListType) -> Check:
    element = checker(t.element)
    return lambda value: isinstance(value, list) and all(map(element, value))


def _dict_check(t: T.DictType) -> Check:
    key, element = checker(t.key), checker(t.value)
    return lambda value: isinstance(value, dict) and all(map(key, value)) and all(map(element, value.values()))


def _set_check(t: T.SetType) -> Check:
    element, kind = checker(t.element), frozenset if t.frozen else set
    return lambda value: isinstance(value, kind) and all(map(element, value))


def _tuple_check(t: T.TupleType) -> Check:
    elements = [checker(e) for e in t.elements]

    def check(value: object) -> bool:
        if not isinstance(value, tuple):
            return False
        parts = plain_tuple(value)
        if len(parts) != len(elements):
            return False
        if t.python_class is not None and not isinstance(value, t.python_class):
            return False
        if t.names is not None and getattr(value, "_fields", None) != t.names:
            return False
        return all(has_type(v) for has_type, v in zip(elements, parts, strict=True))

    return check


def _union_check(t: T.UnionType) -> Check:
    members = [checker(m) for m in t.members]
    return lambda value: any(has_type(value) for has_type in members)


def _enum_check(t: T.EnumType) -> Check:
    if t.python_class is not None:
        return _instance_of(t.python_class)
    return lambda value: isinstance(value, enum.Enum) and qualified_name(type(value)) == t.qualified_name


def _class_check(t: T.ClassType) -> Check:
    if t.is_module:
        return lambda value: class_type_of(value) is t
    if t.python_class is not None and t.definition is not None:
        # methods are bound by the class, so an object of a class that inherits from it does not count
        return lambda value: type(value) is t.python_class
    if t.python_class is not None:
        return _instance_of(t.python_class)
    return lambda value: class_type_of(value) is t or _class_name(value) == t.qualified_name


def _class_name(value: object) -> str:
    """The qualified name of the class of an object, also of one that a library defines in C++."""
    return str(value._type()) if isinstance(value, torch.ScriptObject) else qualified_name(type(value))


def _interface_check(t: T.InterfaceType) -> Check:
    def check(value: object) -> bool:
        found = class_type_of(value)
        if found is None:
            return not t.is_module and all(callable(getattr(value, name, None)) for name in t.methods)
        if found.definition is not None:
            with suppress(CompileError):  # a class with a method that does not compile is of no interface that has it
                found.definition.infer_results(t)
        return T.is_subtype(found, t)

    return check


_CHECK_MAKERS: tuple[tuple[Any, Callable[[Any], Check]], ...] = (
    (T.TensorType, _tensor_check),
    (T.ListType, _list_check),
    (T.DictType, _dict_check),
    (T.SetType, _set_check),
    (T.TupleType, _tuple_check),
    (T.UnionType, _union_check),
    (T.EnumType, _enum_check),
    (T.ClassType, _class_check),
    (T.InterfaceType, _interface_check),
    (T.FutureType, lambda t: _instance_of(torch._C.Future)),
    (T.AwaitType, lambda t: _instance_of(Await, torch_internals.await_base)),
)


def reads_as_tuple(cls: type) -> bool:
    """Do `len`, iteration and indices of this class of tuples give what the tuple holds?"""
    return all(getattr(cls, name) is getattr(tuple, name) for name in ("__len__", "__iter__", "__getitem__")) or (
        issubclass(cls, torch.Size) or hasattr(cls, "n_sequence_fields")
    )


def type_of_value(value: object) -> Type:
    """The type that TorchScript infers for a value. Elements of several types make a Union.

    Objects of unknown kind are PyObjects.
    """
    if isinstance(value, list):
        return T.ListType.of(_common_type(value, T.TENSOR))
    if isinstance(value, dict):
        return T.DictType.of(_common_type(value.keys(), T.STRING), _common_type(value.values(), T.TENSOR))
    if isinstance(value, set | frozenset):
        return T.SetType.of(_common_type(value, T.STRING), isinstance(value, frozenset))
    if isinstance(value, tuple):
        elements = [type_of_value(v) for v in plain_tuple(value)]
        names = getattr(value, "_fields", None)
        if names is None:
            return T.TupleType.of(elements)
        return T.TupleType.of(elements, names, qualified_name(type(value)), type(value))
    if isinstance(value, enum.Enum):
        return enum_type(type(value)) or T.PY_OBJECT
    constant = type_of_constant(value)
    if constant is not None:
        return constant
    return _type_of_object(value)


def _type_of_object(value: object) -> Type:
    for base, t in ((int, T.INT), (float, T.FLOAT), (complex, T.COMPLEX), (str, T.STRING), (Function, T.FUNCTION)):
        if isinstance(value, base):
            return t
    if isinstance(value, torch._C.Future):
        return T.FutureType.of(T.ANY)
    if isinstance(value, Await | torch_internals.await_base):
        return T.AwaitType.of(T.ANY)
    if type(value).__module__ in ("builtins", "numpy") or (callable(value) and not isinstance(value, torch.nn.Module)):
        return T.PY_OBJECT
    if isinstance(value, torch.ScriptObject):
        return bound_class(value)
    found = class_type_of(value)
    return found or T.ClassType.of(qualified_name(type(value)), type(value), isinstance(value, torch.nn.Module))


def bound_class(value: Any) -> T.ClassType:
    """The type of an object of a class that a library defines in C++. It has the schemas of its methods."""
    found = T.ClassType.of(_class_name(value))
    if not found.methods:
        names = [name for name in value._method_names() if not name.startswith("__")]
        found.methods.update({name: parse_schema(str(value._get_method(name).schema)) for name in names})
    return found


CLASS_TYPE = "__jitlite_type__"
TRACED_INPUTS = "__jitlite_traced_inputs__"
"""The attribute of a traced module that holds example inputs: lists of arguments, by the name of the method."""
"""The attribute, of a Python class or of a script module, that holds its class type. So a type lives as long as what it
is the type of, and two classes of one name never meet."""


def class_type_of(value: object) -> T.ClassType | None:
    """The class type of an object whose class, or which itself, has been compiled."""
    own: Any = getattr(value, "__dict__", None)
    found = own.get(CLASS_TYPE) if own else None
    if found is None:
        found = type(value).__dict__.get(CLASS_TYPE)
    return found if isinstance(found, T.ClassType) else None


def special_method(value: object, name: str) -> Callable[..., Any]:
    """The method `name` of an object: the compiled one where its class has been compiled, else Python's."""
    found = class_type_of(value)
    if found is not None and found.definition is not None:
        method = found.definition.method(name)
        if method is not None:
            return partial(method, value)
    return partial(getattr(type(value), name), value)


_OF_CONTEXTS = ("__init__", "__enter__", "__exit__")
"""What scripts call of torch's own classes for `with`."""


def script_method(value: object, name: str) -> Callable[..., Any]:
    """The method of an object that a script calls by its name: one that scripts know the object to have.

    Raises:
        TypeError: it is none, though it may be one of Python's.
    """
    known: Any = value
    found = class_type_of(value)
    if isinstance(value, torch.ScriptObject):
        is_known = not name.startswith("__") and known._has_method(name)
    elif found is None:
        is_known = name in _OF_CONTEXTS and isinstance(value, AbstractContextManager)
    else:
        is_known = name in found.methods or _is_defined(found, name)
    if not is_known:
        raise TypeError(f"the program takes a {type(value).__name__} for an object with a method '{name}'")
    method: Callable[..., Any] = getattr(value, name)
    return method


def _is_defined(found: T.ClassType, name: str) -> bool:
    return found.definition is not None and found.definition.method(name) is not None


def call_script_method(name: str) -> Callable[..., Any]:
    """The function that calls the method of this name of its first argument."""

    def call(owner: object, *arguments: object) -> Any:
        return script_method(owner, name)(*arguments)

    return call


def _common_type(values: Any, if_empty: Type) -> Type:
    types = dict.fromkeys(type_of_value(v) for v in values)
    if not types:
        return if_empty
    return T.unify_all(types, default_to_union=True) or T.ANY


_tuple_classes: dict[Type, Any] = {}
_object_classes: dict[Type, type] = {}


def _of_fields(cls: Callable[..., tuple[object, ...]], *fields: object) -> tuple[object, ...]:
    return cls(fields)


def named_tuple_class(t: T.TupleType) -> Callable[..., tuple[object, ...]]:
    """The class of a named tuple type: the program's own, else one made here, once."""
    cls: Callable[..., tuple[object, ...]] | None = t.python_class
    if cls is not None and not hasattr(cls, "n_sequence_fields"):
        return cls
    found: Callable[..., tuple[object, ...]] | None = _tuple_classes.get(t)
    if found is None and cls is not None:
        # torch.return_types.* take one sequence, not a value for each field
        found = _tuple_classes.setdefault(t, partial(_of_fields, cls))
    if found is None:
        name = (t.qualified_name or "NamedTuple").rpartition(".")[2]
        found = _tuple_classes.setdefault(t, collections.namedtuple(name, t.names or ()))
    return found


def object_class(t: T.ClassType) -> type:
    """The Python class of a class type: the program's own, else an empty one made here, once."""
    own: type | None = t.python_class
    if own is not None:
        return own
    found = _object_classes.get(t)
    if found is None:
        module, _, name = t.qualified_name.rpartition(".")
        module = module.removeprefix("__torch__").lstrip(".") or "__main__"
        found = _object_classes.setdefault(t, type(name, (), {"__module__": module}))
    return found
