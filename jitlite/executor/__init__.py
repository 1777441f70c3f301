"""How a graph is run: plans, specialized graphs, differentiable groups, explanations."""
