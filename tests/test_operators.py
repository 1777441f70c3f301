"""Every operator that jitlite declares does what Python does."""

from pathlib import Path

from jitlite.ir.ops import declared_ops

ROOT = Path(__file__).parents[1]
DECLARED = {o.schema.qualified: o for o in declared_ops()}
