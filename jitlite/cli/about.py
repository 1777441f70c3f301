"""Commands that show jitlite itself."""

from __future__ import annotations

import argparse

from jitlite import demo as demonstration
from jitlite import doctor as examination
from jitlite.cli.commands import command


@command("demo", "watch a real function go through every stage, and run")
def demo(options: argparse.Namespace) -> int:
    """Show the stages of a sample function."""
    return demonstration.run(options.json)


@command("doctor", "print versions and check that jitlite works here")
def doctor(options: argparse.Namespace) -> int:
    """Check the installation."""
    return examination.run(options.json)
