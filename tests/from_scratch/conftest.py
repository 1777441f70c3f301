"""Lets the tests of the book import its chapters."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent / "docs" / "from_scratch" / "code"))
