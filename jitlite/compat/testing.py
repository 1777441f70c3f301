"""For those who test programs and tools that know TorchScript under the names of PyTorch.

`TORCH_NAMES` says what stands for what: a harness that hands out jitlite in place of `torch.jit` looks names up
here that jitlite has under another name, and finds the rest in `jitlite` itself.
"""

from jitlite.compat.torch_names import (
    TORCH_NAMES,
    create_function_from_graph,
    parse_ir,
    register_decomposition,
    rewrite_pattern,
    run_pass,
)

__all__ = [
    "TORCH_NAMES", "create_function_from_graph", "parse_ir", "register_decomposition", "rewrite_pattern", "run_pass",
]  # fmt: skip
