"""Script functions and modules -> archives that libtorch, and jitlite, can load."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import torch

from jitlite.archive.alternatives import MEMBER as ALTERNATIVES
from jitlite.archive.alternatives import alternatives_text
from jitlite.archive.pickling import ValuePickler, storage_bytes
from jitlite.archive.write_ranges import RangeTags, pickled_ranges
from jitlite.archive.write_zip import ArchiveWriter
from jitlite.base.whole_files import replacing
from jitlite.codegen.torchscript.constants_out import ConstantTable
from jitlite.codegen.torchscript.declarations_out import write_declaration
from jitlite.codegen.torchscript.source_out import OLDEST_VERSION, Dependencies, SourceFile
from jitlite.codegen.torchscript.type_names import BOUND_CLASSES, TypeNames
from jitlite.ir import types as T
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.types import ClassType, Type
from jitlite.ir.unit import Function
from jitlite.ir.values import CLASS_TYPE, TRACED_INPUTS, class_type_of

ExtraFiles = Mapping[str, "str | bytes"]

_HIDDEN_VERSION = 6
"""Since this version, the number has another place: readers that are too old are to fail at once."""
_PLACEHOLDER = "__torch__.PlaceholderModule"
"""The class of the module that a function is the `forward` of."""


class MissingFolderError(FileNotFoundError, RuntimeError):
    """The folder of a file to save does not exist. torch.jit raises a RuntimeError."""


class _Archive:
    """What is put into one archive.

    Args:
        outside: the list that gets the tensors of the module, where the archive is to have numbers for them.
    """

    def __init__(self, writer: ArchiveWriter, outside: list[torch.Tensor] | None = None) -> None:
        self.writer = writer
        self.outside = outside
        self.names = TypeNames()
        self.table = ConstantTable()
        self.dependencies = Dependencies()
        self.files: dict[str, SourceFile] = {}
        self._declared: set[object] = set()

    def write(self, root: object, extra_files: ExtraFiles) -> None:
        """Write a module and all that belongs to it."""
        for name, content in extra_files.items():
            self.writer.write(f"extra/{name}", _extra_bytes(name, content))
        type = class_type_of(root)
        assert type is not None
        self.pickle("data", root, type)
        self.declare_all(type)
        self.write_sources()
        self.pickle_constants()
        self.pickle_traced_inputs(root)
        self.declare_all(type)  # objects among the constants and inputs
        version = max([OLDEST_VERSION, *(file.version for file in self.files.values())])
        self.writer.write(".data/version" if version >= _HIDDEN_VERSION else "version", f"{version}\n".encode())
        asked = alternatives_text(type)
        if asked:
            self.writer.write(ALTERNATIVES, asked.encode())
        self.writer.write("byteorder", sys.byteorder.encode())
        self.writer.write_serialization_id()

    def pickle(self, name: str, value: object, type: Type) -> None:
        """Write `name.pkl` and the storages of its tensors."""
        is_data = name == "data"
        pickler = ValuePickler(self.names, "the module" if is_data else "a constant", self.outside if is_data else None)
        pickler.value(value, type)
        self.finish(name, pickler)

    def finish(self, name: str, pickler: ValuePickler) -> None:
        for record, tensor in pickler.storages:
            with storage_bytes(tensor) as data:
                self.writer.write(f"{name}/{record}", data)
        self.writer.write(f"{name}.pkl", pickler.stream.finish())
        for found in pickler.classes:
            self.declare(found)

    # -- code
    def declare_all(self, root: ClassType) -> None:
        """Write what the source mentions, and what that mentions."""
        self.dependencies.add(root)
        done = 0
        while done < len(self.dependencies.found):
            for named in list(self.dependencies.found)[done:]:
                done += 1
                self.declare(named)

    def declare(self, named: object) -> None:
        """Write the declaration of a class, function or the like, once."""
        if named in self._declared:
            return
        self._declared.add(named)
        name = self.names.name(named)
        if name.startswith(BOUND_CLASSES):
            return
        prefix = name.rpartition(".")[0]
        file = self.files.get(prefix)
        if file is None:
            is_ours = self.outside is not None
            file = self.files[prefix] = SourceFile(self.names, self.table, self.dependencies, is_ours=is_ours)
        write_declaration(file, named)

    def write_sources(self) -> None:
        """Write `code/`."""
        tags = RangeTags()
        for prefix, file in self.files.items():
            path = f"code/{prefix.replace('.', '/')}.py"
            self.writer.write(path, str(file).encode(), compress=True)
            self.writer.write(f"{path}.debug_pkl", pickled_ranges(file.lines.records, tags), compress=True)

    def pickle_constants(self) -> None:
        """Write `constants.pkl`."""
        values = tuple(value for value, _ in self.table.values)
        self.pickle("constants", values, T.TupleType.of(t for _, t in self.table.values))

    def pickle_traced_inputs(self, root: object) -> None:
        """Write `traced_inputs.pkl` for a traced module that keeps its example inputs."""
        stored = vars(root).get(TRACED_INPUTS)
        if stored:
            self.pickle("traced_inputs", stored, T.DictType.of(T.STRING, T.ListType.of(T.ANY)))


def _extra_bytes(name: str, content: object) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"extra file '{name}' is to be text or bytes, not {type(content).__name__}")


# -- what can be saved


class _Placeholder:
    """The module that a function is saved in."""

    training = True

    def __init__(self, function: Function) -> None:
        type = ClassType.new(_PLACEHOLDER, None, is_module=True)
        type.attributes["training"] = T.BOOL
        graph = function.graph.copy()
        graph.block.insert_input(0, type, "self")
        schema = function.schema
        arguments = [Argument("self", type), *schema.arguments]
        type.methods["forward"] = Function(
            "forward",
            qualified_name=f"{_PLACEHOLDER}.forward",
            schema=function_schema("forward", arguments, [r.type for r in schema.returns]),
            graph=graph,
            range=function.range,
        )
        setattr(self, CLASS_TYPE, type)


def save_to_buffer(
    root: object,
    extra_files: ExtraFiles | None = None,
    *,
    folder: str = "archive",
    outside: list[torch.Tensor] | None = None,
) -> bytes:
    """The bytes of the archive of a script module, or of a compiled `Function`.

    Args:
        extra_files: further members by name.
        folder: the folder of the archive that all members are in.
        outside: a list that gets the tensors of the module. The archive then has only their numbers in this list, and
            only `load.read_again` reads it.

    Raises:
        NotSupportedError: where something in it has no place in an archive; the error names it.
    """
    buffer = io.BytesIO()
    _write_archive(buffer, root, extra_files or {}, folder, outside)
    return buffer.getvalue()


def save_to_file(root: object, path: str | os.PathLike[str], extra_files: ExtraFiles | None = None) -> None:
    """Write an archive to a file. A file of that name stays as it is until the new one is complete.

    Raises:
        NotSupportedError: where something in it has no place in an archive; the error names it.
        MissingFolderError: where the folder of the file does not exist.
        OSError: where the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise MissingFolderError(f"Parent directory {target.parent} does not exist.")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with open(target, "wb") as device:
            device.write(save_to_buffer(root, extra_files, folder=_folder_of(target)))
        return
    with replacing(target) as temporary, open(temporary, "x+b") as file:
        _write_archive(file, root, extra_files or {}, _folder_of(Path(path)))


def _write_archive(
    file: BinaryIO, root: object, extra_files: ExtraFiles, folder: str, outside: list[torch.Tensor] | None = None
) -> None:
    writer = ArchiveWriter(file, folder)
    try:
        _Archive(writer, outside).write(_Placeholder(root) if isinstance(root, Function) else root, extra_files)
    finally:
        writer.close()


def _folder_of(path: Path) -> str:
    return path.stem or "archive"
