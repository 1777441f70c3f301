"""The overload chosen for a call, and the conversions around it, are those of torch.jit."""

from __future__ import annotations

import pytest
import torch

from jitlite.base.source import CompileError
from jitlite.ir.graph import Graph
from jitlite.ir.type_parser import parse_type
from jitlite.operators import overloads
from jitlite.operators.overloads import NamedValue

TYPES = {
    "T": "Tensor", "i": "int", "f": "float", "b": "bool", "s": "str", "c": "complex", "n": "number", "I": "List[int]",
    "F": "List[float]", "B": "List[bool]", "S": "List[str]", "X": "List[Tensor]", "?T": "Optional[Tensor]",
    "?i": "Optional[int]", "?f": "Optional[float]", "ii": "Tuple[int, int]", "if": "Tuple[int, float]", "D": "Device",
    "TT": "Tuple[Tensor, Tensor]", "II": "List[List[int]]", "dsi": "Dict[str, int]", "diT": "Dict[int, Tensor]",
    "iii": "Tuple[int, int, int]", "bb": "Tuple[bool, bool]",
}  # fmt: skip
GRAPH_TYPES = {
    "List[int]": "int[]", "List[float]": "float[]", "List[bool]": "bool[]", "List[str]": "str[]",
    "List[Tensor]": "Tensor[]", "Optional[Tensor]": "Tensor?", "Optional[int]": "int?", "Optional[float]": "float?",
    "Tuple[int, int]": "(int, int)", "Tuple[int, float]": "(int, float)", "Tuple[Tensor, Tensor]": "(Tensor, Tensor)",
    "List[List[int]]": "int[][]", "Dict[str, int]": "Dict(str, int)", "Dict[int, Tensor]": "Dict(int, Tensor)",
    "Tuple[int, int, int]": "(int, int, int)", "Tuple[bool, bool]": "(bool, bool)", "number": "Scalar",
}  # fmt: skip

# `name: arguments | arguments ...`; an argument is a type of the table above, `None`, or `keyword=type`
CALLS = """
add: T T | T i | T f | T c | T n | i i | i f | f i | f f | c c | c i | n n | s s | I I | F F | X X
add: T T alpha=i | T i f | b i | b b | b f | T b
sub: T T | T i | i i | f i | n i | T T alpha=f
mul: T T | T f | i f | c f | I i | i I | T n | f T | i T
div: T T | T i | i i | f i | n n | T T rounding_mode=s | T f rounding_mode=s
floordiv: i i | f i | i f | T T | T i | T f | f f
remainder: T T | T i | i T | i i | f i
pow: T T | T i | i T | i i | f f | i f | f i | T f | n n
floor_divide: T T | T i | i T
eq: T T | T i | i T | i i | s s | I I | f i | D D | X X | b b | c c | n n | F F
ne: T i | f T | i i | s s | S S
lt: T T | T f | f T | i i | s s | b i
gt: i T | T i | f f
ge: T T | i f
le: i T | f f
__and__: T T | T i | b b | i i
__or__: T T | b b
__xor__: T i | i i
__lshift__: T i | i i | T T
neg: T | i | f | c | n
abs: T
bitwise_not: T | i
view: T i i | T I | T ii | T i | T iii
reshape: T i i | T I | T ii
permute: T i i i | T I
expand: T i i | T I implicit=b
repeat: T i i | T I
zeros: i i | I | ii | i dtype=i | i i device=D | I dtype=i device=s | b i
ones: i
full: I f | I i | I n dtype=i | I b
empty: i i | I memory_format=i
rand: i i | i generator=None
randn: I
randint: i I | i i I | i ii | i i I dtype=i
arange: i | i i | i i i | f | i dtype=i | f f f
linspace: i i i | f f i
eye: i | i i
tensor: i | f | b | I | F | c | II | I dtype=i | f requires_grad=b | B
as_tensor: T | i | I
sum: T | T i | T I | T ii | T I b | T dtype=i | T dim=i keepdim=b | I | F
mean: T | T i | T dim=I | T ii keepdim=b
std: T | T i | T b | T i b b
var: T | T I b
max: T | T i | T T | T i b
min: T | T i | T T
argmax: T | T i | T dim=?i
norm: T | T f | T i | T n I | T p=i dim=I
cat: X | X i | TT | X dim=i
stack: X | X i | TT i
split: T i | T i i | T I | T I dim=i
chunk: T i | T i i
squeeze: T | T i | T I
unsqueeze: T i
transpose: T i i
flatten: T | T i | T i i
index_select: T i T
select: T i i
slice: T i i i i | T i None i | I i i i
gather: T i T
masked_fill: T T f | T T T | T T i
where: T T T | T f f | T T f | T f T | T
clamp: T i i | T f | T min=f | T max=i | T None f | T T T
relu: T
softmax: T i | T i i | T dim=i
log_softmax: T i
dropout: T f b
conv2d: T T | T T T | T T T i | T T None ii I | T T stride=i padding=s
max_pool2d: T i | T I | T ii stride=i
avg_pool2d: T i | T ii
batch_norm: T T T T T b f f b
layer_norm: T I | T I T T f
linear: T T | T T T
embedding: T T
matmul: T T
bmm: T T
addmm: T T T | T T T beta=f alpha=f
lstm: T X X b i f b b b
to: T i | T D | T T | T i b | T D i | T device=s | T dtype=i | T D i b b | T s
type_as: T T
item: T
size: T | T i
dim: T
numel: T
len: T | I | s | dsi | S
append: I i | X T | S s
__getitem__: I i | s i | dsi s | diT i | X i
_set_item: I i i | dsi s i | diT i T
keys: dsi | diT
values: dsi
get: dsi s | dsi s i
pop: I | I i | dsi s
insert: I i i
extend: I I | X X
sort: I | T | T i b | I b
sorted: I | F | S
topk: T i | T i i b b
Int: T | f | b | s | n
Float: i | s | b | T | n
Bool: T | i | f
Complex: i i | f f | n
str: i | T | I
sqrt: i | f | T | c
sin: f | T | i
exp: T | f | i | c
log: T | f f | i | i f
floor: f | i | T
ceil: f
atan2: T T | f f | i f
isnan: f | T | c
fmod: T f | f f | i i
copysign: T T | f f | T f | i i
hypot: T T
startswith: s s | s s i
split_with_sizes: T I
replace: s s s
join: s S
format: s i f | s
upper: s
find: s s | s s i i
no_such_operator: T
normal: T T | f f I | T f
uniform_: T | T f f
fill_: T f | T T | T i
copy_: T T | T i | T f
zero_: T
add_: T T | T i | T f | I I
mul_: T f
index_put_: T X T b
index: T X
einsum: s X
cross: T T
cdist: T T f
roll: T i | T i i | T ii ii
flip: T I | T i
tile: T I
meshgrid: X
bincount: T
scatter: T i T T | T i T f
scatter_add: T i T T
diff: T | T i
logsumexp: T i | T ii
cumsum: T i | T i dtype=i
unbind: T | T i
triu: T | T i
addcmul: T T T value=f | T T T value=i
lerp: T T f | T T T
threshold: T f f | T i f
pad: T I | T I s f
gelu: T | T approximate=s
hardtanh: T | T i i
leaky_relu: T | T f
cross_entropy_loss: T T | T T None i i
nll_loss: T T
mse_loss: T T | T T i
upsample_nearest2d: T I None | T None F
interpolate: T
allclose: T T | T T f f
equal: T T
isclose: T T f
all: T | T i | B | I | F
any: T | T i b | B
device: s
_pair: i | I | ii
_single: f
_triple: iii
is_floating_point: T
detach: T
contiguous: T | T memory_format=i
movedim: T i i | T I I
linalg_norm: T | T f | T s | T n I
linalg_svd: T | T b
linalg_eigh: T
fft_fft: T | T n=i
logit: T | T eps=f
div_: T T | T i
bernoulli: T | T f
multinomial: T i b
tensor_split: T i | T I
repeat_interleave: T | T i | T T | T T dim=i
unflatten: T i I
tensordot: T T I I
searchsorted: T T | T i right=b
bucketize: T T
quantile: T f | T T
histc: T i
"""


def _calls() -> list[tuple[str, str]]:
    return [
        (name, arguments.strip())
        for line in CALLS.strip().splitlines()
        for name, _, rest in [line.partition(":")]
        for arguments in rest.split("|")
    ]


HOMES = dict.fromkeys(("_single", "_pair", "_triple"), "torch.nn.modules.utils")
"""Where Python has what is no operator of the dispatcher's."""


def _of_torch(name: str, arguments: list[str]) -> list[str] | None:
    """What torch.jit makes of the call: each node's operator and results; None if it refuses."""
    params, given = [], []
    for position, argument in enumerate(arguments):
        keyword, _, code = argument.rpartition("=")
        text = "None" if code == "None" else f"a{position}"
        if code != "None":
            params.append(f"a{position}: {TYPES[code]}")
        given.append(f"{keyword}={text}" if keyword else text)
    home = HOMES.get(name, "torch.ops.aten" if hasattr(torch.ops.aten, name) else "torch")
    source = f"def f({', '.join(params)}):\n  return {home}.{name}({', '.join(given)})\n"
    try:
        graph = torch.jit.CompilationUnit(source).f.graph
    except RuntimeError:
        return None
    shown = []
    for node in graph.nodes():
        if node.kind() not in ("prim::Constant", "prim::TupleConstruct"):
            schema = node.schema()
            called = schema.partition("(")[0] if schema != "(no schema)" else node.kind()
            shown.append(f"{called} -> {', '.join(str(o.type()) for o in node.outputs())}")
    return shown


def _of_jitlite(name: str, arguments: list[str]) -> list[str] | None:
    graph = Graph()
    args, kwargs = [], []
    for argument in arguments:
        keyword, _, code = argument.rpartition("=")
        if code == "None":
            value = NamedValue(keyword or None, constant=None)
        else:
            text = TYPES[code]
            value = NamedValue(keyword or None, graph.add_input(parse_type(GRAPH_TYPES.get(text, text))))
        (kwargs if keyword else args).append(value)
    try:
        overloads.emit_builtin_call(graph, None, f"aten::{name}", args, kwargs)
    except CompileError:
        return None
    shown = []
    for node in graph.nodes:
        if node.kind not in ("prim::Constant", "prim::TupleConstruct"):
            known = node.op is not None and node.op.fn is not None
            called = node.op.schema.qualified if known else node.kind
            shown.append(f"{called} -> {', '.join(o.type.annotation for o in node.outputs)}")
    return shown


# where a bool meets a tensor or a Scalar, and for these reflected operators, values follow eager Python instead
OWN_WAYS = {
    ("add", "T b"), ("full", "I b"), ("sub", "i T"), ("floor_divide", "i T"),
}  # fmt: skip


def test_there_are_enough_calls() -> None:
    assert len(_calls()) >= 150


@pytest.mark.parametrize("name, arguments", _calls(), ids=lambda text: text.replace(" ", "_"))
def test_same_overload_and_conversions(name: str, arguments: str) -> None:
    if (name, arguments) in OWN_WAYS:
        pytest.skip("follows eager Python")
    listed = arguments.split()
    wanted = _of_torch(name, listed)
    if wanted is not None:
        wanted = [line.replace("Tensor (inferred)", "Tensor") for line in wanted]
    assert _of_jitlite(name, listed) == wanted
