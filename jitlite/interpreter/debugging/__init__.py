"""The debugger of scripts: it looks on while the stack machine runs, and talks to its user in pdb's words."""
