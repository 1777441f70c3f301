"""Memory of buffers that nobody reads any more becomes that of later ones.

The layers of a network compute in buffers of the same sizes, one behind the other. Each in memory of its own would
fill more than the processor's caches hold. A buffer that needs as much as an earlier one, whatever the sizes are, takes
its memory; what nobody takes so is freed, for buffers that turn out to need no more when the kernel runs.

It is the same: only a buffer gives up its memory that no other one shares (no `Bind` and no `Swap` names it), whose
`Alloc` is the first statement that names it, and all of whose statements stand in one list, before the one that takes
the memory. So nothing reads it later: not in the next iteration of a loop around, where it is allocated again first,
and not behind the list. The memory lasts as long as that of the taker would, for both are of one level, and is as
large, for the sizes of both have the same factors.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from jitlite.base.records import Record, replace
from jitlite.kernels.loop_ir import (
    Alloc,
    Bind,
    Branch,
    Buffer,
    Free,
    Kernel,
    MemoryNeed,
    Owner,
    Repeat,
    Scalar,
    Statement,
    Swap,
)
from jitlite.kernels.statement_walks import all_statements


def reuse_memory(kernel: Kernel) -> None:
    """Have buffers take the memory of those that are done."""
    reuse = _Reuse(kernel)
    kernel.body = reuse.block(kernel.body)


_S = TypeVar("_S", bound=Statement)


class _Reuse:
    """Goes through the statements of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._origins = kernel.origins
        self._named: dict[Statement, frozenset[Buffer]] = {}
        self._total: Counter[Buffer] = Counter()
        self._shared: set[Buffer] = set()
        for statement in all_statements(kernel.body):
            if isinstance(statement, Bind):
                self._shared |= {statement.buffer, statement.source}
            elif isinstance(statement, Swap):
                self._shared |= {statement.first, statement.second}
            if not isinstance(statement, Branch | Repeat):
                self._named[statement] = _buffers_of(statement)
                self._total.update(self._named[statement])

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements of a list, and those within them."""
        made, done = [], self._done(statements)
        waiting: defaultdict[MemoryNeed, list[Buffer]] = defaultdict(list)
        for number, statement in enumerate(statements):
            if isinstance(statement, Alloc):
                statement = self._with_memory(statement, waiting)
            elif isinstance(statement, Repeat):
                statement = self._replaced(statement, body=self.block(statement.body))
            elif isinstance(statement, Branch):
                then, otherwise = self.block(statement.then), self.block(statement.otherwise)
                statement = self._replaced(statement, then=then, otherwise=otherwise)
            made.append(statement)
            for alloc in done.get(number, ()):
                waiting[alloc.need].append(alloc.buffer)
        freed = {number: [a for a in allocs if a.buffer in waiting[a.need]] for number, allocs in done.items()}
        return list(self._with_frees(made, freed))

    def _with_frees(self, statements: Sequence[Statement], freed: dict[int, list[Alloc]]) -> Iterator[Statement]:
        """The statements of a list, and what is free behind each of them, where memory is taken later on."""
        last = {s.level: number for number, one in enumerate(statements) for s in _takers([one])}
        for number, statement in enumerate(statements):
            yield statement
            for alloc in freed.get(number, ()):
                if last.get(alloc.level, 0) > number:
                    yield Free(alloc.buffer, alloc.sizes, alloc.level)

    def _done(self, statements: Sequence[Statement]) -> dict[int, list[Alloc]]:
        """By the number of a statement, the buffers that nothing names behind it. They give up their memory."""
        here: Counter[Buffer] = Counter()
        last: dict[Buffer, int] = {}
        allocs: dict[Buffer, Alloc] = {}
        for number, statement in enumerate(statements):
            if isinstance(statement, Alloc) and statement.buffer not in last:
                allocs[statement.buffer] = statement
            for inner in all_statements([statement]):
                for buffer in self._named.get(inner, ()):
                    here[buffer] += 1
                    last[buffer] = number
        found: defaultdict[int, list[Alloc]] = defaultdict(list)
        for buffer, alloc in allocs.items():
            is_local = here[buffer] == self._total[buffer] and buffer not in self._shared
            if is_local and buffer.owner is Owner.ARENA:
                found[last[buffer]].append(alloc)
        return found

    def _with_memory(self, alloc: Alloc, waiting: dict[MemoryNeed, list[Buffer]]) -> Alloc:
        there = waiting.get(alloc.need)
        if not there or alloc.buffer.owner is not Owner.ARENA:
            return alloc
        return self._replaced(alloc, reuses=there.pop())  # the latest one is the likeliest to be in a cache

    def _replaced(self, statement: _S, **changes: object) -> _S:
        made = replace(statement, **changes)
        origins = self._origins.get(statement)
        if origins is not None:
            self._origins[made] = origins
        return made


def _takers(statements: Sequence[Statement]) -> Iterator[Alloc]:
    """Statements that take fresh memory."""
    for statement in all_statements(statements):
        if isinstance(statement, Alloc) and statement.reuses is None and statement.buffer.owner is Owner.ARENA:
            yield statement


def _buffers_of(statement: Statement) -> frozenset[Buffer]:
    """The buffers that a statement names. Lanes are looked at once, however often they are used."""
    found: set[Buffer] = set()
    seen: set[int] = set()
    pending: list[object] = [statement]
    while pending:
        one = pending.pop()
        if isinstance(one, Buffer):
            found.add(one)
        elif isinstance(one, tuple | list):
            pending += one
        elif isinstance(one, Record) and not isinstance(one, Scalar) and id(one) not in seen:
            seen.add(id(one))
            pending += [getattr(one, name) for name in one.field_names]
    return frozenset(found)
