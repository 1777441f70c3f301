"""torch's own names for what jitlite has: `drop_in`, graphs, nodes, types, schemas, flags."""
