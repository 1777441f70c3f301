"""`load`: a TorchScript archive -> a script module."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection, Sequence
from typing import IO, Any

import torch

from jitlite.archive.alternatives import MEMBER as ALTERNATIVES
from jitlite.archive.alternatives import restore_alternatives
from jitlite.archive.container import ArchiveReader
from jitlite.archive.errors import ArchiveError
from jitlite.archive.save import save_to_buffer
from jitlite.archive.tensor_identity import share_memory, sharing_memory
from jitlite.archive.tensors import Storages
from jitlite.base import options
from jitlite.base.keywords import checks_keywords
from jitlite.compiler import program as compiler
from jitlite.executor.alternatives import LAYOUT_PASSES
from jitlite.ir.values import class_type_of
from jitlite.loading.allowance import Allowance
from jitlite.loading.import_source import Importer
from jitlite.loading.lite import load_lite
from jitlite.loading.loaded_module import UnpickledModule
from jitlite.loading.objects import Objects
from jitlite.loading.traced_inputs import MEMBER as TRACED
from jitlite.loading.traced_inputs import restore_inputs
from jitlite.objects.module import ScriptModule

OLDEST, NEWEST = 1, 10
"""Versions of archives that can be read."""
_VERSIONS = (".data/version", "version")


@checks_keywords
def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: str | torch.device | None = None,
    _extra_files: dict[str, object] | None = None,
    _restore_shapes: bool = False,
    *,
    allow: Collection[str] = (),
    mmap: bool = False,
    run_code: bool = True,
) -> ScriptModule:
    """Read a module that `torch.jit.save` or jitlite has written.

    The archive need not be trusted: only what the format has is read, and nothing of the archive runs, except where a
    class has a `__setstate__` of its own. Methods are compiled when they are first called; operators that touch files,
    processes or networks, and those of libraries other than torch's, are refused then.

    Args:
        f: a path, or a file that is open for reading bytes.
        map_location: the device to put all tensors on; by default the one where they were.
        _extra_files: names of files in the archive; their contents, as bytes, are put in as values. Of a file that is
            not there, it is empty.
        _restore_shapes: of a traced module, read the example inputs too. Views of its graphs (`jitlite.testing`,
            `drop_in`) then show their sizes and dtypes.
        allow: operators such as `torchvision::nms`, or whole libraries such as `torchvision`, that the program may use
            all the same.
        mmap: large tensors lie in the file itself, which `f` is to be the path of, and are read when they are used.
            Writing to them does not change the file. The file must not be changed or cut while they are in use (a new
            file may take its place), and damage of their data goes unnoticed.

    Raises:
        ArchiveError: the file is no TorchScript archive, or damaged, or newer; the error says what to do.
        CompileError: something in its code does not compile.
        OSError: it cannot be opened.
    """
    device = _device(map_location)
    if isinstance(allow, str):
        raise TypeError("allow takes a list of names")
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("mmap=True needs the path of the file")
    with ArchiveReader(f) as reader, compiler.compiling():
        version = version_of(reader)
        if is_lite(reader):
            made: Any = load_lite(reader, version, device, allow, mapped=mmap, run_code=run_code)
        else:
            check_kind(reader)
            loading = _Loading(reader, version, device, allow, mapped=mmap, run_code=run_code)
            made = loading.root(with_inputs=_restore_shapes)
        if _extra_files is not None:
            _read_extra(reader, _extra_files)
        module: ScriptModule = made  # or, of an archive with bytecode alone, a `LiteModule`, which is called likewise
        return module


class LoadedModule(UnpickledModule):
    """A module that was read from an archive."""

    def __reduce_ex__(self, protocol: object) -> Any:
        """The archive that saving the module gives."""
        return as_archive(self)


def as_archive(module: torch.nn.Module) -> tuple[Any, ...]:
    """What a pickle keeps of a module that no Python class is the source of: its archive, and beside it the tensors, so
    that what else holds one of them in the pickle goes on doing so."""
    tensors: list[torch.Tensor] = []
    content = save_to_buffer(module, outside=tensors)
    return read_again, (content, tensors, sharing_memory(tensors))


def read_again(
    content: bytes, tensors: Sequence[torch.Tensor] = (), shared: Sequence[Sequence[torch.Tensor]] = ()
) -> Any:  # fmt: skip
    """The module in the content of an archive.

    Args:
        tensors: those that the archive has numbers for.
        shared: those of them that lay on one storage, for each storage of which this holds.
    """
    for group in shared:
        share_memory(group)
    with ArchiveReader(io.BytesIO(content)) as reader, compiler.compiling():
        return _Loading(reader, version_of(reader), None, (), mapped=False, run_code=True, outside=tensors).root()


def _device(location: object) -> torch.device | None:
    if location is None or isinstance(location, torch.device):
        return location
    if isinstance(location, str):
        return torch.device(location)
    raise ValueError(f"map_location should be None, a str or a torch.device, not {type(location).__name__}")


class _Loading:
    """One archive being read.

    Args:
        outside: tensors that the archive has only the numbers of.
    """

    def __init__(
        self,
        reader: ArchiveReader,
        version: int,
        device: torch.device | None,
        allow: Collection[str],
        *,
        mapped: bool,
        run_code: bool,
        outside: Sequence[torch.Tensor] = (),
    ) -> None:
        self.outside = outside
        self.reader = reader
        self.run_code = run_code
        self.allowance = Allowance(reader.size)
        self.mapped = mapped
        self.device = device
        self.allow = allow
        self.importer = Importer(code_of(reader), version, self.constant, allow)
        self._constants: tuple[object, ...] | None = None

    def root(self, *, with_inputs: bool = False) -> Any:
        """The object that the archive holds; with the inputs that it was traced with, if it has them and they are
        asked for."""
        made = self._unpickled("data")
        self.constants()  # while the file is open
        if with_inputs and f"{TRACED}.pkl" in self.reader:
            restore_inputs(made, self._unpickled(TRACED))
        self._restore_alternatives(made)
        del self.reader  # the program keeps this object for its constants, and shall not keep the file
        return made

    def _restore_alternatives(self, made: object) -> None:
        type = class_type_of(made)
        if ALTERNATIVES in self.reader and type is not None:
            text = self.reader.read(ALTERNATIVES).decode("utf-8", "replace")
            restore_alternatives(text, type, LAYOUT_PASSES)

    def _unpickled(self, name: str) -> Any:
        member = f"{name}.pkl"
        storages = Storages(self.reader, name, self.device, mapped=self.mapped)
        objects = Objects(
            lambda: self.importer,
            storages,
            member,
            self.allow,
            module_class=LoadedModule,
            run_code=self.run_code,
            outside=self.outside,
            allowance=self.allowance,
        )
        return objects.load(self.reader.read(member))

    def constants(self) -> tuple[Any, ...]:
        """The table of constants."""
        if self._constants is None:
            self._constants = ()  # which an object among the constants cannot refer to
            found = self._unpickled("constants")
            if not isinstance(found, tuple):
                raise ArchiveError("the table of constants is no tuple", "constants.pkl")
            self._constants = found
        return self._constants

    def constant(self, number: int) -> Any:
        """An entry of the table of constants.

        Raises:
            ArchiveError: there is no such entry.
        """
        known = self.constants()
        if number >= len(known):
            raise ArchiveError(f"the code uses constant {number}, but there are {len(known)}", "constants.pkl")
        return known[number]


_WORD_BYTES, _LINE_BYTES = 450, 1000
"""About what a word and a statement take."""
_WORD = re.compile(rb"[\w\x80-\xff]+|[^\w\s\x80-\xff]", re.ASCII)


def code_of(reader: ArchiveReader) -> dict[str, bytes]:
    """The files of code and their tables of places. They are read at once, since methods are compiled later.

    Raises:
        ArchiveError: a file is damaged, or all would take far more memory than the archive has bytes.
    """
    found = {}
    for name in reader.names():
        if name.startswith("code/") and name.endswith((".py", ".debug_pkl")):
            try:
                found[name] = reader.read(name)
            except ArchiveError:
                if name.endswith(".py"):  # a damaged table only costs the places that it would have told
                    raise
    _check_size(found, options.current().archive_code_memory + 3 * reader.size)
    return found


def _check_size(files: dict[str, bytes], room: int) -> None:
    """See that what the code becomes when it is read has room."""
    texts = {name: data for name, data in files.items() if name.endswith(".py")}
    if sum(map(len, texts.values())) * _LINE_BYTES <= room:  # however it is written
        return
    for name, data in texts.items():
        room -= _size_as_trees(data)
        if room < 0:
            raise ArchiveError(
                "the code would take far more memory than the file has bytes: refused",
                name,
                hint="if you trust the file, allow it more: options.override(archive_code_memory=...), in bytes",
            )


def _size_as_trees(text: bytes) -> int:
    """About how many bytes a text takes as a syntax tree, which words count for more than letters for."""
    lines = text.count(b"\n") + text.count(b";")
    return sum(1 for _ in _WORD.finditer(text)) * _WORD_BYTES + lines * _LINE_BYTES


# -- what kind of file it is


def version_of(reader: ArchiveReader) -> int:
    name = next((name for name in _VERSIONS if name in reader), None)
    if name is None:
        check_kind(reader)
        raise ArchiveError("the archive has no such member; it says what version the archive is of", "version")
    text = reader.read(name)[:32].decode("ascii", "replace").strip()
    if not (text.isascii() and text.isdigit()):
        raise ArchiveError(f"'{text}' is no version", name)
    version = int(text)
    if version > NEWEST:
        raise ArchiveError(
            f"the archive is of version {version}, and versions up to {NEWEST} are known: a newer PyTorch wrote it",
            name, hint="use a newer jitlite, or write the archive with an older PyTorch",
        )  # fmt: skip
    if version < OLDEST:
        raise ArchiveError(f"the archive is of version {version}, and versions from {OLDEST} on can be read", name)
    return version


_KINDS: tuple[tuple[str, str, str], ...] = (
    ("model.json", "an archive in the first format of torch.jit, which had a model.json",
     "load it with torch.jit.load and save it again"),
    ("bytecode.pkl", "a model of the lite interpreter (.ptl) without its data.pkl", "export it anew"),
    (".data/python_version", "a package of torch.package", "open it with torch.package.PackageImporter"),
    ("archive_format", "a program of torch.export (.pt2)", "read it with torch.export.load"),
    ("serialized_exported_program.json", "a program of torch.export (.pt2)", "read it with torch.export.load"),
    ("data.pkl", "a checkpoint of torch.save, such as a state_dict, which has tensors but no program",
     "read it with torch.load; to get a program, build the model in Python and load the state_dict into it"),
)  # fmt: skip
"""Members, what a file is that has them but not all that an archive has, and what to do."""


def is_lite(reader: ArchiveReader) -> bool:
    """Is it a file of the lite interpreter without source?"""
    return all(n in reader for n in ("bytecode.pkl", "data.pkl")) and not any(
        name.startswith("code/") for name in reader.names()
    )


def check_kind(reader: ArchiveReader) -> None:
    """See that the file has what every archive has.

    Raises:
        ArchiveError: it has not; the error says what the file is.
    """
    has_code = any(name.startswith("code/") for name in reader.names())
    if "data.pkl" in reader and "constants.pkl" in reader and (has_code or "bytecode.pkl" not in reader):
        return
    names = {name.rpartition("/")[2] if name.startswith("/") else name for name in reader.names()}
    if has_code and "model.json" not in names:
        missing = next(name for name in ("data.pkl", "constants.pkl") if name not in reader)
        raise ArchiveError("the archive has no such member; the file was damaged or written incompletely", missing)
    raise _error_for_other_kind(names)


def _error_for_other_kind(names: set[str]) -> ArchiveError:
    for name, what, hint in _KINDS:
        if name in names or any(n.startswith(f"{name}/") for n in names):
            return ArchiveError(f"the file is no TorchScript archive but {what}", hint=hint)
    return ArchiveError("the file is a ZIP file but no TorchScript archive", hint="write one with torch.jit.save")


def _read_extra(reader: ArchiveReader, files: dict[str, object]) -> None:
    for name in files:
        member = f"extra/{name}"
        files[name] = reader.read(member) if member in reader else b""
