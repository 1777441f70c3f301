"""What a block under `on_cpu()` runs on while it is traced.

A trace on fake tensors has nothing to run a block on. It runs on tensors of ones then, zeros where they are integers,
of the sizes of the examples, which tells the dtypes and sizes of what it gives. A size that an argument has, too, and
that varies there, is taken to vary with it; calls check that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from jitlite.base import torch_internals
from jitlite.base.errors.ways_out import NO_TRACE
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.tracing.traced_numbers import node_of, plain

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class StandIns:
    """Stand-ins for the parts of what a block reads.

    Attributes:
        values: numbers of Python's and tensors with contents.
    """

    def __init__(self, leaves: Sequence[object], range: SourceRange | None) -> None:
        self._leaves = leaves
        self._range = range
        self._mode: Any = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, _FAKE)), None)
        self.values = [_stand_in(leaf) for leaf in leaves]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within the `with` operators run on real tensors, whatever the trace runs on."""
        if self._mode is None:
            yield
            return
        try:
            with torch_internals.no_dispatch():
                yield
        except CompileError:
            raise
        except Exception as error:
            raise NO_TRACE(
                f"what on_cpu() leaves to Python does not run on tensors of ones: {type(error).__name__}: {error}",
                self._range, hint="trace with real tensors as examples and without dynamic_shapes",
            ) from error  # fmt: skip

    def followed(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the trace goes on with: the results, or fake tensors for them."""
        if self._mode is None:
            return list(results)
        varying: dict[int, dict[object, Any]] = {}
        sizes: list[Any] = [size for leaf in self._leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape]
        for size in sizes:
            if type(size) is not int:
                varying.setdefault(_hint(size), {})[size.node.expr] = size
        return [self._fake(result, varying) for result in results]

    def _fake(self, result: torch.Tensor, varying: Mapping[int, Mapping[object, Any]]) -> torch.Tensor:
        sizes: list[int] = []
        for size in result.shape:
            known = [*varying.get(size, {}).values()]
            if len(known) > 1:
                raise NO_TRACE(
                    f"which size of an argument the size {size} of a result under on_cpu() varies with is not known",
                    self._range, hint="trace with examples whose dimensions have different sizes",
                )  # fmt: skip
            sizes += known or [size]
        with self._mode:
            made = torch.empty(sizes, dtype=result.dtype, device=result.device)
        return made.requires_grad_(result.requires_grad)


_FAKE: Any = torch_internals.FakeTensor


def _stand_in(leaf: Any) -> object:
    """What the block gets in place of a part."""
    if node_of(leaf) is not None:
        return plain(leaf)
    if isinstance(leaf, _NUMBERS):
        return leaf.node.hint
    if not isinstance(leaf, _FAKE):
        return leaf
    sizes, strides = ([_hint(n) for n in numbers] for numbers in (leaf.shape, leaf.stride()))
    with torch_internals.no_dispatch(), torch.no_grad():
        made = torch.empty_strided(sizes, strides, dtype=leaf.dtype, device="cpu")
        made.fill_(1 if leaf.is_floating_point() or leaf.is_complex() else 0)
    return made.requires_grad_(leaf.requires_grad)


def _hint(size: Any) -> int:
    return size if type(size) is int else int(size.node.hint)
