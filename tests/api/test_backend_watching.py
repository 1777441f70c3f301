"""The options `print` and `check` of the back end of torch.compile."""

from __future__ import annotations

import re
import warnings
from typing import Any

import jitlite.backend
import pytest
import torch
from jitlite.backend import LoweringError, backend

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()


def compiled(f: Any, **options: Any) -> Any:
    return torch.compile(f, backend=backend, options=options)


def _layers(x, w):
    y = x @ w  # product
    a, b = y.split(2, 1)  # parts
    return torch.relu(a + b)  # last


@pytest.mark.parametrize("tier", ["python", "stack"])
def test_operators_are_printed_as_they_run(tier, capsys):
    x, w = torch.randn(5, 3), torch.randn(3, 4)
    with jitlite.options.override(tier=tier):
        run = compiled(_layers, print=True)
        got = run(x, w)
        assert torch.equal(got, _layers(x, w))
        lines = capsys.readouterr().out.splitlines()
        run(x, w)
        assert capsys.readouterr().out.splitlines() == lines
    told = [re.sub(r"inference: .*test_backend_watching.py:(\d+):\d+: ", r"\1 ", line) for line in lines]
    first = _layers.__code__.co_firstlineno
    assert told[0] == f"{first + 1} aten::mm -> float32[5, 4]"
    assert told[-1] == f"{first + 3} aten::relu -> float32[5, 2]"
    assert any("[float32[5, 2], float32[5, 2]]" in line for line in told)


def test_both_passes_are_printed_and_branches(capsys):
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) * 2

    x = torch.ones(3)
    run = compiled(f, print=True)
    run(x)
    told = capsys.readouterr().out
    assert "aten::sin" in told and "aten::cos" not in told
    run(-x)
    assert "aten::cos" in capsys.readouterr().out
    y = torch.ones(3, requires_grad=True)
    out = compiled(torch.sin, print=True)(y)
    assert capsys.readouterr().out.startswith("forward: ")
    out.sum().backward()
    assert capsys.readouterr().out.startswith("backward: ")


RIGHT: dict[str, tuple[Any, Any, Any, Any]] = {
    "overload": (lambda x: x.erf() + 1, aten.erf.default, torch.erf, (torch.randn(3),)),
    "packet": (lambda x: x.erf(), aten.erf, lambda x: torch.erf(x) + 1e-6, (torch.randn(3),)),
    "nan": (lambda x: x.sqrt(), aten.sqrt, torch.sqrt, (torch.tensor([-1.0, 4.0]),)),
    "empty": (lambda x: x.sqrt(), aten.sqrt, torch.sqrt, (torch.ones(0, 3),)),
    "several": (lambda x: x.max(0), aten.max.dim, torch.max, (torch.randn(3, 4),)),
    "random": (lambda x: torch.bernoulli(x), aten.bernoulli, lambda x: (x > 0.5).to(x), (torch.rand(9),)),
    "keyword": (lambda x: torch.sub(x, 2, alpha=3), aten.sub.Tensor, torch.sub, (torch.rand(3),)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(RIGHT))
def test_lowerings_that_do_what_the_operator_does(name):
    f, target, lowering, inputs = RIGHT[name]
    calls = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return lowering(*args, **kwargs)

    run = compiled(f, lowerings={target: counted}, check=1e-4)
    state = torch.get_rng_state()
    got = run(*inputs)
    assert len(calls) == 1
    assert name == "random" or torch.equal(torch.get_rng_state(), state)
    if name != "random":
        torch.testing.assert_close(got, f(*inputs), rtol=1e-4, atol=1e-4, equal_nan=True)


def _in_place(x):
    return x.mul_(2)


WRONG: dict[str, tuple[Any, Any, Any, str]] = {
    "values": (lambda x: x.erf(), aten.erf, lambda x: x * 2, "aten.erf.default differs.*Mismatched elements"),
    "dtype": (lambda x: x.erf(), aten.erf, lambda x: x.erf().double(), r"is float64\[2, 3\].*expected float32\[2, 3\]"),
    "size": (lambda x: x.erf(), aten.erf, lambda x: x.erf()[:1], r"is float32\[1, 3\]"),
    "parts": (lambda x: x.max(0), aten.max.dim, lambda x, d: (x.max(d)[0],), "the result has 1 parts"),
    "second": (lambda x: x.max(0), aten.max.dim, lambda x, d: (x.max(d)[0], x.min(d)[1]), r"the result\[1\]"),
    "writes": (lambda x: x.erf(), aten.erf, lambda x: (x.erf(), _in_place(x))[0], r"what it has written\[0\]\[0\]"),
    "nothing": (lambda x: x.erf(), aten.erf, lambda x: None, "the result is None, expected float32"),
    "random size": (lambda x: torch.bernoulli(x), aten.bernoulli, lambda x: x[:1], r"is float32\[1, 3\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(WRONG))
def test_the_first_difference_of_a_lowering_stops_the_run(name):
    f, target, lowering, message = WRONG[name]
    x = torch.rand(2, 3)
    with pytest.raises(LoweringError, match=message) as error:
        compiled(f, lowerings={target: lowering}, check=1e-4)(x)
    assert f"test_backend_watching.py:{f.__code__.co_firstlineno}:" in str(error.value)


def test_unless_asked_nothing_is_checked():
    assert torch.equal(
        compiled(lambda x: x.erf(), lowerings={aten.erf: lambda x: x * 2})(torch.ones(2)), torch.ones(2) * 2
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"print": 1}, "print=1: expected True or False"),
        ({"check": True}, "check=True: expected how far results may be apart"),
        ({"check": "1e-4"}, "check='1e-4': expected how far"),
        ({"check": -1.0}, "check=-1.0: expected a number from 0 on"),
        ({"check": float("nan")}, "check=nan: expected a number from 0 on"),
        ({"prints": True}, "no option 'prints'; did you mean 'print'"),
        ({"chekc": 1e-4}, "no option 'chekc'; did you mean 'check'"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        jitlite.backend.Options.of(options)
