"""Who uses torch.jit in a file, under whatever name it goes there.

A *binding* is a place that gives a name of the file to torch, to torch.jit or to something of it: an import of any
form, `jit = torch.jit`, `torch = pytest.importorskip("torch")`. A *use* is a chain of attributes that starts at such a
name and leads into torch.jit. Scopes are Python's: what a parameter hides is nobody's use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import libcst as cst
from libcst import metadata as meta
from libcst.helpers import get_full_name_for_node

from jitlite.migrate.names import is_home, is_of_torch_jit

_IMPORTING_CALLS = {"importorskip", "import_module", "__import__"}

Statement = cst.Import | cst.ImportFrom | cst.Assign
Chain = cst.Name | cst.Attribute


@dataclass(eq=False)
class Binding:
    """A name that stands for torch, torch.jit, or something of them.

    Attributes:
        name: as the file has it; of `import torch.jit`, which binds torch, "torch".
        path: what it stands for.
        statement: what binds it.
        source: the alias of the import, the string of a call that imports, or the value of an assignment.
        is_attribute: is it bound in a class, so that anybody may ask the class or an object for it?
        declared: what is said of the name where the statement stands: `global`, `nonlocal` or nothing.
    """

    name: str
    path: str
    statement: Statement
    source: cst.CSTNode
    is_attribute: bool = False
    declared: cst.Global | cst.Nonlocal | None = None

    @property
    def is_dotted(self) -> bool:
        """Is it the torch of `import torch.jit`?"""
        source = self.source
        if not isinstance(source, cst.ImportAlias) or not isinstance(self.statement, cst.Import):
            return False
        return name_after_as(source) is None and isinstance(source.name, cst.Attribute)


@dataclass(eq=False)
class TorchJitUse:
    """A chain of attributes that leads into torch.jit.

    Attributes:
        node: the part of the chain that names something of torch.jit, or torch.jit itself.
        path: what it stands for.
        bindings: what may have bound the name at its start.
        attributes: how many of them the node has behind that name.
        is_certain: can the name be nothing else, apart from None?
    """

    node: Chain
    path: str
    bindings: tuple[Binding, ...]
    attributes: int
    is_certain: bool = True


@dataclass
class Found:
    """All there is in a file.

    Attributes:
        bindings: in the order in which the scopes have them.
        uses: likewise.
        own_uses: uses of jitlite.
        annotations: annotations that are strings, with the bindings that they name.
        stars: `from torch.jit import *`.
        unbound: names that nothing in the file binds, with where they stand.
        torch_elsewhere: names of torch that are used for something else than torch.jit, with the first place.
        own_imports: `import jitlite`, under whatever name.
        names: all names that the file binds.
        name_is_taken: is the name of jitlite something else in the file?
    """

    bindings: list[Binding] = field(default_factory=list)
    uses: list[TorchJitUse] = field(default_factory=list)
    own_uses: list[TorchJitUse] = field(default_factory=list)
    annotations: list[tuple[cst.BaseString, tuple[Binding, ...]]] = field(default_factory=list)
    stars: list[cst.ImportFrom] = field(default_factory=list)
    unbound: dict[str, list[cst.CSTNode]] = field(default_factory=dict)
    torch_elsewhere: dict[str, tuple[int, int]] = field(default_factory=dict)
    own_imports: list[tuple[cst.Import, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    name_is_taken: bool = False


class Finder:
    """Finds bindings and uses.

    Args:
        wrapper: the file.
        package: the name that must be free, or bound to jitlite.
        has_counterpart: does jitlite have what is called so in torch.jit?
    """

    def __init__(self, wrapper: meta.MetadataWrapper, package: str, has_counterpart: Callable[[str], bool]) -> None:
        self.package = package
        self.roots = ("torch", package)
        self.has_counterpart = has_counterpart
        self.parents = wrapper.resolve(meta.ParentNodeProvider)
        self.positions = wrapper.resolve(meta.PositionProvider)
        self.scope_of = wrapper.resolve(meta.ScopeProvider)
        # a dict, not a set, so that the result is the same each time
        self.scopes = list(dict.fromkeys(scope for scope in self.scope_of.values() if scope is not None))
        self.all_accesses = [access for scope in self.scopes for access in scope.accesses]
        self.accesses = {_start(access.node): access for access in self.all_accesses}
        self.known: dict[meta.BaseAssignment, Binding | None] = {}
        self.found = Found()
        self.module = wrapper.module
        self.declarations = {
            (self.scope_of.get(node), item.name.value): node
            for node in self.parents
            if isinstance(node, cst.Global | cst.Nonlocal)
            for item in node.names
        }

    def find(self) -> Found:
        """Everything of interest in the file."""
        for scope in self.scopes:
            for assignment in scope.assignments:
                self._is_package(assignment)
                binding = self._binding(assignment)
                if binding is not None:
                    self.found.bindings.append(binding)
        self.found.bindings.sort(key=lambda binding: self._at(binding.source))
        for access in self.all_accesses:  # an annotation that is a string is the node of each name in it
            self._use(access)
        for statement in _imports_from(self.module):
            if isinstance(statement.names, cst.ImportStar) and is_of_torch_jit(_module_of(statement)):
                self.found.stars.append(statement)
        return self.found

    def stands_for(self, node: cst.BaseExpression) -> str | None:
        """The dotted name of what an expression is, where it is torch or something of it."""
        resolved = self._resolve(node)
        return resolved[0] if resolved else None

    def _is_package(self, assignment: meta.BaseAssignment) -> None:
        if isinstance(assignment, meta.BuiltinAssignment):
            return
        self.found.names.add(assignment.name)
        statement = getattr(assignment, "node", None)
        if isinstance(statement, cst.Import):
            for alias in statement.names:
                bound = name_after_as(alias) or _root(_full(alias.name))
                given = _full(alias.name) if name_after_as(alias) else _root(_full(alias.name))
                if bound == assignment.name and given == self.package:
                    self.found.own_imports.append((statement, bound))
                    return
        if assignment.name == self.package:
            self.found.name_is_taken = True

    # -- bindings
    def _binding(self, assignment: meta.BaseAssignment) -> Binding | None:
        if assignment not in self.known:
            self.known[assignment] = None  # while it is looked at: `jit = jit.jit` stands for nothing
            found = self._imported(assignment) or self._assigned(assignment)
            if found is not None and (is_of_torch_jit(found.path) or found.path.partition(".")[0] in self.roots):
                self.known[assignment] = found
        return self.known[assignment]

    def _imported(self, assignment: meta.BaseAssignment) -> Binding | None:
        statement = assignment.node if isinstance(assignment, meta.ImportAssignment) else None
        if not isinstance(statement, cst.Import | cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
            return None
        assert isinstance(assignment, meta.ImportAssignment)
        prefix = f"{_module_of(statement)}." if isinstance(statement, cst.ImportFrom) else ""
        if prefix == "." or "." in assignment.name:  # of `import torch.jit`, what it binds is torch
            return None
        alias = next((a for a in statement.names if assignment.as_name is _bound_name(a)), None)
        return None if alias is None else self._bound(assignment, _path(assignment, prefix, alias), statement, alias)

    def _bound(self, assignment: meta.BaseAssignment, path: str, statement: Statement, source: cst.CSTNode) -> Binding:
        is_attribute = isinstance(assignment.scope, meta.ClassScope)
        own = self.scope_of.get(source) or self.scope_of.get(statement)
        declared = None if own is assignment.scope else self.declarations.get((own, assignment.name))
        return Binding(assignment.name, path, statement, source, is_attribute, declared)

    def _assigned(self, assignment: meta.BaseAssignment) -> Binding | None:
        target = self.parents.get(assignment.node) if isinstance(assignment, meta.Assignment) else None
        statement = self.parents.get(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        text = imported_by_call(statement.value)
        if text is not None:
            return self._bound(assignment, str(text.evaluated_value), statement, text)
        resolved = self._resolve(statement.value)
        return self._bound(assignment, resolved[0], statement, statement.value) if resolved else None

    def _resolve(self, chain: cst.BaseExpression) -> tuple[str, tuple[Binding, ...]] | None:
        """What a chain of attributes stands for, and what has bound its start."""
        attributes: list[str] = []
        while isinstance(chain, cst.Attribute):
            attributes.insert(0, chain.attr.value)
            chain = chain.value
        access = self.accesses.get(chain) if isinstance(chain, cst.Name) else None
        bindings = self._bindings(self._referents(access)) if access is not None else ()
        return (".".join([bindings[0].path, *attributes]), bindings) if bindings else None

    def _referents(self, access: meta.Access) -> list[meta.BaseAssignment]:
        """What may have bound the name at the start of an access, in the order of the file.

        LibCST takes `torch.jit.script` for a use of `import torch.jit` alone, wherever that stands; but `import torch`
        and `import torch.nn` bind torch just as well.
        """
        start = _start(access.node)
        if isinstance(start, cst.Name) and start is not access.node:
            bound = list(access.scope[start.value])
            before = [a for a in bound if a.scope is not access.scope or self._place(a) < self._at(start)]
            found = before or bound
        else:
            found = [a for r in access.referents for a in (r.scope[_root(r.name)] if "." in r.name else (r,))]
        return sorted(dict.fromkeys(found), key=self._place)

    def _at(self, node: cst.CSTNode) -> tuple[int, int]:
        start = self.positions[node].start
        return start.line, start.column

    def _place(self, assignment: meta.BaseAssignment) -> tuple[int, int]:
        node = getattr(assignment, "node", None)
        return self._at(node) if isinstance(node, cst.CSTNode) and node in self.positions else (0, 0)

    def _bindings(self, referents: Iterable[meta.BaseAssignment]) -> tuple[Binding, ...]:
        found = [binding for binding in map(self._binding, referents) if binding is not None]
        return tuple(b for b in found if b.path == found[0].path)

    def _is_certain(self, referents: Iterable[meta.BaseAssignment], bindings: tuple[Binding, ...]) -> bool:
        """Is the name bound to nothing else than this, or to None?"""
        return all(self._binding(r) in bindings or self._is_none(r) for r in referents)

    def _is_none(self, assignment: meta.BaseAssignment) -> bool:
        node = getattr(assignment, "node", None)
        while isinstance(node, cst.Name | cst.Element | cst.Tuple | cst.AssignTarget):
            node = self.parents.get(node)
        value = node.value if isinstance(node, cst.Assign | cst.AnnAssign) else None
        parts = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
        return all(isinstance(part, cst.Name) and part.value == "None" for part in parts)

    # -- uses
    def _use(self, access: meta.Access) -> None:
        referents = self._referents(access)
        bindings = self._bindings(referents)
        node = _start(access.node)
        if not bindings:
            self._unbound(node, access.referents)
            return
        if isinstance(node, cst.BaseString):
            self.found.annotations.append((node, bindings))
            return
        if not isinstance(node, cst.Name | cst.Attribute):
            return
        start, path, attributes = node, bindings[0].path, 0
        while not self._is_known(path):
            longer = self.parents.get(node)
            if not isinstance(longer, cst.Attribute) or longer.value is not node:
                break
            node, path, attributes = longer, f"{path}.{longer.attr.value}", attributes + 1
        if is_of_torch_jit(path):
            self.found.uses.append(TorchJitUse(node, path, bindings, attributes, self._is_certain(referents, bindings)))
        elif path.partition(".")[0] == self.package:
            self.found.own_uses.append(TorchJitUse(node, path, bindings, attributes))
        else:
            name, first = _root(_full(start)), self._at(start)
            self.found.torch_elsewhere[name] = min(first, self.found.torch_elsewhere.get(name, first))

    def _unbound(self, node: cst.CSTNode, referents: Iterable[meta.BaseAssignment]) -> None:
        """Write down names that only an import of `*` can have bound; it hides what is built in."""
        if any(not isinstance(r, meta.BuiltinAssignment) for r in referents):
            return
        found = [node.value] if isinstance(node, cst.Name) else []
        if isinstance(node, cst.SimpleString | cst.ConcatenatedString):
            words = re.findall(r"(?<![\w.])[^\W\d]\w*", str(node.evaluated_value))
            found = [word for word in words if word not in self.found.names]
        for name in found:
            self.found.unbound.setdefault(name, []).append(node)

    def _is_known(self, path: str) -> bool:
        """Is it known what this is, whatever attributes follow?"""
        if is_of_torch_jit(path):
            return self.has_counterpart(path) or not is_home(path)
        return path not in ("torch", self.package)


def name_after_as(alias: cst.ImportAlias) -> str | None:
    """The name that an import gives by `as`."""
    name = alias.asname.name if alias.asname is not None else None
    return name.value if isinstance(name, cst.Name) else None


def imported_by_call(value: cst.BaseExpression) -> cst.SimpleString | None:
    """The string of `pytest.importorskip("torch")` and the like."""
    if not isinstance(value, cst.Call) or not value.args:
        return None
    text = value.args[0].value
    is_import = (get_full_name_for_node(value.func) or "").rpartition(".")[2] in _IMPORTING_CALLS
    return text if is_import and isinstance(text, cst.SimpleString) else None


def _full(node: cst.CSTNode) -> str:
    return get_full_name_for_node(node) or ""


def _start(node: cst.CSTNode) -> cst.CSTNode:
    """The name at the start of a chain of attributes."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node


def _path(assignment: meta.ImportAssignment, prefix: str, alias: cst.ImportAlias) -> str:
    """What the name that an import binds stands for."""
    return assignment.name if name_after_as(alias) is None and not prefix else prefix + _full(alias.name)


def _bound_name(alias: cst.ImportAlias) -> cst.CSTNode:
    """The node of the name that an import binds."""
    return alias.name if name_after_as(alias) is None or alias.asname is None else alias.asname.name


def _root(name: str) -> str:
    return name.partition(".")[0]


def _module_of(statement: cst.ImportFrom) -> str:
    return "" if statement.relative or statement.module is None else _full(statement.module)


def _imports_from(module: cst.Module) -> list[cst.ImportFrom]:
    found: list[cst.ImportFrom] = []

    class Visitor(cst.CSTVisitor):
        def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
            found.append(node)

    module.visit(Visitor())
    return found
