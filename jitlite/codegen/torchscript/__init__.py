"""A graph as the TorchScript of an archive."""
