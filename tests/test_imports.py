"""Which folder may import which, as docs/architecture.md has it: downwards only, nothing late, no torch.jit."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "jitlite"
ROOMS: dict[str, str] = {
    "base": "",
    "ir": "base",
    "operators": "base ir",
    "analysis": "base ir operators",
    "passes": "base ir operators analysis",
    "frontend": "base ir operators",
    "native": "base ir operators",
    "interpreter": "base ir operators native",
    "compiler": "base ir passes frontend",
    "codegen": "base ir operators frontend native interpreter compiler",
    "executor": "base ir operators analysis passes native interpreter compiler codegen",
    "archive": "base ir codegen",
    "export": "base ir operators analysis passes frontend interpreter compiler codegen archive",
    "objects": "base ir passes frontend interpreter compiler codegen executor archive export",
    "loading": "base ir operators passes frontend interpreter compiler codegen executor archive objects",
    "freeze": "base ir analysis passes frontend compiler executor objects loading",
    "api": "base ir operators passes frontend interpreter compiler codegen executor objects loading freeze",
    "compat": "base ir analysis passes frontend compiler codegen executor archive objects loading freeze api",
    "debug": "base ir passes interpreter executor objects",
    "migrate": "",
    "cli": "base ir passes executor archive export objects loading api debug migrate __init__",
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
