"""Functions whose text is copied into the source that is written, with all that they use."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
import types
from collections.abc import Callable

import torch

from jitlite.base.errors.ways_out import NOT_AS_PYTHON
from jitlite.base.source import NotSupportedError
from jitlite.export.to_python import python_helpers
from jitlite.export.to_python.python_file import PythonFile
from jitlite.ir.code_text import (
    Identifier,
    Text,
    code,
    joined,
    made_identifier,
    own_source,
)
from jitlite.ir.graph import Graph, Node
from jitlite.operators import tensors


def refusal(node: Node, why: str) -> NotSupportedError:
    """What is said of an operation that has no spelling."""
    given = ", ".join(v.type.annotation for v in node.inputs)
    return NOT_AS_PYTHON(
        f"{node.kind}({given}) has no equal in Python with torch: {why}", node.range,
        hint="say it with other operators, or keep the part that uses it as an archive",
    )  # fmt: skip


_REPLACED: dict[object, Callable[..., object]] = {tensors._dtype: python_helpers.as_dtype}


def copied(file: PythonFile, function: object) -> Identifier:
    """The name of one of the functions of `python_helpers`, whose text is copied into the source."""
    return embedded(file, function, Graph().block.return_node)


def embedded(file: PythonFile, function: object, node: Node) -> Identifier:
    """The name of a function whose text is copied into the source, with all that it uses."""
    function = _REPLACED.get(function, function)
    known = file.names.get(function)
    if isinstance(known, Identifier):
        return known
    if not isinstance(function, types.FunctionType) or function.__closure__:
        raise refusal(node, "its meaning is a function of jitlite")
    name = file.unique(made_identifier(function.__name__.strip("_")))
    file.names[function] = name
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.name, tree.decorator_list, tree.returns = name, [], None
    for parameter in ast.walk(tree.args):
        if isinstance(parameter, ast.arg):
            parameter.annotation = None
    renamed = {used: _meaning(file, function.__globals__[used], used, node) for used in _globals_of(function)}
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Name) and inner.id in renamed:
            inner.id = renamed[inner.id]
        if isinstance(inner, ast.AnnAssign):
            inner.annotation = ast.Constant(None)
    file.blocks["helpers"].append([*own_source(ast.fix_missing_locations(tree))])
    return name


def _globals_of(function: types.FunctionType) -> list[str]:
    names: dict[str, None] = {}
    codes, local = [function.__code__], set[str]()
    while codes:
        compiled = codes.pop()
        read = [i.argval for i in dis.get_instructions(compiled) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
        names |= {name: None for name in read if name in function.__globals__}
        local |= {*compiled.co_varnames, *compiled.co_cellvars}
        codes += [constant for constant in compiled.co_consts if isinstance(constant, types.CodeType)]
    return [name for name in names if name not in local]


def _meaning(file: PythonFile, value: object, name: str, node: Node) -> Text:
    """The name that something which a copied function uses has in the source."""
    if isinstance(value, types.ModuleType):
        return file.imported("F" if value is torch.nn.functional else value.__name__)
    if isinstance(value, types.FunctionType) and str(value.__module__).startswith("jitlite."):
        return embedded(file, value, node)
    if isinstance(value, types.FunctionType | type):
        return file.dotted(value)
    known = file.names.get(("global", name, id(value)))
    if known is None:
        known = file.names["global", name, id(value)] = file.unique(made_identifier(name.strip("_").upper()))
        file.blocks["helpers"].append([code("{} = {}", known, _literal(file, value, node))])
    return known


def _literal(file: PythonFile, value: object, node: Node) -> Text:
    if isinstance(value, dict):
        pairs = (code("{}: {}", _literal(file, k, node), _literal(file, v, node)) for k, v in value.items())
        return code("{{{}}}", joined(", ", pairs))
    if isinstance(value, tuple):
        return code("({},)", joined(", ", (_literal(file, v, node) for v in value)))
    if isinstance(value, type):
        return file.dotted(value)
    if isinstance(value, types.FunctionType):
        return embedded(file, value, node)
    return file.constant(value)
