"""From source text to a cleaned graph."""
