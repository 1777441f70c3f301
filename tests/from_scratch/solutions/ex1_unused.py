"""A solution of exercise 1."""

from __future__ import annotations

from collections.abc import Iterator

from ch1_tree import Tree


def unused(function: Tree) -> list[str]:
    written = {str(tree.parts[0]) for tree in walk(function) if tree.head in ("param", "=", "for")}
    read = {str(tree.parts[0]) for tree in walk(function) if tree.head == "name"}
    return sorted(written - read)


def walk(tree: Tree) -> Iterator[Tree]:
    yield tree
    for part in tree.parts:
        if isinstance(part, Tree):
            yield from walk(part)
