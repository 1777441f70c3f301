"""Every operator with a rule, as a kernel and in eager Python: values, dtypes, shapes and strides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
import torch
from kernel_law import EXACT, FEW, LAYOUTS, SUMS, ULP, compared, extreme, outcome, turned
from kernel_programs import function_of

import jitlite
from jitlite.base import options
from jitlite.kernels import torch_abi
from jitlite.kernels.table import RULES

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

NEVER = {"aten::addcmul", "aten::addcdiv"}
"""Operators with a rule that always leaves them to Python, and says why."""

EXACT_FLOATS = """
    -x | x.abs() | x.relu() | x.floor() | x.ceil() | x.trunc() | x.round() | x.square() | x.logical_not()
    x.isnan() | x.isinf() | x.isfinite() | x + y | x - y | torch.rsub(x, y) | x * y | x / y
    x.div(y, rounding_mode='floor')
    x // 3 | x.remainder(v) | torch.fmod(x, v) | torch.maximum(x, y) | torch.minimum(x, v) | x == y | x != 0.5 | x < y
    x <= y | x > v | x >= 1 | x.logical_and(y) | x.logical_or(y) | x.logical_xor(y) | x.clamp(-1, 2) | x.clamp(min=0)
    x.clamp(max=0.5) | x.clamp_min(-1) | x.clamp_max(1) | torch.nn.functional.hardtanh(x) | torch.nn.functional.relu6(x)
    torch.where(b, x, y) | torch.where(x > 0, x, 0.0) | x.masked_fill(b, 2.0) | torch.nn.functional.leaky_relu(x, 0.1)
    x.lerp(y, 0.25) | x.double() | x.float() | x.bool() | x.to(torch.float64) | x.type_as(y) | x.clone()
    x.reciprocal()
    x.subtract(y) | x.multiply(y) | x.divide(y) | x.true_divide(y) | x.clip(-1, 1) | 2 - x | x + 1 | x * 2.5 | x ** 2
    torch.dropout(x, 0.5, False) | torch.feature_dropout(x, 0.5, False) | torch.alpha_dropout(x, 0.5, False)
    x.clone().add_(y) | x.clone().mul_(2) | x.clone().sub_(v) | x.clone().div_(y) | x.clone().clamp_(-1, 1)
    x.clone().relu_()
    x.clone().neg_() | x.clone().abs_() | x.clone().masked_fill_(b, 1) | x.clone().zero_() | x.clone().fill_(3)
    x.clone().copy_(y) | x.clone().floor_() | x.clone().ceil_() | x.clone().trunc_() | x.clone().round_()
    x.clone().clamp_min_(0) | x.clone().clamp_max_(0) | x.clone().reciprocal_() | (x + 1).amax(-1)
    (x + 1).amin(0, keepdim=True)
    x.max() | x.min() | x.argmax() | x.argmin(-1) | x.any() | x.all(-1) | x.isnan().any(0)
    x.sign() | x.sgn() | x.nan_to_num() | x.nan_to_num(1.0, 2.0, -3.0) | torch.outer(v, v) | x.count_nonzero()
    x.count_nonzero(0) | x.cummax(0)[0] | x.cummax(-1)[1] | x.cummin(0)[1] | x.cummin(-1)[0]
"""

NAMES = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sigmoid erf erfc sqrt rsqrt asin acos atan sinh cosh atanh"
).split()

FUNCTIONS = " | ".join(
    [f"x.{name}()" for name in NAMES]
    + [f"(x * 1).{name}_()" for name in NAMES]
    + ["torch.nn.functional.silu(x)", "x.atan2(y)", "x.hypot(y)"]
)

EXACT_INTS = """
    -x | x.abs() | x.relu() | x.square() | x.logical_not() | ~x | x + y | x - y | x * y | 2 - x | x & y | x | y.clone()
    x.bitwise_and(y) | x.bitwise_or(3) | x.bitwise_xor(y) | x.__xor__(y) | x.__or__(y) | torch.bitwise_not(x) | x == y
    x < 2 | x.clamp(-1, 2) | torch.maximum(x, y) | torch.minimum(x, v) | torch.where(b, x, y) | x.masked_fill(b, 2)
    x.float() | x.double() | x.long() | x.int() | x.bool() | x + 1.5 | x * 0.5 | x.sum() | x.sum(0) | x.prod(-1)
    x.amax(0) | x.max() | x.argmax(-1) | x.argmin() | x.any() | x.all(0) | x.clone().add_(y) | x.clone().mul_(3)
    x.sign() | x << 2 | x >> 1 | x.bitwise_left_shift(y) | x.bitwise_right_shift(y) | torch.outer(v, v)
    x.count_nonzero(1) | x.ne(y) | x.ge(v) | x.logical_xor(y) | x.remainder(3) | x // 5 | x.fmod(4) | x.floor_divide(7)
"""

IMAGES = """
    x.float() / 255 | x.to(torch.float32) * 0.1 | x * 0.5 | x.half() | x.bfloat16() * x | x + 100 | x < 100
    x.to(torch.uint8) | x.float().to(torch.uint8) | (x.double() * 300.7).to(torch.uint8) | x.clamp(0, 100) | x.cumsum(0)
    (x.float() * 3e9).to(torch.int16) | (x.float() * -300.7).to(torch.int8) | x + y.long() | x + y.to(torch.int8)
    x.mean(dtype=torch.float32) | x * y.float() | x.to(torch.int16) + y.to(torch.uint8) | x // 7 | x.any() | x.all(0)
    x.sort()[0] | x.amax(0)
"""

SUMMED = """
    x.sum() | x.sum(0) | x.sum((0, 1)) | x.sum(-1, keepdim=True) | x.prod(-1) | x.mean() | x.mean(-1)
    x.mean(0, keepdim=True)
    x.var(-1) | x.std(0) | x.var(-1, unbiased=False) | torch.softmax(x, -1) | torch.log_softmax(x, -1)
    torch.softmax(x, 0)
    x.logsumexp(-1) | x.logsumexp(0, keepdim=True) | torch.nn.functional.layer_norm(x, [4]) | x @ x.t() | torch.mm(x, w)
    torch.nn.functional.layer_norm(x, [4], v, v) | torch.addmm(y.t() @ y, x.t(), x) | torch.nn.functional.linear(x, x)
    torch.nn.functional.linear(x, x, x[:, 0]) | x.mv(v) | v.dot(v) | torch.bmm(x[None], w[None]) | x.matmul(v)
    torch.nn.functional.gelu(x) | torch.nn.functional.gelu(x, approximate='tanh') | torch._softmax(x, -1, False)
    torch._log_softmax(x, -1, False) | v @ w | torch.matmul(x[None], w)
    x.cumprod(0) | x.cumprod(-1) | x.logcumsumexp(0) | x.logcumsumexp(-1)
"""

MOVED = """
    x.t() | x.transpose(0, 1) | x.swapaxes(0, 1) | x.permute([1, 0]) | x[1] | x[:, 1:] | x[::2] | x.select(1, 2)
    x.narrow(1, 1, 2)
    x.unsqueeze(1) | x[:, :1].squeeze(0) | x[0].expand(2, 4) | x.expand_as(y) | x[0].broadcast_to([3, 4])
    x.reshape(4, 3)
    x.view(2, 6) | x.flatten() | x.contiguous() | x.detach()
    x.gather(1, i) | x.index_select(0, i[0, :2]) | x[i[0]] | v[v > 0] | torch.cat([x, y]) | torch.concat([x, y], 1)
    torch.stack([x, y], 1) | torch.zeros_like(x) | torch.ones_like(x) | torch.full_like(x, 2) | x.new_zeros([2, 3])
    x.new_ones([2]) | x.new_full([2], 1.5) | torch.zeros(3, 4) + x | torch.ones([4]) * x | torch.full([4], 1.5) - x
    torch.arange(4) + x | torch.nn.functional.embedding(i, x) | x.sum().view(1)
    x.to(x.dtype) | x.size(0) + x | x.dim() * x | x.numel() - x | len(x) * x | float(x[0, 1]) + y
    x.view_as(y) | x.reshape_as(y) | x.unflatten(1, [2, 2]) | x.movedim(0, 1) | x.diagonal() | x.diagonal(1)
    x.diagonal(-2) | torch.eye(4) + x[1] | torch.eye(3, 4) * x | torch.tensor(1.5) + x | torch.tensor([1, 2, 3, 4]) * x
    torch.tensor([x.size(0), x.dim()]) | torch.tensor(True) | torch.empty(3, 4).zero_() | torch.empty_like(x).fill_(2)
    x.new_empty([2, 3]).fill_(1) | torch.nn.functional.pad(x, [1, 2]) | torch.nn.functional.pad(x, [0, 1, 2, 0])
    torch.constant_pad_nd(x, [1, 0, 0, 0], 2) | x.tile(2, 1) | x.tile(2) | v.masked_select(v > 0) | x.trace()
    torch.swapdims(x, 0, 1)
    int(x[1, 2]) + y | bool(x[0, 0]) * y | x[0, 0].item() * y | float(x.max()) * y | x.max(0)[0] | x.min(-1)[1]
"""

WHOLE = {
    "unbind": "a, b, c = z.unbind(0)\n    r = a + b * c",
    "chunk": "a, b = z.chunk(2, -1)\n    r = a * b",
    "split": "a, b = z.split(2, -1)\n    r = a - b",
    "split_with_sizes": "a, b = z.split([1, 3], -1)\n    r = a - b",
    "lists": "l: List[torch.Tensor] = []\n"
    "    for k in range(3):\n        l.append(z[k] * 2)\n    r = torch.stack(l) + len(l)",
    "extremes": "a, b = z.aminmax()\n    c, d = torch.aminmax(z, dim=-1, keepdim=True)\n    r = a + b + c * d",
    "pad": "r = torch.nn.functional.pad(z, [1, 0, 2, 1], value=1.5)",
    "max": "a, b = z.max(-1)\n    r = a + b",
    "is_floating_point": "r = z + 1 if z.is_floating_point() else z\n    r = r * 2",
    "items": "n = int(z[0, 0])\n    r = (z * n + float(z[1, 1])) * (2 if bool(z[0, 1] > 0) else 1)",
    "implicit": "n: float = 0.0\n    n += float(z[0, 1])\n    r = z * n - 1",
    "write": "z[0] = 1.0\n    z[:, 1] = 2.0\n    z[1, 2] = 5.0\n    r = z + 1",
}


def texts(table: str) -> list[str]:
    return [text for line in table.strip().splitlines() for text in map(str.strip, line.strip().split(" | ")) if text]


def tensors(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    x = torch.tensor([[1.5, -2.25, 0.5, 3.0], [-0.75, 2.5, 7.0, -1.0], [0.25, 1.0, -3.5, 0.0]]).mul(
        2 if not dtype.is_floating_point else 1
    )
    y = torch.tensor([[2.0, 0.5, -1.5, 1.0], [1.25, -3.0, 2.0, 4.0], [-0.5, 1.0, 3.0, 2.0]]).mul(
        2 if not dtype.is_floating_point else 1
    )
    return {
        "x": x.to(dtype), "y": y.to(dtype),
        "v": y[1].to(dtype), "w": torch.arange(20).view(4, 5).sub(7).to(dtype), "b": x > 0.5,
        "i": torch.tensor([[0, 1, 2], [2, 0, 1], [1, 1, 0]]),
    }  # fmt: skip


GROUP = 5
"""Expressions of one function: compiling takes the time."""


def functions(table: str) -> Iterator[tuple[list[str], str]]:
    """Functions of the expressions; each result leaves the kernel, and is read by another operator."""
    found = texts(table)
    for first in range(0, len(found), GROUP):
        group = found[first : first + GROUP]
        names = [n for n in "xyvwbi" if any(re.search(rf"\b{n}\b", text) for text in group)]
        lines = [f"    r{k} = {text}" for k, text in enumerate(group)]
        results = ", ".join(f"r{k}, (r{k} == r{k}).logical_not()" for k in range(len(group)))
        yield group, f"def program({', '.join(names)}):\n" + "\n".join(lines) + f"\n    return {results}\n"


def states(scripted):
    return [r.implementation for r in scripted.executor.general.regions if r.kind == "tensors" and r.implementation]


def check(
    source: str,
    dtype: torch.dtype,
    units: float,
    with_extremes: bool,
    must_run: bool,
    layouts: Sequence[str] = tuple(LAYOUTS),
) -> set[str]:
    """Compare a function of named tensors in these layouts; gives the kinds of nodes in kernels that ran."""
    fn = function_of(source)
    given = tensors(dtype)
    with options.override(native="now"), torch.no_grad():
        scripted = jitlite.script(fn)
        arguments = [given[n] for n in re.findall(r"[xyvwbi]\b", source.partition(")")[0].partition("(")[2])]
        variants = [[lay(a) for a in arguments] for lay in map(LAYOUTS.__getitem__, layouts)]
        variants.append([turned(arguments[0]), *arguments[1:]])
        if with_extremes:
            variants.append([extreme(a) for a in arguments])
            if not re.search(r"fmod|remainder|//|floor", source):  # eager is of two minds about tiny divisors
                variants.append([arguments[0], *map(extreme, arguments[1:])])
        for number, variant in enumerate(variants):
            expected = outcome(fn, variant)
            got = outcome(scripted, variant)
            reason = compared(expected, got, units)
            if isinstance(expected.result, Exception) and type(expected.result) is type(got.result):
                reason = None
            assert reason is None, f"layout {number}: {reason}\n{source}"
        found = states(scripted)
        if must_run:
            assert found and sum(s.runs for s in found), f"{[s.status for s in found]}\n{source}"
        return {n.kind for s in found if s.runs for n in _nodes(s.region.nodes)}


def _nodes(nodes):
    for node in nodes:
        yield node
        for block in node.blocks:
            yield from _nodes(block.nodes)


TABLES = {
    "exact floats": (EXACT_FLOATS, (torch.float32, torch.float64), EXACT, True),
    "functions": (FUNCTIONS, (torch.float32, torch.float64), FEW, False),
    "exact ints": (EXACT_INTS, (torch.int64, torch.int32, torch.int8, torch.uint8), EXACT, True),
    "images": (IMAGES, (torch.uint8, torch.int8, torch.int16), EXACT, True),
    "sums": (SUMMED, (torch.float32, torch.float64), SUMS, False),
    "moved": (MOVED, (torch.float32, torch.int32), EXACT, False),
}


HALVES = (torch.bfloat16, torch.float16)
NOT_OF_HALVES = ("x.div(y, rounding_mode='floor')", "x.prod(-1)")
"""What torch rounds in between; see `test_halves.py`."""


def without(table: str, texts: Sequence[str]) -> str:
    for text in texts:
        table = table.replace(text, "")
    return table


LACKS = {**dict.fromkeys(HALVES, NOT_OF_HALVES), torch.uint8: ["x.clamp(-1, 2)"]}
"""What has no kernel for a type."""


CASES = [
    pytest.param(name, dtype, group, source, id=f"{name}, {dtype}: {group[0]}")
    for name, (table, dtypes, _, _) in TABLES.items()
    for dtype in (*dtypes, *(HALVES if torch.float32 in dtypes else ()))
    for group, source in functions(without(table, LACKS.get(dtype, ())))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype", "group", "source"), CASES)
def test_operators(name: str, dtype: torch.dtype, group: list[str], source: str) -> None:
    """As in eager Python, and a kernel does run: the first dtype in all layouts, the others in two, by turns."""
    _, dtypes, units, with_extremes = TABLES[name]
    units = min(units, ULP) if dtype in HALVES else units
    layouts = tuple(LAYOUTS)
    if dtype is not dtypes[0]:
        others = layouts[1:]
        layouts = (layouts[0], others[len(source) % len(others)])
    check(source, dtype, units, with_extremes, must_run=True, layouts=layouts)


@pytest.mark.parametrize("name", WHOLE)
def test_programs(name: str) -> None:
    check(whole(name), torch.float32, EXACT, False, must_run=name != "is_floating_point")


def whole(name: str) -> str:
    return f"def program(x):\n    z = x * 2\n    {WHOLE[name]}\n    return r, r + 1\n"


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_types_that_kernels_do_not_have(dtype: torch.dtype) -> None:
    source = "def program(x, y):\n    r = x * y + x\n    return r, r - 1\n"
    assert not check(source, dtype, EXACT, False, must_run=False)


UNREACHED = {
    "aten::Bool",
    "aten::FloatImplicit",
    "aten::IntImplicit",
    "aten::__getitem__",
    "aten::__is__",
    "aten::__isnot__",
    "aten::_unsafe_view",
    "aten::alias",
    "aten::bfloat16",
    "aten::bool",
    "aten::clip",
    "aten::concat",
    "aten::divide",
    "aten::double",
    "aten::float",
    "aten::half",
    "aten::index",
    "aten::int",
    "aten::long",
    "aten::multiply",
    "aten::ndimension",
    "aten::numpy_T",
    "aten::split_with_sizes",
    "aten::subtract",
    "aten::swapaxes",
    "aten::true_divide",
    "prim::AutogradKeep",
    "prim::AutogradKept",
}
"""Kinds that no source text writes, or that graphs of these texts do not keep."""


OF_MODELS = {
    "activations", "class_losses", "composites", "gradients", "gradients_of_losses", "gradients_reduced", "losses",
    "norms", "ordering", "pooling", "rearranging", "scattering", "windows",
}  # fmt: skip
"""Modules whose rules `test_model_rules.py`, `test_functional.py`, `test_recording.py` and others ask for."""

OF_NUMBERS = {"prim::AsIndex", "prim::AsInt"}
"""`test_numbers_of_tensors.py` asks for these."""

OF_FUNCTIONS = {
    "aten::broadcast_shapes", "aten::broadcast_tensors", "aten::feature_alpha_dropout", "aten::list",
    "prim::BroadcastSizes",
}  # fmt: skip
"""So does `test_functional.py` for these."""

ACTIVATED_IN_PLACE = {
    f"aten::{name}_"
    for name in ("celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu6", "selu", "silu")
}
"""So it does for these."""


def test_every_rule_is_asked_for() -> None:
    """Each operator of the table is in a region of some program here. That these run is asked for above."""
    seen: set[str] = set()
    for source in [*(str(case.values[3]) for case in CASES), *map(whole, WHOLE)]:
        scripted = jitlite.script(function_of(source))
        seen |= {n.kind for state in states(scripted) for n in _nodes(state.region.nodes)}
    elsewhere = {kind for kind, made in RULES.items() if made.__module__.rpartition(".")[2] in OF_MODELS}
    missing = sorted(set(RULES) - seen - NEVER - UNREACHED - ACTIVATED_IN_PLACE - OF_FUNCTIONS - OF_NUMBERS - elsewhere)
    assert not missing, missing
