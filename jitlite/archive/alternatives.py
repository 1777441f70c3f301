"""The member of an archive that says for which methods other graphs are tried: `optimize_for_inference` asks for it.

A line for each method of the outermost module: its name, and the passes that make the graphs. torch.jit does not read
the member.
"""

from __future__ import annotations

from collections.abc import Collection

from jitlite.ir.types import ClassType
from jitlite.ir.unit import Function

MEMBER = "jitlite/alternatives"


def alternatives_text(type: ClassType) -> str:
    """What the member holds; empty where there is nothing to say."""
    methods = [m for m in type.methods.values() if isinstance(m, Function) and m.alternatives]
    return "".join(f"{' '.join([method.name, *method.alternatives])}\n" for method in methods)


def restore_alternatives(text: str, type: ClassType, known: Collection[str]) -> None:
    """Have what the member asks for tried. What is not known of it is left out.

    Args:
        known: the passes that may be tried.
    """
    for line in text.splitlines():
        name, *passes = line.split() or [""]
        method = type.methods.get(name)
        if isinstance(method, Function):
            method.alternatives = tuple(p for p in dict.fromkeys(passes) if p in known)
