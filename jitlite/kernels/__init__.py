"""Machine code for programs over tensors, through llvmlite.

A *tensor region* is a run of neighbouring nodes of a graph that compute with tensors, and with numbers and lists beside
them, loops and branches included. In machine code a tensor is no object: it is a place in memory that is known while
code is written (`Place`), so views cost nothing, and elementwise operators are fused into the loops that store their
results.

How a region becomes machine code:

    rules.py, regions.py   which nodes qualify, and why others do not
    facts.py               what is known of the tensors of one call: dtype, rank, which sizes are 1, order of dimensions
    lower*.py              nodes and facts -> loop IR
    loop_ir.py             loops over memory; `printing.py` shows them, `interpret.py` runs them in Python
    emit.py, nests.py ...  loop IR -> LLVM's language
    torch_abi.py           what is known of torch's binary layout, each item tried at first use
    backend.py             when that happens, and what runs meanwhile

A kernel is made for facts, and looks whether they hold at each call. Where they do not, or something comes up that
only Python does right (an exception, an empty list, a size that does not fit), the kernel says "not done" before
anything can be seen of it, and the region runs in Python from its start: results and exceptions are eager's.
"""
