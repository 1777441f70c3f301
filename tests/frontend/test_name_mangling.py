"""`self.__x` in a class is `self._Class__x`, as in Python."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite.frontend.syntax.name_mangling import mangled, private_owner


@jitlite.script
class Account:
    def __init__(self, start: int):
        self.__sum = start
        self._Account__other = 1

    def add(self, __amount: int) -> int:
        __before = self.__sum
        self.__sum += __amount
        return self.__twice(__before) + self.__other

    def __twice(self, x: int) -> int:
        return 2 * x


class Base(nn.Module):
    __scale: float

    def __init__(self) -> None:
        super().__init__()
        self.__scale = 2.0
        self.__layer = nn.Linear(2, 2)
        self.hidden = 3

    def __apply(self, x: Tensor, __by: float) -> Tensor:
        return self.__layer(x) * __by

    def forward(self, x: Tensor) -> Tensor:
        def __add(y: Tensor) -> Tensor:
            return y + self.hidden + self.__scale

        return __add(self.__apply(x, self.__scale))


class _Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.__scale = 5.0

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.__scale


def test_classes():
    def use(n: int) -> int:
        account = Account(n)
        return account.add(3) + account.add(4)

    assert jitlite.script(use)(10) == use(10) == 2 * 10 + 1 + 2 * 13 + 1


@pytest.mark.parametrize("cls", [Base, _Derived])
def test_modules(cls):
    torch.manual_seed(0)
    module = cls()
    x = torch.randn(3, 2)
    scripted = jitlite.script(module)
    assert torch.equal(scripted(x), module(x))
    assert scripted._Base__scale == 2.0


def test_the_name_outside_of_the_class_is_the_long_one():
    def use(n: int) -> int:
        return Account(n)._Account__sum

    assert jitlite.script(use)(4) == 4


def test_nobody_else_has_the_short_one():
    def use(n: int) -> int:
        return Account(n).__sum

    with pytest.raises(jitlite.CompileError, match="__sum"):
        jitlite.script(use)


@pytest.mark.parametrize(
    ("qualified", "owner"),
    [("f", None), ("C.f", "C"), ("A.B.f", "B"), ("C.f.<locals>.g", "C"), ("f.<locals>.g", None),
     ("f.<locals>.C.g", "C"), ("C.f.<locals>.D.g", "D")],
)  # fmt: skip
def test_owners(qualified, owner):
    assert private_owner(qualified) == owner


@pytest.mark.parametrize(
    ("name", "owner", "kept"),
    [("__x", "C", "_C__x"), ("__x", "__C", "_C__x"), ("__x", "__", "__x"), ("__x__", "C", "__x__"), ("_x", "C", "_x")],
)
def test_the_rule(name, owner, kept):
    assert mangled(name, owner) == kept
