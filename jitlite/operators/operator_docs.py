"""`docs/operators.md`, written from the declarations.

Run this file to write it anew: `python -m jitlite.operators.operator_docs > docs/operators.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from jitlite.ir.ops import Effect, Op, declared_ops
from jitlite.ir.traits import Link, Spelling, Trait

_INTRODUCTION = """\
# Operators

Every operator that programs use and torch's dispatcher does not have, generated from the declarations in `jitlite/ir`
by `python -m jitlite.operators.operator_docs`. Operators of the dispatcher are not listed: they are what
[torch documents](https://pytorch.org/docs/stable/torch.html), and `jitlite.ir.ops.lookup("aten::add")` shows them.

Values are Python's: `aten::div(1, 0)` raises ZeroDivisionError and `aten::str(1.0)` is `1.0`. A backquoted
expression is the exact meaning. Marks behind a schema:
"""

_STRUCTURAL = "an instruction of the interpreter, not a function"
_TOTAL = "cannot raise for arguments of its types, so an unused call may be dropped"


def operators_markdown() -> str:
    """The text of `docs/operators.md`."""
    lines = [_INTRODUCTION]
    lines += [f"* *{effect.name.lower()}*: {effect.value}." for effect in Effect if effect is not Effect.PURE]
    lines += [f"* *total*: {_TOTAL}.", f"* *structural*: {_STRUCTURAL}."]
    ours = [o for o in declared_ops() if o.name.partition("::")[0] in _NAMESPACES]  # others may declare more
    for namespace, operators in groupby(sorted(ours, key=_order), key=lambda o: o.name.partition("::")[0]):
        lines += ["", f"## {namespace}"]
        for name, overloads in groupby(operators, key=lambda o: o.name):
            lines += ["", f"### {name}", *_overloads(list(overloads))]
    return "\n".join([*lines, *_known()]) + "\n"


def _known() -> list[str]:
    """What is known of operators beside their schemas, and of which."""
    lines = [
        "",
        "## Traits",
        "",
        "What holds for operators and kinds of nodes beside their schemas: `node.has(Trait.X)`.",
        "",
    ]
    lines += [f"* `{trait.name}`: {trait.promise}. {_listed(trait.kinds)}" for trait in Trait]
    lines += [
        "",
        "## Links and spellings",
        "",
        "Names that belong to a kind: `Link.X.of(kind)`, `Spelling.X.of(kind)`.",
        "",
    ]
    lines += [f"* `{link}`: {link.meaning}. {_listed(link.by_kind)}" for group in (Link, Spelling) for link in group]
    return lines


def _listed(kinds: Iterable[str]) -> str:
    ours = sorted(kind for kind in kinds if kind.partition("::")[0] in _NAMESPACES)
    return ", ".join(f"`{kind}`" for kind in ours)


_NAMESPACES = ("aten", "prim")


def _order(operator: Op) -> tuple[str, str, str]:
    namespace, _, base = operator.name.partition("::")
    return namespace, base.lstrip("_").lower(), operator.name


def _overloads(overloads: Iterable[Op]) -> list[str]:
    """One paragraph for every meaning, with the schemas that have it."""
    lines: list[str] = []
    by_meaning: dict[str, list[Op]] = {}
    for operator in overloads:
        by_meaning.setdefault(operator.doc, []).append(operator)
    for doc, same in by_meaning.items():
        lines += ["", *doc.split("\n"), ""]
        lines += [f"* `{operator.schema}`{_marks(operator)}" for operator in same]
    return [line.strip() for line in lines]


def _marks(operator: Op) -> str:
    marks = [] if operator.effect is Effect.PURE else [operator.effect.name.lower()]
    if operator.total:
        marks.append("total")
    if operator.fn is None:
        marks.append("structural")
    return f" *{', '.join(marks)}*" if marks else ""


if __name__ == "__main__":
    print(operators_markdown(), end="")
