"""What the pickles of an archive hold: modules, objects of its classes, enums, containers and tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from jitlite.archive.errors import ArchiveError, faults_of
from jitlite.archive.packed_parameters import NotPacked, check_state, is_checked
from jitlite.archive.pickling import OUTSIDE
from jitlite.archive.tensors import REBUILD, STORAGE_TYPES, NamedScheme, Storages, as_parameter
from jitlite.frontend.emit.annotations import parse_type
from jitlite.frontend.syntax.python_ast import parse_expression
from jitlite.ir import types as T
from jitlite.ir.types import ClassType, EnumType, InterfaceType, Type
from jitlite.ir.values import bound_class
from jitlite.loading.allowance import Allowance, Exhausted
from jitlite.loading.import_source import CUSTOM, Importer
from jitlite.loading.loaded_module import UnpickledModule
from jitlite.loading.setters import Setter
from jitlite.loading.shaping import Shaper, WrongType
from jitlite.loading.unpickling import ROOM, PickledGlobal, Unpickler
from jitlite.loading.unset import UnsetObject, leave_unset
from jitlite.objects.function import ScriptFunction

_MISSING: object = object()
_LIBRARIES = frozenset({"quantized", "sparse", "rnn", "xnnpack", "mkldnn"})
"""Libraries of C++ classes that are part of torch."""
_LISTS = frozenset({"build_intlist", "build_doublelist", "build_boollist", "build_tensorlist", "build_complexlist"})
_SCHEMES = ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric",
            "per_channel_affine_float_qparams")  # fmt: skip


class Objects:
    """Makes the values of one pickle.

    Args:
        importer: gives the classes; called when the first is needed.
        allow: libraries whose classes the pickle may use though they are not part of torch.
        module_class: the class of the modules.
        run_code: let `__setstate__` of the archive's classes and of classes in C++ run. Otherwise their objects stay
            without their state.
        outside: tensors that the pickle has only the numbers of.
        allowance: what code that runs may take, and packed weights.
    """

    def __init__(
        self,
        importer: Callable[[], Importer],
        storages: Storages,
        member: str,
        allow: Collection[str] = (),
        *,
        module_class: type[UnpickledModule] = UnpickledModule,
        run_code: bool = True,
        outside: Sequence[torch.Tensor] = (),
        allowance: Allowance | None = None,
    ) -> None:
        self.allowance = allowance or Allowance(storages.reader.size)
        self.importer = importer
        self.outside = outside
        self.allow = allow
        self.module_class = module_class
        self.run_code = run_code
        self.storages = storages
        self.member = member
        self.shaper = Shaper()
        self._parameters: dict[int, tuple[torch.Tensor, torch.nn.Parameter]] = {}
        self._classes: dict[str, PickledGlobal] = {}

    def load(self, data: bytes) -> Any:
        """The value that the pickle holds.

        Raises:
            ArchiveError: it is damaged, or holds what archives do not have.
        """
        with faults_of(self.member):
            room = ROOM - len(data) + 2 * self.storages.reader.size
            return Unpickler(data, self.member, self._find, self._persistent, room).load()

    def _persistent(self, described: object) -> Any:
        if self.outside and isinstance(described, tuple) and described[:1] == (OUTSIDE,):
            return self.outside[described[1]]
        return self.storages.find(described, self.member)

    # -- global names
    def _find(self, module: str, name: str) -> PickledGlobal:
        if module == "__torch__" or module.startswith("__torch__."):
            qualified = f"{module}.{name}"
            if qualified not in self._classes:
                self._classes[qualified] = self._class(qualified)
            return self._classes[qualified]
        made = self._known(module, name)
        if made is None:
            raise ArchiveError(
                f"it names {module}.{name}, which no archive of TorchScript does", self.member,
                hint="a checkpoint of torch.save is read with torch.load",
            )  # fmt: skip
        return made

    def _known(self, module: str, name: str) -> PickledGlobal | None:
        if module == "torch.jit._pickle":
            if name in _LISTS:
                return PickledCall(_list)
            return PickledCall(self._tagged) if name == "restore_type_tag" else None
        if module == "torch._utils" and name in REBUILD:
            return PickledCall(REBUILD[name])
        if module == "torch" and name in STORAGE_TYPES:
            return StorageType(STORAGE_TYPES[name])
        if module == "torch" and name in _SCHEMES:
            return _Scheme(getattr(torch, name))
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("torch", "device"): _device,
            ("builtins", "complex"): _complex,
            ("collections", "OrderedDict"): _no_hooks,
        }
        function = known.get((module, name))
        return None if function is None else PickledCall(function)

    def _class(self, qualified: str) -> PickledGlobal:
        if qualified.startswith(CUSTOM):
            made = _CustomClass(self, qualified)
            return made if self.run_code else _UnsetCustomClass(qualified)
        found = self.importer().needed_type(qualified, self.member)
        if isinstance(found, EnumType):
            return PickledCall(_member_of(found), spread=False)
        if isinstance(found, ClassType):
            return _ModuleClass(self, found) if found.is_module else _ObjectClass(self, found)
        raise ArchiveError(f"'{qualified}' is no class of which there can be an object", self.member)

    def _tagged(self, value: object, text: object) -> Any:
        """A container with the text of its type, which says more than the value where named tuples are in it."""
        if isinstance(text, str) and "__torch__" in text:
            resolve = self.importer().resolver.resolve_type
            return self.shaped(value, parse_type(parse_expression(text), resolve), "a value")
        return value

    # -- values of attributes
    def shaped(self, value: object, wanted: Type, what: str) -> Any:
        """The value in the form that its type asks for: a tuple for a named tuple becomes one.

        Raises:
            ArchiveError: it is of another type.
        """
        try:
            return self.shaper.shaped(value, wanted)
        except WrongType as error:
            raise ArchiveError(f"{what} is to be of type {wanted.annotation}, but holds {error}", self.member) from None

    def attribute(self, owner: ClassType, name: str, state: dict[str, object]) -> Any:
        """The value of an attribute in the state of an object.

        Raises:
            ArchiveError: there is none, or it is of another type.
        """
        wanted = owner.attributes[name]
        value = state.get(name, _MISSING)
        what = f"attribute '{name}' of '{owner.qualified_name}'"
        if value is _MISSING:
            if not T.may_be_none(wanted):
                raise ArchiveError(f"{what} is missing", self.member)
            value = None
        return self.shaped(value, wanted, what)

    def parameter(self, tensor: torch.Tensor) -> torch.nn.Parameter:
        """The parameter that a tensor becomes; one for each tensor, so that what was tied is tied again."""
        known = self._parameters.get(id(tensor))
        if known is None:
            known = self._parameters[id(tensor)] = tensor, as_parameter(tensor)
        return known[1]


class PickledCall:
    """A name for a function: with `spread`, of a tuple of arguments, else of the argument itself."""

    def __init__(self, function: Callable[..., object], *, spread: bool = True) -> None:
        self.function = function
        self.spread = spread

    def call(self, argument: object) -> Any:
        if not self.spread:
            return self.function(argument)
        if not isinstance(argument, tuple):
            raise ValueError("a call without a tuple of arguments")
        return self.function(*argument)

    def build(self, state: object) -> Any:
        raise ValueError("a function is used as a class")

    @staticmethod
    def no_function(*arguments: object) -> Any:
        """What a name for something else is as a function."""
        raise ValueError("a value is called")


class _Scheme(PickledCall, NamedScheme):
    """A name for a way to quantize."""

    def __init__(self, scheme: torch.qscheme) -> None:
        super().__init__(self.no_function)
        self.scheme = scheme


class StorageType(PickledCall):
    """A name for a class of storages, of which the dtype counts."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(self.no_function)
        self.dtype = dtype


def _list(values: object) -> Any:
    if not isinstance(values, list):
        raise ValueError("expected a list")
    return values


def _device(text: object, index: object = None) -> torch.device:
    if type(text) is not str or len(text) > _LONGEST_DEVICE or (index is not None and type(index) is not int):
        raise ValueError("expected the name of a device")
    return torch.device(text) if index is None else torch.device(text, index)


_LONGEST_DEVICE = 100


def _complex(real: Any, imaginary: Any) -> complex:
    if not {type(real), type(imaginary)} <= {int, float}:  # whose conversion is Python's own
        raise ValueError("expected two numbers")
    return complex(float(real), float(imaginary))


def _no_hooks() -> dict[Any, Any]:
    """The OrderedDict of hooks that stands with each tensor, and is always empty."""
    return {}


def _member_of(type: EnumType) -> Callable[[Any], Any]:
    def member(value: object) -> Any:
        if isinstance(value, int | float | str):  # others could have an equality of their own
            for each in type.python_class:
                if value == each.value:
                    return each
        raise ValueError(f"'{type.qualified_name}' has no member with such a value")

    return member


# -- objects


class _ObjectClass(PickledCall):
    """A name for a class of the archive."""

    def __init__(self, objects: Objects, type: ClassType) -> None:
        super().__init__(PickledCall.no_function)
        self.objects = objects
        self.type = type

    def build(self, state: object) -> Any:
        made = self._new()
        if self.objects.run_code or "__setstate__" not in self.type.methods:
            self._set_state(made, state)
        else:
            leave_unset(made, state)
        return made

    def _new(self) -> Any:
        cls = self.type.python_class
        return cls.__new__(cls)

    def _set_state(self, made: object, state: object) -> None:
        if "__setstate__" in self.type.methods:
            self._run_setter(made, state)
            return
        if not isinstance(state, dict):
            raise ArchiveError(f"the state of an object of '{self.type.qualified_name}' is no dict", self._member)
        for name in self.type.attributes:
            self._set(made, name, self.objects.attribute(self.type, name, state))

    @property
    def _member(self) -> str:
        return self.objects.member

    def _set(self, made: object, name: str, value: object) -> None:
        vars(made)[name] = value

    def _run_setter(self, made: object, state: object) -> None:
        """`__setstate__`: the one part of a program that is run to load it, as the format asks for it."""
        setter = self.type.methods["__setstate__"]
        arguments = setter.schema.arguments
        if len(arguments) != 2:
            raise ArchiveError(f"'{setter.qualified_name}' takes {len(arguments)} arguments, not 2", self._member)
        shaped = self.objects.shaped(state, arguments[1].type, f"the state of '{self.type.qualified_name}'")
        run = Setter(self.type.qualified_name, self._member, self.objects.allowance, self.objects.allow).run
        run(setter, [made, shaped])
        for value in vars(made).values():
            if isinstance(value, torch.ScriptObject):
                bound_class(value)  # so that programs know its methods


class _ModuleClass(_ObjectClass):
    """A name for a class of modules."""

    def _new(self) -> Any:
        made = self.objects.module_class.__new__(self.objects.module_class)
        torch.nn.Module.__init__(made)
        for name, wanted in self.type.attributes.items():
            if name in self.type.parameters:
                made._parameters[name] = None
            elif name in self.type.buffers:
                made._buffers[name] = None
            elif isinstance(wanted, ClassType | InterfaceType) and wanted.is_module:
                made._modules[name] = None
        made._jitlite_settle(self.type)
        self._add_hooks(made)
        return made

    def _add_hooks(self, made: UnpickledModule) -> None:
        program = self.type.definition.program
        for functions, hooks in (
            (self.type.forward_pre_hooks, made._forward_pre_hooks),
            (self.type.forward_hooks, made._forward_hooks),
        ):
            for number, function in enumerate(functions):
                hooks[number] = ScriptFunction(program, function)

    def _set(self, made: Any, name: str, value: Any) -> None:
        if name in self.type.parameters:
            made._parameters[name] = None if value is None else self.objects.parameter(value)
        elif name in self.type.buffers:
            made._buffers[name] = value
        elif isinstance(value, torch.nn.Module):
            made._modules[name] = value
        else:
            vars(made)[name] = value

    def _run_setter(self, made: Any, state: object) -> None:
        """`__setstate__`, which assigns plain tensors to parameters: they become parameters when it is done."""
        names = list(made._parameters)
        made._parameters.clear()
        super()._run_setter(made, state)
        for name in names:
            self._set(made, name, vars(made).pop(name, None))


class _CustomClass(PickledCall):
    """A name for a class that a library defines in C++, such as the packed weights of quantized modules."""

    def __init__(self, objects: Objects, qualified: str) -> None:
        super().__init__(PickledCall.no_function)
        self.objects = objects
        self.qualified = qualified
        self.name = qualified.removeprefix(CUSTOM)
        library = self.name.partition(".")[0]
        self.is_trusted = library in objects.allow
        if self.is_trusted or is_checked(self.name):
            return
        why = "of which is not known what it may be made of" if library in _LIBRARIES else "of no part of torch"
        raise ArchiveError(
            f"it has an object of the class '{qualified}', of a library {why}", objects.member,
            hint=f"if you trust the archive, allow the library by name: load(file, allow=['{library}'])",
        )  # fmt: skip

    def build(self, state: object) -> Any:
        if not self.is_trusted:
            self._check(state)
        make: Any = torch.ScriptObject
        made = make.__new__(make)  # which nothing else sees before it has its state
        try:
            made.__setstate__((state, self.qualified))
        except Exception as error:
            raise self._fault(str(error).partition("\n")[0]) from None
        bound_class(made)  # so that programs know its methods
        return made

    def _check(self, state: object) -> None:
        try:
            self.objects.allowance.take(check_state(self.name, state), 0, "packing weights")
        except (NotPacked, Exhausted) as error:
            raise self._fault(str(error)) from None

    def _fault(self, why: str) -> ArchiveError:
        return ArchiveError(f"an object of '{self.qualified}' cannot be made here: {why}", self.objects.member)


class _UnsetCustomClass(PickledCall):
    """A name for a class in C++ of which no object is made."""

    def __init__(self, qualified: str) -> None:
        super().__init__(PickledCall.no_function)
        self.qualified = qualified

    def build(self, state: object) -> Any:
        return UnsetObject(self.qualified, state)
