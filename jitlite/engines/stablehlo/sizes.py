"""Sizes of tensors that are known as formulas: polynomials of the sizes of what goes in.

    x : tensor<?x?xf32>          n, m
    x.view(n, m // 2, 2)         n, m // 2, 2
    torch.cat([x, x])            2 * n, m

Two sizes are equal in every call if they are the same polynomial. That is what tells which dimensions are broadcast: a
size that is `least` 2 is never broadcast to another one.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from jitlite.base.records import Record


class Atom(Record, eq=True):
    """What a polynomial is made of.

    Attributes:
        name: of the text's value, or of the operation: `//`, `min` or `max`.
        operands: of the operation; none if it is a value of the text.
        least: it is never less.
    """

    name: str
    operands: tuple[Dim, ...] = ()
    least: int | None = None


class Size(Record, eq=True):
    """A size that is no constant.

    Attributes:
        terms: the product of atoms that each term has, and its factor; in order, none with the factor 0.
    """

    terms: tuple[tuple[tuple[Atom, ...], int], ...]

    def __add__(self, other: Dim) -> Dim:
        total = Counter(dict(self.terms))
        for product, factor in _terms(other):
            total[product] += factor
        return _made(total)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: int) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        total = Counter[tuple[Atom, ...]]()
        for left, a in self.terms:
            for right, b in _terms(other):
                total[tuple(sorted((*left, *right), key=repr))] += a * b
        return _made(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        """What divides without rest is taken out: floor((d * a + b) / d) is a + floor(b / d)."""
        if other == 0:
            raise ZeroDivisionError
        if other == self:
            return 1
        divided, rest = Counter[tuple[Atom, ...]](), Counter[tuple[Atom, ...]]()
        for product, factor in self.terms:
            found = _quotient(product, factor, other)
            if found is None:
                rest[product] += factor
            else:
                divided[found[0]] += found[1]
        whole, left = _made(divided), _made(rest)
        if isinstance(left, int) and isinstance(other, int):
            return whole + left // other
        return whole if left == 0 else whole + _operation("//", left, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return 0 if other == 0 else _operation("//", other, self)


Dim = int | Size
"""A size: a constant or a formula."""


def minimum(a: Dim, b: Dim) -> Dim:
    """The lesser of both."""
    if a == b or _is_at_most(a, b):
        return a
    return b if _is_at_most(b, a) else _operation("min", a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """The greater of both."""
    if a == b or _is_at_most(b, a):
        return a
    return b if _is_at_most(a, b) else _operation("max", a, b)


def product(dims: Sequence[Dim]) -> Dim:
    """How many elements a tensor of these sizes has."""
    found: Dim = 1
    for dim in dims:
        found = found * dim
    return found


def variable(name: str, least: int | None) -> Size:
    """The size that a value of the text is."""
    return Size((((Atom(name, (), least),), 1),))


def least(dim: Dim) -> int | None:
    """A number that the size is never less than; None if nothing is known."""
    if isinstance(dim, int):
        return dim
    total = 0
    for atoms, factor in dim.terms:
        bounds = [atom.least for atom in atoms]
        if atoms and (factor < 0 or any(b is None or b < 0 for b in bounds)):
            return None
        total += factor * math.prod(b for b in bounds if b is not None)
    return total


def names_in(dim: Dim) -> Iterator[str]:
    """The values of the text that a size depends on."""
    for atoms, _ in () if isinstance(dim, int) else dim.terms:
        for atom in atoms:
            if not atom.operands:
                yield atom.name
            for operand in atom.operands:
                yield from names_in(operand)


def value_of(dim: Dim, given: Mapping[str, int]) -> int:
    """The size where the values of the text are these.

    Raises:
        ZeroDivisionError: it is divided by 0.
    """
    if isinstance(dim, int):
        return dim
    return sum(factor * math.prod(_value_of_atom(atom, given) for atom in atoms) for atoms, factor in dim.terms)


OPERATIONS: Mapping[str, Callable[[int, int], int]] = {"//": operator.floordiv, "min": min, "max": max}
"""What atoms compute that are no values of the text."""


def text_of(dim: Dim, names: Mapping[str, str]) -> str:
    """The formula, with these names for values of the text."""
    if isinstance(dim, int):
        return str(dim)
    terms = [" * ".join([str(f)] * (f != 1 or not p) + [_text_of_atom(a, names) for a in p]) for p, f in dim.terms]
    return " + ".join(terms)


def _text_of_atom(atom: Atom, names: Mapping[str, str]) -> str:
    if not atom.operands:
        return names.get(atom.name, atom.name)
    first, second = (text_of(dim, names) for dim in atom.operands)
    return f"(({first}) // ({second}))" if atom.name == "//" else f"{atom.name}({first}, {second})"


def is_never_negative(dim: Dim) -> bool:
    """Is it known to be 0 or more?"""
    bound = least(dim)
    return bound is not None and bound >= 0


def _value_of_atom(atom: Atom, given: Mapping[str, int]) -> int:
    if not atom.operands:
        return given[atom.name]
    first, second = (value_of(dim, given) for dim in atom.operands)
    return OPERATIONS[atom.name](first, second)


def _terms(dim: Dim) -> Sequence[tuple[tuple[Atom, ...], int]]:
    return [((), dim)] if isinstance(dim, int) else dim.terms


def _made(total: Mapping[tuple[Atom, ...], int]) -> Dim:
    terms = sorted(((p, f) for p, f in total.items() if f), key=repr)
    if not terms:
        return 0
    return terms[0][1] if len(terms) == 1 and not terms[0][0] else Size(tuple(terms))


def _quotient(atoms: tuple[Atom, ...], factor: int, divisor: Dim) -> tuple[tuple[Atom, ...], int] | None:
    """A term divided by a number or a product; None if there is a rest."""
    terms = _terms(divisor)
    if len(terms) != 1:
        return None
    (product, number), left = terms[0], Counter(atoms)
    if factor % number or any(left[atom] < times for atom, times in Counter(product).items()):
        return None
    left.subtract(product)
    return tuple(sorted(left.elements(), key=repr)), factor // number


def _operation(name: str, a: Dim, b: Dim) -> Size:
    bounds = [n for n in (least(a), least(b)) if n is not None]
    known: int | None = None
    if name == "max":
        known = max(bounds, default=None)
    elif len(bounds) == 2:
        known = min(bounds) if name == "min" else bounds[0] // b if isinstance(b, int) and b > 0 else None
    return Size((((Atom(name, (a, b), known),), 1),))


def _is_at_most(a: Dim, b: Dim) -> bool:
    """Is one never greater than the other?"""
    found = least(b - a)
    return found is not None and found >= 0
