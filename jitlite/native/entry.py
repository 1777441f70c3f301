"""From the text of a function to a callable: llvmlite, and the object that Python calls.

llvmlite is imported when the first function is compiled. That one also makes sure that this Python is as we take it to
be (`_self_test`): if anything is not, nothing is ever compiled.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import itertools
import math
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from jitlite.base.disk import disk, key_of, name_of, symbolic
from jitlite.base.locks import Lock
from jitlite.base.records import Record
from jitlite.native.boxing import CLASS_OFFSET
from jitlite.native.capi import MATHEMATICS, address
from jitlite.native.code import RAISED, LLVMBuilder, NotNative
from jitlite.native.emit import ENTRY, emit
from jitlite.native.regions import NativeRegion

Entry = Callable[..., Any]
Made = TypeVar("Made")

FASTCALL = 0x0080
"""`METH_FASTCALL` of Python's headers."""


class Method(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class MachineCode:
    """The machine code of one region. It is freed with this object, which its entry keeps alive.

    Attributes:
        counters: how often it was done, and how often it bailed out.
        address: where the entry is, once there is one.
        is_plain: is the text as good as it gets, but for slots that are to become registers?
        is_quick: was it generated in a quarter of the time, to be `improve`d?
        kept: what the code knows by address. It must not know the entry: the two would be freed in any order.
    """

    def __init__(self, name: str, region: NativeRegion | None = None, *, is_plain: bool = False) -> None:
        self.counters = (ctypes.c_int64 * 2)()
        self.name = name
        self.region = region  # the code knows addresses of its constants
        self.address = 0
        self.is_plain = is_plain
        self.is_quick = False
        self.kept: object = None
        self._engines: list[Any] = []
        self._method: Method | None = None

    def load(self, text: str, *, quickly: bool = False) -> Entry:
        """Compile a module; gives its entry.

        Args:
            quickly: let large modules be `is_quick`.

        Raises:
            Exception: whatever llvmlite raises.
        """
        quickly = quickly and self.is_plain and len(text) >= _LARGE
        address, self.is_quick = self._compiled(text, quickly)
        self._method = Method(self.name.encode(), address, FASTCALL, None)
        return builtin(self._method, self)

    def improve(self, text: str) -> None:
        """Compile the module that was compiled quickly once more. Calls that begin after this run the better code.

        Raises:
            Exception: whatever llvmlite raises.
        """
        assert self._method is not None, "it has been loaded"
        address, is_quick = self._compiled(text)
        self._method.function = address  # what Python reads at each call
        self.is_quick = is_quick  # last: whoever sees it expects the better code

    def compile(self, text: str) -> int:
        """Compile a module; gives the address of its entry.

        Raises:
            Exception: whatever llvmlite raises.
        """
        address, self.is_quick = self._compiled(text)
        return address

    def _compiled(self, text: str, quickly: bool = False) -> tuple[int, bool]:
        engine, is_quick = _engine_of(text, is_plain=self.is_plain, quickly=quickly)
        self._engines.append(engine)  # beside another one, which a call on another thread may be in
        self.address = int(engine.get_function_address(ENTRY))
        return self.address, is_quick


_LARGE = 30_000
"""Characters of a module from which on there is quick code first: the better takes some 50 milliseconds more."""


_METHODS: dict[int, Method] = {}
"""All that were ever used, some hundred bytes each: Python reads one while it frees the object of it, whatever else has
been freed with it before."""


def builtin(method: Method, bound: object) -> Entry:
    """The object that Python calls; the function is handed `bound`, which lives as long."""
    _METHODS[id(method)] = method
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.POINTER(Method), ctypes.py_object, ctypes.c_void_p)
    made: Entry = make(ctypes.byref(method), bound, None)
    return made


def _engine_of(text: str, *, is_plain: bool, quickly: bool = False) -> tuple[Any, bool]:
    """What holds the machine code of a module, and whether that is quick code. It comes from disk if it is there."""
    llvm = _llvm()
    machine = _target_machine()
    named, addresses = symbolic(text)
    kept = disk()
    key = "" if kept is None else key_of(named, str(is_plain), *_versions(llvm, machine))
    found = None if kept is None else kept.read(key)
    is_quick = quickly and found is None
    if is_quick:
        kept, machine = None, _target_machine(is_quick=True)
    module = llvm.parse_assembly("") if found is not None else _optimized(llvm, machine, named, is_plain, is_quick)
    engine = llvm.create_mcjit_compiler(module, machine)
    made: list[bytes] = []
    read = [] if found is None else [found]  # the engine keeps the functions, so they keep little
    engine.set_object_cache(lambda module, code: made.append(code), lambda module: read.pop() if read else None)
    for number, place in enumerate(addresses):
        llvm.add_symbol(name_of(number), place)
    engine.finalize_object()
    if kept is not None and made:
        kept.write(key, made.pop())
    made.clear()
    return engine, is_quick


def _versions(llvm: Any, machine: Any) -> list[str]:
    """All that machine code depends on, beside its text."""
    versions = [str(importlib.import_module(package).__version__) for package in ("jitlite", "llvmlite")]
    host = _host()
    return [*versions, str(llvm.llvm_version_info), machine.triple, host.name, host.features, *_TUNING]


def _optimized(llvm: Any, machine: Any, text: str, is_plain: bool, is_quick: bool = False) -> Any:
    """The module of a text, after the passes of LLVM; for quick code, after one that takes little time."""
    layout = f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'
    module = llvm.parse_assembly(layout + text)
    module.verify()
    passes = llvm.create_pass_builder(machine, _tuning(llvm))
    manager = _few_passes(llvm, is_quick) if is_plain else passes.getModulePassManager()
    manager.run(module, passes)
    _dispose(manager)
    return module


_compiling = Lock("native", reentrant=True)
"""Held while compiling. A process is not forked meanwhile: in the child, llvmlite's own lock would stay locked."""

_loaded: object = None
_is_refused = False
_failure = ""
"""Why the last attempt failed that did."""


def is_loaded() -> bool:
    """Has llvmlite been imported?"""
    return _loaded is not None or "llvmlite.binding" in sys.modules


def _llvm() -> Any:
    global _loaded
    if _loaded is None:
        _load_library()
        llvm = importlib.import_module("llvmlite.binding")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _loaded = llvm
    return _loaded


def _load_library() -> None:
    """Load LLVM, 100 MB, so that importing llvmlite finds it loaded: an import holds the interpreter all the while, and
    a C function that Python calls does not."""
    with suppress(Exception):
        spec = importlib.util.find_spec("llvmlite")
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            library = os.path.join(place, "binding", "libllvmlite.so")
            if os.path.exists(library):
                load = ctypes.CDLL(None).dlopen
                load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
                load(library.encode(), os.RTLD_NOW)


class _Host(Record):
    """This machine, as LLVM calls it. LLVM is asked once: each question gives the interpreter up to a caller.

    Attributes:
        target: what makes machines.
        name: of the processor.
        features: of the processor.
    """

    target: Any
    name: str
    features: str


@functools.cache
def _host() -> _Host:
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return _Host(target, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def _target_machine(*, is_quick: bool = False) -> Any:
    """A machine to compile for; an engine keeps its own.

    Quick code takes two to six times as long to run. It computes the same: instructions are chosen and ordered in
    another way, and no operation on numbers is exchanged for another.
    """
    host, level = _host(), 0 if is_quick else 1
    return host.target.create_target_machine(cpu=host.name, features=host.features, opt=level, codemodel="jitdefault")


def _tuning(llvm: Any) -> Any:
    """Loops that may bail out in every iteration gain nothing from being unrolled or vectorized, which takes time."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    for name in _TUNING:
        setattr(tuning, name, False)
    return tuning


_TUNING = ("loop_vectorization", "slp_vectorization", "loop_unrolling", "loop_interleaving")


def _few_passes(llvm: Any, is_quick: bool) -> Any:
    """Loops over vectors are written as they are to run. All passes would take ten times as long, for nothing, and the
    second of these takes longer than all of quick code's instructions."""
    manager = llvm.create_new_module_pass_manager()
    for name in ("sroa",) if is_quick else ("sroa", "instruction_combine", "simplify_cfg"):
        getattr(manager, f"add_{name}_pass")()
    return manager


def _dispose(manager: Any) -> None:
    """Give back the memory of a pass manager, 60 kB, which llvmlite (0.45 to 0.50) leaves to nobody.

    Managers of passes are the only objects of llvmlite without `_dispose`; the C function for it is there. Where it is
    not, or llvmlite frees them itself, nothing is done.
    """
    ffi = getattr(_llvm(), "ffi", None)
    dispose = getattr(getattr(ffi, "lib", None), _DISPOSE, None)
    base = getattr(getattr(ffi, "ObjectRef", None), "_dispose", None)
    if dispose is None or getattr(type(manager), "_dispose", base) is not base:
        return
    with suppress(Exception):
        pointer = getattr(manager, "_as_parameter_", manager)
        manager.detach()  # whatever becomes of the object, it does not give the memory back a second time
        dispose(pointer)


_DISPOSE = "LLVMPY_DisposeNewModulePassManger"
"""As llvmlite spells it."""


def compile_region(region: NativeRegion, name: str) -> tuple[Entry, MachineCode] | None:
    """What runs a region: takes its inputs; gives its outputs, or None if it bails out. None if there can be none."""
    if not is_ready():
        return None
    machine = MachineCode(name, region)
    with _compiling, suppress(RecursionError):
        entry = compile_text(machine, emit(region, ctypes.addressof(machine.counters)))
        return None if entry is None else (entry, machine)
    return None


def is_ready() -> bool:
    """Can there be machine code? The first time, llvmlite is imported, and Python is looked at."""
    global _is_refused, _failure
    if not _has_been_tried and not _is_refused:
        with _compiling:
            try:
                if not _has_been_tried:
                    _self_test()
            except (RecursionError, MemoryError):  # says nothing about the next time
                return False
            except Exception as error:  # no llvmlite, one that does not work, a Python of another kind: Python goes on
                _is_refused = True
                _failure = f"{type(error).__name__}: {error}"
    return not _is_refused


def compile_text(machine: MachineCode, text: str, *, quickly: bool = False) -> Entry | None:
    """Have machine code of a module's text; gives its entry, or None if LLVM cannot make it."""
    with _compiling, suppress(Exception):
        return machine.load(text, quickly=quickly)
    return None


def improve(machine: MachineCode, text: str) -> None:
    """Have better machine code of a module's text that was compiled quickly, if LLVM can make it."""
    with _compiling, suppress(Exception):
        machine.improve(text)
    machine.is_quick = False  # there is none better, if that failed


def assembly_of(text: str, *, is_plain: bool) -> str:
    """What a module's text becomes, in the processor's language.

    Args:
        is_plain: as `MachineCode.is_plain`.

    Raises:
        Exception: whatever llvmlite raises.
    """
    with _compiling:
        llvm = _llvm()
        machine = _target_machine()
        found: str = machine.emit_assembly(_optimized(llvm, machine, text, is_plain))
    return found


def compiled(make: Callable[[], Made]) -> Made | None:
    """What `make` makes of machine code; None where it cannot. No two threads are at it at a time."""
    global _failure
    if not is_ready():
        return None
    with _compiling:
        try:
            return make()
        except (RecursionError, MemoryError):  # says nothing about the next one
            return None
        except Exception as error:
            _failure = f"{type(error).__name__}: {error}"
            return None


def why_not(make: Callable[[], object]) -> str:
    """What is in the way of machine code, for those who look; "" where nothing is. `make` makes some."""
    return "" if compiled(make) else _failure or "there was no memory"


_functions: dict[str, tuple[Any, int]] = {}
"""By its text, what holds the machine code of a function that all kernels call, and where it is. There are few."""


def address_of(name: str, text: str) -> int:
    """Where a function is, which is compiled the first time, and stays as long as the process runs.

    Args:
        name: without "@".
        text: of a module with this function, and those that only it calls. It calls others by address.

    Raises:
        NotNative: where LLVM cannot make it.
    """
    with _compiling:
        found = _functions.get(text)
        if found is None:
            try:
                engine, _ = _engine_of(text, is_plain=True)
                found = _functions[text] = engine, engine.get_function_address(name)
            except Exception as error:
                raise NotNative(f"there is no machine code for {name}: {error}") from error
        return found[1]


# -- is Python as we take it to be?

_has_been_tried = False


def _self_test() -> None:
    """Compile and call a function that takes apart and makes objects, and try C's mathematics.

    Raises:
        OSError: where something is not as expected.
    """
    global _has_been_tried
    if sys.implementation.name != "cpython" or object.__basicsize__ != CLASS_OFFSET + ctypes.sizeof(ctypes.c_void_p):
        raise OSError("objects are laid out in another way here")
    code = LLVMBuilder()
    first = code.load("ptr", "%args")
    held = code.load("ptr", code.value(f"getelementptr i8, ptr {first}, i64 {CLASS_OFFSET}"))
    code.call("void", "Py_IncRef", "ptr", held)
    code.emit(f"ret ptr {held}")
    code.label(RAISED)
    code.emit("ret ptr null")
    text = f"define ptr @{ENTRY}(ptr %self, ptr %args, i64 %count) {{\n" + "\n".join(code.lines) + "\n}\n"
    entry = MachineCode("self_test").load(text)
    objects: tuple[object, ...] = (1, 1.5, True, [], None)
    if any(entry(value) is not type(value) for value in objects):
        raise OSError("objects do not say their class where expected")
    for name in MATHEMATICS:
        _try_mathematics(name)
    _has_been_tried = True


def _try_mathematics(name: str) -> None:
    count = 2 if name in ("pow", "fmod") else 1
    function = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * count)(address(name))
    for operands in itertools.product((0.3, 0.9999, 1.7, 23.45), repeat=count):
        try:
            wanted = getattr(math, name)(*operands)
        except ValueError:
            continue
        if struct.pack("d", wanted) != struct.pack("d", function(*operands)):
            raise OSError(f"C's {name} is not the one that Python uses")
