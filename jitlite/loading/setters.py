"""`__setstate__`, the one part of a program that is run while its archive is loaded, within bounds.

Real ones take a tuple apart and set attributes, or pack weights. So only the operators of `load_operators` run, and the
objects of an archive have a small allowance of steps and of bytes for tensors together. What an operator will make is
found out before it is called: of tensors by calling it on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from jitlite.archive.errors import ArchiveError
from jitlite.archive.packed_parameters import PACKING, NotPacked, packed_bytes
from jitlite.base.records import replace
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import code_of
from jitlite.interpreter.code import Code, Instruction, Operator
from jitlite.interpreter.frames import CallFrame
from jitlite.interpreter.instructions import link
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.costs import result_size
from jitlite.ir.ops import Op
from jitlite.ir.schema import Schema
from jitlite.ir.traits import Trait
from jitlite.ir.unit import Function
from jitlite.ir.values import class_type_of
from jitlite.loading.allowance import Allowance, Exhausted
from jitlite.loading.lite_module import call_method
from jitlite.loading.load_operators import (
    AS_LARGE,
    CHEAP,
    COPYING,
    INSTRUCTIONS,
    SIMPLE,
    SPLITTING,
    TENSORS,
    VIEWS,
)

_WORD = 16
"""Letters of a text, and bytes of a result, that count as one step."""
_TIMES = 16
"""Bytes for each number of a tensor, of operators that make as many numbers as they are given."""


_OBJECT = 50
"""Steps for making a tensor of a part of another one."""


class _Refused(Exception):
    """An operator may not run. The text says why."""


class Setter:
    """One run of a `__setstate__`, with what it calls.

    Args:
        name: of the class, for errors.
        member: where its state stands.
        allowance: of the whole archive.
        allow: operators that may be called whatever they make.
    """

    def __init__(self, name: str, member: str, allowance: Allowance, allow: Collection[str] = ()) -> None:
        self.name = name
        self.member = member
        self.allowance = allowance
        self.allow = frozenset(allow)
        self._codes: dict[int, tuple[Code, Code]] = {}
        self._frame: CallFrame | None = None

    def run(self, function: Function | Code, arguments: Sequence[object]) -> Any:
        """Run it. The random numbers and the modes of the process stay as they are.

        Raises:
            ArchiveError: it takes more than its allowance, or uses an operator that may not run.
            Exception: what it raises.
        """
        with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                return self._run(function, arguments)
            except Exhausted as error:
                raise self._stopped(f"{error}{self._place()}") from None
            except _Refused as error:
                raise self._stopped(f"{error}{self._place()}") from None

    def _run(self, function: Function | Code, arguments: Sequence[object]) -> Any:
        code = self._guarded(function) if isinstance(function, Code) else self._code_for(function)
        return vm.run(code, arguments, self._code_for, watch=self._step)

    def _code_for(self, function: Function) -> Code:
        return self._guarded(code_of(function))

    def _guarded(self, code: Code) -> Code:
        known = self._codes.get(id(code))
        if known is None:
            silence = Instruction("OP", len(code.operators))
            made = replace(
                code,
                operators=[*(self._watched(each) for each in code.operators), _SILENT_WARNING],
                instructions=[silence if each.opcode == "WARN" else each for each in code.instructions],
                program=[],
            )
            made.program = link(made)
            known = self._codes[id(code)] = code, made
        return known[1]

    # -- what is said
    def _stopped(self, why: str) -> ArchiveError:
        return ArchiveError(
            f"__setstate__ of '{self.name}', which is to set attributes only, was stopped: {why}", self.member,
            hint="jitlite.load(file, run_code=False) reads the archive without running it",
        )  # fmt: skip

    def _place(self) -> str:
        found = None if self._frame is None else self._frame.place.range
        return "" if found is None else f" (at {found.location()})"

    def _refusal(self, name: str, why: str) -> ArchiveError:
        refused = self._stopped(f"it uses the operator '{name}', {why}{self._place()}")
        refused.hint = f"if you trust the archive, allow it by name: load(file, allow=['{name}']); {refused.hint}"
        return refused

    # -- steps
    def _step(self, frame: CallFrame) -> None:
        self._frame = frame
        opcode, x, n = frame.code.instructions[frame.pc]
        if opcode not in INSTRUCTIONS:
            raise _Refused(f"it uses the instruction {opcode}, and no threads, contexts or Python are to be used")
        self.allowance.spend(1 + n)
        if opcode == "FORMAT":
            self._check_values("aten::format", frame.stack[-x:])
        elif opcode == "TO_LIST":
            self.allowance.spend(sum(t.numel() for t in _tensors(frame.stack[-3:])))
        elif opcode == "TUPLE_CONSTRUCT":
            self.allowance.spend(x)
        elif opcode == "INTERFACE_CALL":
            raise _Refused("it calls a method by its name")

    def _size(self, value: object) -> int:
        """The number of values in a value, however often they occur, as far as there are steps left."""
        found, todo = 0, [value]
        while todo and found <= self.allowance.steps:
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
        name = operator.name
        if name.startswith("method "):
            return replace(operator, fn=self._method(name.removeprefix("method ")))
        if name in self.allow:
            return operator
        if name in Trait.SILENT.kinds:
            return replace(operator, fn=_nothing)
        op = next((o for o in ops.lookup(name) if o.schema.overload == operator.overload), None)
        check: Callable[..., object] | None = PACKING.get(name)
        on_tensors = op is not None and (op.overload is not None or _has_tensors(op.schema))
        listed = TENSORS if on_tensors else SIMPLE
        if check is None and (name not in listed | CHEAP or (op is not None and not _is_meant(op.schema))):
            return replace(operator, fn=self._refuse(name))

        def call(*arguments: object) -> Any:
            if check is not None:
                return self._pack(operator, check, arguments)
            if op is not None and on_tensors:
                self._check_tensors(op, operator.fn, arguments)
            else:
                self._check_values(name, arguments)
            return operator.fn(*arguments)

        return replace(operator, fn=call)

    def _method(self, name: str) -> Callable[..., Any]:
        run = call_method(name, self._run)

        def call(owner: object, *arguments: object) -> Any:
            if isinstance(owner, torch.ScriptObject):
                raise _Refused(f"it calls the method '{name}' of an object in C++")
            return run(owner, *arguments)

        return call

    def _refuse(self, name: str) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            raise self._refusal(name, "which is none of those that may run while an archive is loaded")

        return call

    def _check_values(self, name: str, arguments: Sequence[object]) -> None:
        """Take the steps of an operator on numbers, texts and containers."""
        if any(class_type_of(each) is not None for each in arguments) and name not in CHEAP:
            raise _Refused(f"it uses the operator '{name}' on an object of a class")
        if name in CHEAP or (name in COPYING and any(isinstance(a, list | str | dict) for a in arguments)):
            lengths = sum(len(a) for a in arguments if isinstance(a, list | str | dict))
            self.allowance.spend(1 + lengths // (1 if name in COPYING else 4 * _WORD))
        else:
            self._check_plain(name, arguments)
            self.allowance.spend(self._size(arguments) + sum(t.numel() for t in _tensors(arguments)))
        self.allowance.spend(result_size(name, arguments) // _WORD)

    def _check_plain(self, name: str, arguments: Sequence[object]) -> None:
        """See that no argument holds an object whose class could say what the operator does."""
        todo, left = list(arguments), self.allowance.steps
        while todo and left > 0:
            each, left = todo.pop(), left - 1
            if isinstance(each, list | tuple):
                todo += each
            elif isinstance(each, dict):
                todo += [*each.keys(), *each.values()]
            elif class_type_of(each) is not None:
                raise _Refused(f"it uses the operator '{name}' on an object of a class")

    def _pack(self, operator: Operator, check: Callable[..., object], arguments: Sequence[object]) -> Any:
        """Pack weights, or unpack them, which makes what is as large."""
        try:
            check(*arguments)
        except (NotPacked, TypeError) as error:
            raise _Refused(f"it uses the operator '{operator.name}' on what cannot be packed: {error}") from None
        self.allowance.take(packed_bytes(arguments), _bytes_of(arguments), f"'{operator.name}'")
        made = operator.fn(*arguments)
        self.allowance.take(_bytes_of(made), 0, f"'{operator.name}'")
        return made

    def _check_tensors(self, op: Op, fn: Callable[..., object], arguments: Sequence[object]) -> None:
        for given, argument in zip(arguments, op.schema.arguments, strict=False):
            if T.LAYOUT in T.members_of(argument.declared_type) and given not in (None, torch.strided):
                raise _Refused(f"it uses the operator '{op.name}' with the layout {given}")
        self.allowance.spend(self._size([a for a in arguments if not isinstance(a, torch.Tensor)]))
        if op.name in CHEAP:
            return
        if op.name in SPLITTING:  # into as many tensors
            self.allowance.spend(_OBJECT * sum(max(t.shape, default=0) for t in _tensors(arguments)))
        self.allowance.take(self._made_by(op, fn, arguments), _bytes_of(arguments), f"'{op.name}'")

    def _made_by(self, op: Op, fn: Callable[..., object], arguments: Sequence[object]) -> int:
        """The bytes that a call makes."""
        if op.name in VIEWS:
            return 0
        if op.name in AS_LARGE:
            return _TIMES * sum(t.numel() * max(t.dim(), 1) for t in _tensors(arguments))
        try:
            given = [_as_meta(a) for a in arguments]
            known = {t.untyped_storage()._cdata for t in _tensors(given)}
            with torch.no_grad():
                result = fn(*_on_meta(op.schema, given))
        except Exception as error:
            if any(isinstance(a, int | list) and not isinstance(a, bool) for a in arguments):
                raise self._refusal(op.name, f"of which cannot be told before what it makes: {_line(error)}") from None
            return _TIMES * sum(t.numel() for t in _tensors(arguments))
        made = {t.untyped_storage()._cdata: t for t in _tensors(result)}
        return sum(t.untyped_storage().nbytes() for key, t in made.items() if key not in known)


def _nothing(*arguments: object) -> None:
    return None


_SILENT_WARNING = Operator("aten::warn", "", _nothing, 2, 0, False)
"""Stands for the instruction of that name."""


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def _is_meant(schema: Schema) -> bool:
    """Is it one of the overloads that are meant? None is that writes its result into an argument, `out=`."""
    return schema.qualified not in Trait.NOT_LOADED.kinds and not any(
        a.is_write and a.kwarg_only for a in schema.arguments
    )


def _has_tensors(schema: Schema) -> bool:
    """Does an operator take tensors, or make some?"""
    types = [each.type for each in (*schema.arguments, *schema.returns)]
    return any(isinstance(m, T.TensorType) for t in types for m in (*T.members_of(t), *t.contained))


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value for t in _tensors(part)] if isinstance(value, list | tuple) else []


def _bytes_of(value: object) -> int:
    return sum(t.numel() * t.element_size() for t in _tensors(value))


def _on_meta(schema: Schema, given: Sequence[object]) -> list[Any]:
    found = list(given)
    for at, argument in enumerate(schema.arguments[: len(found)]):
        if T.DEVICE in T.members_of(argument.type):
            found[at] = torch.device("meta")
    return found


def _as_meta(value: object) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return [_as_meta(part) for part in value] if isinstance(value, list) else value
