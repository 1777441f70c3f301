"""Schemas by PyTorch's names: what tests and tools written for `torch._C.FunctionSchema` ask.

compatible backward    calls written for the old schema mean the same with the new one
compatible forward     calls written for the new schema mean the same with the old one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitlite.ir import types as T
from jitlite.ir.int_codes import INT_CODES, INT_OBJECTS
from jitlite.ir.notebook import schema_html
from jitlite.ir.schema import Argument, Schema, parse_schema
from jitlite.ir.type_parser import AliasInfo
from jitlite.objects.torch_types import TypeView, View, unwrap, view_type

_CONTAINERS = (T.ListType, T.DictType, T.TupleType)


class AliasView(View, of=AliasInfo):
    """The sets that a parameter or result belongs to before and after a call, and whether it is written."""

    inner: AliasInfo

    @property
    def before_set(self) -> set[str]:
        return set(self.inner.before)

    @property
    def after_set(self) -> set[str]:
        return set(self.inner.after)


class ArgumentView(View, of=Argument):
    """A parameter or result."""

    inner: Argument

    @property
    def type(self) -> TypeView:
        return view_type(self.inner.type)

    @property
    def real_type(self) -> TypeView:
        return view_type(self.inner.declared_type)

    @property
    def alias_info(self) -> AliasView | None:
        found = self.inner.alias or self.inner.element_alias
        return None if found is None else AliasView(found)

    @property
    def is_out(self) -> bool:
        return _is_out(self.inner)

    @property
    def N(self) -> int | None:
        return self.inner.size

    @property
    def default_value(self) -> Any:
        """The default, None where there is none.

        A dtype, layout or memory format is given as the number that stands for it, a number for `int[2]` as the list.
        """
        default: Any = self.inner.default
        if self.inner.size is not None and isinstance(default, int | float):
            return [default] * self.inner.size
        return INT_CODES[default] if isinstance(default, INT_OBJECTS) else default

    def has_default_value(self) -> bool:
        return self.inner.has_default


def _is_out(argument: Argument) -> bool:
    return argument.kwarg_only and argument.is_write


class SchemaView(View, of=Schema):
    """A schema."""

    inner: Schema

    def _repr_html_(self) -> str:
        return schema_html(str(self.inner))

    @property
    def arguments(self) -> list[ArgumentView]:
        return [ArgumentView(a) for a in self.inner.arguments]

    @property
    def returns(self) -> list[ArgumentView]:
        return [ArgumentView(a) for a in self.inner.returns]

    @property
    def overload_name(self) -> str:
        return self.inner.overload

    def is_backward_compatible_with(self, old: object) -> bool:
        """Do calls written for the old schema mean the same with this one?"""
        return _is_backward_compatible(self.inner, unwrap(old))

    def check_forward_compatible_with(self, old: object) -> tuple[bool, str]:
        """Do calls written for this schema mean the same with the old one? If not, why not."""
        reason = _why_not_forward(self.inner, unwrap(old))
        return reason is None, reason or ""


def read_schema(text: str) -> Schema:
    """The schema of a text.

    Raises:
        RuntimeError: the text is no schema, or has defaults together with `...`.
    """
    try:
        found = parse_schema(text)
    except ValueError as error:
        if not text.rstrip().endswith(")") or "->" in text:
            raise RuntimeError(str(error)) from None
        found = read_schema(f"{text} -> ()")
    if found.is_vararg and any(a.has_default for a in found.arguments):
        raise RuntimeError("schemas with vararg (...) can't have default value args")
    return found


# -- what fits what


def _is_backward_compatible(new: Schema, old: Schema) -> bool:
    if new.key != old.key or new.is_vararg != old.is_vararg or new.is_varret != old.is_varret:
        return False
    if len(new.returns) != len(old.returns):
        return False
    if not all(_takes_over(was, now) for was, now in zip(old.returns, new.returns, strict=True)):
        return False
    (given, outs), (old_given, old_outs) = _split(new), _split(old)
    if len(given) < len(old_given) or len(outs) < len(old_outs):
        return False
    pairs = [*zip(given, old_given, strict=False), *zip(outs, old_outs, strict=False)]
    return all(_takes_over(now, was) for now, was in pairs) and all(a.has_default for a in given[len(old_given) :])


def _split(schema: Schema) -> tuple[Sequence[Argument], Sequence[Argument]]:
    """The arguments, and those at the end that results are written into."""
    count = next((i for i, a in enumerate(schema.arguments) if _is_out(a)), len(schema.arguments))
    return schema.arguments[:count], schema.arguments[count:]


def _is_same(one: Argument, other: Argument) -> bool:
    marks = [(a.name, a.size, str(a.alias), str(a.element_alias)) for a in (one, other)]
    return marks[0] == marks[1]


def _takes_over(new: Argument, old: Argument) -> bool:
    """Can the new argument be given whatever the old one could?"""
    keeps_default = not old.has_default or (new.has_default and new.default == old.default)
    keeps_position = old.kwarg_only or not new.kwarg_only
    return _is_same(new, old) and keeps_default and keeps_position and T.is_subtype(old.type, new.type)


def _why_not_forward(new: Schema, old: Schema) -> str | None:
    if new.key != old.key or len(new.returns) != len(old.returns):
        return "Function name, overload name and number of returns should be the same"
    (given, outs), (old_given, old_outs) = _split(new), _split(old)
    if len(outs) != len(old_outs):
        return "Function schema should have the same number of out arguments"
    for now, was in zip(given, old_given, strict=False):
        if not _can_be_sent_back(now, was):
            return f"'{now.name}' is not forward compatible with the older version of the schema"
    for added in given[len(old_given) :]:
        start = f"Function schema is not forward compatible since the new argument '{added.name}' of type {added.type}"
        if not added.has_default:
            return f"{start} did not provide a default value."
        if isinstance(T.without_none(added.type), _CONTAINERS) and added.default is not None:
            return f"{start} has a container type as its default value."
    for now, was in zip(outs, old_outs, strict=True):
        if not _can_be_sent_back(now, was):
            return f"Out argument '{now.name}' is not FC with the older version of the schema"
    return None


def _can_be_sent_back(new: Argument, old: Argument) -> bool:
    """Is what the new argument can be given right for the old one?"""
    same_default = new.has_default == old.has_default and new.default == old.default
    return _is_same(new, old) and same_default and T.is_subtype(new.type, old.type)
