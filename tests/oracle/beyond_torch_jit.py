"""Programs with what jitlite accepts beyond torch.jit (docs/differences.md): each saved is the same for libtorch, or
refused with its line."""

from __future__ import annotations

import enum
import math
from dataclasses import InitVar, dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

import jitlite

LIMIT = 7
NAMES = ("a", "b")
KIND = torch.float64
PLACE = torch.device("cpu")
NOTHING = None
SCALES = (0.5, (2, True))


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Word(str, enum.Enum):
    YES = "yes"
    NO = "no"


class Point(NamedTuple):
    x: Tensor
    n: int = 3


def global_numbers(x: Tensor, n: int) -> Tuple[Tensor, int, str, float]:
    return x.to(KIND).to(PLACE) + LIMIT, n + SCALES[1][0], NAMES[0] + NAMES[1], SCALES[0]


def global_none(x: Optional[Tensor]) -> bool:
    return x is NOTHING


def recursive(n: int) -> int:
    return 1 if n <= 1 else n * recursive(n - 1)


def gradient_of_one(x: Tensor) -> Tensor:
    x = x.detach().requires_grad_(True)
    (g,) = torch.autograd.grad((x * x).sum(), x)
    assert g is not None
    (x * 3).sum().backward()
    return g


def autocast_questions(x: Tensor) -> Tuple[bool, bool, bool]:
    return torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled(), torch.is_inference_mode_enabled()


def tries(n: int) -> int:
    try:
        return 10 // n
    except ZeroDivisionError:
        return -1
    finally:
        n += 1


def nested(x: Tensor, n: int) -> Tensor:
    def scaled(y: Tensor, by: int = 2):
        return y * by + n

    half = lambda v: v / 2  # noqa: E731
    return scaled(half(x)) + scaled(x, 3)


def nested_recursion(n: int) -> int:
    def count(k: int) -> int:
        return 0 if k == 0 else 1 + count(k - 1)

    return count(n)


class Refines(nn.Module):
    def __init__(self):
        super().__init__()
        self.x: Optional[Tensor] = None
        self.pair: Tuple[Optional[int], int] = (None, 2)
        self.seen: List[int] = []
        self.last: Optional[int] = None

    def forward(self, t: Tensor):
        if self.x is None:
            self.x = t
        result = self.x + 1
        if self.x is not None:
            result = result + self.x
        if self.pair[0] is not None:
            result = result + self.pair[0]
        self.seen.append(3)
        self.last = len(self.seen)
        return result, self.last + 0, self.seen


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.ws = nn.ParameterList([nn.Parameter(torch.full((2,), float(i))) for i in range(3)])
        self.by_name = nn.ParameterDict({"a": nn.Parameter(torch.ones(2)), "b": nn.Parameter(torch.zeros(2))})
        self.experts = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Tanh())

    def forward(self, x: Tensor, k: int, name: str, states: List[Tensor]):
        total = torch.zeros(2)
        for w in self.ws:
            total = total + w
        for w in self.by_name.values():
            total = total + w
        for layer, state in zip(self.experts, states):
            total = total + layer(x) + state
        return total + self.ws[k] + self.by_name[name] + self.experts[k](x), self.layers[:3](x), self.layers[-1](x)


class WithClassMethods(nn.Module):
    LIMIT = 4

    @staticmethod
    def twice(x: Tensor):
        return x * 2

    @classmethod
    def limited(cls, n: int):
        return min(n, cls.LIMIT)

    def forward(self, x: Tensor, n: int):
        return WithClassMethods.twice(x), self.limited(n), WithClassMethods.LIMIT


def several_dicts(flag: bool) -> Union[Dict[str, int], Dict[str, float]]:
    if flag:
        return dict(a=1)
    return dict(a=1.5)


def of_union(x: Union[List[int], List[float]]) -> Tuple[int, bool]:
    total = 0
    for _ in x:
        total += 1
    return len(x) + total, bool(x)


def enums(level: int, word: str) -> Tuple[bool, int, str, bool]:
    high = Level.HIGH
    return level >= Level.HIGH, high + 1, Word.YES.upper() + word, high in (Level.LOW, Level.HIGH)


def ranged(x: Tensor) -> Tuple[Tensor, int]:
    n = 0
    for i in range(Level.HIGH):
        n += i
    return x[Level.LOW], n


def loop_else(xs: List[int], wanted: int) -> Tuple[int, str]:
    for i, v in enumerate(xs):
        if v == wanted:
            found = "yes"
            break
    else:
        i = -1
        found = "no"
    return i, found


def while_else(n: int) -> int:
    while n > 3:
        n -= 2
        if n == 4:
            break
    else:
        n = 100
    return n


def comprehension(xs: List[int]) -> Tuple[List[float], int]:
    x = 1
    halves = [x / 2 for x in xs]
    return halves, x


def over_tuple(t: Tuple[int, float, int]) -> float:
    total = 0.0
    for v in t:
        if v == 2:
            continue
        if v > 10:
            break
        total += v
    return total


class Base:
    def __init__(self, n: int):
        self.n = n


class Derived(Base):
    def __init__(self, n: int):
        self.n = n + 1

    def more(self) -> int:
        return self.n * 2


def inherits(n: int) -> Tuple[bool, int]:
    d = Derived(n)
    return isinstance(d, Base), d.more()


@dataclass(frozen=True)
class Frozen:
    a: int
    b: float = 2.5


@dataclass(kw_only=True)
class Keyed:
    a: int
    scale: InitVar[int] = 2

    def __post_init__(self, scale: int):
        self.a = self.a * scale


def data(n: int) -> Tuple[int, float, int]:
    f = Frozen(n)
    k = Keyed(a=n, scale=3)
    return f.a, f.b, k.a


def of_object(x: object) -> bool:
    return isinstance(x, int)


def signs(n: int, x: Tensor) -> Tuple[int, int, Tensor]:
    n += 7
    n //= 2
    x = x.reshape(1, 2)
    x @= torch.ones(2, 2)
    return +n, +(-n), x


def positional(a: int, /, b: int, *, c: int = 4) -> int:
    return a + 10 * b + 100 * c


def calls_positional(n: int) -> int:
    return positional(n, 2) + positional(1, b=n, c=3)


def formatted(n: int, s: str) -> Tuple[str, str, str]:
    return f"{n:03d}|{s:>5}|{{{n!r}}}", "{1} {0}".format(n, s), "%05d %-4s|" % (n, s)


def fixed_point(x: float) -> str:
    return f"{x:.2f} {x:8.3f} {x:.0%}"


def grouped(n: int) -> str:
    return f"{n:,}"


def tensor_methods(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    return x[...], x.bool(), x.float(memory_format=torch.preserve_format)


def factories(n: int) -> Tuple[bool, int]:
    x = torch.zeros(n, requires_grad=True)
    found = torch.nonzero(torch.ones(2, 2), as_tuple=True)
    return x.requires_grad, len(found)


def python_methods(x: Tensor) -> Tuple[Tensor, Tensor]:
    return x.unique(), x.norm("fro")


def results_written(x: Tensor) -> Tuple[Tensor, Tensor]:
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(x, 0, out=(values, indices))
    return values, indices


def one_overload(x: Tensor) -> Tensor:
    return torch.ops.aten.add.Tensor(x, x)


def partial_truth(flag: bool, x: Optional[Tensor]) -> bool:
    return x is not None and x.dim() == 1


def negative_index(xs: List[int], t: Tuple[int, int]) -> int:
    return xs[-1] + t[-1]


def constants(x: float) -> Tuple[float, float, float]:
    return math.inf, -math.pi, x * math.e


def spoken(n: int) -> int:
    if n > 5:
        raise KeyError("too", n)
    return n


def named_tuple(x: Tensor) -> Tuple[Tensor, int, Point]:
    p = Point(x)
    return p.x, p.n, Point(n=1, x=x)


def generators(xs: List[int]) -> Tuple[bool, bool, int]:
    return any(x > 1 for x in xs), all(x > 0 for x in xs), sum([x for x in xs])


def large(n: int) -> int:
    return n + 9223372036854775808


def slices(s: str, xs: List[int]) -> Tuple[str, List[int]]:
    return s[::-1], xs[::2]


@torch.no_grad()
def without_gradient(x: Tensor) -> Tensor:
    return x * 2


def with_inference(x: Tensor) -> Tensor:
    with torch.inference_mode():
        return x * 2


X = torch.tensor([1.0, 2.0])

PROGRAMS: List[Tuple[Any, List[Tuple[Any, ...]]]] = [
    (global_numbers, [(X, 2)]),
    (global_none, [(None,), (X,)]),
    (recursive, [(5,)]),
    (gradient_of_one, [(X,)]),
    (autocast_questions, [(X,)]),
    (tries, [(0,), (3,)]),
    (nested, [(X, 2)]),
    (nested_recursion, [(4,)]),
    (Refines, [(X,), (X,)]),
    (Containers, [(X, k, n, [X, X]) for k in (0, 2, -1, -3) for n in ("a", "b")]),
    (WithClassMethods, [(X, 9)]),
    (several_dicts, [(True,), (False,)]),
    (of_union, [([1, 2],), ([0.5],)]),
    (enums, [(5, "x"), (1, "y")]),
    (ranged, [(X,)]),
    (loop_else, [([1, 2, 3], 2), ([1, 2], 5)]),
    (while_else, [(9,), (6,)]),
    (comprehension, [([1, 2],)]),
    (over_tuple, [((1, 2.0, 11),), ((1, 2.0, 3),)]),
    (inherits, [(3,)]),
    (data, [(3,)]),
    (of_object, [(3,)]),
    (signs, [(3, X)]),
    (calls_positional, [(3,)]),
    (formatted, [(7, "ab"), (-7, "abcdef")]),
    (fixed_point, [(1.005,), (-0.5,), (2.5,), (99.999,)]),
    (grouped, [(7,)]),
    (tensor_methods, [(X,)]),
    (factories, [(2,)]),
    (python_methods, [(X,)]),
    (results_written, [(torch.tensor([[1.0, 5.0], [3.0, 2.0]]),)]),
    (one_overload, [(X,)]),
    (partial_truth, [(True, X), (True, None)]),
    (negative_index, [([1, 2], (3, 4))]),
    (constants, [(1.5,)]),
    (spoken, [(3,)]),
    (named_tuple, [(X,)]),
    (generators, [([1, 2],), ([],)]),
    (large, [(1,)]),
    (slices, [("abc", [1, 2, 3])]),
    (without_gradient, [(X,)]),
    (with_inference, [(X,)]),
]

REFUSED = {
    "autocast_questions", "grouped", "large", "nested_recursion", "recursive", "tries", "with_inference",
}  # fmt: skip
"""What TorchScript cannot say."""


def compiled(program: Any) -> Any:
    return jitlite.script(program() if isinstance(program, type) else program)
