"""Kernels that are machine code, one for each kind of arguments that a region has met."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from jitlite.ir.graph import Value
from jitlite.kernels.emit import DONE, GAVE_UP, MISSED, NEXT, emit
from jitlite.kernels.facts import Fact
from jitlite.kernels.large_memory import hold_freed_memory
from jitlite.kernels.loop_ir import Kernel
from jitlite.native.entry import Entry, MachineCode, assembly_of, compile_text, improve, is_ready


class CompiledKernel:
    """The machine code of one kernel.

    Attributes:
        facts: what arguments it is for.
        kernel: what it computes.
        entry: takes the arguments; gives the outputs, or None where it cannot.
        text: the module, in LLVM's language.
        may_be_unset: the values of the graph that may come from `prim::Uninitialized`.
    """

    def __init__(self, facts: Sequence[Fact], kernel: Kernel, may_be_unset: frozenset[Value] = frozenset()) -> None:
        self.facts = tuple(facts)
        self.kernel = kernel
        self.text = ""
        self._cells = (ctypes.c_int64 * 4)()
        self._machine = MachineCode(kernel.name, is_plain=True)
        self.may_be_unset = may_be_unset
        self._kept: list[object] = [kernel]
        self._asked_by: CompiledKernel | None = None
        self.entry: Entry | None = None

    def compile(self, *, quickly: bool = False) -> bool:
        """Become machine code; False where there can be none.

        Args:
            quickly: large kernels become code that can be improved.

        Raises:
            NotNative: where there is none for something in the kernel.
        """
        if not is_ready():
            return False
        hold_freed_memory()
        self.text, kept = emit(self.kernel, ctypes.addressof(self._cells), self.may_be_unset)
        self._kept += kept
        self.entry = compile_text(self._machine, self.text, quickly=quickly)
        if self.entry is not None:
            # the entry keeps the machine code alive, and that what it knows by address; nothing of that knows the entry
            self._machine.kept = (self._cells, self._kept)
        return self.entry is not None

    @property
    def is_quick(self) -> bool:
        """Was it compiled quickly, and not been improved?"""
        return self._machine.is_quick

    def improve(self) -> None:
        """Have the better code, whoever calls the entry."""
        improve(self._machine, self.text)
        if self._asked_by is not None:
            self._asked_by._cells[NEXT] = self._machine.address

    def ask_next(self, other: CompiledKernel) -> None:
        """Have another kernel asked where the facts of this one do not hold."""
        self._kept.append(other._machine)
        self._cells[NEXT] = other._machine.address
        other._asked_by = self

    @property
    def runs(self) -> int:
        """How often it was done."""
        return int(self._cells[DONE])

    @property
    def bailouts(self) -> int:
        """How often it gave up."""
        return int(self._cells[GAVE_UP])

    @property
    def misses(self) -> int:
        """How often its facts did not hold."""
        return int(self._cells[MISSED])

    @property
    def assembly(self) -> str:
        """The module in the processor's language. It is made anew for whoever asks."""
        return assembly_of(self.text, is_plain=True)

    @property
    def default_dtype(self) -> torch.dtype | None:
        """The default dtype that it is for, None if it does not matter."""
        return self.kernel.default_dtype
