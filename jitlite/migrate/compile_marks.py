"""Which scripts and traces could be compiled by torch.compile instead: those that are called and nothing else.

torch.compile gives a function or module that runs. What it does not give is a program: something with a graph, with
source text, that can be saved, loaded elsewhere, frozen, or be a type for other scripts. So a script can go there if
the file shows that nobody asks it for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import libcst as cst
from libcst import metadata as meta
from libcst.helpers import get_full_name_for_node

from jitlite.migrate.findings import MigrationFinding, MigrationKind
from jitlite.migrate.uses import Finder, Found, TorchJitUse

_COMMENT = "# torch.compile can take this: "
_AS_A_PROGRAM = {
    "graph", "inlined_graph", "graph_for", "code", "code_with_constants", "schema", "save", "save_to_buffer", "define",
    "get_debug_state", "to_fx", "to_python", "to_exported", "archive_code", "explain", "bytecode", "tree",
}  # fmt: skip
"""Attributes that scripts have and compiled functions have not."""

_HANDED_ON = "it is handed on, and who gets it may ask for its graph or save it"


class Marks:
    """Finds what can go, and comments it.

    Attributes:
        comments: the statements to be commented, with the comments.
    """

    def __init__(
        self,
        finder: Finder,
        found: Found,
        positions: Mapping[cst.CSTNode, object],
        own_uses: Iterable[TorchJitUse],
    ) -> None:
        self.parents = finder.parents
        self.scopes = finder.scopes
        self.found = found
        self.positions = positions
        self.own_uses = list(own_uses)
        self.comments: dict[cst.CSTNode, str] = {}
        self._attributes: dict[str, list[cst.CSTNode]] = {}
        for node in self.parents:
            if isinstance(node, cst.Attribute):
                self._attributes.setdefault(get_full_name_for_node(node) or "", []).append(node)
        assigned = (a for scope in self.scopes for a in scope.assignments if isinstance(a, meta.Assignment))
        self._accesses: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        for assignment in assigned:
            self._accesses.setdefault(assignment.node, []).extend(access.node for access in assignment.references)
        self._callees: dict[cst.CSTNode, TorchJitUse] = {use.node: use for use in [*found.uses, *self.own_uses]}

    def look(self, uses: Iterable[TorchJitUse]) -> list[MigrationFinding]:
        """Look at every use of `script` and `trace`; gives what was found."""
        findings = []
        for use in [*uses, *self.own_uses]:
            name = use.path.rpartition(".")[2]
            if name not in ("script", "trace") or self._is_only_named(use):
                continue
            statement, reason = self._judge(use)
            kind = MigrationKind.CAN_COMPILE if statement is not None else MigrationKind.CANNOT_COMPILE
            place = self.positions[use.node]
            assert isinstance(place, meta.CodeRange)
            findings.append(MigrationFinding(place.start.line, place.start.column + 1, kind, name, reason))
            if statement is not None and not _has_mark(statement):
                self.comments[statement] = _COMMENT + reason
        return findings

    def commented(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        """The statement with its comment above it."""
        assert isinstance(updated, cst.SimpleStatementLine | cst.FunctionDef)
        line = cst.EmptyLine(comment=cst.Comment(self.comments[original]))
        return updated.with_changes(leading_lines=[*updated.leading_lines, line])

    def _is_only_named(self, use: TorchJitUse) -> bool:
        """Is it neither called nor a decorator, as in `script = torch.jit.script`?"""
        parent = self.parents.get(use.node)
        return not isinstance(parent, cst.Decorator) and not (isinstance(parent, cst.Call) and parent.func is use.node)

    def _judge(self, use: TorchJitUse) -> tuple[cst.CSTNode | None, str]:
        """The statement that can go, with what it is; or None, with what is against it."""
        parent = self.parents[use.node]
        if isinstance(parent, cst.Decorator):
            definition = self.parents[parent]
            if not isinstance(definition, cst.FunctionDef):
                return None, "it is a class for scripts"
            against = self._against(definition, definition.name)
            return (None, against) if against else (definition, "a script that is only called")
        outer = self.parents[parent]
        against = self._against_place(parent, outer)
        line = self._line_of(outer)
        if against or line is None:
            return None, against or "it stands within a larger statement"
        is_script = use.path.rpartition(".")[2] == "script"
        what = "a script" if is_script else "a trace (give it the module itself, no example is needed)"
        return line, f"{what} that is only called"

    def _against_place(self, call: cst.CSTNode, outer: cst.CSTNode) -> str:
        """What is against it in where `script(...)` stands."""
        if isinstance(outer, cst.Assign) and len(outer.targets) == 1:
            target = outer.targets[0].target
            if isinstance(target, cst.Name | cst.Attribute):
                return self._against(target, target)
        if isinstance(outer, cst.Call) and outer.func is call:
            return ""
        return f"its .{outer.attr.value} is asked for" if isinstance(outer, cst.Attribute) else _HANDED_ON

    def _against(self, bound: cst.CSTNode, name: cst.Name | cst.Attribute) -> str:
        """What is asked of a name that a compiled function does not have."""
        if isinstance(name, cst.Attribute):
            same = [a for a in self._attributes[get_full_name_for_node(name) or ""] if a is not name]
        else:
            same = self._accesses.get(bound, [])
        return next(filter(None, map(self._against_access, same)), "")

    def _against_access(self, node: cst.CSTNode) -> str:
        parent = self.parents.get(node)
        if isinstance(parent, cst.Attribute) and parent.value is node:
            return f"its .{parent.attr.value} is asked for" if parent.attr.value in _AS_A_PROGRAM else ""
        if isinstance(parent, cst.Call) and parent.func is node:
            return ""
        call = self.parents.get(parent) if isinstance(parent, cst.Arg) else None
        use = self._callees.get(call.func) if isinstance(call, cst.Call) else None
        if use is not None:
            return f"it is given to {use.path.rpartition('.')[2]}"
        return "" if isinstance(parent, cst.AssignTarget | cst.Expr | cst.NameItem) else _HANDED_ON

    def _line_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        while not isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement | cst.Module):
            node = self.parents[node]
        return node if isinstance(node, cst.SimpleStatementLine) else None


def _has_mark(statement: cst.CSTNode) -> bool:
    lines = getattr(statement, "leading_lines", ())
    return any(line.comment is not None and line.comment.value.startswith(_COMMENT) for line in lines)
