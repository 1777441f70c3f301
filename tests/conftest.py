"""Options of the test suite."""

from __future__ import annotations

import pytest


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
