"""What a test declares is gone afterwards: operators, passes, and what is known of operators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from jitlite.ir import ops
from jitlite.ir.traits import Link, Spelling, Trait
from jitlite.passes import registry


@contextlib.contextmanager
def restored() -> Iterator[None]:
    registry.names()  # import every pass first, or it would be registered in the copy only
    kinds = {trait: set(trait.kinds) for trait in Trait}
    texts = {naming: (dict(naming.by_kind), dict(naming.kind_of)) for group in (Link, Spelling) for naming in group}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_passes", dict(registry._passes))
        patch.setattr(registry, "_inexact", set(registry._inexact))
        patch.setattr(ops, "_declared", {name: dict(found) for name, found in ops._declared.items()})
        patch.setattr(ops, "_found", dict(ops._found))
        yield
    for trait, before in kinds.items():
        trait.kinds.intersection_update(before)
    for naming, (by_kind, kind_of) in texts.items():
        for now, then in ((naming.by_kind, by_kind), (naming.kind_of, kind_of)):
            now.clear()
            now.update(then)
