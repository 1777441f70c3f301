"""Python that runs a graph."""
