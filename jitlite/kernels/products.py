"""Products."""

from __future__ import annotations

from dataclasses import dataclass

from jitlite.kernels.context import KernelCode
from jitlite.kernels.loop_ir import Product
from jitlite.native.code import NotNative


@dataclass(frozen=True)
class Target:
    memory: object
    symbol: object
    bytes: int = 64


def emit_product(kc: KernelCode, product: Product, target: Target) -> None:
    raise NotNative("products are still to come")
