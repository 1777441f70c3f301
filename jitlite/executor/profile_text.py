"""A profile as a table: the source, and beside each line what it has cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitlite.base.source import Source
from jitlite.interpreter.debugging.scopes import shown_path
from jitlite.interpreter.line_profiler import LineCost

_MOST_OPERATORS = 3
_HEAD = f"{'line':>9} {'count':>8} {'ms':>10} {'share':>7} {'own ms':>10} {'memory':>9}  source"


def table_of(name: str, seconds: float, lines: Sequence[LineCost], what_ran: str) -> str:
    """The text of a profile: for each file the lines of the functions that ran."""
    parts = [f"{name}: {1e3 * seconds:.3f} ms", what_ran, ""]
    for source, costs in _by_source(lines).items():
        parts += [shown_path(source.filename or "<string>"), _HEAD, *_rows(source, costs, seconds), ""]
    return "\n".join(parts)


def _by_source(lines: Sequence[LineCost]) -> dict[Source, list[LineCost]]:
    found: dict[Source, list[LineCost]] = {}
    for cost in lines:
        found.setdefault(cost.key.source, []).append(cost)
    return found


def _rows(source: Source, costs: Sequence[LineCost], total: float) -> Iterator[str]:
    """The lines of a source from the head of the first function that ran to the last line that did."""
    at: dict[int, list[LineCost]] = {}
    for cost in costs:
        at.setdefault(cost.key.line, []).append(cost)
    for line in range(_head_of(source, min(at)), max(cost.key.last_line for cost in costs) + 1):
        text = source.line_text(line - source.first_line)
        for cost in at.get(line, ()):
            if cost.key.is_region:
                yield f"{_numbers(cost, total)}  {_of_region(cost)}"
        plain = [cost for cost in at.get(line, ()) if not cost.key.is_region]
        yield f"{_numbers(plain[0], total)}  {text}{_operators(plain[0])}" if plain else f"{line:>9}{'':>50}  {text}"


def _of_region(cost: LineCost) -> str:
    if cost.bailouts == cost.count:
        return "(no machine code for these lines yet: Python was asked each time)"
    gave_up = f", which gave up {cost.bailouts} times" if cost.bailouts else ""
    return f"(machine code for these lines{gave_up})"


def _head_of(source: Source, line: int) -> int:
    """The line of the `def` above a line, or the line itself."""
    for index in range(line - source.first_line, -1, -1):
        if source.line_text(index).lstrip().startswith(("def ", "async def ", "lambda ")):
            return index + source.first_line
    return line


def _numbers(cost: LineCost, total: float) -> str:
    key = cost.key
    lines = f"{key.line}-{key.last_line}" if key.last_line > key.line else str(key.line)
    share = cost.seconds / total if total else 0.0
    return (
        f"{lines:>9} {cost.count:>8} {1e3 * cost.seconds:>10.3f} {share:>7.1%} {1e3 * cost.own_seconds:>10.3f} "
        f"{_bytes(cost.allocated):>9}"
    )


def _operators(cost: LineCost) -> str:
    shown = [f"{name} {count}" for name, count in cost.operators.most_common(_MOST_OPERATORS)]
    more = len(cost.operators) - len(shown)
    return f"    # {', '.join(shown)}{f' and {more} more' if more > 0 else ''}" if shown else ""


def _bytes(count: int) -> str:
    if not count:
        return ""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
