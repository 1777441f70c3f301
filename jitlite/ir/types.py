"""The type lattice of TorchScript.

Types are immutable and interned: two equal types are the same object, so `is` and `==` agree and a type can be
a dictionary key at no cost. `str(t)` is the spelling in graph text (`int[]`), `t.annotation` the Python one
(`List[int]`). See `is_subtype`, `unify` and `match_variables` for the relations.

How to read: simple types first, then containers, tensors, named types, then the relations between types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakValueDictionary

import torch

from jitlite.base.locks import Lock
from jitlite.base.source import CompileError

_T = TypeVar("_T", bound="Type")
_V = TypeVar("_V")
_interned: WeakValueDictionary[tuple[object, ...], Type] = WeakValueDictionary()
"""Types in use by what they are made of; a type that nobody holds is forgotten, and with it the classes it names."""
_intern_lock = Lock("types")


class Type:
    """A TorchScript type. Never build one with its constructor: use the singletons and the `of` class methods."""

    __slots__ = ("__weakref__", "_annotation", "_kept", "_text")
    _text: str
    _annotation: str
    _kept: dict[str, Any]

    @classmethod
    def _intern(cls: type[_T], parts: tuple[object, ...], /, **fields: object) -> _T:
        full_key = (cls, *parts)
        found = _interned.get(full_key)
        if found is None:
            with _intern_lock:
                found = _interned.get(full_key)
                if found is None:
                    found = cls()
                    for name, value in fields.items():
                        setattr(found, name, value)
                    found._text, found._annotation = found._spell()
                    _interned[full_key] = found
        return cast(_T, found)

    def _spell(self) -> tuple[str, str]:
        """The graph text and the annotation text."""
        raise NotImplementedError

    @property
    def annotation(self) -> str:
        """The type as a Python annotation."""
        return self._annotation

    @property
    def contained(self) -> tuple[Type, ...]:
        """The types this one is made of, in order."""
        return ()

    def with_contained(self, types: Sequence[Type]) -> Type:
        """The same constructor over other contained types."""
        return self

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{self._annotation}>"

    def __reduce__(self) -> Any:
        """None where it is read again: who keeps a type on a class or object makes it anew."""
        return type(None), ()

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Type:
        return self

    @property
    def kind(self) -> str:
        """The class name without `Type`, e.g. `List`."""
        return type(self).__name__.removesuffix("Type")


def kept(t: Type, what: str, make: Callable[[Any], _V]) -> _V:
    """What `make(t)` gave the first time. The type itself keeps it, so it is forgotten together with the type."""
    try:
        found: _V = t._kept[what]
    except AttributeError:
        t._kept = {}
    except KeyError:
        pass
    else:
        return found
    found = make(t)
    return t._kept.setdefault(what, found)  # type: ignore[no-any-return]


def is_named(t: Type) -> bool:
    """Does the type hold on to a Python class, itself or in a part?"""
    return kept(t, "is named", _is_named)


def _is_named(t: Type) -> bool:
    own = isinstance(t, ClassType | InterfaceType | EnumType) or getattr(t, "python_class", None) is not None
    return own or any(map(is_named, t.contained))


class SimpleType(Type):
    """A type without parts: int, str, Device, Any ..."""

    __slots__ = ("name", "spelling")
    name: str
    spelling: str

    @classmethod
    def of(cls, name: str, annotation: str | None = None) -> SimpleType:
        return cls._intern((name,), name=name, spelling=annotation or name)

    def _spell(self) -> tuple[str, str]:
        return self.name, self.spelling


ANY = SimpleType.of("Any")
NONE = SimpleType.of("NoneType")
INT = SimpleType.of("int")
FLOAT = SimpleType.of("float")
BOOL = SimpleType.of("bool")
COMPLEX = SimpleType.of("complex")
STRING = SimpleType.of("str")
NUMBER = SimpleType.of("Scalar", "number")
DEVICE = SimpleType.of("Device")
GENERATOR = SimpleType.of("Generator")
STREAM = SimpleType.of("Stream")
STORAGE = SimpleType.of("Storage")
QUANTIZER = SimpleType.of("Quantizer")
CAPSULE = SimpleType.of("Capsule")
FUNCTION = SimpleType.of("Function")
PY_OBJECT = SimpleType.of("PyObject")
EXCEPTION = SimpleType.of("Exception")
"""A caught exception, whatever its class. TorchScript has no such type."""
ANY_LIST = SimpleType.of("list")
"""A list of anything: only in isinstance."""
ANY_TUPLE = SimpleType.of("tuple")
"""A tuple of anything: only in isinstance."""
ANY_DICT = SimpleType.of("dict")
"""A dict of anything: only in isinstance."""
ANY_ENUM = SimpleType.of("AnyEnumType")
ANY_CLASS = SimpleType.of("AnyClassType")
# The dispatcher's schemas distinguish these; to TorchScript they are all ints (see `schema.Argument.type`).
SCALAR_TYPE = SimpleType.of("ScalarType")
LAYOUT = SimpleType.of("Layout")
MEMORY_FORMAT = SimpleType.of("MemoryFormat")
DIMNAME = SimpleType.of("Dimname")
SYM_INT = SimpleType.of("SymInt", "int")
SYM_FLOAT = SimpleType.of("SymFloat", "float")
SYM_BOOL = SimpleType.of("SymBool", "bool")

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.float16: "Half", torch.float32: "Float", torch.float64: "Double", torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble", torch.bool: "Bool", torch.qint8: "QInt8",
    torch.quint8: "QUInt8", torch.qint32: "QInt32", torch.bfloat16: "BFloat16", torch.quint4x2: "QUInt4x2",
    torch.quint2x4: "QUInt2x4", torch.float8_e5m2: "Float8_e5m2", torch.float8_e4m3fn: "Float8_e4m3fn",
    torch.float8_e5m2fnuz: "Float8_e5m2fnuz", torch.float8_e4m3fnuz: "Float8_e4m3fnuz", torch.uint16: "UInt16",
    torch.uint32: "UInt32", torch.uint64: "UInt64",
}  # fmt: skip
"""Names of dtypes in graph text."""


class TensorType(Type):
    """A tensor, with what is known about it.

    `sizes` is None when the rank is unknown, else one entry a dimension, None where unknown. `strides` likewise.
    `symbols` has an entry for each dimension too: dimensions of one graph that have the same number there have the same
    size in every run (a number above 0, written `SS(-number)`); None where nothing is said, or where the size is known.
    """

    __slots__ = ("device", "dtype", "requires_grad", "sizes", "strides", "symbols")
    dtype: torch.dtype | None
    device: torch.device | None
    requires_grad: bool | None
    sizes: tuple[int | None, ...] | None
    strides: tuple[int | None, ...] | None
    symbols: tuple[int | None, ...] | None

    @classmethod
    def of(
        cls,
        dtype: torch.dtype | None = None,
        sizes: Iterable[int | None] | None = None,
        strides: Iterable[int | None] | None = None,
        device: torch.device | None = None,
        requires_grad: bool | None = None,
        symbols: Iterable[int | None] | None = None,
    ) -> TensorType:
        sizes = None if sizes is None else tuple(sizes)
        strides = None if strides is None else tuple(strides)
        named = () if symbols is None else tuple(symbols)
        symbols = named if any(named) else None
        key = (dtype, sizes, strides, device, requires_grad, symbols)
        return cls._intern(
            key, dtype=dtype, sizes=sizes, strides=strides, device=device, requires_grad=requires_grad, symbols=symbols
        )

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> TensorType:
        """The complete type of a given tensor."""
        dense = tensor.layout is torch.strided
        strides = tensor.stride() if dense else None
        return cls.of(tensor.dtype, tensor.shape, strides, tensor.device, tensor.requires_grad)

    def _spell(self) -> tuple[str, str]:
        name = "Tensor" if self.dtype is None else DTYPE_NAMES[self.dtype]
        details = []
        if self.sizes is not None:
            symbols = self.symbols or (None,) * len(self.sizes)
            shown_sizes = zip(self.sizes, symbols, strict=True)
            details.append(", ".join(f"SS(-{n})" if n else "*" if s is None else str(s) for s, n in shown_sizes))
        if self.strides is not None and self.sizes:
            details.append(f"strides=[{', '.join('*' if s is None else str(s) for s in self.strides)}]")
        if self.requires_grad is not None:
            details.append(f"requires_grad={int(self.requires_grad)}")
        if self.device is not None:
            details.append(f"device={self.device}")
        shown = ", ".join(d for d in details if d)
        return (f"{name}({shown})" if details else name), "Tensor"


TENSOR = TensorType.of()


class ListType(Type):
    __slots__ = ("element",)
    element: Type

    @classmethod
    def of(cls, element: Type) -> ListType:
        return cls._intern((element,), element=element)

    def _spell(self) -> tuple[str, str]:
        return f"{self.element}[]", f"List[{self.element.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return ListType.of(types[0])


class DictType(Type):
    __slots__ = ("key", "value")
    key: Type
    value: Type

    @classmethod
    def of(cls, key: Type, value: Type) -> DictType:
        return cls._intern((key, value), key=key, value=value)

    def _spell(self) -> tuple[str, str]:
        return f"Dict({self.key}, {_in_dict(self.value)})", f"Dict[{self.key.annotation}, {self.value.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return self.key, self.value

    def with_contained(self, types: Sequence[Type]) -> Type:
        return DictType.of(*types)


def _in_dict(t: Type) -> str:
    """The text of a dict's values: torch writes futures there as schemas have them, `Future(int)`."""
    if isinstance(t, FutureType | RRefType):
        return f"{t.kind}({_in_dict(t.element)})"
    if isinstance(t, ListType | OptionalType):
        return f"{_in_dict(t.element)}{'?' if isinstance(t, OptionalType) else '[]'}"
    return str(t)


DICT_KEYS = (STRING, INT, FLOAT, BOOL, COMPLEX, DEVICE, TENSOR)
"""What may key a dict."""


class TupleType(Type):
    """A tuple; with `names` and `qualified_name` a NamedTuple, whose Python class is `python_class` if known.

    `defaults` are the texts of the fields' defaults, None for a field without. They are there to be read.
    """

    __slots__ = ("defaults", "elements", "names", "python_class", "qualified_name")
    elements: tuple[Type, ...]
    names: tuple[str, ...] | None
    qualified_name: str | None
    python_class: type | None
    defaults: tuple[str | None, ...]

    @classmethod
    def of(
        cls,
        elements: Iterable[Type],
        names: Iterable[str] | None = None,
        qualified_name: str | None = None,
        python_class: type | None = None,
        defaults: Iterable[str | None] = (),
    ) -> TupleType:
        elements = tuple(elements)
        names = None if names is None else tuple(names)
        given = getattr(python_class, "_field_defaults", None)
        if given and names is not None:
            defaults = [_default_text(given[name]) if name in given else None for name in names]
        defaults = tuple(defaults)
        return cls._intern(
            (elements, names, qualified_name, python_class, defaults),
            elements=elements, names=names, qualified_name=qualified_name, python_class=python_class, defaults=defaults,
        )  # fmt: skip

    def _spell(self) -> tuple[str, str]:
        inside = ", ".join(e.annotation for e in self.elements)
        annotation = self.qualified_name or f"Tuple[{inside or '()'}]"
        if self.names is None:
            return f"({', '.join(map(str, self.elements))})", annotation
        fields = [f"{n} : {e}" for n, e in zip(self.names, self.elements, strict=True)]
        if any(self.defaults):
            fields = [f if d is None else f"{f} = {d}" for f, d in zip(fields, self.defaults, strict=True)]
        return f"NamedTuple({', '.join(fields)})", annotation

    @property
    def contained(self) -> tuple[Type, ...]:
        return self.elements

    def with_contained(self, types: Sequence[Type]) -> Type:
        return TupleType.of(types, self.names, self.qualified_name, self.python_class, self.defaults)


_DEEPEST_DEFAULT = 8
"""Containers within containers whose contents are shown in the default of a field."""


def _default_text(value: object, depth: int = 0) -> str:
    """The default of a field, in the text of a type. Brackets pair up in it; strings that are no words are quoted."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**64):
        return repr(value)
    if isinstance(value, str):
        return value if value.isidentifier() else json.dumps(value)
    if isinstance(value, list | tuple | dict) and depth < _DEEPEST_DEFAULT:
        start, end = "{}" if isinstance(value, dict) else "[]" if isinstance(value, list) else "()"
        items = [_default_text(v, depth + 1) for v in value]
        if isinstance(value, dict):
            items = [f"{k}: {_default_text(v, depth + 1)}" for k, v in zip(items, value.values(), strict=True)]
        return f"{start}{', '.join(items)}{end}"
    return f"<{type(value).__name__}>"


class UnionType(Type):
    """One of several types, none of which includes another. Optional[T] is the union of T and None."""

    __slots__ = ("members",)
    members: tuple[Type, ...]

    @classmethod
    def of(cls, members: Iterable[Type]) -> Type:
        """The union of `members`, flattened and without members that another one includes.

        A single remaining member is returned itself; a union with None of one other type is an OptionalType.
        """
        flat: list[Type] = []
        for member in members:
            flat += member.members if isinstance(member, UnionType) else [member]
        distinct: list[Type] = []
        for member in flat:
            if any(is_subtype(member, other) for other in distinct):
                continue
            distinct = [other for other in distinct if not is_subtype(other, member)]
            distinct.append(member)
        if len(distinct) == 1:
            return distinct[0]
        if len(distinct) == 3 and {INT, FLOAT, COMPLEX} == set(distinct):
            return NUMBER
        without_none = [member for member in distinct if member is not NONE]
        if len(without_none) == 1:
            return OptionalType.of(without_none[0])
        # in torch's order, so that one union has one spelling in whatever order it is named
        ordered = tuple(sorted(distinct, key=_place_in_union))
        return cls._intern((ordered,), members=ordered)

    def _spell(self) -> tuple[str, str]:
        return (
            f"Union({', '.join(map(str, self.members))})",
            f"Union[{', '.join(m.annotation for m in self.members)}]",
        )

    @property
    def contained(self) -> tuple[Type, ...]:
        return self.members

    def with_contained(self, types: Sequence[Type]) -> Type:
        return UnionType.of(types)


_UNION_ORDER = (
    "AnyType", "EnumType", "AnyEnumType", "TensorType", "Storage", "TupleType", "ListType", "DictType", "Scalar",
    "float", "complex", "FutureType", "AwaitType", "RRefType", "int", "NoneType", "str", "Generator", "Quantizer",
    "bool", "VarType", "Device", "Stream", "Function", "ClassType", "PyObject", "Capsule", "InterfaceType",
)  # fmt: skip
"""The order of c10::TypeKind, in which torch lists the members of a union: class names, or names of simple types."""


def _place_in_union(member: Type) -> tuple[int, str]:
    kind = member.name if isinstance(member, SimpleType) else type(member).__name__
    return (_UNION_ORDER.index(kind) if kind in _UNION_ORDER else len(_UNION_ORDER), str(member))


class OptionalType(UnionType):
    """A value of type `element`, or None."""

    __slots__ = ("element",)
    element: Type

    @classmethod
    def of(cls, element: Type) -> Type:  # type: ignore[override]
        if element is ANY or element is NONE or isinstance(element, OptionalType):
            return element
        if isinstance(element, UnionType):
            return element if NONE in element.members else UnionType.of([*element.members, NONE])
        return cls._intern((element,), element=element, members=(element, NONE))

    def _spell(self) -> tuple[str, str]:
        return f"{self.element}?", f"Optional[{self.element.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return OptionalType.of(types[0])


class _WrapperType(Type):
    """A named constructor over one type."""

    __slots__ = ("element",)
    element: Type
    brackets: ClassVar[str] = "[]"

    @classmethod
    def of(cls: type[_T], element: Type) -> _T:
        return cls._intern((element,), element=element)

    def _spell(self) -> tuple[str, str]:
        opening, closing = self.brackets[0], self.brackets[1]
        return f"{self.kind}{opening}{self.element}{closing}", f"{self.kind}[{self.element.annotation}]"

    @property
    def contained(self) -> tuple[Type, ...]:
        return (self.element,)

    def with_contained(self, types: Sequence[Type]) -> Type:
        return type(self).of(types[0])


class FutureType(_WrapperType):
    """The pending result of `fork`."""

    __slots__ = ()


class AwaitType(_WrapperType):
    """The lazily computed result of `awaitable`."""

    __slots__ = ()
    brackets = "()"


class RRefType(_WrapperType):
    """A reference to a value of another process."""

    __slots__ = ()


class VarType(Type):
    """A type variable of a schema: lower-case `t`, `t1`, `tVal`."""

    __slots__ = ("name",)
    name: str

    @classmethod
    def of(cls, name: str) -> VarType:
        return cls._intern((name,), name=name)

    def _spell(self) -> tuple[str, str]:
        return self.name, self.name


class EnumType(Type):
    """A Python Enum. `value_type` is the common type of its members' values."""

    __slots__ = ("python_class", "qualified_name", "value_type")
    qualified_name: str
    python_class: Any
    value_type: Type

    @classmethod
    def of(cls, qualified_name: str, python_class: Any, value_type: Type) -> EnumType:
        key = (qualified_name, python_class, value_type)
        return cls._intern(key, qualified_name=qualified_name, python_class=python_class, value_type=value_type)

    def _spell(self) -> tuple[str, str]:
        return f"Enum<{self.qualified_name}>", self.qualified_name


class ClassType(Type):
    """A script class or the class of a module.

    Class types are nominal: each `new` one differs from all others, whatever it is called. `of` gives the type of a
    name that occurs in a text, or of a Python class that is left to Python.

    Attributes:
        python_class: the Python class behind it, None for a class from text.
        attributes: types by name, in order of definition; parameters, buffers and submodules are attributes too.
        parameters, buffers: the names of those attributes that are one.
        constants: class constants by name; they are no attributes.
        methods: the compiled functions by name, `self` being the first parameter.
        properties: names of getter and setter (or None) by the name of the property.
        forward_hooks, forward_pre_hooks: compiled functions that a call of the module runs.
        definition: what the front end knows of the class, None for one that it does not compile.
    """

    __slots__ = ("attributes", "buffers", "constants", "definition", "forward_hooks", "forward_pre_hooks", "is_module",
                 "methods", "parameters", "properties", "python_class", "qualified_name")  # fmt: skip
    qualified_name: str
    python_class: Any
    is_module: bool
    attributes: dict[str, Type]
    parameters: set[str]
    buffers: set[str]
    constants: dict[str, Any]
    methods: dict[str, Any]
    properties: dict[str, tuple[str, str | None]]
    forward_hooks: list[Any]
    forward_pre_hooks: list[Any]
    definition: Any

    @classmethod
    def of(cls, qualified_name: str, python_class: Any = None, is_module: bool = False) -> ClassType:
        """The class that is known by this name and Python class."""
        return cls._intern(
            (qualified_name, python_class, is_module), **_members(qualified_name, python_class, is_module)
        )

    @classmethod
    def new(cls, qualified_name: str, python_class: Any = None, is_module: bool = False) -> ClassType:
        """A class of its own; who compiles it fills in what it has."""
        made = cls()
        for name, value in _members(qualified_name, python_class, is_module).items():
            setattr(made, name, value)
        made._text, made._annotation = made._spell()
        return made

    @property
    def is_frozen(self) -> bool:
        """Is it a frozen dataclass?"""
        return bool(getattr(getattr(self.python_class, "__dataclass_params__", None), "frozen", False))

    def _spell(self) -> tuple[str, str]:
        return self.qualified_name, self.qualified_name


def _members(qualified_name: str, python_class: Any, is_module: bool) -> dict[str, Any]:
    dicts: dict[str, Any] = {name: {} for name in ("attributes", "constants", "methods", "properties")}
    lists: dict[str, Any] = {"forward_hooks": [], "forward_pre_hooks": []}
    sets: dict[str, Any] = {"parameters": set(), "buffers": set(), "definition": None}
    names = {"qualified_name": qualified_name, "python_class": python_class, "is_module": is_module}
    return {**names, **dicts, **lists, **sets}


class InterfaceType(Type):
    """Methods that a class has to have. `methods` gives their schemas by name, `self` being the first parameter."""

    __slots__ = ("definition", "is_module", "methods", "python_class", "qualified_name")
    qualified_name: str
    python_class: Any
    is_module: bool
    methods: dict[str, Any]
    definition: Any

    @classmethod
    def of(cls, qualified_name: str, is_module: bool = False) -> InterfaceType:
        """The interface of this name, for one that occurs in a text."""
        fields: dict[str, Any] = {"python_class": None, "methods": {}, "definition": None}
        return cls._intern((qualified_name, is_module), qualified_name=qualified_name, is_module=is_module, **fields)

    @classmethod
    def new(cls, qualified_name: str, python_class: Any = None, is_module: bool = False) -> InterfaceType:
        """An interface of its own."""
        made = cls()
        made.qualified_name, made.python_class, made.is_module = qualified_name, python_class, is_module
        made.methods, made.definition = {}, None
        made._text, made._annotation = made._spell()
        return made

    def _spell(self) -> tuple[str, str]:
        return f"InterfaceType<{self.qualified_name.rpartition('.')[2]}>", self.qualified_name


_NUMBERS = frozenset({INT, FLOAT, COMPLEX})
INT_LIKE = frozenset({SCALAR_TYPE, LAYOUT, MEMORY_FORMAT, SYM_INT})
"""Types of dispatcher schemas that TorchScript sees as int."""


def is_subtype(sub: Type, sup: Type) -> bool:
    """May a value of type `sub` stand where `sup` is wanted, without conversion?"""
    if sub is sup or sup is ANY:
        return True
    if isinstance(sup, UnionType):
        return all(any(is_subtype(m, s) for s in sup.members) for m in members_of(sub))
    if isinstance(sub, UnionType):
        return all(is_subtype(m, sup) for m in sub.members)
    if sup is NUMBER:
        return sub in _NUMBERS
    if isinstance(sub, TensorType) and isinstance(sup, TensorType):
        return _tensor_refines(sub, sup)
    if isinstance(sub, TupleType):
        return sup is ANY_TUPLE or (isinstance(sup, TupleType) and _tuple_is_subtype(sub, sup))
    if isinstance(sub, ListType):
        return sup is ANY_LIST or (isinstance(sup, ListType) and unshaped(sub) is unshaped(sup))
    if isinstance(sub, DictType):
        return sup is ANY_DICT or (isinstance(sup, DictType) and unshaped(sub) is unshaped(sup))
    if isinstance(sub, FutureType | AwaitType | RRefType) and type(sub) is type(sup):
        return is_subtype(sub.element, cast(_WrapperType, sup).element)
    return _named_is_subtype(sub, sup)


def _named_is_subtype(sub: Type, sup: Type) -> bool:
    if isinstance(sub, EnumType):
        return sup is ANY_ENUM
    if isinstance(sup, InterfaceType) and isinstance(sub, ClassType | InterfaceType):
        try:
            return why_not_interface(sub, sup) is None
        except CompileError:  # of the body of a method whose result type has to be inferred
            return False
    return isinstance(sub, ClassType) and sup is ANY_CLASS


def why_not_interface(sub: ClassType | InterfaceType, sup: InterfaceType) -> str | None:
    """Why a class is not of the interface `sup`; None where it is.

    Raises:
        CompileError: a method has to be compiled to know the type of its result, and does not compile.
    """
    if sup.is_module and not sub.is_module:
        return (
            f"'{sub.annotation}' is no module: only a ScriptModule class can be subtype of module interface "
            f"'{sup.annotation}'"
        )
    for name, wanted in sup.methods.items():
        method = sub.methods.get(name)
        if method is None and isinstance(sub, ClassType) and sub.definition is not None:
            method = sub.definition.method(name)
        if method is None:
            return (
                f"Class '{sub.annotation}' is not compatible with interface {sup.annotation}: it does not have "
                f"method '{name}'"
            )
        found = getattr(method, "schema", method)
        if not _may_replace(found, wanted):
            return (
                f"Method '{name}' on class '{sub.annotation}' is not compatible with interface {sup.annotation}: it "
                f"is {found}, and {wanted} is wanted"
            )
    return None


def _may_replace(found: Any, wanted: Any) -> bool:
    """May a method of schema `found` be called as one of schema `wanted`? The first parameter, self, does not count."""
    given, formals = wanted.arguments[1:], found.arguments[1:]
    if len(formals) < len(given) or not all(extra.has_default for extra in formals[len(given) :]):
        return False
    takes = all(f.name == g.name and is_subtype(g.type, f.type) for f, g in zip(formals, given, strict=False))
    results = zip(found.returns, wanted.returns, strict=True)
    return takes and len(found.returns) == len(wanted.returns) and all(is_subtype(f.type, w.type) for f, w in results)


def _tensor_refines(sub: TensorType, sup: TensorType) -> bool:
    whole = all(
        getattr(sup, name) is None or getattr(sup, name) == getattr(sub, name)
        for name in ("dtype", "device", "requires_grad")
    )
    return whole and _refine_each(sub.sizes, sup.sizes) and _refine_each(sub.strides, sup.strides)


def _refine_each(sub: tuple[int | None, ...] | None, sup: tuple[int | None, ...] | None) -> bool:
    """Does `sub` say all that `sup` says of each dimension? Symbols mean something in one graph: they do not count."""
    if sup is None:
        return True
    return sub is not None and len(sub) == len(sup) and all(b is None or a == b for a, b in zip(sub, sup, strict=True))


def _tuple_is_subtype(sub: TupleType, sup: TupleType) -> bool:
    if len(sub.elements) != len(sup.elements) or (sup.names is not None and sup.names != sub.names):
        return False
    return all(is_subtype(a, b) for a, b in zip(sub.elements, sup.elements, strict=True))


def members_of(t: Type) -> tuple[Type, ...]:
    """The members of a union; a type that is none is its own only member. Scalar is its three numbers."""
    if t is NUMBER:
        return INT, FLOAT, COMPLEX
    return t.members if isinstance(t, UnionType) else (t,)


def may_be_none(t: Type) -> bool:
    """Can a value of this type be None?"""
    return t is NONE or t is ANY or (isinstance(t, UnionType) and NONE in t.members)


def without_none(t: Type) -> Type:
    """The type of a value of type `t` known not to be None."""
    if isinstance(t, OptionalType):
        return t.element
    if isinstance(t, UnionType):
        return UnionType.of(m for m in t.members if m is not NONE)
    return t


def unshaped(t: Type) -> Type:
    """The type with nothing said about tensors in it."""
    if isinstance(t, TensorType):
        return TENSOR
    parts = t.contained
    if not parts:
        return t
    bare = tuple(unshaped(p) for p in parts)
    return t if bare == parts else t.with_contained(bare)


def unify(a: Type, b: Type, *, default_to_union: bool = False) -> Type | None:
    """The type of a value that is an `a` on one path and a `b` on another; None where TorchScript has none.

    With `default_to_union`, unrelated types give their union.
    """
    if a is b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _merge_tensors(a, b)
    if is_subtype(a, b):
        return b if b is not ANY or a is ANY else ANY
    if is_subtype(b, a):
        return a
    if a is NONE or b is NONE:
        return OptionalType.of(b if a is NONE else a)
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner = unify(without_none(a), without_none(b))
        if inner is not None:
            return OptionalType.of(inner)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.elements) == len(b.elements):
        parts = [unify(x, y) for x, y in zip(a.elements, b.elements, strict=True)]
        if all(p is not None for p in parts):
            same_names = a.names == b.names and a.qualified_name == b.qualified_name
            elements = [p for p in parts if p is not None]
            return (
                TupleType.of(elements, a.names, a.qualified_name, a.python_class, a.defaults)
                if same_names
                else TupleType.of(elements)
            )
    if isinstance(a, FutureType) and isinstance(b, FutureType):
        element = unify(a.element, b.element)
        if element is not None:
            return FutureType.of(element)
    if isinstance(a, ListType | DictType) and unshaped(a) is unshaped(b):
        return unshaped(a)
    return UnionType.of([a, b]) if default_to_union else None


def _merge_tensors(a: TensorType, b: TensorType) -> TensorType:
    def agree(name: str) -> Any:
        x, y = getattr(a, name), getattr(b, name)
        return x if x == y else None

    def agree_each(name: str) -> Any:
        x, y = getattr(a, name), getattr(b, name)
        if x is None or y is None or len(x) != len(y):
            return None
        return tuple(p if p == q else None for p, q in zip(x, y, strict=True))

    sizes = agree_each("sizes")
    symbols = None if sizes is None or a.symbols is None or b.symbols is None else agree_each("symbols")
    return TensorType.of(agree("dtype"), sizes, agree("strides"), agree("device"), agree("requires_grad"), symbols)


def unify_all(types: Iterable[Type], *, default_to_union: bool = False) -> Type | None:
    """`unify` over several types; None for no types or where they do not unify."""
    result: Type | None = None
    for position, t in enumerate(types):
        result = t if position == 0 else unify(cast(Type, result), t, default_to_union=default_to_union)
        if result is None:
            return None
    return result


def has_variables(t: Type) -> bool:
    """Does a schema variable occur in the type?"""
    return isinstance(t, VarType) or any(has_variables(p) for p in t.contained)


def substitute(t: Type, bindings: dict[str, Type]) -> Type:
    """Put the bound types in place of variables; an unbound variable stays."""
    if isinstance(t, VarType):
        return bindings.get(t.name, t)
    parts = t.contained
    if not parts or not has_variables(t):
        return t
    return t.with_contained([substitute(p, bindings) for p in parts])


def match_variables(formal: Type, actual: Type, bindings: dict[str, Type]) -> str | None:
    """Bind the variables of `formal` so that it fits `actual`; the reason where it cannot, else None.

    The first use of a variable decides. A later use must unify with it but does not change it: whether it is a subtype
    of what was decided is for the caller to test.
    """
    if isinstance(formal, VarType):
        bound = bindings.get(formal.name)
        if bound is None:
            bindings[formal.name] = actual
            return None
        if unify(bound, actual) is None:
            return (
                f"type variable {formal.name} was previously matched to type {bound.annotation} but here "
                f"{actual.annotation} is given"
            )
        return None
    if not has_variables(formal):
        return None
    if isinstance(formal, OptionalType):
        if actual is NONE:
            return None
        return match_variables(formal.element, without_none(actual), bindings)
    if isinstance(formal, ListType) and isinstance(actual, TupleType):
        common = unify_all(actual.elements)
        if common is None:
            return f"a tuple of several types is no {formal.annotation}"
        return match_variables(formal.element, common, bindings)
    if type(formal) is type(actual) and len(formal.contained) == len(actual.contained):
        for f, a in zip(formal.contained, actual.contained, strict=True):
            reason = match_variables(f, a, bindings)
            if reason:
                return reason
        return None
    return f"{actual.annotation} is no {formal.annotation}"


def is_mutable(t: Type) -> bool:
    """May a value of the type be changed in place, itself or something in it?"""
    if isinstance(t, TensorType | ListType | DictType | ClassType | InterfaceType | FutureType | AwaitType | RRefType):
        return True
    if t in (ANY, ANY_LIST, ANY_TUPLE, ANY_DICT, ANY_CLASS, GENERATOR, STORAGE, CAPSULE, PY_OBJECT, STREAM):
        return True
    return isinstance(t, VarType) or any(is_mutable(p) for p in t.contained)
