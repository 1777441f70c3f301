"""Small matrix products whose rows or columns threads share.

Rows are divided where blocks of them begin, and columns where panels do, so each sum is added up as it would be by one
thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from jitlite.kernels.forks import lost_at
from jitlite.kernels.functions import FunctionBuilder, ProductVectors, SharedFunction
from jitlite.kernels.product_kernels import ROWS, dots, rows
from jitlite.native.capi import pointer

WORK = 1 << 17
"""Multiplications up to which one thread does all: some microseconds, as long as it takes to wake another one."""


@functools.cache
def shared_rows(vectors: ProductVectors, parallel_for: int | None) -> SharedFunction:
    """Does what `rows` does.

    Args:
        vectors: as for `rows`.
        parallel_for: the address of the function that has threads share a loop, if there is one.
    """
    if parallel_for is None:
        return rows(vectors)

    def units(code: FunctionBuilder) -> tuple[str, str]:
        blocks, panels = _units_of(code, "%M", ROWS), _units_of(code, "%N", vectors.panel)
        return code.maximum(blocks, panels), code.value(f"icmp sgt i64 {panels}, {blocks}")

    return _shared(rows(vectors), _part_of_rows(vectors), vectors, parallel_for, units)


@functools.cache
def shared_dots(vectors: ProductVectors, parallel_for: int | None) -> SharedFunction:
    """Does what `dots` does; as `shared_rows`."""
    if parallel_for is None:
        return dots(vectors)
    return _shared(
        dots(vectors),
        _part_of_dots(vectors),
        vectors,
        parallel_for,
        lambda code: (_units_of(code, "%N", vectors.lanes), "false"),
    )


def _units_of(code: FunctionBuilder, size: str, each: int) -> str:
    return code.value(f"udiv i64 {code.add(size, each - 1)}, {each}")


def _shared(
    whole: SharedFunction,
    part: SharedFunction,
    vectors: ProductVectors,
    parallel_for: int,
    units: Callable[[FunctionBuilder], tuple[str, str]],
) -> SharedFunction:
    """A function with the parameters of `whole`, which threads share by calling `part` where there is much to do."""
    code = FunctionBuilder(vectors)
    work = code.multiply(code.multiply("%M", "%N") if "%M" in whole.parameters else "%N", "%K")
    are_there = code.value(f"icmp eq i64 {code.load('i64', pointer(lost_at()))}, 0")
    is_much = code.value(f"and i1 {code.value(f'icmp sgt i64 {work}, {WORK}')}, {are_there}")
    several, alone, done = code.fresh("several"), code.fresh("alone"), code.fresh("done")
    parameters = [parameter.split(" ") for parameter in whole.parameters.split(", ")]
    context = code.slot(f"[{len(parameters) + 1} x i64]")
    code.branch(is_much, several, alone)
    code.label(several)
    count, by_columns = units(code)
    for number, (type, name) in enumerate(parameters):
        code.store(type, name, code.field(context, number))
    code.store("i1", by_columns, code.field(context, len(parameters)))
    each = code.value(f"udiv i64 {work}, {count}")
    grain = code.value(f"udiv i64 {code.add(each, WORK - 1)}, {each}")
    operands = f"i64 0, i64 {count}, i64 {grain}, ptr {part.pointer()}, ptr {context}"
    failed = code.value(f"call i32 {pointer(parallel_for)}({operands})")
    code.branch(code.value(f"icmp ne i32 {failed}, 0"), alone, done)
    code.label(alone)
    whole.call(code, *(name for _, name in parameters))
    code.go(done)
    code.label(done)
    code.emit("ret void")
    return code.finished(f"shared_{whole.name}", whole.parameters)


def _taken(code: FunctionBuilder, whole: SharedFunction) -> tuple[dict[str, str], str]:
    """What `whole` is to be given, by the names of its parameters, and whether columns are shared."""
    parameters = [parameter.split(" ") for parameter in whole.parameters.split(", ")]
    found = {name: code.load(type, code.field("%context", i)) for i, (type, name) in enumerate(parameters)}
    return found, code.load("i1", code.field("%context", len(parameters)))


_PART = "i64 %begin, i64 %end, ptr %context"


@functools.cache
def _part_of_rows(vectors: ProductVectors) -> SharedFunction:
    code, whole = FunctionBuilder(vectors), rows(vectors)
    given, by_columns = _taken(code, whole)
    ways, done = [code.fresh("columns"), code.fresh("rows")], code.fresh("done")
    code.branch(by_columns, *ways)
    code.label(ways[0])
    first, count = _range(code, vectors.panel, given["%N"])
    moved = {
        "%out": code.at(given["%out"], first),
        "%b": code.at(given["%b"], code.multiply("%begin", given["%b.panel"])),
        "%start": _moved(code, given["%start"], first),
        "%N": count,
    }
    whole.call(code, *{**given, **moved}.values())
    code.go(done)
    code.label(ways[1])
    first, count = _range(code, ROWS, given["%M"])
    moved = {
        "%out": code.row(given["%out"], given["%out.m"], first),
        "%a": code.row(given["%a"], given["%a.m"], first),
        "%start": _moved(code, given["%start"], code.multiply(first, given["%start.m"])),
        "%M": count,
    }
    whole.call(code, *{**given, **moved}.values())
    code.go(done)
    code.label(done)
    code.emit("ret void")
    return code.finished(f"part_of_{whole.name}", _PART)


@functools.cache
def _part_of_dots(vectors: ProductVectors) -> SharedFunction:
    code, whole = FunctionBuilder(vectors), dots(vectors)
    given, _ = _taken(code, whole)
    first, count = _range(code, vectors.lanes, given["%N"])
    moved = {
        "%out": code.at(given["%out"], first),
        "%w": code.row(given["%w"], given["%w.n"], first),
        "%start": _moved(code, given["%start"], first),
        "%N": count,
    }
    whole.call(code, *{**given, **moved}.values())
    code.emit("ret void")
    return code.finished(f"part_of_{whole.name}", _PART)


def _range(code: FunctionBuilder, each: int, size: str) -> tuple[str, str]:
    """Where the range begins that a part does, and how long it is."""
    first = code.multiply("%begin", each)
    last = code.minimum(code.multiply("%end", each), size)
    return first, code.value(f"sub i64 {last}, {first}")


def _moved(code: FunctionBuilder, start: str, offset: str) -> str:
    """So many elements behind a pointer, unless it is null."""
    return code.value(f"select i1 {code.is_null(start)}, ptr null, ptr {code.at(start, offset)}")
