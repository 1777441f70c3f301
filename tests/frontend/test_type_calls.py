"""`type(x)` is the class of the object, as in messages about wrong arguments."""

from __future__ import annotations

import io
from typing import Any, NamedTuple, Optional

import pytest
import torch
from torch import nn

import jitlite
from jitlite.base import options
from jitlite.base.source import NotSupportedError


class Pair(NamedTuple):
    a: int
    b: str


class Thing:
    def __init__(self, n: int):
        self.n = n


def of_each(x: torch.Tensor, n: int, s: str, xs: list[int], d: dict[str, int], t: tuple[int, str]):
    return f"{type(x)} {type(n)} {type(n > 1)} {type(s)} {type(xs)}" + str(type(d)) + str(type(t)) + f"{type(None)}"


def of_optional(n: Optional[int]):
    return f"{type(n)}"


def of_union(n: int | str):
    return "{}".format(type(n))  # noqa: UP032


def of_powers(n: int):
    return f"{type(2**n)} {type(2.0**n)}"


def of_any(x: Any):
    return f"{type(x)!r}"


def of_named(n: int):
    return f"{type(Pair(n, 'a'))}"


def of_object(n: int):
    return f"{type(Thing(n))}"


def itself(x: torch.Tensor):
    return type(x)


def compared(x: torch.Tensor, y: torch.Tensor):
    return type(x) is type(y)


def by_percent(x: torch.Tensor):
    return "%s, %s" % (type(x), type(x.size(0)))  # noqa: UP031


def checks(x: torch.Tensor, n: int):
    if not (isinstance(x, torch.Tensor) & isinstance(n, int)) or n > 1:
        raise TypeError(f"no Tensor, but {type(x)} and {type(n)}")
    return x + n


X = torch.ones(2)
CALLS = [
    (of_each, (X, 1, "s", [1], {"a": 1}, (1, "b"))), (of_each, (nn.Parameter(X), 1, "s", [1], {}, (1, "b"))),
    (of_optional, (1,)), (of_optional, (None,)), (of_union, (1,)), (of_union, ("a",)), (of_powers, (2,)),
    (of_powers, (-2,)), (of_any, (X,)), (of_any, (1.5,)), (of_named, (1,)), (of_object, (1,)), (itself, (X,)),
    (itself, (nn.Parameter(X),)), (compared, (X, X)), (compared, (X, nn.Parameter(X))), (by_percent, (X,)),
]  # fmt: skip
WAYS = [{"tier": "python"}, {"tier": "stack"}, {"executor": "off"}, {"executor": "legacy"}, {"native": "now"}]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(("function", "arguments"), CALLS)
def test_the_class_of_a_value(function, arguments, way):
    with options.override(**way):
        scripted = jitlite.script(function)
        for _ in range(3):
            assert scripted(*arguments) == function(*arguments)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_messages_that_name_classes(way):
    with options.override(**way):
        scripted = jitlite.script(checks)
        assert torch.equal(scripted(X, 1), X + 1)
        with pytest.raises(TypeError, match="no Tensor, but <class 'torch.Tensor'> and <class 'int'>"):
            scripted(X, 2)


def saved(function):
    buffer = io.BytesIO()
    jitlite.save(jitlite.script(function), buffer)
    buffer.seek(0)
    return jitlite.load(buffer)


def test_archives_have_the_names_of_classes():
    each = CALLS[0][1]
    assert saved(of_each)(*each) == of_each(*each)
    with pytest.raises(Exception, match="no Tensor, but <class 'torch.Tensor'> and <class 'int'>"):
        saved(checks)(X, 2)


@pytest.mark.parametrize("function", [of_optional, of_union, of_any, of_named, of_object, itself, compared, by_percent])
def test_archives_have_no_classes(function):
    with pytest.raises(NotSupportedError):
        saved(function)


@pytest.mark.parametrize(("function", "arguments"), [c for c in CALLS if c[0] not in (of_named, of_object)])
def test_it_is_written_as_python(function, arguments):
    namespace: dict[str, Any] = {}
    exec(jitlite.to_python(jitlite.script(function)).source, namespace)
    assert namespace[function.__name__](*arguments) == function(*arguments)


class Asks(nn.Module):
    def forward(self, x):
        return f"{type(self)}"


def test_scripts_hold_other_modules():
    with pytest.raises(NotSupportedError, match=r"type\(\) of a module"):
        jitlite.script(Asks())
