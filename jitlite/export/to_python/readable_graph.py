"""A graph made ready to be read: objects are made by calls of their class, submodules are paths."""

from __future__ import annotations

from collections.abc import Callable

from jitlite.export.to_python.python_variables import ModulePath
from jitlite.ir import types as T
from jitlite.ir.code_text import (
    Text,
    identifier,
    is_identifier,
)
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.unit import called_function

NEW = "python::New"
"""`C(arguments)`: an object made and initialized, which graphs do in two steps."""


def with_calls_of_classes(graph: Graph) -> Graph:
    """A copy in which objects are made by a call of their class: `prim::CreateObject` and the call of `__init__`."""
    graph = graph.copy()
    for node in list(graph.all_nodes()):
        if node.kind != "prim::CallMethod" or node.attributes["name"] != "__init__" or node.output.has_uses:
            continue
        made = node.inputs[0].node
        if made.kind != "prim::CreateObject" or made.block is not node.block:
            continue
        if any(use.user is not node and not _comes_after(use.user, node) for use in made.output.uses):
            continue
        with graph.inserting_before(node):
            new = graph.insert(NEW, list(node.inputs[1:]), [made.output.type], range=made.range)
        called = called_function(node)
        new.attributes["schema"] = called.schema if called is not None else None
        new.output.copy_metadata(made.output)
        node.destroy()
        made.output.replace_all_uses_with(new.output)
        made.destroy()
    for node in list(graph.all_nodes()):
        if node.kind == "prim::Exit":
            node.remove_input(0)  # so that what is entered can stand in the head of its `with`
    return graph


def with_paths(graph: Graph, name: str, path_of: Callable[[Node, Text], Text]) -> None:
    """Let submodules of the first argument be constants, so that they are written where they are used."""
    if not graph.inputs or not _is_module(graph.inputs[0].type) or not is_identifier(name):
        return
    root = graph.inputs[0]
    if any(use.user.blocks or use.user.kind == "prim::Return" for use in root.uses):
        return  # its variable may hold something else, too
    paths: dict[Value, Text] = {root: identifier(name)}
    for node in list(graph.all_nodes()):
        if node.kind != "prim::GetAttr" or node.inputs[0] not in paths or not _is_module(node.output.type):
            continue
        paths[node.output] = path_of(node, paths[node.inputs[0]])
        with graph.inserting_before(node):
            made = graph.insert("prim::Constant", (), [node.output.type], {"value": ModulePath(paths[node.output])})
        paths[made.output] = paths[node.output]
        node.output.replace_all_uses_with(made.output)
        node.destroy()


def _is_module(type: T.Type) -> bool:
    return isinstance(type, T.ClassType) and type.is_module


def _comes_after(user: Node, node: Node) -> bool:
    """Is the user, or what it is in, behind the node in its block?"""
    while user.block is not node.block:
        owner = user.block.owner if user.block is not None else None
        if owner is None:
            return user.kind == "prim::Return"
        user = owner
    if user.kind == "prim::Return":
        return True
    following = node.next
    while following is not None:
        if following is user:
            return True
        following = following.next
    return False
