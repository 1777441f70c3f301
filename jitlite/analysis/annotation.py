"""What is known about the values of a graph, written into their types."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

from jitlite.analysis.propagation import Propagation, numbers_in, values_in
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.operators.tensor_lattice import NEVER, PLAIN, UNKNOWN, Fact, Symbol, TensorFact, is_listed, tensor_type_of

Merge = Callable[[T.Type, T.Type], T.Type]
"""Gives a tensor's new type from the one so far and the one that says all that is known."""


def annotate(
    graph: Graph,
    found: Propagation,
    merge: Merge | None = None,
    spelled: dict[Symbol, int] | None = None,
) -> bool:
    """Put what is known into the types of the values; says whether any changed.

    Args:
        graph: whose types change.
        found: what is known.
        merge: gives a tensor's new type from the one so far and the one that says all that is known; the latter is
            taken if it is not given.
        spelled: the numbers of symbols; those of `numbering` if it is not given.
    """
    spelled = numbering(graph, found) if spelled is None else spelled
    changed = False
    for value in values_in(graph.block):
        fact = found.facts.get(value, UNKNOWN)
        if fact is NEVER or value not in found.facts:
            continue
        new = fact_type(fact, value.type, spelled, merge)
        changed = changed or new is not value.type
        value.type = new
    return changed


def fact_type(fact: Fact, declared: T.Type, spelled: dict[Symbol, int], merge: Merge | None) -> T.Type:
    """The declared type with what a fact says."""
    if isinstance(declared, T.TensorType):
        new = tensor_type_of(fact if isinstance(fact, TensorFact) else PLAIN, spelled.get)
        return merge(declared, new) if merge else new
    if isinstance(declared, T.TupleType) and is_listed(fact) and len(fact) == len(declared.elements):
        pairs = zip(fact, declared.elements, strict=True)
        elements = tuple(fact_type(f, e, spelled, merge) for f, e in pairs)
        return declared if elements == declared.elements else declared.with_contained(elements)
    return declared


def numbering(graph: Graph, found: Propagation, fewest: int = 2) -> dict[Symbol, int]:
    """The numbers of symbols in types. One that is in fewer places has none: in one place only, it says nothing.

    Symbols that the inputs' types name keep their numbers; others get the smallest free ones in order of appearance.
    """
    values = values_in(graph.block)
    places = Counter(symbol for v in values for symbol in _symbols_in(found.facts.get(v), v.type))
    taken = {n for value in graph.inputs for n in numbers_in(value.type)}
    spelled = {s: s.number for s in places if s.number in taken and s not in found.symbols.definitions}
    free = (n for n in itertools.count(1) if n not in taken)
    unnamed = [s for s, count in places.items() if count >= fewest and s not in spelled]
    return spelled | dict(zip(unnamed, free, strict=False))


def _symbols_in(fact: Fact, t: T.Type) -> Iterator[Symbol]:
    if isinstance(fact, TensorFact) and isinstance(t, T.TensorType):
        yield from (d for d in fact.dims or () if isinstance(d, Symbol))
    elif isinstance(t, T.TupleType) and is_listed(fact):
        for f, e in zip(fact, t.elements, strict=False):
            yield from _symbols_in(f, e)
