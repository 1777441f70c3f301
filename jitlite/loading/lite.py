"""Files of the lite interpreter (.ptl) without their source: modules whose methods are bytecode."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from jitlite.archive.container import ArchiveReader
from jitlite.archive.errors import ArchiveError, faults_of
from jitlite.archive.tensors import Storages
from jitlite.ir import types as T
from jitlite.ir.schema import Argument, Schema, function_schema
from jitlite.loading.archive_names import Permissions
from jitlite.loading.import_source import CUSTOM, Importer
from jitlite.loading.lite_code import MEMBER, LiteContext, Missing, method_code
from jitlite.loading.lite_module import LiteClass, LiteMethod, LiteModule
from jitlite.loading.lite_types import LiteTypes
from jitlite.loading.objects import Objects, PickledCall
from jitlite.loading.setters import Setter
from jitlite.loading.unpickling import PickledGlobal
from jitlite.loading.unset import leave_unset

OLDEST, NEWEST = 4, 9
"""Versions of bytecode that can be read."""
_WITHOUT_NUMBER = 3
"""The version of files that do not say theirs."""


def load_lite(
    reader: ArchiveReader,
    version: int,
    device: torch.device | None,
    allow: Collection[str],
    *,
    mapped: bool = False,
    run_code: bool = True,
) -> LiteModule:
    """The module in a file of the lite interpreter.

    Args:
        version: of the archive, which says what operators mean.
        device: where to put tensors, None for where they were.
        allow: operators that the program may use though they are refused otherwise.
        mapped: may tensors lie in the file itself?
        run_code: let `__setstate__` run?

    Raises:
        ArchiveError: the file is damaged, or uses what is not there, all of which is named.
    """
    classes = _Classes()
    context = LiteContext(version, Permissions(allow), LiteTypes(), Missing())
    folder = "bytecode" if any(name.startswith("bytecode/") for name in reader.names()) else "constants"
    program = _Objects(classes, Storages(reader, folder, device, mapped=mapped), MEMBER, allow, run_code).read(reader)
    with faults_of(MEMBER):
        for entry in _methods(program):
            _add_method(classes, entry, context)
    context.missing.check()
    found = _Objects(classes, Storages(reader, "data", device, mapped=mapped), "data.pkl", allow, run_code).read(reader)
    if not isinstance(found, LiteModule):
        raise ArchiveError("it holds no module", "data.pkl")
    return found


class _Classes:
    """The classes of a file, by name. What they are is not told: each object is a module."""

    def __init__(self) -> None:
        self.known: dict[str, LiteClass] = {}

    def get(self, name: str) -> LiteClass:
        return self.known.setdefault(name, LiteClass(name))


# -- the program


def _methods(program: object) -> list[Any]:
    """The methods of a program of a version that can be read."""
    if not isinstance(program, tuple) or not program:
        raise ArchiveError("it holds no methods", MEMBER)
    version, methods = (program[0], program[1:]) if type(program[0]) is int else (_WITHOUT_NUMBER, program)
    if not OLDEST <= version <= NEWEST:
        raise ArchiveError(
            f"it is of version {version}, and versions {OLDEST} to {NEWEST} can be read", MEMBER,
            hint="export the model anew with another PyTorch" if version < OLDEST else "use a newer jitlite",
        )  # fmt: skip
    return list(methods)


def _add_method(classes: _Classes, entry: object, context: LiteContext) -> None:
    if not (isinstance(entry, tuple) and len(entry) in (2, 3) and isinstance(entry[0], str)):
        raise ArchiveError("a method that is none", MEMBER)
    owner, _, name = entry[0].rpartition(".")
    schema = _schema(name, entry[2], context.types) if len(entry) == 3 else None
    code = method_code(entry[0], entry[1], None if schema is None else len(schema.arguments), context)
    methods = classes.get(owner).methods
    if code is not None and name not in methods:  # the first of a name counts
        methods[name] = LiteMethod(entry[0], code, schema)


def _schema(name: str, described: Any, types: LiteTypes) -> Schema:
    tables = dict(described)
    arguments = [_argument(dict(entry), types, is_self=not at) for at, entry in enumerate(tables["arguments"])]
    returns = [types.parse_loosely(dict(entry)["type"]) for entry in tables["returns"]]
    if not arguments:
        raise ArchiveError(f"the method '{name}' has no parameters, not even its object", MEMBER)
    return function_schema(name, arguments, returns)


def _argument(described: dict[str, object], types: LiteTypes, *, is_self: bool) -> Argument:
    name, default = described["name"], described["default_value"]
    if not isinstance(name, str):
        raise ArchiveError("a parameter without a name", MEMBER)
    found = T.ANY if is_self else types.parse_loosely(described["type"])
    has_default = not is_self and (default is not None or T.may_be_none(found))
    return Argument(name, found, default=default, default_text=str(default) if has_default else None)


# -- objects


class _Objects(Objects):
    """Makes the values of one pickle of such a file."""

    def __init__(
        self, classes: _Classes, storages: Storages, member: str, allow: Collection[str], run_code: bool
    ) -> None:
        super().__init__(self._no_importer, storages, member, allow, run_code=run_code)
        self.classes = classes

    def read(self, reader: ArchiveReader) -> Any:
        return self.load(reader.read(self.member))

    def _no_importer(self) -> Importer:
        raise ArchiveError("it needs the source of the program, which the file does not have", self.member)

    def _class(self, qualified: str) -> PickledGlobal:
        return super()._class(qualified) if qualified.startswith(CUSTOM) else _LiteObject(self, qualified)

    def _tagged(self, value: object, text: object) -> Any:
        return value


class _LiteObject(PickledCall):
    """A name for a class of such a file."""

    def __init__(self, objects: _Objects, name: str) -> None:
        super().__init__(self.no_function)
        self.objects = objects
        self.cls = objects.classes.get(name)

    def build(self, state: object) -> LiteModule:
        made = LiteModule(self.cls)
        if self.objects.run_code or "__setstate__" not in self.cls.methods:
            self._set_state(made, state)
        else:
            leave_unset(made, state)
        return made

    def _set_state(self, made: LiteModule, state: object) -> None:
        setter = self.cls.methods.get("__setstate__")
        if setter is not None:
            objects = self.objects
            run = Setter(self.cls.qualified_name, objects.member, objects.allowance, objects.allow).run
            run(setter.code, [made, state])
        elif isinstance(state, dict):
            for name, value in state.items():
                if not isinstance(name, str):
                    raise ArchiveError(f"an attribute of '{self.cls.qualified_name}' has no name", self.objects.member)
                is_parameter = isinstance(value, torch.Tensor) and value.requires_grad
                made.add_slot(name, self.objects.parameter(value) if is_parameter else value)
        else:
            raise ArchiveError(f"the state of an object of '{self.cls.qualified_name}' is no dict", self.objects.member)
