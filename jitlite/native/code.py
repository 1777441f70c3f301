"""The text of one function in LLVM's language, while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitlite.native.capi import address, pointer

BAIL_OUT, RAISED = "bail_out", "raised"
"""Where a function goes when it cannot be done here, and where it goes with an exception that Python has set."""


class NotNative(Exception):
    """Something that machine code is not made of; says what."""


class LLVMBuilder:
    """Instructions, one after the other. Registers have numbers, slots are variables that LLVM makes registers of."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.declared: set[str] = set()
        self.helpers: dict[str, str] = {}
        """The text of functions that are used, by what they are."""
        self._count = 0

    def fresh(self, base: str) -> str:
        self._count += 1
        return f"{base}{self._count}"

    # -- instructions
    def emit(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """An instruction that gives something: the register it is in."""
        register = self.fresh("%r")
        self.emit(f"{register} = {text}")
        return register

    def intrinsic(self, signature: str, *operands: str) -> str:
        """A call of LLVM's own: `intrinsic("double @llvm.fabs.f64(double)", x)`."""
        self.declared.add(f"declare {signature}")
        head, _, types = signature.removesuffix(")").partition("(")
        return self.value(f"call {head}({_arguments(types, operands)})")

    def call(self, result: str, name: str, types: str = "", *operands: str) -> str:
        """A call of a C function; "" for one that gives nothing."""
        text = f"call {result} {pointer(address(name))}({_arguments(types, operands)})"
        if result == "void":
            self.emit(text)
            return ""
        return self.value(text)

    def helper(self, text: str) -> None:
        """Have a function that is written once."""
        self.helpers.setdefault(text, text)

    # -- slots
    def slot(self, type: str) -> str:
        name = self.fresh("%s")
        self.slots.append(f"  {name} = alloca {type}")
        return name

    def load(self, type: str, place: str) -> str:
        return self.value(f"load {type}, ptr {place}")

    def store(self, type: str, value: str, place: str) -> None:
        self.emit(f"store {type} {value}, ptr {place}")

    def field(self, box: str, number: int) -> str:
        """The place of a field, eight bytes each."""
        return self.value(f"getelementptr i64, ptr {box}, i64 {number}")

    # -- control flow
    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def go(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.emit(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def leave_if(self, condition: str, label: str) -> None:
        """Go there if the condition holds, else on."""
        onward = self.fresh("on")
        self.branch(condition, label, onward)
        self.label(onward)

    def bail_out_if(self, condition: str) -> None:
        """Have Python do it if the condition holds."""
        self.leave_if(condition, BAIL_OUT)

    def bail_out_unless(self, condition: str) -> None:
        self.bail_out_if(self.value(f"xor i1 {condition}, true"))

    @contextmanager
    def counting(self, count: str) -> Iterator[str]:
        """A loop whose body is what is written within; gives the number of the iteration."""
        place = self.slot("i64")
        head, body, end = self.fresh("head"), self.fresh("body"), self.fresh("end")
        self.store("i64", "0", place)
        self.go(head)
        self.label(head)
        index = self.load("i64", place)
        self.branch(self.value(f"icmp slt i64 {index}, {count}"), body, end)
        self.label(body)
        yield index
        self.store("i64", self.value(f"add i64 {index}, 1"), place)
        self.go(head)
        self.label(end)


def _arguments(types: str, operands: tuple[str, ...]) -> str:
    written = types.split(", ") if types else []
    return ", ".join(f"{t} {o}" for t, o in zip(written, operands, strict=True))
