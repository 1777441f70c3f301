"""What is known about the results of an operator: element type, sizes, device, whether they require grad.

Sizes come from `rules/shapes.py` and `rules/shapes_nn.py`, the rest from `probe_result_types.py`, adjusted for what
differs between the run there and a real one: the device, and the modes of the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch

from jitlite.analysis.probe_result_types import NOTHING, Result, ranks_are_known, requiring_grad, results_of
from jitlite.base.records import Record
from jitlite.ir import ops
from jitlite.ir import types as T
from jitlite.ir.int_codes import int_coded
from jitlite.ir.ops import Effect, Op
from jitlite.ir.traits import Trait
from jitlite.operators import shapes, shapes_nn
from jitlite.operators.aliasing_ops import results_may_be_inputs
from jitlite.operators.shape_call import Rule, ShapeCall, Sizes, Unclear
from jitlite.operators.tensor_lattice import UNKNOWN, Dim, Fact, Symbols, TensorFact, is_listed, tensors_in

RULES: dict[str, Rule] = {**shapes.RULES, **shapes_nn.RULES, "prim::data": shapes.like_first}


class ModeFacts(Record, eq=True):
    """The modes of a thread that types depend on; None for one that is not known.

    Facts that were found under some modes are true of runs that start under the same modes.
    """

    grad: bool | None = None
    autocast: bool | None = None
    default_dtype: torch.dtype | None = None
    default_device: torch.device | None = None

    @staticmethod
    def current() -> ModeFacts:
        """Those of this thread now."""
        return ModeFacts(
            torch.is_grad_enabled(),
            torch._C._is_any_autocast_enabled(),
            torch.get_default_dtype(),
            torch.get_default_device(),
        )

    def join(self, other: ModeFacts) -> ModeFacts:
        """What is known if it is one or the other."""
        if self == other:
            return self
        return ModeFacts(
            self.grad if self.grad is other.grad else None,
            self.autocast if self.autocast is other.autocast else None,
            self.default_dtype if self.default_dtype is other.default_dtype else None,
            self.default_device if self.default_device == other.default_device else None,
        )


def is_inferred(op: Op) -> bool:
    """Is anything known about the operator? Of torch's own, it is."""
    known = op.overload is not None or op.has(Trait.CONVERSION) or op.has(Trait.DTYPE_OF_FIRST)
    return known or op.name in RULES or op.name == "prim::data"


def infer(op: Op, facts: Sequence[Fact], modes: ModeFacts, symbols: Symbols) -> list[Fact]:
    """What is known about each result of the operator, whose results are new tensors or views."""
    facts = [int_coded(a.declared_type, f) for a, f in zip(op.schema.arguments, facts, strict=True)]
    sizes = result_sizes(op, facts, symbols)
    requires = requiring_grad(facts)
    if _keeps_elements(op) and facts and isinstance(facts[0], TensorFact):
        results: Sequence[Result | tuple[Result, ...]] = [Result(facts[0].dtype, None, None, facts[0].requires_grad)]
        requires = facts[0].requires_grad
    elif op.has(Trait.CONVERSION):
        results = [_converted(op, facts)]
    elif op.overload is None and op.has(Trait.DTYPE_OF_FIRST) and isinstance(facts[0], TensorFact):
        results = [Result(facts[0].dtype)]
    else:
        wants_grad = modes.grad is True and requires is True
        results = results_of(op, facts, wants_grad, sizes is None and not _has_rule(op))
    return _facts_of(op, facts, results, sizes, modes, requires, symbols)


def _facts_of(
    op: Op,
    facts: Sequence[Fact],
    results: Sequence[Result | tuple[Result, ...]],
    sizes: Sequence[Sizes | None] | None,
    modes: ModeFacts,
    requires: bool | None,
    symbols: Symbols,
) -> list[Fact]:
    """The results with their sizes, devices and strides."""
    device = device_of(op, facts, modes)
    found: list[Fact] = []
    for position, returned in enumerate(op.schema.returns):
        result, dims = results[position], None if sizes is None else sizes[position]
        if isinstance(returned.type, T.TensorType):
            known = result if isinstance(result, Result) else NOTHING
            shape = dims if isinstance(dims, tuple) else _dims_of_run(op, facts, known, symbols)
            found.append(_tensor(op, facts, known, shape, device, modes, requires))
        elif isinstance(returned.type, T.ListType) and isinstance(returned.type.element, T.TensorType):
            found.append(_list(op, facts, result, dims, device, modes, requires, symbols))
        else:
            found.append(UNKNOWN)
    return found


def _has_rule(op: Op) -> bool:
    return op.name in RULES or op.is_pointwise


def result_sizes(op: Op, facts: Sequence[Fact], symbols: Symbols) -> Sequence[Sizes] | None:
    """The sizes of each result as the rules have them, or None."""
    rule = RULES.get(op.name)
    if op.is_pointwise and (rule is None or op.schema.overload == "other"):
        rule = shapes.pointwise
    if rule is None:
        return None
    try:
        sizes = rule(ShapeCall(op, facts, symbols))
    except Unclear:
        return None
    return sizes if len(sizes) == len(op.schema.returns) else None


def _dims_of_run(op: Op, facts: Sequence[Fact], result: Result, symbols: Symbols) -> tuple[Dim, ...] | None:
    """The dimensions as a run has shown them. Where there is a rule that was at a loss, even the rank is open."""
    if result.sizes is not None:
        return result.sizes
    if result.rank is None or op.name in RULES or not ranks_are_known(facts):
        return None
    return tuple(symbols.fresh() for _ in range(result.rank))


def _tensor(
    op: Op,
    facts: Sequence[Fact],
    result: Result,
    dims: tuple[Dim, ...] | None,
    device: torch.device | None,
    modes: ModeFacts,
    requires: bool | None,
) -> TensorFact:
    dtype = _dtype(op, facts, result.dtype, modes)
    strides = _strides(op, facts, dims)
    return TensorFact(dtype, dims, strides, device, _requires_grad(op, dtype, result, modes, requires))


def _list(
    op: Op,
    facts: Sequence[Fact],
    result: Result | tuple[Result, ...],
    dims: Sizes,
    device: torch.device | None,
    modes: ModeFacts,
    requires: bool | None,
    symbols: Symbols,
) -> Fact:
    """A list of tensors: told apart where their number is known."""
    if isinstance(dims, list):
        first = facts[0]
        own = first.dtype if isinstance(first, TensorFact) else None
        same = Result(dtype=own, requires_grad=_of_views(first, modes))
        return tuple(_tensor(op, facts, same, d, device, modes, requires) for d in dims)
    if not isinstance(result, Result):
        shapes_ = [_dims_of_run(op, facts, r, symbols) for r in result]
        return tuple(_tensor(op, facts, r, s, device, modes, requires) for r, s in zip(result, shapes_, strict=True))
    return UNKNOWN


def _of_views(base: Fact, modes: ModeFacts) -> bool | None:
    return base.requires_grad if isinstance(base, TensorFact) and modes.grad is True else None


# -- element type


def _converted(op: Op, facts: Sequence[Fact]) -> Result:
    """What a conversion of the first argument gives."""
    first, other = facts[0], _argument(op, facts, "other")
    if not isinstance(first, TensorFact):
        return NOTHING
    if op.schema.argument_index("other") is not None:
        dtype = other.dtype if isinstance(other, TensorFact) else None
    else:
        given = _argument(op, facts, "dtype")
        dtype = first.dtype if given is None else given if isinstance(given, torch.dtype) else None
    has_grad = first.requires_grad is True and _is_differentiable(first.dtype) and dtype is not None
    return Result(dtype, None, None, True if has_grad else None)


def _is_differentiable(dtype: torch.dtype | None) -> bool:
    return dtype is not None and (dtype.is_floating_point or dtype.is_complex)


@cache
def _keeps_elements(op: Op) -> bool:
    """Is the one result a view of the first argument, or a copy of one, that has the same elements?"""
    if op.has(Trait.OTHER_ELEMENTS):
        return False
    if len(op.schema.returns) != 1 or op.schema.argument_index("dtype") is not None or op.effect is not Effect.PURE:
        return False
    return _copies_view(op) or (_gives_view(op) and (op.name in RULES or op.name.endswith("_as")))


def _copies_view(op: Op) -> bool:
    """Does it copy what an operator of a like name gives a view of, as `view_copy` and `_unsafe_view` do?"""
    name = op.name.removeprefix("aten::")
    viewing = name.removesuffix("_copy").removeprefix("_unsafe").removeprefix("_")
    if viewing == name:
        return False
    types = [a.type for a in op.schema.arguments]
    return any(
        _keeps_elements(other) and types == [a.type for a in other.schema.arguments]
        for other in ops.lookup(f"aten::{viewing}")
    )


def _dtype(op: Op, facts: Sequence[Fact], dtype: torch.dtype | None, modes: ModeFacts) -> torch.dtype | None:
    tensors = [t for f in facts for t in tensors_in(f)]
    if dtype is None:
        dtype = _dtype_without_run(op, facts, modes)
    if not _is_differentiable(dtype):
        return dtype
    if modes.autocast is not False and tensors and autocast_may_change(op):
        return None
    if _depends_on_default(op, facts, tensors) and modes.default_dtype is not torch.get_default_dtype():
        return None
    return dtype


def _argument(op: Op, facts: Sequence[Fact], name: str) -> Fact:
    position = op.schema.argument_index(name)
    return None if position is None else facts[position]


def _depends_on_default(op: Op, facts: Sequence[Fact], tensors: Sequence[TensorFact]) -> bool:
    """Is a result of floats made of what has no floats, so that the default element type decides?"""
    if isinstance(_argument(op, facts, "dtype"), torch.dtype):
        return False
    if any(f is UNKNOWN for f in facts):
        return True
    return not any(t.dtype is not None and (t.dtype.is_floating_point or t.dtype.is_complex) for t in tensors)


def _dtype_without_run(op: Op, facts: Sequence[Fact], modes: ModeFacts) -> torch.dtype | None:
    """Of operators that cannot be run for it."""
    given = _argument(op, facts, "dtype")
    if isinstance(given, torch.dtype) and op.name in _MADE_OF_DTYPE:
        return given
    if given is not None or (op.effect is not Effect.RANDOM and op.name not in _MADE_OF_DTYPE):
        return None
    if op.name in _RANDOM_LIKE and facts and isinstance(facts[0], TensorFact):
        return facts[0].dtype
    if op.name in ("aten::randint", "aten::randperm"):
        return torch.int64
    return modes.default_dtype if op.name in _DEFAULT_MADE else None


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


_RANDOM_LIKE = _aten(
    "rand_like randn_like randint_like dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout "
    "bernoulli rrelu poisson empty_like"
)
_DEFAULT_MADE = _aten("rand randn empty zeros ones eye")
_MADE_OF_DTYPE = (_DEFAULT_MADE | _aten(
    "rand_like randn_like randint_like randint randperm empty_like full zeros_like ones_like full_like new_zeros "
    "new_ones new_empty new_full to arange linspace logspace"
))  # fmt: skip
"""Operators that make a tensor of the element type that is asked for."""

_NEVER_CAST = _aten(
    "reshape reshape_as view_as expand_as flatten unflatten contiguous to type_as chunk narrow squeeze unsqueeze "
    "transpose movedim swapaxes swapdims numpy_T mT mH H adjoint select slice split tensor_split square dropout "
    "feature_dropout alpha_dropout float_power zeros ones full arange cpu cuda index _unsafe_index"
)
"""Operators made of others, none of which autocast touches in a way that is seen."""


@cache
def autocast_may_change(op: Op) -> bool:
    """May the operator give another element type under autocast?"""
    if op.name in _NEVER_CAST or op.overload is None:
        return op.name not in _NEVER_CAST
    name = op.overload.name()
    keys = ("AutocastCPU", "AutocastCUDA", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


# -- tensors made of numbers


def _dims_of_lists(data: Fact, data_type: T.Type) -> tuple[tuple[Dim, ...] | None, T.Type]:
    """The lengths of lists in lists, as far as they are known, and the type of what is in the innermost."""
    dims: tuple[Dim, ...] | None = ()
    while isinstance(data_type, T.ListType):
        dims = None if dims is None or not is_listed(data) else (*dims, len(data))
        data = data[0] if is_listed(data) and data else UNKNOWN
        data_type = data_type.element
    return dims, data_type


def _grad_asked_for(op: Op, facts: Sequence[Fact]) -> bool | None:
    asked = _argument(op, facts, "requires_grad")
    return False if asked is None else asked if isinstance(asked, bool) else None


def made_of_numbers(op: Op, facts: Sequence[Fact], data_type: T.Type, modes: ModeFacts) -> TensorFact:
    """What `torch.tensor(data)` and the like give, of data of this type."""
    dims, data_type = _dims_of_lists(facts[0], data_type)
    given = _argument(op, facts, "dtype")
    default = modes.default_dtype
    by_type: dict[T.Type, torch.dtype | None] = {
        T.BOOL: torch.bool, T.INT: torch.int64, T.FLOAT: default, T.COMPLEX: default and default.to_complex(),
    }  # fmt: skip
    dtype = given if isinstance(given, torch.dtype) else by_type.get(data_type) if given is None else None
    where = _argument(op, facts, "device")
    device = where if isinstance(where, torch.device) else modes.default_device if where is None else None
    strides = None if dims is None else contiguous_strides([d for d in dims if isinstance(d, int)])
    return TensorFact(dtype, dims, strides, device, _grad_asked_for(op, facts))


# -- grad, strides


def _requires_grad(
    op: Op, dtype: torch.dtype | None, result: Result, modes: ModeFacts, requires: bool | None
) -> bool | None:
    if op.schema.argument_index("requires_grad") is not None:
        return None
    if op.name in ("aten::detach", "prim::data") or (modes.grad is False and _makes_its_results(op)):
        return False
    if requires is False or (dtype is not None and not _is_differentiable(dtype)):
        return False
    return result.requires_grad if requires is True and modes.grad is True else None


@cache
def _makes_its_results(op: Op) -> bool:
    """Is no result an argument, or a view of one? In no-grad mode, a view still requires grad if its base does."""
    marked = any(r.alias or r.element_alias for r in op.schema.returns)
    return not marked and not results_may_be_inputs(op)


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _strides(op: Op, facts: Sequence[Fact], dims: tuple[Dim, ...] | None) -> tuple[int | None, ...] | None:
    """Known of what has been made without gaps from what has none.

    An operator element by element lays its result out in the order of its arguments' strides, where those that are
    expanded do not count. Arguments without gaps have them in the order of the dimensions: so has the result.
    """
    sizes = tuple(d for d in dims or () if isinstance(d, int))
    if dims is None or len(sizes) < len(dims):
        return None
    if op.name in _MADE_CONTIGUOUS:
        is_plain = _argument(op, facts, "layout") is None
    else:
        keeps_order = (op.is_pointwise and op.effect is Effect.PURE) or op.name in _KEEP_ORDER
        is_plain = keeps_order and _are_contiguous(facts)
    return contiguous_strides(sizes) if is_plain else None


def _are_contiguous(facts: Sequence[Fact]) -> bool:
    """Are there tensors among the arguments, and all of them known to have no gaps?"""
    if any(f is UNKNOWN or (is_listed(f) and tensors_in(f)) for f in facts):
        return False
    tensors = [t for f in facts for t in tensors_in(f)]
    return bool(tensors) and all(map(_is_contiguous, tensors))


def _is_contiguous(fact: TensorFact) -> bool:
    """Is the tensor known to have all elements one after another?"""
    sizes = [d for d in fact.dims or () if isinstance(d, int)]
    return fact.dims is not None and len(sizes) == len(fact.dims) and fact.strides == contiguous_strides(sizes)


_MADE_CONTIGUOUS = _aten("zeros ones full eye arange")
_KEEP_ORDER = _aten("index_select gather embedding cumsum cumprod softmax log_softmax")
"""Operators that are not element by element, and leave no gaps where the arguments have none."""


# -- device


def device_of(op: Op, facts: Sequence[Fact], modes: ModeFacts) -> torch.device | None:
    """The device of the results. One other than the CPU that has no index stands for any of its kind."""
    if op.name == "prim::data" and facts and isinstance(facts[0], TensorFact):
        return facts[0].device
    if not op.name.startswith("aten::") or op.name in _ELSEWHERE:
        return None
    if op.has(Trait.MOVES_DEVICE):
        return torch.device(op.name.removeprefix("aten::"))
    if op.name in ("aten::to", "aten::type_as", "aten::_to_copy") and op.schema.argument_index("other") is not None:
        other = _argument(op, facts, "other")
        return other.device if isinstance(other, TensorFact) else None
    if op.schema.argument_index("device") is not None:
        return _device_asked_for(op, facts, modes)
    return _device_of_operands(op, facts, [t for f in facts for t in tensors_in(f)])


def _device_asked_for(op: Op, facts: Sequence[Fact], modes: ModeFacts) -> torch.device | None:
    """The device of what an operator with an argument for it makes."""
    given = _argument(op, facts, "device")
    if given is not None:
        return torch.device(given) if isinstance(given, str | torch.device) else None
    if not any(tensors_in(f) for f in facts):
        return modes.default_device
    return facts[0].device if isinstance(facts[0], TensorFact) else None


def _device_of_operands(op: Op, facts: Sequence[Fact], tensors: Sequence[TensorFact]) -> torch.device | None:
    first = facts[0] if facts else None
    if isinstance(first, TensorFact) and _gives_view(op):
        return first.device
    if any(f is UNKNOWN for f in facts) or not tensors:
        return None
    return _common_device(op, tensors)


_ELSEWHERE = _aten("_shape_as_tensor _pack_padded_sequence pin_memory to_mkldnn tensor as_tensor")
"""Operators whose results may be on a device of their own."""


@cache
def _gives_view(op: Op) -> bool:
    """Is every result the first argument, or a view of it?"""
    arguments, returns = op.schema.arguments, op.schema.returns
    marks = arguments[0].alias if arguments else None
    if op.name in ("aten::reshape_as", "aten::view_as", "aten::expand_as", "aten::reshape", "aten::contiguous"):
        return True
    return marks is not None and bool(returns) and all(r.alias and r.alias.before <= marks.before for r in returns)


def _common_device(op: Op, tensors: Sequence[TensorFact]) -> torch.device | None:
    """Of tensors that are all on one device; a number on the CPU goes along with tensors elsewhere."""
    devices = {t.device for t in tensors}
    if len(devices) > 1 and op.is_pointwise:
        devices = {t.device for t in tensors if not (t.device == torch.device("cpu") and t.dims == ())}
    return devices.pop() if len(devices) == 1 else None
