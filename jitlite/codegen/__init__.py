"""From graphs to text: Python that runs, and the TorchScript of archives."""
