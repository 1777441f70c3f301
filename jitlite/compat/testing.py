"""For those who test programs and tools that know TorchScript under the names of PyTorch.

`TORCH_NAMES` says what stands for what: a harness that hands out jitlite in place of `torch.jit` looks names up
here that jitlite has under another name, and finds the rest in `jitlite` itself.
"""

from typing import TYPE_CHECKING

from jitlite.base.on_demand import names_on_demand

if TYPE_CHECKING:
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

__getattr__, __dir__ = names_on_demand(globals(), {"jitlite.compat.torch_names": " ".join(__all__)})
