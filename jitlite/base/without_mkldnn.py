"""Operators of torch run without the library mkldnn, whose layers are made of no other operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_mkldnn() -> Iterator[None]:
    """Let torch not choose layers of mkldnn."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
