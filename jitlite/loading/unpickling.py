"""The pickles in an archive, by an interpreter of its own that knows the few opcodes they use.

It makes numbers, texts, lists, dicts and tuples. What a global name means, and what a persistent id stands for, the
caller says; a name that the caller does not know is an error. Nothing is imported and nothing of Python is called.

An object is made when its state is there. Until then a placeholder stands for it, and whatever uses that is an error:
an object of C++ without its state would end the process as soon as anything looks at it.
"""

from __future__ import annotations

import enum
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

from jitlite.archive.errors import ArchiveError
from jitlite.archive.extents import Extents, TooLarge

ROOM = 128 << 20
"""About how many bytes the values of a pickle may take."""
_LONGEST_INT = 16
_REFERENCE = 8
_ENTRY = 100
"""Bytes of an entry of a dict."""


class PickledGlobal(Protocol):
    """What a global name in a pickle means."""

    def call(self, argument: object) -> Any:
        """What the name gives for an argument, which for all but enums is a tuple of arguments."""
        ...

    def build(self, state: object) -> Any:
        """A new object with this state."""
        ...


class _Mark:
    pass


_MARK = _Mark()


class _Unmade:
    """Stands for an object until its state is there."""

    def __init__(self, meaning: PickledGlobal) -> None:
        self.meaning: PickledGlobal | None = meaning
        self.made: Any = None


_KEYS = (str, int, float, complex, torch.Tensor, torch.device, enum.Enum, type(None))


def _is_key(value: object) -> bool:
    """Can a value be a key? Its hash is to be Python's own, and not to take for ever."""
    kind: Any = type(value)
    return isinstance(value, _KEYS) or (kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__)


class Unpickler:
    """Reads one pickle.

    Args:
        member: where the pickle stands, for errors.
        find: what a global name, given as module and name, means.
        persistent: what a persistent id stands for.
        room: about how many bytes the values may take.
    """

    def __init__(
        self,
        data: bytes,
        member: str,
        find: Callable[[str, str], PickledGlobal],
        persistent: Callable[[object], object] | None,
        room: int = ROOM,
    ) -> None:
        self.data = data
        self.member = member
        self.find = find
        self.persistent = persistent
        self.room = room
        self.position = 0
        self.stack: list[Any] = []
        self.memo: dict[int, object] = {}
        self.extents = Extents(len(data))

    def load(self) -> Any:
        """The value.

        Raises:
            ArchiveError: the data is no pickle of the kind that archives have.
        """
        try:
            return self._run()
        except TooLarge as error:
            raise self._fault(f"{error}, which is refused") from None

    def _run(self) -> Any:
        while True:
            opcode = self._take(1)[0]
            if opcode == _STOP:
                found = self._value()
                self.extents.hand_out(found)
                return found
            action = _ACTIONS.get(opcode)
            if action is None:
                raise self._fault(f"the opcode {bytes([opcode])!r} does not occur in TorchScript's pickles")
            self._pay(_COSTS.get(opcode, _REFERENCE))
            action(self)

    def _pay(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise self._fault("its values would take far more memory than the file has bytes, which is refused")

    def _fault(self, message: str) -> ArchiveError:
        return ArchiveError(f"{message} (at byte {self.position})", self.member)

    # -- input and stack
    def _take(self, count: int) -> bytes:
        start, self.position = self.position, self.position + count
        if self.position > len(self.data):
            raise self._fault("the pickle ends in the middle")
        return self.data[start : self.position]

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _line(self) -> str:
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise self._fault("the pickle ends in the middle")
        text = self._text(end - self.position)
        self.position = end + 1
        return text

    def _text(self, length: int) -> str:
        found = self._take(length)
        try:
            text = found.decode()
        except UnicodeDecodeError:
            raise self._fault("a text is not UTF-8") from None
        self._pay(sys.getsizeof(text))
        return text

    def _push(self, value: object) -> None:
        self.stack.append(value)

    def _pop(self) -> Any:
        """The value on top, whatever is done with it; from now on it does not grow."""
        if not self.stack or self.stack[-1] is _MARK:
            raise self._fault("a value is missing")
        return self._used(self.stack.pop())

    def _value(self) -> Any:
        """The same, of which a name is none."""
        found = self._pop()
        if isinstance(found, _Named):
            raise self._fault("a global name stands where a value is to be")
        return found

    def _used(self, value: object) -> Any:
        if isinstance(value, _Unmade):
            if value.meaning is not None:
                raise self._fault("an object is used that has no state yet")
            return value.made
        self.extents.use(value)
        return value

    def _top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            raise self._fault(f"expected a {kind.__name__}")
        return self.stack[-1]

    def _marked(self) -> list[Any]:
        """The values behind the last mark, taken from the stack."""
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                found = [self._used(each) for each in self.stack[index + 1 :]]
                del self.stack[index:]
                return found
        raise self._fault("a mark is missing")

    def _values(self) -> list[Any]:
        """The same, of which names are none."""
        found = self._marked()
        if any(isinstance(each, _Named) for each in found):
            raise self._fault("a global name stands where a value is to be")
        return found

    # -- opcodes
    def _protocol(self) -> None:
        version = self._take(1)[0]
        if version > 4:
            raise self._fault(f"pickle protocol {version} is not TorchScript's")

    def _long(self) -> None:
        length = self._take(1)[0]
        if length > _LONGEST_INT:
            raise self._fault(f"a number of {length} bytes")
        self._push(int.from_bytes(self._take(length), "little", signed=True))

    def _tuple(self, count: int) -> None:
        self._push_tuple([self._pop() for _ in range(count)][::-1])

    def _push_tuple(self, parts: list[object]) -> None:
        made = _tuple_of(parts)
        self.extents.made(made, made)
        self._push(made)

    def _new_container(self, made: Any) -> None:
        self.extents.begin(made, made)
        self._push(made)

    def _extend(self, values: list[object]) -> None:
        found = self._top(list)
        if not self.extents.grow(found, values):
            raise self._fault("a list is changed that is in use already")
        found.extend(values)

    def _set_items(self, values: list[object]) -> None:
        found = self._top(dict)
        self._pay(_ENTRY * len(values) // 2)
        if len(values) % 2:
            raise self._fault("a key without a value")
        if not self.extents.grow(found, values):
            raise self._fault("a dict is changed that is in use already")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not _is_key(key):
                raise self._fault(f"a {type(key).__name__} cannot be a key")
            found[key] = value

    def _set_item(self) -> None:
        value, key = self._value(), self._value()
        self._set_items([key, value])

    def _put(self, index: int) -> None:
        if not self.stack:
            raise self._fault("a value is missing")
        self.memo[index] = self.stack[-1]

    def _get(self, index: int) -> None:
        if index not in self.memo:
            raise self._fault(f"there is no value {index} yet")
        self._push(self.memo[index])

    def _global(self) -> None:
        module, name = self._line(), self._line()
        self._push(_Named(self.find(module, name)))

    def _callee(self) -> PickledGlobal:
        value = self._pop()
        if not isinstance(value, _Named):
            raise self._fault("something that is no global name is called")
        return value.meaning

    def _reduce(self) -> None:
        argument = self._value()
        self._push_result(self._callee().call, argument)

    def _push_result(self, function: Callable[[object], object], argument: object) -> None:
        """What a function that the caller has given makes of a value."""
        self.extents.hand_out(argument)
        made = function(argument)
        self.extents.made(made, (argument,))
        self._push(made)

    def _new_object(self) -> None:
        arguments = self._value()
        if type(arguments) is not tuple or arguments:
            raise self._fault("an object is made with arguments")
        self._push(_Unmade(self._callee()))

    def _build(self) -> None:
        state = self._value()
        unmade = self.stack.pop() if self.stack else None
        if not isinstance(unmade, _Unmade) or unmade.meaning is None:
            raise self._fault("state for something that is no new object")
        meaning, unmade.meaning = unmade.meaning, None
        self._push_result(meaning.build, state)
        unmade.made = self.stack[-1]

    def _persistent(self) -> None:
        if self.persistent is None:
            raise self._fault("a tensor where there can be none")
        self._push_result(self.persistent, self._value())


class _Named:
    """A global name on the stack, which no other value can be taken for."""

    def __init__(self, meaning: PickledGlobal) -> None:
        self.meaning = meaning


def _tuple_of(parts: Iterable[object]) -> tuple[Any, ...]:
    """A tuple; a global name in it is what it means."""
    return tuple(part.meaning if isinstance(part, _Named) else part for part in parts)


_STOP = ord(".")
_ACTIONS: dict[int, Callable[[Unpickler], None]] = {
    0x80: Unpickler._protocol,
    ord("("): lambda u: u._push(_MARK),
    ord("0"): lambda u: (u._pop(), None)[1],
    ord("N"): lambda u: u._push(None),
    0x88: lambda u: u._push(True),
    0x89: lambda u: u._push(False),
    ord("J"): lambda u: u._push(u._number("<i")),
    ord("K"): lambda u: u._push(u._number("<B")),
    ord("M"): lambda u: u._push(u._number("<H")),
    0x8A: Unpickler._long,
    ord("G"): lambda u: u._push(u._number(">d")),
    ord("X"): lambda u: u._push(u._text(u._number("<I"))),
    0x8C: lambda u: u._push(u._text(u._number("<B"))),
    0x8D: lambda u: u._push(u._text(u._number("<Q"))),
    ord(")"): lambda u: u._push(()),
    0x85: lambda u: u._tuple(1),
    0x86: lambda u: u._tuple(2),
    0x87: lambda u: u._tuple(3),
    ord("t"): lambda u: u._push_tuple(u._marked()),
    ord("]"): lambda u: u._new_container([]),
    ord("l"): lambda u: u._new_container(u._values()),
    ord("a"): lambda u: u._extend([u._value()]),
    ord("e"): lambda u: u._extend(u._values()),
    ord("}"): lambda u: u._new_container({}),
    ord("s"): Unpickler._set_item,
    ord("u"): lambda u: u._set_items(u._values()),
    ord("q"): lambda u: u._put(u._number("<B")),
    ord("r"): lambda u: u._put(u._number("<I")),
    ord("h"): lambda u: u._get(u._number("<B")),
    ord("j"): lambda u: u._get(u._number("<I")),
    ord("c"): Unpickler._global,
    ord("R"): Unpickler._reduce,
    0x81: Unpickler._new_object,
    ord("b"): Unpickler._build,
    ord("Q"): Unpickler._persistent,
}
"""What each opcode does."""
_COSTS: dict[int, int] = {
    **dict.fromkeys(b"Q\x85\x86\x87t]l}", 72), **dict.fromkeys(b"JM\x8aG", 40), **dict.fromkeys(b"qr", _ENTRY),
    ord("c"): 200, ord("R"): 500, 0x81: 3000,
}  # fmt: skip
"""About how many bytes an opcode takes where it takes more than a reference, beside its text."""
