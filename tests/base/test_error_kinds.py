"""Each kind of error: its program that is wrong, the one that is right, and who makes errors."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import pickle
import sys
from pathlib import Path

import pytest

import jitlite
from jitlite.base import options
from jitlite.base.errors.catalog import all_kinds, kind_of_code
from jitlite.base.source import CompileError

PACKAGE = Path(jitlite.__file__).parent
KINDS = all_kinds()
SHOWN = [kind for kind in KINDS if kind.wrong]
WITHOUT_PROGRAMS = {"J0309", "J0802", "J0803", "J0805", "J0806", "J0807", "J0808", "J0809", "J0810", "J0811", "J0812",
                    "J0902", "J0903", "J0904", "J0905", "J0906"}  # fmt: skip
"""Kinds that no short program of the scripting language shows."""


def printed_by(text, folder):
    """What a program prints, which stands in a file of its own."""
    path = folder / f"program_{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"{folder.name}_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return out.getvalue()


def test_codes_and_titles_are_unique_and_say_their_subject():
    assert len({kind.code for kind in KINDS}) == len({kind.title for kind in KINDS}) == len(KINDS) > 60
    for kind in KINDS:
        assert len(kind.code) == 5 and kind.code[0] == "J" and kind.code[1:].isdigit()
        assert kind.title and not kind.title.endswith(".") and kind.text.strip().endswith(".")
        assert bool(kind.wrong) == bool(kind.right)
    assert {kind.code for kind in KINDS} - {kind.code for kind in SHOWN} == WITHOUT_PROGRAMS


@pytest.mark.parametrize("kind", SHOWN, ids=[kind.code for kind in SHOWN])
def test_the_wrong_program_raises_the_error(kind, tmp_path):
    with pytest.raises(CompileError) as caught:
        printed_by(kind.wrong, tmp_path)
    error = caught.value
    assert error.code == kind.code, str(error)
    lines = str(error).splitlines()
    assert len(lines) <= 15 and lines[-1] == f"more: jitlite explain {kind.code}"
    assert pickle.loads(pickle.dumps(error)).code == kind.code


@pytest.mark.parametrize("kind", SHOWN, ids=[kind.code for kind in SHOWN])
def test_the_right_program_prints_what_eager_python_prints(kind, tmp_path):
    scripted = printed_by(kind.right, tmp_path)
    with options.override(enabled=False):
        eager = printed_by(kind.right, tmp_path)
    if "CompilationUnit" not in kind.right and "parse(" not in kind.right:  # what has no eager form prints the same
        assert "jitlite.script" in kind.right or "jitlite.trace" in kind.right
    assert scripted == eager and scripted.strip()


@pytest.fixture(scope="module")
def nodes():
    """All nodes of Python's trees of the package, with their file."""
    return [(path, node) for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]


def test_every_error_of_the_compiler_has_a_kind(nodes):
    """The classes are called where kinds make their errors, and nowhere else."""
    classes = {"CompileError", "NotSupportedError", "AnnotationError"}
    for path, node in nodes:
        if isinstance(node, ast.Call) and path.name != "kinds.py":
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            assert name not in classes, f"{path}:{node.lineno}"


def test_every_kind_is_used(nodes):
    used = {
        node.id if isinstance(node, ast.Name) else node.attr
        for _, node in nodes
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    declared = {
        target.id
        for path in (PACKAGE / "base" / "errors").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and not target.id.startswith("_")
    }
    assert len(declared) == len(KINDS) and not declared - used


def test_a_code_is_found_in_either_case():
    assert kind_of_code("j0101") is kind_of_code("J0101") is not None
    assert kind_of_code("J9999") is None


def test_an_error_of_a_users_own_has_no_code():
    error = CompileError("mine")
    assert error.code is None and str(error) == "mine"
