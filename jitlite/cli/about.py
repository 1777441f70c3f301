"""Commands that show jitlite itself."""

from __future__ import annotations

import argparse

from jitlite.cli import demo as demonstration
from jitlite.cli.commands import command


@command("demo", "watch a real function go through every stage, and run")
def demo(options: argparse.Namespace) -> int:
    """Show the stages of a sample function."""
    return demonstration.run(options.json)
