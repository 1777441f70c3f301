"""Learn the types of an operator's results by running it on small stand-ins.

What a result's element type and rank are depends on the element types and ranks of the tensors given and on the other
arguments, but neither on sizes nor on what is in the tensors (the operators of which this is not true have a rule in
`rules/shapes.py`, and no rank is read off a run). So they are read off two runs, one on tensors with two elements in
each dimension, one with one: where the rank does depend on sizes, it is on whether they are one. Where something is
unknown, the operator is run once for each possibility, and what is the same in all runs that succeed is a fact; where
there are too many possibilities, nothing is.

Sizes are read off a run on tensors of the very sizes, which is small enough, and only if torch does not say that they
depend on what is in the tensors. Only operators of torch's own that neither write, draw random numbers nor have side
effects are run; always on CPU, whatever device the real tensors are on.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from jitlite.base import torch_internals
from jitlite.ir import types as T
from jitlite.ir.int_codes import int_coded
from jitlite.ir.ops import Effect, Op
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.operators.tensor_lattice import UNKNOWN, Fact, Special, Symbol, TensorFact, is_listed, tensors_in

_MOST_RUNS = 50
"""More possibilities than this are not tried."""

_MOST_ELEMENTS = 4096
"""Stand-ins of the real sizes have at most so many elements."""

_LARGEST_IMAGE = 7
"""Stand-ins with the real channels have images of at most so many elements in each dimension: a padded kernel fits."""

_MOST_ELEMENTS_WITH_CHANNELS = 2**18
"""They have at most so many elements. They are tried last, where an operator takes no others."""

_LARGEST_NUMBER = 64
"""Numbers beyond this are not given to an operator that could make a tensor of as many elements."""

_MOST_REMEMBERED = 20_000

_DTYPES = (torch.float32, torch.int64, torch.bool, torch.float64, torch.complex64)
"""What a tensor of unknown element type is tried as, beside those of the other tensors: one of each category, and two
of one."""

_RANKS = (2, 0, 1, 3, 4)
"""What a tensor of unknown rank is tried as."""

_DYNAMIC = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)


class Result(NamedTuple):
    """What is known about one result of an operator."""

    dtype: torch.dtype | None = None
    rank: int | None = None
    sizes: tuple[int, ...] | None = None
    requires_grad: bool | None = None


NOTHING = Result()

_remembered: dict[tuple[object, ...], tuple[Result | tuple[Result, ...], ...]] = {}


def results_of(op: Op, facts: Sequence[Fact], grad: bool, wants_sizes: bool) -> tuple[Result | tuple[Result, ...], ...]:
    """What is known about each result of the operator; of a list of tensors, about its elements if they are known.

    Args:
        op: the operator.
        facts: about its arguments, in the order of its schema.
        grad: run with grad mode on, and read off whether results require grad.
        wants_sizes: read off ranks too, and sizes, if those of the arguments are all known.
    """
    if torch._C._len_torch_dispatch_stack() or torch_internals.functorch_level() is not None:
        return (NOTHING,) * len(op.schema.returns)  # somebody would see the run
    key = (op, grad, wants_sizes, torch.get_default_dtype(), *map(_key, facts))
    found = _remembered.get(key)
    if found is None:
        if len(_remembered) > _MOST_REMEMBERED:
            _remembered.clear()
        found = _remembered[key] = _sampled(op, facts, grad, wants_sizes) or (NOTHING,) * len(op.schema.returns)
    return found


def _key(fact: Fact) -> object:
    if isinstance(fact, TensorFact):
        dims = None if fact.dims is None else tuple(d if isinstance(d, int) else None for d in fact.dims)
        return "tensor", fact.dtype, dims, fact.requires_grad
    if isinstance(fact, Symbol):
        return "symbol", fact.is_size
    if is_listed(fact):
        return ("list", *map(_key, fact))
    return type(fact), repr(fact) if isinstance(fact, float | complex) else fact


def may_run(op: Op) -> bool:
    """Is it safe to run the operator just to see what it gives?"""
    overload = op.overload
    if overload is None or op.effect is not Effect.PURE or not op.name.startswith("aten::"):
        return False
    return not op.has(Trait.NEVER_SAMPLED) and not any(a.alias and a.alias.is_write for a in op.schema.arguments)


def _sampled(
    op: Op, facts: Sequence[Fact], grad: bool, wants_sizes: bool, may_be_exact: bool = True
) -> tuple[Result | tuple[Result, ...], ...] | None:
    alternatives = _alternatives(op, facts) if may_run(op) else None
    if alternatives is None:
        return None
    exact = wants_sizes and may_be_exact and _sizes_are_certain(op, facts)
    choices = list(itertools.product(*alternatives))
    found: list[tuple[Result | tuple[Result, ...], ...]] = []
    for plan in (_actual,) if exact else (_twos, _ones, _actual, _with_channels):
        if found and (plan in (_actual, _with_channels) or not wants_sizes):
            break
        described = _describe_runs([_run(op, choice, plan, grad) for choice in choices], exact)
        found += [_agreements(described)] if described else []
    if not found:
        return _sampled(op, facts, grad, wants_sizes, False) if exact else None
    return _agreements(found)


def _alternatives(op: Op, facts: Sequence[Fact]) -> list[list[Any]] | None:
    """What each argument may be in the runs; None if that cannot be said, or they would be too many."""
    dtypes = tuple(dict.fromkeys((*_DTYPES, *(t.dtype for f in facts for t in tensors_in(f) if t.dtype is not None))))
    alternatives = []
    for argument, fact in zip(op.schema.arguments, facts, strict=True):
        choices = _choices(fact, argument.declared_type, op.is_pointwise, dtypes)
        if choices is None:
            return None
        alternatives.append(choices)
    return alternatives if math.prod(map(len, alternatives)) <= _MOST_RUNS else None


def _sizes_are_certain(op: Op, facts: Sequence[Fact]) -> bool:
    tags = op.overload.tags if op.overload is not None else ()
    if any(tag in tags for tag in _DYNAMIC) or op.has(Trait.SHAPE_DEPENDS_ON_VALUES):
        return False
    return all(_is_certain(f) for f in facts)


def _is_certain(fact: Fact) -> bool:
    if isinstance(fact, TensorFact):
        return fact.dtype is not None and fact.dims is not None and all(isinstance(d, int) for d in fact.dims)
    if is_listed(fact):
        return all(map(_is_certain, fact))
    return not isinstance(fact, Special | Symbol)


# -- stand-ins

_Sizes = Callable[[tuple[int | None, ...]], tuple[int, ...] | None]
"""The sizes of a stand-in for a tensor of these sizes."""


def _ones(dims: tuple[int | None, ...]) -> tuple[int, ...] | None:
    return (1,) * len(dims)


def _twos(dims: tuple[int | None, ...]) -> tuple[int, ...] | None:
    return (2,) * len(dims)


def _actual(dims: tuple[int | None, ...]) -> tuple[int, ...] | None:
    sizes = tuple(1 if d is None else d for d in dims)
    return sizes if math.prod(sizes) <= _MOST_ELEMENTS else None


def _with_channels(dims: tuple[int | None, ...]) -> tuple[int, ...] | None:
    """A convolution in groups takes no images with fewer channels."""
    known = [1 if d is None else d for d in dims]
    sizes = (*known[:2], *(min(d, _LARGEST_IMAGE) for d in known[2:]))
    return sizes if math.prod(sizes) <= _MOST_ELEMENTS_WITH_CHANNELS else None


class _StandIn(NamedTuple):
    """A tensor to be made for a run."""

    dtype: torch.dtype
    dims: tuple[int | None, ...]
    requires_grad: bool
    may_be_index: bool

    def make(self, plan: _Sizes) -> torch.Tensor:
        sizes = plan(self.dims)
        if sizes is None:
            raise _TooLarge
        make = torch.zeros if self.may_be_index and not self.dtype.is_floating_point else torch.ones
        tensor = make(sizes, dtype=self.dtype, device="cpu")
        return tensor.requires_grad_() if self.requires_grad else tensor


def _choices(fact: Fact, declared: Type, pointwise: bool, dtypes: Sequence[torch.dtype]) -> list[Any] | None:
    """What an argument may be in a run; None if that cannot be said."""
    if isinstance(fact, TensorFact):
        return _tensor_choices(fact, pointwise, dtypes)
    if isinstance(fact, Symbol):
        return [1] if fact.is_size else [0, 1]
    if is_listed(fact):
        element = declared.element if isinstance(declared, T.ListType) else T.without_none(declared)
        return _list_choices([_choices(f, element, pointwise, dtypes) for f in fact])
    if isinstance(fact, Special):
        return _KNOWN_KIND[fact] if fact in _KNOWN_KIND else _UNKNOWN_CHOICES.get(declared)
    return [fact]


def _list_choices(elements: Sequence[list[Any] | None]) -> list[Any] | None:
    """What a list may be, given what each element may be."""
    known = [choices for choices in elements if choices is not None]
    if len(known) < len(elements) or math.prod(map(len, known)) > _MOST_RUNS:
        return None
    return [list(choice) for choice in itertools.product(*known)]


def _shape_choices(fact: TensorFact, pointwise: bool) -> list[tuple[int | None, ...]]:
    if fact.dims is not None:
        return [tuple(d if isinstance(d, int) else None for d in fact.dims)]
    return [(None,) * rank for rank in (_RANKS[:2] if pointwise else _RANKS)]


def _tensor_choices(fact: TensorFact, pointwise: bool, dtypes: Sequence[torch.dtype]) -> list[Any]:
    dtypes = dtypes if fact.dtype is None else (fact.dtype,)
    shapes = _shape_choices(fact, pointwise)
    grad = fact.requires_grad is True
    return [
        _StandIn(d, s, grad and (d.is_floating_point or d.is_complex), not pointwise) for d in dtypes for s in shapes
    ]


_KNOWN_KIND: dict[Special, list[Any]] = {Special.FLOAT: [0.5], Special.BOOL: [False, True], Special.COMPLEX: [1j]}
"""What is tried for numbers."""

_OPTIONAL = T.OptionalType.of
_UNKNOWN_CHOICES: dict[Type, list[Any]] = {
    T.BOOL: [False, True],
    T.SYM_BOOL: [False, True],
    T.FLOAT: [0.5],
    T.SYM_FLOAT: [0.5],
    T.NUMBER: [1, 0.5, 1j],
    _OPTIONAL(T.BOOL): [None, False, True],
    _OPTIONAL(T.FLOAT): [None, 0.5],
    _OPTIONAL(T.NUMBER): [None, 1, 0.5],
    T.DEVICE: [None],
    _OPTIONAL(T.DEVICE): [None],
    T.LAYOUT: [torch.strided],
    _OPTIONAL(T.LAYOUT): [None],
    _OPTIONAL(T.MEMORY_FORMAT): [None],
    _OPTIONAL(T.GENERATOR): [None],
    _OPTIONAL(T.SCALAR_TYPE): [None, torch.float32, torch.int64, torch.bool],
}
"""What is tried for arguments of which nothing is known, by their types."""


# -- runs


def _run(op: Op, choice: Sequence[object], plan: _Sizes, grad: bool) -> Sequence[Any] | None:
    """The results of one run; None where it fails. Modes that watch functions of torch do not see it."""
    assert op.fn is not None
    with torch._C.DisableTorchFunction():
        before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(grad)
        try:
            with warnings.catch_warnings(), torch._C._DisableAutocast():
                warnings.simplefilter("ignore")
                arguments = [
                    _argument(_of_length(value, a.size), a.declared_type, plan, op.is_pointwise)
                    for value, a in zip(choice, op.schema.arguments, strict=True)
                ]
                result = op.fn(*arguments)
        except Exception:  # whatever it is, the operator cannot be run on these
            return None
        finally:
            torch._C._set_grad_enabled(before)
    results = [result] if len(op.schema.returns) == 1 else result
    return results if isinstance(results, list | tuple) and len(results) == len(op.schema.returns) else None


class _TooLarge(Exception):
    """A stand-in would take too much memory."""


def _of_length(value: object, size: int | None) -> Any:
    """One number given for `int[N]` stands for N."""
    return value * size if isinstance(value, list) and len(value) == 1 and size else value


def _instead_of_large(value: Any, plan: _Sizes) -> object:
    """It is a size or a bound, on which neither rank nor element type depend."""
    if plan is _actual:
        raise _TooLarge
    return type(value)(1)


def _argument(value: Any, declared: Type, plan: _Sizes, pointwise: bool) -> Any:
    if isinstance(value, _StandIn):
        return value.make(plan)
    wanted = T.without_none(declared)
    if isinstance(value, list):
        element = wanted.element if isinstance(wanted, T.ListType) else wanted
        return [_argument(v, element, plan, pointwise) for v in value]
    if isinstance(value, torch.device) or (value is None and wanted is T.DEVICE):
        return torch.device("cpu")
    if type(value) in (int, float) and abs(value) > _LARGEST_NUMBER and not pointwise:
        return _instead_of_large(value, plan)
    is_list = wanted in (T.ListType.of(T.INT), T.ListType.of(T.SYM_INT))
    return [value] if type(value) is int and is_list else int_coded(declared, value)


def _describe(value: object, read_sizes: bool) -> Result | tuple[Result, ...] | None:
    if isinstance(value, torch.Tensor):
        sizes = tuple(value.shape) if read_sizes else None
        return Result(value.dtype, value.dim(), sizes, value.requires_grad)
    if isinstance(value, list | tuple) and read_sizes:
        described = [_describe(v, read_sizes) for v in value]
        return tuple(d if isinstance(d, Result) else NOTHING for d in described)
    return None


def _agreement(column: Sequence[object]) -> Result | tuple[Result, ...]:
    """What all runs say about one result."""
    first = column[0]
    if not all(isinstance(r, Result) for r in column):
        return first if isinstance(first, tuple) and all(r == first for r in column) else NOTHING
    return Result(*(values[0] if all(v == values[0] for v in values) else None for values in zip(*column, strict=True)))


def _describe_runs(
    runs: Sequence[Sequence[Any] | None], read_sizes: bool
) -> list[list[Result | tuple[Result, ...] | None]]:
    return [[_describe(value, read_sizes) for value in results] for results in runs if results is not None]


def _agreements(rows: Sequence[Sequence[object]]) -> tuple[Result | tuple[Result, ...], ...]:
    """What all runs say about each result."""
    return tuple(_agreement(column) for column in zip(*rows, strict=True))


def ranks_are_known(facts: Sequence[Fact]) -> bool:
    """Is it known how many dimensions each tensor given has?"""
    return all(t.dims is not None for f in facts for t in tensors_in(f))


def requiring_grad(facts: Sequence[Fact]) -> bool | None:
    """Does any tensor given require grad? None if that cannot be said."""
    known = [t.requires_grad for f in facts for t in tensors_in(f)]
    if any(known):
        return True
    complete = all(f is not UNKNOWN for f in facts)
    return False if complete and all(k is False for k in known) else None
