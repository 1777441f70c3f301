"""The types of Python's enums and classes, and of interfaces. See `types.py`."""

from __future__ import annotations

from typing import Any

from jitlite.ir.type_kinds import Type, cached_on


class EnumType(Type):
    """A Python Enum. `value_type` is the common type of its members' values."""

    __slots__ = ("python_class", "qualified_name", "value_type")
    qualified_name: str
    python_class: Any
    value_type: Type

    @classmethod
    def of(cls, qualified_name: str, python_class: object, value_type: Type) -> EnumType:
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
    def of(cls, qualified_name: str, python_class: object = None, is_module: bool = False) -> ClassType:
        """The class that is known by this name and Python class."""
        return cls._intern(
            (qualified_name, python_class, is_module), **_members(qualified_name, python_class, is_module)
        )

    @classmethod
    def new(cls, qualified_name: str, python_class: object = None, is_module: bool = False) -> ClassType:
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


def _members(qualified_name: str, python_class: object, is_module: bool) -> dict[str, Any]:
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
    def new(cls, qualified_name: str, python_class: object = None, is_module: bool = False) -> InterfaceType:
        """An interface of its own."""
        made = cls()
        made.qualified_name, made.python_class, made.is_module = qualified_name, python_class, is_module
        made.methods, made.definition = {}, None
        made._text, made._annotation = made._spell()
        return made

    def _spell(self) -> tuple[str, str]:
        return f"InterfaceType<{self.qualified_name.rpartition('.')[2]}>", self.qualified_name


def is_named(t: Type) -> bool:
    """Does the type hold on to a Python class, itself or in a part?"""
    return cached_on(t, "is named", _is_named)


def _is_named(t: Type) -> bool:
    own = isinstance(t, ClassType | InterfaceType | EnumType) or getattr(t, "python_class", None) is not None
    return own or any(map(is_named, t.contained))
