"""Statements of loop IR as machine code, on the memory of tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from jitlite.ir import types as T
from jitlite.kernels import target
from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import DTYPES, Buffer, Nest, Owner, Place, Scalar, Statement
from jitlite.kernels.nests import emit_nest
from jitlite.kernels.reductions import emit_reduce
from jitlite.native import entry
from jitlite.native.code import BAIL_OUT


def place_of(tensor: torch.Tensor, sizes: Sequence[int] | None = None, name: str = "b") -> Place:
    """The memory of a tensor; sizes and strides are numbers."""
    buffer = Buffer(name, DTYPES[tensor.dtype], Owner.ARGUMENT)
    return Place(buffer, 0, tuple(tensor.shape), tuple(tensor.stride()))


class Compiled:
    """A function of pointers and ints."""

    def __init__(
        self,
        statements: Sequence[Statement],
        tensors: Sequence[tuple[Buffer, torch.Tensor]],
        scalars: Sequence[tuple[Scalar, object]] = (),
    ) -> None:
        self.text = written(statements, [b for b, _ in tensors], [s for s, _ in scalars])
        self.keep = [t for _, t in tensors]
        self.engine = engine(self.text)
        kinds = {T.INT: ctypes.c_int64, T.FLOAT: ctypes.c_double, T.BOOL: ctypes.c_bool}
        types = [ctypes.c_void_p] * len(tensors) + [kinds[s.type] for s, _ in scalars]
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self.engine.get_function_address("kernel"))
        arguments = [t.data_ptr() for _, t in tensors] + [v for _, v in scalars]
        self.call = lambda: function(*arguments)

    def run(self) -> bool:
        """False where it gave up."""
        return self.call() == 0


def written(statements, buffers, scalars=()) -> str:
    kc = KernelCode()
    names = {T.INT: "i64", T.FLOAT: "double", T.BOOL: "i1"}
    parameters = [f"ptr %p{i}" for i in range(len(buffers))] + [f"{names[s.type]} %q{i}" for i, s in enumerate(scalars)]
    for i, buffer in enumerate(buffers):
        kc.set_pointer(buffer, f"%p{i}")
    for i, scalar in enumerate(scalars):
        kc.registers[scalar] = f"%q{i}"
    for statement in statements:
        emit_nest(kc, statement) if isinstance(statement, Nest) else emit_reduce(kc, statement)
    code = kc.code
    code.emit("ret i32 0")
    code.label(BAIL_OUT)
    code.emit("ret i32 1")
    head = f"define i32 @kernel({', '.join(parameters)}) {target.attributes()} {{"
    return "\n".join([*sorted(code.declared), *code.helpers, head, *code.slots, *code.lines, "}", ""])


def engine(text: str, pipeline: str = "light"):
    llvm = entry._llvm()
    machine = entry._target_machine()
    module = llvm.parse_assembly(
        f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n' + text
    )
    module.verify()
    builder = llvm.create_pass_builder(machine, entry._tuning(llvm))
    if pipeline == "light":
        manager = llvm.create_new_module_pass_manager()
        manager.add_sroa_pass()
        manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
    else:
        manager = builder.getModulePassManager()
    manager.run(module, builder)
    entry._dispose(manager)
    made = llvm.create_mcjit_compiler(module, machine)
    made.finalize_object()
    return made
