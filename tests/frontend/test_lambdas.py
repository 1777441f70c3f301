"""Lambdas that Python made before anything is compiled: found in their file, told apart, and compiled as functions."""

from __future__ import annotations

import dataclasses
import io
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jitlite
from jitlite.base import options
from jitlite.base.source import CompileError
from jitlite.frontend.syntax.lambda_source import lambda_in
from jitlite.frontend.syntax.python_source import parsed_source_of

ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "relu": F.relu,
    "none": lambda x: x,
    "square": lambda x: x * x, "cube": lambda x: x * x * x,
    "shift": lambda x, by=1.5: x + by,
}  # fmt: skip

double = lambda x: x * 2  # noqa: E731
plus_one, plus_two = lambda x: x + 1, lambda x: x + 2
inner, outer = lambda x: x - 1, lambda x: (lambda y: y * 3)(x) - 1
of_module, of_method = lambda x: torch.tanh(x), lambda x: x.tanh().add(1)  # noqa: PLW0108
# fmt: off
chosen = (  # noqa: E731
    lambda x:  # over several lines
    torch.where(
        x > 0,
        x,
        -x,
    )
)
if double is None: other = lambda x: x + 5  # noqa: E701, E731
else: other = lambda x: x - 5  # noqa: E701, E731
# fmt: on


def power(of: Callable[[Tensor], Tensor] = lambda x: x * x) -> Callable[[Tensor], Tensor]:
    return of


def scaled(k: float, is_down: bool) -> Callable[[Tensor], Tensor]:
    return (lambda x: x / k) if is_down else (lambda x: x * k)


class Layers(nn.Module):
    scale = staticmethod(lambda x: x * 0.5)

    def __init__(self) -> None:
        # fmt: off
        super().__init__(); self.act = lambda x: torch.sin(x); self.last = lambda x: torch.cos(x)  # noqa: E702, PLW0108
        # fmt: on

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x) + 2 * self.last(x)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "assigned": double,
    "first of two": plus_one,
    "second of two": plus_two,
    "beside a nested one": inner,
    "with a nested one": outer,
    "that calls a module's function": of_module,
    "that calls methods": of_method,
    "over several lines": chosen,
    "in an else": other,
    "in a dict": ACTIVATIONS["square"],
    "after another in a dict": ACTIVATIONS["cube"],
    "with a default": ACTIVATIONS["shift"],
    "that is a default": power(),
    "of a closure": scaled(3.0, True),
    "of the same closure": scaled(3.0, False),
}


def _called(name: str) -> Callable[[Tensor], Tensor]:
    f = FUNCTIONS[name]

    def calls_it(x: Tensor) -> Tensor:
        return f(x)

    return calls_it


def _same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("tier", ["python", "stack"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_lambda_is_compiled_and_called(name: str, tier: str) -> None:
    x = torch.tensor([-2.0, 0.5, 3.0])
    expected = FUNCTIONS[name](x)
    with options.override(tier=tier):
        _same(jitlite.script(FUNCTIONS[name])(x), expected)
        _same(jitlite.script(_called(name))(x), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_archives_of_lambdas_are_read_by_torch(name: str) -> None:
    x = torch.tensor([-2.0, 0.5, 3.0])
    file = io.BytesIO()
    jitlite.save(jitlite.script(_called(name)), file)
    file.seek(0)
    _same(torch.jit.load(file)(x), FUNCTIONS[name](x))


def by_key(x: Tensor) -> Tensor:
    return ACTIVATIONS["relu"](x) + ACTIVATIONS["none"](x) + ACTIVATIONS["shift"](x) + ACTIVATIONS["shift"](x, 3.0)


def test_a_table_of_functions_may_have_lambdas() -> None:
    x = torch.tensor([-2.0, 0.5])
    _same(jitlite.script(by_key)(x), by_key(x))


def test_attributes_of_modules_may_be_lambdas() -> None:
    net, x = Layers(), torch.tensor([-2.0, 0.5])
    _same(jitlite.script(net)(x), net(x))


@dataclasses.dataclass
class Config:
    size: int = 3
    names: list[str] = dataclasses.field(default_factory=lambda: ["a", "b"])


def with_config() -> tuple[list[str], list[str], int]:
    one, other = Config(), Config(4, ["z"])
    one.names.append("c")
    return one.names, Config().names, len(other.names) + other.size


def test_default_factories_may_be_lambdas() -> None:
    assert jitlite.script(with_config)() == with_config()


def test_an_error_in_a_lambda_says_where() -> None:
    with pytest.raises(CompileError, match=r"no attribute or method 'reul'.*test_lambdas\.py|test_lambdas\.py.*'reul'"):
        jitlite.script(lambda x: x.reul())


def test_lambdas_without_source_are_refused() -> None:
    with pytest.raises(CompileError, match="get source"):
        jitlite.script(eval("lambda x: x"))


class Private:
    __factor = 3.0
    by_private_name = staticmethod(lambda x: x * Private.__factor)
    beside_another = staticmethod(lambda x: x / Private.__factor)


def test_private_names_are_those_of_the_class() -> None:
    x = torch.tensor([-2.0, 0.5])
    for f in (Private.by_private_name, Private.beside_another):
        _same(jitlite.script(f)(x), f(x))


def keeping(kept: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
    def decorate(f: Any) -> Any:
        f.kept = kept
        return f

    return decorate


@keeping(lambda x: x * 5)
def decorated(x: Tensor) -> Tensor:
    return x


def test_lambdas_of_decorators_are_found() -> None:
    x = torch.tensor([-2.0, 0.5])
    _same(jitlite.script(decorated.kept)(x), x * 5)


@pytest.mark.parametrize("now", ["f = lambda x: x + 7", "f = lambda x: x - 1", "f = lambda x, y=1: x + y", "f = 3"])
def test_a_lambda_whose_file_was_changed_is_refused(now: str, tmp_path: Path) -> None:
    file, names = tmp_path / "changed.py", dict[str, Any]()
    file.write_text("f = lambda x: x + 1\n")
    exec(compile(file.read_text(), str(file), "exec"), names)
    assert jitlite.script(names["f"])(torch.ones(1)) == 2
    exec(compile(file.read_text(), str(file), "exec"), names)
    file.write_text(now + "\n")
    linecache.checkcache(str(file))
    with pytest.raises(CompileError, match="changed since|is not a definition"):
        jitlite.script(names["f"])


def test_a_lambda_that_is_not_there_is_not_taken_for_another() -> None:
    _, parsed = parsed_source_of(plus_one)  # type: ignore[arg-type]
    assert lambda_in(plus_two, parsed.body) is not None  # type: ignore[arg-type]
    assert lambda_in(outer, parsed.body) is None  # type: ignore[arg-type]
