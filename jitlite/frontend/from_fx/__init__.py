"""From FX graphs to graphs."""
