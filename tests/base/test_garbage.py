"""Work during which no garbage is collected."""

from __future__ import annotations

import gc
import subprocess
import sys

from jitlite.base.garbage import uncollected


def test_the_collector_rests_and_is_as_it_was():
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def run(code: str) -> None:
    """Run code in a process of its own: here the tests have set objects aside."""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_made_meanwhile_counts_as_old():
    run(
        "import gc\n"
        "from jitlite.base.garbage import uncollected\n"
        "with uncollected():\n"
        "    made = [[] for _ in range(10)]\n"
        "    assert any(found is made for found in gc.get_objects(generation=0))\n"
        "assert any(found is made for found in gc.get_objects(generation=2))"
    )


def test_what_a_program_has_set_aside_stays_there():
    run(
        "import gc; gc.freeze()\n"
        "from jitlite.base.garbage import uncollected\n"
        "with uncollected():\n"
        "    pass\n"
        "assert gc.get_freeze_count() > 0"
    )
