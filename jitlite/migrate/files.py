"""Files and folders to rewrite. A file is written whole or not at all."""

from __future__ import annotations

import ast
import gc
import importlib
import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from jitlite.migrate.findings import Migration, MigrationFinding, MigrationKind

_SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
_SUFFIXES = {".py", ".pyi"}
_NOTEBOOK = ".ipynb"
_DEEPEST = 10_000
"""Python frames that rewriting may nest."""

Rewrite = Callable[[bytes, str, Collection[str], bool], Migration]


class MissingLibrary(Exception):
    """What rewrites Python is not installed."""


def rewriter() -> Rewrite:
    """What rewrites one file: `migrate_source`.

    Raises:
        MissingLibrary: without LibCST, which only this command needs.
    """
    try:
        return cast(Rewrite, importlib.import_module("jitlite.migrate.rewrite").migrate_source)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "libcst":
            raise
        raise MissingLibrary("migrate needs LibCST, which keeps the layout of the code it changes") from error


def find_files(paths: Iterable[str]) -> Iterator[Path]:
    """The files named, and the Python files of the folders named, each once.

    Folders that are hidden, or of installed packages or builds, are left out unless they are named.

    Raises:
        FileNotFoundError: where there is no such file or folder.
        OSError: where a folder cannot be listed.
    """
    seen: set[Path] = set()
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder '{path}'")
        if not path.is_dir() and not path.is_file():
            raise FileNotFoundError(f"'{path}' is no file")
        for file in _within(path) if path.is_dir() else [path]:
            if (real := file.resolve()) not in seen:
                seen.add(real)
                yield file


def _within(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in _SKIPPED and not f.endswith(".egg-info")
        )
        found = (Path(parent, f) for f in sorted(files) if Path(f).suffix in _SUFFIXES | {_NOTEBOOK})
        yield from (file for file in found if file.is_file())  # not a pipe, nor a link that leads nowhere


def migrate_file(
    path: Path, rewrite: Rewrite, available: Collection[str], marks: bool = False, *, is_named: bool = False
) -> Migration:
    """Say what a file should become; nothing is written.

    Args:
        is_named: did the user name it? Then it has to be Python; of the files of a folder, only those that may use
            torch.jit have to.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        return Migration(str(path), b"", b"", error=f"it cannot be read: {error.strerror}")
    if path.suffix == _NOTEBOOK:
        uses = b"torch.jit" in source or b"import jit" in source
        left = MigrationFinding(1, 1, MigrationKind.LEFT, "torch.jit", "it is a notebook; save its code as a .py file")
        return Migration(str(path), source, source, (left,) if uses else ())
    if is_named and b"jit" not in source:
        return Migration(str(path), source, source, error=_syntax_error(source))
    return _migrate_source(source, str(path), rewrite, available, marks)


def _migrate_source(source: bytes, path: str, rewrite: Rewrite, available: Collection[str], marks: bool) -> Migration:
    try:
        if b"jit" in source and _is_too_deep(source):
            raise RecursionError
        with _room():
            return rewrite(source, path, available, marks)
    except RecursionError:
        return Migration(path, source, source, error="it is nested too deeply")


@contextmanager
def _room() -> Iterator[None]:
    """Let trees be deep, as those of long sums and many branches are; collecting garbage meanwhile finds none."""
    limit, collecting = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, _DEEPEST))
    gc.disable()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()


def _is_too_deep(source: bytes) -> bool:
    """Does Python itself refuse how deep it is nested? LibCST would crash."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except SyntaxError as error:  # it may also be of a later Python than this
            return error.msg.startswith("too many")  # nested parentheses, or levels of indentation
        except (MemoryError, RecursionError):
            return True
        except ValueError:  # a null byte
            return False
    return False


def _syntax_error(source: bytes) -> str:
    """Why it is no Python, in one line; empty where it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except SyntaxError as error:
            return f"it is not Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg} (line {error.lineno})"
        except (MemoryError, RecursionError):
            return "it is nested too deeply"
        except ValueError as error:  # a null byte
            return f"it is not Python: {error}"
    return ""


def write(migration: Migration) -> None:
    """Put what a file has become in its place.

    The new text is written beside it and takes its place when it is complete, with the same permissions.

    Raises:
        OSError: where that is not possible; then the file is as it was. Also where it has changed meanwhile, or is
            marked as read-only.
    """
    path = Path(migration.path).resolve()
    if not path.stat().st_mode & stat.S_IWUSR:
        raise OSError(f"'{migration.path}' is read-only")
    if path.read_bytes() != migration.before:
        raise OSError(f"'{migration.path}' has changed meanwhile; run the command again")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(migration.after)
        os.chmod(name, stat.S_IMODE(path.stat().st_mode))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
