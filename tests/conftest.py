"""Options of the test suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("JITLITE_BACKGROUND", "0")  # tests know what has been compiled when; also in processes of theirs
os.environ.setdefault("JITLITE_CACHE_DIR", "off")  # and nothing is left in the user's folder

from jitlite.base import locks, options  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept",
        action="store_true",
        help="rewrite golden files with what comes out now; tests whose file was rewritten still fail in that run",
    )


@pytest.fixture
def accept(request: pytest.FixtureRequest) -> bool:
    """Are golden files to be rewritten?"""
    return bool(request.config.getoption("--accept"))


@pytest.fixture
def without_kernels() -> Iterator[None]:
    """No kernel becomes ready in the middle of a test that compares numbers exactly: it adds in another order."""
    with options.override(native="off"):
        yield


@pytest.fixture(autouse=True, scope="session")
def locks_in_order() -> Iterator[None]:
    """Every lock of jitlite looks, in every test, whether it is acquired in order."""
    before = locks.check_order()
    yield
    locks.check_order(before)


@pytest.fixture(autouse=True, scope="module")
def survivors_set_aside() -> None:
    """What outlives a file of tests is not looked at by the garbage collector again: that took a fifth of the time."""
    gc.collect()
    gc.freeze()
