"""Who may import whom, as docs/architecture.md has it: no cycles, nothing late, no torch.jit."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "jitlite"
ROOMS = ("ir", "frontend", "passes", "interpreter", "native")
BASE = {"source", "options", "locks", "turns", "background", "torch_internals"}
TOOLS = {"literals", "terminal", "equality", "sample"}
ALLOWED = {
    **dict.fromkeys(BASE | TOOLS, {"source", "locks", "turns", "background"}),
    "ir": BASE | {"ir"},
    **{room: BASE | {"ir", room} for room in ("frontend", "passes", "native")},
    "interpreter": BASE | {"ir", "native", "interpreter"},
    "compiler": BASE | {"ir", "frontend", "passes"},
    "specialize": BASE | {"ir", "compiler", "passes"},
    "plans": {"ir", "native"},
    "differentiation": {"ir", "compiler", "passes", "interpreter", "plans"},
    "executor": BASE | {"ir", "compiler", "passes", "interpreter", "native", "specialize", "plans", "differentiation"},
    "other_tracers": BASE | {"ir", "torch_internals"},
    "script_function": BASE
    | {
        "other_tracers",
        "converters",
        "archive",
        "ir",
        "frontend",
        "compiler",
        "passes",
        "interpreter",
        "executor",
        "explain",
        "plans",
    }
    | {"torch_schemas"},
    "executor_switches": {"options"},
    "explain": BASE | {"ir", "passes", "interpreter", "native", "executor", "specialize", "differentiation"},
    "outcomes": BASE | {"equality"},
    "reduce": BASE | {"ir", "interpreter", "outcomes"},
    "bisection": BASE | {"ir", "passes", "interpreter", "executor", "script_function", "outcomes", "reduce"},
    "text": BASE | {"ir", "frontend", "compiler", "interpreter", "script_function"},
    "module_handle": BASE | {"ir", "frontend"},
    "migration": {"migration"},
    "tensor_identity": {"ir"},
    "script_module": BASE
    | {"tensor_identity", "converters", "archive", "ir", "frontend", "compiler", "interpreter"}
    | {"script_function", "text", "module_handle", "own_names", "late_hooks"},
    "frozen_module": BASE
    | {"tensor_identity"}
    | {"archive", "ir", "frontend", "compiler", "passes", "script_function", "script_module"},
    "attribute_folding": BASE | {"ir", "passes"},
    "freezing": BASE | {"ir", "compiler", "passes", "script_module", "frozen_module", "attribute_folding"},
    "traced_module": BASE
    | {"own_names"}
    | {"ir", "frontend", "compiler", "frozen_module", "script_function", "script_module"},
    "trace_findings": BASE | {"ir", "passes"},
    "trace_checks": BASE | {"ir", "frontend", "passes", "trace_findings"},
    "dispatch_tracing": BASE | {"ir", "frontend", "passes", "trace_checks", "traced_module"},
    "tracing": BASE
    | {"ir", "frontend", "passes", "script_function", "script_module", "trace_checks", "traced_module"}
    | {"dispatch_tracing"},
    "fx_graphs": BASE | {"ir", "frontend", "compiler", "passes"},
    "backend": BASE | {"ir", "frontend", "passes", "interpreter", "executor"},
    "script_containers": BASE | {"ir", "interpreter"},
    "concurrency": BASE | {"ir", "frontend", "interpreter", "script_function", "script_module"},
    "archive": BASE
    | {"ir", "frontend", "compiler", "passes", "interpreter", "executor", "script_function", "script_module", "text"}
    | {"archive", "tensor_identity"},
    "api": BASE
    | {"archive"}
    | {"ir", "frontend", "compiler", "passes", "interpreter"}
    | {"script_function", "script_module", "script_containers", "concurrency", "text", "module_handle", "torch_types"},
    "torch_types": BASE | {"ir"},
    "torch_schemas": BASE | {"ir", "torch_types"},
    "torch_nodes": BASE | {"ir", "torch_types"},
    "torch_graphs": BASE | {"ir", "compiler", "passes", "torch_nodes", "torch_types"},
    "upgrade_names": {"ir", "archive"},
    "shape_names": BASE | {"ir", "passes", "torch_types"},
    "own_names": {"ir"},
    "late_hooks": set(),
    "jit_names": BASE | {"api", "concurrency", "ir", "plans", "tracing"},
    "stand_ins": BASE | {"api", "module_handle", "script_function", "script_module", "torch_types"},
    "drop_in": BASE
    | {"archive", "api", "tracing", "executor", "plans", "script_function", "script_module", "concurrency", "freezing"}
    | {"jit_names", "stand_ins", "torch_graphs", "torch_names"},
    **dict.fromkeys(("demo", "self_check"), BASE | TOOLS | {"ir", "passes", "api", "script_function"}),
    "doctor": BASE | {"terminal"},
    "__init__": BASE
    | {"doctor", "jit_names"}
    | {"ir", "passes", "api", "script_function", "script_module", "script_containers", "concurrency", "drop_in"}
    | {"freezing", "jit_names", "tracing"}
    | {"archive", "converters", "executor", "bisection", "plans"},
    "torch_names": BASE
    | {"ir", "compiler", "passes", "script_function", "freezing", "module_handle"}
    | {"executor", "executor_switches", "plans", "frontend", "tracing"}
    | {"api", "archive", "script_module", "stand_ins", "shape_names", "upgrade_names"}
    | {"torch_graphs", "torch_nodes", "torch_schemas", "torch_types"},
    "testing": {"torch_names"},
    "converters": BASE
    | {"ir", "frontend", "compiler", "passes", "interpreter", "archive", "converters"}
    | {"tensor_identity"},
    "cli": BASE
    | TOOLS
    | {"ir", "passes", "api", "script_function", "executor", "explain", "bisection", "demo", "doctor", "__init__"}
    | {"cli", "archive", "converters", "migration"},
    "__main__": {"cli"},
}
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


def test_imports_go_in_the_allowed_directions():
    for name, path in MODULES.items():
        for node, target in imported(path):
            ours = inner(target)
            if ours is not None:
                room, other = name.split(".")[0], ours.split(".")[0]
                assert other in ALLOWED[room], f"{path}:{node.lineno}: {room} may not import {other}"


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
