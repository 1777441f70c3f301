"""Does with archives what a user would do, watched, in a process of its own.

    python archive_attempts.py ARCHIVES < numbers

Of each archive in the folder of that name it shows what is in it, loads it and compiles all of its methods, and writes
a line of JSON of what came of it. A line with the number alone comes before, so that a crash has a name.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

import jitlite
from jitlite.archive.container import ArchiveReader
from jitlite.archive.listing import describe

SECONDS = 10.0
"""Processor time that an archive may take."""
_MIB = 1 << 20
_ROOM = 2048 * _MIB
"""Address space beyond what is used before the first archive."""


class TooLong(BaseException):
    """An archive took too much processor time."""


# -- what code would do that must not run

_FORBIDDEN = (
    "os.", "subprocess.", "socket.", "shutil.", "tempfile.", "ctypes.dlopen", "pickle.find_class", "ftplib.", "urllib.",
    "http.", "pty.", "webbrowser.", "code.__new__", "function.__new__", "builtins.input", "builtins.breakpoint",
    "setopencodehook", "sqlite3.", "smtplib.", "syslog.", "winreg.", "_posixsubprocess.",
)  # fmt: skip
_HARMLESS = frozenset({"os.listdir", "os.scandir", "os.putenv"})
_watching = False
_seen: list[str] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event in _HARMLESS:
        return
    if event == "open":
        path, mode, flags = arguments
        if (isinstance(mode, str) and set(mode) & set("wax+")) or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _seen.append(f"open for writing: {path!r}")
        elif not (isinstance(path, int) or _is_of_python(os.fsdecode(path))):
            _seen.append(f"open: {path!r}")
    elif event == "exec":
        caller = sys._getframe(1).f_code.co_filename  # the library may make classes; jitlite has nothing to execute
        if not _is_of_python(arguments[0].co_filename) and (caller.startswith(_OWN) or not _is_of_python(caller)):
            _seen.append(f"exec: {arguments[0]!r}")
    elif event == "import":
        top = arguments[0].partition(".")[0]
        if top not in sys.stdlib_module_names and top not in _TOPS:
            _seen.append(f"import: {arguments[0]}")
    elif event.startswith(_FORBIDDEN):
        _seen.append(f"{event}: {str(arguments)[:200]}")


_TOPS = frozenset({"torch", "jitlite", "numpy", "sympy", "networkx", "llvmlite", "mpmath", "torchgen"})
_OWN = os.path.dirname(os.path.realpath(jitlite.__file__))
_ROOTS = tuple(
    os.path.realpath(p)
    for p in (sys.prefix, sys.base_prefix, os.path.dirname(_OWN), os.path.dirname(os.__file__), "/proc")
)


def _is_of_python(path: str) -> bool:
    if path == "<unknown>":  # which Python looks for to show the line of a syntax error
        return True
    return path.startswith("<frozen") or os.path.isabs(path) and os.path.realpath(path).startswith(_ROOTS)


@contextmanager
def _watched() -> Iterator[None]:
    global _watching
    _watching = True
    try:
        yield
    finally:
        _watching = False


# -- memory


def _reset_peak() -> None:
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # the peak is then that of the whole run


def _memory(field: str) -> int:
    """A field of /proc/self/status in bytes; 0 where there is none."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


# -- one archive


def _shown(content: bytes) -> None:
    with ArchiveReader(io.BytesIO(content)) as reader:
        describe(reader)


def _loaded(content: bytes) -> None:
    made = jitlite.load(io.BytesIO(content))
    for module in made.modules() if isinstance(made, torch.nn.Module) else ():
        methods: Any = getattr(module, "_lite_class", None)
        if methods is not None:
            for name in methods.methods:
                str(module.find_method(name).code)
        else:
            _compile(module)


def _compile(module: Any) -> None:
    for name in module._c._method_names():
        try:
            module._c._get_method(name).graph  # noqa: B018 - which compiles it
            _counts["compiled"] += 1
        except EXPECTED as error:
            _counts["not compiled"] += 1
            _check(error)


_counts: Counter[str] = Counter()
"""How often what came of an archive."""
EXPECTED = (jitlite.ArchiveError, jitlite.CompileError)


def _check(error: Exception) -> None:
    """See that an error names the member, or that the file as a whole is what is wrong."""
    text = str(error)
    if isinstance(error, jitlite.ArchiveError):
        if (error.member not in text) if error.member else not text.startswith(("the file", "the archive")):
            _seen.append(f"names no member: {text[:300]}")
    elif "code/" not in text:
        _seen.append(f"names no member: {type(error).__name__}: {text[:300]}")


def _outcome(action: Callable[[bytes], None], content: bytes) -> str | None:
    """What is wrong with what an action did; None if all is as it should be."""
    _seen.clear()
    _counts["tried"] += 1
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with _watched():
            action(content)
        _counts["done"] += 1
    except EXPECTED as error:
        _counts[type(error).__name__] += 1
        _check(error)
    except TooLong:
        return f"took more than {SECONDS} s"
    except BaseException as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
        return "; ".join([f"{type(error).__name__}: {str(error)[:300]}{where}", *_seen[:5]])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "; ".join(_seen[:5]) or None


def attempt(content: bytes) -> dict[str, Any]:
    """What came of an archive: faults, seconds, and bytes of memory at the peak beyond those before."""
    _counts.clear()
    _reset_peak()
    before, start = _memory("VmRSS"), time.process_time()
    faults = [f"{name}: {found}" for name, action in ACTIONS.items() if (found := _outcome(action, content))]
    peak = max(_memory("VmHWM") - before, 0)
    if peak > 3 * len(content) + 200 * _MIB:
        faults.append(f"took {peak / _MIB:.0f} MiB for a file of {len(content)} bytes")
    return {"faults": faults, "seconds": time.process_time() - start, "peak": peak, "counts": _counts}


ACTIONS: dict[str, Callable[[bytes], None]] = {"show": _shown, "load": _loaded}


def main(folder: str) -> None:
    """Try the archives whose names come in, one a line."""
    root = pathlib.Path(folder)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for path in sorted(root.glob("good-*")):
        assert attempt(path.read_bytes())["faults"] == [], path
    sys.addaudithook(_hook)

    def stop(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + _ROOM or resource.RLIM_INFINITY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        name = line.strip()
        print(json.dumps({"begun": name}), flush=True)
        content = (root / name).read_bytes()
        print(json.dumps({"name": name, **attempt(content)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
