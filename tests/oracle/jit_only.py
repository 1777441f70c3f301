"""The operators that torch registers for TorchScript but not with its dispatcher.

Run this file to write the list anew: `python -m tests.oracle.jit_only`.
"""

from pathlib import Path

import torch

LIST = Path(__file__).parent / "data" / "jit_only_schemas.txt"
NAMESPACES = ("aten", "prim")


def jit_only_schemas():
    """Their schemas in alphabetical order, as the installed torch prints them."""
    return sorted(
        str(schema)
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.partition("::")[0] in NAMESPACES
        and not torch._C._dispatch_has_kernel(".".join(filter(None, (schema.name, schema.overload_name))))
    )


def listed_schemas():
    """The torch version the list is of, and the schemas in it."""
    first, *lines = LIST.read_text().splitlines()
    return first.rpartition(" ")[2], lines


if __name__ == "__main__":
    version = torch.__version__.partition("+")[0]
    LIST.write_text("\n".join([f"# operators of TorchScript alone in torch {version}", *jit_only_schemas()]) + "\n")
