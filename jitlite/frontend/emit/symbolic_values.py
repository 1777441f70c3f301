"""Functions, ranges and the like, of which the graph has no value, where they leave a call or a branch.

What they are made of has values: the number that a returned lambda reads, the tensor of a bound method, the bounds
of a range. These become results of the call or branch; outside, what is left is made anew with the results in place of
the values. Where one of several may come out, a number says which one it is:

    def make(k, up):                                  %index, %k = ...call or branch...
        if up:                                  =>    lambda v: v + %k    if %index is 0
            return lambda v: v + k                    torch.relu          if %index is 1
        return torch.relu
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence

from jitlite.base.errors.names import NOT_A_VALUE
from jitlite.base.errors.types import RETURN_TYPES
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.chosen_parts import ChosenPart
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.iterable_values import RangeValue
from jitlite.frontend.emit.return_types import Returned
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.sequences import ListAsTuple
from jitlite.frontend.emit.values import SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Node, Value
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue

_OfPart = Callable[[SugaredValue], SugaredValue]
_OfValue = Callable[[Value], Value]


class Capturing(SugaredValue):
    """What reads variables when it is used.

    Attributes:
        uses: the variables.
    """

    uses: tuple[str, ...] = ()

    def with_variables(self, names: Mapping[str, str]) -> SugaredValue:
        """The same, reading other variables."""
        raise NotImplementedError


class _Closed(SugaredValue):
    """A function with what the variables hold that are known only where it comes from."""

    def __init__(self, function: Capturing, captured: Mapping[str, SugaredValue]) -> None:
        self.function = function
        self.captured = dict(captured)
        self.kind = function.kind


def closed(em: Emitter, found: SugaredValue, outside: Frame, at: SourceRange) -> SugaredValue:
    """What is left when the blocks within the frame `outside` end, where it reads their variables.

    Raises:
        CompileError: it reads itself.
    """
    return _closed(em, found, outside, at, [])


def _closed(
    em: Emitter, found: SugaredValue, outside: Frame, at: SourceRange, within: list[SugaredValue]
) -> SugaredValue:
    if not isinstance(found, Capturing):
        return _copied(found, lambda part: _closed(em, part, outside, at, within), lambda value: value)
    if found in within:
        raise NOT_A_VALUE.unsupported(
            f"{found.kind}, which calls itself, cannot be a result", at,
            hint="call it where it is defined, or define it outside of the function",
        )  # fmt: skip
    captured: dict[str, SugaredValue] = {}
    for name in found.uses:
        if _is_set_within(em.frame, name, outside):
            part = em.lookup(name, at)
            captured[name] = _closed(em, part, outside, at, [*within, found])
    return _Closed(found, captured) if captured else found


def _is_set_within(frame: Frame, name: str, outside: Frame) -> bool:
    name = frame.graph_name(name)
    for inner in frame.chain():
        if inner is outside:
            return False
        if name in inner.types or name in inner.sugared:
            return True
    return False


def _copied(found: SugaredValue, of_part: _OfPart, of_value: _OfValue) -> SugaredValue:
    """A copy in which other parts and values of the graph stand in place of those that there are."""
    made = copy.copy(found)
    for name, part in list(vars(found).items()):
        setattr(made, name, _replaced(part, of_part, of_value))
    return made


def _replaced(part: object, of_part: _OfPart, of_value: _OfValue) -> object:
    if isinstance(part, SugaredValue):
        return of_part(part)
    if isinstance(part, Value):
        return of_value(part)
    if isinstance(part, NamedValue):
        return part._replace(
            value=None if part.value is None else of_value(part.value),
            constant=_replaced(part.constant, of_part, of_value),
        )
    if isinstance(part, list):
        return [_replaced(one, of_part, of_value) for one in part]
    if isinstance(part, dict):
        return {key: _replaced(one, of_part, of_value) for key, one in part.items()}
    return part


def values_of(found: SugaredValue) -> list[Value]:
    """The values of the graph that something is made of."""
    values: dict[Value, None] = {}

    def note(value: Value) -> Value:
        values[value] = None
        return value

    def each(part: SugaredValue) -> SugaredValue:
        _copied(part, each, note)
        return part

    each(found)
    return list(values)


def remade(em: Emitter, found: SugaredValue, values: Mapping[Value, Value], at: SourceRange) -> SugaredValue:
    """What was `closed`, with these values in place of its own; the variables that it reads are new ones."""

    def of_part(part: SugaredValue) -> SugaredValue:
        return remade(em, part, values, at)

    made = _copied(found, of_part, lambda value: values.get(value, value))
    if not isinstance(made, _Closed):
        return made
    names: dict[str, str] = {}
    for name, part in made.captured.items():
        names[name] = em.temporary("captured")
        em.assign(names[name], part, at)
    return made.function.with_variables(names)


# -- calls
def emit_results(em: Emitter, block: Block, returned: Sequence[Returned], name: str, at: SourceRange) -> Type:
    """At the end of a call's block, let its returns give the values; tells the type of the result."""
    if em.returns[-1].merged is not None or block not in em.leaving:
        raise RETURN_TYPES(
            f"{name} returns {returned[0].found.kind} in one place, and a value or nothing in another", at,
            hint="return a function, or the like, in each place, or a value in each",
        )  # fmt: skip
    held = [values_of(one.found) for one in returned]
    for position, one in enumerate(returned):
        with em.graph.inserting_before(one.node):
            index = em.constant(position, at)
            one.node.replace_input(0, em.make_tuple([index, *_among(em, held, position)]))
    return T.TupleType.of([T.INT, *(value.type for part in held for value in part)])


def _among(em: Emitter, held: Sequence[Sequence[Value]], position: int) -> Iterator[Value]:
    """The values at the position; for those at others, which are not read, values that are none."""
    for number, part in enumerate(held):
        for value in part:
            yield value if number == position else em.uninitialized(value.type)


def result_of(em: Emitter, returned: Sequence[Returned], results: Sequence[Value], at: SourceRange) -> SugaredValue:
    """What a call or a branch gives, behind it: of several, the one that the first of the results tells."""
    index, *values = results
    parts: list[SugaredValue] = []
    for one in returned:
        own = values_of(one.found)
        parts.append(remade(em, one.found, dict(zip(own, values, strict=False)), at))
        values = values[len(own) :]
    return parts[0] if len(parts) == 1 else ChosenPart(index, [], parts)


# -- branches
def emit_joined(em: Emitter, node: Node, found: Sequence[SugaredValue | None], at: SourceRange) -> SugaredValue:
    """What the blocks of an If give, `closed` at their ends. None stands for a block that is left before."""
    given = [one for one in found if one is not None]
    alike = _joined_alike(em, node, given, at)
    if alike is not None:
        return alike
    held = [values_of(one) for one in given]
    types = [T.INT, *(value.type for part in held for value in part)]
    for number, block in enumerate(node.blocks):
        with em.graph.inserting_at_end(block):
            position = None if found[number] is None else number - found[:number].count(None)
            for value in _outputs(em, types, held, position, at):
                block.add_output(value)
    return result_of(em, [Returned(node, one) for one in given], [node.add_output(t) for t in types], at)


def _joined_alike(em: Emitter, node: Node, given: Sequence[SugaredValue], at: SourceRange) -> SugaredValue | None:
    """One range for two, and one tuple of any length for two; None for anything else."""
    ranges = [one for one in given if isinstance(one, RangeValue)]
    if len(ranges) == 2:
        return _joined_range(em, node, ranges, at)
    tuples = [one for one in given if isinstance(one, ListAsTuple)]
    is_one = len(tuples) == 2 and tuples[0].elements.type is tuples[1].elements.type
    return _joined_tuple(node, tuples) if is_one else None


def _joined_tuple(node: Node, tuples: Sequence[ListAsTuple]) -> ListAsTuple:
    for block, one in zip(node.blocks, tuples, strict=True):
        block.add_output(one.elements)
    return ListAsTuple(node.add_output(tuples[0].elements.type))


def _outputs(
    em: Emitter, types: Sequence[Type], held: Sequence[Sequence[Value]], position: int | None, at: SourceRange
) -> list[Value]:
    """The results at the end of a block that gives what is at the position, or that does not come to its end."""
    if position is None:
        return [em.uninitialized(t) for t in types]
    return [em.constant(position, at), *_among(em, held, position)]


def _joined_range(em: Emitter, node: Node, ranges: Sequence[RangeValue], at: SourceRange) -> RangeValue:
    for block, one in zip(node.blocks, ranges, strict=True):
        for value in one.bounds:
            block.add_output(value)
    return RangeValue(em, at, [node.add_output(T.INT) for _ in range(3)])
