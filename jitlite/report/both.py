"""What two sets of switches make of one function, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jitlite.report.content import SourceLine, Stage
from jitlite.report.diffs import side_by_side
from jitlite.report.stages import Gathered

SIDE_BY_SIDE = "Side by side"
_COMPARED = ("graph", "opt", "regions", "code", "python", "kernels", "llvm", "asm", "explain")
"""The stages that switches may change."""
_ADDRESS = re.compile(r"\d{6,}")
"""Kernels know objects by their addresses, which are others each time."""

_Line = tuple[str, SourceLine]


def add_comparison(first: Gathered, second: Gathered, names: tuple[str, str]) -> None:
    """Put a part before all others of the first for each stage that there is in either, and one that sums them up.

    Args:
        first, second: the same function; places of the second are ids of the sources of the first.
        names: what the two sets of switches are called.
    """
    before, after = _by_name(first.stages), _by_name(second.stages)
    there = [name for name in _COMPARED if name in before or name in after]
    compared = [_compared(name, before.get(name), after.get(name), names) for name in there]
    summary = Stage("stage-both", "what differs", SIDE_BY_SIDE, f"Left: {names[0]}. Right: {names[1]}.")
    summary.sections = {"Stages": [f"{stage.name.removeprefix('both: ')}: {_told(stage)}" for stage in compared]}
    first.stages[:0] = [summary, *compared]


def _by_name(stages: Sequence[Stage]) -> dict[str, Stage]:
    return {stage.name: stage for stage in stages if stage.lines or stage.sections}


def _compared(name: str, before: Stage | None, after: Stage | None, names: tuple[str, str]) -> Stage:
    stage = Stage(f"stage-both-{name}", f"both: {name}", SIDE_BY_SIDE, "The same in both.", heads=names)
    old, new = ([] if one is None else list(_lines(one)) for one in (before, after))
    if [text for text, _ in old] == [text for text, _ in new]:
        return stage
    stage.is_pass = True
    if before is not None and after is not None:
        stage.about = before.about
    else:
        there, lacking = (names[0], names[1]) if after is None else (names[1], names[0])
        stage.about = f"There is one with: {there}. There is none with: {lacking}."
    if after is not None:  # else it is shown as it is, among the stages of the first
        stage.rows = side_by_side(old, new, lambda _, line: line)
    return stage


def _lines(stage: Stage) -> Iterator[_Line]:
    for line in stage.lines:
        yield _ADDRESS.sub("0", line.text), line
    for title, sentences in stage.sections.items():
        for sentence in sentences:
            yield f"{title}: {sentence}", SourceLine(f"{title}: {sentence}")


def _told(stage: Stage) -> str:
    if not stage.rows:
        return stage.about if stage.is_pass else "the same"
    left, right = (
        sum(1 for row in stage.rows if row.kind not in ("same", "skipped") and getattr(row, side) is not None)
        for side in ("old", "new")
    )
    return f"{left} lines differ on the left, {right} on the right"
