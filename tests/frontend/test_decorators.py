"""Functions that decorators have put in place of others, as eager Python calls them."""

from __future__ import annotations

import contextlib
import functools
import io
import time

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source
from torch import Tensor, nn

import jitlite
from jitlite.base.source import CompileError

CALLS: Table = {
    "with all arguments": ("x: Tensor", "return plus(x), plus(x, 3), plus(x, k=5), plus(k=2, x=x)", [[T34]]),
    "with a parameter": ("x: Tensor, n: int", "return tripled(x), tripled(n), tripled(1.5)", [[T34, 2]]),
    "with arguments of their own": ("x: Tensor", "return scaled(x), scaled(x, k=3)", [[T34]]),
    "several": ("x: Tensor", "return thrice(x), thrice(x, k=4)", [[T34]]),
    "without functools.wraps": ("x: Tensor, n: int", "return bare(x), bare(x, k=n)", [[T34, 2]]),
    "that check": ("x: Tensor, n: int", "return checked_dims(x, n)", [[T34, 2], [T34[0], 2]]),
    "that print": ("x: Tensor", "return announced(x, 3)", [[T34]]),
    "that look on": ("x: Tensor", "return timed(x), timed(x, k=3)", [[T34]]),
    "that look at keywords": ("x: Tensor", "return asked(x), asked(x, k=3), asked(x, 3)", [[T34]]),
    "that warn": ("x: Tensor", "return old(x)", [[T34]]),
    "that cache": ("n: int", "return cached(n), cached(n + 1), bounded(n)", [[3]]),
    "with contexts": ("x: Tensor", "return outside(x), inside(x), outside(x) + x", [[T34.clone().requires_grad_()]]),
    "of a class": ("x: Tensor, n: int", "return twofold(x), twofold(x, k=n), twofold.factor, named(x)", [[T34, 2]]),
    "partials": ("x: Tensor", "return partly(x), partly(x, k=4)", [[T34]]),
    "that call themselves": ("n: int", "return factorial(n)", [[1], [5]]),
    "as arguments": ("x: Tensor", "return apply(plus, x, k=3), [f(x) for f in (plus, tripled, twofold)]", [[T34]]),
    "of methods": (
        "x: Tensor, n: int",
        "c = Holder(n)\nreturn c.method(x), c.method(x, k=7), c.inner(x), Holder.static(x), c.static(x), c.twice",
        [[T34, 2]],
    ),
    "of methods that change": ("n: int", "c = Holder(n)\nc.grow(3)\nc.grow(by=n)\nreturn c.k", [[2]]),
}

HEAD = """
import time
from typing_extensions import deprecated

def doubled(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2
    return wrapper

def times(factor):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) * factor
        return wrapper
    return decorate

def of_three_times(fn):
    @functools.wraps(fn)
    def wrapper(x):
        return fn(x * 3)
    return wrapper

def without_name(fn):
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 5
    return wrapper

def with_dims(fn):
    @functools.wraps(fn)
    def wrapper(x, *args, **kwargs):
        if x.dim() != 2:
            raise ValueError(f"{fn.__name__} takes matrices")
        return fn(x, *args, **kwargs)
    return wrapper

def printing(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        print("called", fn.__name__)
        return fn(*args, **kwargs)
    return wrapper

def measured(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = fn(*args, **kwargs)
        elapsed = time.perf_counter() - start
        return result
    return wrapper

def asking(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        if "k" in kwargs:
            return fn(*args, **kwargs) * 100
        return fn(*args, **kwargs) + len(args)
    return wrapper

class Times:
    factor = 2
    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.fn = fn
    def __call__(self, *args, **kwargs):
        return self.scale(self.fn(*args, **kwargs))
    def scale(self, x):
        return x * self.factor

class Plain:
    def __init__(self, fn, name):
        self.fn, self.name = fn, name
    @property
    def shown(self):
        return len(self.name)
    def __call__(self, x):
        return self.fn(x) * self.shown

def plus_k(x: Tensor, k: int = 1) -> Tensor:
    return x + k

plus, scaled, bare = doubled(plus_k), times(2.5)(plus_k), without_name(plus_k)
thrice = times(3)(doubled(plus_k))
tripled = of_three_times(lambda x: x + 1)
checked_dims, announced, timed, asked = with_dims(plus_k), printing(plus_k), measured(plus_k), asking(plus_k)
twofold, named = Times(plus_k), Plain(plus_k, "abc")
partly = functools.update_wrapper(functools.partial(plus_k, k=7), plus_k)
outside, inside = torch.no_grad()(doubled(plus_k)), doubled(torch.no_grad()(plus_k))

@deprecated("use plus")
def old(x: Tensor) -> Tensor:
    return x - 1

@functools.cache
def cached(n: int) -> int:
    return n * 2

@functools.lru_cache(maxsize=3)
def bounded(n: int) -> int:
    return n * 3

@doubled
def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)

class Holder:
    def __init__(self, k: int):
        self.k = k

    @doubled
    def method(self, x: Tensor, k: int = 3) -> Tensor:
        return x * k + self.k

    @with_dims
    def of_self(self):
        return 1

    def inner(self, x: Tensor) -> Tensor:
        return self.method(x, 4) + self.__private(x)

    @doubled
    def __private(self, x: Tensor) -> Tensor:
        return x + self.__more()

    def __more(self) -> int:
        return self.k

    @staticmethod
    @doubled
    def static(x: Tensor) -> Tensor:
        return x - 1

    @property
    @doubled
    def twice(self):
        return self.k + 1

    def adding(fn):
        @functools.wraps(fn)
        def wrapper(self, *args, **kwargs):
            self.k += 1
            fn(self, *args, **kwargs)
        return wrapper

    @adding
    def grow(self, by: int) -> None:
        self.k += by
"""


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:use plus")
def test_means_what_it_means_to_python(name):
    check_case(CALLS, name, {"that call themselves": "calls itself"}, HEAD)


ENTRIES = {
    "plus": [(T34,), (T34, 3)],
    "scaled": [(T34, 3)],
    "thrice": [(T34,)],
    "checked_dims": [(T34, 2), (T34[0], 2)],
    "announced": [(T34, 2)],
    "timed": [(T34, 2)],
    "twofold": [(T34, 2)],
    "outside": [(T34,)],
    "inside": [(T34,)],
    "cached": [(3,)],
    "factorial": [(4,)],
}


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_compiled_takes_what_the_decorated_function_takes(name):
    namespace = compile_source(source_of("x: Tensor", "return x", HEAD))
    function = namespace[name]
    scripted = jitlite.script(function)
    for arguments in ENTRIES[name]:
        try:
            expected = function(*arguments)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                scripted(*arguments)
            continue
        found = scripted(*arguments)
        assert type(found) is type(expected)
        assert torch.equal(torch.as_tensor(found), torch.as_tensor(expected))


REFUSED = {
    "asked": "looks at 'args'",
    "bare": "variable number of arguments",
    "partly": "there is no source to compile",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_told_of_an_entry_is_refused(name):
    namespace = compile_source(source_of("x: Tensor", "return x", HEAD))
    with pytest.raises(CompileError, match=REFUSED[name]):
        jitlite.script(namespace[name])


def counted(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return fn(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


@counted
def is_counted(x: Tensor) -> Tensor:
    return x + 1


def printing_time(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        print(time.perf_counter())
        return fn(*args, **kwargs)

    return wrapper


@printing_time
def is_printed(x: Tensor) -> Tensor:
    return x + 1


batched = torch.vmap(lambda x: x.sum())


def calls_counted(x: Tensor):
    return is_counted(x)


def calls_printed(x: Tensor):
    return is_printed(x)


def calls_batched(x: Tensor):
    return batched(x)


@pytest.mark.parametrize("name", ["calls_counted", "calls_printed", "calls_batched"])
def test_what_a_decorator_does_besides_is_not_lost(name):
    with pytest.raises(CompileError) as caught:
        jitlite.script(globals()[name])
    assert "HERE" in str(caught.value)


def twice(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2

    return wrapper


def scaled_by_self(fn):
    @functools.wraps(fn)
    def wrapper(self, x, *args, **kwargs):
        return fn(self, x * self.k, *args, **kwargs) + self.k

    return wrapper


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 2
        self.linear = nn.Linear(4, 4)

    @twice
    def forward(self, x, n: int = 1):
        return self.linear(x) * n


class Derived(Base):
    @scaled_by_self
    def forward(self, x):
        return super().forward(x, 2) + self.helper(x, n=3) + self.static(x) + self.ratio

    @twice
    def helper(self, x, n: int = 2):
        return x * n + self.k

    @staticmethod
    @twice
    def static(x):
        return x + 1

    @property
    @twice
    def ratio(self):
        return self.k + 1

    @twice
    @torch.no_grad()
    def inner(self, x):
        return x * self.k


def under_other_names(fn):
    @functools.wraps(fn)
    def wrapper(x, y):
        return fn(x, y + 1) * x.k

    return wrapper


class OtherNames(Base):
    """The object is called as an argument is called in the decorated methods, which has a type there."""

    @under_other_names
    def forward(self, x: torch.Tensor):
        return self.linear(x) + self.helper(x)

    @under_other_names
    def helper(self, x: torch.Tensor):
        return x


@pytest.mark.parametrize("cls", [Base, Derived, OtherNames])
def test_modules(cls):
    module = cls()
    scripted = jitlite.script(module)
    buffer = io.BytesIO()
    jitlite.save(scripted, buffer)
    buffer.seek(0)
    x = torch.randn(3, 4)
    for found in (scripted, jitlite.load(buffer)):
        assert torch.equal(found(x), module(x))


def test_attributes_of_a_class_with_a_decorated_initializer():
    @contextlib.contextmanager
    def manager():
        yield

    def initializing(fn):
        @functools.wraps(fn)
        def wrapper(self, *args):
            fn(self, *args)
            self.ready = True

        return wrapper

    class Kept(nn.Module):
        @initializing
        def __init__(self) -> None:
            super().__init__()
            self.names: dict[str, int] = {}

        def forward(self, x: int):
            self.names["x"] = x
            return self.names, self.ready

    assert jitlite.script(Kept())(3) == ({"x": 3}, True)
