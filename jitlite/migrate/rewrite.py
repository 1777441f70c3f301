"""What a file that uses torch.jit becomes when it uses jitlite instead.

    import torch                                    import torch
    from torch.jit import Final, ONNXTracedModule   from torch.jit import ONNXTracedModule
                                             =>     from jitlite import Final
    @torch.jit.script                               import jitlite
    def f(x): ...
                                                    @jitlite.script
                                                    def f(x): ...

A name that stands for torch.jit itself (`import torch.jit as jit`) keeps its place, and becomes one for jitlite, if all
that is asked of it is there; else each use is written out. What jitlite lacks stays as it is, and its import with it.
Running it again changes nothing: no use of torch.jit with a counterpart is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst
from libcst import metadata as meta

from jitlite.migrate.findings import Migration
from jitlite.migrate.plan import PACKAGE, MigrationPlan
from jitlite.migrate.uses import name_after_as


def migrate_source(source: bytes, path: str, available: Collection[str], marks: bool = False) -> Migration:
    """Rewrite the text of a file.

    Args:
        source: the text, in the encoding that it declares.
        path: its name, for messages.
        available: the names that jitlite has.
        marks: say by comments what could go to torch.compile?
    """
    if b"jit" not in source:
        return Migration(path, source, source)
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        return Migration(path, source, source, error=f"it is not Python: {error.message}")
    except (UnicodeDecodeError, LookupError, SyntaxError) as error:
        return Migration(path, source, source, error=f"it cannot be read: {error}")
    wrapper = meta.MetadataWrapper(module, unsafe_skip_copy=True)
    plan = MigrationPlan(wrapper, available, marks)
    plan.make()
    after = wrapper.module.visit(_Applied(plan)).bytes if plan.is_needed() else source
    return Migration(path, source, after, tuple(sorted(plan.findings, key=lambda f: (f.line, f.column))))


class _Applied(cst.CSTTransformer):
    """The file as it was planned."""

    def __init__(self, plan: MigrationPlan) -> None:
        super().__init__()
        self.plan = plan

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        new = self.plan.nodes.get(original_node)
        if new is not None:
            return new
        updated = super().on_leave(original_node, updated_node)
        marks = self.plan.marks
        if marks is not None and original_node in marks.comments and isinstance(updated, cst.CSTNode):
            return marks.commented(original_node, updated)
        return updated

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        body = self._body(original_node.body, updated_node.body)
        if body is None:
            return updated_node
        if len(original_node.body) > 1 or len(body) == 1:
            return updated_node.with_changes(body=_joined(body, updated_node.body))
        first = updated_node.with_changes(body=body[:1], trailing_whitespace=cst.TrailingWhitespace())
        rest = [cst.SimpleStatementLine([small]) for small in body[1:]]
        rest[-1] = rest[-1].with_changes(trailing_whitespace=cst.TrailingWhitespace())
        if updated_node.trailing_whitespace.comment is not None:  # it stays with what it was written to
            first = first.with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel([first, *rest])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        body = self._body(original_node.body, updated_node.body)
        return updated_node if body is None else updated_node.with_changes(body=_joined(body, updated_node.body))

    def _body(
        self, original: Sequence[cst.BaseSmallStatement], updated: Sequence[cst.BaseSmallStatement]
    ) -> list[cst.BaseSmallStatement] | None:
        """The statements of a line, None where they stay what they are."""
        body: list[cst.BaseSmallStatement] = []
        for old, new in zip(original, updated, strict=True):
            body += self._statement(old, new)
            if old in self.plan.following:
                alias = cst.AsName(cst.Name(self.plan.local_name)) if self.plan.local_name != PACKAGE else None
                body.append(cst.Import([cst.ImportAlias(cst.Name(PACKAGE), alias)]))
        return None if all(a is b for a, b in zip(body, updated, strict=False)) and len(body) == len(updated) else body

    def _import(self, old: cst.Import, new: cst.Import) -> cst.Import:
        if not any(alias in self.plan.aliases for alias in old.names):
            return new
        return new.with_changes(names=[self._alias(a, b) for a, b in zip(old.names, new.names, strict=True)])

    def _statement(self, old: cst.BaseSmallStatement, new: cst.BaseSmallStatement) -> list[cst.BaseSmallStatement]:
        if isinstance(old, cst.Import) and isinstance(new, cst.Import):
            return [self._import(old, new)]
        if isinstance(old, cst.ImportFrom) and isinstance(new, cst.ImportFrom):
            return self._import_from(old, new)
        if isinstance(old, cst.Global) and isinstance(new, cst.Global) and old in self.plan.declaring:
            last = new.names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return [new.with_changes(names=[*new.names[:-1], last, cst.NameItem(cst.Name(self.plan.local_name))])]
        return [new]

    def _alias(self, old: cst.ImportAlias, new: cst.ImportAlias) -> cst.ImportAlias:
        """An alias under its new name; in an import of modules, or in one of names that all come from jitlite."""
        target = self.plan.aliases.get(old)
        if target is None:
            return new
        _, name, bound = target
        known = new.asname if name_after_as(new) == bound else None
        as_name = None if bound is None else known or cst.AsName(cst.Name(bound))
        return new.with_changes(name=cst.Name(name), asname=as_name)

    def _import_from(self, old: cst.ImportFrom, new: cst.ImportFrom) -> list[cst.BaseSmallStatement]:
        package = cst.Name(PACKAGE)
        if old in self.plan.stars:
            wanted, is_needed = self.plan.stars[old]
            known = new.with_changes(module=package, names=[cst.ImportAlias(cst.Name(name)) for name in wanted])
            return [new, known] if is_needed else [known]
        if isinstance(old.names, cst.ImportStar) or isinstance(new.names, cst.ImportStar):
            return [new]
        by_module: dict[str | None, list[cst.ImportAlias]] = {}
        """The names by the module that they are to come from; those without one are modules themselves."""
        kept = []
        for before, after in zip(old.names, new.names, strict=True):
            if before not in self.plan.aliases:
                kept.append(after)
                continue
            module = self.plan.aliases[before][0]
            by_module.setdefault(module, []).append(after if module == "typing" else self._alias(before, after))
        if not by_module:
            return [new]
        return self._split(new, kept, by_module)

    def _split(
        self, new: cst.ImportFrom, kept: list[cst.ImportAlias], by_module: dict[str | None, list[cst.ImportAlias]]
    ) -> list[cst.BaseSmallStatement]:
        """An import for each module that names come from now."""
        whole = len(by_module) == 1 and not kept and None not in by_module
        split = [_of_names(kept, new)] if kept else []
        for module in (PACKAGE, "typing"):
            names = by_module.get(module)
            if names:
                statement = new.with_changes(names=names) if whole else _of_names(names, new)
                split.append(statement.with_changes(module=cst.Name(module)))
        return split + [cst.Import([_alone(alias)]) for alias in by_module.get(None, ())]


def _of_names(aliases: Sequence[cst.ImportAlias], statement: cst.ImportFrom) -> cst.ImportFrom:
    """The import of some of its names: within brackets each keeps its comma, and the comment behind it."""
    *others, last = aliases
    if statement.rpar is None or isinstance(statement.names, cst.ImportStar):
        return statement.with_changes(names=[*others, last.with_changes(comma=cst.MaybeSentinel.DEFAULT)])
    final, rpar = statement.names[-1], statement.rpar
    own = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else None
    if last.name is final.name or not isinstance(own, cst.ParenthesizedWhitespace) or own.first_line.comment is None:
        return statement.with_changes(names=[*others, last.with_changes(comma=final.comma)])
    end = final.comma.whitespace_after if isinstance(final.comma, cst.Comma) else rpar.whitespace_before
    last_line = end.last_line if isinstance(end, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace("")
    space = own.with_changes(empty_lines=(), indent=False, last_line=last_line)
    comma = cst.Comma(whitespace_after=space)
    rpar = rpar.with_changes(whitespace_before=cst.SimpleWhitespace(""))
    return statement.with_changes(names=[*others, last.with_changes(comma=comma)], rpar=rpar)


def _alone(alias: cst.ImportAlias) -> cst.ImportAlias:
    return alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)


def _joined(
    body: Sequence[cst.BaseSmallStatement], before: Sequence[cst.BaseSmallStatement]
) -> list[cst.BaseSmallStatement]:
    """Small statements of one line: each but the last has its semicolon, and the last has one if it had one before."""
    return [*body[:-1], body[-1].with_changes(semicolon=before[-1].semicolon)]
