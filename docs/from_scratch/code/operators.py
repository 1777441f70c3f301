"""The operators of the language: what each computes, and the type of its result.

python docs/from_scratch/code/operators.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import torch


class Operator(NamedTuple):
    """An operator.

    Attributes:
        function: what it computes.
        arity: how many operands it takes.
        result: from the types of the operands to that of the result; None where it does not take such operands.
    """

    function: Callable[..., object]
    arity: int
    result: Callable[..., str | None]


OPERATORS: dict[str, Operator] = {}


def declare(arity: int, result: Callable[..., str | None], **functions: Callable[..., object]) -> None:
    """Add operators that have operands and results of the same kinds."""
    OPERATORS.update({f"aten::{name}": Operator(function, arity, result) for name, function in functions.items()})


def widest(*types: str) -> str:
    """The type of a sum: a tensor if there is one, else a float if there is one, else an int."""
    return next((t for t in ("Tensor", "float") if t in types), "int")


def quotient(*types: str) -> str:
    return "Tensor" if "Tensor" in types else "float"


def comparison(*types: str) -> str:
    return "Tensor" if "Tensor" in types else "bool"


def tensor(*types: str) -> str | None:
    return "Tensor" if set(types) == {"Tensor"} else None


declare(1, widest, neg=operator.neg, abs=abs)
declare(2, widest, add=operator.add, sub=operator.sub, mul=operator.mul)
declare(2, widest, floordiv=operator.floordiv, remainder=operator.mod)
declare(2, quotient, div=operator.truediv)
declare(2, comparison, lt=operator.lt, le=operator.le, gt=operator.gt, ge=operator.ge, eq=operator.eq, ne=operator.ne)
declare(1, tensor, relu=torch.relu, tanh=torch.tanh, sigmoid=torch.sigmoid, exp=torch.exp, log=torch.log)
declare(1, tensor, sum=torch.sum, mean=torch.mean, max=torch.max, min=torch.min, t=torch.t)
declare(2, tensor, mm=torch.mm, maximum=torch.maximum, minimum=torch.minimum)
declare(1, lambda _: "bool", Bool=bool, __not__=operator.not_)
declare(1, lambda _: "int", Int=int)
declare(1, lambda _: "float", Float=float)

if __name__ == "__main__":
    for kind, declared in OPERATORS.items():
        print(f"{kind} takes {declared.arity}")
