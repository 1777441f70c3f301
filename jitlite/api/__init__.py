"""What users call: `script`, `trace`, `fork`, the back end of `torch.compile`."""
