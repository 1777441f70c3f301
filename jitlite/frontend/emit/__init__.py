"""From trees to graphs."""
