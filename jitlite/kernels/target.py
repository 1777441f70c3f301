"""What the vectors of this machine are: how wide, and which functions on them libtorch has."""

from __future__ import annotations

import functools
import importlib

from jitlite.base.records import Record


class VectorTarget(Record, eq=True):
    """A machine.

    Attributes:
        bytes: of a vector register.
        has_halves: does it convert f16 by itself?
        attributes: what the definition of a function that has vectors needs, in LLVM's language.
    """

    bytes: int
    has_halves: bool = False

    @property
    def attributes(self) -> str:
        bits = self.bytes * 8
        return f'"min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}"' if bits > 128 else ""


@functools.cache
def host() -> VectorTarget:
    """This machine, as LLVM sees it."""
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    has_halves = bool(features.get("f16c"))
    if all(features.get(name) for name in ("avx512f", "avx512bw", "avx512dq", "avx512vl")):
        return VectorTarget(64, has_halves)
    return VectorTarget(32 if features.get("avx2") and features.get("fma") else 16, has_halves)


@functools.cache
def library_is_tuned() -> bool:
    """Is the code of the library for matrices written for this processor? That of Intel, which torch brings, is for
    Intel's."""
    name: str = importlib.import_module("llvmlite.binding").get_host_cpu_name()
    return not name.startswith("znver")


def attributes() -> str:
    """What `define` needs on this machine for a function that has vectors."""
    return host().attributes


def function_lanes(target: VectorTarget, bytes_of_element: int) -> int:
    """How many lanes SLEEF's functions take; 0 where libtorch has none."""
    return target.bytes // bytes_of_element if target.bytes >= 32 else 0
