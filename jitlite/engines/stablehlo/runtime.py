"""IREE as an engine: a group becomes a module of StableHLO, and that a program for the processor of this machine."""

from __future__ import annotations

import functools
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import iree.compiler
import iree.compiler.version
import iree.runtime
import torch
from torch.utils.dlpack import from_dlpack, to_dlpack  # type: ignore[attr-defined]
from torch.utils.weak import WeakIdKeyDictionary

from jitlite.base.disk import disk, key_of
from jitlite.base.records import Record
from jitlite.engines.converters import Ref
from jitlite.engines.engine import CompiledGroup, Engine, EngineRefusal, Operand
from jitlite.engines.stablehlo.builder import CONVERTERS, StableHloBuilder
from jitlite.engines.stablehlo.module import StableHloModule, module_of
from jitlite.engines.stablehlo.sizes import value_of
from jitlite.ir.graph import Graph, Node

_FLAGS = (
    "--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false", "--iree-input-demote-i64-to-i32=false",
)  # fmt: skip
_ALIGNMENT = 64
"""IREE reads tensors that begin at a multiple of so many bytes. Others are copied."""
_CPU = (1, 0)
"""The device of tensors, as DLPack numbers it."""
_MOST_CHECKED = 256
"""Combinations of sizes whose conditions are remembered to hold."""


class Iree(Engine):
    """Runs groups with IREE, on the CPU, in the thread of the call."""

    name = "iree"
    version = iree.compiler.version.VERSION
    keeps_fixed_sizes = True

    def supports(self, node: Node) -> str | None:
        return CONVERTERS.why_not(node, StableHloBuilder(for_iree=True))

    def compile(self, graph: Graph) -> CompiledGroup:
        made = module_of(graph)
        runtime = _runtime()
        module = iree.runtime.VmModule.copy_buffer(runtime.vm_instance, _program_of(made.text))
        context = iree.runtime.VmContext(runtime.vm_instance, [*runtime.default_vm_modules, module])
        return _IreeProgram(made, context, module.lookup_function("main"), runtime.device)


@functools.cache
def _runtime() -> iree.runtime.Config:
    """What runs programs: without threads of its own, so that processes may fork."""
    return iree.runtime.Config("local-sync")


def _program_of(text: str) -> bytes:
    """Compile the text of a module, unless the program of it is on disk.

    Raises:
        RuntimeError: IREE does not read it; the text is its first complaint.
    """
    processor = _processor()
    kept = None if processor is None else disk()
    key = key_of("iree", Iree.version, *_FLAGS, processor or "", text)
    found = None if kept is None else kept.read(key)
    if found is None:
        found = _compiled(text)
        if kept is not None:
            kept.write(key, found)
    return found


@functools.cache
def _processor() -> str | None:
    """What programs for this machine depend on; None where that is not known."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told = {line.partition(":")[0].strip(): line for line in reversed(lines)}
        features = [told[name] for name in ("flags", "Features", "model name") if name in told]
        return "\n".join([platform.machine(), *features]) if features else None
    return None


def _compiled(text: str) -> bytes:
    try:
        found: bytes = iree.compiler.compile_str(
            text, target_backends=["llvm-cpu"], input_type="stablehlo", extra_args=list(_FLAGS)
        )
    except iree.compiler.CompilerToolError as error:
        lines = [line for line in str(error).splitlines() if "error:" in line]
        raise RuntimeError(lines[0] if lines else str(error)) from None
    return found


class _Imported(Record):
    """A tensor that IREE reads where it is.

    Attributes:
        place: where its elements are.
        view: IREE's object.
    """

    place: tuple[int, torch.Size]
    view: iree.runtime.HalBufferView


_imported: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""By tensor, as long as there is one: weights are handed over in every call."""


def _import(value: Operand, ref: Ref, device: iree.runtime.HalDevice) -> iree.runtime.HalBufferView:
    """A value as IREE has it."""
    if not isinstance(value, torch.Tensor):
        return device.from_dlpack_capsule(to_dlpack(torch.tensor(value, dtype=ref.dtype)))
    known = _imported[value] if value in _imported else None  # noqa: SIM401 (its `get` has no types)
    place = value.data_ptr(), value.shape
    if known is not None and known.place == place:
        return known.view
    given = value.detach().resolve_neg()
    if not given.is_contiguous() or given.data_ptr() % _ALIGNMENT:
        return device.from_dlpack_capsule(to_dlpack(given.clone(memory_format=torch.contiguous_format)))
    view = device.from_dlpack_capsule(to_dlpack(given))
    if given.data_ptr() == place[0]:
        _imported[value] = _Imported(place, view)
    return view


class _IreeProgram(Record, frozen=False):
    """A group that is compiled.

    Attributes:
        module: its text, and what has to hold.
        shared: the outputs that are the same memory in every call, or that of an input; None before the first call.
        checked: the sizes for which the conditions hold.
    """

    module: StableHloModule
    context: iree.runtime.VmContext
    function: iree.runtime.VmFunction
    device: iree.runtime.HalDevice
    shared: frozenset[int] | None = None
    checked: set[tuple[torch.Size | int, ...]] = field(default_factory=set)

    def __call__(self, given: Sequence[Operand]) -> list[Operand]:
        if self.module.conditions:
            self._check_sizes(given)
        refs = self.module.inputs
        inputs = [_import(value, ref, self.device) for ref, value in zip(refs, given, strict=True)]
        found = self._run(inputs)
        if self.shared is None:
            self.shared = _shared_memory(found, self._run(inputs))
        outputs = self.module.outputs
        for why, passed in zip(self.module.checks, found[len(outputs) :], strict=True):
            if not passed.item():
                raise EngineRefusal(f"in this call {why}")
        return [
            x.item() if ref.is_number else x.clone() if i in self.shared else x
            for i, (x, ref) in enumerate(zip(found, outputs, strict=False))
        ]

    def _run(self, inputs: Sequence[iree.runtime.HalBufferView]) -> list[torch.Tensor]:
        arguments = iree.runtime.VmVariantList(len(inputs))
        for view in inputs:
            arguments.push_ref(view)
        results = iree.runtime.VmVariantList(len(self.module.outputs) + len(self.module.checks))
        self.context.invoke(self.function, arguments, results)
        views = (results.get_as_object(i, iree.runtime.HalBufferView) for i in range(results.size))
        return [from_dlpack(self.device.create_dlpack_capsule(view, *_CPU)) for view in views]

    def _check_sizes(self, given: Sequence[Operand]) -> None:
        """See that the text holds for the sizes of a call.

        Raises:
            EngineRefusal: it does not.
        """
        key = tuple([v.shape if isinstance(v, torch.Tensor) else int(v) for v in given])
        if key in self.checked:
            return
        numbers = _numbers([x.name for x in self.module.inputs], given)
        for c in self.module.conditions:
            try:
                left, right = value_of(c.left, numbers), value_of(c.right, numbers)
            except ZeroDivisionError:
                raise EngineRefusal("in this call a size is divided by 0") from None
            if left != right if c.relation == "==" else left > right:
                raise EngineRefusal(f"it was compiled for calls in which {left} {c.relation} {right}")
        if len(self.checked) >= _MOST_CHECKED:
            self.checked.clear()
        self.checked.add(key)


def _numbers(names: Sequence[str], given: Sequence[Operand]) -> dict[str, int]:
    """The sizes and ints of a call, by the names that conditions have for them."""
    found: dict[str, int] = {}
    for name, value in zip(names, given, strict=True):
        if isinstance(value, torch.Tensor):
            found |= {f"{name}.{d}": n for d, n in enumerate(value.shape)}
        elif isinstance(value, int):
            found[name] = value
    return found


def _shared_memory(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> frozenset[int]:
    """The outputs that two calls gave in the same memory, or that one call gave twice."""
    places = [x.data_ptr() for x in first]
    return frozenset(
        i for i, (a, b) in enumerate(zip(first, second, strict=True))
        if a.numel() and (a.data_ptr() == b.data_ptr() or places[i] in places[:i])
    )  # fmt: skip
