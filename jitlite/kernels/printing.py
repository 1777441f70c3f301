"""The text of a kernel.

    kernel scale:
      argument 0: a : f32[%n] dense
      argument 1: %by : float
      alloc result b : f32[%n]
      nest i0 < %n:
        b[i0] = mul(load a[i0], f32(%by))
      give b

Elements are written by where they are in their buffer: `a[%o + i0*%s + i1]`. A lane that is used more than once in a
nest has a name there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import singledispatch
from itertools import zip_longest

from jitlite.ir import types as T
from jitlite.kernels import loop_ir as L
from jitlite.kernels.lane_trees import operands_of
from jitlite.kernels.loop_ir import DTYPES, Kernel, Lane, Operand, Place, Statement
from jitlite.kernels.loop_orders import chunked_dim, parallel_dims

_INDENT = "  "
Placed = tuple[str, Statement | None]
"""A line, and the statement that it is of."""


def text_of(kernel: Kernel) -> str:
    """A kernel as text, a statement a line."""
    return "\n".join([*(line for line, _ in placed_lines_of(kernel)), ""])


def placed_lines_of(kernel: Kernel) -> Iterator[Placed]:
    """The lines of a kernel, each with its statement if it is of one."""
    yield f"kernel {kernel.name}:", None
    for argument in kernel.arguments:
        yield _INDENT + _argument(argument), None
    if kernel.default_dtype is not None:
        yield f"{_INDENT}default dtype {DTYPES[kernel.default_dtype]}", None
    for line, statement in _placed(kernel.body):
        yield _INDENT + line, statement
    given = [_output(output) for output in kernel.outputs]
    yield f"{_INDENT}give " + (_tuple(given) if kernel.gives_tuple else ", ".join(given)), None


def lines_of(statements: Sequence[Statement]) -> list[str]:
    """Statements as text."""
    return [line for line, _ in _placed(statements)]


def _placed(statements: Sequence[Statement]) -> Iterator[Placed]:
    for statement in statements:
        if isinstance(statement, L.Branch):
            yield f"if {statement.condition!r}:", statement
            yield from _within(statement, statement.then)
            if statement.otherwise:
                yield "else:", statement
                yield from _within(statement, statement.otherwise)
        elif isinstance(statement, L.Repeat):
            yield _loop(statement), statement
            yield from _within(statement, statement.body)
        else:
            yield from ((line, statement) for line in _lines(statement))


def _within(outer: Statement, statements: Sequence[Statement]) -> Iterator[Placed]:
    for line, statement in _placed(statements) if statements else [("pass", outer)]:
        yield _INDENT + line, statement


def _indented(lines: Sequence[str]) -> list[str]:
    return [_INDENT + line for line in lines]


def _list(operands: Sequence[Operand]) -> str:
    return f"[{', '.join(map(repr, operands))}]"


def _tuple(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


# -- what comes in and what is given


def _argument(argument: L.Argument) -> str:
    where = "held:" if argument.position < 0 else f"argument {argument.position}:"
    if isinstance(argument, L.NoneInput):
        return f"{where} none"
    if isinstance(argument, L.SizesInput):
        return f"{where} sizes {_list(argument.sizes)}"
    if isinstance(argument, L.DtypeInput):
        return f"{where} dtype {argument.dtype}"
    if isinstance(argument, L.ScalarInput):
        return f"{where} {argument.scalar} : {argument.scalar.type}" + (" outside" if argument.is_outside else "")
    text = f"{where} {argument.buffer} : {argument.buffer.dtype}{_list(argument.sizes)}"
    if not argument.is_dense:
        text += f" strides {_list(argument.strides)}"
    if list(argument.order) != sorted(argument.order):
        text += f" order {list(argument.order)}"
    return text + (" dense" if argument.is_dense else "")


def _output(output: L.Output) -> str:
    if isinstance(output, tuple):
        return _tuple([_output(part) for part in output])
    if isinstance(output, L.Given):
        return f"argument {output.position}"
    if isinstance(output, L.NewTensor):
        return repr(output.buffer)
    if isinstance(output, L.BoxedSizes):
        return _list(output.sizes)
    return "none" if output.value is None else repr(output.value)


# -- elements


def _element(place: Place, indices: Sequence[str]) -> str:
    """An element of a place, by where it is in the buffer. Kernels that are wrong are shown, too: "?" is missing."""
    terms = [] if place.offset == 0 else [repr(place.offset)]
    for index, stride in zip_longest(indices, map(repr, place.strides), fillvalue="?"):
        if stride != "0":
            terms.append(index if stride == "1" else f"{index}*{stride}")
    return f"{place.buffer}[{' + '.join(terms) or '0'}]"


def _points(rank: int) -> list[str]:
    return [f"i{d}" for d in range(rank)]


def _space(sizes: Sequence[Operand], names: Sequence[str]) -> str:
    return ", ".join(f"{name} < {size!r}" for name, size in zip(names, sizes, strict=False))


# -- lanes


class _LaneTexts:
    """The lanes of one nest.

    Attributes:
        lines: those that have got names.
    """

    def __init__(self, rank: int, lanes: Sequence[Lane]) -> None:
        self.lines: list[str] = []
        self._indices = _points(rank)
        self._uses = Counter[Lane](lanes)
        self._names: dict[Lane, str] = {}
        seen = set(lanes)
        pending = list(seen)
        while pending:
            for operand in operands_of(pending.pop()):
                self._uses[operand] += 1
                if operand not in seen:
                    seen.add(operand)
                    pending.append(operand)

    def text(self, lane: Lane) -> str:
        if lane in self._names:
            return self._names[lane]
        text = self._text(lane)
        if self._uses[lane] < 2 or isinstance(lane, L.Fill | L.Position):
            return text
        name = self._names[lane] = f"t{len(self._names)}"
        self.lines.append(f"{name} = {text}")
        return name

    def _text(self, lane: Lane) -> str:
        if isinstance(lane, L.Load):
            return f"load {_element(lane.place, self._indices)}"
        if isinstance(lane, L.Fill):
            return repr(lane.value) if _is_natural(lane) else f"{lane.dtype}({lane.value!r})"
        if isinstance(lane, L.Position):
            return f"i{lane.dim}"
        if isinstance(lane, L.Gather):
            return self._gather(lane)
        operands = ", ".join(map(self.text, operands_of(lane)))
        return f"{lane.op if isinstance(lane, L.LaneOperator) else lane.dtype}({operands})"

    def _gather(self, lane: L.Gather) -> str:
        place, parts = lane.place, []
        for index, size, stride in zip_longest(lane.indices, place.sizes, place.strides, fillvalue=0):
            text = f"i{index}" if isinstance(index, int) else self.text(index)
            parts.append(f"{text} of {size!r} by {stride!r}")
        start = "" if place.offset == 0 else f" from {place.offset!r}"
        return f"gather {place.buffer}{start}[{', '.join(parts)}]" + ("" if lane.wraps else " from 0 on")


def _is_natural(lane: L.Fill) -> bool:
    """Does the value itself tell the type? A float that is known is taken to be of the type around it."""
    value, dtype = lane.value, lane.dtype
    if isinstance(value, L.Scalar):
        return (value.type, dtype) in ((T.FLOAT, L.F64), (T.INT, L.I64), (T.BOOL, L.BOOL))
    kinds = {bool: dtype is L.BOOL, int: dtype is L.I64, float: dtype.is_float}
    return kinds[type(value)]


# -- statements


@singledispatch
def _lines(statement: Statement) -> Iterator[str]:
    raise AssertionError(f"no text for {type(statement).__name__}")
    yield


@_lines.register
def _operation(statement: L.NodeOperation) -> Iterator[str]:
    results = ", ".join(map(repr, statement.results))
    call = f"{statement.node.kind}({', '.join(map(repr, statement.operands))})"
    yield f"{results} = {call}" if results else call


@_lines.register
def _index(statement: L.SizeArithmetic) -> Iterator[str]:
    yield f"{statement.result} = {statement.op} {', '.join(map(repr, statement.operands))}"


@_lines.register
def _convert(statement: L.Convert) -> Iterator[str]:
    yield f"{statement.result} = {statement.result.type}({statement.value!r})"


@_lines.register
def _check(statement: L.Check) -> Iterator[str]:
    yield f"check {statement.condition!r}  # {statement.reason}"


@_lines.register
def _get(statement: L.Get) -> Iterator[str]:
    yield f"{statement.result} = {statement.variable}"


@_lines.register
def _set(statement: L.Set) -> Iterator[str]:
    yield f"{statement.variable} = {statement.value!r}"


@_lines.register
def _read(statement: L.Read) -> Iterator[str]:
    yield f"{statement.result} = load {_element(statement.place, ())}"


@_lines.register
def _alloc(statement: L.Alloc) -> Iterator[str]:
    buffer = statement.buffer
    text = (
        f"alloc {'result ' if buffer.owner is L.Owner.RESULT else ''}{buffer} : {buffer.dtype}{_list(statement.sizes)}"
    )
    if statement.strides is not None:
        text += f" strides {_list(statement.strides)}"
    text += f" until the end of loop {statement.level}" if statement.level else ""
    yield text + ("" if statement.reuses is None else f" in the memory of {statement.reuses}")


@_lines.register
def _free(statement: L.Free) -> Iterator[str]:
    yield f"free {statement.buffer}"


@_lines.register
def _bind(statement: L.Bind) -> Iterator[str]:
    yield f"bind {statement.buffer} = {statement.source}[{statement.offset!r}]"


@_lines.register
def _swap(statement: L.Swap) -> Iterator[str]:
    yield f"swap {statement.first}, {statement.second}"


@_lines.register
def _nest(statement: L.Nest) -> Iterator[str]:
    indices = _points(len(statement.sizes))
    yield (f"nest {_space(statement.sizes, indices)}:" if indices else "nest:") + _parallel(statement)
    lanes = _LaneTexts(len(indices), [store.lane for store in statement.stores])
    for store in statement.stores:
        text = lanes.text(store.lane)
        lanes.lines.append(f"{_element(store.place, indices)} = {text}")
    yield from _indented(lanes.lines)


def _parallel(statement: L.Nest | L.Reduce) -> str:
    """Which loops threads may share. Kernels that are wrong are shown, too: their places may lack strides."""
    places = [s.place for s in statement.stores] if isinstance(statement, L.Nest) else [statement.place]
    if any(len(place.strides) != len(statement.sizes) for place in places):
        return ""
    chunked = chunked_dim(statement) if isinstance(statement, L.Reduce) else None
    shared = [f"i{d}" for d in sorted(parallel_dims(statement))] if chunked is None else [f"chunks of i{chunked}"]
    return f"  # parallel: {', '.join(shared)}" if shared else ""


@_lines.register
def _reduce(statement: L.Reduce) -> Iterator[str]:
    indices = _points(len(statement.sizes))
    yield f"reduce {_space(statement.sizes, indices)}:{_parallel(statement)}"
    lanes = _LaneTexts(len(indices), [statement.lane])
    text = lanes.text(statement.lane)
    places = [statement.place] if statement.positions is None else [statement.place, statement.positions]
    results = ", ".join(_element(place, indices) for place in places)
    over = ", ".join(f"i{d}" for d in sorted(statement.dims))
    yield from _indented([*lanes.lines, f"{results} = {statement.op} over {over} of {text}"])


@_lines.register
def _sort(statement: L.Sort) -> Iterator[str]:
    length, count = (place.sizes[-1] for place in (statement.keys, statement.positions))
    yield f"sort {_space(statement.keys.sizes[:-1], ['i0'])}:"
    keys, positions = (_element(place, ["i0", "..."]) for place in (statement.keys, statement.positions))
    yield f"{_INDENT}{positions} = {statement.op} {count!r} of {length!r} in {keys}"


@_lines.register
def _pack(statement: L.Pack) -> Iterator[str]:
    yield f"pack {_element(statement.matrix, 'kn')} if {statement.condition!r}"


@_lines.register
def _product(statement: L.Product) -> Iterator[str]:
    sizes = (*statement.out.sizes, *statement.a.sizes[1:])
    note = "" if statement.packed is None else "  # b is packed"
    yield f"product {_space(sizes, 'mnk')}:{note}"
    factors = f"{_element(statement.a, 'mk')} * {_element(statement.b, 'kn')}"
    bias = "" if statement.bias is None else f" + {_element(statement.bias, 'mn')}"
    yield f"{_INDENT}{_element(statement.out, 'mn')} = sum over k of {factors}{bias}"


def _loop(statement: L.Repeat) -> str:
    goes_on = "" if statement.goes_on is None else f" while {statement.goes_on}"
    notes = [f"loop {statement.level}"]
    notes += [] if statement.polls else ["never looks at signals"]
    notes += ["frees lists"] if statement.frees else []
    return f"loop {statement.index} < {statement.count!r}{goes_on}:  # {', '.join(notes)}"
