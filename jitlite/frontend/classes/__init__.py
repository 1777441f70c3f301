"""Classes and modules as types."""
