"""Public models and functions of packages that people use: what has once been compiled still is.

    pytest -m clients -s tests/clients            with a table for each package
    pytest -m clients --accept tests/clients      what works now is written down

Each model or function that eager Python runs with small arguments is compiled and run, with gradients. `works/` has a
file for each package with what worked; nothing that stands there may be refused, raise, or give something else than
eager Python.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from client_outcomes import WORKS, outcomes_of, table
from client_packages import MODULES

KNOWN = Path(__file__).parent / "works"


@pytest.mark.clients
@pytest.mark.parametrize("package", MODULES)
def test_what_worked_still_works(package, accept):
    file = KNOWN / f"{package}.txt"
    known = file.read_text().splitlines() if file.exists() else []
    try:
        outcomes = list(outcomes_of(package))
    except ImportError as error:
        pytest.skip(str(error))
    print(f"\n{table(package, outcomes)}")
    works = {o.name for o in outcomes if o.kind == WORKS}
    if accept:
        file.write_text("".join(f"{name}\n" for name in sorted(works | (set(known) - {o.name for o in outcomes}))))
    lost = [f"{o.name}: {o.kind} {o.text}" for o in outcomes if o.name in known and o.name not in works]
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize("package", MODULES)
def test_files_say_what_works_once_and_in_order(package):
    names = (KNOWN / f"{package}.txt").read_text().splitlines()
    assert names == sorted(set(names))
