"""Dataclasses that are compiled whole, with each of their options: what the generated methods do."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import List

import pytest

import jitlite

OPTIONS = ("order", "frozen", "unsafe_hash", "kw_only", "slots", "repr", "eq")


def with_options(**options: bool) -> type:
    @dataclass(**options)
    class Point:
        x: int
        name: str = "p"
        parts: List[int] = field(default_factory=list, hash=False, repr=False)

    return Point


def differing(chosen: tuple[str, ...]) -> dict[str, bool]:
    return {name: name not in ("repr", "eq") for name in chosen}


CHOICES = [c for n in (0, 1, 2) for c in itertools.combinations(OPTIONS, n) if not {"order", "eq"} <= set(c)]


@pytest.mark.parametrize("chosen", CHOICES, ids=lambda c: "+".join(c) or "plain")
def test_a_dataclass_is_compiled_with_all_of_its_methods(chosen):
    options = differing(chosen)
    Point = with_options(**options)
    jitlite.script(Point)

    def use(n: int) -> str:
        p, q = Point(x=n), Point(x=n + 1, name="q", parts=[1])
        return f"{p.x}{p.name}{len(q.parts)}"

    def shown(n: int) -> str:
        return f"{Point(x=n, parts=[n])}"

    def compared(n: int) -> List[bool]:
        p, q = Point(x=n), Point(x=3)
        return [p == q, p != q]

    def ordered(n: int) -> List[bool]:
        p, q = Point(x=n), Point(x=3)
        return [p < q, p <= q, p > q, p >= q]

    def hashed(n: int) -> bool:
        return hash(Point(x=n)) == hash(Point(x=n, parts=[2]))

    programs = [use]
    programs += [shown] if options.get("repr", True) else []
    programs += [compared] if options.get("eq", True) else []
    programs += [ordered] if options.get("order") else []
    programs += [hashed] if options.get("unsafe_hash") else []
    for program in programs:
        scripted = jitlite.script(program)
        for n in (2, 3, 4):
            assert scripted(n) == program(n)


@dataclass
class Shown:
    a: int


def in_str(n: int) -> str:
    return str(Shown(n))


def in_f_string(n: int) -> str:
    return f"{Shown(n)}"


def in_format(n: int) -> str:
    return "{}".format(Shown(n))  # noqa: UP032


def in_list(n: int) -> str:
    return f"{[Shown(n)]} {n}"


def in_percent(n: int) -> str:
    return "%s" % Shown(n)  # noqa: UP031


def in_print(n: int) -> str:
    print(Shown(n))
    return "printed"


@pytest.mark.parametrize("program", [in_str, in_f_string, in_format, in_list, in_percent, in_print])
def test_what_python_makes_of_an_object_has_no_place_in_an_archive(program, capsys):
    scripted = jitlite.script(program)
    assert (scripted(3), capsys.readouterr().out) == (program(3), capsys.readouterr().out)
    with pytest.raises(jitlite.NotSupportedError, match=r"test_dataclasses\.py:\d+:\d+: TorchScript has no text of"):
        scripted.save_to_buffer()
