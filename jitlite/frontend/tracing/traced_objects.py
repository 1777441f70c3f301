"""Objects of dataclasses among the inputs and results of a trace.

An input is an object of the class type of its dataclass. Its tensors, its numbers and what contains these are read
from it (`prim::GetAttr`). A bool, a string or None decides in Python what is traced, so the trace is for this very
value, and raises for another one. A result is made anew (`prim::CreateObject`), unless it is the input, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from jitlite.base.dataclass_values import fields_of, with_fields
from jitlite.frontend.tracing.recorder import Recorder
from jitlite.frontend.tracing.trace_values import is_fixed
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.values import class_type_of

_OTHER = "{}.{} was {!r} when the function was traced, and the trace is only for that"
_MISSING = "{}.{} was not None when the function was traced, and the trace is only for that"
_SET = "the traced function sets '{}' of an argument of the class {}, which a trace cannot: give another object"
_UNLIKE = "{}.{} is declared as {}, and in the result of the traced function it is a {}"


class TracedObjects:
    """The objects that are inputs of a trace."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._taken_apart: list[tuple[object, dict[str, object], Value]] = []

    def take_apart(self, value: Value, example: object, bind: Callable[[Value, object], object]) -> object:
        """What the traced function is to be given in place of an input.

        Args:
            bind: gives what it is to find in place of a field.
        """
        assert isinstance(value.type, T.ClassType)
        parts: dict[str, object] = {}
        for name, read, field in self._recorder.fields(value, example):
            if is_fixed(field):
                self._check(value.type, name, read, field)
                parts[name] = field
            else:
                parts[name] = bind(self._present(value.type, name, read), field)
        made = with_fields(example, parts)
        self.note(made, value)
        return made

    def note(self, made: object, value: Value) -> None:
        """Remember what the traced function is given for an input."""
        self._taken_apart.append((made, fields_of(made) or {}, value))

    def _check(self, owner: T.ClassType, name: str, read: Value, field: object) -> None:
        """Raise in calls in which a field is another one than in the example."""
        recorder = self._recorder
        if field is None:
            differs = recorder.op("aten::__isnot__", read, None)
        else:
            differs = recorder.op("aten::ne", self._present(owner, name, read), field)
        self._raise_if(differs, _OTHER.format(owner.annotation, name, field))

    def _present(self, owner: T.ClassType, name: str, read: Value) -> Value:
        """A field that is not None in the example, and may be None in calls: these raise."""
        if T.without_none(read.type) is read.type:
            return read
        is_none = self._recorder.op("aten::__is__", read, None)
        self._raise_if(is_none, _MISSING.format(owner.annotation, name))
        return self._recorder.op("aten::_unwrap_optional", read)

    def _raise_if(self, test: Value, text: str) -> None:
        recorder = self._recorder
        branch = recorder.graph.insert("prim::If", [test])
        with recorder.graph.inserting_at_end(branch.add_block()):
            message = recorder.graph.insert_constant(text)
            kind = recorder.graph.insert_constant("builtins.ValueError")
            recorder.graph.insert("prim::RaiseException", [message, kind])
        branch.add_block()

    def check_unchanged(self) -> None:
        """Refuse a function that has set a field of an input: in later calls nothing would be set.

        Raises:
            RuntimeError: it has.
        """
        for made, parts, _ in self._taken_apart:
            for name, field in (fields_of(made) or {}).items():
                if field is not parts.get(name):
                    raise RuntimeError(_SET.format(name, type(made).__name__))

    def result(self, result: object, value_of: Callable[[object], Value]) -> Value | None:
        """The value of an object that a traced function gives; None for anything else.

        Raises:
            RuntimeError: a field is of another type than the class declares.
        """
        known = next((value for made, _, value in self._taken_apart if made is result), None)
        fields, owner = fields_of(result), class_type_of(result)
        if known is not None or fields is None or owner is None:
            return known
        made = self._recorder.graph.insert("prim::CreateObject", [], [owner]).output
        for name, field in fields.items():
            is_constant = is_fixed(field) or type(field) in (int, float)  # those that are followed are of other types
            self._set(made, owner, name, self._recorder.constant(field) if is_constant else value_of(field))
        return made

    def _set(self, made: Value, owner: T.ClassType, name: str, value: Value) -> None:
        declared = owner.attributes.get(name)
        if declared is None or not T.is_subtype(value.type, declared):
            raise RuntimeError(_UNLIKE.format(owner.annotation, name, declared and declared.annotation, value.type))
        self._recorder.graph.insert("prim::SetAttr", [made, value], [], {"name": name})
