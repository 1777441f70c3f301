"""Rewriting code that uses torch.jit so that it uses jitlite: `jitlite migrate PATH...`."""
