"""Modules whose attributes are built into their methods."""
