"""Chapter 1: from source text to a tree.

python docs/from_scratch/code/ch1_tree.py
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class CompileError(Exception):
    """The program is outside the language, or its types do not fit."""


@dataclass(frozen=True)
class Tree:
    """A piece of program: what it is, what it consists of, and the line where it begins."""

    head: str
    parts: tuple[Tree | str | bool | int | float, ...]
    line: int

    def __str__(self) -> str:
        if self.head == "block":
            return "".join("\n" + textwrap.indent(str(part), "  ") for part in self.parts)
        parts = filter(None, [self.head, *map(str, self.parts)])
        return f"({' '.join(parts)})".replace(" \n", "\n")


OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder",
    ast.USub: "neg", ast.Not: "__not__", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne",
}  # fmt: skip
CONVERSIONS = {"bool": "Bool", "int": "Int", "float": "Float"}


def refuse(node: ast.AST, message: str) -> CompileError:
    return CompileError(f"line {getattr(node, 'lineno', '?')}: {message}\n    {ast.unparse(node).splitlines()[0]}")


def parse(function: Callable[..., object]) -> Tree:
    """The tree of a function.

    Raises:
        CompileError: if there is no source text, or the function is outside the language.
    """
    try:
        lines, first = inspect.getsourcelines(function)
    except OSError as error:
        raise CompileError("there is no source text: the function has to stand in a file") from error
    module = ast.increment_lineno(ast.parse(textwrap.dedent("".join(lines))), first - 1)
    node = module.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise refuse(node, "only functions made with `def` can be compiled")
    plain = ast.arguments(node.args.posonlyargs, node.args.args, kwonlyargs=[], kw_defaults=[], defaults=[])
    if ast.dump(plain) != ast.dump(node.args):
        raise refuse(node, "only plain parameters are supported: no defaults, no *args")
    params = [Tree("param", (variable(p, p.arg), type_of(p)), p.lineno) for p in plain.posonlyargs + plain.args]
    return Tree("def", (node.name, *params, block(node.body, is_function=True)), node.lineno)


def type_of(param: ast.arg) -> str:
    name = ast.unparse(param.annotation).split(".")[-1] if param.annotation else "Tensor"
    if name not in ("Tensor", "int", "float", "bool"):
        raise refuse(param, f"there is no type {name}, only Tensor, int, float and bool")
    return name


def variable(node: ast.AST, name: str) -> str:
    if name in ("torch", "range", *CONVERSIONS):
        raise refuse(node, f"`{name}` has a meaning of its own and cannot be a variable")
    return name


def block(nodes: Sequence[ast.stmt], is_function: bool = False) -> Tree:
    trees = [statement(n) for n in nodes if not isinstance(n, ast.Pass) and not is_docstring(n)]
    returns = [tree.head == "return" for tree in trees]
    if returns != [False] * (len(trees) - is_function) + [True] * is_function:
        raise refuse(nodes[-1], "a function ends with `return VALUE`, and has no other return")
    return Tree("block", tuple(trees), nodes[0].lineno)


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def statement(node: ast.stmt) -> Tree:
    line = node.lineno
    match node:
        case ast.Assign([ast.Name(name)], value):
            return Tree("=", (variable(node, name), expression(value)), line)
        case ast.AugAssign(ast.Name(name), op, value):
            new = call(node, OPERATORS.get(type(op)), Tree("name", (name,), line), expression(value))
            return Tree("=", (variable(node, name), new), line)
        case ast.If(test, then, orelse):
            other = block(orelse) if orelse else Tree("block", (), line)
            return Tree("if", (expression(test), block(then), other), line)
        case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [count], []), body, []):
            return Tree("for", (variable(node, name), expression(count), block(body)), line)
        case ast.While(test, body, []):
            return Tree("while", (expression(test), block(body)), line)
        case ast.Return(ast.expr() as value):
            return Tree("return", (expression(value),), line)
    raise refuse(node, f"the language has no such statement ({type(node).__name__})")


def expression(node: ast.expr) -> Tree:
    match node:
        case ast.Constant(bool() | int() | float() as value):
            return Tree("const", (value,), node.lineno)
        case ast.Name(name):
            return Tree("name", (name,), node.lineno)
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
            return call(node, OPERATORS.get(type(op)), expression(left), expression(right))
        case ast.UnaryOp(op, operand):
            return call(node, OPERATORS.get(type(op)), expression(operand))
        case ast.Call(ast.Name(name), [operand], []):
            return call(node, CONVERSIONS.get(name), expression(operand))
        case ast.Call(ast.Attribute(ast.Name("torch"), name), args, []) if hasattr(torch, name):
            return call(node, name, *map(expression, args))
        case ast.Call(ast.Attribute(value, name), args, []) if hasattr(Tensor, name):
            return call(node, name, expression(value), *map(expression, args))
    raise refuse(node, f"the language has no such expression ({type(node).__name__})")


def call(node: ast.AST, name: str | None, *args: Tree) -> Tree:
    if name is None:
        raise refuse(node, "the language has no such operation")
    return Tree(f"aten::{name}", args, getattr(node, "lineno", 0))


def smooth(x: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        x = x - x.mean()
        if bool(x.abs().max() > 1.0):
            x = x / 2
    return x


if __name__ == "__main__":
    print(parse(smooth))
