"""Engines: what runs groups of operators instead of torch."""
