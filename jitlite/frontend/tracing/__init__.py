"""From calls of torch to graphs."""
