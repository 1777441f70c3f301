"""TorchScript archives: the files that `torch.jit.save` writes, read and written in pure Python."""
