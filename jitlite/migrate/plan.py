"""What is to be exchanged for what in a file that uses torch.jit, and what is to be said about it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import libcst as cst
from libcst import metadata as meta
from libcst.helpers import get_full_name_for_node

from jitlite.migrate import names
from jitlite.migrate.compile_marks import Marks
from jitlite.migrate.findings import MigrationFinding, MigrationKind
from jitlite.migrate.uses import Binding, Finder, TorchJitUse, name_after_as

PACKAGE = "jitlite"
_ASKING = {"getattr", "hasattr"}
_OTHER_TORCH = re.compile(r"\btorch\.(?!jit\b)\w|^torch$")
_NAME = r"((?:annotations\.)?\w+)"
_EXAMPLE = re.compile(r"^[ \t]*(?:>>>|\.\.\.).*$", re.MULTILINE)
_OF_JIT = re.compile(r"\btorch\.jit\.\w")
_UNCERTAIN = "the name at its start may stand for something else too"
_OF_OUTER = "the name at its start is bound by way of `nonlocal`"


class MigrationPlan:
    """What is to be exchanged for what.

    Attributes:
        nodes: expressions, strings and comments.
        aliases: names of imports: (module or None, name, the name after `as` or None), where None as module means
            that the module `name` itself is imported.
        stars: imports of all names of torch.jit: the names that jitlite has, and whether others are needed.
        following: statements behind which jitlite is imported.
        declaring: `global` statements that get jitlite's name too.
    """

    def __init__(self, wrapper: meta.MetadataWrapper, available: Collection[str], marks: bool) -> None:
        self.available = available
        self.finder = Finder(wrapper, PACKAGE, lambda path: names.counterpart(path, available) is not None)
        self.found = self.finder.find()
        self.positions = wrapper.resolve(meta.PositionProvider)
        self.contexts = wrapper.resolve(meta.ExpressionContextProvider)
        self.parents = self.finder.parents
        self.module = wrapper.module
        self.local_name = self._free_name() if self.found.name_is_taken else PACKAGE
        self.findings: list[MigrationFinding] = []
        self.nodes: dict[cst.CSTNode, cst.CSTNode] = {}
        self.aliases: dict[cst.ImportAlias, tuple[str | None, str, str | None]] = {}
        self.stars: dict[cst.ImportFrom, tuple[list[str], bool]] = {}
        self.following: dict[cst.CSTNode, None] = {}
        self.declaring: dict[cst.CSTNode, None] = {}
        self._torch_in_texts = False
        self._needs: list[tuple[Binding, tuple[int, int]]] = []
        self.marks = Marks(self.finder, self.found, self.positions, self.found.own_uses) if marks else None
        self._complete: dict[Binding, bool] = {}
        self._uses: dict[Binding, list[TorchJitUse]] = {}
        for use in self.found.uses:
            for binding in use.bindings:
                self._uses.setdefault(binding, []).append(use)
        self._again: dict[cst.CSTNode, list[Binding]] = {}
        for binding in self.found.bindings:
            self._again.setdefault(binding.source, []).append(binding)

    def is_needed(self) -> bool:
        """Is anything to be done?"""
        return bool(self.nodes or self.aliases or self.stars or (self.marks and self.marks.comments))

    def _exchange_names(self) -> None:
        for binding in self.found.bindings:
            self._binding(binding)
        for use in self.found.uses:
            self._use(use)
        for text, bindings in self.found.annotations:
            self._annotation(text, bindings)
        for star in self.found.stars:
            self._star(star)
        self._texts()

    def make(self) -> None:
        self._exchange_names()
        own: list[cst.CSTNode] = [s for s, name in self.found.own_imports if name == self.local_name]
        own += [binding.statement for binding in self.found.bindings if self._dotted_import(binding)]
        for binding, place in self._needs:
            self._import_for(binding, place, own)
        if self.marks is not None:
            self.findings += self.marks.look(
                [use for use in self.found.uses if names.counterpart(use.path, self.available)]
            )

    def _free_name(self) -> str:
        name, others = f"_{PACKAGE}", self.found.names - {name for _, name in self.found.own_imports}
        while name in others:
            name = f"_{name}"
        return name

    def _note(self, node: cst.CSTNode, kind: MigrationKind, text: str, reason: str = "") -> None:
        start = self.positions[node].start
        self.findings.append(MigrationFinding(start.line, start.column + 1, kind, text, reason))

    def _note_rewritten(self, node: cst.CSTNode, path: str) -> None:
        reason = names.TO_LOOK_AT.get(path.rpartition(".")[2], "")
        self._note(node, MigrationKind.LOOK if reason else MigrationKind.REWRITTEN, path, reason)

    # -- names
    def _binding(self, binding: Binding) -> None:
        """Rewrite what gives a name to torch.jit or to something of it, where all that needs is that name."""
        source = binding.source
        if not names.is_of_torch_jit(binding.path) or binding.is_dotted:
            return
        if isinstance(source, cst.ImportAlias):
            self._import(binding, source)
        elif isinstance(source, cst.SimpleString) and names.is_home(binding.path) and self._is_complete(binding):
            self.nodes[source] = _with_text(source, PACKAGE)
            self._note(source, MigrationKind.REWRITTEN, binding.path)

    def _import(self, binding: Binding, source: cst.ImportAlias) -> None:
        new = names.counterpart(binding.path, self.available)
        if isinstance(binding.statement, cst.ImportFrom) and new is not None:
            self.aliases[source] = (PACKAGE, new, binding.name if binding.name != new else name_after_as(source))
            self._note_rewritten(source, binding.path)
        elif names.name_in_typing(binding.path) is not None:
            self.aliases[source] = ("typing", _last(binding.path), name_after_as(source))
            self._note(source, MigrationKind.REWRITTEN, binding.path)
        elif not names.is_home(binding.path):
            self._note(source, MigrationKind.LEFT, binding.path, names.reason_against(binding.path))
        elif self._is_complete(binding):
            self.aliases[source] = (None, PACKAGE, binding.name if binding.name != PACKAGE else None)
            self._note(source, MigrationKind.REWRITTEN, binding.path)

    def _is_complete(self, binding: Binding) -> bool:
        """Does jitlite have all that is asked of this name for torch.jit, by the same names?"""
        if binding not in self._complete:
            self._complete[binding] = False
            uses = self._uses.get(binding, ())
            self._complete[binding] = not binding.is_attribute and all(map(self._would_do, uses))
        return self._complete[binding]

    def _would_do(self, use: TorchJitUse) -> bool:
        if self._is_target(use):
            return False
        if names.is_home(use.path):
            return self._is_asked_for_known(use) or self._named_again(use) is not None
        return names.counterpart(use.path, self.available) == use.path.rpartition(".")[2]

    def _named_again(self, use: TorchJitUse) -> Binding | None:
        """The name that `jit = torch.jit` gives, if all that is asked of it is there."""
        again = self._again.get(use.node, ())
        return again[0] if len(again) == 1 and self._is_complete(again[0]) else None

    def _is_asked_for_known(self, use: TorchJitUse) -> bool:
        """Is it the torch.jit of `getattr(torch.jit, "script")`, for a name that jitlite has?"""
        argument = self.parents.get(use.node)
        call = self.parents.get(argument) if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call) or len(call.args) < 2 or call.args[0] is not argument:
            return False
        asked = isinstance(call.func, cst.Name) and call.func.value in _ASKING
        text = call.args[1].value
        if not asked or not isinstance(text, cst.SimpleString):
            return False
        name = str(text.evaluated_value)
        return names.counterpart(f"{use.path}.{name}", self.available) == name

    # -- uses
    def _use(self, use: TorchJitUse) -> None:
        new = names.counterpart(use.path, self.available)
        if use.attributes == 0 and new is not None:
            return  # whatever has bound the name is rewritten
        if self._is_target(use):
            self._note(
                use.node, MigrationKind.LEFT, use.path, "it is given another value, which jitlite would not notice"
            )
        elif new is not None or self._is_home_of_known(use):
            self._exchange(use, new)
        elif use.attributes and self._is_free_builtin(names.builtin_type(use.path)):
            self._note(use.node, MigrationKind.REWRITTEN, use.path)
            self.nodes[use.node] = cst.Name(names.builtin_type(use.path) or "", use.node.lpar, use.node.rpar)
        elif not self._is_import_rewritten(use):
            self._note(use.node, MigrationKind.LEFT, use.path, names.reason_against(use.path))

    def _is_home_of_known(self, use: TorchJitUse) -> bool:
        """Is it torch.jit itself, of which only names are wanted that jitlite has?"""
        return names.is_home(use.path) and bool(self._is_asked_for_known(use) or self._named_again(use))

    def _is_import_rewritten(self, use: TorchJitUse) -> bool:
        """Is a name nothing to change, since what imports it is changed, or no name of torch.jit?"""
        return use.attributes == 0 and (not names.is_home(use.path) or names.name_in_typing(use.path) is not None)

    def _exchange(self, use: TorchJitUse, new: str | None) -> None:
        """Use what jitlite has by the name `new`, or jitlite itself, where the import that takes can be made."""
        is_renamed = self._renamed(use)
        against = "" if is_renamed else self._against_import(use)
        if against:
            self._note(use.node, MigrationKind.LEFT, use.path, against)
            return
        self._note_rewritten(use.node, use.path)
        if not is_renamed:
            name = cst.Name(self.local_name)
            self._write_out(use, name if new is None else cst.Attribute(name, cst.Name(new)))

    def _is_free_builtin(self, name: str | None) -> bool:
        return name is not None and name not in self.found.names

    def _renamed(self, use: TorchJitUse) -> bool:
        """Does the name at the start stand for jitlite from now on?"""
        return all(b.source in self.aliases or b.source in self.nodes or self._follows(b) for b in use.bindings)

    def _follows(self, binding: Binding) -> bool:
        return isinstance(binding.statement, cst.Assign) and names.is_home(binding.path) and self._is_complete(binding)

    def _write_out(self, use: TorchJitUse, new: cst.Name | cst.Attribute) -> None:
        self.nodes[use.node] = new.with_changes(lpar=use.node.lpar, rpar=use.node.rpar)
        self._need_import(use.node, use.bindings)

    def _against_import(self, use: TorchJitUse) -> str:
        """What is against an import of jitlite behind whatever binds the name at the start."""
        if not use.is_certain:
            return _UNCERTAIN
        return _OF_OUTER if any(isinstance(b.declared, cst.Nonlocal) for b in use.bindings) else ""

    def _need_import(self, node: cst.CSTNode, bindings: Iterable[Binding]) -> None:
        start = self.positions[node].start
        self._needs += [(binding, (start.line, start.column)) for binding in bindings]

    def _import_for(self, binding: Binding, use: tuple[int, int], own: Sequence[cst.CSTNode]) -> None:
        """See that jitlite is imported wherever this binding is made, before a use of it."""
        block = self._block(binding.statement)
        for other in [*own, *self.following]:
            if self._place(other) < use and self._block(other) in (block, self.module):
                return
        self.following[binding.statement] = None
        self._declare(binding)

    def _declare(self, binding: Binding) -> None:
        if binding.declared is not None and not any(n.name.value == self.local_name for n in binding.declared.names):
            self.declaring[binding.declared] = None

    def _block(self, statement: cst.CSTNode) -> cst.CSTNode:
        """The block that a small statement stands in."""
        return self.parents[self.parents[statement]]

    def _place(self, node: cst.CSTNode) -> tuple[int, int]:
        start = self.positions[node].start
        return start.line, start.column

    def _is_target(self, use: TorchJitUse) -> bool:
        context = self.contexts.get(use.node)
        return use.attributes > 0 and context in (meta.ExpressionContext.STORE, meta.ExpressionContext.DEL)

    def _dotted_import(self, binding: Binding) -> bool:
        """`import torch.jit`, once it is known whether anybody still needs it; does it import jitlite now?"""
        source, statement = binding.source, binding.statement
        if not binding.is_dotted or not isinstance(source, cst.ImportAlias) or not isinstance(statement, cst.Import):
            return False
        given = get_full_name_for_node(source.name) or ""
        if not names.is_of_torch_jit(given):
            return False
        if any(use.node not in self.nodes for use in self._uses.get(binding, ())):
            if given != names.HOME:
                self._note(source, MigrationKind.LEFT, given, names.reason_against(given))
            return False
        return self._exchange_import(binding, source, statement, given)

    def _exchange_import(self, binding: Binding, source: cst.ImportAlias, statement: cst.Import, given: str) -> bool:
        self._note(source, MigrationKind.REWRITTEN, given)
        if self._needs_torch() and not self._imports_torch_beside(statement):
            self.aliases[source] = (None, "torch", None)
            return False
        self.aliases[source] = (None, PACKAGE, self.local_name if self.local_name != PACKAGE else None)
        self._declare(binding)
        return True

    def _imports_torch_beside(self, statement: cst.Import) -> bool:
        """Is torch imported by another statement of the same block, before it is used?"""
        first = self.found.torch_elsewhere.get("torch", self._place(statement))
        others = [b.statement for b in self.found.bindings if b.path == "torch" and b.statement is not statement]
        plain = [o for o in others if isinstance(o, cst.Import) and any(_is_torch(a) for a in o.names)]
        return any(self._block(other) is self._block(statement) and self._place(other) < first for other in plain)

    def _needs_torch(self) -> bool:
        """Is torch used for something else than torch.jit, be it in a string that something may evaluate?"""
        return "torch" in self.found.torch_elsewhere or self._torch_in_texts

    # -- strings and comments
    def _annotation(self, text: cst.BaseString, bindings: Sequence[Binding]) -> None:
        if isinstance(text, cst.SimpleString):
            known = self.nodes.get(text, text)
            assert isinstance(known, cst.SimpleString)
            new = self._in_text(text, known.value, bindings)
            if new != known.value:
                self.nodes[text] = text.with_changes(value=new)
        elif isinstance(text, cst.ConcatenatedString) and _OF_JIT.search(str(text.evaluated_value)):
            self._torch_in_texts = True
            self._note(text, MigrationKind.LEFT, names.HOME, "it is put together of several strings")

    def _in_text(self, node: cst.CSTNode, text: str, bindings: Iterable[Binding]) -> str:
        """The text of an annotation with jitlite's names for torch.jit's."""
        for binding in bindings:
            rest = {"torch": rf"\.jit\.{_NAME}", names.HOME: rf"\.{_NAME}"}.get(binding.path)
            if rest is None or (binding.source in self.aliases) or self._follows(binding):
                continue

            def new(match: re.Match[str], binding: Binding = binding) -> str:
                path = f"{names.HOME}.{match[1]}"
                name, builtin = names.counterpart(path, self.available), names.builtin_type(path)
                if name is None and builtin is not None and self._is_free_builtin(builtin):
                    self._note(node, MigrationKind.REWRITTEN, path)
                    return builtin
                if name is None:
                    self._note(node, MigrationKind.LEFT, path, names.reason_against(path))
                    self._torch_in_texts = True
                    return match[0]
                self._note(node, MigrationKind.REWRITTEN, path)
                self._need_import(node, [binding])
                return f"{self.local_name}.{name}"

            text = re.sub(rf"(?<![\w.]){re.escape(binding.name)}{rest}", new, text)
        return text

    def _doctest(self, node: cst.SimpleString) -> None:
        """Exchange the names in the examples of a docstring, and import jitlite where they import torch."""
        torch = next((b for b in self.found.bindings if b.path == "torch" and not b.is_attribute), None)
        imports = re.search(r"^\s*>>> (?:import|from) torch\b.*$", node.value, re.MULTILINE)
        if torch is None and imports is None:
            return

        def new(line: re.Match[str]) -> str:
            is_import = re.search(r"\bimport\b", line[0]) is not None
            return line[0] if is_import else self._example(node, line[0], None if imports else torch)

        text = _EXAMPLE.sub(new, node.value)
        if text != node.value:
            self.nodes[node] = node.with_changes(value=_importing_jitlite(text, imports))

    def _example(self, node: cst.CSTNode, line: str, torch: Binding | None) -> str:
        """A line of an example; `torch` is what binds the name in the file, if the example itself does not."""

        def new(match: re.Match[str]) -> str:
            path = f"{names.HOME}.{match[1]}"
            name = names.counterpart(path, self.available)
            if name is None:
                self._note(node, MigrationKind.LEFT, path, names.reason_against(path))
                return match[0]
            self._note_rewritten(node, path)
            if torch is not None:
                self._needs.append((torch, self._place(node)))
            return f"{self.local_name if torch is not None else PACKAGE}.{name}"

        return re.sub(rf"(?<![\w.])torch\.jit\.{_NAME}", new, line)

    def _texts(self) -> None:
        """Type comments, strings that hold a name of torch.jit, and what looks like torch.jit and may be it."""
        finder, plan = self.finder, self
        docstrings = set()
        known = {use.node for use in self.found.uses}

        class TextVisitor(cst.CSTVisitor):
            def visit_Import(self, node: cst.Import) -> bool:
                plan._imports_of_compiler("", node.names)
                return False

            def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
                home = "" if node.relative or node.module is None else get_full_name_for_node(node.module) or ""
                if home and not isinstance(node.names, cst.ImportStar):
                    plan._imports_of_compiler(f"{home}.", node.names)
                return False

            def visit_Comment(self, node: cst.Comment) -> None:
                if re.match(r"#\s*type\s*:", node.value):
                    plan._torch_in_texts |= bool(_OTHER_TORCH.search(node.value))
                    new = plan._in_text(node, node.value, plan.found.bindings)
                    if new != node.value:
                        plan.nodes[node] = node.with_changes(value=new)

            def visit_Attribute(self, node: cst.Attribute) -> bool:
                looks = re.fullmatch(r"(.+\.)?torch\.jit\.\w+", get_full_name_for_node(node) or "")
                if looks and node not in known and node.value not in known:
                    plan._note(node, MigrationKind.LEFT, looks[0], "its torch does not come from an import of torch")
                return node not in known and not plan._is_of_compiler(node)

            def visit_Expr(self, node: cst.Expr) -> None:
                docstrings.add(node.value)

            def visit_SimpleString(self, node: cst.SimpleString) -> None:
                value = node.evaluated_value
                if node in docstrings and isinstance(value, str) and ">>>" in value:
                    plan._doctest(node)
                plan._torch_in_texts |= isinstance(value, str) and bool(_OTHER_TORCH.search(value))
                whole = isinstance(value, str) and re.fullmatch(r"torch\.jit(\.\w+)*", value)
                if whole and node not in plan.nodes and node not in docstrings:
                    plan._note(
                        node, MigrationKind.LEFT, str(value), "it is a string, of which only you know what reads it"
                    )

            def visit_Call(self, node: cst.Call) -> None:
                name = node.func.value if isinstance(node.func, cst.Name) else None
                if name in _ASKING and len(node.args) > 1 and finder.stands_for(node.args[0].value) == "torch":
                    text = node.args[1].value
                    if isinstance(text, cst.SimpleString) and text.evaluated_value == "jit":
                        plan._note(node, MigrationKind.LEFT, names.HOME, "it is asked for by name")

        self.module.visit(TextVisitor())

    def _is_of_compiler(self, node: cst.Attribute) -> bool:
        """Note a chain that leads to a name of torch._C which belongs to torch.jit; is it one?"""
        path = self.finder.stands_for(node)
        reason = None if path is None else names.reason_against_compiler(path)
        if path is None or reason is None or self.finder.stands_for(node.value) not in names.HOMES_OF_COMPILER:
            return False
        self._note(node, MigrationKind.LEFT, path, reason)
        return True

    def _imports_of_compiler(self, home: str, aliases: Iterable[cst.ImportAlias]) -> None:
        for alias in aliases:
            path = f"{home}{get_full_name_for_node(alias.name)}"
            reason = names.reason_against_compiler(path)
            if reason is not None:
                self._note(alias, MigrationKind.LEFT, path, reason)

    def _star(self, statement: cst.ImportFrom) -> None:
        """`from torch.jit import *` becomes an import of the names that the file uses."""
        of_torch = [n for n in self.found.unbound if names.is_public(n)]
        wanted = [n for n in of_torch if names.counterpart(f"{names.HOME}.{n}", self.available) == n]
        lacking = [n for n in of_torch if n not in wanted]
        for name in lacking:
            path = f"{names.HOME}.{name}"
            self._note(self.found.unbound[name][0], MigrationKind.LEFT, path, names.reason_against(path))
        if not wanted:
            self._note(
                statement, MigrationKind.LEFT, "from torch.jit import *", "nothing in the file is known to come from it"
            )
            return
        self.stars[statement] = sorted(wanted), bool(lacking)
        for name in wanted:
            self._note_rewritten(self.found.unbound[name][0], f"{names.HOME}.{name}")


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _is_torch(alias: cst.ImportAlias) -> bool:
    return isinstance(alias.name, cst.Name) and alias.name.value == "torch" and alias.asname is None


def _with_text(node: cst.SimpleString, text: str) -> cst.SimpleString:
    return node.with_changes(value=f"{node.prefix}{node.quote}{text}{node.quote}")


def _importing_jitlite(text: str, imports: re.Match[str] | None) -> str:
    """The text of a docstring whose examples import jitlite where they first import torch."""
    if imports is None or re.search(r"^\s*>>> import jitlite\b", text, re.MULTILINE):
        return text
    start = re.match(r"\s*", imports[0])
    return text.replace(imports[0], f"{imports[0]}{start[0] if start else ''}>>> import {PACKAGE}", 1)
