"""The values of attributes as expressions that make them anew: numbers, containers, tensors, objects of classes."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.base.source import NotSupportedError
from jitlite.codegen.torchscript.declarations_out import slots
from jitlite.export.to_python import python_helpers
from jitlite.export.to_python.embedded_functions import copied
from jitlite.export.to_python.python_file import PythonFile
from jitlite.export.to_python.python_names import is_attribute_name
from jitlite.ir import types as T
from jitlite.ir.code_text import EMPTY, Text, code, comment, fixed, identifier, joined, literal, shown_literal
from jitlite.ir.unit import Function
from jitlite.ir.values import class_type_of

_DEFAULT = torch.float32


class ValueWriter:
    """Writes the values of one program.

    Attributes:
        paths: where a mutable value is that is an attribute by itself, by its identity.
    """

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.paths: dict[int, tuple[object, Text]] = {}
        self._inside: dict[int, tuple[object, Text]] = {}
        self._open: set[int] = set()
        self._refers = False

    def attribute(self, value: object, path: Text) -> tuple[Text, Text | None]:
        """An expression for the value of an attribute; and where it is, or holds, the value of another attribute, an
        expression for it that can be evaluated when the outermost module is complete.

        Raises:
            NotSupportedError: there is none.
        """
        if _has_identity(value):
            known = self.paths.setdefault(id(value), (value, path))[1]
            if known != path:
                return literal(None), known
        self._refers = False
        text = self.text(value, path)
        return (literal(None), text) if self._refers else (text, None)

    def text(self, value: object, path: Text) -> Text:
        """An expression that makes the value."""
        if isinstance(value, torch.Tensor):
            return self.tensor(value, path)
        if isinstance(value, list):
            return code("[{}]", self._items(value, path))
        if isinstance(value, dict):
            pairs = (
                code("{}: {}", self._part(k, path), self._part(v, code("{}[{}]", path, _key(k))))
                for k, v in value.items()
            )
            return code("{{{}}}", joined(", ", pairs))
        if isinstance(value, tuple) and not isinstance(value, torch.Size):
            return self._tuple(value, path)
        function = getattr(value, "__jitlite_function__", value)
        if isinstance(function, Function):
            return self.file.function(function)
        type = class_type_of(value)
        if type is not None and not isinstance(value, torch.nn.Module | T.Type):
            return self._object(value, type, path)
        try:
            return self.file.constant(value)
        except NotSupportedError:
            raise NOT_AS_PYTHON(
                f"the value of '{path}' is an object of {value.__class__.__name__}, which cannot be written as Python",
                hint="packed weights of quantized modules and other objects of C++ stay in archives",
            ) from None

    def _items(self, value: Iterable[object], path: Text) -> Text:
        return joined(", ", (self._part(v, code("{}[{}]", path, i)) for i, v in enumerate(value)))

    def _part(self, value: object, path: Text) -> Text:
        """A value within another one. It may not be in two places, which an expression cannot say."""
        if _has_identity(value):
            attribute = self.paths.get(id(value))
            if attribute is not None:
                self._refers = True
                return attribute[1]
            shared = self._inside.get(id(value))
            if shared is not None and shared[1] != path:
                raise NOT_AS_PYTHON(
                    f"'{path}' and '{shared[1]}' are one object, which Python source cannot say of parts of containers",
                    hint="give it an attribute of its own",
                )
            self._inside[id(value)] = value, path
        return self.text(value, path)

    def _tuple(self, value: tuple[object, ...], path: Text) -> Text:
        items = self._items(value, path)
        empty: object = value.__class__
        if hasattr(value, "_fields"):
            return code("{}({})", self.file.tuple_name(empty, value), items)
        return code("({},)" if len(value) == 1 else "({})", items)

    def _object(self, value: object, type: T.ClassType, path: Text) -> Text:
        if id(value) in self._open:
            raise NOT_AS_PYTHON(f"the object at '{path}' contains itself, which an expression cannot say")
        self._open.add(id(value))
        try:
            named = []
            for name in slots(type):
                if not is_attribute_name(name):
                    raise NOT_AS_PYTHON(f"'{path}' has an attribute '{name}', which is no name in Python")
                attribute = identifier(name)
                part = self._part(getattr(value, name), code("{}.{}", path, attribute))
                named.append(code("{}={}", attribute, part))
        finally:
            self._open.discard(id(value))
        make = copied(self.file, python_helpers.new_object)
        return code("{}({})", make, joined(", ", [self.file.type_name(type), *named]))

    def tensor(self, value: torch.Tensor, path: Text) -> Text:
        """A tensor that is no parameter and no buffer: written out if it is small, else stored beside the weights."""
        return self.file.small_tensor(value) or self.file.stored(value, path.removeprefix("self."))

    def empty(self, value: torch.Tensor, path: Text) -> Text:
        """A tensor of the same kind, for the state of a module, whose contents are loaded."""
        torch_ = self.file.imported("torch")
        is_plain = value.layout is torch.strided and not value.is_quantized and type(value.data) is torch.Tensor
        if not is_plain:
            return self.file.stored(value.detach(), path.removeprefix("self."))
        shape = joined(", ", map(literal, value.shape)) or fixed("()")
        dtype, device = EMPTY, fixed(', device="meta"' if value.device.type == "meta" else "")
        if value.dtype is not _DEFAULT:
            dtype = code(", dtype={}.{}", torch_, identifier(str(value.dtype).rpartition(".")[2]))
        return code("{}.empty({}{}{})", torch_, shape, dtype, device)


def _key(key: object) -> Text:
    """A key of a dict in a path, which says where something is and is not evaluated."""
    if isinstance(key, str):
        return shown_literal(key)
    return literal(key) if type(key) in (int, bool) else comment(repr(key))


def _has_identity(value: object) -> bool:
    """Does it make a difference whether two attributes are one such object?"""
    if isinstance(value, torch.Tensor | list | dict):
        return True
    return class_type_of(value) is not None and not isinstance(value, T.Type)
