"""Functions on 64-bit numbers, written with variables, loops and branches: what is no loop over vectors.

The text of a routine is a function of LLVM's that kernels call. Its variables are slots, which LLVM makes registers of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jitlite.kernels.target import attributes
from jitlite.native.code import LLVMBuilder


@dataclass(frozen=True)
class Register:
    """An i64 while a routine is written, or an i1 that is the answer of a comparison."""

    code: LLVMBuilder
    text: str

    def _with(self, instruction: str, other: Register | int) -> Register:
        return Register(self.code, self.code.value(f"{instruction} {self.text}, {text_of(other)}"))

    def __add__(self, other: Register | int) -> Register:
        return self._with("add i64", other)

    def __sub__(self, other: Register | int) -> Register:
        return self._with("sub i64", other)

    def __mul__(self, other: Register | int) -> Register:
        return self._with("mul i64", other)

    def __floordiv__(self, other: int) -> Register:
        """By a power of two, towards the lower number."""
        return self._with("ashr i64", other.bit_length() - 1)

    def __and__(self, other: Register | int) -> Register:
        return self._with("and i64", other)

    def __lt__(self, other: Register | int) -> Register:
        return self._with("icmp slt i64", other)

    def __le__(self, other: Register | int) -> Register:
        return self._with("icmp sle i64", other)

    def __gt__(self, other: Register | int) -> Register:
        return self._with("icmp sgt i64", other)

    def equals(self, other: Register | int) -> Register:
        return self._with("icmp eq i64", other)

    def both(self, other: Register) -> Register:
        return self._with("and i1", other)

    def either(self, other: Register) -> Register:
        return self._with("or i1", other)

    def or_if(self, condition: Register, other: Register | int) -> Register:
        """The other one if the condition holds."""
        chosen = f"select i1 {condition.text}, i64 {text_of(other)}, i64 {self.text}"
        return Register(self.code, self.code.value(chosen))


def text_of(number: Register | int) -> str:
    return number.text if isinstance(number, Register) else str(number)


class RegisterVariable:
    """A number that changes."""

    def __init__(self, code: LLVMBuilder, start: Register | int) -> None:
        self._code = code
        self._slot = code.slot("i64")
        self.set(start)

    def get(self) -> Register:
        return Register(self._code, self._code.load("i64", self._slot))

    def set(self, value: Register | int) -> None:
        self._code.store("i64", text_of(value), self._slot)


class Routine:
    """The text of a function that gives nothing, or a number.

    Args:
        name: of the function.
        pointers: the names of its first parameters.
        numbers: the names of those behind, which are numbers.
        gives: is a number given?
        is_entry: do others than those of its module call it?
    """

    def __init__(
        self,
        name: str,
        pointers: tuple[str, ...],
        numbers: tuple[str, ...],
        *,
        gives: bool = False,
        is_entry: bool = False,
    ) -> None:
        self.code = LLVMBuilder()
        parameters = [*(f"ptr %{p}" for p in pointers), *(f"i64 %{n}" for n in numbers)]
        linkage, result = "" if is_entry else "internal ", "i64" if gives else "void"
        self._head = f"define {linkage}{result} @{name}({', '.join(parameters)}) {attributes()} {{"
        self.numbers = [Register(self.code, f"%{n}") for n in numbers]

    def text(self) -> str:
        """The function; what control flow comes to the end of gives nothing."""
        return "\n".join([self._head, *self.code.slots, *self.code.lines, "}"])

    def give(self, value: Register | None = None) -> None:
        self.code.emit("ret void" if value is None else f"ret i64 {value.text}")

    def variable(self, start: Register | int) -> RegisterVariable:
        return RegisterVariable(self.code, start)

    def call(self, name: str, pointers: tuple[str, ...], *numbers: Register | int, gives: bool = False) -> Register:
        """Call another routine."""
        operands = ", ".join([*(f"ptr {p}" for p in pointers), *(f"i64 {text_of(n)}" for n in numbers)])
        if gives:
            return Register(self.code, self.code.value(f"call i64 @{name}({operands})"))
        self.code.emit(f"call void @{name}({operands})")
        return Register(self.code, "0")

    # -- memory
    def element(self, pointer: str, index: Register | int) -> str:
        """The address of a number behind a pointer."""
        return self.code.value(f"getelementptr i64, ptr {pointer}, i64 {text_of(index)}")

    def load(self, pointer: str, index: Register | int) -> Register:
        return Register(self.code, self.code.load("i64", self.element(pointer, index)))

    def store(self, pointer: str, index: Register | int, value: Register | int) -> None:
        self.code.store("i64", text_of(value), self.element(pointer, index))

    # -- control flow
    @contextmanager
    def while_(self, *conditions: Callable[[], Register]) -> Iterator[None]:
        """Run what is written within as long as all conditions hold; each is asked if those before it hold."""
        code = self.code
        head, end = code.fresh("head"), code.fresh("end")
        code.go(head)
        code.label(head)
        for condition in conditions:
            onward = code.fresh("and")
            code.branch(condition().text, onward, end)
            code.label(onward)
        yield
        code.go(head)
        code.label(end)

    @contextmanager
    def if_(self, condition: Register) -> Iterator[None]:
        """Run what is written within if something holds."""
        code = self.code
        then, end = code.fresh("then"), code.fresh("on")
        code.branch(condition.text, then, end)
        code.label(then)
        yield
        code.go(end)
        code.label(end)
