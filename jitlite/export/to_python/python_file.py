"""The file that a program is written to: its names, what it imports, what it defines, its constants."""

from __future__ import annotations

import builtins
import enum
import importlib
import keyword
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.base.records import Record, replace
from jitlite.base.source import NotSupportedError, SourceRange
from jitlite.ir import types as T
from jitlite.ir.code_text import (
    Identifier,
    Text,
    builtin_name,
    code,
    dotted,
    fixed,
    identifier,
    is_identifier,
    joined,
    literal,
    made_identifier,
    numbered,
    shown_literal,
)
from jitlite.ir.int_codes import INT_OBJECTS
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.ir.values import type_of_value
from jitlite.passes.int_codes_to_objects import Kinds

_MANGLED = re.compile(r"___torch_mangle_\d+")


class Import(Record, eq=True):
    """`import module as alias`, or `from module import name as alias`."""

    module: str
    name: str | None = None
    alias: str | None = None

    @property
    def text(self) -> Text:
        """What stands behind `import`."""
        what = dotted(self.module) if self.name is None else identifier(self.name)
        return what if self.alias is None else code("{} as {}", what, identifier(self.alias))


_IMPORTS = {
    "torch": Import("torch"), "nn": Import("torch", "nn"), "Tensor": Import("torch", "Tensor"),
    "F": Import("torch.nn.functional", alias="F"),
    **{name: Import("typing", name) for name in ("Any", "Final", "NamedTuple", "Protocol")},
    **{name: Import(name) for name in ("builtins", "cmath", "enum", "functools", "itertools", "math", "operator", "re",
                                       "string", "sys", "time", "warnings")},
    "OrderedDict": Import("collections", "OrderedDict"), "Path": Import("pathlib", "Path"),
}  # fmt: skip
"""What can be imported, by the name that it has in the source."""
USUAL = frozenset(_IMPORTS) | {"TENSORS", "load"}
"""Names that variables keep away from."""
_LARGEST_WRITTEN = 8
"""A constant tensor of so many elements is written where it is used; a larger one is kept in the file of weights."""


class PythonFile:
    """The text as it grows.

    Args:
        avoided: names that are not to be given to anything that the file defines: parameters have them.
        reserved: names that are not to be given to variables: what the file defines has them.

    Attributes:
        kinds: which ints of the program mean dtypes and the like.
        tensors: what the file of weights holds beside the state of the module, by name.
        parameters, variables: the names that the functions use for theirs.
        sequences: the class types of modules that are written as containers with numbers for names.
        of_torch: the class types of modules that are written as modules of torch.
    """

    def __init__(
        self,
        avoided: frozenset[str] = frozenset(),
        reserved: frozenset[str] = frozenset(),
        kinds: Kinds | None = None,
    ) -> None:
        self.kinds = kinds or Kinds()
        self.avoided = avoided
        self.reserved = reserved
        self.imports: dict[str, Import] = {}
        self.names: dict[Any, Text] = {}
        self.taken: set[str] = {*USUAL, *dir(builtins), *keyword.kwlist, *avoided}
        self.blocks: dict[str, list[list[Text]]] = {kind: [] for kind in ("helpers", "types", "functions", "classes")}
        self.constants: list[Text] = []
        self.tensors: dict[str, torch.Tensor] = {}
        self.parameters: set[str] = set()
        self.variables: set[str] = set()
        self.sequences: set[T.ClassType] = set()
        self.of_torch: set[Type] = set()
        self.pending: list[object] = []
        self._constant_names: dict[int, tuple[object, Text]] = {}
        self._tensor_names: dict[int, str] = {}
        self.stored_names: set[str] = set()
        """Names that the file of weights uses already."""
        self.shared_storages: set[int] = set()
        """Storages that several tensors lie on, which are read from the file of weights to do so again."""

    # -- names
    def unique(self, wanted: Identifier) -> Identifier:
        """A name for something that the file defines."""
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = numbered(wanted, number)
        self.taken.add(name)
        return name

    def imported(self, name: str) -> Identifier:
        """The name in the source of something that is imported."""
        found, alias = _IMPORTS[name], identifier(name)
        if name in self.avoided:
            alias = made_identifier(f"{name}_")
            found = replace(found, alias=alias)
        self.imports[alias] = found
        return alias

    def builtin(self, name: str) -> Text:
        """The name in the source of one of Python's functions or classes."""
        written = builtin_name(name)
        return code("{}.{}", self.imported("builtins"), written) if name in self.avoided else written

    def declared(self, named: object, wanted: str) -> Text:
        """The name of something that is written later, if it is not written yet."""
        known = self.names.get(named)
        if known is None:
            known = self.names[named] = self.unique(made_identifier(wanted))
            self.pending.append(named)
        return known

    def function(self, function: Function) -> Text:
        """The name of a script function."""
        return self.declared(function, function.name)

    def type_name(self, type: object) -> Text:
        """The name of the class of a type: the program's own, or one of torch's."""
        cls = getattr(type, "python_class", None)
        if cls is not None and not is_written(type):
            return self.dotted(cls)
        return self.declared(type, plain_name(type))

    def dotted(self, found: object) -> Text:
        """The name by which something of torch can be reached.

        Raises:
            NotSupportedError: it is not torch's, or has no such name.
        """
        name = dotted_name(found)
        if name is None:
            raise NOT_AS_PYTHON(f"'{getattr(found, '__qualname__', found)}' is Python that only its own program has")
        first, _, rest = name.partition(".")
        return self.builtin(rest) if first == "builtins" else code("{}.{}", self.imported(first), dotted(rest))

    @property
    def names_in_use(self) -> set[str]:
        """The names that are known to mean something in the whole file."""
        return {*self.names.values(), *self.imports}

    def is_sequence(self, type: T.ClassType) -> bool:
        """Is it a container whose submodules are reached by their numbers?"""
        return type in self.sequences

    def has_hooks(self, type: T.ClassType) -> bool:
        """Has the class hooks? Graphs call them, so that they call `forward` itself."""
        return bool(type.forward_pre_hooks or type.forward_hooks)

    def exception(self, name: str | None) -> Text:
        """The class of an exception by its qualified name; None for what TorchScript knows no class of.

        Raises:
            NotSupportedError: the class does more than to be a class.
        """
        short = "Error" if name is None else name.rpartition(".")[2]
        cls = getattr(builtins, short, None) if name is None or name.startswith("builtins.") else None
        if isinstance(cls, type) and issubclass(cls, BaseException):
            return self.builtin(short)
        key = ("exception", str(name))
        known = self.names.get(key)
        if known is None:
            base = _base_of_exception(name)
            known = self.names[key] = self.unique(made_identifier(short))
            self.blocks["types"].append(
                [code("class {}({}):", known, self.builtin(base)), fixed('    """Raised by the program."""')]
            )
        return known

    # -- annotations
    def annotation(self, type: Type) -> Text:
        """A type as an annotation."""
        simple = _ANNOTATIONS.get(type)
        if simple is not None:
            return self.imported(simple) if simple in _IMPORTS else simple
        if isinstance(type, T.TensorType):
            return self.imported("Tensor")
        if isinstance(type, T.OptionalType):
            return code("{} | None", self.annotation(type.element))
        if isinstance(type, T.UnionType):
            return joined(" | ", map(self.annotation, type.members))
        if isinstance(type, T.ListType | T.DictType | T.SetType):
            return code("{}[{}]", identifier(type.kind.lower()), joined(", ", map(self.annotation, type.contained)))
        if isinstance(type, T.TupleType) and type.names is None:
            return code("tuple[{}]", joined(", ", map(self.annotation, type.elements)) or fixed("()"))
        if type in (T.DEVICE, T.GENERATOR):
            return code("{}.{}", self.imported("torch"), fixed("device" if type is T.DEVICE else "Generator"))
        if isinstance(type, T.ClassType | T.EnumType | T.InterfaceType | T.TupleType):
            return self._named_annotation(type)
        return self.imported("Any")

    def _named_annotation(self, type: object) -> Text:
        try:
            return self.type_name(type)
        except NotSupportedError:
            return self.imported("Any")

    # -- constants
    def constant(self, value: object, range: SourceRange | None = None) -> Text:
        """An expression for a constant.

        Raises:
            NotSupportedError: there is none.
        """
        for kinds, write in _CONSTANTS:
            if isinstance(value, kinds):
                return write(self, value, range)
        raise NOT_AS_PYTHON(
            f"a constant of the class {type(value).__name__} cannot be written as Python", range,
        )  # fmt: skip

    def _number(self, value: object, range: SourceRange | None) -> Text:
        if isinstance(value, float) and not math.isfinite(value):
            found = code("{}.{}", self.imported("math"), fixed("nan" if math.isnan(value) else "inf"))
            return code("-{}", found) if value < 0 else found
        if isinstance(value, complex):
            return code("complex({}, {})", self._number(value.real, range), self._number(value.imag, range))
        return literal(value)

    def _text(self, value: str, range: SourceRange | None) -> Text:
        return shown_literal(value)

    def _object_of_torch(self, value: object, range: SourceRange | None) -> Text:
        if isinstance(value, torch.device):
            return code("{}.device({})", self.imported("torch"), literal(str(value)))
        return code("{}.{}", self.imported("torch"), identifier(str(value).rpartition(".")[2]))

    def _list(self, value: list[object], range: SourceRange | None) -> Text:
        return code("[{}]", joined(", ", (self.constant(v, range) for v in value)))

    def _dict(self, value: dict[object, object], range: SourceRange | None) -> Text:
        pairs = [code("{}: {}", self.constant(k, range), self.constant(v, range)) for k, v in value.items()]
        return code("{{{}}}", joined(", ", pairs))

    def _set(self, value: set[object] | frozenset[object], range: SourceRange | None) -> Text:
        items = joined(", ", (self.constant(v, range) for v in value))
        return code("{}(({}{}))", self.builtin(type(value).__name__), items, fixed("," if len(value) == 1 else ""))

    def _tuple(self, value: tuple[object, ...], range: SourceRange | None) -> Text:
        items = joined(", ", (self.constant(v, range) for v in value))
        if hasattr(value, "_fields"):
            return code("{}({})", self.tuple_name(type(value), value), items)
        shown = code("({},)", items) if len(value) == 1 else code("({})", items)
        if type(value) is not tuple:  # torch.Size, torch.return_types
            return code("{}({})", self.dotted(type(value)), shown)
        return shown

    def tuple_name(self, cls: object, value: object) -> Text:
        """The class of a named tuple."""
        known = next((n for t, n in self.names.items() if isinstance(t, T.TupleType) and t.python_class is cls), None)
        return known or self.type_name(type_of_value(value))

    def _member(self, value: enum.Enum, range: SourceRange | None) -> Text:
        owner = self.type_name(type_of_value(value))
        if is_identifier(value.name):
            return code("{}.{}", owner, identifier(value.name))
        return code("{}[{}]", owner, literal(value.name))

    def _function(self, value: Function, range: SourceRange | None) -> Text:
        return self.function(value)

    def tensor(self, value: torch.Tensor, range: SourceRange | None = None) -> Text:
        """A constant tensor: a name of its own if it is small, else an entry of the file of weights."""
        known = self._constant_names.get(id(value))
        if known is None:
            text = self.small_tensor(value)
            if text is None:
                text = self.stored(value, f"constant_{len(self.tensors) + 1}")
            else:
                name = self.unique(made_identifier(f"CONSTANT_{len(self.constants) + 1}"))
                self.constants.append(code("{} = {}", name, text))
                text = name
            known = self._constant_names[id(value)] = value, text
        return known[1]

    def small_tensor(self, value: torch.Tensor) -> Text | None:
        """A call that makes a tensor of few elements; None where the tensor is not of that kind."""
        is_plain = value.layout is torch.strided and not value.is_quantized and value.device.type == "cpu"
        if not is_plain or type(value) is not torch.Tensor or value.numel() > _LARGEST_WRITTEN or value.requires_grad:
            return None
        if not value.is_contiguous() or 0 in value.shape or value.is_conj() or value.is_neg():
            return None
        storage = value.untyped_storage()
        if storage.nbytes() != value.numel() * value.element_size() or storage._cdata in self.shared_storages:
            return None  # it may share memory with others
        dtype = code("{}.{}", self.imported("torch"), identifier(str(value.dtype).rpartition(".")[2]))
        return code("{}.tensor({}, dtype={})", self.imported("torch"), self._nested(value.tolist()), dtype)

    def _nested(self, value: object) -> Text:
        if isinstance(value, list):
            return code("[{}]", joined(", ", map(self._nested, value)))
        return self._number(value, None)

    def stored(self, value: torch.Tensor, wanted: str) -> Text:
        """An entry of the file of weights, as an expression."""
        name = self._tensor_names.get(id(value))
        if name is None:
            name, number = wanted, 1
            while name in self.tensors or name in self.stored_names:
                number += 1
                name = f"{wanted}_{number}"
            self._tensor_names[id(value)] = name
            self.tensors[name] = value
        return code("TENSORS[{}]", literal(name))


_ANNOTATIONS: dict[Type, Text] = {
    T.INT: fixed("int"), T.FLOAT: fixed("float"), T.BOOL: fixed("bool"), T.STRING: fixed("str"),
    T.COMPLEX: fixed("complex"), T.NONE: fixed("None"), T.NUMBER: fixed("int | float | complex"), T.ANY: fixed("Any"),
    T.ANY_LIST: fixed("list"), T.ANY_TUPLE: fixed("tuple"), T.ANY_DICT: fixed("dict"),
    T.ANY_SET: fixed("set"), T.ANY_FROZENSET: fixed("frozenset"),
}  # fmt: skip

_CONSTANTS: tuple[tuple[Any, Callable[[PythonFile, Any, SourceRange | None], Text]], ...] = (
    ((bool, type(None)), lambda file, value, range: literal(value)),
    (enum.Enum, PythonFile._member),
    (str, PythonFile._text),
    ((int, float, complex), PythonFile._number),
    ((torch.device, *INT_OBJECTS), PythonFile._object_of_torch),
    (torch.Tensor, PythonFile.tensor),
    (list, PythonFile._list),
    (dict, PythonFile._dict),
    (set, PythonFile._set),
    (frozenset, PythonFile._set),
    (tuple, PythonFile._tuple),
    (Function, PythonFile._function),
)


def _base_of_exception(name: object) -> str:
    """The class of Python's that an exception of the program is derived from."""
    cls = getattr(name, "python_class", Exception)
    for base in cls.__mro__:
        if base.__module__ == "builtins":
            return str(base.__name__)
        if {"__init__", "__new__", "__str__"} & set(vars(base)):
            raise NOT_AS_PYTHON(f"the exception class '{name}' has methods of its own, which are left to Python")
    return "Exception"


def plain_name(type: Any) -> str:
    """The name of a class without its module and what makes it unique."""
    name = str(_MANGLED.sub("", type.qualified_name or "NamedTuple")).rpartition(".")[2]
    return name or "Unnamed"


def is_written(type: object) -> bool:
    """Does the source define the class of this type? If not, it is torch's."""
    if isinstance(type, T.ClassType) and type.definition is None:
        return False
    cls: object = getattr(type, "python_class", None)
    if cls is None or (isinstance(type, T.ClassType) and type.is_module):
        return True
    return isinstance(type, T.ClassType | T.InterfaceType) or dotted_name(cls) is None


def dotted_name(found: object) -> str | None:
    """The name, beginning with `torch` or `builtins`, by which an object can be reached; None where there is none."""
    module = getattr(found, "__module__", None) or ""
    qualified = str(getattr(found, "__qualname__", None) or getattr(found, "__name__", ""))
    for place in ("torch", module):
        if place.partition(".")[0] not in ("torch", "builtins") or place.startswith("torch.jit"):
            continue
        holder: object = sys.modules.get(place) or importlib.import_module(place)
        for part in qualified.split("."):
            holder = getattr(holder, part, None)
        if holder is found:
            return f"{place}.{qualified}"
    return None
