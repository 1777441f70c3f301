"""Values from text: what `jitlite run FILE:FN ARGS...` makes of each ARG.

Python literals, and calls of a few torch functions that make tensors (`ones(2, 3)`, `torch.arange(4).float()`).
Nothing else is evaluated: this is a small interpreter over Python's syntax tree, not `eval`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from jitlite.base.errors.ways_out import NO_LITERAL
from jitlite.base.source import CompileError, Source, SourceRange, did_you_mean

_MAKERS = (
    "tensor", "ones", "zeros", "full", "arange", "linspace", "eye", "empty", "rand", "randn", "randint", "randperm",
    "device",
)  # fmt: skip
_METHODS = (
    "reshape", "view", "t", "transpose", "permute", "unsqueeze", "expand", "to", "float", "double", "half", "long",
    "int", "bool", "requires_grad_", "contiguous", "clone",
)  # fmt: skip
_DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
_NAMES: dict[str, object] = {"inf": math.inf, "nan": math.nan, **_DTYPES}
_BINARY: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


def parse_value(text: str) -> Any:
    """The value that `text` writes down.

    Raises:
        CompileError: it is neither a literal nor made by one of the functions above; points at the place in `text`.
    """
    source = Source(text, "<argument>")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError) as error:
        raise NO_LITERAL(f"not a Python value: {text}", SourceRange(source, 0, len(text))) from error
    return _Evaluator(source).value(tree.body)


class _Evaluator:
    def __init__(self, source: Source) -> None:
        self.source = source

    def value(self, node: ast.expr) -> Any:
        visit = getattr(self, "visit_" + type(node).__name__, None)
        if visit is None:
            raise self.error(node, f"{type(node).__name__} is not a value that can be written as an argument")
        return visit(node)

    def error(self, node: ast.expr, message: str, hint: str | None = None) -> CompileError:
        end = node.end_col_offset or node.col_offset + 1
        return NO_LITERAL(message, SourceRange(self.source, node.col_offset, end), hint=hint)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_List(self, node: ast.List) -> Any:
        return [self.value(e) for e in node.elts]

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(e) for e in node.elts)

    def visit_Dict(self, node: ast.Dict) -> Any:
        pairs = zip(node.keys, node.values, strict=True)
        return {self.value(k): self.value(v) for k, v in pairs if k is not None}

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        apply = _UNARY.get(type(node.op))
        if apply is None:
            raise self.error(node, "only - + and not may stand before a value here")
        return apply(self.value(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        apply = _BINARY.get(type(node.op))
        if apply is None:
            raise self.error(node, "only + - * / may join values here")
        return self.applied(node, apply, [self.value(node.left), self.value(node.right)], {})

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in _NAMES:
            return _NAMES[node.id]
        hint = did_you_mean(node.id, [*_NAMES, *_MAKERS]) or f"a string is written in quotes: \"'{node.id}'\""
        raise self.error(node, f"unknown name '{node.id}'", hint)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "torch" and node.attr in _DTYPES:
            return _DTYPES[node.attr]
        raise self.error(node, f"'{ast.unparse(node)}' is not a dtype of torch")

    def visit_Call(self, node: ast.Call) -> Any:
        arguments = [self.value(a) for a in node.args]
        keywords = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        return self.applied(node, self.callee(node.func), arguments, keywords)

    def callee(self, node: ast.expr) -> Callable[..., Any]:
        """The function or method that is called: one of the two lists, nothing else."""
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "torch":
                return self.maker(node, node.attr)
            owner = self.value(node.value)
            if isinstance(owner, torch.Tensor) and node.attr in _METHODS:
                method: Callable[..., object] = getattr(owner, node.attr)
                return method
            raise self.error(node, f"'{node.attr}' cannot be called here", did_you_mean(node.attr, _METHODS))
        if isinstance(node, ast.Name):
            return self.maker(node, node.id)
        raise self.error(node, "only functions that make tensors can be called here")

    def maker(self, node: ast.expr, name: str) -> Callable[..., Any]:
        if name not in _MAKERS:
            hint = did_you_mean(name, _MAKERS) or f"there are: {', '.join(_MAKERS)}"
            raise self.error(node, f"'{name}' cannot be called here", hint)
        function: Callable[..., object] = getattr(torch, name)
        return function

    def applied(
        self, node: ast.expr, function: Callable[..., object], args: list[object], keywords: dict[str, object]
    ) -> Any:
        try:
            return function(*args, **keywords)
        except (TypeError, ValueError, RuntimeError, ArithmeticError, AttributeError) as error:
            raise self.error(node, str(error).splitlines()[0]) from error
