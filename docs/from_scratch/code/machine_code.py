"""Text in LLVM's language becomes a function that Python can call.

Chapter 8 explains it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm

TYPES = {"Tensor": ctypes.c_void_p, "int": ctypes.c_double, "float": ctypes.c_double}
"""How a value is passed: a tensor by the address of its elements, a number as a double."""


class MachineCode:
    """A function `kernel` that takes a count and then its operands, as machine code."""

    def __init__(self, text: str, types: Sequence[str]) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=3)
        module = llvm.parse_assembly(text)
        module.verify()
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
        passes.getModulePassManager().run(module, passes)
        self.assembly = machine.emit_assembly(module)
        self._engine = llvm.create_mcjit_compiler(module, machine)  # it owns the code: it has to live as long as we do
        self._engine.finalize_object()
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *(TYPES[type_] for type_ in types))
        self.call: Callable[..., None] = prototype(self._engine.get_function_address("kernel"))
