"""Exercise 5: shorter code.

pytest docs/from_scratch/exercises/test_ex5_shorten.py
"""

from __future__ import annotations

from ch5_bytecode import Code


def shorten(code: Code) -> Code:
    """The code without the pairs `STORE r`, `LOAD r` that do nothing.

    They do nothing where they are neighbours, no other instruction loads r, and no jump leads to the LOAD. What jumps
    lead to is somewhere else afterwards.
    """
    raise NotImplementedError
