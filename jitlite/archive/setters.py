"""`__setstate__`, the one part of a program that is run while its archive is loaded, within bounds.

Real ones take a tuple apart and set attributes, or pack weights. So a run has a small allowance of steps and of bytes
for tensors. What an operator will make is found out before it is called: of tensors by calling it on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from jitlite.archive.errors import ArchiveError
from jitlite.archive.lite_module import call_method
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import code_of
from jitlite.interpreter.code import Code, Operator
from jitlite.interpreter.frames import Frame
from jitlite.interpreter.instructions import link
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.ops import Op
from jitlite.ir.schema import Schema
from jitlite.ir.unit import Function

_MOST_STEPS = 1_000_000
"""Instructions, and elements of what they are given."""
_TENSOR_ROOM = 32 << 20
"""Bytes of tensors that may be made in any case; in a large file, twice its size more."""
_NAMESPACES = frozenset(
    {"quantized", "_quantized", "quantization", "sparse", "mkldnn_prepacked", "prepacked", "xnnpack"}
)
"""Operators that pack weights: what they make is as large as what they are given."""
_AS_LARGE = frozenset({
    "nonzero", "masked_select", "unique_dim", "_unique2", "dequantize", "int_repr", "q_per_channel_scales",
    "q_per_channel_zero_points", "to_dense", "_to_dense", "coalesce", "_coalesce", "indices", "values",
    "_indices", "_values", "to_sparse", "_to_sparse", "clone", "detach", "alias", "to", "_to_copy"
})  # fmt: skip
"""Operators that may not run on the meta device, and make no more than a few times what they are given."""
_PACKED_WITHIN = 16
_WORD = 16
"""Letters of a text that count as one step."""


class Setter:
    """One run of a `__setstate__`, with what it calls.

    Args:
        name: of the class, for errors.
        member: where its state stands.
        size: of the file in bytes.
        allow: operators that may be called whatever they make.
    """

    def __init__(self, name: str, member: str, size: int, allow: Collection[str] = ()) -> None:
        self.name = name
        self.member = member
        self.allow = frozenset(allow)
        self._steps = _MOST_STEPS
        self._bytes = _TENSOR_ROOM + 2 * size
        self._touched = 8 * self._bytes
        self._codes: dict[int, tuple[Code, Code]] = {}

    def run(self, function: Function | Code, arguments: Sequence[Any]) -> Any:
        """Run it. The random numbers and the modes of the process stay as they are.

        Raises:
            ArchiveError: it takes more than its allowance.
            Exception: what it raises.
        """
        with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(torch.is_grad_enabled()):
            return self._run(function, arguments)

    def _run(self, function: Function | Code, arguments: Sequence[Any]) -> Any:
        code = self._guarded(function) if isinstance(function, Code) else self._code_for(function)
        return vm.run(code, arguments, self._code_for, watch=self._step)

    def _code_for(self, function: Function) -> Code:
        return self._guarded(code_of(function))

    def _guarded(self, code: Code) -> Code:
        known = self._codes.get(id(code))
        if known is None:
            made = replace(code, operators=[self._watched(each) for each in code.operators], program=[])
            made.program = link(made)
            known = self._codes[id(code)] = code, made
        return known[1]

    # -- steps
    def _step(self, frame: Frame) -> None:
        opcode, _, n = frame.code.instructions[frame.pc]
        self._spend(1 + n)
        if opcode == "FORMAT":
            self._spend(self._size(frame.stack[-n:]))
        elif opcode == "TO_LIST":
            self._spend(sum(t.numel() for t in _tensors(frame.stack[-3:])))

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise self._stopped(f"it takes more than {_MOST_STEPS} steps")

    def _stopped(self, why: str) -> ArchiveError:
        return ArchiveError(
            f"__setstate__ of '{self.name}', which is to set attributes only, was stopped: {why}", self.member
        )

    def _size(self, value: Any) -> int:
        """The number of values in a value, however often they occur, as far as there are steps left."""
        found, todo = 0, [value]
        while todo and found <= self._steps:
            each = todo.pop()
            found += 1
            if isinstance(each, list | tuple):
                found += len(each) // _WORD
                todo += each
            elif isinstance(each, dict):
                todo += [*each.keys(), *each.values()]
            elif isinstance(each, str):
                found += len(each) // _WORD
            elif isinstance(each, int):
                found += (each.bit_length() // (16 * _WORD)) ** 2  # products take that long
        return found

    # -- operators
    def _watched(self, operator: Operator) -> Operator:
        if operator.name.startswith("method "):
            return replace(operator, fn=call_method(operator.name.removeprefix("method "), self._run))
        if operator.name in self.allow:
            return operator
        made_of = _EXPLOSIVE.get(operator.name)
        op = next((o for o in ops.lookup(operator.name) if o.schema.overload == operator.overload), None)
        makes_tensors = op is not None and op.overload is not None and _has_tensor(op.schema)

        def call(*arguments: Any) -> Any:
            self._spend(self._size(arguments))
            if made_of is not None:
                self._spend(_count(made_of, arguments))
            if op is not None and makes_tensors:
                self._check_tensors(op, operator.fn, arguments)
            return operator.fn(*arguments)

        return replace(operator, fn=call)

    def _check_tensors(self, op: Op, fn: Callable[..., Any], arguments: Sequence[Any]) -> None:
        given = sum(t.numel() * t.element_size() for t in _tensors(arguments))
        made = self._made_by(op, fn, arguments, given)
        self._bytes -= made
        self._touched -= given + made
        if self._bytes < 0 or self._touched < 0:
            raise self._stopped(f"'{op.name}' makes tensors larger than the file has")

    def _made_by(self, op: Op, fn: Callable[..., Any], arguments: Sequence[Any], given: int) -> int:
        """The bytes that a call makes."""
        namespace, _, short = op.name.partition("::")
        if namespace in _NAMESPACES or short in _AS_LARGE:
            return 3 * given
        try:
            with torch.no_grad():
                result = fn(*_on_meta(op.schema, arguments))
        except Exception:
            if given <= _PACKED_WITHIN and not any(isinstance(a, int | list) for a in arguments):
                return 0
            hint = f"if you trust the archive, allow it by name: load(file, allow=['{op.name}'])"
            stopped = self._stopped(f"what '{op.name}' makes cannot be told before")
            stopped.hint = hint
            raise stopped from None
        return sum(t.untyped_storage().nbytes() for t in _tensors(result))


def _has_tensor(schema: Schema) -> bool:
    return any(T.TENSOR in T.members_of(r.type) or r.type == T.ListType.of(T.TENSOR) for r in schema.returns)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value for t in _tensors(part)] if isinstance(value, list | tuple) else []


def _on_meta(schema: Schema, arguments: Sequence[Any]) -> list[Any]:
    meta = torch.device("meta")
    given = [_as_meta(a) for a in arguments]
    for at, argument in enumerate(schema.arguments[: len(given)]):
        if T.DEVICE in T.members_of(argument.type):
            given[at] = meta
    return given


def _as_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return [_as_meta(part) for part in value] if isinstance(value, list) else value


# -- operators whose results can be much larger than what they are given


def _count(of: Callable[..., int], arguments: Sequence[Any]) -> int:
    try:
        return max(of(*arguments), 0)
    except Exception:  # then the operator raises, too
        return 0


def _product(a: Any, b: Any, *rest: Any) -> int:
    """`mul`, of a text or list and a number."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, str | list) and isinstance(other, int):
            return len(one) * other
    return 0


def _wide(text: Any, width: int, *rest: Any) -> int:
    return width // _WORD


_EXPLOSIVE: dict[str, Callable[..., int]] = {
    "aten::mul": _product,
    "aten::pow": lambda a, b, *_: a.bit_length() * b // 64,
    "prim::pow": lambda a, b, *_: a.bit_length() * b // 64,
    "aten::__lshift__": lambda a, b, *_: b // 64,
    "aten::factorial": lambda n, *_: n * n,
    "aten::ljust": _wide,
    "aten::rjust": _wide,
    "aten::center": _wide,
    "aten::zfill": _wide,
    "aten::expandtabs": lambda text, size=8, *_: text.count("\t") * size // _WORD,
    "aten::replace": lambda text, old, new, *_: (text.count(old) + 1) * len(new) // _WORD,
    "aten::join": lambda text, values: (len(text) + 1) * len(values) // _WORD,
}
"""The number of steps that a call counts for, beside those for what it is given."""
