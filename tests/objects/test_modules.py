"""Modules of odd shapes: scripted, they give what eager gives, call after call, and so do copies of them."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import gc
import io
import pickle
import weakref
from typing import Dict, Final, List, NamedTuple, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import jitlite
from jitlite.debug.equality import difference

X = torch.linspace(-1, 1, 8).reshape(2, 4)
SEQUENCE = torch.linspace(-1, 1, 24).reshape(3, 2, 4)
MODULES: list[type[nn.Module]] = []
"""Those that are run by `test_like_eager`, with X; the sequential ones with SEQUENCE."""


def example(cls):
    MODULES.append(cls)
    return cls


def linears(count):
    return [nn.Linear(4, 4) for _ in range(count)]


# -- submodules, parameters and attributes -----------------------------------------------------------------------------


@example
class Shared(nn.Module):
    """One module, and one parameter, in several places."""

    def __init__(self):
        super().__init__()
        self.a, self.c = linears(2)
        self.b = self.a
        self.c.weight = self.a.weight
        self.all = nn.ModuleList([self.a, self.a, self.c])
        self.weights = nn.ParameterList([self.a.weight])

    def forward(self, x):
        for m in self.all:
            x = m(x)
        return self.b(self.a(x)) + self.weights[0].sum()


@example
class Missing(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("p", None)
        self.register_buffer("b", None)
        self.register_module("m", None)
        self.sub = None

    def forward(self, x):
        if self.p is not None:
            x = x + self.p
        if self.m is not None and self.b is not None:
            x = self.m(x) + self.b
        if self.p is not None and x.dtype != self.p.dtype:  # without p there is no dtype to ask for
            x = x * 2
        return x if self.sub is None else self.sub(x)


@example
class Cache(nn.Module):
    cache: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", None)

    def forward(self, x):
        known = self.cache
        if known is None:
            self.cache = x * 2
            return x
        self.cache = known + 1
        return known


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.last = torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        self.last = x * self.n
        return x + self.n

    @jitlite.export
    def reset(self) -> None:
        self.n = 0


@example
class State(nn.Module):
    """Attributes of its own and of submodules change."""

    log: List[int]
    store: Dict[str, List[Tensor]]
    name: Optional[str]

    def __init__(self):
        super().__init__()
        self.log, self.store, self.name = [], {}, None
        self.place = (1, "a")
        self.counter = Counter()
        self.counters = nn.ModuleDict({"a": Counter(), "b": Counter()})

    def forward(self, x):
        self.log.append(len(self.log))
        self.place = (self.place[0] + 1, self.place[1] + "z")
        self.name = self.place[1]
        if "x" not in self.store:
            self.store["x"] = []
        self.store["x"].append(x)
        x = self.counter(x)
        self.counter.n = self.counter.n + 10
        for name, counter in self.counters.items():
            if name == "b":
                counter.n += 5
            x = counter(x)
        if self.counter.n > 15:
            self.counter.reset()
        return x, self.log, self.place, self.name, self.store, self.counter.n, self.counters["b"].last


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Pair(NamedTuple):
    number: int
    tensor: Tensor


class Tally:
    def __init__(self, count: int):
        self.count = count

    def add(self, amount: int = 1) -> int:
        self.count += amount
        return self.count


@dataclasses.dataclass
class Config:
    width: int = 2
    name: str = "a"

    def twice(self) -> int:
        return self.width * 2


def scaled(x: Tensor, by: int) -> Tensor:
    return x.relu() * by


@example
class Holder(nn.Module):
    """Attributes of all kinds."""

    __constants__ = ["sizes", "flag"]
    four: Final[int]

    def __init__(self):
        super().__init__()
        self.sizes, self.flag, self.four = [1, 2], True, 4
        self.dtype, self.device = torch.float64, torch.device("cpu")
        self.color, self.pair, self.tally, self.config = Color.GREEN, Pair(3, torch.ones(4)), Tally(3), Config(5)
        self.tensors = {"a": torch.ones(4)}
        self.items = [("a", 1), ("b", 2)]
        self.function, self.other, self.empty = F.gelu, scaled, {}

    def forward(self, x):
        for size in self.sizes:
            x = x + size
        for name, number in self.items:
            x = x + number + len(name)
        if self.flag and self.color == Color.GREEN:
            x = x + self.pair.number * self.pair.tensor
        self.tensors["b"] = x
        made = Config(3, "q")
        y = torch.zeros(2, dtype=self.dtype, device=self.device)
        x = self.other(self.function(x), 2) + self.tally.add(amount=self.four)
        return x, y, self.pair, self.tensors, self.config.twice() + made.width, made.name + self.config.name


# -- methods -----------------------------------------------------------------------------------------------------------


@example
class Methods(nn.Module):
    """Properties, overloads, static and class methods, methods that are left to Python, keyword-only parameters."""

    K = 3

    def __init__(self):
        super().__init__()
        self._scale = 2.0
        self.untyped = object()

    @property
    def scale(self) -> float:
        return self._scale * 2

    @scale.setter
    def scale(self, value: float) -> None:
        self._scale = value / 2

    @torch.jit._overload_method
    def plus(self, x: int) -> int: ...

    @torch.jit._overload_method
    def plus(self, x: Tensor) -> Tensor: ...  # noqa: F811

    def plus(self, x):  # noqa: F811
        return x + 1

    @staticmethod
    def static(x: Tensor, by: int = 2) -> Tensor:
        return x * by

    @classmethod
    def of_class(cls, x: Tensor, by: int = 1) -> Tensor:
        return cls.static(x, by) * cls.K

    @jitlite.ignore
    def python(self, x: Tensor, text: str = "q") -> Tensor:
        assert self.untyped is not None
        return x + len({text})

    @jitlite.unused
    def never(self, x):
        return undefined(x)  # noqa: F821

    @jitlite.export
    def exported(self, x: Tensor) -> Tensor:
        return self.also_exported(x) + 1

    @jitlite.export
    def also_exported(self, x: Tensor) -> Tensor:
        return x * 2

    def forward(self, x, never: bool = False, *, by: int = 2):
        if never:
            return self.never(x), 0.0, 1
        self.scale = self.scale + 1
        x = self.static(x) + Methods.static(x, 3) + self.of_class(x, by=by) + self.of_class(x)
        return self.python(x) + self.python(x, "zz") + self.exported(self.plus(x)), self._scale, self.plus(3)


class Base(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.by

    def inner(self, x: Tensor) -> Tensor:
        return x


class Middle(Base):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


class Mixin:
    def extra(self, x: Tensor) -> Tensor:
        return x - 3


@example
class Leaf(Mixin, Middle):
    def __init__(self):
        super().__init__(5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.extra(x)) + 100

    def inner(self, x: Tensor) -> Tensor:
        return super().inner(x) * 2


def shifted(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
    return (input[0] + 1,)


def seen(self, input: Tuple[Tensor]) -> None:
    return None


def doubled(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
    return output * 2 + input[0]


@example
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.layer.register_forward_pre_hook(shifted)
        self.layer.register_forward_pre_hook(seen)
        self.layer.register_forward_hook(doubled)
        self.register_forward_hook(doubled)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@example
class DependsOnMode(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.dropout = nn.BatchNorm1d(4), nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.norm(x) if self.training else x - 1)


@jitlite.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor: ...

    def twice(self, x: Tensor) -> Tensor: ...


class Plus(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1

    @jitlite.export
    def twice(self, x: Tensor) -> Tensor:
        return x + 2


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)

    @jitlite.export
    def twice(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x))


@example
class UsesInterface(nn.Module):
    layer: Layer

    def __init__(self):
        super().__init__()
        self.layer = Plus()

    def forward(self, x):
        return self.layer.twice(self.layer(x))


@example
class Recursive(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.child = Recursive(depth - 1) if depth > 0 else None
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        if self.child is not None:
            x = self.child(x)
        return x


# -- containers --------------------------------------------------------------------------------------------------------


@example
class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.nested = nn.ModuleDict({"x": nn.ModuleList([*linears(1), nn.ReLU()]), "y": nn.ModuleList([nn.Tanh()])})
        self.chain = nn.Sequential(
            collections.OrderedDict([("first", nn.Linear(4, 4)), ("act", nn.ReLU()), ("last", nn.Linear(4, 4))])
        )
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4) * i) for i in range(3)])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.ones(4)), "b": nn.Parameter(torch.ones(4) * 3)})

    def forward(self, x):
        for name, layers in self.nested.items():
            for i, layer in enumerate(layers):
                x = layer(x) + i + len(name)
        for a, b in zip(self.chain, self.nested["x"]):
            x = a(x) + b(x)
        for layer in self.chain[::-1]:
            x = layer(x)
        x = self.chain[-1](x) + self.nested["x"][-2](x) + self.chain.first(x)
        for i, weight in enumerate(self.weights):
            x = x + weight * i
        for key in self.named.keys():
            x = x + len(key)
        for value in self.named.values():
            x = x * value
        total = 0
        for _, parameter in self.named_parameters():
            total += parameter.numel()
        return x + self.weights[-1] + self.named["a"], len(self.chain), "x" in self.nested, total


@example
class Slices(nn.Module):
    """A slice of a Sequential is one."""

    def __init__(self):
        super().__init__()
        self.chain = nn.Sequential(*linears(1), nn.ReLU(), *linears(1), nn.Tanh())

    def forward(self, x):
        y = self.chain[:2](x) + self.chain[1:][:-1](x) + self.chain[1:][-1](x)
        for m in self.chain[2:]:
            y = m(y)
        return y, len(self.chain[1:])


@example
class Comprehensions(nn.Module):
    """Variables of comprehensions are their own, whatever else has the name."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([*linears(2), nn.ReLU()])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})

    def forward(self, x):
        for m in self.layers:
            x = m(x)
        outs = [m(x) for m in self.layers]
        heads = {x: m(outs[0]) for x, m in self.heads.items()}
        numbers = [x * 2 for x in [1, 2]]
        nested = [[x + 1.0 for x in [len(x)]] for x in ["a", "bb"]]
        for i in range(2):
            numbers.append(len([i for i in ["p", "q"]]) + i)
        return m(x), outs, heads, numbers, nested, [x for x in [x]]


@example
class ByClass(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([*linears(1), nn.ReLU(), nn.Dropout(0.0)])

    def forward(self, x):
        for m in self.layers:
            if isinstance(m, nn.Linear):
                x = m(x) + m.weight.sum()
            elif isinstance(m, (nn.Conv2d, nn.ReLU)) and not isinstance(m, Mixin):
                x = m(x) * 2
            else:
                x = m(x) + len(self.layers)
        return x


@example
class Leaves(nn.Module):
    """Loops over modules that end early."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(linears(3))

    def forward(self, x, most: int = 1):
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 0.2:
                break
            if x.sum() < -5:
                continue
            x = x * 2
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == most:
                return x
        return x * 0


class OwnSequential(nn.Sequential):
    def forward(self, x: Tensor, by: int = 2) -> Tensor:
        for m in self:
            x = m(x) * by
        return x


class OwnDict(nn.ModuleDict):
    def forward(self, x: Tensor) -> List[Tensor]:
        return [m(x) for m in self.values()]


@example
class OwnContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.chain = OwnSequential(nn.ReLU(), *linears(1))
        self.heads = OwnDict({"q": nn.ReLU(), "r": nn.Tanh()})

    def forward(self, x):
        return self.chain(x), self.chain(x, by=3), self.heads(x)


# -- torch's own -------------------------------------------------------------------------------------------------------


@example
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTM(4, 3, 2, bidirectional=True), nn.GRU(4, 3), nn.RNN(4, 3)
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x):
        x = torch.stack([x, x * 2, x - 1])
        out, (h, c) = self.lstm(x)
        again, _ = self.lstm(x, (h, c))
        packed: PackedSequence = pack_padded_sequence(x, torch.tensor([3, 2]))
        padded, lengths = pad_packed_sequence(self.gru(packed)[0])
        state = (torch.zeros(2, 3), torch.zeros(2, 3))
        for step in x.unbind(0):
            state = self.cell(step, state)
        return out, h, c, again, padded, lengths, self.rnn(x), state, packed


@example
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2)
        self.no_bias = nn.MultiheadAttention(4, 2, bias=False)
        layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)

    def forward(self, x):
        x = torch.stack([x, x * 2, x - 1])
        padding = torch.zeros(2, 3, dtype=torch.bool)
        padding[1, 2] = True
        seen, weights = self.attention(x, x, x, key_padding_mask=padding)
        mask = nn.Transformer.generate_square_subsequent_mask(2)
        encoded = self.encoder(x, mask=mask, is_causal=True)
        return seen, weights, self.no_bias(x, x, x, need_weights=False)[0], encoded


# -- the tests ---------------------------------------------------------------------------------------------------------


def snapshot(value):
    """A copy that later calls do not change."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, PackedSequence):
        return tuple(map(snapshot, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(snapshot, value))
    if isinstance(value, list | tuple):
        return type(value)(map(snapshot, value))
    return {k: snapshot(v) for k, v in value.items()} if isinstance(value, dict) else value


def run(module):
    """The results of calls in both modes, gradients and state after them."""
    found = []
    for training in (True, True, False):
        module.train(training)
        torch.manual_seed(1)
        result = module(X)
        found.append(snapshot(result))
        first = result[0] if isinstance(result, tuple) else result
        if first.requires_grad:
            parameters = list(module.parameters())
            found.append(torch.autograd.grad(first.sum(), parameters, allow_unused=True))
    return found, dict(module.state_dict())


def pickled(module):
    return pickle.loads(pickle.dumps(module))


def build(cls):
    torch.manual_seed(0)
    return cls()


@pytest.mark.parametrize("cls", MODULES)
def test_like_eager(cls):
    eager, scripted = build(cls), jitlite.script(build(cls))
    assert difference(run(eager), run(scripted)) is None
    # the copies start with the state that the calls left
    copies = [copy.deepcopy(scripted), pickled(scripted)]
    expected = run(eager)
    for made in copies:
        assert difference(expected, run(made)) is None
    assert difference(expected, run(scripted)) is None


def test_what_is_shared_stays_shared():
    scripted = jitlite.script(Shared())
    for made in (scripted, copy.deepcopy(scripted), pickled(scripted), copy.copy(scripted), scripted.double()):
        assert made.a is made.b is made.all[0] is made.all[1]
        assert made.a.weight is made.c.weight is made.weights[0]
        assert len(list(made.parameters())) == 3


def test_recurrent_weights_follow_copies_and_dtypes():
    eager = nn.LSTM(4, 3)
    scripted = jitlite.script(eager)
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        eager.to(dtype), scripted.to(dtype)
        assert difference(eager(SEQUENCE.to(dtype)), scripted(SEQUENCE.to(dtype))) is None
    for copied in (copy.deepcopy, pickled):
        made = copied(scripted).double()
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.zero_()
        assert made(SEQUENCE.double())[0].count_nonzero() == 0
        assert scripted(SEQUENCE)[0].count_nonzero() > 0


class OwnState(nn.Module):
    """Says itself what of it is kept."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.calls = 0
        self.handle = memoryview(b"cannot be copied")

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "handle"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.handle = memoryview(b"new")
        self.calls = -1

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_classes_say_what_is_copied(copied):
    scripted = jitlite.script(OwnState())
    expected = scripted(X)
    made = copied(scripted)
    assert made.calls == -1 and scripted.calls == 1 and bytes(made.handle) == b"new"
    assert difference(expected, made(X)) is None
    assert made.calls == 0


class Untyped(nn.Module):
    """Cannot be compiled, which does not matter as long as only its weight is used."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x[{1, 2}]


class UsesWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.untyped = Untyped()

    def helper(self, x: Tensor) -> Tensor:
        return x * self.untyped.weight

    def forward(self, x):
        return self.helper(x) + 1


def test_pickles_need_no_more_than_what_was_compiled():
    scripted = jitlite.script(UsesWeight())
    made = pickled(scripted)
    assert difference(scripted.helper(X), made.helper(X)) is None
    assert difference(scripted(X), made(X)) is None


def test_one_pickle_is_one_program():
    made = pickled(nn.Sequential(*(jitlite.script(nn.Sequential(nn.ReLU(), nn.ReLU())) for _ in range(2))))
    first, second = made
    assert first[0].forward.__jitlite_function__ is first[1].forward.__jitlite_function__
    assert first[0].forward.__jitlite_function__ is not second[0].forward.__jitlite_function__


def test_modules_behind_an_interface_are_exchanged():
    scripted = jitlite.script(UsesInterface())
    scripted.layer = jitlite.script(Weighted())
    expected = scripted.layer.twice(scripted.layer(X))
    for made in (scripted, copy.deepcopy(scripted), pickled(scripted)):
        assert difference(expected, made(X)) is None
    with pytest.raises(RuntimeError, match=r"layer"):
        scripted.layer = jitlite.script(nn.ReLU())


class Zipped(nn.Module):
    """Modules together with lists whose length nobody knows."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(linears(3))

    def forward(self, x, states: List[Tensor], most: int):
        after: List[Tensor] = []
        for layer, state in zip(self.layers, states):
            x = layer(x) + state
            after.append(x)
        for i, (layer, state) in enumerate(zip(self.layers, states)):
            if i == 1:
                continue
            x = layer(x) * i + state
        for layer, k in zip(self.layers, range(most)):
            x = layer(x) + k
        for state, (name, number) in zip(states, (("a", 1), ("bb", 2))):
            x = x + number * state + len(name)
        return x, after, [layer(state) for layer, state in zip(self.layers, states)]


@pytest.mark.parametrize("count", range(5))
def test_the_shortest_ends_a_loop_over_modules_and_lists(count):
    eager = Zipped()
    scripted = jitlite.script(eager)
    for most in range(5):
        assert difference(eager(X, [X] * count, most), scripted(X, [X] * count, most)) is None


def test_functional_calls():
    eager = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    gradients = []
    for module in (eager, jitlite.script(eager)):
        state = {name: p.detach() for name, p in module.named_parameters()}
        loss = lambda state, m=module: torch.func.functional_call(m, state, (X,)).sum()  # noqa: E731
        gradients.append(dict(torch.func.grad(loss)(state)))
    assert difference(*gradients) is None


class LastOf(nn.Module):
    """A recurrent module in another."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0]


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("layers, both", [(1, False), (2, True)])
def test_functional_calls_of_recurrent_modules(cls, layers, both):
    """Scripts read the weights from a list, which holds those of the call during the call alone."""
    inner, x = cls(4, 3, layers, bidirectional=both), torch.randn(5, 2, 4)
    eager = LastOf(inner)
    state = {name: torch.randn_like(p) for name, p in eager.named_parameters()}
    for module in (jitlite.script(eager), LastOf(jitlite.script(inner)), jitlite.trace(eager, x)):
        for _ in range(3):
            torch.testing.assert_close(
                torch.func.functional_call(module, state, (x,)), torch.func.functional_call(eager, state, (x,))
            )
            torch.testing.assert_close(module(x), eager(x))
    scripted = jitlite.script(eager)
    torch.func.grad(lambda s: torch.func.functional_call(scripted, s, (x,)).sum())(state)
    assert all(own is p for own, p in zip(scripted.inner._flat_weights, scripted.inner.parameters(), strict=True))
    torch.testing.assert_close(jitlite.load(io.BytesIO(scripted.save_to_buffer()))(x), eager(x))


def test_modules_are_freed():
    scripted = jitlite.script(Containers())
    scripted(X)
    weight = weakref.ref(scripted.chain.first.weight)
    del scripted
    gc.collect()
    assert weight() is None


class HasForward(nn.Module):
    def forward(self, x):
        return x if hasattr(self, "_forward_hooks") or hasattr(self, "nothing") else x + 1


def test_what_every_module_has_is_not_there_for_scripts():
    assert difference(X + 1, jitlite.script(HasForward())(X)) is None


class SliceWithKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.chain = nn.Sequential(*linears(2))

    def forward(self, x):
        return self.chain[:1](x, x)


def test_slices_take_one_argument():
    with pytest.raises(jitlite.CompileError, match="a slice of a Sequential takes one argument"):
        jitlite.script(SliceWithKeyword())
