"""`with torch.jit._IgnoreContextManager(a="inp:int", b="out:Tensor"):` a block that is left to Python.

The block becomes a Python function of its inputs that returns its outputs, marked as ignored; in the tree stands a call
of it, `b = $ignored0(a)`. The block itself may be any Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch import _jit_internal

from jitlite.base.errors.statements import BAD_SYNTAX
from jitlite.base.records import Record
from jitlite.base.source import SourceRange
from jitlite.frontend.syntax import tree as t


class IgnoredBlock(Record, eq=True):
    """A block, and the types (as written) of the variables that go in and come out."""

    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    body: list[ast.stmt]

    def call(self, range: SourceRange) -> t.Stmt:
        """The statement that stands for the block."""

        def variable(name: str) -> t.Var:
            return t.Var(t.Ident(name, range=range), range=range)

        call = t.Apply(variable(self.name), tuple(map(variable, self.inputs)), (), range=range)
        targets = tuple(map(variable, self.outputs))
        if not targets:
            return t.ExprStmt(call, range=range)
        target = targets[0] if len(targets) == 1 else t.TupleLiteral(targets, range=range)
        return t.Assign((target,), call, None, range=range)

    def _definition(self) -> ast.FunctionDef:
        names: list[ast.expr] = [ast.Name(name, ast.Load()) for name in self.outputs]
        result = names[0] if len(names) == 1 else ast.Tuple(names, ast.Load())
        types = list(self.outputs.values())
        returned = types[0] if len(types) == 1 else f"Tuple[{', '.join(types)}]" if types else "None"
        body = [*self.body, ast.Return(result if names else None)]
        parameters = [ast.arg(name, ast.Constant(written)) for name, written in self.inputs.items()]
        arguments = ast.arguments([], parameters, None, [], [], None, [])
        return ast.FunctionDef("ignored_block", arguments, body, [], ast.Constant(returned))

    def function(self, owner: FunctionType, first_line: int) -> Callable[..., Any]:
        """The block as a function with the scope of `owner`, whose source starts at `first_line` of its file."""
        definition = self._definition()
        ast.copy_location(definition, self.body[0])
        module = ast.fix_missing_locations(ast.Module([definition], []))
        if hasattr(definition, "type_params"):
            definition.type_params = []
        ast.increment_lineno(module, first_line - 1)
        cells = zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=True)
        captured = {name: cell.cell_contents for name, cell in cells}
        scope = {**owner.__globals__, **captured} if captured else owner.__globals__
        made: dict[str, Any] = {}
        exec(compile(module, owner.__code__.co_filename, "exec"), scope, made)
        function: Any = made["ignored_block"]
        function._torchscript_modifier = _jit_internal.FunctionModifiers.IGNORE
        return function  # type: ignore[no-any-return]


def read_ignored_block(name: str, call: t.Apply, body: list[ast.stmt]) -> IgnoredBlock:
    """The block under a `_IgnoreContextManager` call.

    Raises:
        CompileError: where a keyword does not say `inp:` or `out:` and a type.
    """
    sides: dict[str, dict[str, str]] = {"inp": {}, "out": {}}
    for keyword in call.keywords:
        written = keyword.value.value if isinstance(keyword.value, t.StringLiteral) else ""
        side, separator, annotation = written.partition(":")
        if side.strip() not in sides or not separator or not annotation.strip():
            raise BAD_SYNTAX(
                f"'{keyword.name.name}' needs a direction and a type",
                keyword.value.range,
                expected='"inp:T" or "out:T"',
            )
        sides[side.strip()][keyword.name.name] = annotation.strip()
    return IgnoredBlock(name, sides["inp"], sides["out"], body)
