"""The command that looks at the installation: like what it calls, it needs the standard library alone."""

from __future__ import annotations

import argparse

from jitlite.cli import doctor as examination
from jitlite.cli.commands import command


@command("doctor", "print versions, what works with this torch, and check that jitlite works here")
def doctor(options: argparse.Namespace) -> int:
    """Check the installation."""
    return examination.run(options.json)
