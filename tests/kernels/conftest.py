"""Most tests of kernels run LLVM's quick code: it computes the same bits (test_quick_code.py), and is there sooner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitlite.native import entry

AS_WELL_AS_CAN_BE = {"test_quick_code", "test_random_groups", "test_large_memory"}
"""Files whose kernels are compiled as users have them; so are those of all slow tests."""


@pytest.fixture(autouse=True, scope="module")
def quick_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Machine code of the file's tests takes a quarter of the time to make."""
    if request.module.__name__ in AS_WELL_AS_CAN_BE or request.config.getoption("-m") == "slow":
        yield
        return
    made = entry._engine_of

    def engine_of(text: str, *, is_plain: bool, quickly: bool = False) -> tuple[object, bool]:
        return made(text, is_plain=is_plain, quickly=is_plain)[0], False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "_engine_of", engine_of)
        yield
