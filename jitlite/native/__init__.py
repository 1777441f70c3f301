"""Machine code for loops over numbers, through llvmlite.

A *region* is a run of neighbouring nodes of a graph, with at least one loop, that compute with ints, floats and bools,
with lists and dicts that the region itself makes, and with elements of lists from outside. Python runs it until it has
taken about as long as compiling it takes; then it becomes a function of machine code. Without llvmlite Python goes on.

Why results are Python's: ints are 64 bits wide, and whatever goes another way in Python than in 64 bits makes the
region *bail out*: an overflow, a division by zero, a position outside a list, a key that is missing, an argument that
is not just an `int`, `float` or `bool` where one is declared, no memory. Then the function says "not done" and the
region runs in Python, from its start. That is sound because a region does nothing that can be seen before it is done:
it prints nothing, draws no random numbers, raises nothing, and writes only to lists and dicts that it has made and that
nothing else knows. So exceptions come from Python too, with the script's traceback.

How to read: `regions.py` says which nodes qualify, `rules.py` and `containers.py` how operators are emitted,
`emit.py` control flow, `boxing.py` how values cross the border, `entry.py` makes the callable, `policy.py` says when.
"""
