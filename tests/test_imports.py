"""Which folder may import which, as docs/architecture.md has it: downwards only, nothing late, no torch.jit."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "jitlite"
ROOMS: dict[str, str] = {
    "base": "",
    "ir": "base",
    "operators": "base ir",
    "analysis": "base ir operators",
    "passes": "base ir operators analysis",
    "frontend": "base ir operators",
    "native": "base ir operators passes",
    "interpreter": "base ir operators",
    "kernels": "base ir operators passes native interpreter",
    "engines": "base ir analysis passes",
    "compiler": "base ir passes frontend",
    "codegen": "base ir operators frontend interpreter compiler",
    "executor": "base ir operators analysis passes native interpreter kernels engines compiler codegen",
    "archive": "base ir codegen",
    "export": "base ir operators analysis passes frontend interpreter compiler codegen archive",
    "report": "base ir operators passes frontend interpreter executor",
    "objects": "base ir passes frontend interpreter compiler codegen executor archive export report",
    "loading": "base ir operators passes frontend interpreter compiler codegen executor archive objects",
    "freeze": "base ir analysis passes frontend compiler executor objects loading",
    "api": "base ir operators analysis passes frontend interpreter engines compiler codegen executor export report "
    "objects loading freeze",
    "compat": "base ir analysis passes frontend compiler codegen executor archive objects loading freeze api",
    "debug": "base ir passes interpreter executor objects api",
    "migrate": "",
    "cli": "base ir passes kernels engines executor archive export objects loading api debug migrate __init__",
    "__init__": "base ir passes compiler executor archive export objects loading freeze api compat debug",
    "__main__": "cli",
}
"""The folders, lowest first, and those that each may import beside itself. The top of the package holds no other files
than `__init__` and `__main__`."""
FILES = sorted(PACKAGE.rglob("*.py"))
FORBIDDEN = re.compile(r"^torch\.jit(\.|$)|^torch\._C\._jit")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in FILES}


@functools.cache
def imported(path: Path) -> list[tuple[ast.stmt, str]]:
    """Every imported module; `from jitlite.ir import graph` counts as jitlite.ir.graph where that is a module."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written with the full name"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node, f if f.removeprefix("jitlite.") in MODULES else str(node.module)) for f in full]
    return found


def inner(name: str) -> str | None:
    """`ir.graph` of `jitlite.ir.graph`; None for what is not ours."""
    return name.removeprefix("jitlite.") if name.startswith("jitlite.") else "__init__" if name == "jitlite" else None


def test_rooms_import_what_lies_below():
    """Rooms are listed lowest first, so no circle of folders can be written down."""
    order = list(ROOMS)
    for name, path in MODULES.items():
        room = name.split(".")[0]
        for node, target in imported(path):
            other = (inner(target) or room).split(".")[0]
            if other != room:
                assert other in ROOMS[room].split(), f"{path}:{node.lineno}: {room} may not import {other}"
                assert other == "__init__" or order.index(other) < order.index(room), f"{other} lies above {room}"


def test_the_table_of_rooms_names_what_is_used():
    used = {
        (name.split(".")[0], (inner(target) or name).split(".")[0])
        for name, path in MODULES.items()
        for _, target in imported(path)
    }
    for room, others in ROOMS.items():
        for other in others.split():
            assert (room, other) in used, f"{room} does not import {other} any more"


def test_no_cycles():
    graph = {name: {inner(t) for _, t in imported(path)} - {None, name} for name, path in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_nothing_is_imported_late_and_nothing_from_torch_jit():
    for path in FILES:
        tree = ast.parse(path.read_text())
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                late = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
                assert not late, f"{path}:{late[0].lineno}: an import inside {function.name}"
        for node, target in imported(path):
            assert not FORBIDDEN.match(target), f"{path}:{node.lineno}: imports {target}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                assert not FORBIDDEN.match(ast.unparse(node)), f"{path}:{node.lineno}: uses {ast.unparse(node)}"


# -- no hooks

FILLING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reset", "set",
    "setdefault", "sort", "update",
}  # fmt: skip
"""Methods that change lists, dicts, sets and context variables."""
DECLARING = {
    "cli.commands.command", "frontend.emit.calls.form", "frontend.emit.emitter.expression",
    "frontend.emit.emitter.statement", "frontend.syntax.python_expressions.expression_builder",
    "frontend.syntax.python_expressions.statement_builder", "interpreter.instructions.instruction", "ir.ops.op",
    "ir.ops.op_family", "ir.ops.structural", "ir.traits.known", "passes.registry.graph_pass",
    "passes.registry.inexact_pass", "passes.rules.composites.declare_parts",
    "passes.rules.formula.declare", "kernels.rules.rule",
}  # fmt: skip
"""Functions that enter declarations of one kind, each where it stands, into the table of the kind."""
HOOKS = {
    ("executor.last_run", "base.options.on_change"): "plans depend on switches, and switches know of no plans",
    ("loading.lite_code", "ir.ops.lookup"): "it remembers what it has found, and gives the same without",
    ("loading.torch_scripts", "frontend.tracing.torch_scripts.convert_with"): (
        "torch.jit's modules are converted by reading an archive; reading makes modules, and to make one compiles it"
    ),
}
"""Other functions that keep what a module gives them when it is imported, and why no import can take their place."""


class Changes(ast.NodeVisitor):
    """What a module changes and calls, by qualified names of modules of ours and by the function that does.

    Names of a function's own hide those of the module. What is done when the module is imported is done by "".
    """

    def __init__(self, module: str, text: str) -> None:
        tree = ast.parse(text)
        self.names: dict[str, str] = {}
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                home = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    known = inner(f"{home}{alias.name}")
                    if known is not None:
                        self.names[alias.asname or alias.name] = known
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.names.update((t.id, f"{module}.{t.id}") for t in targets if isinstance(t, ast.Name))
            elif isinstance(node, ast.FunctionDef):
                self.names[node.name] = f"{module}.{node.name}"
        self.function = ""
        self.module = module
        self.hidden: set[str] = set()
        self.changed: list[tuple[int, str, str]] = []
        """Lines, functions, and what they change."""
        self.called: list[tuple[int, str, str]] = []
        self.visit(tree)

    def name_of(self, node: ast.expr) -> str | None:
        """The qualified name in `name.attribute[item]`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Attribute):
                parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.hidden or node.id not in self.names:
            return None
        return ".".join([self.names[node.id], *parts])

    def note(self, into: list[tuple[int, str, str]], node: ast.expr) -> None:
        name = self.name_of(node)
        if name is not None:
            into.append((node.lineno, self.function, name))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.note(self.called, decorator.func if isinstance(decorator, ast.Call) else decorator)
        before = self.function, self.hidden
        arguments = [a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        stored = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        shared = [name for n in ast.walk(node) if isinstance(n, ast.Global) for name in n.names]
        self.function = self.function or node.name
        self.hidden = (self.hidden | {*arguments, *stored}) - set(shared)
        for name in shared:
            self.changed.append((node.lineno, self.function, f"{self.module}.{name}"))
        self.generic_visit(node)
        self.function, self.hidden = before

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self.function = self.function, self.function or f"{node.name}."
        self.generic_visit(node)
        self.function = before

    def visit_Attribute(self, node: ast.Attribute | ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            self.note(self.changed, node)
        self.generic_visit(node)

    visit_Subscript = visit_Attribute

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        self.note(self.called, function)
        if isinstance(function, ast.Attribute) and function.attr in FILLING:
            self.note(self.changed, function.value)
        elif isinstance(function, ast.Name) and function.id in ("setattr", "delattr"):
            self.note(self.changed, node.args[0])
        self.generic_visit(node)


def foreign(changes: Changes) -> list[tuple[int, str]]:
    """What a module changes that belongs to another."""
    home = f"{changes.module}."
    return [(line, name) for line, _, name in changes.changed if not name.startswith(home)]


def keeping(modules: list[Changes]) -> set[str]:
    """The functions that keep something in a list, dict, set or variable of their module, themselves or by others."""
    found = {f"{m.module}.{f}" for m in modules for _, f, name in m.changed if f and name.startswith(f"{m.module}.")}
    calls = {(f"{m.module}.{f}", name) for m in modules for _, f, name in m.called if f}
    while True:
        more = {caller for caller, name in calls if name in found} - found
        if not more:
            return found
        found |= more


def hooked(modules: list[Changes]) -> dict[tuple[str, str], int]:
    """Calls when a module is imported of functions of another module that keep something, other than declarations."""
    keepers = keeping(modules)
    return {
        (m.module, name): line
        for m in modules
        for line, function, name in m.called
        if not function and name in keepers and name not in DECLARING and not name.startswith(f"{m.module}.")
    }


def test_no_module_fills_or_assigns_what_belongs_to_another():
    modules = [Changes(name, path.read_text()) for name, path in MODULES.items()]
    for changes in modules:
        for line, name in foreign(changes):
            raise AssertionError(f"{MODULES[changes.module]}:{line}: changes {name}, which belongs to another module")
    found = hooked(modules)
    for (module, name), line in found.items():
        assert (module, name) in HOOKS, f"{MODULES[module]}:{line}: hands something to {name} when it is imported"
    assert set(found) == set(HOOKS)


PLANTED = {
    "from jitlite.ir import graph\ngraph._printers.append(print)": "ir.graph._printers",
    "from jitlite.ir import graph as g\ndef f():\n    g.printer = print": "ir.graph.printer",
    "from jitlite.objects.torch_types import VIEWS\nVIEWS[int] = str": "objects.torch_types.VIEWS",
    "from jitlite.loading.load import readers\ndef f():\n    readers[:] = [f]": "loading.load.readers",
    "from jitlite.a import b\ndef f(t):\n    b.tracer, x = t, 1": "a.b.tracer",
    "from jitlite.a import b\ndel b.x": "a.b.x",
    "from jitlite.a import b\nb.x += 1": "a.b.x",
    "from jitlite.a import b\nsetattr(b, 'x', 1)": "a.b",
}


def test_a_hook_is_found():
    for text, name in PLANTED.items():
        assert [found for _, found in foreign(Changes("m", text))] == [name], text
    assert foreign(Changes("m", "from jitlite.a import b\ndef f(b):\n    b.x = 1\n    b.append(1)")) == []
    below = "_kept = []\ndef tell(x):\n    _note(x)\ndef _note(x):\n    _kept[:] = [x]\ndef ask(x):\n    return x"
    above = "from jitlite.a import ask, tell\nask(1)\ntell(1)\ndef f():\n    tell(2)"
    assert hooked([Changes("a", below), Changes("m", above)]) == {("m", "a.tell"): 3}
    marked = "from jitlite.a import tell\n@tell\ndef f():\n    pass"
    assert hooked([Changes("a", below), Changes("m", marked)]) == {("m", "a.tell"): 2}


def namespaces() -> dict[str, set[tuple[str, str]]]:
    """For each module that imports on demand, what type checkers are told: names, and where they come from."""
    found = {}
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text())
        blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
        if "_on_demand(" in path.read_text() and blocks:
            imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
            found[name] = {(a.asname or a.name, f"{n.module}.{a.name}") for n in imports for a in n.names}
    return found


EXTRAS = {"engines.onnx": "onnxruntime", "engines.stablehlo": "iree"}
"""Packages that not everybody has, by what needs them."""


def test_what_is_imported_on_demand_is_what_type_checkers_are_told():
    found = namespaces()
    known = "__init__ archive compat.testing codegen.torchscript engines.onnx engines.stablehlo export loading report"
    assert set(known.split()) == set(found)
    for name, told in found.items():
        if any(name == room and importlib.util.find_spec(package) is None for room, package in EXTRAS.items()):
            continue
        module = importlib.import_module("jitlite" if name == "__init__" else f"jitlite.{name}")
        assert {n for n, _ in told} <= set(module.__all__)
        for attribute, place in told:
            home, _, last = place.rpartition(".")
            value = module.__getattr__(attribute)
            expected = MODULES.get(place.removeprefix("jitlite."))
            wanted = importlib.import_module(place) if expected else getattr(importlib.import_module(home), last)
            assert value is wanted, f"{module.__name__}.{attribute}"
            assert attribute in dir(module)
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.__getattr__("nothing")


def test_an_import_leaves_out_what_not_every_program_uses():
    code = "import sys, jitlite; print(*(name for name in sys.modules if name.startswith('jitlite.')))"
    names = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    rooms = ("archive.save", "api.trace", "api.dispatch_trace", "compat.torch_names", "debug.bisect", "loading.load")
    folders = ("export.to_fx", "export.to_python", "codegen.torchscript.", "migrate", "cli")
    prefixes = tuple(f"jitlite.{name}" for name in (*rooms, *folders))
    assert [name for name in names if name.startswith(prefixes)] == []


def test_an_import_brings_no_other_packages_along():
    code = (
        "import sys, torch; before = set(sys.modules); import jitlite\n"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('jitlite')))"
    )
    names = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    tops = {name.partition(".")[0] for name in names if not name.startswith("_sysconfigdata")}
    tops -= {*sys.stdlib_module_names, "torch"}
    assert tops == set(), "sympy alone takes as long as all of jitlite"
    assert [name for name in names if name.startswith("torch.onnx")] == []


def test_files_of_tests_have_names_of_their_own():
    """pytest knows a file by its name alone where its folder is no package."""
    files = [f for f in Path(__file__).parent.rglob("test_*.py") if not (f.parent / "__init__.py").exists()]
    names = [f.name for f in files]
    assert sorted(set(names)) == sorted(names), {name for name in names if names.count(name) > 1}
