"""Questions about graphs, which change nothing: aliasing, effects, contents, promotion, layers."""
