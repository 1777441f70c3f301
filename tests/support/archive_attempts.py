"""Does with archives what a user would do, watched, in a process of its own.

    python archive_attempts.py ARCHIVES < numbers

Of each archive in the folder of that name it shows what is in it, loads it and compiles all of its methods, converts it
and calls it, and writes a line of JSON of what came of it. A line with the number alone comes before, so that a crash
has a name.
"""

from __future__ import annotations

import argparse
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
from jitlite.cli.archives import VIEWS, overview
from jitlite.loading.listing import describe
from jitlite.loading.unset import unset_objects

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
_CALLS = "generated/operator.py"
"""Ways to call operators, which are made of nothing that archives hold: what runs at load calls operators."""
_RAISES = compile("raise error", "", "exec").co_code
"""What shows a line of a script in a traceback: it raises what was raised there, and does nothing else."""
_watching = False
_calling = False
"""May functions run for which Python code is generated?"""
_seen: list[str] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event in _HARMLESS:
        return
    if event == "code.__new__" and arguments[0] == _RAISES:
        return  # a line of the script in a traceback
    if event == "open":
        path, mode, flags = arguments
        if (isinstance(mode, str) and set(mode) & set("wax+")) or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _seen.append(f"open for writing: {path!r}")
        elif not (isinstance(path, int) or _is_of_python(os.fsdecode(path))):
            _seen.append(f"open: {path!r}")
    elif event == "exec":
        caller = sys._getframe(1).f_code.co_filename  # the library may make classes; jitlite runs what it generates
        file = arguments[0].co_filename
        if file == _CALLS or (file.startswith("generated/") and _calling):
            return
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
def _watched(action: Callable[[bytes], None]) -> Iterator[None]:
    global _watching, _calling
    _watching, _calling = True, action in (_run, _exported)
    try:
        yield
    finally:
        _watching = _calling = False


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


_OPTIONS = argparse.Namespace(target="m.pt", json=False, stats=True, allow=[])


def _shown(content: bytes) -> None:
    with ArchiveReader(io.BytesIO(content)) as reader:
        listing = describe(reader)
        for view in (overview, *VIEWS.values()):
            text, data = view(reader, listing, _OPTIONS)
            json.dumps(data)
            assert len(text) < 100 * len(content) + _MIB


def _read(content: bytes) -> None:
    """Read without running code; what has no state says so."""
    made = jitlite.load(io.BytesIO(content), run_code=False)
    for each in unset_objects(made):
        assert each.__raw_state__ is not Ellipsis


def _converted(content: bytes) -> None:
    made = jitlite.load(io.BytesIO(content), run_code=False)
    if any(unset_objects(made)):
        made = jitlite.load(io.BytesIO(content))
    if not isinstance(made, torch.nn.Module) or hasattr(made, "_lite_class"):
        return
    for convert in (jitlite.to_python, jitlite.to_fx):
        try:
            convert(made)
            _counts["converted"] += 1
        except EXPECTED:  # which names the attribute, where it is about no line
            _counts["not converted"] += 1


def _exported(content: bytes) -> None:
    made = jitlite.load(io.BytesIO(content))
    try:
        jitlite.to_exported(made, (torch.ones(2),))
        _counts["exported"] += 1
    except EXPECTED:
        pass
    except Exception as error:  # what the program raises for such an input, or torch.export says
        _note_internal(error)


def _run(content: bytes) -> None:
    """Call it: what comes is a result, or an exception as Python or torch raises it."""
    made = jitlite.load(io.BytesIO(content))
    try:
        with torch.no_grad():
            made(torch.ones(2))
        _counts["run"] += 1
    except EXPECTED as error:
        _check(error)
    except Exception as error:
        _note_internal(error)


_INTERNAL = (AssertionError, NameError, SyntaxError, SystemError, ImportError)


def _note_internal(error: Exception) -> None:
    if isinstance(error, _INTERNAL) and "Unwrapping null" not in str(error):
        _seen.append(f"{type(error).__name__}: {str(error)[:300]}")


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
        with _watched(action):
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


def attempt(content: bytes, name: str = "") -> dict[str, Any]:
    """What came of an archive: faults, seconds, and bytes of memory at the peak beyond those before."""
    _counts.clear()
    _reset_peak()
    before, start = _memory("VmRSS"), time.process_time()
    faults = [f"{name}: {found}" for name, action in actions_for(name).items() if (found := _outcome(action, content))]
    peak = max(_memory("VmHWM") - before, 0)
    if peak > 3 * len(content) + 200 * _MIB:
        faults.append(f"took {peak / _MIB:.0f} MiB for a file of {len(content)} bytes")
    return {"faults": faults, "seconds": time.process_time() - start, "peak": peak, "counts": _counts}


ACTIONS: dict[str, Callable[[bytes], None]] = {"show": _shown, "read": _read, "load": _loaded, "convert": _converted}
"""What is done with each archive."""
OF_ONE_OPERATOR: dict[str, Callable[[bytes], None]] = {"run": _run}
"""What is done besides with those whose name begins with `one`, which have a single operator to call."""
NOW_AND_THEN: dict[str, Callable[[bytes], None]] = {"export": _exported}
"""What is done with one of 25 of these, as it takes a second."""


def actions_for(name: str) -> dict[str, Callable[[bytes], None]]:
    """What is done with an archive of this name."""
    if not name.startswith("one"):
        return ACTIONS
    number = name.rpartition("-")[2]
    exports = number.isdigit() and int(number) % 25 == 0
    return {**ACTIONS, **OF_ONE_OPERATOR, **(NOW_AND_THEN if exports else {})}


def main(folder: str) -> None:
    """Try the archives whose names come in, one a line."""
    root = pathlib.Path(folder)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for path in sorted(root.glob("good-*")):
        assert attempt(path.read_bytes(), path.name.removeprefix("good-") + "-0")["faults"] == [], path
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
        print(json.dumps({"name": name, **attempt(content, name)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
