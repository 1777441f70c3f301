"""Machine code of small matrix products: functions for any sizes, which all kernels share.

    rows   out[m, n] = start[m, n] + sum over k of a[m, k] * b[k, n]; columns lie side by side in b
    dots   out[n]    = start[n]    + sum over k of x[k] * w[n, k]; both are dense along k
    fill   copies a matrix
    pack   writes b as `rows` likes it best: panels of columns, in each of which the rows follow one another

A block of sums is kept in registers while k runs. Columns beyond the last full vector are masked: what a masked lane
computes is never stored, so it may be anything.
"""

from __future__ import annotations

import functools

from jitlite.kernels.functions import FunctionBuilder, ProductVectors, SharedFunction

ROWS = 4
"""Rows of a block: each vector of b that is loaded is used for so many."""


# -- columns side by side


@functools.cache
def rows(vectors: ProductVectors) -> SharedFunction:
    """Blocks of rows and vectors of columns, panel by panel.

    The columns of a panel are `b.k` apart along k, and panels are `b.panel` apart. `start` may be null.
    """
    code = FunctionBuilder(vectors)
    full = code.rounded_down("%N", vectors.panel)
    with code.steps("0", full, vectors.panel) as n:
        _rows_of_columns(code, n, vectors.across, None)
    with code.steps(full, "%N", vectors.lanes) as n:
        _rows_of_columns(code, n, 1, code.mask(n, "%N"))
    code.emit("ret void")
    parameters = (
        "ptr %out, i64 %out.m, ptr %a, i64 %a.m, i64 %a.k, ptr %b, i64 %b.panel, i64 %b.k, "
        "ptr %start, i64 %start.m, i64 %M, i64 %N, i64 %K"
    )
    return code.finished(vectors.name("rows"), parameters)


def _rows_of_columns(code: FunctionBuilder, n: str, across: int, mask: str | None) -> None:
    """All rows of some columns."""
    panel = code.value(f"udiv i64 {n}, {code.vectors.panel}")
    within = code.value(f"urem i64 {n}, {code.vectors.panel}")
    b = code.at("%b", code.multiply(panel, "%b.panel"), within)
    blocks = code.rounded_down("%M", ROWS)
    with code.steps("0", blocks, ROWS) as m:
        _block(code, m, n, b, ROWS, across, mask)
    with code.steps(blocks, "%M") as m:
        _block(code, m, n, b, 1, across, mask)


def _block(code: FunctionBuilder, m: str, n: str, b: str, count: int, across: int, mask: str | None) -> None:
    """Some rows of some columns. Few sums are taken twice or more, for different k, and added in the end: they would
    have to wait for one another."""
    numbers = [code.add(m, r) for r in range(count)]
    a = [code.row("%a", "%a.m", number) for number in numbers]

    def step(k: str, sums: list[str]) -> list[str]:
        place = code.row(b, "%b.k", k)
        columns = [code.vector(code.at(place, j * code.vectors.lanes), mask) for j in range(across)]
        offset = code.multiply(k, "%a.k")
        elements = [code.splat(code.load(code.vectors.dtype.lane, code.at(row, offset))) for row in a]
        pairs = [(element, column) for element in elements for column in columns]
        return [code.multiply_add(*pair, total) for pair, total in zip(pairs, sums, strict=True)]

    size = count * across
    times = max(1, 4 // size, 2 // count)
    whole = code.rounded_down("%K", times)
    with code.summing(["zeroinitializer"] * (size * times), "0", whole, times) as loop:
        loop.sums = [s for u in range(times) for s in step(code.add(loop.index, u), loop.sums[u * size :][:size])]
    sums = [functools.reduce(code.sum, loop.sums[i::size]) for i in range(size)]
    if times > 1:
        with code.summing(sums, whole, "%K") as loop:
            loop.sums = step(loop.index, loop.sums)
        sums = loop.sums
    _store(code, sums, numbers, n, across, mask)


def _store(code: FunctionBuilder, sums: list[str], rows: list[str], n: str, across: int, mask: str | None) -> None:
    """Store the sums of a block, with what they start from."""
    place, begin = code.begin("%start", "%out", mask or "splat (i1 true)")
    apart = code.value(f"select i1 {code.is_null('%start')}, i64 %out.m, i64 %start.m")
    for r, row in enumerate(rows):
        start, out = code.row(place, apart, row), code.row("%out", "%out.m", row)
        for j in range(across):
            first = code.vector(code.at(start, n, j * code.vectors.lanes), begin)
            code.put(code.sum(sums[r * across + j], first), code.at(out, n, j * code.vectors.lanes), mask)


# -- dense along k


@functools.cache
def dots(vectors: ProductVectors) -> SharedFunction:
    """As many products of rows at a time as a vector has lanes; their sums end in one vector. `start` may be null."""
    code, lanes = FunctionBuilder(vectors), vectors.lanes
    last = code.add("%N", -1)
    whole = code.rounded_down("%K", lanes)
    with code.steps("0", "%N", lanes) as n:
        w = [code.row("%w", "%w.n", code.minimum(code.add(n, i), last)) for i in range(lanes)]

        def step(k: str, sums: list[str], mask: str | None) -> list[str]:
            x = code.vector(code.at("%x", k), mask)
            return [code.multiply_add(x, code.vector(code.at(w[i], k), mask), sums[i]) for i in range(lanes)]

        with code.summing(["zeroinitializer"] * lanes, "0", whole, lanes) as loop:
            loop.sums = step(loop.index, loop.sums, None)
        with code.summing(loop.sums, whole, "%K", lanes) as rest:
            rest.sums = step(rest.index, rest.sums, code.mask(rest.index, "%K"))
        mask = code.mask(n, "%N")
        place, begin = code.begin("%start", "%out", mask)
        first = code.vector(code.at(place, n), begin)
        code.put(code.sum(_sums_of_lanes(code, rest.sums), first), code.at("%out", n), mask)
    code.emit("ret void")
    return code.finished(vectors.name("dots"), "ptr %out, ptr %x, ptr %w, i64 %w.n, ptr %start, i64 %N, i64 %K")


def _sums_of_lanes(code: FunctionBuilder, held: list[str]) -> str:
    """A vector whose lane i is the sum of the lanes of the vector i."""
    distance = 1
    while len(held) > 1:
        pairs = zip(held[::2], held[1::2], strict=True)
        held = [code.sum(*code.exchanged(a, b, distance)) for a, b in pairs]
        distance *= 2
    return held[0]


# -- copies


@functools.cache
def fill(vectors: ProductVectors) -> SharedFunction:
    """Copies a matrix with any strides to one whose columns lie side by side."""
    code = FunctionBuilder(vectors)
    element = vectors.dtype.lane
    ways = [code.fresh("dense"), code.fresh("strided")]
    code.branch(code.value("icmp eq i64 %in.n, 1"), *ways)
    code.label(ways[0])
    with code.steps("0", "%M") as m:
        source, target = code.row("%in", "%in.m", m), code.row("%out", "%out.m", m)
        with code.steps("0", "%N", vectors.lanes) as n:
            mask = code.mask(n, "%N")
            code.put(code.vector(code.at(source, n), mask), code.at(target, n), mask)
    code.emit("ret void")
    code.label(ways[1])
    with code.steps("0", "%M") as m:
        source, target = code.row("%in", "%in.m", m), code.row("%out", "%out.m", m)
        with code.steps("0", "%N") as n:
            code.store(element, code.load(element, code.row(source, "%in.n", n)), code.at(target, n))
    code.emit("ret void")
    return code.finished(vectors.name("fill"), "ptr %out, i64 %out.m, ptr %in, i64 %in.m, i64 %in.n, i64 %M, i64 %N")


# -- packing


@functools.cache
def pack(vectors: ProductVectors) -> SharedFunction:
    """Writes b[k, n], whatever its strides, in panels, of which the last one has room for all its columns, too."""
    code = FunctionBuilder(vectors)
    ways = [code.fresh("dense"), code.fresh("others"), code.fresh("rows"), code.fresh("strided")]
    code.branch(code.value("icmp eq i64 %b.k, 1"), *ways[:2])
    code.label(ways[0])
    with code.steps("0", "%N", vectors.lanes) as n, code.steps("0", "%K", vectors.lanes) as k:
        _pack_square(code, n, k)
    code.emit("ret void")
    code.label(ways[1])
    code.branch(code.value("icmp eq i64 %b.n, 1"), *ways[2:])
    code.label(ways[2])
    with code.steps("0", "%N", vectors.lanes) as n:
        _pack_columns(code, n)
    code.emit("ret void")
    code.label(ways[3])
    with code.steps("0", "%N") as n:
        source, target = code.row("%b", "%b.n", n), _column(code, n)
        with code.steps("0", "%K") as k:
            element = code.load(vectors.dtype.lane, code.row(source, "%b.k", k))
            code.store(vectors.dtype.lane, element, code.at(target, code.multiply(k, vectors.panel)))
    code.emit("ret void")
    return code.finished(vectors.name("pack"), "ptr %out, ptr %b, i64 %b.k, i64 %b.n, i64 %N, i64 %K")


def _column(code: FunctionBuilder, n: str) -> str:
    """Where a column begins in panels."""
    size = code.vectors.panel
    panel = code.multiply(code.rounded_down(n, size), "%K")
    return code.at("%out", panel, code.value(f"urem i64 {n}, {size}"))


def _pack_columns(code: FunctionBuilder, n: str) -> None:
    """As many columns as a vector has lanes, which lie side by side."""
    mask = code.mask(n, "%N")
    source, target = code.at("%b", n), _column(code, n)
    with code.steps("0", "%K") as k:
        columns = code.vector(code.row(source, "%b.k", k), mask)
        code.put(columns, code.at(target, code.multiply(k, code.vectors.panel)))


def _pack_square(code: FunctionBuilder, n: str, k: str) -> None:
    """As many columns as a vector has lanes, and as much along k: a matrix that is transposed in registers."""
    lanes = code.vectors.lanes
    last = code.add("%N", -1)
    mask = code.mask(k, "%K")
    numbers = [code.minimum(code.add(n, i), last) for i in range(lanes)]
    held = [code.vector(code.at(code.row("%b", "%b.n", number), k), mask) for number in numbers]
    distance = 1
    while distance < lanes:
        for i in range(lanes):
            if not i & distance:
                held[i], held[i + distance] = code.exchanged(held[i], held[i + distance], distance)
        distance *= 2
    target = _column(code, n)
    for i in range(lanes):
        number = code.add(k, i)
        with code.unless(code.value(f"icmp sge i64 {number}, %K")):
            code.put(held[i], code.at(target, code.multiply(number, code.vectors.panel)))
