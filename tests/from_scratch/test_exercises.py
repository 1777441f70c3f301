"""The exercises of the book can be solved, and their tests tell whether they are."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BOOK = Path(__file__).parent.parent.parent / "docs" / "from_scratch"
SOLUTIONS = Path(__file__).parent / "solutions"
STUBS = sorted((BOOK / "exercises").glob("ex*.py"))
IDS = [path.stem for path in STUBS]


def loaded(path, monkeypatch):
    """A module from a file, which others find by its name for the rest of the test."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def checks_of(implementation, monkeypatch):
    """The tests of an exercise, which look at this implementation of it."""
    monkeypatch.syspath_prepend(BOOK / "code")
    loaded(implementation, monkeypatch)
    module = loaded(BOOK / "exercises" / f"test_{implementation.name}", monkeypatch)
    return [function for name, function in vars(module).items() if name.startswith("test_")]


@pytest.mark.parametrize("path", STUBS, ids=IDS)
def test_a_solution_is_accepted(path, monkeypatch):
    for check in checks_of(SOLUTIONS / path.name, monkeypatch):
        check()


@pytest.mark.parametrize("path", STUBS, ids=IDS)
def test_what_the_reader_is_given_is_not_accepted(path, monkeypatch):
    checks = checks_of(path, monkeypatch)
    assert len(checks) >= 3
    for check in checks:
        with pytest.raises(Exception):
            check()


@pytest.mark.parametrize("path", STUBS, ids=IDS)
def test_a_page_leads_to_its_exercise(path):
    chapter = path.name[2]
    (page,) = BOOK.glob(f"{chapter}_*.md")
    assert f"exercises/{path.name}" in page.read_text() and f"exercises/test_{path.name}" in page.read_text()


def test_there_is_an_exercise_for_each_chapter():
    assert [path.name[2] for path in STUBS] == [path.name[2] for path in sorted((BOOK / "code").glob("ch*.py"))]
