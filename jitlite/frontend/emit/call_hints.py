"""Ways out, where the arguments of a call do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.source import CompileError
from jitlite.frontend.emit.builder import Builder
from jitlite.ir import types as T
from jitlite.operators.overloads import NamedValue

Args = Sequence[NamedValue]


def hint_for_empty_list(b: Builder, subject: NamedValue | None, args: Args) -> str | None:
    """What to do about `[]`, which is a List[Tensor], when something else is put into it."""
    if subject is None or subject.value is None or not args or subject.value.type is not T.ListType.of(T.TENSOR):
        return None
    element = args[-1].type
    name = subject.value.node.attributes.get("name", "xs") if subject.value.node.kind == "prim::Load" else "xs"
    return f"an empty `[]` is a List[Tensor]; annotate it: `{name}: List[{element.annotation}] = []`"


def hint_for_unannotated(b: Builder, args: Args, error: CompileError) -> str | None:
    """What to do about a parameter that is a Tensor for want of an annotation, where no overload takes a Tensor."""
    if not any("but instead found type 'Tensor'" in note for note in error.notes):
        return None
    for name in (b.unannotated(a.value) for a in args if a.value is not None):
        if name is not None:
            return (
                f"Inferred the value for argument '{name}' to be of type 'Tensor' because it was not annotated with an "
                f"explicit type: annotate it, such as `{name}: int`"
            )
    return None
